// Buying: one press of a button, until it is accepted or refused.
import { call, callWithRetries, jitter, newKey, retryAfterMs, sleep } from "/common/api.js";
import { problemText } from "/common/language.js";
import { announce, toast } from "/common/page.js";
import { expire, signIn } from "/shop/account.js";
import { receiveOrder, receiveOrderFor } from "/shop/orders.js";
import { itemKey, quantityOf, redraw, say, state } from "/shop/state.js";

// What the shop shows may be a second old. After SOLD_OUT a purchase waits this long before it looks again.
const LOOK_AGAIN_MS = 1200;

export async function buy(sale, item) {
  if (!state.user) {
    await signIn();
    if (!state.user) return;
  }
  const user = state.user;
  const key = itemKey(sale.saleId, item.itemId);
  const quantity = quantityOf(key);
  state.purchases.set(key, { quantity, isSending: true });
  redraw();
  try {
    const accepted = await purchase(user, sale, item, quantity);
    if (state.user !== user) return;
    receiveOrder(queuedOrder(accepted, sale, item, quantity));
    toast(say("accepted"), "good");
    announce(say("accepted"));
    awaitOrder(accepted.orderId);
  } catch (problem) {
    if (state.user !== user) return;
    if (problem.code === "SOLD_OUT") item.availability = "SOLD_OUT";
    if (problem.code === "DUPLICATE_ORDER") state.feed?.refresh();
    if (problem.status === 401) expire();
    toast(problemText(problem), "bad");
    announce(problemText(problem));
  } finally {
    state.purchases.set(key, { quantity, isSending: false });
    redraw();
  }
}

/**
 * Sends a purchase, under one idempotency key however often it is sent. After SOLD_OUT it looks at the shop once more,
 * and tries again if units are shown: some may have just come back.
 */
async function purchase(user, sale, item, quantity) {
  const key = newKey();
  const send = ({ availabilityVersion: seenVersion }) => {
    const body = { saleId: sale.saleId, itemId: item.itemId, quantity, seenVersion };
    return callWithRetries("POST", "/seckill", { token: user.token, key, body });
  };
  try {
    return await send(item);
  } catch (problem) {
    if (problem.code !== "SOLD_OUT") throw problem;
    await sleep(jitter(LOOK_AGAIN_MS));
    const latest = await call("GET", `/sales/${sale.saleId}`).catch(() => null);
    const shown = latest?.sales[0]?.items.find((one) => one.itemId === item.itemId);
    if (!shown || shown.availability === "SOLD_OUT") throw problem;
    return send(shown);
  }
}

/** An accepted purchase as the order that it becomes. */
function queuedOrder({ orderId, status }, sale, item, quantity) {
  return {
    orderId,
    version: 0,
    saleId: sale.saleId,
    itemId: item.itemId,
    itemName: item.name,
    quantity,
    amount: item.price * quantity,
    currency: item.currency,
    status,
    reason: null,
    payBy: null,
    payment: null,
  };
}

/** Polls an order until it is no longer queued, in case its push does not arrive. */
async function awaitOrder(orderId) {
  const user = state.user;
  for (let wait = 1500; wait < 60000; wait *= 1.6) {
    await sleep(jitter(wait));
    if (state.user !== user || state.orders.get(orderId)?.status !== "QUEUED") return;
    try {
      receiveOrderFor(user, await call("GET", `/orders/${orderId}`, { token: user.token }));
    } catch (problem) {
      await sleep(retryAfterMs(problem));
    }
  }
}
