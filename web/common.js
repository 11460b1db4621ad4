// What the storefront and the console share: settings, sign-in, the API, the server's clock, words in two languages, and a way to build pages.
// Nothing here puts text into a page other than as text: data cannot become markup.

// ── Building pages ───────────────────────────────────────────────────────────────────────────────────────────────
/** An element: h("button", {class: "buy", onclick: f}, "Buy"). Text children are text, never markup. */
export function h(tag, props = {}, ...children) {
  const svg = ["svg", "path", "g", "line", "text", "rect", "circle", "polyline", "title"].includes(tag);
  const element = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name in element && !svg && !name.startsWith("aria") && name !== "list" && name !== "form") element[name] = value;
    else element.setAttribute(name === "class" ? "class" : name, value === true ? "" : value);
  }
  if (props.class && !svg) element.className = props.class;
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Sets text only if it differs: what did not change is not read aloud again. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export const $ = (selector) => document.querySelector(selector);

/** Says something to everybody who cannot see the page change. */
export function announce(text) {
  const region = $("#announcer");
  if (region) setText(region, text);
}

let toastTimer;
/** A short message at the foot of the page. */
export function toast(text, kind = "info") {
  const box = $("#toast");
  if (!box) return;
  box.className = `toast ${kind} shown`;
  setText(box, text);
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => box.classList.remove("shown"), 6000);
}

// ── Words ────────────────────────────────────────────────────────────────────────────────────────────────────────
export const language = (() => {
  const known = ["en", "zh"];
  const chosen = new URLSearchParams(location.search).get("lang") || localStorage.getItem("seckill.lang");
  if (known.includes(chosen)) return chosen;
  return (navigator.languages || [navigator.language]).some((one) => one.toLowerCase().startsWith("zh")) ? "zh" : "en";
})();
document.documentElement.lang = language === "zh" ? "zh-CN" : "en";

export function chooseLanguage(next) {
  localStorage.setItem("seckill.lang", next);
  const url = new URL(location.href);
  url.searchParams.delete("lang");
  location.replace(url);
}

const PROBLEMS = {
  en: {
    UNAUTHENTICATED: "Sign in first.", FORBIDDEN: "Not allowed.", NOT_FOUND: "There is no such thing.", UNKNOWN_SALE: "There is no such sale.",
    UNKNOWN_ITEM: "There is no such item.", UNKNOWN_ORDER: "There is no such order.", NOT_STARTED: "The sale has not started.", ENDED: "The sale is over.",
    PAUSED: "The sale is paused for a moment.", SOLD_OUT: "Sold out. Units may come back.", DUPLICATE_ORDER: "You have an order of this already.",
    LIMIT_EXCEEDED: "That is more than one buyer may have.", WRONG_STATE: "Not possible as things stand.", IDEMPOTENCY_MISMATCH: "Please try again.",
    INVALID: "Something in the form is not right.", TOO_LARGE: "That is too much.", RATE_LIMITED: "Too fast. Please wait a moment.",
    UNAVAILABLE: "Not possible right now. Please try again in a moment.", OFFLINE: "No connection. Trying again…", SIGN_IN_FAILED: "Signing in did not work.",
  },
  zh: {
    UNAUTHENTICATED: "请先登录。", FORBIDDEN: "没有权限。", NOT_FOUND: "没有找到。", UNKNOWN_SALE: "没有这场活动。", UNKNOWN_ITEM: "没有这件商品。",
    UNKNOWN_ORDER: "没有这个订单。", NOT_STARTED: "活动尚未开始。", ENDED: "活动已结束。", PAUSED: "活动暂停中，请稍候。", SOLD_OUT: "已抢光，可能还有返场。",
    DUPLICATE_ORDER: "您已有该商品的订单。", LIMIT_EXCEEDED: "超过每人限购数量。", WRONG_STATE: "当前状态不允许此操作。", IDEMPOTENCY_MISMATCH: "请再试一次。",
    INVALID: "填写内容有误。", TOO_LARGE: "内容过大。", RATE_LIMITED: "操作太快，请稍候。", UNAVAILABLE: "暂时无法完成，请稍后再试。", OFFLINE: "网络中断，正在重试…",
    SIGN_IN_FAILED: "登录未成功。",
  },
};

