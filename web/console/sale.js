// The list of sales, and the sale that is chosen: its state, what can be done with it, and its tabs.
import { clock } from "/common/clock.js";
import { duration, localTime } from "/common/language.js";
import { $, button, h, setText, toast } from "/common/page.js";
import { auditPanel } from "/console/audit.js";
import { showLetters } from "/console/dead-letters.js";
import { editSale } from "/console/form.js";
import { livePanel, refreshLive } from "/console/live.js";
import { showMoney } from "/console/money.js";
import { setUpPanel } from "/console/set-up.js";
import {
  callApi,
  callApiWithRetries,
  chosenSale,
  mayRunSales,
  phase,
  say,
  showProblem,
  state,
} from "/console/state.js";

const PANELS = { live: livePanel, setUp: setUpPanel, audit: auditPanel };
// What the state of a sale allows. Preheating again is allowed as well while some stock is not ready.
const CHANGES = { DRAFT: ["preheat", "close"], READY: ["pause", "close"], PAUSED: ["resume", "close"], CLOSED: [] };

export async function loadSales() {
  try {
    const { sales, more } = await callApi("GET", "/admin/sales");
    state.sales = sales;
    state.hasOlderSales = more;
    if (!state.chosen && sales.length) state.chosen = sales[0].saleId;
  } catch (problem) {
    showProblem(problem);
  }
  drawSide();
}

/** Draws the list of sales. While nobody is signed in, main.js draws something else there. */
export function drawSide() {
  if (!state.user) return;
  const side = $("#side");
  const isLetters = ["letters", "money"].includes(state.tab);
  const shown = state.sales.map((sale) => [sale.saleId, sale.name, phase(sale), sale.startsAt]);
  const looks = JSON.stringify([shown, state.chosen, isLetters, state.hasOlderSales]);
  if (side.dataset.looks === looks) return;
  side.dataset.looks = looks;
  const newSale = mayRunSales() && button(`+ ${say("newSale")}`, () => openForm(null), { id: "new-sale" });
  side.replaceChildren(
    h("div", { class: "head" }, h("h2", {}, say("sales")), newSale),
    h(
      "ul",
      { class: "list" },
      state.sales.map((sale) => saleEntry(sale, !isLetters && sale.saleId === state.chosen)),
    ),
    ...(state.sales.length === 0 ? [h("p", { class: "fine" }, say("noSales"))] : []),
    ...(state.hasOlderSales ? [h("p", { class: "fine" }, say("olderSales"))] : []),
    h(
      "div",
      { class: "actions" },
      button(say("money"), openMoney, { id: "money" }),
      button(say("deadLetters"), openLetters, { id: "letters" }),
    ),
  );
}

function saleEntry(sale, isCurrent) {
  const badge = h("span", { class: `badge ${phase(sale)}` }, say(phase(sale)));
  const props = { type: "button", class: "pick", "data-sale": sale.saleId, "aria-current": String(isCurrent) };
  return h(
    "li",
    {},
    h(
      "button",
      { ...props, onclick: () => choose(sale.saleId) },
      h("span", { class: "row" }, h("strong", {}, sale.name), badge),
      h("span", { class: "fine" }, localTime(sale.startsAt)),
    ),
  );
}

function openLetters() {
  state.tab = "letters";
  state.charts = null;
  drawSide();
  showLetters();
}

function openMoney() {
  state.tab = "money";
  state.charts = null;
  drawSide();
  showMoney();
}

const openForm = (sale) =>
  editSale(sale, (saved) => {
    replaceSale(saved);
    choose(saved.saleId, "setUp");
  });

function choose(saleId, tab = "live") {
  state.chosen = saleId;
  state.tab = tab;
  history.replaceState(null, "", `?sale=${encodeURIComponent(saleId)}`);
  drawSide();
  drawSale();
  refreshLive();
}

