// A whole sale in real browsers: an operator sets it up in the console, two buyers race for the last unit, one of them
// cancels, the other buys and pays, and each sees what happens without reloading the page.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { after, before, test } from "node:test";
import { DESKTOP, PHONE, picture, startBrowser, startCloud, until } from "./cloud.mjs";

let cloud;
let browser;
before(async () => {
  cloud = await startCloud();
  browser = await startBrowser();
});
after(async () => {
  await browser?.close();
  await cloud?.stop();
});

/** Opens a page in a window of its own. Errors and WebSocket messages are collected in the page. */
async function open(path, options = DESKTOP) {
  const context = await browser.newContext({ locale: "en-US", timezoneId: "Asia/Shanghai", ...options });
  const page = await context.newPage();
  page.problems = [];
  page.on("pageerror", (error) => page.problems.push(String(error)));
  page.on("console", (message) => {
    if (message.type() === "error" && !/Failed to load resource/.test(message.text()))
      page.problems.push(message.text());
  });
  page.on("dialog", (dialog) => dialog.accept(dialog.type() === "prompt" ? "bank transfer" : undefined));
  page.framesReceived = [];
  page.on("websocket", (socket) =>
    socket.on("framereceived", (frame) => page.framesReceived.push(JSON.parse(frame.payload))),
  );
  await page.goto(cloud.base + path);
  return page;
}

async function signIn(page, name) {
  await page.click("#sign-in-button");
  await page.fill("#name", name);
  await page.press("#name", "Enter");
  await page.waitForSelector(".who");
}

const press = (page, item) => page.locator(`[data-item="${item}"] .press`);
const pressSays = (page, item, words, seconds = 15) =>
  until(`the button says ${words}`, seconds, async () => words.test(await press(page, item).innerText()));
const fill = (page, name, value) => page.fill(`[name="${name}"]`, String(value));
/** A time as datetime-local takes it, in the time zone of the page. */
const at = (page, ms) =>
  page.evaluate((ms) => {
    const date = new Date(ms);
    return new Date(date.getTime() - date.getTimezoneOffset() * 60000).toISOString().slice(0, 19);
  }, ms);

let operator;
let saleId;

test("an operator creates a sale, corrects what the form rejects, and preheats it", async () => {
  operator = await open("/console");
  await picture(operator, "console-signed-out");
  await signIn(operator, "operator");
  await operator.click("#new-sale");
  const startsAt = Math.ceil(Date.now() / 1000) * 1000 + 12000;
  await fill(operator, "name", "11.11 <b>Night</b>");
  await fill(operator, "startsAt", await at(operator, startsAt));
  await fill(operator, "endsAt", await at(operator, startsAt - 60000));
  await fill(operator, "paymentWindowSeconds", 600);
  await fill(operator, "items[0].itemId", "phone");
  await fill(operator, "items[0].name", "Phone 手机");
  await fill(operator, "items[0].price", "699.00");
  await fill(operator, "items[0].originalPrice", "999.00");
  await fill(operator, "items[0].stock", 1);
  await operator.click("text=+ Add an item");
  await fill(operator, "items[1].itemId", "mug");
  await fill(operator, "items[1].name", "Mug 杯子");
  await fill(operator, "items[1].price", "9.90");
  await fill(operator, "items[1].stock", 50);
  await fill(operator, "items[1].limitPerBuyer", 2);
  await operator.click("#save-sale");
  const why = operator.locator('[data-field="endsAt"] .why');
  await until("the form rejects the end time", 10, async () => (await why.innerText()).length > 0);
  await picture(operator, "console-form-invalid");
  await fill(operator, "endsAt", await at(operator, startsAt + 3600000));
  await operator.click("#save-sale");
  await operator.waitForSelector("#sale-title");
  assert.equal(await operator.innerText("#sale-title"), "11.11 <b>Night</b>", "a name is text, never markup");
  assert.equal(await operator.innerText("#phase"), "Draft");
  saleId = new URL(operator.url()).searchParams.get("sale");
  await operator.click('[data-act="edit"]');
  await fill(operator, "name", "11.11 Night");
  await operator.click("#save-sale");
  await until("the name has changed", 10, async () => (await operator.innerText("#sale-title")) === "11.11 Night");
  await operator.click('[data-act="preheat"]');
  await until("the sale is scheduled", 10, async () => (await operator.innerText("#phase")) === "Scheduled");
  await operator.click("#tab-live");
  await until("the figures are shown", 10, async () => (await operator.innerText('[data-figure="free"]')) === "51");
  await picture(operator, "console-live-before");
  assert.deepEqual(operator.problems, []);
});

