// The storefront: sales with a countdown by the server's clock, one button for each item, and a buyer's orders as they change.
import {
  $, announce, around, call, callPatiently, chooseLanguage, clock, config, duration, follow, h, isLocal, language, localTime, money, newKey, number,
  sayProblem, session, setText, signInAtIssuer, signInLocally, signInProblem, signOut, sleep, toast, words,
} from "/common.js";

const say = words({
  en: {
    title: "Flash sale", skip: "Skip to the sales", signIn: "Sign in", signOut: "Sign out", name: "Your name", nameHint: "Any name: this is the local system.",
    cancelDialog: "Close", noSales: "No sale is on or planned right now.", noSalesHint: "This page looks again by itself.", startsIn: "Starts in", endsIn: "Ends in",
    ended: "This sale is over", paused: "Paused for a moment", from: "from {time}", until: "until {time}", limit: "{n} per person", inStock: "In stock",
    low: "Almost gone", soldOut: "Sold out", buy: "Buy now", soon: "Opens in {time}", opening: "Opening…", queueing: "In the queue…", queued: "In the queue – yours in a moment",
    yours: "Yours – pay by {time}", paid: "Paid – it is yours", refunding: "Refund under way", back: "Sold out – may come back", backHint: "Unpaid orders go back on sale. This page keeps looking.",
    over: "Over", quantity: "Quantity", fewer: "One fewer", more: "One more", orders: "Your orders", live: "Live", polling: "Reconnecting", order: "Order",
    s_QUEUED: "In the queue", s_PENDING_PAYMENT: "To be paid", s_PAID: "Paid", s_CLOSED: "Closed", s_FAILED: "Failed", s_REFUNDING: "Refund under way", s_REFUNDED: "Refunded",
    r_TIMED_OUT: "not paid in time", r_CANCELLED: "cancelled", r_PAYMENT_FAILED: "the payment failed", r_CLAIM_LOST: "another order took its place", r_UNKNOWN_ITEM: "the item is gone",
    payWith: "Pay with", payBy: "Pay within", alipay: "Alipay", wechat: "WeChat Pay", "wechat-v2": "WeChat Pay v2", stripe: "Card (Stripe)", points: "{n} points",
    cancel: "Cancel order", refund: "Ask for a refund", cancelAsk: "Cancel this order? The unit goes back on sale.", refundAsk: "Return this order? The money goes back to you.",
    scan: "Scan to pay, or open the link.", goPay: "Pay on the provider's page.", open: "Open the payment page", yourPoints: "You have {n} points.", accepted: "It is held for you. Pay to keep it.", paidNow: "Paid. It is yours.",
    closedNow: "The order is closed: {why}.", refundedNow: "Refunded.", off: "{n} % off", expired: "Please sign in again.",
  },
  zh: {
    title: "限时秒杀", skip: "跳到活动", signIn: "登录", signOut: "退出", name: "您的名字", nameHint: "任意名字：这是本地系统。", cancelDialog: "关闭",
    noSales: "目前没有活动。", noSalesHint: "本页面会自动刷新。", startsIn: "距开始", endsIn: "距结束", ended: "活动已结束", paused: "活动暂停中", from: "{time} 开始",
    until: "{time} 结束", limit: "每人限购 {n} 件", inStock: "有货", low: "即将售罄", soldOut: "已抢光", buy: "立即抢购", soon: "{time} 后开抢", opening: "即将开抢…", queueing: "排队中…",
    queued: "排队中，马上就好", yours: "抢到了，请在 {time} 内付款", paid: "已付款，归您了", refunding: "退款中", back: "已抢光，可能返场", backHint: "未付款的订单会重新上架，本页面会持续关注。",
    over: "已结束", quantity: "数量", fewer: "减一件", more: "加一件", orders: "我的订单", live: "实时", polling: "重新连接中", order: "订单",
    s_QUEUED: "排队中", s_PENDING_PAYMENT: "待付款", s_PAID: "已付款", s_CLOSED: "已关闭", s_FAILED: "失败", s_REFUNDING: "退款中", s_REFUNDED: "已退款",
    r_TIMED_OUT: "超时未付款", r_CANCELLED: "已取消", r_PAYMENT_FAILED: "付款失败", r_CLAIM_LOST: "已被另一订单取代", r_UNKNOWN_ITEM: "商品已下架",
    payWith: "付款方式", payBy: "剩余付款时间", alipay: "支付宝", wechat: "微信支付", "wechat-v2": "微信支付 v2", stripe: "银行卡（Stripe）", points: "{n} 积分",
    cancel: "取消订单", refund: "申请退款", cancelAsk: "取消该订单？商品将重新上架。", refundAsk: "退货？款项将退还给您。", scan: "扫码付款，或打开链接。", goPay: "请在支付页面完成付款。", open: "打开付款页面",
    yourPoints: "您有 {n} 积分。", accepted: "已为您锁定，请尽快付款。", paidNow: "付款成功，归您了。", closedNow: "订单已关闭：{why}。", refundedNow: "已退款。", off: "省 {n}%", expired: "请重新登录。",
  },
});

