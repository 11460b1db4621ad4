// What the console knows, and what all its parts need.
import { call, callWithRetries } from "/common/api.js";
import { clock } from "/common/clock.js";
import { problemText, words } from "/common/language.js";
import { announce, toast } from "/common/page.js";
import { session } from "/common/sign-in.js";

// What an operator may do, the most first. The console asks for the first at sign-in; `operatorScope` in config.json
// names others, for a sign-in client that is not allowed all.
export const SCOPES = ["seckill/admin", "seckill/desk", "seckill/read"];
export const say = words("console");

export const state = {
  user: session("operator"),
  sales: [],
  hasOlderSales: false,
  /** The id of the sale that is shown. */
  chosen: new URLSearchParams(location.search).get("sale"),
  /** What is shown of it: "live", "setUp" or "audit"; "letters" for the dead letters, "money" for open matters. */
  tab: "live",
  /** The charts on the page, while the live tab is shown. */
  charts: null,
};

// Each scope includes those after it.
const mayWith = (needed) =>
  SCOPES.slice(0, SCOPES.indexOf(needed) + 1).some((scope) => state.user?.scopes.includes(scope));
/** Whether the operator may set sales up and run them. */
export const mayRunSales = () => mayWith("seckill/admin");
/** Whether the operator may act on orders. */
export const mayActOnOrders = () => mayWith("seckill/desk");

export const chosenSale = () => state.sales.find((sale) => sale.saleId === state.chosen);

export const callApi = (method, path, options = {}) => call(method, path, { ...options, token: state.user.token });
export const callApiWithRetries = (method, path, options = {}) =>
  callWithRetries(method, path, { ...options, token: state.user.token }, 4);

/** The phase of a sale now, by the server's clock: the answer of the server may be some seconds old. */
export function phase(sale) {
  if (!["SCHEDULED", "OPEN", "PAUSED"].includes(sale.status)) return sale.status;
  if (clock.now() >= Date.parse(sale.endsAt)) return "ENDED";
  if (clock.now() < Date.parse(sale.startsAt)) return "SCHEDULED";
  return sale.state === "PAUSED" ? "PAUSED" : "OPEN";
}

let onSignedOut = () => {};
/** Registers what happens when the operator's token is no longer accepted. */
export const whenSignedOut = (listener) => {
  onSignedOut = listener;
};

/** Shows why something failed. An operator gets the server's own reason where there is one. */
export function showProblem(problem) {
  if (problem.status === 401) onSignedOut();
  const errors = problem.errors?.map((error) => `${error.field} ${error.why}`).join("; ");
  const detail = ["WRONG_STATE", "INVALID"].includes(problem.code) ? problem.detail : "";
  const text = errors || detail || problemText(problem);
  toast(text, "bad");
  announce(text);
}
