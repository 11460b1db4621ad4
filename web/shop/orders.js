// The buyer's orders: their states, paying, cancelling and refunding.
import { call, callWithRetries } from "/common/api.js";
import { clock } from "/common/clock.js";
import { config, isLocal } from "/common/config.js";
import { duration, money, number, problemText } from "/common/language.js";
import { $, announce, button, h, setChildren, setText, toast } from "/common/page.js";
import { byNewest, redraw, say, state } from "/shop/state.js";

// A provider that the shop has not set up refuses to be paid with. config.json can name those that are set up.
const METHODS = ["alipay", "wechat", "stripe", "wechat-v2"].filter(
  (method) => !config.methods || config.methods.includes(method),
);

const reasonText = (order) => (order.reason ? say(`r_${order.reason}`) : "");

/** Takes in a state of an order, unless a newer one is known. */
export function receiveOrder(order) {
  const previous = state.orders.get(order.orderId);
  if (previous && previous.version > order.version) return;
  state.orders.set(order.orderId, order);
  if (previous && previous.status !== order.status) announceStatus(order);
  if (order.status !== "PENDING_PAYMENT") state.payments.delete(order.orderId);
  redraw();
}

/** Drops a response to a user who has signed out: it must not be shown to the next one. */
export function receiveOrderFor(user, order) {
  if (state.user === user) receiveOrder(order);
}

function announceStatus(order) {
  const closed = [say("closedNow", { why: reasonText(order) }), "bad"];
  const messages = {
    PAID: [say("paidNow"), "good"],
    CLOSED: closed,
    FAILED: closed,
    REFUNDED: [say("refundedNow"), "good"],
  };
  const message = messages[order.status];
  if (!message) return;
  toast(...message);
  announce(message[0]);
}

// Order id → {card, looks}. A card is made again only when something that it shows has changed.
const cards = new Map();

export function drawOrders() {
  const box = $("#orders");
  const orders = [...state.orders.values()].sort(byNewest);
  box.hidden = orders.length === 0;
  if (box.hidden) {
    box.replaceChildren();
    cards.clear();
    return;
  }
  if (!box.firstChild) {
    const title = h("h2", { id: "orders-title" }, say("orders"));
    box.append(
      h("div", { class: "head" }, title, h("span", { id: "link" })),
      h("div", { class: "orders", id: "order-list" }),
    );
  }
  drawLink();
  orders.forEach(drawOrder);
  setChildren(
    $("#order-list"),
    orders.map((order) => cards.get(order.orderId).card),
  );
  drawCountdowns();
}

function drawOrder(order) {
  const looks = JSON.stringify([order, state.payments.get(order.orderId), state.points]);
  const previous = cards.get(order.orderId);
  if (previous?.looks === looks) return;
  const card = orderCard(order);
  cards.set(order.orderId, { card, looks });
  if (!previous) return;
  // A new card takes over the focus of the one that it replaces.
  const focused = previous.card.contains(document.activeElement) ? document.activeElement.dataset.act : null;
  previous.card.replaceWith(card);
  if (focused) (card.querySelector(`[data-act="${focused}"]`) || card).focus();
}

function drawLink() {
  const link = $("#link");
  link.className = `link ${state.link}`;
  setText(link, say(state.link === "push" ? "live" : "polling"));
}

export function drawCountdowns() {
  for (const timer of document.querySelectorAll("[data-until]")) {
    setText(timer, duration(Date.parse(timer.dataset.until) - clock.now()));
  }
}

function orderCard(order) {
  const id = order.orderId;
  const title = `${order.itemName || order.itemId}${order.quantity > 1 ? ` × ${order.quantity}` : ""}`;
  const status = say(`s_${order.status}`) + (order.reason ? ` – ${reasonText(order)}` : "");
  const props = {
    class: `order ${order.status}`,
    id: `order-${id}`,
    tabindex: "-1",
    "data-status": order.status,
    "aria-label": `${say("order")} ${order.itemName || ""}`,
  };
  const refund = () => changeOrder(order, "refund", say("refundAsk"));
  return h(
    "article",
    props,
    h(
      "div",
      { class: "row" },
      h("div", {}, h("h3", {}, title), h("p", { class: "fine mono" }, id)),
      h(
        "div",
        { class: "right" },
        h("strong", {}, money(order.amount, order.currency)),
        h("p", { class: `badge ${order.status}` }, status),
      ),
    ),
    order.status === "PENDING_PAYMENT" && paymentBox(order),
    order.status === "PAID" && h("div", { class: "actions" }, button(say("refund"), refund, { "data-act": "refund" })),
    order.status === "QUEUED" && h("div", { class: "progress", role: "progressbar", "aria-label": say("s_QUEUED") }),
  );
}

