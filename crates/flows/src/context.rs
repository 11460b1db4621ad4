//! What every step of a flow that talks to payment providers needs.

use domain::Timestamp;
use providers::Providers;
use store::Store;

/// The store, the payment providers, and the time of this run.
///
/// One run of a flow has one time: every row that it changes carries it.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    pub store: &'a Store,
    pub providers: &'a Providers,
    pub now: Timestamp,
}

impl<'a> Context<'a> {
    pub fn new(store: &'a Store, providers: &'a Providers, now: Timestamp) -> Self {
        Self { store, providers, now }
    }

    /// Whether a change that carries the time `at` was made by this run. Rows keep milliseconds.
    ///
    /// This also recognises a write that took effect although its answer was lost: its retry finds the change
    /// already made, and the row tells that it was this run that made it.
    pub(crate) fn is_this_run(&self, at: Option<Timestamp>) -> bool {
        at.is_some_and(|at| is_same_millisecond(at, self.now))
    }
}

fn is_same_millisecond(one: Timestamp, other: Timestamp) -> bool {
    one.as_millisecond() == other.as_millisecond()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_recognises_its_own_work_by_the_millisecond() {
        let at = |text: &str| -> Timestamp { text.parse().unwrap() };
        let now = at("2026-11-11T00:00:00.123456Z");
        assert!(is_same_millisecond(at("2026-11-11T00:00:00.123Z"), now));
        assert!(!is_same_millisecond(at("2026-11-11T00:00:00.122Z"), now));
    }
}