test("two buyers race for the last unit; after a cancel the other buys and pays, and sees it", async () => {
  const [ann, bob] = [await open("/"), await open("/", PHONE)];
  await ann.waitForSelector(`[data-sale="${saleId}"]`);
  await signIn(ann, "ann");
  await signIn(bob, "bob");
  if (await press(ann, "phone").isDisabled()) {
    assert.match(await press(ann, "phone").innerText(), /Opens in|Opening/);
    await Promise.all([picture(ann, "shop-before-desktop-light"), picture(bob, "shop-before-phone-light")]);
  }
  await Promise.all([ann, bob].map((page) => pressSays(page, "phone", /Buy now/, 20)));
  await Promise.all([picture(ann, "shop-open-desktop-light"), picture(bob, "shop-open-phone-light")]);
  // One of them uses only the keyboard.
  await press(ann, "phone").focus();
  await Promise.all([ann.keyboard.press("Enter"), press(bob, "phone").tap()]);
  const winner = await until("one of them gets the unit", 15, async () => {
    for (const page of [ann, bob]) if (/Yours/.test(await press(page, "phone").innerText())) return page;
    return null;
  });
  const loser = winner === ann ? bob : ann;
  await pressSays(loser, "phone", /may come back/);
  assert.ok(await press(loser, "phone").isDisabled());
  await Promise.all([picture(winner, "shop-yours"), picture(loser, "shop-sold-out")]);

  // The winner cancels, and the loser buys the unit that came back.
  await winner.click('[data-status="PENDING_PAYMENT"] [data-act="cancel"]');
  await winner.waitForSelector('[data-status="CLOSED"]');
  await pressSays(loser, "phone", /Buy now/, 10);
  await press(loser, "phone").click();
  await pressSays(loser, "phone", /Yours – pay within \d\d:\d\d/);
  await pressSays(winner, "phone", /may come back/, 10);

  // The loser pays on the provider's page, in another tab. This page updates by itself.
  await loser.click('[data-act="wechat"]');
  await loser.waitForSelector(".qr");
  await picture(loser, "shop-pay-code");
  await loser.evaluate(() => {
    window.isSamePage = true;
  });
  const polls = [];
  loser.on("request", (request) => {
    if (/\/orders(\/|$)/.test(new URL(request.url()).pathname)) polls.push(request.url());
  });
  const [provider] = await Promise.all([loser.context().waitForEvent("page"), loser.click('[data-act="open"]')]);
  await provider.waitForLoadState();
  await picture(provider, "sandbox-pay");
  await provider.getByRole("button", { name: /^Pay/ }).first().click();
  await provider.waitForLoadState();
  await loser.waitForSelector('[data-status="PAID"]');
  assert.ok(await loser.evaluate(() => window.isSamePage), "the page was not reloaded");
  assert.deepEqual(polls, [], "the page did not poll");
  const pushed = loser.framesReceived.filter((order) => order.status === "PAID");
  assert.ok(pushed.length > 0, "the update came over the WebSocket");
  await pressSays(loser, "phone", /Paid/);
  await picture(loser, "shop-paid");

  // After a refund the unit is on sale again, for the buyer who cancelled.
  await loser.click('[data-status="PAID"] [data-act="refund"]');
  await loser.waitForSelector('[data-status="REFUNDED"]');
  await pressSays(winner, "phone", /Buy now/, 10);
  assert.deepEqual([...ann.problems, ...bob.problems], []);
  await ann.context().close();
  await bob.context().close();
});

test("a page without a WebSocket polls, and shows the same", async () => {
  const context = await browser.newContext({ locale: "en-US", ...DESKTOP });
  const page = await context.newPage();
  page.on("dialog", (dialog) => dialog.accept());
  await page.routeWebSocket(/\/ws/, (socket) => socket.close());
  await page.goto(cloud.base);
  await signIn(page, "cat");
  await press(page, "mug").click();
  await pressSays(page, "mug", /Yours/, 20);
  assert.equal(await page.innerText("#link"), "Reconnecting");
  await context.close();
});

