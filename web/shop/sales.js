// The sales with their countdowns, and one button for each item.
import { call, jitter, retryAfterMs, sleep } from "/common/api.js";
import { clock } from "/common/clock.js";
import { duration, localTime, money, number } from "/common/language.js";
import { $, h, setChildren, setText } from "/common/page.js";
import { buy } from "/shop/buy.js";
import { showOrder } from "/shop/orders.js";
import { byNewest, itemKey, quantityOf, redraw, say, state } from "/shop/state.js";

const AVAILABILITY = { IN_STOCK: "inStock", LOW: "low", SOLD_OUT: "soldOut" };
const LIVE_STATUSES = ["QUEUED", "PENDING_PAYMENT", "PAID", "REFUNDING"];
const PHASE_ORDER = { OPEN: 0, PAUSED: 1, SCHEDULED: 2, ENDED: 3, CLOSED: 4 };

/** The phase of a sale now, by the server's clock: the answer of the server may be some seconds old. */
function phase(sale) {
  const isOver = clock.now() >= Date.parse(sale.endsAt);
  if (sale.status === "PAUSED") return isOver ? "ENDED" : "PAUSED";
  if (["CLOSED", "ENDED"].includes(sale.status)) return sale.status;
  if (isOver) return "ENDED";
  return clock.now() >= Date.parse(sale.startsAt) ? "OPEN" : "SCHEDULED";
}

/** The buyer's newest order for an item that has not ended. */
function liveOrder(saleId, itemId) {
  return [...state.orders.values()]
    .filter((order) => order.saleId === saleId && order.itemId === itemId && LIVE_STATUSES.includes(order.status))
    .sort(byNewest)[0];
}

/** What the button of an item says and does: {text, kind, onclick, isOff, isBusy, hint}. */
function buttonOf(sale, item) {
  const order = liveOrder(sale.saleId, item.itemId);
  if (order) return buttonOfOrder(order);
  if (state.purchases.get(itemKey(sale.saleId, item.itemId))?.isSending) {
    return { text: say("sending"), kind: "waiting", isBusy: true };
  }
  switch (phase(sale)) {
    case "SCHEDULED": {
      const left = Date.parse(sale.startsAt) - clock.now();
      const text = left < 1000 ? say("opening") : say("soon", { time: duration(left) });
      return { text, kind: "soon", isOff: true };
    }
    case "OPEN":
      if (item.availability === "SOLD_OUT") {
        return { text: say("back"), kind: "back", isOff: true, hint: say("backHint") };
      }
      return { text: say("buy"), kind: "buy", onclick: () => buy(sale, item) };
    case "PAUSED":
      return { text: say("paused"), kind: "soon", isOff: true };
    default:
      return { text: say(item.availability === "SOLD_OUT" ? "soldOut" : "over"), kind: "back", isOff: true };
  }
}

function buttonOfOrder(order) {
  const onclick = () => showOrder(order.orderId);
  switch (order.status) {
    case "QUEUED":
      return { text: say("queued"), kind: "waiting", isBusy: true };
    case "PENDING_PAYMENT": {
      const time = duration(Date.parse(order.payBy) - clock.now());
      return { text: say("yours", { time }), kind: "yours", onclick };
    }
    case "PAID":
      return { text: say("paid"), kind: "done", onclick };
    default:
      return { text: say("refunding"), kind: "done", onclick };
  }
}

/** A placeholder for a picture, which a shop replaces with its own: a colour and the first letter. */
function picture(item) {
  let tone = 0;
  for (const letter of item.itemId) tone = (tone * 31 + letter.codePointAt(0)) % 6;
  return h("div", { class: `picture tone-${tone}`, "aria-hidden": "true" }, h("span", {}, [...item.name][0] || "?"));
}

function priceLine(item) {
  const saved = item.originalPrice > item.price ? Math.round((1 - item.price / item.originalPrice) * 100) : 0;
  return h(
    "p",
    { class: "price" },
    h("strong", {}, money(item.price, item.currency)),
    saved > 0 && h("s", {}, money(item.originalPrice, item.currency)),
    saved > 0 && h("span", { class: "off" }, say("off", { n: saved })),
  );
}

function quantityStepper(key, item) {
  const shown = h("output", { class: "count" }, "1");
  const step = (by) => {
    const quantity = Math.min(item.limitPerBuyer, Math.max(1, quantityOf(key) + by));
    state.purchases.set(key, { ...state.purchases.get(key), quantity });
    setText(shown, String(quantity));
  };
  return h(
    "div",
    { class: "stepper", role: "group", "aria-label": `${item.name}: ${say("quantity")}` },
    h("button", { type: "button", "aria-label": say("fewer"), onclick: () => step(-1) }, "−"),
    shown,
    h("button", { type: "button", "aria-label": say("more"), onclick: () => step(1) }, "+"),
  );
}

