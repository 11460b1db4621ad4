// Starts the local cloud and the browser for the tests.
import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { chromium } from "playwright-core";

export const root = resolve(import.meta.dirname, "../..");
export const output = join(root, "tests/output/browser");

export const freePort = () =>
  new Promise((done) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => done(port));
    });
  });

/** Starts the local cloud without any sale. */
export async function startCloud() {
  const port = process.env.BROWSER_PORT || (await freePort());
  const data = mkdtempSync(join(tmpdir(), "seckill-browser-"));
  const cloud = spawn(
    join(root, "target/debug/seckill-local"),
    ["--port", String(port), "--data-dir", data, "--no-demo"],
    { cwd: root, stdio: ["ignore", "pipe", "pipe"] },
  );
  let log = "";
  for (const stream of [cloud.stdout, cloud.stderr])
    stream.on("data", (text) => {
      log += text;
    });
  const base = `http://127.0.0.1:${port}`;
  for (let attempts = 0; ; attempts += 1) {
    if (cloud.exitCode !== null || attempts > 300) throw new Error(`the local cloud did not start:\n${log}`);
    if (
      await fetch(`${base}/_local/health`).then(
        (answer) => answer.ok,
        () => false,
      )
    )
      break;
    await new Promise((done) => setTimeout(done, 100));
  }
  const stop = async () => {
    cloud.kill("SIGINT");
    await new Promise((done) => (cloud.exitCode === null ? cloud.once("exit", done) : done()));
    rmSync(data, { recursive: true, force: true });
  };
  return { base, stop };
}

export function startBrowser() {
  mkdirSync(output, { recursive: true });
  const args = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
  ];
  return chromium.launch({ executablePath: process.env.CHROMIUM || "/usr/bin/chromium", headless: true, args });
}

export const DESKTOP = { viewport: { width: 1280, height: 900 } };
export const PHONE = { viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, isMobile: true, hasTouch: true };

/** Saves a screenshot of the whole page. */
export async function picture(page, name) {
  await page.evaluate(() => {
    scrollTo(0, 0);
    document.querySelector("#toast")?.classList.remove("shown");
  });
  await page.screenshot({ path: join(output, `${name}.png`), fullPage: true, animations: "disabled" });
}

/** Calls `look` every 100 ms until it returns something; fails after `seconds`. */
export async function until(what, seconds, look) {
  for (const end = Date.now() + seconds * 1000; Date.now() < end;) {
    const found = await look();
    if (found) return found;
    await new Promise((done) => setTimeout(done, 100));
  }
  throw new Error(`not within ${seconds} s: ${what}`);
}