// A provider that the shop has not set up is refused: config.json can name those that are.
const METHODS = ["alipay", "wechat", "stripe", "wechat-v2"].filter((method) => !config.methods || config.methods.includes(method));
// What the shop shows may be a second old: so long a refused press waits before it looks again.
const PRESS_AGAIN_MS = 1200;
const state = { sales: [], orders: new Map(), presses: new Map(), payments: new Map(), points: null, user: session("buyer"), link: "" };
const itemKey = (saleId, itemId) => `${saleId}/${itemId}`;

// ── Sales ────────────────────────────────────────────────────────────────────────────────────────────────────────
/** What a sale is now, by the server's clock: what the server said may have become old since. */
function phase(sale) {
  if (["PAUSED", "CLOSED", "ENDED"].includes(sale.status)) return sale.status === "PAUSED" && clock.now() >= Date.parse(sale.endsAt) ? "ENDED" : sale.status;
  if (clock.now() >= Date.parse(sale.endsAt)) return "ENDED";
  return clock.now() >= Date.parse(sale.startsAt) ? "OPEN" : "SCHEDULED";
}

/** The buyer's newest order of an item that still counts. */
function liveOrder(saleId, itemId) {
  const mine = [...state.orders.values()].filter((order) => order.saleId === saleId && order.itemId === itemId);
  return mine.filter((order) => ["QUEUED", "PENDING_PAYMENT", "PAID", "REFUNDING"].includes(order.status)).sort((one, other) => (one.orderId < other.orderId ? 1 : -1))[0];
}

function buttonOf(sale, item) {
  const order = liveOrder(sale.saleId, item.itemId);
  const press = state.presses.get(itemKey(sale.saleId, item.itemId));
  if (order) {
    if (order.status === "QUEUED") return { text: say("queued"), kind: "waiting", busy: true };
    if (order.status === "PENDING_PAYMENT") return { text: say("yours", { time: duration(Date.parse(order.payBy) - clock.now()) }), kind: "yours", act: () => showOrder(order.orderId) };
    if (order.status === "PAID") return { text: say("paid"), kind: "done", act: () => showOrder(order.orderId) };
    return { text: say("refunding"), kind: "done", act: () => showOrder(order.orderId) };
  }
  if (press && press.busy) return { text: say("queueing"), kind: "waiting", busy: true };
  switch (phase(sale)) {
    case "SCHEDULED": {
      const left = Date.parse(sale.startsAt) - clock.now();
      return { text: left < 1000 ? say("opening") : say("soon", { time: duration(left) }), kind: "soon", off: true };
    }
    case "OPEN":
      if (item.availability === "SOLD_OUT") return { text: say("back"), kind: "back", off: true, hint: say("backHint") };
      return { text: say("buy"), kind: "buy", act: () => buy(sale, item) };
    case "PAUSED":
      return { text: say("paused"), kind: "soon", off: true };
    default:
      return { text: item.availability === "SOLD_OUT" ? say("soldOut") : say("over"), kind: "back", off: true };
  }
}

