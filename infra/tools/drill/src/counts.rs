//! Counts of what happened in a drill, and a list of what should not have happened.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How many unexpected events are described. The rest are only counted.
const MAX_UNEXPECTED: usize = 50;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Counted {
    /// Answers to purchase requests, by code.
    Answer,
    /// What buyers did with their orders.
    Action,
    /// Retries of requests, by reason.
    Retry,
    /// Killed processes, by program.
    Kill,
}

/// The counts of a drill, shared by all its tasks.
#[derive(Debug, Default)]
pub struct Counts {
    /// Purchases started.
    begun: AtomicU32,
    by_name: Mutex<BTreeMap<(Counted, String), u64>>,
    /// Orders for which a client has received a 202.
    accepted: Mutex<BTreeSet<String>>,
    unexpected: Mutex<(u64, Vec<String>)>,
}

/// A task that panics while it holds the lock leaves the counts intact.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Counts {
    /// Starts a purchase and returns its number.
    pub(crate) fn begin(&self) -> u32 {
        self.begun.fetch_add(1, Ordering::Relaxed)
    }

    /// Purchases started. Never more than `of`.
    pub(crate) fn begun(&self, of: u32) -> u32 {
        self.begun.load(Ordering::Relaxed).min(of)
    }

    pub(crate) fn count(&self, kind: Counted, name: &str) {
        *locked(&self.by_name).entry((kind, name.to_owned())).or_default() += 1;
    }

    /// Records that a client has received a 202 for this order. True the first time.
    pub(crate) fn accept(&self, order: &str) -> bool {
        locked(&self.accepted).insert(order.to_owned())
    }

    pub(crate) fn is_accepted(&self, order: &str) -> bool {
        locked(&self.accepted).contains(order)
    }

    pub(crate) fn accepted(&self) -> BTreeSet<String> {
        locked(&self.accepted).clone()
    }

    /// Records something that must not happen.
    pub(crate) fn unexpected(&self, what: String) {
        let mut unexpected = locked(&self.unexpected);
        unexpected.0 += 1;
        if unexpected.1.len() < MAX_UNEXPECTED {
            unexpected.1.push(what);
        }
    }

    /// Everything that must not have happened.
    pub(crate) fn unexpected_events(&self) -> Vec<String> {
        let unexpected = locked(&self.unexpected);
        let mut events = unexpected.1.clone();
        let more = unexpected.0.saturating_sub(u64::try_from(events.len()).unwrap_or(u64::MAX));
        if more > 0 {
            events.push(format!("and {more} more"));
        }
        events
    }

    /// Counts of a kind, by name.
    pub fn of(&self, kind: Counted) -> BTreeMap<String, u64> {
        let counts = locked(&self.by_name);
        counts.iter().filter(|((of, _), _)| *of == kind).map(|((_, name), count)| (name.clone(), *count)).collect()
    }

    /// The sum of all counts of a kind.
    pub fn total(&self, kind: Counted) -> u64 {
        self.of(kind).values().sum()
    }

    fn one(&self, kind: Counted, name: &str) -> u64 {
        locked(&self.by_name).get(&(kind, name.to_owned())).copied().unwrap_or(0)
    }

    /// A line that shows the progress.
    pub(crate) fn line(&self, purchases: u32, after: Duration, doing: &str) -> String {
        let accepted = locked(&self.accepted).len();
        format!(
            "  {:>3} s  {doing}: {} of {purchases} purchases, {accepted} accepted, {} sold out; {} paid, {} refunded; \
             {} kills",
            after.as_secs(),
            self.begun(purchases),
            self.one(Counted::Answer, "SOLD_OUT"),
            self.one(Counted::Action, PAID),
            self.one(Counted::Action, REFUNDED),
            self.total(Counted::Kill),
        )
    }

    /// All counts as text.
    pub(crate) fn summary(&self, purchases: u32) -> String {
        let mut text = String::new();
        let accepted = locked(&self.accepted).len();
        // Writing into a string cannot fail.
        let _ = writeln!(text, "  purchases      {}, {accepted} orders accepted", self.begun(purchases));
        for (kind, title) in [
            (Counted::Answer, "answers"),
            (Counted::Action, "buyers"),
            (Counted::Retry, "sent again"),
            (Counted::Kill, "kills"),
        ] {
            let counts = self.of(kind);
            let named: Vec<String> = counts.iter().map(|(name, count)| format!("{count} {name}")).collect();
            let named = if named.is_empty() { "none".to_owned() } else { named.join(", ") };
            let _ = writeln!(text, "  {title:<14} {} ({named})", counts.values().sum::<u64>());
        }
        text
    }
}

pub(crate) const PAID: &str = "paid";
pub(crate) const REFUNDED: &str = "refunded";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_has_all_counts() {
        let counts = Counts::default();
        for _ in 0..3 {
            counts.begin();
        }
        counts.count(Counted::Answer, "SOLD_OUT");
        counts.count(Counted::Answer, "202");
        counts.count(Counted::Kill, "seckill");
        assert!(counts.accept("A") && !counts.accept("A"));
        let summary = counts.summary(2);
        assert!(summary.contains("purchases      2, 1 orders accepted"), "{summary}");
        assert!(summary.contains("answers        2 (1 202, 1 SOLD_OUT)"), "{summary}");
        assert!(summary.contains("kills          1 (1 seckill)") && summary.contains("buyers         0 (none)"));
        assert!(
            counts.line(2, Duration::from_secs(7), "selling").contains("7 s  selling: 2 of 2 purchases, 1 accepted")
        );
    }

    #[test]
    fn unexpected_events_beyond_the_limit_are_counted() {
        let counts = Counts::default();
        assert!(counts.unexpected_events().is_empty());
        for number in 0..60 {
            counts.unexpected(format!("{number}"));
        }
        let events = counts.unexpected_events();
        assert_eq!((events.len(), events.last().unwrap().as_str()), (51, "and 10 more"));
    }
}
