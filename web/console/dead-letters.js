// Dead letters: the messages that could not be handled, with their reasons, and a button that redrives them.
import { number } from "/common/language.js";
import { $, button, h, table, toast } from "/common/page.js";
import { callApi, mayRunSales, say, showProblem, state } from "/console/state.js";

export async function showLetters() {
  try {
    const { queues } = await callApi("GET", "/admin/dead-letters");
    if (state.tab !== "letters") return;
    const filled = queues.filter((queue) => queue.letters.length);
    const content = filled.length ? filled.map(queueBox) : [h("p", { class: "verdict" }, say("lettersNone"))];
    const head = h("div", { class: "head" }, h("h2", {}, say("deadLetters")), button(say("refresh"), showLetters));
    $("#work").replaceChildren(h("div", { class: "letters" }, head, content));
  } catch (problem) {
    showProblem(problem);
  }
}

function queueBox(queue) {
  const { kind, letters } = queue;
  // A kind that this page does not know yet is described in the server's own words.
  const title = say.knows(`lettersOf_${kind}`) ? say(`lettersOf_${kind}`) : queue.words;
  const effect = say.knows(`redriveOf_${kind}`) ? say(`redriveOf_${kind}`) : queue.remedy;
  const count = say("letters", { n: number(letters.length) + (queue.more ? "+" : "") });
  const rows = letters.map((letter) =>
    h(
      "tr",
      {},
      h("td", {}, h("span", { class: "mono" }, letter.orderId || "–")),
      h("td", {}, letter.reason),
      h("td", {}, h("pre", {}, letter.body)),
    ),
  );
  return h(
    "section",
    { class: "panel", "data-letters": kind },
    h(
      "div",
      { class: "head" },
      h("div", {}, h("h3", {}, title), h("p", { class: "fine" }, `${count} · ${effect}`)),
      mayRunSales() && button(say("redrive"), () => redrive(kind), { "data-act": `redrive-${kind}` }),
    ),
    table(
      ["order", "reason", "body"].map((key) => ({ text: say(key) })),
      rows,
    ),
  );
}

async function redrive(kind) {
  try {
    const { handled } = await callApi("POST", `/admin/dead-letters/${kind}/redrive`);
    toast(say("redriven", { n: handled }), "good");
    showLetters();
  } catch (problem) {
    showProblem(problem);
  }
}