/** A picture that every shop replaces: a colour of its own and the first letter. */
function picture(item) {
  let hash = 0;
  for (const letter of item.itemId) hash = (hash * 31 + letter.codePointAt(0)) % 6;
  return h("div", { class: `picture tone-${hash}`, "aria-hidden": "true" }, h("span", {}, [...item.name][0] || "?"));
}

function itemCard(sale, item) {
  const key = itemKey(sale.saleId, item.itemId);
  const saved = item.originalPrice > item.price ? Math.round((1 - item.price / item.originalPrice) * 100) : 0;
  const chip = h("span", { class: "chip" });
  const button = h("button", { class: "press", type: "button", onclick: () => button.act && button.act() });
  const hint = h("p", { class: "hint", "aria-live": "polite" });
  const titleId = `item-${sale.saleId}-${item.itemId}`;
  const title = h("h3", { id: titleId });
  const card = h("article", { class: "item", "aria-labelledby": titleId, "data-item": item.itemId },
    picture(item),
    h("div", { class: "about" },
      h("div", { class: "row" }, title, chip),
      h("p", { class: "price" }, h("strong", {}, money(item.price, item.currency)),
        saved > 0 ? h("s", {}, money(item.originalPrice, item.currency)) : null,
        saved > 0 ? h("span", { class: "off" }, say("off", { n: saved })) : null),
      h("p", { class: "fine" }, say("limit", { n: item.limitPerBuyer }), item.pointsPrice ? ` · ${say("points", { n: number(item.pointsPrice) })}` : ""),
      item.limitPerBuyer > 1 ? stepper(key, item) : null,
      button, hint));
  card.update = (nextSale, nextItem) => {
    const looks = { IN_STOCK: "inStock", LOW: "low", SOLD_OUT: "soldOut" }[nextItem.availability];
    chip.className = `chip ${looks}`;
    setText(chip, say(looks));
    setText(title, nextItem.name);
    const wanted = buttonOf(nextSale, nextItem);
    button.act = wanted.act;
    button.className = `press ${wanted.kind}`;
    button.disabled = Boolean(wanted.off || wanted.busy);
    button.setAttribute("aria-busy", wanted.busy ? "true" : "false");
    setText(button, wanted.text);
    setText(hint, wanted.hint || "");
  };
  return card;
}

function stepper(key, item) {
  const shown = h("output", { class: "count" }, "1");
  const step = (by) => {
    const next = Math.min(item.limitPerBuyer, Math.max(1, quantityOf(key) + by));
    state.presses.set(key, { ...state.presses.get(key), quantity: next });
    setText(shown, String(next));
  };
  return h("div", { class: "stepper", role: "group", "aria-label": `${item.name}: ${say("quantity")}` },
    h("button", { type: "button", "aria-label": say("fewer"), onclick: () => step(-1) }, "−"), shown,
    h("button", { type: "button", "aria-label": say("more"), onclick: () => step(1) }, "+"));
}
const quantityOf = (key) => state.presses.get(key)?.quantity || 1;

