// The operator's console: set a sale up, run it, watch it, prove it, and look after what could not be handled.
import {
  $, announce, call, callPatiently, chooseLanguage, clock, config, duration, h, isLocal, language, localTime, money, newKey, number, sayProblem, session, setText,
  signInAtIssuer, signInLocally, signInProblem, signOut, sleep, toast, words,
} from "/common.js";
import { chart } from "/charts.js";

const say = words({
  en: {
    title: "Console", skip: "Skip to the sale", signIn: "Sign in", signOut: "Sign out", name: "Your name", nameHint: "Any name: this is the local system.", needSignIn: "Sign in as an operator to set up and watch sales.",
    sales: "Sales", newSale: "New sale", noSales: "There is no sale yet.", more: "Older sales are not listed.", deadLetters: "Dead letters", shop: "Storefront",
    live: "Live", setUp: "Set-up", audit: "Audit", edit: "Edit", preheat: "Preheat", pause: "Pause", resume: "Resume", close: "Close for good", restock: "Restock", units: "Units to add",
    askClose: "Close this sale for good? It cannot be opened again.", askPause: "Stop selling for now?", done: "Done.", startsIn: "starts in {time}", endsIn: "ends in {time}",
    DRAFT: "Draft", SCHEDULED: "Scheduled", OPEN: "Open", PAUSED: "Paused", ENDED: "Ended", CLOSED: "Closed",
    total: "Units", free: "Free", held: "Held", sold: "Sold", orders: "Orders", s_PENDING_PAYMENT: "To be paid", s_PAID: "Paid", s_CLOSED: "Closed", s_FAILED: "Failed", s_REFUNDING: "Refunding", s_REFUNDED: "Refunded",
    manyOrders: "There are too many orders to count in passing: see the audit.", stockChart: "Units", trafficChart: "Presses a second", lagChart: "Press to order, 95 % within", requests: "presses", accepted: "accepted", refused: "refused", lag: "ms",
    noTraffic: "Nothing was measured yet, or CloudWatch does not answer.", allSales: "of all sales together", notLaidOut: "Its stock is not laid out yet: preheat it before it starts.",
    runAudit: "Audit now", auditGood: "Everything adds up: free + held + sold = total, drift 0.", auditBad: "Something does not add up.", drift: "Drift", findings: "Findings", none: "none", item: "Item",
    lettersNone: "Nothing is waiting for a person.", letters: "Letters: {n}", remedy: "Sent again, it is {remedy}.", redrive: "Send again", redriven: "{n} handled.", reason: "Why", refresh: "Look again", body: "What it says",
    saleName: "Name", startsAt: "Starts", endsAt: "Ends", paymentWindow: "Seconds to pay", cooldown: "Cool-down of a buyer (ms)", rate: "Presses a second for one item (empty: no limit)",
    itemId: "Item id", itemName: "Name", price: "Price", originalPrice: "Price otherwise", currency: "Currency", stock: "Stock", limit: "Per person", pointsPrice: "In points (optional)",
    addItem: "Add an item", removeItem: "Remove", save: "Save", create: "Create", discard: "Discard", laidOut: "Laid out", buckets: "buckets", key: "Sale id",
  },
  zh: {
    title: "控制台", skip: "跳到活动", signIn: "登录", signOut: "退出", name: "您的名字", nameHint: "任意名字：这是本地系统。", needSignIn: "请以运营身份登录，以创建和观察活动。",
    sales: "活动", newSale: "新建活动", noSales: "还没有活动。", more: "更早的活动未列出。", deadLetters: "死信", shop: "商城",
    live: "实时", setUp: "设置", audit: "对账", edit: "编辑", preheat: "预热", pause: "暂停", resume: "恢复", close: "永久关闭", restock: "补货", units: "增加件数",
    askClose: "永久关闭该活动？无法再次开启。", askPause: "暂停销售？", done: "完成。", startsIn: "{time} 后开始", endsIn: "{time} 后结束",
    DRAFT: "草稿", SCHEDULED: "未开始", OPEN: "进行中", PAUSED: "已暂停", ENDED: "已结束", CLOSED: "已关闭",
    total: "总数", free: "可售", held: "锁定", sold: "已售", orders: "订单", s_PENDING_PAYMENT: "待付款", s_PAID: "已付款", s_CLOSED: "已关闭", s_FAILED: "失败", s_REFUNDING: "退款中", s_REFUNDED: "已退款",
    manyOrders: "订单过多，无法实时统计，请看对账。", stockChart: "库存", trafficChart: "每秒请求", lagChart: "下单延迟（95%）", requests: "请求", accepted: "成功", refused: "拒绝", lag: "毫秒",
    noTraffic: "尚无数据，或 CloudWatch 未响应。", allSales: "所有活动合计", notLaidOut: "库存尚未铺开：请在开始前预热。",
    runAudit: "立即对账", auditGood: "账目相符：可售 + 锁定 + 已售 = 总数，偏差 0。", auditBad: "账目不符。", drift: "偏差", findings: "发现", none: "无", item: "商品",
    lettersNone: "没有需要人工处理的消息。", letters: "{n} 条", remedy: "重发结果：{remedy}。", redrive: "重新发送", redriven: "已处理 {n} 条。", reason: "原因", refresh: "刷新", body: "内容",
    saleName: "名称", startsAt: "开始", endsAt: "结束", paymentWindow: "付款时限（秒）", cooldown: "买家冷却（毫秒）", rate: "单品每秒请求上限（空：不限）",
    itemId: "商品编号", itemName: "名称", price: "价格", originalPrice: "原价", currency: "币种", stock: "库存", limit: "每人限购", pointsPrice: "积分价（可选）",
    addItem: "添加商品", removeItem: "移除", save: "保存", create: "创建", discard: "放弃", laidOut: "已铺开", buckets: "个桶", key: "活动编号",
  },
});