test("the console follows the sale live, adds stock, pauses and resumes, and the audit agrees", async () => {
  const path = () => operator.locator(".chart path").first().getAttribute("d");
  const before = await path();
  const free = async () => Number(await operator.innerText('[data-figure="free"]'));
  const was = await free();
  await operator.fill(`form:has([data-act="restock-phone"]) input`, "5");
  await operator.click('[data-act="restock-phone"]');
  await until("five more units are free", 10, async () => (await free()) === was + 5);
  // The answers to another restock are lost. Pressing again repeats the same restock instead of adding five more.
  const keys = [];
  operator.on("request", (request) => {
    if (request.url().endsWith("/restock")) keys.push(request.headers()["idempotency-key"]);
  });
  await operator.route("**/restock", async (route) => {
    await route.fetch();
    await route.abort();
  });
  await operator.fill(`form:has([data-act="restock-phone"]) input`, "5");
  await operator.click('[data-act="restock-phone"]');
  await until("the retries are used up", 30, async () => /No connection/.test(await operator.innerText("#toast")));
  await operator.unroute("**/restock");
  const attempts = keys.length;
  await operator.click('[data-act="restock-phone"]');
  await until("the restock is done", 10, async () => /Done/.test(await operator.innerText("#toast")));
  assert.ok(keys.length > attempts && new Set(keys).size === 1, `one restock has one idempotency key: ${keys}`);
  await until("the five units are added once", 10, async () => (await free()) === was + 10);
  await until("the chart moved", 10, async () => (await path()) !== before);
  // The line of requests rises above zero: the figures that the functions measured arrive here.
  const requests = operator.locator(".chart").nth(1).locator("path").first();
  await until(
    "requests were measured",
    40,
    async () =>
      new Set([...((await requests.getAttribute("d")) || "").matchAll(/,([\d.]+)/g)].map((match) => match[1])).size > 1,
  );
  await picture(operator, "console-live");

  const buyer = await open("/");
  await operator.click('[data-act="pause"]');
  await until("the sale is paused", 10, async () => (await operator.innerText("#phase")) === "Paused");
  await pressSays(buyer, "phone", /Paused/, 10);
  await operator.click('[data-act="resume"]');
  await pressSays(buyer, "phone", /Buy now/, 10);

  // A running sale can be renamed; its prices cannot be changed.
  await operator.click('[data-act="edit"]');
  assert.ok(
    (await operator.isDisabled('[name="items[0].price"]')) && (await operator.isEnabled('[name="items[0].name"]')),
  );
  await fill(operator, "name", "11.11 Late night");
  await operator.click("#save-sale");
  await until("the name has changed", 10, async () => (await operator.innerText("#sale-title")) === "11.11 Late night");
  await until(
    "the storefront shows the new name",
    15,
    async () => (await buyer.innerText(`[data-sale="${saleId}"] h2`)) === "11.11 Late night",
  );
  await operator.click("#tab-audit");
  await operator.waitForSelector(".verdict");
  assert.match(await operator.innerText(".verdict"), /Everything adds up/);
  await picture(operator, "console-audit");
  assert.deepEqual([...operator.problems, ...buyer.problems], []);
  await buyer.context().close();
});

test("a dead letter is shown with its reason, and can be redriven", async () => {
  const stack = await fetch(`${cloud.base}/_local/stack`).then((answer) => answer.json());
  const sent = await fetch(stack.live.endpoint, {
    method: "POST",
    headers: {
      "x-amz-target": "AmazonSQS.SendMessage",
      "content-type": "application/x-amz-json-1.0",
      authorization: "AWS4-HMAC-SHA256 Credential=AKIALOCALROOT0000000/x",
    },
    body: JSON.stringify({ QueueUrl: stack.live.outputs.OrdersQueueUrl, MessageBody: "<script>not an order</script>" }),
  });
  assert.equal(sent.status, 200, await sent.text());
  const letters = operator.locator('[data-letters="orders"] tbody tr');
  await until("the dead letter is shown", 20, async () => {
    await operator.click("#letters");
    await operator.waitForTimeout(500);
    return (await letters.count()) === 1;
  });
  assert.match(await letters.first().innerText(), /<script>not an order<\/script>/);
  await picture(operator, "console-dead-letters");
  await operator.click('[data-act="redrive-orders"]');
  await until("it was redriven", 10, async () => /1 redriven/.test(await operator.innerText("#toast")));
});