function paymentBox(order) {
  const payment = state.payments.get(order.orderId);
  const chosen = payment?.method || order.payment?.method;
  const way = (method, text) => {
    const props = { class: "way", "data-act": method, "aria-pressed": String(chosen === method) };
    return button(text, () => startPayment(order, method), props);
  };
  const ways = METHODS.map((method) => way(method, say(method)));
  if (order.pointsPrice) ways.push(way("points", say("points", { n: number(order.pointsPrice) })));
  const cancel = () => changeOrder(order, "cancel", say("cancelAsk"));
  const showsPoints = order.pointsPrice && state.points !== null;
  return h(
    "div",
    { class: "pay" },
    h("p", { class: "deadline" }, say("payBy"), " ", h("span", { class: "clock", "data-until": order.payBy })),
    h("div", { class: "ways", role: "group", "aria-label": say("payWith") }, ways),
    showsPoints ? h("p", { class: "fine" }, say("yourPoints", { n: number(state.points) })) : null,
    payment?.status === "OPEN" && paymentLink(payment),
    h("div", { class: "actions" }, button(say("cancel"), cancel, { "data-act": "cancel" })),
  );
}

function paymentLink(payment) {
  // The code is shown as an image. Whatever the SVG contains, it cannot run in this page.
  const source = payment.qrSvg && `data:image/svg+xml,${encodeURIComponent(payment.qrSvg)}`;
  const code = source ? h("img", { class: "qr", alt: say("scan"), width: 168, height: 168, src: source }) : null;
  const props = { class: "press buy", href: payment.payUrl, target: "_blank", rel: "noopener", "data-act": "open" };
  const link = payment.payUrl ? h("a", props, say("open")) : null;
  return h("div", { class: "code" }, code, h("div", {}, h("p", {}, say(code ? "scan" : "goPay")), link));
}

async function startPayment(order, method) {
  const user = state.user;
  const options = { token: user.token, body: { method } };
  try {
    const payment = await callWithRetries("POST", `/orders/${order.orderId}/payments`, options, 4);
    if (state.user !== user) return;
    // A code of the sandbox cannot be scanned by a phone: its page stands in for the provider's app.
    if (isLocal && !payment.payUrl) payment.payUrl = `/_sandbox/payments/${payment.paymentId}`;
    state.payments.set(order.orderId, payment);
    redraw();
  } catch (problem) {
    const isSpecific = ["WRONG_STATE", "INVALID"].includes(problem.code);
    toast(isSpecific ? problem.errors?.[0]?.why || problem.detail : problemText(problem), "bad");
  }
}

/** Cancels or refunds an order, after a question. */
async function changeOrder(order, change, question) {
  if (!window.confirm(question)) return;
  const user = state.user;
  try {
    const path = `/orders/${order.orderId}/${change}`;
    receiveOrderFor(user, await callWithRetries("POST", path, { token: user.token }, 4));
    loadPoints();
  } catch (problem) {
    toast(problem.code === "WRONG_STATE" ? problem.detail : problemText(problem), "bad");
    state.feed?.refresh();
  }
}

/** Scrolls to an order and focuses it. */
export function showOrder(orderId) {
  const card = $(`#order-${CSS.escape(orderId)}`);
  if (!card) return;
  const isReduced = matchMedia("(prefers-reduced-motion: reduce)").matches;
  card.scrollIntoView({ behavior: isReduced ? "auto" : "smooth", block: "center" });
  card.focus({ preventScroll: true });
}

export async function loadPoints() {
  const user = state.user;
  if (!user) return;
  const points = await call("GET", "/points", { token: user.token }).then(
    (answer) => answer.points,
    () => null,
  );
  if (state.user !== user) return;
  state.points = points;
  redraw();
}