const SCOPE = "seckill/admin";
const state = { user: session("operator"), sales: [], more: false, chosen: new URLSearchParams(location.search).get("sale"), tab: "live", history: new Map(), charts: null, restocks: new Map() };
const api = (method, path, options = {}) => call(method, path, { ...options, token: state.user.token });
const chosenSale = () => state.sales.find((sale) => sale.saleId === state.chosen);

function phase(sale) {
  if (!["SCHEDULED", "OPEN", "PAUSED"].includes(sale.status)) return sale.status;
  if (clock.now() >= Date.parse(sale.endsAt)) return "ENDED";
  if (clock.now() < Date.parse(sale.startsAt)) return "SCHEDULED";
  return sale.state === "PAUSED" ? "PAUSED" : "OPEN";
}

function failed(problem) {
  if (problem.status === 401) { leave(); }
  const detail = problem.errors?.map((one) => `${one.field} ${one.why}`).join("; ") || (["WRONG_STATE", "INVALID"].includes(problem.code) ? problem.detail : "");
  toast(detail || sayProblem(problem), "bad");
  announce(detail || sayProblem(problem));
}

// ── The list ─────────────────────────────────────────────────────────────────────────────────────────────────────
async function loadSales() {
  try {
    const { sales, more } = await api("GET", "/admin/sales");
    state.sales = sales;
    state.more = more;
    if (!state.chosen && sales.length) state.chosen = sales[0].saleId;
  } catch (problem) { failed(problem); }
  drawSide();
}

function drawSide() {
  const side = $("#side");
  if (!state.user) {
    side.replaceChildren(h("p", { class: "fine" }, say("needSignIn")), h("div", { class: "actions" }, h("button", { type: "button", class: "press buy", id: "sign-in-button", onclick: signIn }, say("signIn"))));
    return;
  }
  const pick = (sale) => h("li", {}, h("button", { type: "button", class: "pick", "data-sale": sale.saleId, "aria-current": String(sale.saleId === state.chosen && state.tab !== "letters"), onclick: () => choose(sale.saleId) },
    h("span", { class: "row" }, h("strong", {}, sale.name), h("span", { class: `badge ${phase(sale)}` }, say(phase(sale)))), h("span", { class: "fine" }, localTime(sale.startsAt))));
  const looks = JSON.stringify([state.sales.map((sale) => [sale.saleId, sale.name, phase(sale), sale.startsAt]), state.chosen, state.tab === "letters", state.more]);
  if (side.dataset.looks === looks) return;
  side.dataset.looks = looks;
  side.replaceChildren(h("div", {},
    h("div", { class: "head" }, h("h2", {}, say("sales")), h("button", { type: "button", class: "quiet", id: "new-sale", onclick: () => editSale(null) }, `+ ${say("newSale")}`)),
    h("ul", { class: "list" }, state.sales.map(pick)),
    state.sales.length === 0 ? h("p", { class: "fine" }, say("noSales")) : null,
    state.more ? h("p", { class: "fine" }, say("more")) : null,
    h("div", { class: "actions" }, h("button", { type: "button", class: "quiet", id: "letters", onclick: showLetters }, say("deadLetters")))));
}

