// Who is signed in: the navigation bar, signing in and out.
import { config, isLocal } from "/common/config.js";
import { chooseLanguage, otherLanguage, problemText } from "/common/language.js";
import { followOrders } from "/common/order-feed.js";
import { $, announce, button, h, toast } from "/common/page.js";
import { session, signInAtIssuer, signInLocally, signOut } from "/common/sign-in.js";
import { loadPoints, receiveOrder } from "/shop/orders.js";
import { redraw, say, state } from "/shop/state.js";

function drawNav() {
  const { code, name } = otherLanguage;
  const account = state.user
    ? [h("span", { class: "who", id: "who" }, state.user.name), button(say("signOut"), leave)]
    : [button(say("signIn"), signIn, { id: "sign-in-button" })];
  $("#nav").replaceChildren(
    button(name, () => chooseLanguage(code), { lang: code }),
    ...account,
  );
}

/** Signs in: at the issuer, which leaves the page, or with a dialog on the local cloud. */
export function signIn() {
  if (!isLocal) return signInAtIssuer("buyer", config.scope || "openid").catch(showSignInProblem);
  const dialog = $("#sign-in");
  const input = h("input", {
    id: "name",
    name: "name",
    required: true,
    maxLength: 64,
    autocomplete: "username",
    autocapitalize: "none",
    spellcheck: false,
  });
  const submit = async (event) => {
    event.preventDefault();
    try {
      await signInLocally("buyer", input.value.trim(), "");
      enter();
      dialog.close();
    } catch (problem) {
      toast(problemText(problem), "bad");
    }
  };
  const form = h(
    "form",
    { method: "dialog", onsubmit: submit },
    h("h2", { id: "sign-in-title" }, say("signIn")),
    h("label", { htmlFor: "name" }, say("name")),
    input,
    h("p", { class: "fine" }, say("nameHint")),
    h(
      "div",
      { class: "actions" },
      button(say("cancelDialog"), () => dialog.close()),
      h("button", { type: "submit", class: "press buy" }, say("signIn")),
    ),
  );
  dialog.replaceChildren(form);
  return new Promise((done) => {
    dialog.addEventListener("close", () => done(), { once: true });
    dialog.showModal();
    input.focus();
  });
}

export function showSignInProblem(problem) {
  toast(problemText(problem), "bad");
  announce(problemText(problem));
}

/** Starts the page for the user who is signed in, if there is one. */
export function enter() {
  state.user = session("buyer");
  drawNav();
  if (!state.user) return;
  state.feed?.stop();
  state.feed = followOrders(state.user.token, receiveOrder, (link) => {
    if (link === "signed-out") return expire();
    state.link = link;
    redraw();
  });
  loadPoints();
}

function leave() {
  signOut("buyer");
  state.feed?.stop();
  state.feed = null;
  state.user = null;
  state.points = null;
  state.orders.clear();
  state.payments.clear();
  drawNav();
  redraw();
}

/** Signs out a user whose token is no longer accepted. */
export function expire() {
  leave();
  toast(say("expired"), "bad");
}
