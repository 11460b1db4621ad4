// The server's clock. Countdowns and deadlines go by it, because a buyer's own clock may be minutes off.

export const clock = {
  /** Server time minus the browser's time, in milliseconds. */
  skew: 0,
  /** The round trip of the fastest response so far, in milliseconds. */
  fastest: Infinity,
  now: () => Date.now() + clock.skew,
  /** Learns from a response that carries the server's time. The faster the round trip, the more exact it is. */
  learn(serverNow, sent, received) {
    const roundTrip = received - sent;
    if (roundTrip > clock.fastest * 1.5 && roundTrip > 150) return;
    clock.fastest = Math.min(clock.fastest, roundTrip);
    clock.skew = Date.parse(serverNow) - (sent + received) / 2;
  },
};