/** Takes in a sale that has changed, and shows it. */
function replaceSale(changed) {
  const place = state.sales.findIndex((sale) => sale.saleId === changed.saleId);
  if (place >= 0) state.sales[place] = changed;
  else state.sales.unshift(changed);
  drawSide();
  drawSale();
  refreshLive();
}

export function drawSale() {
  const work = $("#work");
  const sale = chosenSale();
  state.charts = null;
  if (!state.user || !sale) {
    work.replaceChildren();
    return;
  }
  const badge = h("span", { class: `badge ${phase(sale)}`, id: "phase" }, say(phase(sale)));
  const title = h("h2", { id: "sale-title" }, sale.name);
  const panel = PANELS[state.tab]?.(sale, { onRestocked });
  work.replaceChildren(
    h(
      "section",
      { class: "panel", "aria-labelledby": "sale-title" },
      h(
        "div",
        { class: "head" },
        h("div", {}, title, h("p", { class: "fine" }, badge, " ", h("span", { id: "sale-clock" }))),
        h("div", { class: "actions" }, saleActions(sale)),
      ),
      tabBar(),
      h("div", { id: "tab-panel", role: "tabpanel", "aria-labelledby": `tab-${state.tab}` }, panel),
    ),
  );
  drawClock();
}

function saleActions(sale) {
  if (!mayRunSales()) return [];
  const allowed = CHANGES[sale.state];
  const isClosed = sale.state === "CLOSED";
  const isEnded = phase(sale) === "ENDED";
  const isPartlyReady = sale.items.some((item) => item.laidOut < item.buckets);
  const action = (change, look, question) =>
    button(say(change), () => changeSale(change, question), { class: look, "data-act": change });
  return [
    !isClosed && button(say("edit"), () => openForm(sale), { "data-act": "edit" }),
    (allowed.includes("preheat") || (isPartlyReady && !isClosed)) && action("preheat", "press buy"),
    allowed.includes("pause") && !isEnded && action("pause", "quiet", say("askPause")),
    allowed.includes("resume") && !isEnded && action("resume", "press buy"),
    allowed.includes("close") && action("close", "quiet danger", say("askClose")),
  ];
}

async function changeSale(change, question) {
  if (question && !window.confirm(question)) return;
  try {
    replaceSale(await callApiWithRetries("POST", `/admin/sales/${state.chosen}/${change}`));
    toast(say("done"), "good");
  } catch (problem) {
    showProblem(problem);
  }
}

async function onRestocked() {
  await loadSales();
  refreshLive();
}

function tabBar() {
  const open = (id) => {
    state.tab = id;
    drawSale();
    refreshLive();
  };
  const tabs = Object.keys(PANELS).map((id) => {
    const isSelected = state.tab === id;
    const props = {
      type: "button",
      role: "tab",
      id: `tab-${id}`,
      "aria-selected": String(isSelected),
      "aria-controls": "tab-panel",
      tabindex: isSelected ? "0" : "-1",
    };
    return h("button", { ...props, onclick: () => open(id) }, say(id));
  });
  const onkeydown = (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const next = tabs[(tabs.indexOf(event.target) + step + tabs.length) % tabs.length].id;
    document.getElementById(next).click();
    document.getElementById(next).focus();
  };
  return h("div", { class: "tabs", role: "tablist", onkeydown }, tabs);
}

/** Draws the countdown of the chosen sale; and the whole sale, when its phase has changed. */
export function drawClock() {
  const sale = chosenSale();
  if (!sale || ["letters", "money"].includes(state.tab)) return;
  const now = phase(sale);
  const badge = $("#phase");
  if (badge && badge.className !== `badge ${now}`) {
    drawSale();
    drawSide();
    return;
  }
  const timer = $("#sale-clock");
  if (!timer) return;
  const left = (target) => duration(Date.parse(target) - clock.now());
  if (now === "SCHEDULED") setText(timer, say("startsIn", { time: left(sale.startsAt) }));
  else if (["OPEN", "PAUSED"].includes(now)) setText(timer, say("endsIn", { time: left(sale.endsAt) }));
  else setText(timer, localTime(sale.endsAt));
}