/** What a problem means to the person in front of the page. */
export function sayProblem(problem) {
  // Only the issuer knows why: in its own words.
  if (problem.code === "SIGN_IN_FAILED") return `${PROBLEMS[language].SIGN_IN_FAILED} ${problem.detail}`;
  return PROBLEMS[language][problem.code] || problem.detail || PROBLEMS[language].UNAVAILABLE;
}

/** A function that finds the words of this page: words({en: {...}, zh: {...}})("buy", {n: 3}). */
export function words(dictionary) {
  return (key, values = {}) => {
    const text = dictionary[language][key] ?? dictionary.en[key] ?? key;
    return text.replace(/\{(\w+)\}/g, (_, name) => String(values[name] ?? ""));
  };
}

export function money(amount, currency) {
  if (amount === null || amount === undefined) return "";
  try {
    const format = new Intl.NumberFormat(language === "zh" ? "zh-CN" : "en", { style: "currency", currency, currencyDisplay: "narrowSymbol" });
    return format.format(amount / 10 ** format.resolvedOptions().maximumFractionDigits);
  } catch {
    return `${(amount / 100).toFixed(2)} ${currency}`;
  }
}

export const number = (value) => new Intl.NumberFormat(language === "zh" ? "zh-CN" : "en").format(value);
export const localTime = (iso) =>
  new Intl.DateTimeFormat(language === "zh" ? "zh-CN" : "en", { dateStyle: "medium", timeStyle: "short" }).format(new Date(iso));

/** 90061000 ms as 1d 01:01:01; under a day without the days, under an hour without the hours. */
export function duration(ms) {
  const total = Math.max(0, Math.ceil(ms / 1000));
  const two = (value) => String(value).padStart(2, "0");
  const [days, hours, minutes, seconds] = [Math.floor(total / 86400), Math.floor(total / 3600) % 24, Math.floor(total / 60) % 60, total % 60];
  const clock = total >= 3600 ? `${two(hours)}:${two(minutes)}:${two(seconds)}` : `${two(minutes)}:${two(seconds)}`;
  return days > 0 ? `${days}${language === "zh" ? "天 " : "d "}${clock}` : clock;
}

// ── Settings ─────────────────────────────────────────────────────────────────────────────────────────────────────
export const config = await fetch("/config.json", { cache: "no-cache" })
  .then((answer) => (answer.ok ? answer.json() : {}))
  .catch(() => ({}));
const apiUrl = (config.apiUrl || "").replace(/\/$/, "");
const wsUrl = config.wsUrl || `${location.origin.replace(/^http/, "ws")}/ws`;

// ── Sign-in ──────────────────────────────────────────────────────────────────────────────────────────────────────
// With an issuer in config.json: OpenID Connect, authorization code with PKCE. Without: the local cloud, which believes any name.
const store = sessionStorage;
export const isLocal = !config.issuer;

function claims(token) {
  try {
    const part = token.split(".")[1].replace(/-/g, "+").replace(/_/g, "/");
    return JSON.parse(new TextDecoder().decode(Uint8Array.from(atob(part), (letter) => letter.charCodeAt(0))));
  } catch {
    return {};
  }
}

/** Who is signed in on this page, of a role: {token, name}, or null. */
export function session(role) {
  const token = store.getItem(`seckill.${role}`);
  if (!token) return null;
  const { sub, exp, name, email } = claims(token);
  if (!sub || (exp && exp * 1000 < Date.now() + clock.skew)) return null;
  return { token, name: name || email || sub };
}

export function signOut(role) {
  store.removeItem(`seckill.${role}`);
}

