// The tour that `make demo` prints, walked through in a browser. It takes the pictures of docs/quickstart.md, so a step
// that no longer works, and a picture that no step takes, fail here. PICTURES is their folder, below the project.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { freePort, output, root, startBrowser, until } from "./cloud.mjs";

const folder = process.env.PICTURES ? join(root, process.env.PICTURES) : join(output, "quickstart");
const WINDOW = { locale: "en-US", viewport: { width: 1000, height: 900 } };
const taken = [];
let demo;
let said = "";
let data;
let base;
let browser;
let context;
let operator;

before(async () => {
  mkdirSync(folder, { recursive: true });
  data = mkdtempSync(join(tmpdir(), "seckill-tour-"));
  const port = await freePort();
  base = `http://127.0.0.1:${port}`;
  const options = ["--buyers", "120", "--units", "40", "--seconds", "15", "--port", String(port), "--data-dir", data];
  demo = spawn(join(root, "target/debug/seckill-demo"), options, { cwd: root, stdio: ["ignore", "pipe", "pipe"] });
  for (const stream of [demo.stdout, demo.stderr])
    stream.on("data", (text) => {
      said += text;
    });
  browser = await startBrowser();
  context = await browser.newContext(WINDOW);
});
after(async () => {
  await browser?.close();
  demo?.kill("SIGINT");
  await new Promise((done) => (!demo || demo.exitCode !== null ? done() : demo.once("exit", done)));
  rmSync(data, { recursive: true, force: true });
});

/** Takes the picture of a step, once notes and movements have gone. */
async function picture(page, name) {
  await page.evaluate(() => {
    scrollTo(0, 0);
    document.querySelector("#toast")?.classList.remove("shown");
  });
  await page.screenshot({ path: join(folder, `${name}.png`), animations: "disabled" });
  taken.push(`${name}.png`);
}

async function signIn(page, name) {
  await page.click("#sign-in-button");
  await page.fill("#name", name);
  await page.press("#name", "Enter");
  await page.waitForSelector(".who");
}

const phase = () => operator.innerText("#phase");
const press = (page) => page.locator('[data-item="phone"] .press');
const pressSays = (page, words) =>
  until(`the button says ${words}`, 30, async () => words.test(await press(page).innerText()));

test("make demo prints a tour with the steps of docs/quickstart.md", { timeout: 300_000 }, async () => {
  // The console is open during the sale, as for whoever follows the tour, so that its charts have something to show.
  await until("the sale is announced", 60, () => /console\?sale=\S+\n/.test(said));
  operator = await context.newPage();
  operator.on("dialog", (dialog) => dialog.accept());
  await operator.goto(said.match(/http\S+\/console\?sale=\S+/)[0]);
  await signIn(operator, "operator");
  await until("the tour is printed", 280, () => {
    assert.equal(demo.exitCode, null, said);
    return /Look behind the pages.*\n/.test(said);
  });
  const guide = readFileSync(join(root, "docs/quickstart.md"), "utf8");
  const printed = [...said.matchAll(/^ +(\d+)\. (.+?) {2,}/gm)].map((match) => `${match[1]}. ${match[2]}`);
  const written = [...guide.matchAll(/^## (\d+\. .+)$/gm)].map((match) => match[1]);
  assert.equal(printed.length, 10, said);
  assert.deepEqual(written, printed);
});

test("the operator looks at the sale, checks it and adds stock", { timeout: 120_000 }, async () => {
  await operator.click("#tab-live");
  const free = async () => Number(await operator.innerText('[data-figure="free"]'));
  await until("the figures are shown", 20, async () => (await operator.innerText('[data-figure="free"]')) !== "–");
  await picture(operator, "1-sale");
  await operator.click("#tab-audit");
  await operator.waitForSelector(".verdict");
  assert.match(await operator.innerText(".verdict"), /Everything adds up/);
  await picture(operator, "2-audit");
  await operator.click("#tab-live");
  await until("the figures are shown", 20, async () => (await operator.innerText('[data-figure="free"]')) !== "–");
  const before = await free();
  await operator.fill(`form:has([data-act="restock-phone"]) input`, "5");
  await picture(operator, "3-restock");
  await operator.click('[data-act="restock-phone"]');
  await until("there are more units", 20, async () => (await free()) >= before + 5);
});

test("a buyer presses, pays, and asks for the money back", { timeout: 120_000 }, async () => {
  const shop = await (await browser.newContext(WINDOW)).newPage();
  shop.on("dialog", (dialog) => dialog.accept());
  await shop.goto(base);
  await signIn(shop, "alice");
  await pressSays(shop, /Buy now/);
  await picture(shop, "4-storefront");
  await press(shop).click();
  await pressSays(shop, /Yours/);
  await shop.waitForSelector('[data-status="PENDING_PAYMENT"]');
  await picture(shop, "5-yours");
  await shop.click('[data-act="wechat"]');
  await shop.waitForSelector(".qr");
  const [provider] = await Promise.all([shop.context().waitForEvent("page"), shop.click('[data-act="open"]')]);
  await provider.waitForLoadState();
  await picture(provider, "6-provider");
  await provider.getByRole("button", { name: /^Pay/ }).first().click();
  await shop.waitForSelector('[data-status="PAID"]');
  await shop.bringToFront();
  await picture(shop, "7-paid");
  await shop.click('[data-status="PAID"] [data-act="refund"]');
  await shop.waitForSelector('[data-status="REFUNDED"]');
  await picture(shop, "8-refunded");

  await operator.click('[data-act="pause"]');
  await until("the sale is paused", 20, async () => (await phase()) === "Paused");
  await pressSays(shop, /Paused/);
  await picture(shop, "9-paused");
  await operator.click('[data-act="resume"]');
  await pressSays(shop, /Buy now/);
});

test("the operator looks behind the pages", { timeout: 60_000 }, async () => {
  await operator.bringToFront();
  await operator.click("#letters");
  await until("the dead letters are shown", 20, async () => /no dead letters/i.test(await operator.innerText("body")));
  await picture(operator, "10-dead-letters");
  const stack = await fetch(`${base}/_local/stack`).then((answer) => answer.json());
  assert.ok(stack.functions.length > 0 && stack.live.queues);
});

test("docs/quickstart.md shows exactly the pictures that were taken", () => {
  const guide = readFileSync(join(root, "docs/quickstart.md"), "utf8");
  const shown = [...guide.matchAll(/\]\(quickstart\/([^)]+\.png)\)/g)].map((match) => match[1]);
  assert.deepEqual(shown, taken);
});
