// The settings tab: how the sale is set up.
import { localTime, money, number } from "/common/language.js";
import { h, table } from "/common/page.js";
import { say } from "/console/state.js";

const COLUMNS = ["item", "price", "originalPrice", "stock", "limit", "pointsPrice", "readyBuckets"];

export function setUpPanel(sale) {
  const figure = (text) => h("td", { class: "num" }, text);
  const rows = sale.items.map((item) =>
    h(
      "tr",
      {},
      h("td", {}, item.name, h("div", { class: "fine mono" }, item.itemId)),
      figure(money(item.price, item.currency)),
      figure(money(item.originalPrice, item.currency)),
      figure(number(item.stock)),
      figure(number(item.limitPerBuyer)),
      figure(item.pointsPrice === null ? "–" : number(item.pointsPrice)),
      figure(say("bucketsOf", { ready: number(item.laidOut), all: number(item.buckets) })),
    ),
  );
  const columns = COLUMNS.map((key, place) => ({ text: say(key), class: place > 0 ? "num" : "" }));
  const facts = [
    `${localTime(sale.startsAt)} – ${localTime(sale.endsAt)}`,
    `${say("paymentWindow")}: ${number(sale.paymentWindowSeconds)}`,
    `${say("saleId")}: `,
  ];
  return h(
    "div",
    {},
    h("p", { class: "fine" }, facts.join(" · "), h("span", { class: "mono" }, sale.saleId)),
    table(columns, rows),
  );
}