export async function signInLocally(role, name, scope) {
  const answer = await fetch("/_local/token", { method: "POST", body: JSON.stringify({ sub: name, scope }) });
  if (!answer.ok) throw { code: "UNAUTHENTICATED", detail: (await answer.json().catch(() => ({}))).message };
  store.setItem(`seckill.${role}`, (await answer.json()).token);
}

const base64url = (bytes) => btoa(String.fromCharCode(...new Uint8Array(bytes))).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
const provider = async () => {
  const answer = await fetch(`${config.issuer.replace(/\/$/, "")}/.well-known/openid-configuration`);
  if (!answer.ok) throw new Error(`${config.issuer}: ${answer.status}`);
  return answer.json();
};
const signInFailed = (error) => ({ code: "SIGN_IN_FAILED", detail: error.message });
const redirectUri = () => location.origin + location.pathname;

/** Sends the browser to the shop's own sign-in. It comes back to this page. Throws the problem if there is no way there. */
export const signInAtIssuer = (role, scope) => goToIssuer(role, scope).catch((error) => { throw signInFailed(error); });

async function goToIssuer(role, scope) {
  const verifier = base64url(crypto.getRandomValues(new Uint8Array(32)));
  const state = base64url(crypto.getRandomValues(new Uint8Array(16)));
  store.setItem("seckill.pkce", JSON.stringify({ verifier, state, role }));
  const challenge = base64url(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(verifier)));
  const { authorization_endpoint: endpoint } = await provider();
  const asked = { response_type: "code", client_id: config.clientId, redirect_uri: redirectUri(), scope, state, code_challenge: challenge, code_challenge_method: "S256" };
  location.assign(`${endpoint}?${new URLSearchParams(asked)}`);
}

async function finishSignIn() {
  const query = new URLSearchParams(location.search);
  const begun = JSON.parse(store.getItem("seckill.pkce") || "null");
  if (!(query.has("code") || query.has("error")) || !begun || query.get("state") !== begun.state) return;
  // A code is good once: whatever comes of it, loading the page again must not send it again.
  store.removeItem("seckill.pkce");
  history.replaceState(null, "", redirectUri());
  if (query.has("error")) throw new Error(query.get("error_description") || query.get("error"));
  const { token_endpoint: endpoint } = await provider();
  const body = new URLSearchParams({ grant_type: "authorization_code", code: query.get("code"), client_id: config.clientId, redirect_uri: redirectUri(), code_verifier: begun.verifier });
  const answer = await fetch(endpoint, { method: "POST", body });
  const said = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Error(said.error_description || said.error || `${endpoint}: ${answer.status}`);
  store.setItem(`seckill.${begun.role}`, said.access_token);
  if (session(begun.role)) return;
  signOut(begun.role);
  throw new Error(`${config.issuer}: the access token is not a JWT with a sub, or has expired`);
}

// ── The server's clock ───────────────────────────────────────────────────────────────────────────────────────────
// The quickest answer tells the time best: it was on its way for the shortest time.
export const clock = {
  skew: 0,
  best: Infinity,
  now: () => Date.now() + clock.skew,
  learn(serverNow, sent, received) {
    const took = received - sent;
    if (took > clock.best * 1.5 && took > 150) return;
    clock.best = Math.min(clock.best, took);
    clock.skew = Date.parse(serverNow) - (sent + received) / 2;
  },
};
/** What kept somebody who comes back from the issuer from being signed in, as a problem; null: nothing did. */
export const signInProblem = isLocal ? null : await finishSignIn().then(() => null, signInFailed);