function choose(saleId, tab = "live") {
  state.chosen = saleId;
  state.tab = tab;
  history.replaceState(null, "", `?sale=${encodeURIComponent(saleId)}`);
  drawSide();
  drawSale();
  look();
}

// ── One sale ─────────────────────────────────────────────────────────────────────────────────────────────────────
function drawSale() {
  const work = $("#work");
  const sale = chosenSale();
  state.charts = null;
  if (!state.user || !sale) { work.replaceChildren(); return; }
  const button = (change, ask, kind = "quiet") => h("button", { type: "button", class: kind, "data-act": change, onclick: () => changeSale(change, ask) }, say(change));
  const can = { DRAFT: ["preheat", "close"], READY: ["pause", "close"], PAUSED: ["resume", "close"], CLOSED: [] }[sale.state];
  const unfinished = sale.items.some((item) => item.laidOut < item.buckets);
  const actions = [
    sale.state !== "CLOSED" ? h("button", { type: "button", class: "quiet", "data-act": "edit", onclick: () => editSale(sale) }, say("edit")) : null,
    can.includes("preheat") || (unfinished && sale.state !== "CLOSED") ? button("preheat", null, "press buy") : null,
    can.includes("pause") && phase(sale) !== "ENDED" ? button("pause", say("askPause")) : null,
    can.includes("resume") && phase(sale) !== "ENDED" ? button("resume", null, "press buy") : null,
    can.includes("close") ? button("close", say("askClose"), "quiet danger") : null,
  ];
  const tab = (id) => h("button", { type: "button", role: "tab", id: `tab-${id}`, "aria-selected": String(state.tab === id), "aria-controls": "tab-panel", tabindex: state.tab === id ? "0" : "-1", onclick: () => { state.tab = id; drawSale(); look(); } }, say(id));
  const tabs = ["live", "setUp", "audit"].map(tab);
  const moveTab = (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const next = tabs[(tabs.indexOf(event.target) + step + tabs.length) % tabs.length].id;
    document.getElementById(next).click();
    document.getElementById(next).focus();
  };
  work.replaceChildren(h("section", { class: "panel", "aria-labelledby": "sale-title" },
    h("div", { class: "head" },
      h("div", {}, h("h2", { id: "sale-title" }, sale.name), h("p", { class: "fine" }, h("span", { class: `badge ${phase(sale)}`, id: "phase" }, say(phase(sale))), " ", h("span", { id: "sale-clock" }))),
      h("div", { class: "actions" }, actions)),
    h("div", { class: "tabs", role: "tablist", onkeydown: moveTab }, tabs),
    h("div", { id: "tab-panel", role: "tabpanel", "aria-labelledby": `tab-${state.tab}` }, { live: livePanel, setUp: setUpPanel, audit: auditPanel }[state.tab]?.(sale))));
  tick();
}

async function changeSale(change, ask) {
  if (ask && !window.confirm(ask)) return;
  try {
    const changed = await callPatiently("POST", `/admin/sales/${state.chosen}/${change}`, { token: state.user.token }, 4);
    replaceSale(changed);
    toast(say("done"), "good");
  } catch (problem) { failed(problem); }
}

function replaceSale(changed) {
  const place = state.sales.findIndex((sale) => sale.saleId === changed.saleId);
  if (place >= 0) state.sales[place] = changed; else state.sales.unshift(changed);
  drawSide();
  drawSale();
  look();
}

function tick() {
  const sale = chosenSale();
  if (!sale || state.tab === "letters") return;
  const now = phase(sale);
  const badge = $("#phase");
  if (badge && badge.className !== `badge ${now}`) { drawSale(); drawSide(); return; }
  const timer = $("#sale-clock");
  if (!timer) return;
  const left = { SCHEDULED: ["startsIn", sale.startsAt], OPEN: ["endsIn", sale.endsAt], PAUSED: ["endsIn", sale.endsAt] }[now];
  setText(timer, left ? say(left[0], { time: duration(Date.parse(left[1]) - clock.now()) }) : localTime(sale.endsAt));
}