function saleSection(sale) {
  const left = h("span", { class: "clock", role: "timer" });
  const label = h("span", { class: "clock-label" });
  const when = h("span", { class: "fine" });
  const grid = h("div", { class: "items" });
  const titleId = `sale-${sale.saleId}`;
  const title = h("h2", { id: titleId });
  const section = h("section", { class: "sale", "aria-labelledby": titleId, "data-sale": sale.saleId },
    h("div", { class: "head" },
      h("div", {}, title, when),
      h("div", { class: "countdown" }, label, left)),
    grid);
  section.cards = new Map();
  section.update = (next) => {
    for (const item of next.items) {
      if (!section.cards.has(item.itemId)) {
        const card = itemCard(next, item);
        section.cards.set(item.itemId, card);
        grid.append(card);
      }
      section.cards.get(item.itemId).update(next, item);
    }
    const now = phase(next);
    const target = now === "SCHEDULED" ? next.startsAt : next.endsAt;
    section.dataset.phase = now;
    setText(title, next.name);
    setText(when, now === "SCHEDULED" ? say("from", { time: localTime(next.startsAt) }) : say("until", { time: localTime(next.endsAt) }));
    setText(label, { SCHEDULED: say("startsIn"), OPEN: say("endsIn"), PAUSED: say("paused") }[now] || say("ended"));
    setText(left, ["SCHEDULED", "OPEN"].includes(now) ? duration(Date.parse(target) - clock.now()) : "");
  };
  return section;
}

const sections = new Map();
function drawSales() {
  const box = $("#sales");
  const order = { OPEN: 0, PAUSED: 1, SCHEDULED: 2, ENDED: 3, CLOSED: 4 };
  const shown = [...state.sales].sort((one, other) => order[phase(one)] - order[phase(other)] || Date.parse(one.startsAt) - Date.parse(other.startsAt));
  if (shown.length === 0) {
    sections.clear();
    box.replaceChildren(h("div", { class: "empty" }, h("p", {}, say("noSales")), h("p", { class: "fine" }, say("noSalesHint"))));
    return;
  }
  for (const id of [...sections.keys()].filter((id) => !shown.some((sale) => sale.saleId === id))) sections.delete(id);
  const wanted = shown.map((sale) => {
    if (!sections.has(sale.saleId)) sections.set(sale.saleId, saleSection(sale));
    const section = sections.get(sale.saleId);
    section.update(sale);
    return section;
  });
  const same = box.children.length === wanted.length && wanted.every((section, place) => box.children[place] === section);
  if (!same) box.replaceChildren(...wanted);
}

/** How long until the sales are looked at again: often only while something can change that this page does not know by its own clock. */
function pause() {
  if (state.sales.some((sale) => ["OPEN", "PAUSED"].includes(phase(sale)))) return 2500;
  return state.sales.some((sale) => phase(sale) === "SCHEDULED" && Date.parse(sale.startsAt) - clock.now() < 60000) ? 5000 : 15000;
}

async function watchSales() {
  for (let failures = 0; ; ) {
    let wait = pause();
    try {
      const { sales } = await call("GET", "/sales");
      state.sales = sales;
      $("#sales").setAttribute("aria-busy", "false");
      drawSales();
      failures = 0;
      wait = pause();
    } catch (problem) {
      failures += 1;
      wait = Math.max(Math.min(1000 * 2 ** failures, 30000), (problem.retryAfter || 0) * 1000);
    }
    await sleep(around(document.hidden ? wait * 5 : wait));
  }
}

// ── Buying ───────────────────────────────────────────────────────────────────────────────────────────────────────
async function buy(sale, item) {
  if (!state.user) {
    await signIn();
    if (!state.user) return;
  }
  const user = state.user;
  const key = itemKey(sale.saleId, item.itemId);
  const quantity = quantityOf(key);
  // One name for this wish, however often it has to be sent.
  state.presses.set(key, { quantity, busy: true });
  drawSales();
  try {
    const accepted = await press(user, sale, item, quantity);
    if (state.user !== user) return;
    hear({ orderId: accepted.orderId, version: 0, saleId: sale.saleId, itemId: item.itemId, itemName: item.name, quantity, amount: item.price * quantity, currency: item.currency, status: accepted.status, reason: null, payBy: null, payment: null });
    toast(say("accepted"), "good");
    announce(say("accepted"));
    // Should the push not come, it is asked for.
    awaitOrder(accepted.orderId);
  } catch (problem) {
    if (state.user !== user) return;
    if (problem.code === "SOLD_OUT") item.availability = "SOLD_OUT";
    if (problem.code === "DUPLICATE_ORDER" && state.feed) state.feed.ask();
    if (problem.status === 401) expire();
    toast(sayProblem(problem), "bad");
    announce(sayProblem(problem));
  } finally {
    state.presses.set(key, { quantity, busy: false });
    drawSales();
  }
}

