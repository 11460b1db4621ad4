// A buyer's orders as they change: over a WebSocket while one is open, by polling otherwise.
import { call, jitter, retryAfterMs, sleep } from "/common/api.js";
import { wsUrl } from "/common/config.js";

// API Gateway closes a connection that is idle for ten minutes. Any message keeps it open, and asks for the current
// state in case an update was lost.
const KEEP_ALIVE_SECONDS = 240;
const LONGEST_WAIT_MS = 30000;

/**
 * Follows the orders of a buyer until stop() is called.
 *
 * `onOrder` gets each order; an update that is older than one already seen is dropped. `onState` gets "push" or "poll",
 * and "signed-out" when the token is no longer accepted, which ends the feed.
 */
export function followOrders(token, onOrder, onState) {
  const versions = new Map();
  let socket = null;
  let isStopped = false;
  let failures = 0;

  // After stop() another buyer may be signed in: a response still in flight must not reach them.
  const deliver = (order) => {
    if (isStopped || (versions.get(order.orderId) ?? -1) > order.version) return;
    versions.set(order.orderId, order.version);
    onOrder(order);
  };
  const report = (state) => {
    if (!isStopped) onState(state);
  };

  const poll = async () => {
    const { orders } = await call("GET", "/orders", { token });
    orders.reverse().forEach(deliver);
  };

  const connect = async () => {
    const { ticket } = await call("POST", "/ws-ticket", { token });
    if (isStopped) return;
    await new Promise((opened, failed) => {
      const separator = wsUrl.includes("?") ? "&" : "?";
      const next = new WebSocket(`${wsUrl}${separator}token=${encodeURIComponent(ticket)}`);
      next.onopen = () => {
        if (isStopped) return next.close();
        socket = next;
        opened();
      };
      next.onerror = failed;
      next.onclose = () => {
        if (socket === next) socket = null;
        failed();
      };
      next.onmessage = (event) => {
        const order = parse(event.data);
        if (order?.orderId) deliver(order);
      };
    });
  };

  const stayConnected = async () => {
    for (let seconds = 1; socket && !isStopped; seconds += 1) {
      await sleep(1000);
      if (seconds % KEEP_ALIVE_SECONDS === 0 && socket) socket.send("{}");
    }
  };

  const run = async () => {
    while (!isStopped) {
      try {
        await connect();
        failures = 0;
        report("push");
        await stayConnected();
      } catch (problem) {
        if (problem?.status === 401) return report("signed-out");
        failures += 1;
      }
      if (isStopped) return;
      report("poll");
      let wait = Math.min(1000 * 2 ** failures, LONGEST_WAIT_MS);
      try {
        await poll();
      } catch (problem) {
        if (problem.status === 401) return report("signed-out");
        wait = Math.max(wait, retryAfterMs(problem));
      }
      await sleep(jitter(wait));
    }
  };

  run();
  return {
    stop() {
      isStopped = true;
      if (socket) socket.close();
    },
    /** Asks for the orders once, now. */
    refresh: () => poll().catch(() => {}),
  };
}

function parse(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