// ── Live ─────────────────────────────────────────────────────────────────────────────────────────────────────────
function livePanel(sale) {
  if (sale.state === "DRAFT") return h("p", { class: "fine" }, say("notLaidOut"));
  const tile = (key) => h("div", { class: "tile" }, h("dt", {}, say(key)), h("dd", { "data-figure": key }, "–"));
  const charts = {
    stock: chart(say("stockChart"), [{ name: say("sold"), colour: "jade" }, { name: say("held"), colour: "held" }, { name: say("free"), colour: "free" }], { stacked: true, whole: true }),
    traffic: chart(say("trafficChart"), [{ name: say("requests"), colour: "blue" }, { name: say("accepted"), colour: "jade" }, { name: say("refused"), colour: "red" }]),
    lag: chart(say("lagChart"), [{ name: say("lag"), colour: "blue" }], { whole: true }),
  };
  state.charts = charts;
  const bars = sale.items.map((item) => {
    const parts = ["jade", "held", "free"].map((colour) => h("i", { class: `c-${colour}` }));
    const figures = h("span", { class: "fine", "data-item-figures": item.itemId });
    const input = h("input", { type: "number", min: 1, step: 1, required: true, "aria-label": `${item.name}: ${say("units")}`, placeholder: say("units"), name: "quantity" });
    const form = h("form", { onsubmit: (event) => { event.preventDefault(); restock(item, event.target); } }, h("div", { class: "actions" }, input, h("button", { type: "submit", class: "quiet", "data-act": `restock-${item.itemId}` }, say("restock"))));
    const box = h("div", { class: "stock-row" }, h("div", { class: "row" }, h("strong", {}, item.name), figures), h("div", { class: "bar-of", role: "img", "aria-label": item.name, "data-bar": item.itemId }, parts), sale.state === "CLOSED" ? null : form);
    return box;
  });
  return h("div", {},
    h("dl", { class: "tiles" }, ["free", "held", "sold", "total"].map(tile)),
    h("div", { class: "stock" }, bars),
    h("dl", { class: "tiles", id: "order-tiles" }, ["s_PENDING_PAYMENT", "s_PAID", "s_CLOSED", "s_FAILED", "s_REFUNDING", "s_REFUNDED"].map(tile)),
    h("p", { class: "fine", id: "orders-note" }),
    h("div", { class: "charts" }, charts.stock, charts.traffic, charts.lag),
    h("p", { class: "fine", id: "traffic-note" }));
}

async function restock(item, form) {
  const quantity = Number(form.elements.quantity.value);
  const path = `/admin/sales/${state.chosen}/items/${item.itemId}/restock`;
  // What failed may have been added all the same: until it is said to be, the same units are asked for under the same key, however often it is pressed.
  const wish = `${path} ${quantity}`;
  if (!state.restocks.has(wish)) state.restocks.set(wish, newKey());
  try {
    await callPatiently("POST", path, { token: state.user.token, key: state.restocks.get(wish), body: { quantity } }, 4);
    state.restocks.delete(wish);
    form.reset();
    toast(say("done"), "good");
    await loadSales();
    look();
  } catch (problem) { failed(problem); }
}