function itemCard(sale, item) {
  const key = itemKey(sale.saleId, item.itemId);
  const titleId = `item-${sale.saleId}-${item.itemId}`;
  const title = h("h3", { id: titleId });
  const chip = h("span", { class: "chip" });
  const hint = h("p", { class: "hint", "aria-live": "polite" });
  let onclick = null;
  const button = h("button", { class: "press", type: "button", onclick: () => onclick?.() });
  const terms = [say("limit", { n: item.limitPerBuyer })];
  if (item.pointsPrice) terms.push(say("points", { n: number(item.pointsPrice) }));
  const card = h(
    "article",
    { class: "item", "aria-labelledby": titleId, "data-item": item.itemId },
    picture(item),
    h(
      "div",
      { class: "about" },
      h("div", { class: "row" }, title, chip),
      priceLine(item),
      h("p", { class: "fine" }, terms.join(" · ")),
      item.limitPerBuyer > 1 && quantityStepper(key, item),
      button,
      hint,
    ),
  );
  card.update = (nextSale, nextItem) => {
    const availability = AVAILABILITY[nextItem.availability];
    chip.className = `chip ${availability}`;
    setText(chip, say(availability));
    setText(title, nextItem.name);
    const looks = buttonOf(nextSale, nextItem);
    onclick = looks.onclick;
    button.className = `press ${looks.kind}`;
    button.disabled = Boolean(looks.isOff || looks.isBusy);
    button.setAttribute("aria-busy", String(Boolean(looks.isBusy)));
    setText(button, looks.text);
    setText(hint, looks.hint || "");
  };
  return card;
}

function saleSection(sale) {
  const titleId = `sale-${sale.saleId}`;
  const title = h("h2", { id: titleId });
  const when = h("span", { class: "fine" });
  const label = h("span", { class: "clock-label" });
  const left = h("span", { class: "clock", role: "timer" });
  const grid = h("div", { class: "items" });
  const section = h(
    "section",
    { class: "sale", "aria-labelledby": titleId, "data-sale": sale.saleId },
    h("div", { class: "head" }, h("div", {}, title, when), h("div", { class: "countdown" }, label, left)),
    grid,
  );
  const cards = new Map();
  section.update = (next) => {
    for (const item of next.items) {
      if (!cards.has(item.itemId)) {
        cards.set(item.itemId, itemCard(next, item));
        grid.append(cards.get(item.itemId));
      }
      cards.get(item.itemId).update(next, item);
    }
    const now = phase(next);
    const isAhead = now === "SCHEDULED";
    const target = isAhead ? next.startsAt : next.endsAt;
    section.dataset.phase = now;
    setText(title, next.name);
    setText(when, say(isAhead ? "from" : "until", { time: localTime(target) }));
    setText(label, say({ SCHEDULED: "startsIn", OPEN: "endsIn", PAUSED: "paused" }[now] || "ended"));
    setText(left, ["SCHEDULED", "OPEN"].includes(now) ? duration(Date.parse(target) - clock.now()) : "");
  };
  return section;
}

// Sale id → its section. Elements are kept and updated, so that focus and screen readers are not disturbed.
const sections = new Map();

export function drawSales() {
  if ($("#sales").getAttribute("aria-busy") === "true") return;
  const sales = [...state.sales].sort(
    (one, other) =>
      PHASE_ORDER[phase(one)] - PHASE_ORDER[phase(other)] || Date.parse(one.startsAt) - Date.parse(other.startsAt),
  );
  for (const saleId of [...sections.keys()]) {
    if (!sales.some((sale) => sale.saleId === saleId)) sections.delete(saleId);
  }
  for (const sale of sales) {
    if (!sections.has(sale.saleId)) sections.set(sale.saleId, saleSection(sale));
    sections.get(sale.saleId).update(sale);
  }
  setChildren($("#sales"), sales.length ? sales.map((sale) => sections.get(sale.saleId)) : [noSales]);
}

const noSales = h("div", { class: "empty" }, h("p", {}, say("noSales")), h("p", { class: "fine" }, say("noSalesHint")));

/** How long to wait before asking again. Short only while something can change that this page cannot work out. */
function pollInterval() {
  const phases = state.sales.map(phase);
  if (phases.includes("OPEN") || phases.includes("PAUSED")) return 2500;
  const startsSoon = (sale) => phase(sale) === "SCHEDULED" && Date.parse(sale.startsAt) - clock.now() < 60000;
  return state.sales.some(startsSoon) ? 5000 : 15000;
}

/** Polls the sales for as long as the page is open. */
export async function watchSales() {
  for (let failures = 0; ;) {
    let wait;
    try {
      const { sales } = await call("GET", "/sales");
      state.sales = sales;
      $("#sales").setAttribute("aria-busy", "false");
      redraw();
      failures = 0;
      wait = pollInterval();
    } catch (problem) {
      failures += 1;
      wait = Math.max(Math.min(1000 * 2 ** failures, 30000), retryAfterMs(problem));
    }
    await sleep(jitter(document.hidden ? wait * 5 : wait));
  }
}
