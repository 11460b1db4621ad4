//! Whether something happened in this very run of a flow, so that it is counted once however often the flow is run again. An
//! order carries the moment of the run that changed it.

use domain::Timestamp;
use domain::order::Order;
use domain::payment::Method;

/// How the order was paid, if it was the run of this moment that made it so.
pub fn settled(order: &Order, now: Timestamp) -> Option<Method> {
    done(order.paid_at, now).then(|| order.paid.as_ref().map(|with| with.method)).flatten()
}

/// Whether it was the run of this moment that finished the order's refund.
pub fn refunded(order: &Order, now: Timestamp) -> bool {
    done(order.refunded_at, now)
}

/// Whether what was done then was done by the run of this moment. Rows keep milliseconds.
pub fn done(at: Option<Timestamp>, now: Timestamp) -> bool {
    at.is_some_and(|at| at.as_millisecond() == now.as_millisecond())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_knows_its_own_work_by_the_millisecond() {
        let at = |text: &str| -> Timestamp { text.parse().unwrap() };
        let now = at("2026-11-11T00:00:00.123456Z");
        assert!(done(Some(at("2026-11-11T00:00:00.123Z")), now));
        assert!(!done(Some(at("2026-11-11T00:00:00.122Z")), now));
        assert!(!done(None, now));
    }
}