function drawLive(live) {
  const sum = (key) => live.items.reduce((total, item) => total + item[key], 0);
  const figure = (key, value) => { const place = document.querySelector(`[data-figure="${key}"]`); if (place) setText(place, value === null ? "–" : number(value)); };
  for (const key of ["free", "held", "sold", "total"]) figure(key, sum(key));
  for (const item of live.items) {
    const bar = document.querySelector(`[data-bar="${CSS.escape(item.itemId)}"]`);
    if (!bar) continue;
    [item.sold, item.held, item.free].forEach((value, place) => { bar.children[place].style.flexGrow = String(value); });
    bar.setAttribute("aria-label", `${say("sold")} ${item.sold}, ${say("held")} ${item.held}, ${say("free")} ${item.free}`);
    setText(document.querySelector(`[data-item-figures="${CSS.escape(item.itemId)}"]`), `${say("sold")} ${number(item.sold)} · ${say("held")} ${number(item.held)} · ${say("free")} ${number(item.free)}`);
  }
  for (const [status, count] of Object.entries(live.orders || {})) figure(`s_${status}`, count);
  if ($("#orders-note")) setText($("#orders-note"), live.orders ? "" : say("manyOrders"));
  const points = state.history.get(live.saleId) || [];
  const at = Date.parse(live.at);
  if (!points.length || points[points.length - 1].at < at) points.push({ at, values: [sum("sold"), sum("held"), sum("free")] });
  while (points.length > 1200) points.shift();
  state.history.set(live.saleId, points);
  if (!state.charts) return;
  state.charts.stock.draw(points, at, (value) => number(Math.round(value)));
  const traffic = (live.traffic?.points || []).map((point) => ({ ...point, at: Date.parse(point.at) + live.traffic.periodSeconds * 1000 }));
  const rate = (value) => (value < 10 ? String(Number(value.toFixed(2))) : number(Math.round(value)));
  state.charts.traffic.draw(traffic.map((point) => ({ at: point.at, values: [point.requests, point.accepted, point.refused] })), at, rate);
  state.charts.lag.draw(traffic.map((point) => ({ at: point.at, values: [point.orderLagMs] })), at, (value) => `${number(Math.round(value))}`);
  setText($("#traffic-note"), live.traffic ? `${say("trafficChart")}, ${say("lagChart")}: ${say("allSales")}.` : say("noTraffic"));
}

/** Looks once, now; the timer below looks again and again. */
async function look() {
  const sale = chosenSale();
  if (!state.user || !sale || state.tab !== "live" || sale.state === "DRAFT") return;
  try {
    const live = await api("GET", `/admin/sales/${sale.saleId}/live`);
    if (live.saleId === state.chosen && state.tab === "live") drawLive(live);
  } catch (problem) {
    if (problem.status === 401) leave();
    await sleep((problem.retryAfter || 2) * 1000);
  }
}

// ── Set-up and audit ─────────────────────────────────────────────────────────────────────────────────────────────
function setUpPanel(sale) {
  const rows = sale.items.map((item) => h("tr", {}, h("td", {}, item.name, h("div", { class: "fine mono" }, item.itemId)), h("td", { class: "num" }, money(item.price, item.currency)), h("td", { class: "num" }, money(item.originalPrice, item.currency)),
    h("td", { class: "num" }, number(item.stock)), h("td", { class: "num" }, number(item.limitPerBuyer)), h("td", { class: "num" }, item.pointsPrice === null ? "–" : number(item.pointsPrice)), h("td", { class: "num" }, `${number(item.laidOut)} / ${number(item.buckets)} ${say("buckets")}`)));
  return h("div", {},
    h("p", { class: "fine" }, `${localTime(sale.startsAt)} – ${localTime(sale.endsAt)} · ${say("paymentWindow")}: ${number(sale.paymentWindowSeconds)} · ${say("key")}: `, h("span", { class: "mono" }, sale.saleId)),
    h("div", { class: "scroll" }, h("table", {}, h("thead", {}, h("tr", {}, ["item", "price", "originalPrice", "stock", "limit", "pointsPrice", "laidOut"].map((key, place) => h("th", { class: place ? "num" : "", scope: "col" }, say(key))))), h("tbody", {}, rows))));
}

function auditPanel(sale) {
  const out = h("div", { id: "audit-result", "aria-live": "polite" });
  const run = async () => {
    button.disabled = true;
    try {
      const audit = await callPatiently("GET", `/admin/sales/${sale.saleId}/audit`, { token: state.user.token }, 4);
      const good = audit.items.every((item) => item.drift === 0 && item.findings.length === 0);
      const rows = audit.items.map((item) => h("tr", {}, h("td", {}, item.itemId), ...["total", "free", "held", "sold", "drift"].map((key) => h("td", { class: `num ${key === "drift" && item.drift !== 0 ? "bad-text" : ""}` }, number(item[key]))),
        h("td", {}, Object.entries(item.orders).filter(([, count]) => count).map(([status, count]) => `${say(`s_${status}`)} ${number(count)}`).join(" · ") || "–"), h("td", {}, item.findings.length ? h("ul", { class: "list" }, item.findings.map((finding) => h("li", { class: "bad-text" }, finding))) : say("none"))));
      out.replaceChildren(h("p", { class: good ? "verdict" : "verdict bad" }, good ? say("auditGood") : say("auditBad")),
        h("div", { class: "scroll" }, h("table", {}, h("thead", {}, h("tr", {}, ["item", "total", "free", "held", "sold", "drift", "orders", "findings"].map((key, place) => h("th", { scope: "col", class: place > 0 && place < 6 ? "num" : "" }, say(key))))), h("tbody", {}, rows))));
    } catch (problem) { failed(problem); }
    button.disabled = false;
  };
  const button = h("button", { type: "button", class: "quiet", id: "run-audit", onclick: run }, say("runAudit"));
  run();
  return h("div", {}, h("div", { class: "actions" }, button), out);
}

