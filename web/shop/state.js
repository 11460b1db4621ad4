// What the storefront knows, and who draws it.
import { words } from "/common/language.js";
import { session } from "/common/sign-in.js";

export const say = words("shop");

export const state = {
  sales: [],
  /** Order id → order. */
  orders: new Map(),
  /** Order id → the payment that was started on this page. */
  payments: new Map(),
  /** Sale and item → {quantity, isSending} of the item's button. */
  purchases: new Map(),
  points: null,
  user: session("buyer"),
  /** Follows the user's orders; null while nobody is signed in. */
  feed: null,
  /** How the feed gets its orders: "push" or "poll". */
  link: "",
};

const views = [];
/** Registers a function that draws a part of the page from the state. */
export const addView = (draw) => views.push(draw);
/** Draws what the state says. Views change only what differs. */
export const redraw = () => views.forEach((draw) => draw());

export const itemKey = (saleId, itemId) => `${saleId}/${itemId}`;
export const quantityOf = (key) => state.purchases.get(key)?.quantity || 1;
export const byNewest = (one, other) => (one.orderId < other.orderId ? 1 : -1);
