// Open matters of money: what is open, since when, the provider's words, and what an operator can do about it.
import { localTime, money } from "/common/language.js";
import { $, button, h, table, toast } from "/common/page.js";
import { callApi, mayActOnOrders, say, showProblem, state } from "/console/state.js";

export async function showMoney() {
  try {
    const { matters, more } = await callApi("GET", "/admin/money");
    if (state.tab !== "money") return;
    const head = h("div", { class: "head" }, h("h2", {}, say("money")), button(say("refresh"), showMoney));
    const content = matters.length ? [matterTable(matters)] : [h("p", { class: "verdict" }, say("moneyNone"))];
    if (more) content.push(h("p", { class: "fine" }, say("moneyMore")));
    $("#work").replaceChildren(h("section", { class: "panel", id: "money-panel" }, head, content));
  } catch (problem) {
    showProblem(problem);
  }
}

function matterTable(matters) {
  const columns = ["matter", "order", "amount", "since", "providerSays", "resolve"].map((key) => ({ text: say(key) }));
  return table(columns, matters.map(matterRow));
}

function matterRow(matter) {
  const { kind, orderId, method, transaction, currency, words } = matter;
  const title = say.knows(`matter_${kind}`) ? say(`matter_${kind}`) : kind;
  const left = matter.remaining === null || matter.remaining === matter.amount ? "" : money(matter.remaining, currency);
  const ways = mayActOnOrders() ? matter.resolveAs : [];
  const actions = ways.map((way) =>
    button(say(`resolve_${way}`), () => resolve(matter, way), { "data-act": `resolve-${way}` }),
  );
  const tries = matter.tries > 0 && h("p", { class: "fine" }, say("tries", { n: matter.tries }));
  return h(
    "tr",
    { "data-matter": kind },
    h("td", {}, title),
    h("td", {}, h("span", { class: "mono" }, orderId), h("p", { class: "fine mono" }, `${method} ${transaction}`)),
    h("td", {}, money(matter.amount, currency), left && h("p", { class: "fine" }, say("remaining", { amount: left }))),
    h("td", {}, localTime(matter.since), tries),
    h("td", {}, words || "–"),
    h("td", {}, h("div", { class: "actions" }, actions)),
  );
}

/** Every decision is recorded with its reason. */
async function resolve(matter, way) {
  const reason = window.prompt(say("askReason", { way: say(`resolve_${way}`) }));
  if (!reason?.trim()) return;
  try {
    await callApi("POST", `/admin/orders/${matter.orderId}/resolve`, { body: { as: way, reason } });
    toast(say("done"), "good");
    showMoney();
  } catch (problem) {
    showProblem(problem);
  }
}