// ── Dead letters ─────────────────────────────────────────────────────────────────────────────────────────────────
async function showLetters() {
  state.tab = "letters";
  state.charts = null;
  drawSide();
  const work = $("#work");
  try {
    const { queues } = await api("GET", "/admin/dead-letters");
    if (state.tab !== "letters") return;
    const letter = (one) => h("tr", {}, h("td", {}, h("span", { class: "mono" }, one.orderId || "–")), h("td", {}, one.reason), h("td", {}, h("pre", {}, one.body)));
    const box = (queue) => h("section", { class: "panel", "data-letters": queue.kind },
      h("div", { class: "head" }, h("div", {}, h("h3", {}, queue.words), h("p", { class: "fine" }, `${say("letters", { n: number(queue.letters.length) + (queue.more ? "+" : "") })}. ${say("remedy", { remedy: queue.remedy })}`)),
        h("button", { type: "button", class: "quiet", "data-act": `redrive-${queue.kind}`, onclick: () => redrive(queue.kind) }, say("redrive"))),
      h("div", { class: "scroll" }, h("table", {}, h("thead", {}, h("tr", {}, ["orders", "reason", "body"].map((key) => h("th", { scope: "col" }, say(key))))), h("tbody", {}, queue.letters.map(letter)))));
    const waiting = queues.filter((queue) => queue.letters.length);
    const list = waiting.length ? waiting.map(box) : [h("p", { class: "verdict" }, say("lettersNone"))];
    const wrap = h("div", {}, h("div", { class: "head" }, h("h2", {}, say("deadLetters")), h("button", { type: "button", class: "quiet", onclick: showLetters }, say("refresh"))), ...list);
    wrap.style.display = "grid";
    wrap.style.gap = "1rem";
    work.replaceChildren(wrap);
  } catch (problem) { failed(problem); }
}

async function redrive(kind) {
  try {
    const { handled } = await api("POST", `/admin/dead-letters/${kind}/redrive`);
    toast(say("redriven", { n: handled }), "good");
    showLetters();
  } catch (problem) { failed(problem); }
}

// ── The form ─────────────────────────────────────────────────────────────────────────────────────────────────────
const digits = (currency) => { try { return new Intl.NumberFormat("en", { style: "currency", currency }).resolvedOptions().maximumFractionDigits; } catch { return 2; } };
const toMinor = (text, currency) => Math.round(Number(text) * 10 ** digits(currency));
const toMajor = (amount, currency) => (amount / 10 ** digits(currency)).toFixed(digits(currency));
/** A moment as datetime-local wants it, in this place's time, to the second. */
const toInput = (iso) => { const date = new Date(iso); return new Date(date.getTime() - date.getTimezoneOffset() * 60000).toISOString().slice(0, 19); };

function field(name, key, props) {
  const id = `f-${name.replace(/\W/g, "-")}`;
  const why = h("span", { class: "why", id: `${id}-why` });
  const input = h("input", { id, name, "aria-describedby": `${id}-why`, ...props });
  const box = h("div", { class: "field" }, h("label", { htmlFor: id }, say(key)), input, why);
  box.input = input;
  box.why = why;
  box.dataset.field = name;
  return box;
}

