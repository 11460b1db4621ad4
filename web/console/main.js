// The operator's console: set a sale up, run it, watch it, audit it, and handle what could not be handled.
import { config, isLocal } from "/common/config.js";
import { chooseLanguage, otherLanguage } from "/common/language.js";
import { $, button, h, setText } from "/common/page.js";
import { session, signInAtIssuer, signInLocally, signInProblem, signOut } from "/common/sign-in.js";
import { refreshLive, watchLive } from "/console/live.js";
import { drawClock, drawSale, loadSales } from "/console/sale.js";
import { SCOPES, say, showProblem, state, whenSignedOut } from "/console/state.js";

function drawNav() {
  const { code, name } = otherLanguage;
  const account = state.user ? [h("span", { class: "who" }, state.user.name), button(say("signOut"), leave)] : [];
  $("#nav").replaceChildren(
    h("a", { class: "quiet", href: "/" }, say("shop")),
    button(name, () => chooseLanguage(code), { lang: code }),
    ...account,
  );
}

function signIn() {
  if (!isLocal) {
    const scope = `${config.scope || "openid"} ${config.operatorScope || SCOPES[0]}`;
    return signInAtIssuer("operator", scope).catch(showProblem);
  }
  const dialog = $("#dialog");
  const props = { id: "name", required: true, maxLength: 64, autocomplete: "username", value: "operator" };
  const input = h("input", props);
  const options = SCOPES.map((scope) => h("option", { value: scope }, say(`scope_${scope.split("/")[1]}`)));
  const rights = h("select", { id: "rights" }, options);
  const onsubmit = async (event) => {
    event.preventDefault();
    try {
      await signInLocally("operator", input.value.trim(), rights.value);
      dialog.close();
      enter();
    } catch (problem) {
      showProblem(problem);
    }
  };
  const form = h(
    "form",
    { onsubmit },
    h("h2", { id: "sign-in-title" }, say("signIn")),
    h("label", { htmlFor: "name" }, say("name")),
    input,
    h("p", { class: "fine" }, say("nameHint")),
    h("label", { htmlFor: "rights" }, say("rights")),
    rights,
    h("div", { class: "actions" }, h("button", { type: "submit", class: "press buy" }, say("signIn"))),
  );
  dialog.className = "";
  dialog.setAttribute("aria-labelledby", "sign-in-title");
  dialog.replaceChildren(form);
  dialog.showModal();
}

/** Starts the page for the user who is signed in, if there is one. */
async function enter() {
  state.user = session("operator");
  drawNav();
  if (!state.user) return drawSignedOut();
  await loadSales();
  drawSale();
  refreshLive();
}

function leave() {
  signOut("operator");
  state.user = null;
  state.sales = [];
  drawNav();
  drawSignedOut();
}

function drawSignedOut() {
  const side = $("#side");
  const open = button(say("signIn"), signIn, { class: "press buy", id: "sign-in-button" });
  side.dataset.looks = "";
  side.replaceChildren(h("p", { class: "fine" }, say("needSignIn")), h("div", { class: "actions" }, open));
  $("#work").replaceChildren();
}

document.title = `${config.shopName || "seckill 秒杀"} – ${say("title")}`;
setText($("#brand"), say("title"));
setText($("#skip"), say("skip"));
whenSignedOut(leave);
enter();
if (signInProblem) showProblem(signInProblem);
setInterval(drawClock, 500);
setInterval(() => {
  if (state.user && state.tab !== "letters" && !document.hidden) loadSales();
}, 10000);
watchLive();
