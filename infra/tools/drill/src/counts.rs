//! What has happened so far: counted, and what nobody expected remembered.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Surprises that are told in words; all are counted.
const SURPRISES: usize = 50;

/// What is counted, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// What presses were answered, by code.
    Answer,
    /// What buyers did with their orders.
    Deed,
    /// Why a request was sent again.
    Retry,
    /// Processes killed, by program.
    Kill,
}

/// The counts of a drill. Shared by everybody in it.
#[derive(Debug, Default)]
pub struct Tally {
    /// Purchases begun.
    begun: AtomicU32,
    counts: Mutex<BTreeMap<(Kind, String), u64>>,
    /// Orders whose 202 a client has seen.
    accepted: Mutex<BTreeSet<String>>,
    surprises: Mutex<(u64, Vec<String>)>,
}

/// A panic of one who counts breaks no count.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Tally {
    /// Begins a purchase; gives its number.
    pub(crate) fn begin(&self) -> u32 {
        self.begun.fetch_add(1, Ordering::Relaxed)
    }

    /// Purchases begun, of at most so many.
    pub(crate) fn begun(&self, of: u32) -> u32 {
        self.begun.load(Ordering::Relaxed).min(of)
    }

    pub(crate) fn count(&self, kind: Kind, name: &str) {
        *locked(&self.counts).entry((kind, name.to_owned())).or_default() += 1;
    }

    /// A client was told that this order is accepted. True the first time.
    pub(crate) fn accept(&self, order: &str) -> bool {
        locked(&self.accepted).insert(order.to_owned())
    }

    /// Whether a client was told so.
    pub(crate) fn is_accepted(&self, order: &str) -> bool {
        locked(&self.accepted).contains(order)
    }

    /// Orders that clients were told are accepted.
    pub(crate) fn accepted(&self) -> BTreeSet<String> {
        locked(&self.accepted).clone()
    }

    /// Something that must not happen.
    pub(crate) fn surprise(&self, what: String) {
        let mut surprises = locked(&self.surprises);
        surprises.0 += 1;
        if surprises.1.len() < SURPRISES {
            surprises.1.push(what);
        }
    }

    /// All that must not have happened, in words.
    pub(crate) fn surprises(&self) -> Vec<String> {
        let surprises = locked(&self.surprises);
        let mut told = surprises.1.clone();
        let more = surprises.0.saturating_sub(u64::try_from(told.len()).unwrap_or(u64::MAX));
        if more > 0 {
            told.push(format!("and {more} more"));
        }
        told
    }

    /// Counts of a kind, by name.
    pub fn of(&self, kind: Kind) -> BTreeMap<String, u64> {
        let counts = locked(&self.counts);
        counts.iter().filter(|((of, _), _)| *of == kind).map(|((_, name), count)| (name.clone(), *count)).collect()
    }

    /// All of a kind together.
    pub fn total(&self, kind: Kind) -> u64 {
        self.of(kind).values().sum()
    }

    fn one(&self, kind: Kind, name: &str) -> u64 {
        locked(&self.counts).get(&(kind, name.to_owned())).copied().unwrap_or(0)
    }

    /// One line for whoever waits.
    pub(crate) fn line(&self, purchases: u32, after: Duration, doing: &str) -> String {
        let accepted = locked(&self.accepted).len();
        format!(
            "  {:>3} s  {doing}: {} of {purchases} pressed, {accepted} accepted, {} sold out; {} paid, {} refunded; {} kills",
            after.as_secs(),
            self.begun(purchases),
            self.one(Kind::Answer, "SOLD_OUT"),
            self.one(Kind::Deed, PAID),
            self.one(Kind::Deed, REFUNDED),
            self.total(Kind::Kill),
        )
    }

    /// The whole account.
    pub(crate) fn summary(&self, purchases: u32) -> String {
        let mut text = String::new();
        let accepted = locked(&self.accepted).len();
        // Writing into a string cannot fail.
        let _ = writeln!(text, "  purchases      {}, {accepted} orders accepted", self.begun(purchases));
        for (kind, title) in
            [(Kind::Answer, "answers"), (Kind::Deed, "buyers"), (Kind::Retry, "sent again"), (Kind::Kill, "kills")]
        {
            let counts = self.of(kind);
            let named: Vec<String> = counts.iter().map(|(name, count)| format!("{count} {name}")).collect();
            let named = if named.is_empty() { "none".to_owned() } else { named.join(", ") };
            let _ = writeln!(text, "  {title:<14} {} ({named})", counts.values().sum::<u64>());
        }
        text
    }
}

/// The buyer paid.
pub(crate) const PAID: &str = "paid";
/// The buyer got the money back.
pub(crate) const REFUNDED: &str = "refunded";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_in_the_summary() {
        let tally = Tally::default();
        for _ in 0..3 {
            tally.begin();
        }
        tally.count(Kind::Answer, "SOLD_OUT");
        tally.count(Kind::Answer, "202");
        tally.count(Kind::Kill, "seckill");
        assert!(tally.accept("A") && !tally.accept("A"));
        let summary = tally.summary(2);
        assert!(summary.contains("purchases      2, 1 orders accepted"), "{summary}");
        assert!(summary.contains("answers        2 (1 202, 1 SOLD_OUT)"), "{summary}");
        assert!(summary.contains("kills          1 (1 seckill)") && summary.contains("buyers         0 (none)"));
        assert!(tally.line(2, Duration::from_secs(7), "selling").contains("7 s  selling: 2 of 2 pressed, 1 accepted"));
    }

    #[test]
    fn surprises_are_counted_beyond_those_that_are_told() {
        let tally = Tally::default();
        assert!(tally.surprises().is_empty());
        for number in 0..60 {
            tally.surprise(format!("{number}"));
        }
        let told = tally.surprises();
        assert_eq!((told.len(), told.last().unwrap().as_str()), (51, "and 10 more"));
    }
}