/** Of what is on sale already, only the name can be changed: buyers have seen the rest, and stock is laid out for it. */
function itemFields(item, place, isOnSale = false) {
  const disabled = isOnSale;
  const name = (part) => `items[${place}].${part}`;
  const currency = item?.currency || "CNY";
  return {
    itemId: field(name("itemId"), "itemId", { disabled, required: true, pattern: "[A-Za-z0-9_\\-]{1,32}", value: item?.itemId || `item-${place + 1}` }),
    name: field(name("name"), "itemName", { required: true, maxLength: 128, value: item?.name || "" }),
    price: field(name("price"), "price", { disabled, required: true, inputMode: "decimal", type: "number", min: 0, step: "any", value: item ? toMajor(item.price, currency) : "" }),
    originalPrice: field(name("originalPrice"), "originalPrice", { disabled, inputMode: "decimal", type: "number", min: 0, step: "any", value: item ? toMajor(item.originalPrice, currency) : "" }),
    currency: field(name("currency"), "currency", { disabled, required: true, pattern: "[A-Z]{3}", maxLength: 3, value: currency }),
    stock: field(name("stock"), "stock", { disabled, required: true, type: "number", min: 0, step: 1, value: item?.stock ?? 100 }),
    limitPerBuyer: field(name("limitPerBuyer"), "limit", { disabled, required: true, type: "number", min: 1, max: 100, step: 1, value: item?.limitPerBuyer ?? 1 }),
    pointsPrice: field(name("pointsPrice"), "pointsPrice", { disabled, type: "number", min: 0, step: 1, value: item?.pointsPrice ?? "" }),
  };
}

function editSale(sale) {
  const dialog = $("#dialog");
  dialog.className = "wide";
  const isOnSale = Boolean(sale) && sale.state !== "DRAFT";
  const soon = new Date(clock.now() + 10 * 60000);
  soon.setSeconds(0, 0);
  const top = {
    name: field("name", "saleName", { required: true, maxLength: 128, value: sale?.name || "" }),
    startsAt: field("startsAt", "startsAt", { required: true, type: "datetime-local", step: 1, value: toInput(sale?.startsAt || soon) }),
    endsAt: field("endsAt", "endsAt", { required: true, type: "datetime-local", step: 1, value: toInput(sale?.endsAt || new Date(soon.getTime() + 3600000)) }),
    paymentWindowSeconds: field("paymentWindowSeconds", "paymentWindow", { required: true, type: "number", min: 1, max: 86400, step: 1, value: sale?.paymentWindowSeconds ?? 900 }),
    buyerCooldownMs: field("buyerCooldownMs", "cooldown", { required: true, type: "number", min: 0, max: 60000, step: 1, value: sale?.buyerCooldownMs ?? 0 }),
    itemRatePerSecond: field("itemRatePerSecond", "rate", { type: "number", min: 1, step: 1, value: sale?.itemRatePerSecond ?? "" }),
  };
  let items = [];
  const list = h("div", { id: "item-fields" });
  const drawItems = () => list.replaceChildren(...items.map((fields, place) => h("fieldset", {}, h("legend", {}, `${say("item")} ${place + 1}`), h("div", { class: "fields" }, Object.values(fields)),
    items.length > 1 && !isOnSale ? h("div", { class: "actions" }, h("button", { type: "button", class: "quiet danger", onclick: () => { items = items.filter((one) => one !== fields); drawItems(); } }, say("removeItem"))) : null)));
  items = (sale?.items || [null]).map((item, place) => itemFields(item, place, isOnSale));
  drawItems();
  const optional = (input) => (input.value.trim() === "" ? null : Number(input.value));
  const body = () => ({
    name: top.name.input.value, startsAt: new Date(top.startsAt.input.value).toISOString(), endsAt: new Date(top.endsAt.input.value).toISOString(),
    paymentWindowSeconds: Number(top.paymentWindowSeconds.input.value), buyerCooldownMs: Number(top.buyerCooldownMs.input.value), itemRatePerSecond: optional(top.itemRatePerSecond.input),
    items: items.map((fields) => {
      const currency = fields.currency.input.value;
      const price = toMinor(fields.price.input.value, currency);
      return { itemId: fields.itemId.input.value, name: fields.name.input.value, price, originalPrice: fields.originalPrice.input.value === "" ? price : toMinor(fields.originalPrice.input.value, currency), currency,
        stock: Number(fields.stock.input.value), limitPerBuyer: Number(fields.limitPerBuyer.input.value), pointsPrice: optional(fields.pointsPrice.input) };
    }),
  });
  const everyField = () => [...Object.entries(top), ...items.flatMap((fields, place) => Object.entries(fields).map(([part, one]) => [`items[${place}].${part}`, one]))];
  const other = h("p", { class: "bad-text", role: "alert" });
  const submit = async (event) => {
    event.preventDefault();
    setText(other, "");
    for (const [, one] of everyField()) { setText(one.why, ""); one.input.removeAttribute("aria-invalid"); }
    try {
      const saved = await api(sale ? "PUT" : "POST", sale ? `/admin/sales/${sale.saleId}` : "/admin/sales", { body: body() });
      dialog.close();
      replaceSale(saved);
      choose(saved.saleId, "setUp");
      toast(say("done"), "good");
    } catch (problem) {
      let first = null;
      for (const { field: name, why } of problem.errors || []) {
        const found = everyField().find(([known]) => known === name)?.[1];
        if (found) { setText(found.why, why); found.input.setAttribute("aria-invalid", "true"); first ||= found.input; }
        else setText(other, `${name} ${why}`);
      }
      if (first) first.focus(); else failed(problem);
    }
  };
  const form = h("form", { onsubmit: submit, id: "sale-form" },
    h("h2", { id: "form-title" }, sale ? sale.name : say("newSale")), h("div", { class: "fields" }, Object.values(top)), list, other,
    h("div", { class: "actions" },
      isOnSale ? null : h("button", { type: "button", class: "quiet", onclick: () => { items = [...items, itemFields(null, items.length)]; drawItems(); } }, `+ ${say("addItem")}`),
      h("button", { type: "button", class: "quiet", onclick: () => dialog.close() }, say("discard")),
      h("button", { type: "submit", class: "press buy", id: "save-sale" }, sale ? say("save") : say("create"))));
  dialog.setAttribute("aria-labelledby", "form-title");
  dialog.replaceChildren(form);
  dialog.showModal();
  top.name.input.focus();
}

