//! Every fault at every call of an order's life, and all pairs of faults.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use sim::alone;
use sim::lives::{BLOWS, Blow, Life, PAIRED, live};

/// Lives every one, on all cores; what was violated, and how many there were.
fn live_all(lives: Vec<(Life, Vec<(usize, Blow)>)>) -> (usize, Vec<String>) {
    let next = AtomicUsize::new(0);
    let violations: Mutex<Vec<String>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some((life, blows)) = lives.get(next.fetch_add(1, Ordering::Relaxed)) {
                    violations.lock().unwrap().extend(alone(live(*life, blows)).violation);
                }
            });
        }
    });
    (lives.len(), violations.into_inner().unwrap())
}

fn none(what: &str, (count, violations): (usize, Vec<String>)) {
    println!("{what}: {count} lives, {} violations", violations.len());
    let first: Vec<&String> = violations.iter().take(3).collect();
    assert!(violations.is_empty(), "{} of {count}, the first: {first:#?}", violations.len());
}

#[test]
fn every_fault_at_every_call() {
    let mut lives = Vec::new();
    for life in Life::ALL {
        let undisturbed = alone(live(life, &[]));
        assert_eq!(undisturbed.violation, None);
        assert_eq!(undisturbed.ends, life.ends(), "{life:?}:\n  {}", undisturbed.history.join("\n  "));
        let calls = undisturbed.calls;
        lives.extend((0..calls).flat_map(|at| BLOWS.map(|blow| (life, vec![(at, blow)]))));
    }
    none("every fault at every call", live_all(lives));
}

/// `PAIRS=all` (as `make sim` says) lives all the lives that are for it; otherwise the longest one: paid, told, refunded.
#[test]
fn all_pairs_of_faults() {
    let mut pairs = Vec::new();
    let lives = if std::env::var_os("PAIRS").is_some() { Life::IN_PAIRS.len() } else { 1 };
    for life in Life::IN_PAIRS.into_iter().take(lives) {
        let before = pairs.len();
        let calls = alone(live(life, &[])).calls;
        for first in 0..calls {
            for one in PAIRED {
                // What follows the first fault may be longer or shorter than without it.
                let calls = alone(live(life, &[(first, one)])).calls;
                let seconds = (first + 1..calls).flat_map(|at| PAIRED.map(|other| (at, other)));
                pairs.extend(seconds.map(|second| (life, vec![(first, one), second])));
            }
        }
        println!("{life:?}: {} pairs", pairs.len() - before);
    }
    none("all pairs of faults", live_all(pairs));
}
