// The form that makes a sale or changes one.
import { clock } from "/common/clock.js";
import { decimals } from "/common/language.js";
import { $, button, h, setText, toast } from "/common/page.js";
import { callApi, say, showProblem } from "/console/state.js";

const MINUTE_MS = 60000;
const toMinor = (text, currency) => Math.round(Number(text) * 10 ** decimals(currency));
const toMajor = (amount, currency) => (amount / 10 ** decimals(currency)).toFixed(decimals(currency));
const numberOrNull = (text) => (text.trim() === "" ? null : Number(text));

/** A time as datetime-local takes it: in the local time zone, to the second. */
function toInput(time) {
  const date = new Date(time);
  return new Date(date.getTime() - date.getTimezoneOffset() * MINUTE_MS).toISOString().slice(0, 19);
}

/** A field: {box, input, why}. `why` shows what the server has against its value. */
function field(name, label, props) {
  const id = `f-${name.replace(/\W/g, "-")}`;
  const why = h("span", { class: "why", id: `${id}-why` });
  const input = h("input", { id, name, "aria-describedby": `${id}-why`, ...props });
  const box = h("div", { class: "field", "data-field": name }, h("label", { htmlFor: id }, say(label)), input, why);
  return { box, input, why };
}

function saleFields(sale) {
  const startsAt = new Date(clock.now() + 10 * MINUTE_MS);
  startsAt.setSeconds(0, 0);
  const endsAt = new Date(startsAt.getTime() + 60 * MINUTE_MS);
  const text = { required: true, maxLength: 128 };
  const time = { required: true, type: "datetime-local", step: 1 };
  const whole = { required: true, type: "number", step: 1 };
  return {
    name: field("name", "saleName", { ...text, value: sale?.name || "" }),
    startsAt: field("startsAt", "startsAt", { ...time, value: toInput(sale?.startsAt || startsAt) }),
    endsAt: field("endsAt", "endsAt", { ...time, value: toInput(sale?.endsAt || endsAt) }),
    paymentWindowSeconds: field("paymentWindowSeconds", "paymentWindow", {
      ...whole,
      min: 1,
      max: 86400,
      value: sale?.paymentWindowSeconds ?? 900,
    }),
    buyerCooldownMs: field("buyerCooldownMs", "cooldown", {
      ...whole,
      min: 0,
      max: 60000,
      value: sale?.buyerCooldownMs ?? 0,
    }),
    itemRatePerSecond: field("itemRatePerSecond", "rate", {
      type: "number",
      min: 1,
      step: 1,
      value: sale?.itemRatePerSecond ?? "",
    }),
  };
}

/** Once an item is on sale only its name can change: buyers have seen the rest, and its stock is laid out. */
function itemFields(item, place, isOnSale = false) {
  const currency = item?.currency || "CNY";
  const amount = { disabled: isOnSale, inputMode: "decimal", type: "number", min: 0, step: "any" };
  const whole = { disabled: isOnSale, type: "number", step: 1 };
  const part = (key, label, props) => field(`items[${place}].${key}`, label, props);
  return {
    itemId: part("itemId", "itemId", {
      disabled: isOnSale,
      required: true,
      pattern: "[A-Za-z0-9_\\-]{1,32}",
      value: item?.itemId || `item-${place + 1}`,
    }),
    name: part("name", "itemName", { required: true, maxLength: 128, value: item?.name || "" }),
    price: part("price", "price", { ...amount, required: true, value: item ? toMajor(item.price, currency) : "" }),
    originalPrice: part("originalPrice", "originalPrice", {
      ...amount,
      value: item ? toMajor(item.originalPrice, currency) : "",
    }),
    currency: part("currency", "currency", {
      disabled: isOnSale,
      required: true,
      pattern: "[A-Z]{3}",
      maxLength: 3,
      value: currency,
    }),
    stock: part("stock", "stock", { ...whole, required: true, min: 0, value: item?.stock ?? 100 }),
    limitPerBuyer: part("limitPerBuyer", "limit", {
      ...whole,
      required: true,
      min: 1,
      max: 100,
      value: item?.limitPerBuyer ?? 1,
    }),
    pointsPrice: part("pointsPrice", "pointsPrice", { ...whole, min: 0, value: item?.pointsPrice ?? "" }),
  };
}

/** What the fields say, as the API takes it. */
function requestBody(top, items, version) {
  const valueOf = (fields, key) => fields[key].input.value;
  return {
    version,
    name: valueOf(top, "name"),
    startsAt: new Date(valueOf(top, "startsAt")).toISOString(),
    endsAt: new Date(valueOf(top, "endsAt")).toISOString(),
    paymentWindowSeconds: Number(valueOf(top, "paymentWindowSeconds")),
    buyerCooldownMs: Number(valueOf(top, "buyerCooldownMs")),
    itemRatePerSecond: numberOrNull(valueOf(top, "itemRatePerSecond")),
    items: items.map((fields) => {
      const currency = valueOf(fields, "currency");
      const price = valueOf(fields, "price");
      return {
        itemId: valueOf(fields, "itemId"),
        name: valueOf(fields, "name"),
        price: toMinor(price, currency),
        originalPrice: toMinor(valueOf(fields, "originalPrice") || price, currency),
        currency,
        stock: Number(valueOf(fields, "stock")),
        limitPerBuyer: Number(valueOf(fields, "limitPerBuyer")),
        pointsPrice: numberOrNull(valueOf(fields, "pointsPrice")),
      };
    }),
  };
}