test("a refund that the provider refuses is shown with its words, and resolved by an operator", async () => {
  const ask = async (path, options = {}) => {
    const answer = await fetch(`${cloud.base}${path}`, options);
    return answer.json();
  };
  const { token } = await ask("/_local/token", { method: "POST", body: JSON.stringify({ sub: "refused" }) });
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
  const post = (path, body) => ask(path, { method: "POST", headers, body: JSON.stringify(body) });
  const { orderId } = await post("/seckill", { saleId, itemId: "phone", quantity: 1 });
  await until("there is an order", 10, async () => {
    return (await ask(`/orders/${orderId}`, { headers })).status === "PENDING_PAYMENT";
  });
  const payment = await post(`/orders/${orderId}/payments`, { method: "wechat" });
  await post(`/_sandbox/payments/${payment.paymentId}`, { action: "pay" });
  await until("it is paid", 10, async () => (await ask(`/orders/${orderId}`, { headers })).status === "PAID");
  await post("/_sandbox/moods/wechat", { mood: "refunds-refused" });
  assert.equal((await post(`/orders/${orderId}/refund`, {})).status, "REFUNDING");
  await operator.click("#money");
  const matter = operator.locator('[data-matter="REFUND_REFUSED"]');
  await until("the matter is shown", 10, async () => (await matter.count()) === 1);
  const text = await matter.innerText();
  assert.ok(text.includes(orderId) && text.includes("退款期限"), text);
  await picture(operator, "console-money");
  await operator.click('[data-act="resolve-REFUNDED_BY_HAND"]');
  await until("it is resolved", 10, async () => (await matter.count()) === 0);
  assert.equal((await ask(`/orders/${orderId}`, { headers })).status, "REFUNDED");
  await post("/_sandbox/moods/wechat", { mood: "well" });
});

const json = (route, body, status = 200) =>
  route.fulfill({ status, contentType: "application/json", body: JSON.stringify(body) });

/** Opens a page of a shop with an issuer, which returns the browser with the parameters that `back` gives. */
async function openWithIssuer(path, back, settings = {}) {
  const context = await browser.newContext({ locale: "en-US", ...DESKTOP });
  const page = await context.newPage();
  const base = cloud.base;
  await page.route("**/config.json", (route) =>
    json(route, {
      shopName: "Shop",
      apiUrl: "",
      wsUrl: "",
      issuer: base,
      clientId: "pages",
      scope: "openid",
      ...settings,
    }),
  );
  await page.route("**/.well-known/openid-configuration", (route) =>
    json(route, { authorization_endpoint: `${base}/authorize`, token_endpoint: `${base}/oauth/token` }),
  );
  await page.route("**/authorize?*", (route) => {
    const asked = Object.fromEntries(new URL(route.request().url()).searchParams);
    route.fulfill({ status: 302, headers: { location: `${asked.redirect_uri}?${new URLSearchParams(back(asked))}` } });
  });
  await page.goto(base + path);
  return page;
}

test("a buyer signs in at the issuer: authorization code with PKCE", async () => {
  let asked;
  const base = cloud.base;
  const page = await openWithIssuer("/", (question) => {
    asked = question;
    return { code: "c0de", state: asked.state };
  });
  await page.route("**/oauth/token", async (route) => {
    const sent = Object.fromEntries(new URLSearchParams(route.request().postData()));
    const proof = createHash("sha256").update(sent.code_verifier).digest("base64url");
    if (sent.code !== "c0de" || proof !== asked.code_challenge || sent.client_id !== "pages")
      return route.fulfill({ status: 400 });
    const { token } = await fetch(`${base}/_local/token`, {
      method: "POST",
      body: JSON.stringify({ sub: "dana" }),
    }).then((answer) => answer.json());
    return json(route, { access_token: token });
  });
  await page.click("#sign-in-button");
  await page.waitForSelector("#who");
  assert.equal(await page.innerText("#who"), "dana");
  assert.equal(asked.code_challenge_method, "S256");
  assert.equal(new URL(page.url()).search, "", "the code is removed from the address");
  await page.context().close();
});