/** Sends a press. Told that it is sold out, looks once more: if the shop still shows units, they may have just come back. */
async function press(user, sale, item, quantity) {
  const send = (seen, key) => {
    const body = { saleId: sale.saleId, itemId: item.itemId, quantity, seenVersion: seen.availabilityVersion };
    return callPatiently("POST", "/seckill", { token: user.token, key, body });
  };
  const key = newKey();
  try {
    return await send(item, key);
  } catch (problem) {
    if (problem.code !== "SOLD_OUT") throw problem;
    await sleep(around(PRESS_AGAIN_MS));
    const again = await call("GET", `/sales/${sale.saleId}`).catch(() => null);
    const shown = again?.sales[0]?.items.find((one) => one.itemId === item.itemId);
    if (!shown || shown.availability === "SOLD_OUT") throw problem;
    return send(shown, key);
  }
}

async function awaitOrder(orderId) {
  const user = state.user;
  for (let wait = 1500; wait < 60000; wait *= 1.6) {
    await sleep(around(wait));
    if (state.user !== user || state.orders.get(orderId)?.status !== "QUEUED") return;
    try { hearFor(user, await call("GET", `/orders/${orderId}`, { token: user.token })); } catch (problem) { await sleep((problem.retryAfter || 0) * 1000); }
  }
}

// ── Orders ───────────────────────────────────────────────────────────────────────────────────────────────────────
function hear(order) {
  const before = state.orders.get(order.orderId);
  if (before && before.version > order.version) return;
  state.orders.set(order.orderId, order);
  if (before && before.status !== order.status) {
    const why = order.reason ? say(`r_${order.reason}`) : "";
    const news = { PAID: [say("paidNow"), "good"], CLOSED: [say("closedNow", { why }), "bad"], FAILED: [say("closedNow", { why }), "bad"], REFUNDED: [say("refundedNow"), "good"] }[order.status];
    if (news) { toast(...news); announce(news[0]); }
  }
  if (order.status !== "PENDING_PAYMENT") state.payments.delete(order.orderId);
  drawOrders();
  drawSales();
}

/** An answer to somebody who has signed out meanwhile is not shown to whoever is here now. */
function hearFor(user, order) {
  if (state.user === user) hear(order);
}

const cards = new Map();
function drawOrders() {
  const box = $("#orders");
  const orders = [...state.orders.values()].sort((one, other) => (one.orderId < other.orderId ? 1 : -1));
  box.hidden = orders.length === 0;
  if (box.hidden) { box.replaceChildren(); cards.clear(); return; }
  if (!box.firstChild) {
    box.append(h("div", { class: "head" }, h("h2", { id: "orders-title" }, say("orders")), h("span", { id: "link", class: "link" })), h("div", { class: "orders", id: "order-list" }));
  }
  drawLink();
  for (const order of orders) {
    const looks = JSON.stringify([order, state.payments.get(order.orderId), state.points]);
    const known = cards.get(order.orderId);
    if (known && known.looks === looks) continue;
    const card = orderCard(order);
    card.looks = looks;
    if (known) {
      const focused = known.contains(document.activeElement) ? document.activeElement.dataset.act : null;
      known.replaceWith(card);
      if (focused) (card.querySelector(`[data-act="${focused}"]`) || card).focus();
    }
    cards.set(order.orderId, card);
  }
  const list = $("#order-list");
  const wanted = orders.map((order) => cards.get(order.orderId));
  if (list.children.length !== wanted.length || wanted.some((card, place) => list.children[place] !== card)) list.replaceChildren(...wanted);
  tickOrders();
}

function drawLink() {
  const link = $("#link");
  if (!link) return;
  link.className = `link ${state.link}`;
  setText(link, state.link === "push" ? say("live") : say("polling"));
}