/** What another operator has changed since the form was opened: [field's name, its value now]. */
function changesOf(before, now) {
  const keys = ["name", "startsAt", "endsAt", "paymentWindowSeconds", "buyerCooldownMs", "itemRatePerSecond"];
  const changes = keys.filter((key) => before[key] !== now[key]).map((key) => [key, now[key]]);
  now.items.forEach((item, place) => {
    const known = before.items[place] || {};
    for (const key of Object.keys(item).filter((key) => known[key] !== item[key])) {
      changes.push([`items[${place}].${key}`, item[key]]);
    }
  });
  return changes;
}

/** Opens the form, empty (null) or with a sale. Calls `onSaved` with the sale as the server keeps it. */
export function editSale(opened, onSaved) {
  let sale = opened;
  const dialog = $("#dialog");
  const isOnSale = Boolean(sale) && sale.state !== "DRAFT";
  const top = saleFields(sale);
  let items = (sale?.items || [null]).map((item, place) => itemFields(item, place, isOnSale));
  const boxes = (fields) =>
    h(
      "div",
      { class: "fields" },
      Object.values(fields).map(({ box }) => box),
    );
  const list = h("div", { id: "item-fields" });
  const otherErrors = h("p", { class: "bad-text", role: "alert" });

  const drawItems = () => {
    const itemBox = (fields, place) => {
      const remove = () => {
        items = items.filter((one) => one !== fields);
        drawItems();
      };
      const canRemove = items.length > 1 && !isOnSale;
      return h(
        "fieldset",
        {},
        h("legend", {}, `${say("item")} ${place + 1}`),
        boxes(fields),
        canRemove && h("div", { class: "actions" }, button(say("removeItem"), remove, { class: "quiet danger" })),
      );
    };
    list.replaceChildren(...items.map(itemBox));
  };
  const addItem = () => {
    items = [...items, itemFields(null, items.length)];
    drawItems();
  };

  /** Every field by the name that the server gives it in its errors. */
  const fieldsByName = () => {
    const named = items.flatMap((fields, place) =>
      Object.entries(fields).map(([key, one]) => [`items[${place}].${key}`, one]),
    );
    return new Map([...Object.entries(top), ...named]);
  };
  const clearErrors = () => {
    setText(otherErrors, "");
    for (const { input, why } of fieldsByName().values()) {
      setText(why, "");
      input.removeAttribute("aria-invalid");
    }
  };
  const showErrors = (problem) => {
    let first = null;
    for (const { field: name, why } of problem.errors || []) {
      const wrong = fieldsByName().get(name);
      if (wrong) {
        setText(wrong.why, why);
        wrong.input.setAttribute("aria-invalid", "true");
        first ||= wrong.input;
      } else {
        setText(otherErrors, `${name} ${why}`);
      }
    }
    if (first) first.focus();
    else showProblem(problem);
  };

  /** Another operator has saved first: shows what changed. The next save is based on that. */
  const showOthersChange = async () => {
    const now = await callApi("GET", `/admin/sales/${sale.saleId}`);
    for (const [name, value] of changesOf(sale, now)) {
      const changed = fieldsByName().get(name);
      if (changed) setText(changed.why, say("changedByOther", { value }));
    }
    setText(otherErrors, say("staleVersion"));
    sale = now;
  };

  const onsubmit = async (event) => {
    event.preventDefault();
    clearErrors();
    const [method, path] = sale ? ["PUT", `/admin/sales/${sale.saleId}`] : ["POST", "/admin/sales"];
    try {
      const saved = await callApi(method, path, { body: requestBody(top, items, sale?.version) });
      dialog.close();
      onSaved(saved);
      toast(say("done"), "good");
    } catch (problem) {
      if (problem.code === "STALE_VERSION") await showOthersChange().catch(showProblem);
      else showErrors(problem);
    }
  };

  drawItems();
  const form = h(
    "form",
    { onsubmit, id: "sale-form" },
    h("h2", { id: "form-title" }, sale ? sale.name : say("newSale")),
    boxes(top),
    list,
    otherErrors,
    h(
      "div",
      { class: "actions" },
      !isOnSale && button(`+ ${say("addItem")}`, addItem),
      button(say("discard"), () => dialog.close()),
      h("button", { type: "submit", class: "press buy", id: "save-sale" }, say(sale ? "save" : "create")),
    ),
  );
  dialog.className = "wide";
  dialog.setAttribute("aria-labelledby", "form-title");
  dialog.replaceChildren(form);
  dialog.showModal();
  top.name.input.focus();
}
