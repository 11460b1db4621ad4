// The live tab: units, orders and traffic, once a second; and adding units.
import { newKey, retryAfterMs, sleep } from "/common/api.js";
import { number } from "/common/language.js";
import { $, h, setText, toast } from "/common/page.js";
import { chart } from "/console/charts.js";
import { callApi, callApiWithRetries, chosenSale, mayRunSales, say, showProblem, state } from "/console/state.js";

const UNIT_FIGURES = ["free", "held", "sold", "total"];
const ORDER_STATUSES = ["PENDING_PAYMENT", "PAID", "CLOSED", "FAILED", "REFUNDING", "REFUNDED"];
const HISTORY_LENGTH = 1200;

// Sale id → the units of the last minutes, for the chart.
const histories = new Map();
// "path quantity" → idempotency key. A restock without an answer may have been carried out all the same, so the same
// restock keeps its key until it is answered.
const restockKeys = new Map();

export function livePanel(sale, { onRestocked }) {
  if (sale.state === "DRAFT") return h("p", { class: "fine" }, say("notPreheated"));
  const tile = (key) => h("div", { class: "tile" }, h("dt", {}, say(key)), h("dd", { "data-figure": key }, "–"));
  const series = (key, colour) => ({ name: say(key), colour });
  const units = [series("sold", "jade"), series("held", "held"), series("free", "free")];
  const requests = [series("requests", "blue"), series("accepted", "jade"), series("refused", "red")];
  state.charts = {
    stock: chart(say("stockChart"), units, { stacked: true, whole: true }),
    traffic: chart(say("trafficChart"), requests),
    lag: chart(say("lagChart"), [series("lag", "blue")], { whole: true }),
  };
  const orderTiles = ORDER_STATUSES.map((status) => tile(`s_${status}`));
  return h(
    "div",
    {},
    h("dl", { class: "tiles" }, UNIT_FIGURES.map(tile)),
    h(
      "div",
      { class: "stock" },
      sale.items.map((item) => stockRow(sale, item, onRestocked)),
    ),
    h("dl", { class: "tiles", id: "order-tiles" }, orderTiles),
    h("p", { class: "fine", id: "orders-note" }),
    h("div", { class: "charts" }, Object.values(state.charts)),
    h("p", { class: "fine", id: "traffic-note" }),
  );
}

function stockRow(sale, item, onRestocked) {
  const parts = ["jade", "held", "free"].map((colour) => h("i", { class: `c-${colour}` }));
  const figures = h("span", { class: "fine", "data-item-figures": item.itemId });
  return h(
    "div",
    { class: "stock-row" },
    h("div", { class: "row" }, h("strong", {}, item.name), figures),
    h("div", { class: "bar-of", role: "img", "aria-label": item.name, "data-bar": item.itemId }, parts),
    sale.state !== "CLOSED" && mayRunSales() && restockForm(item, onRestocked),
  );
}

function restockForm(item, onRestocked) {
  const input = h("input", {
    type: "number",
    min: 1,
    step: 1,
    required: true,
    name: "quantity",
    placeholder: say("units"),
    "aria-label": `${item.name}: ${say("units")}`,
  });
  const onsubmit = (event) => {
    event.preventDefault();
    restock(item, event.target, onRestocked);
  };
  const submit = h("button", { type: "submit", class: "quiet", "data-act": `restock-${item.itemId}` }, say("restock"));
  return h("form", { onsubmit }, h("div", { class: "actions" }, input, submit));
}

async function restock(item, form, onRestocked) {
  const quantity = Number(form.elements.quantity.value);
  const path = `/admin/sales/${state.chosen}/items/${item.itemId}/restock`;
  const wish = `${path} ${quantity}`;
  if (!restockKeys.has(wish)) restockKeys.set(wish, newKey());
  try {
    await callApiWithRetries("POST", path, { key: restockKeys.get(wish), body: { quantity } });
    restockKeys.delete(wish);
    form.reset();
    toast(say("done"), "good");
    await onRestocked();
  } catch (problem) {
    showProblem(problem);
  }
}

/** Asks for the figures once, now, and draws them. */
export async function refreshLive() {
  const sale = chosenSale();
  if (!state.user || !sale || state.tab !== "live" || sale.state === "DRAFT") return;
  try {
    const live = await callApi("GET", `/admin/sales/${sale.saleId}/live`);
    if (live.saleId === state.chosen && state.tab === "live") drawLive(live);
  } catch (problem) {
    if (problem.status === 401) showProblem(problem);
    await sleep(retryAfterMs(problem) || 2000);
  }
}

/** Keeps the figures up to date for as long as the page is open. */
export async function watchLive() {
  for (;;) {
    await sleep(document.hidden ? 5000 : 1000);
    await refreshLive();
  }
}

function drawLive(live) {
  const sum = (key) => live.items.reduce((total, item) => total + item[key], 0);
  for (const key of UNIT_FIGURES) drawFigure(key, sum(key));
  for (const [status, count] of Object.entries(live.orders || {})) drawFigure(`s_${status}`, count);
  live.items.forEach(drawStockRow);
  const ordersNote = $("#orders-note");
  if (ordersNote) setText(ordersNote, live.orders ? "" : say("manyOrders"));
  const at = Date.parse(live.at);
  const history = histories.get(live.saleId) || [];
  histories.set(live.saleId, history);
  if (!history.length || history.at(-1).at < at) history.push({ at, values: [sum("sold"), sum("held"), sum("free")] });
  while (history.length > HISTORY_LENGTH) history.shift();
  if (!state.charts) return;
  const rounded = (value) => number(Math.round(value));
  const rate = (value) => (value < 10 ? String(Number(value.toFixed(2))) : rounded(value));
  const traffic = (live.traffic?.points || []).map((point) => ({
    ...point,
    at: Date.parse(point.at) + live.traffic.periodSeconds * 1000,
  }));
  const seriesOf = (valuesOf) => traffic.map((point) => ({ at: point.at, values: valuesOf(point) }));
  state.charts.stock.draw(history, at, rounded);
  state.charts.traffic.draw(
    seriesOf((point) => [point.requests, point.accepted, point.refused]),
    at,
    rate,
  );
  state.charts.lag.draw(
    seriesOf((point) => [point.orderLagMs]),
    at,
    rounded,
  );
  setText($("#traffic-note"), say(live.traffic ? "trafficNote" : "noTraffic"));
}

function drawFigure(key, value) {
  const place = $(`[data-figure="${key}"]`);
  if (place) setText(place, value === null ? "–" : number(value));
}

function drawStockRow(item) {
  const id = CSS.escape(item.itemId);
  const bar = $(`[data-bar="${id}"]`);
  if (!bar) return;
  [item.sold, item.held, item.free].forEach((value, place) => {
    bar.children[place].style.flexGrow = String(value);
  });
  const parts = ["sold", "held", "free"].map((key) => `${say(key)} ${number(item[key])}`);
  bar.setAttribute("aria-label", parts.join(", "));
  setText($(`[data-item-figures="${id}"]`), parts.join(" · "));
}