function orderCard(order) {
  const id = order.orderId;
  const why = order.reason ? ` – ${say(`r_${order.reason}`)}` : "";
  const card = h("article", { class: `order ${order.status}`, id: `order-${id}`, tabindex: "-1", "data-status": order.status, "aria-label": `${say("order")} ${order.itemName || ""}` },
    h("div", { class: "row" },
      h("div", {}, h("h3", {}, `${order.itemName || order.itemId}${order.quantity > 1 ? ` × ${order.quantity}` : ""}`), h("p", { class: "fine mono" }, id)),
      h("div", { class: "right" }, h("strong", {}, money(order.amount, order.currency)), h("p", { class: `badge ${order.status}` }, say(`s_${order.status}`) + why))));
  if (order.status === "PENDING_PAYMENT") card.append(payBox(order));
  if (order.status === "PAID") {
    card.append(h("div", { class: "actions" }, h("button", { type: "button", class: "quiet", "data-act": "refund", onclick: () => act(order, "refund", say("refundAsk")) }, say("refund"))));
  }
  if (order.status === "QUEUED") card.append(h("div", { class: "progress", role: "progressbar", "aria-label": say("s_QUEUED") }));
  return card;
}

function payBox(order) {
  const payment = state.payments.get(order.orderId);
  const chosen = payment?.method || order.payment?.method;
  const ways = METHODS.map((method) => h("button", { type: "button", class: "way", "data-act": method, "aria-pressed": String(chosen === method), onclick: () => pay(order, method) }, say(method)));
  if (order.pointsPrice) ways.push(h("button", { type: "button", class: "way", "data-act": "points", "aria-pressed": "false", onclick: () => pay(order, "points") }, say("points", { n: number(order.pointsPrice) })));
  const box = h("div", { class: "pay" },
    h("p", { class: "deadline" }, say("payBy"), " ", h("span", { class: "clock", "data-until": order.payBy })),
    h("div", { class: "ways", role: "group", "aria-label": say("payWith") }, ways));
  if (order.pointsPrice && state.points !== null) box.append(h("p", { class: "fine" }, say("yourPoints", { n: number(state.points) })));
  if (payment && payment.status === "OPEN") {
    // The code is an image, not markup of this page: whatever it holds, it cannot run here.
    const code = payment.qrSvg ? h("img", { class: "qr", alt: say("scan"), width: 168, height: 168, src: `data:image/svg+xml,${encodeURIComponent(payment.qrSvg)}` }) : null;
    const link = payment.payUrl ? h("a", { class: "press buy", href: payment.payUrl, target: "_blank", rel: "noopener", "data-act": "open" }, say("open")) : null;
    box.append(h("div", { class: "code" }, code, h("div", {}, h("p", {}, say(code ? "scan" : "goPay")), link)));
  }
  box.append(h("div", { class: "actions" }, h("button", { type: "button", class: "quiet", "data-act": "cancel", onclick: () => act(order, "cancel", say("cancelAsk")) }, say("cancel"))));
  return box;
}

async function pay(order, method) {
  const user = state.user;
  try {
    const payment = await callPatiently("POST", `/orders/${order.orderId}/payments`, { token: user.token, body: { method } }, 4);
    if (state.user !== user) return;
    // In the sandbox a code alone cannot be scanned: its page is where one pays.
    if (isLocal && !payment.payUrl) payment.payUrl = `/_sandbox/payments/${payment.paymentId}`;
    state.payments.set(order.orderId, payment);
    drawOrders();
  } catch (problem) {
    toast(problem.code === "WRONG_STATE" || problem.code === "INVALID" ? problem.errors?.[0]?.why || problem.detail : sayProblem(problem), "bad");
  }
}