// ── The API ──────────────────────────────────────────────────────────────────────────────────────────────────────
/** Calls the API. Answers with the body; throws the problem: {status, code, detail, retryAfter, errors, …}. */
export async function call(method, path, { token, body, key } = {}) {
  const headers = {};
  if (token) headers.authorization = `Bearer ${token}`;
  if (body !== undefined) headers["content-type"] = "application/json";
  if (key) headers["idempotency-key"] = key;
  let answer;
  const sent = Date.now();
  try {
    answer = await fetch(apiUrl + path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body), cache: "no-store" });
  } catch {
    throw { status: 0, code: "OFFLINE" };
  }
  const received = Date.now();
  const said = await answer.json().catch(() => ({}));
  if (answer.ok) {
    if (said.now) clock.learn(said.now, sent, received);
    return said;
  }
  const byStatus = { 401: "UNAUTHENTICATED", 403: "FORBIDDEN", 404: "NOT_FOUND", 429: "RATE_LIMITED" };
  const retryAfter = Number(answer.headers.get("retry-after")) || said.retryAfter;
  throw { code: byStatus[answer.status] || "UNAVAILABLE", detail: said.message, ...said, status: answer.status, retryAfter };
}

export const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
/** Some time around `ms`, so that a thousand pages do not come at once. */
export const around = (ms) => ms * (0.75 + Math.random() / 2);
export const mayPass = (problem) => [0, 429, 500, 502, 503, 504].includes(problem.status);

/** Calls until it is answered: what may pass is tried again, as late as Retry-After says, later and later otherwise. */
export async function callPatiently(method, path, options, tries = 8) {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await call(method, path, options);
    } catch (problem) {
      if (!mayPass(problem) || attempt >= tries) throw problem;
      await sleep(Math.max((problem.retryAfter || 0) * 1000, around(Math.min(250 * 2 ** attempt, 8000))));
    }
  }
}

/** A name for one try that no other has. */
export const newKey = () => base64url(crypto.getRandomValues(new Uint8Array(18)));

// ── Push ─────────────────────────────────────────────────────────────────────────────────────────────────────────
/**
 * Hears of a buyer's orders: over a WebSocket while there is one, by asking otherwise. `hear` gets each order; a state that is older than one that was
 * heard is not passed on.
 */
export function follow(token, hear, onState) {
  const versions = new Map();
  let socket = null;
  let stopped = false;
  let failures = 0;
  // Whoever stops it has signed out: what was under way then is not for the next one's eyes.
  const take = (order) => {
    if (stopped) return;
    if ((versions.get(order.orderId) ?? -1) > order.version) return;
    versions.set(order.orderId, order.version);
    hear(order);
  };
  const tell = (link) => { if (!stopped) onState(link); };
  const ask = async () => {
    const { orders } = await call("GET", "/orders", { token });
    orders.reverse().forEach(take);
  };
  const connect = async () => {
    const { ticket } = await call("POST", "/ws-ticket", { token });
    if (stopped) return;
    await new Promise((opened, failed) => {
      const separator = wsUrl.includes("?") ? "&" : "?";
      const next = new WebSocket(`${wsUrl}${separator}token=${encodeURIComponent(ticket)}`);
      next.onopen = () => { if (stopped) { next.close(); } else { socket = next; opened(); } };
      next.onerror = failed;
      next.onclose = () => { if (socket === next) socket = null; failed(); };
      next.onmessage = (event) => {
        const order = (() => { try { return JSON.parse(event.data); } catch { return null; } })();
        if (order && order.orderId) take(order);
      };
    });
  };
  (async () => {
    while (!stopped) {
      try {
        await connect();
        failures = 0;
        tell("push");
        // Idle connections are closed after ten minutes; whatever is said asks for the state again, in case something was missed.
        for (let quiet = 0; socket && !stopped; quiet += 1) {
          await sleep(1000);
          if (quiet % 240 === 239 && socket) socket.send("{}");
        }
      } catch (problem) {
        if (problem && problem.status === 401) { tell("signed-out"); return; }
        failures += 1;
      }
      if (stopped) return;
      tell("poll");
      let wait = Math.min(1000 * 2 ** failures, 30000);
      try { await ask(); } catch (problem) {
        if (problem.status === 401) { tell("signed-out"); return; }
        wait = Math.max(wait, (problem.retryAfter || 0) * 1000);
      }
      await sleep(around(wait));
    }
  })();
  return { stop() { stopped = true; if (socket) socket.close(); }, ask: () => ask().catch(() => {}) };
}
