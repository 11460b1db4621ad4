// Sign-in. With an issuer in config.json: OpenID Connect, authorization code with PKCE. On the local cloud: any name.
// A page keeps one token for each role ("buyer", "operator"), in this tab only.
import { base64url, randomText } from "/common/api.js";
import { clock } from "/common/clock.js";
import { config, isLocal } from "/common/config.js";

const store = sessionStorage;
const tokenKey = (role) => `seckill.${role}`;
const PKCE_KEY = "seckill.pkce";

function claimsOf(token) {
  try {
    const payload = token.split(".")[1].replace(/-/g, "+").replace(/_/g, "/");
    return JSON.parse(new TextDecoder().decode(Uint8Array.from(atob(payload), (letter) => letter.charCodeAt(0))));
  } catch {
    return {};
  }
}

/** Who is signed in with this role: {token, name, scopes}, or null. */
export function session(role) {
  const token = store.getItem(tokenKey(role));
  if (!token) return null;
  const { sub, exp, name, email, scope, scp } = claimsOf(token);
  const isExpired = exp && exp * 1000 < clock.now();
  const scopes = [scope ?? scp ?? []].flat().flatMap((text) => String(text).split(" "));
  return sub && !isExpired ? { token, name: name || email || sub, scopes } : null;
}

export function signOut(role) {
  store.removeItem(tokenKey(role));
}

export async function signInLocally(role, name, scope) {
  const response = await fetch("/_local/token", { method: "POST", body: JSON.stringify({ sub: name, scope }) });
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw { code: "UNAUTHENTICATED", detail: answer.message };
  store.setItem(tokenKey(role), answer.token);
}

const signInFailed = (error) => ({ code: "SIGN_IN_FAILED", detail: error.message });
const redirectUri = () => location.origin + location.pathname;

async function issuerEndpoints() {
  const response = await fetch(`${config.issuer.replace(/\/$/, "")}/.well-known/openid-configuration`);
  if (!response.ok) throw new Error(`${config.issuer}: ${response.status}`);
  return response.json();
}

/** Sends the browser to the shop's own sign-in, which returns it to this page. Throws a problem if that fails. */
export async function signInAtIssuer(role, scope) {
  try {
    const verifier = randomText(32);
    const state = randomText(16);
    store.setItem(PKCE_KEY, JSON.stringify({ verifier, state, role }));
    const challenge = base64url(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(verifier)));
    const { authorization_endpoint: endpoint } = await issuerEndpoints();
    const query = new URLSearchParams({
      response_type: "code",
      client_id: config.clientId,
      redirect_uri: redirectUri(),
      scope,
      state,
      code_challenge: challenge,
      code_challenge_method: "S256",
    });
    location.assign(`${endpoint}?${query}`);
  } catch (error) {
    throw signInFailed(error);
  }
}

/** Completes a sign-in if the issuer has just returned the browser here; otherwise does nothing. */
async function finishSignIn() {
  const query = new URLSearchParams(location.search);
  const started = JSON.parse(store.getItem(PKCE_KEY) || "null");
  const isReturn = query.has("code") || query.has("error");
  if (!isReturn || !started || query.get("state") !== started.state) return;
  // A code is valid once. Forget it first, so that reloading the page does not send it again.
  store.removeItem(PKCE_KEY);
  history.replaceState(null, "", redirectUri());
  if (query.has("error")) throw new Error(query.get("error_description") || query.get("error"));
  const { token_endpoint: endpoint } = await issuerEndpoints();
  const body = new URLSearchParams({
    grant_type: "authorization_code",
    code: query.get("code"),
    client_id: config.clientId,
    redirect_uri: redirectUri(),
    code_verifier: started.verifier,
  });
  const response = await fetch(endpoint, { method: "POST", body });
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(answer.error_description || answer.error || `${endpoint}: ${response.status}`);
  store.setItem(tokenKey(started.role), answer.access_token);
  if (session(started.role)) return;
  signOut(started.role);
  throw new Error(`${config.issuer}: the access token is not a JWT with a sub, or has expired`);
}

/** Why a sign-in that returned to this page failed, as a problem; null if it succeeded or there was none. */
export const signInProblem = isLocal ? null : await finishSignIn().then(() => null, signInFailed);