async function act(order, what, question) {
  if (!window.confirm(question)) return;
  const user = state.user;
  try {
    hearFor(user, await callPatiently("POST", `/orders/${order.orderId}/${what}`, { token: user.token }, 4));
    loadPoints();
  } catch (problem) {
    toast(problem.code === "WRONG_STATE" ? problem.detail : sayProblem(problem), "bad");
    if (state.feed) state.feed.ask();
  }
}

function showOrder(orderId) {
  const card = $(`#order-${CSS.escape(orderId)}`);
  if (!card) return;
  card.scrollIntoView({ behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth", block: "center" });
  card.focus({ preventScroll: true });
}

function tickOrders() {
  for (const timer of document.querySelectorAll("[data-until]")) setText(timer, duration(Date.parse(timer.dataset.until) - clock.now()));
}

async function loadPoints() {
  const user = state.user;
  if (!user) return;
  const points = await call("GET", "/points", { token: user.token }).then((said) => said.points, () => null);
  if (state.user !== user) return;
  state.points = points;
  drawOrders();
}

// ── Who is here ──────────────────────────────────────────────────────────────────────────────────────────────────
function drawNav() {
  const other = language === "zh" ? ["en", "English"] : ["zh", "中文"];
  const who = state.user
    ? [h("span", { class: "who", id: "who" }, state.user.name), h("button", { type: "button", class: "quiet", onclick: leave }, say("signOut"))]
    : [h("button", { type: "button", class: "quiet", id: "sign-in-button", onclick: signIn }, say("signIn"))];
  $("#nav").replaceChildren(h("button", { type: "button", class: "quiet", lang: other[0], onclick: () => chooseLanguage(other[0]) }, other[1]), ...who);
}

function signIn() {
  if (!isLocal) return signInAtIssuer("buyer", config.scope || "openid").catch(notSignedIn);
  const dialog = $("#sign-in");
  const input = h("input", { id: "name", name: "name", required: true, maxLength: 64, autocomplete: "username", autocapitalize: "none", spellcheck: false });
  return new Promise((done) => {
    const form = h("form", { method: "dialog" },
      h("h2", { id: "sign-in-title" }, say("signIn")),
      h("label", { htmlFor: "name" }, say("name")), input, h("p", { class: "fine" }, say("nameHint")),
      h("div", { class: "actions" },
        h("button", { type: "button", class: "quiet", onclick: () => dialog.close() }, say("cancelDialog")),
        h("button", { type: "submit", class: "press buy" }, say("signIn"))));
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      try {
        await signInLocally("buyer", input.value.trim(), "");
        enter();
        dialog.close();
      } catch (problem) { toast(sayProblem(problem), "bad"); }
    });
    dialog.replaceChildren(form);
    dialog.addEventListener("close", () => done(), { once: true });
    dialog.showModal();
    input.focus();
  });
}

function notSignedIn(problem) {
  toast(sayProblem(problem), "bad");
  announce(sayProblem(problem));
}

function enter() {
  state.user = session("buyer");
  drawNav();
  if (!state.user) return;
  if (state.feed) state.feed.stop();
  state.feed = follow(state.user.token, hear, (link) => {
    if (link === "signed-out") return expire();
    state.link = link;
    drawLink();
  });
  loadPoints();
}

function leave() {
  signOut("buyer");
  if (state.feed) state.feed.stop();
  state.feed = null;
  state.user = null;
  state.points = null;
  state.orders.clear();
  state.payments.clear();
  drawNav();
  drawOrders();
  drawSales();
}

function expire() {
  leave();
  toast(say("expired"), "bad");
}

// ── Begin ────────────────────────────────────────────────────────────────────────────────────────────────────────
document.title = config.shopName ? `${config.shopName} – ${say("title")}` : say("title");
setText($("#brand"), config.shopName || say("title"));
setText($("#skip"), say("skip"));
setText($("#foot"), isLocal ? "seckill 秒杀 · local cloud" : "");
enter();
if (signInProblem) notSignedIn(signInProblem);
watchSales();
setInterval(() => { drawSales(); tickOrders(); }, 250);