test("a failed sign-in says why", async () => {
  const refused = (asked) => ({ error: "access_denied", error_description: "Not today.", state: asked.state });
  const code = (asked) => ({ code: "c0de", state: asked.state });
  const none = () => {};
  for (const [back, answer, words] of [
    [refused, none, /Not today/],
    [code, (route) => json(route, { error: "invalid_grant" }, 400), /invalid_grant/],
    [code, (route) => json(route, { access_token: "no JWT" }), /not a JWT/],
    [code, (route) => route.abort(), /Sign-in failed/],
  ]) {
    for (const path of ["/", "/console"]) {
      const page = await openWithIssuer(path, back);
      await page.route("**/oauth/token", answer);
      await page.click("#sign-in-button");
      await until(`${path} says ${words}`, 10, async () => words.test(await page.innerText("#toast").catch(() => "")));
      assert.equal(await page.locator(".who").count(), 0);
      assert.equal(new URL(page.url()).search, "", "reloading the page does not try again");
      await page.context().close();
    }
  }
});

test("a response in flight at sign-out is not shown to the next buyer", async () => {
  const page = await open("/");
  await signIn(page, "eve");
  await press(page, "mug").click();
  await page.waitForSelector('[data-status="PENDING_PAYMENT"]');
  await page.click("text=Sign out");
  // The buyer signs in again, and signs out while the ticket for the WebSocket is in flight.
  const late = [];
  const hold = async (route) => {
    const answer = await route.fetch();
    await new Promise((go) => late.push(go));
    await route.fulfill({ response: answer });
  };
  await page.route("**/ws-ticket", hold);
  await signIn(page, "eve");
  await until("a ticket is in flight", 10, () => late.length > 0);
  await page.click("text=Sign out");
  late.forEach((go) => go());
  await page.waitForTimeout(2000);
  assert.equal(await page.locator(".order").count(), 0);
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("only the payment methods in config.json are offered", async () => {
  const context = await browser.newContext({ locale: "en-US", ...DESKTOP });
  const page = await context.newPage();
  await page.route("**/config.json", (route) => json(route, { methods: ["stripe", "alipay"] }));
  await page.goto(cloud.base);
  await signIn(page, "fay");
  await press(page, "mug").click();
  await page.waitForSelector('[data-status="PENDING_PAYMENT"]');
  assert.deepEqual(await page.locator(".way").evaluateAll((ways) => ways.map((way) => way.dataset.act)), [
    "alipay",
    "stripe",
  ]);
  await context.close();
});

test("every page fits its window: wide and narrow, light and dark, English and Chinese", async () => {
  for (const [size, options] of [
    ["desktop", DESKTOP],
    ["phone", PHONE],
  ]) {
    for (const colorScheme of ["light", "dark"]) {
      for (const locale of ["en-US", "zh-CN"]) {
        const page = await open("/", { ...options, colorScheme, locale });
        await page.waitForSelector(".item");
        await signIn(page, `look-${size}-${colorScheme}-${locale}`);
        await press(page, "mug").click();
        await page.waitForSelector('[data-status="PENDING_PAYMENT"]');
        await page.click('[data-act="alipay"]');
        await page.waitForSelector(".code");
        const wide = await page.evaluate(
          () => document.documentElement.scrollWidth > document.documentElement.clientWidth,
        );
        assert.ok(!wide, `the storefront does not scroll sideways: ${size} ${locale}`);
        assert.equal(
          await page.evaluate(
            () =>
              [...document.querySelectorAll("button, a, input")].filter(
                (one) => !(one.innerText || one.getAttribute("aria-label") || one.labels?.length),
              ).length,
          ),
          0,
          "every control has an accessible name",
        );
        const name = `${size}-${colorScheme}-${locale.slice(0, 2)}`;
        await picture(page, `shop-${name}`);
        await page.goto(`${cloud.base}/console?sale=${saleId}`);
        await signIn(page, "operator");
        await page.waitForSelector('[data-figure="free"]');
        await until("figures", 10, async () => (await page.innerText('[data-figure="free"]')) !== "–");
        await page.waitForTimeout(2500);
        assert.ok(
          !(await page.evaluate(() => document.documentElement.scrollWidth > document.documentElement.clientWidth)),
          `the console does not scroll sideways: ${size} ${locale}`,
        );
        await picture(page, `console-${name}`);
        assert.deepEqual(page.problems, []);
        await page.context().close();
      }
    }
  }
});
