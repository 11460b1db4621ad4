// Building pages. Text always enters a page as text, so data cannot become markup.

const SVG_TAGS = ["svg", "path", "g", "line", "text", "rect", "circle", "polyline", "title"];
// These properties of an element are read-only; their attributes are not.
const ATTRIBUTES_ONLY = ["list", "form"];

/** Makes an element: h("button", {class: "buy", onclick: f}, "Buy"). Children that are null or false are left out. */
export function h(tag, props = {}, ...children) {
  const isSvg = SVG_TAGS.includes(tag);
  const element = isSvg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  const isProperty = (name) => name in element && !isSvg && !name.startsWith("aria") && !ATTRIBUTES_ONLY.includes(name);
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (isProperty(name)) element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Makes a button: button("Buy", buy, {class: "press buy"}). */
export const button = (text, onclick, props = {}) =>
  h("button", { type: "button", class: "quiet", onclick, ...props }, text);

/** Makes a table in a box that scrolls sideways. A column is {text, class}. */
export function table(columns, rows) {
  const head = columns.map((column) => h("th", { scope: "col", class: column.class || "" }, column.text));
  return h("div", { class: "scroll" }, h("table", {}, h("thead", {}, h("tr", {}, head)), h("tbody", {}, rows)));
}

/** Sets text only if it differs, so that a screen reader does not read unchanged text again. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Puts these children into a box, and leaves the box alone if it has exactly them already. */
export function setChildren(box, children) {
  const isSame =
    box.children.length === children.length && children.every((child, place) => box.children[place] === child);
  if (!isSame) box.replaceChildren(...children);
}

export const $ = (selector) => document.querySelector(selector);

/** Tells screen readers about a change on the page. */
export function announce(text) {
  const region = $("#announcer");
  if (region) setText(region, text);
}

let toastTimer;
/** Shows a short message at the foot of the page. */
export function toast(text, kind = "info") {
  const box = $("#toast");
  if (!box) return;
  box.className = `toast ${kind} shown`;
  setText(box, text);
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => box.classList.remove("shown"), 6000);
}
