// Calls to the API. A refusal is thrown as a problem: {status, code, detail, retryAfter, errors, …}.
import { clock } from "/common/clock.js";
import { apiUrl } from "/common/config.js";

// What API Gateway refuses by itself has a status and no code.
const CODE_BY_STATUS = { 401: "UNAUTHENTICATED", 403: "FORBIDDEN", 404: "NOT_FOUND", 429: "RATE_LIMITED" };

/** Calls the API once. Returns the body of the response, or throws the problem. */
export async function call(method, path, { token, body, key } = {}) {
  const headers = {};
  if (token) headers.authorization = `Bearer ${token}`;
  if (body !== undefined) headers["content-type"] = "application/json";
  if (key) headers["idempotency-key"] = key;
  const json = body === undefined ? undefined : JSON.stringify(body);
  const sent = Date.now();
  let response;
  try {
    response = await fetch(apiUrl + path, { method, headers, body: json, cache: "no-store" });
  } catch {
    throw { status: 0, code: "OFFLINE" };
  }
  const received = Date.now();
  const answer = await response.json().catch(() => ({}));
  if (response.ok) {
    if (answer.now) clock.learn(answer.now, sent, received);
    return answer;
  }
  const code = CODE_BY_STATUS[response.status] || "UNAVAILABLE";
  const retryAfter = Number(response.headers.get("retry-after")) || answer.retryAfter;
  throw { code, detail: answer.message, ...answer, status: response.status, retryAfter };
}

/** Calls the API, and retries what may pass: after Retry-After, or with exponential backoff. */
export async function callWithRetries(method, path, options, attempts = 8) {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await call(method, path, options);
    } catch (problem) {
      if (!isTransient(problem) || attempt >= attempts) throw problem;
      await sleep(Math.max(retryAfterMs(problem), jitter(Math.min(250 * 2 ** attempt, 8000))));
    }
  }
}

const isTransient = (problem) => [0, 429, 500, 502, 503, 504].includes(problem.status);

/** How long the server asked to wait, in milliseconds; 0 if it did not. */
export const retryAfterMs = (problem) => (problem.retryAfter || 0) * 1000;

export const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

/** Roughly `ms`, at random, so that thousands of pages do not call at the same moment. */
export const jitter = (ms) => ms * (0.75 + Math.random() / 2);

/** Random bytes as text, for idempotency keys and for sign-in. */
export const randomText = (bytes) => base64url(crypto.getRandomValues(new Uint8Array(bytes)));

export const base64url = (bytes) =>
  btoa(String.fromCharCode(...new Uint8Array(bytes)))
    .replace(/\+/g, "-")
    .replace(/\//g, "_")
    .replace(/=+$/, "");

/** A new idempotency key. One purchase keeps its key, however often it has to be sent. */
export const newKey = () => randomText(18);