// ── Who is here ──────────────────────────────────────────────────────────────────────────────────────────────────
function drawNav() {
  const other = language === "zh" ? ["en", "English"] : ["zh", "中文"];
  $("#nav").replaceChildren(h("a", { class: "quiet", href: "/" }, say("shop")), h("button", { type: "button", class: "quiet", lang: other[0], onclick: () => chooseLanguage(other[0]) }, other[1]),
    ...(state.user ? [h("span", { class: "who" }, state.user.name), h("button", { type: "button", class: "quiet", onclick: leave }, say("signOut"))] : []));
}

function signIn() {
  if (!isLocal) return signInAtIssuer("operator", `${config.scope || "openid"} ${SCOPE}`).catch(failed);
  const dialog = $("#dialog");
  dialog.className = "";
  const input = h("input", { id: "name", required: true, maxLength: 64, autocomplete: "username", value: "operator" });
  const form = h("form", {}, h("h2", { id: "sign-in-title" }, say("signIn")), h("label", { htmlFor: "name" }, say("name")), input, h("p", { class: "fine" }, say("nameHint")),
    h("div", { class: "actions" }, h("button", { type: "submit", class: "press buy" }, say("signIn"))));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    try { await signInLocally("operator", input.value.trim(), SCOPE); dialog.close(); enter(); } catch (problem) { failed(problem); }
  });
  dialog.replaceChildren(form);
  dialog.setAttribute("aria-labelledby", "sign-in-title");
  dialog.showModal();
}

async function enter() {
  state.user = session("operator");
  drawNav();
  drawSide();
  if (!state.user) return;
  await loadSales();
  drawSale();
  look();
}

function leave() {
  signOut("operator");
  state.user = null;
  state.sales = [];
  $("#side").dataset.looks = "";
  $("#work").replaceChildren();
  drawNav();
  drawSide();
}

document.title = `${config.shopName || "seckill 秒杀"} – ${say("title")}`;
setText($("#brand"), say("title"));
setText($("#skip"), say("skip"));
enter();
if (signInProblem) failed(signInProblem);
setInterval(tick, 500);
setInterval(() => { if (state.user && state.tab !== "letters" && !document.hidden) loadSales(); }, 10000);
(async () => { for (;;) { await sleep(document.hidden ? 5000 : 1000); await look(); } })();
