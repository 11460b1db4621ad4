// The audit tab: the proof that free + held + sold = total, and what was found if it is not so.
import { number } from "/common/language.js";
import { button, h, table } from "/common/page.js";
import { callApiWithRetries, say, showProblem } from "/console/state.js";

const FIGURES = ["total", "free", "held", "sold", "drift"];

export function auditPanel(sale) {
  const result = h("div", { id: "audit-result", "aria-live": "polite" });
  const run = async () => {
    again.disabled = true;
    try {
      result.replaceChildren(...auditResult(await wholeAudit(sale)));
    } catch (problem) {
      showProblem(problem);
    }
    again.disabled = false;
  };
  const again = button(say("runAudit"), run, { id: "run-audit" });
  run();
  return h("div", {}, h("div", { class: "actions" }, again), result);
}

/** The audit with all orders counted. A request counts for some seconds; a large sale needs several. */
async function wholeAudit(sale) {
  const path = `/admin/sales/${sale.saleId}/audit`;
  let audit = await callApiWithRetries("GET", path);
  while (audit.cursor) {
    const next = await callApiWithRetries("GET", `${path}?cursor=${audit.cursor}`);
    for (const item of next.items) {
      const before = audit.items.find((known) => known.itemId === item.itemId)?.orders ?? {};
      for (const status of Object.keys(item.orders)) item.orders[status] += before[status] ?? 0;
    }
    audit = next;
  }
  return audit;
}

function auditResult(audit) {
  const isGood = audit.items.every((item) => item.drift === 0 && item.findings.length === 0);
  const columns = [
    { text: say("item") },
    ...FIGURES.map((key) => ({ text: say(key), class: "num" })),
    { text: say("orders") },
    { text: say("findings") },
  ];
  return [
    h("p", { class: isGood ? "verdict" : "verdict bad" }, say(isGood ? "auditGood" : "auditBad")),
    table(columns, audit.items.map(auditRow)),
  ];
}

function auditRow(item) {
  const figure = (key) => {
    const isWrong = key === "drift" && item.drift !== 0;
    return h("td", { class: `num ${isWrong ? "bad-text" : ""}` }, number(item[key]));
  };
  const orders = Object.entries(item.orders)
    .filter(([, count]) => count)
    .map(([status, count]) => `${say(`s_${status}`)} ${number(count)}`);
  const findings = item.findings.map((finding) => h("li", { class: "bad-text" }, finding));
  return h(
    "tr",
    {},
    h("td", {}, item.itemId),
    FIGURES.map(figure),
    h("td", {}, orders.join(" · ") || "–"),
    h("td", {}, findings.length ? h("ul", { class: "list" }, findings) : say("none")),
  );
}
