//! Plays every scenario with every disturbance at every call, and with all pairs of faults.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use sim::block_on;
use sim::scenarios::{DISTURBANCES, Disturbance, PAIRED_DISTURBANCES, Scenario, play};

/// Plays all of them on all cores. Returns how many there were, and the violations.
fn play_all(scenarios: Vec<(Scenario, Vec<(usize, Disturbance)>)>) -> (usize, Vec<String>) {
    let next = AtomicUsize::new(0);
    let violations: Mutex<Vec<String>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            let work = || {
                while let Some((scenario, disturbances)) = scenarios.get(next.fetch_add(1, Ordering::Relaxed)) {
                    violations.lock().unwrap().extend(block_on(play(*scenario, disturbances)).violation);
                }
            };
            sim::thread().spawn_scoped(scope, work).unwrap();
        }
    });
    (scenarios.len(), violations.into_inner().unwrap())
}

fn assert_no_violation(what: &str, (count, violations): (usize, Vec<String>)) {
    println!("{what}: {count} runs, {} violations", violations.len());
    let first: Vec<&String> = violations.iter().take(3).collect();
    assert!(violations.is_empty(), "{} of {count} runs violate something, the first: {first:#?}", violations.len());
}

#[test]
fn an_order_survives_every_disturbance_at_every_call() {
    let mut scenarios = Vec::new();
    for scenario in Scenario::ALL {
        let undisturbed = block_on(play(scenario, &[]));
        assert_eq!(undisturbed.violation, None);
        assert_eq!(undisturbed.ends, scenario.expected_ends(), "{scenario:?}:\n  {}", undisturbed.history.join("\n  "));
        let calls = undisturbed.calls;
        scenarios.extend((0..calls).flat_map(|at| DISTURBANCES.map(|disturbance| (scenario, vec![(at, disturbance)]))));
    }
    assert_no_violation("every disturbance at every call", play_all(scenarios));
}

/// `PAIRS=all` (as `make sim` sets it) plays all scenarios of `IN_PAIRS`; otherwise only the longest one is played.
#[test]
fn an_order_survives_every_pair_of_faults() {
    let mut pairs = Vec::new();
    let scenarios = if std::env::var_os("PAIRS").is_some() { Scenario::IN_PAIRS.len() } else { 1 };
    for scenario in Scenario::IN_PAIRS.into_iter().take(scenarios) {
        let before = pairs.len();
        let calls = block_on(play(scenario, &[])).calls;
        for first in 0..calls {
            for one in PAIRED_DISTURBANCES {
                // The first fault may make the run longer or shorter.
                let calls = block_on(play(scenario, &[(first, one)])).calls;
                let seconds = (first + 1..calls).flat_map(|at| PAIRED_DISTURBANCES.map(|other| (at, other)));
                pairs.extend(seconds.map(|second| (scenario, vec![(first, one), second])));
            }
        }
        println!("{scenario:?}: {} pairs", pairs.len() - before);
    }
    assert_no_violation("all pairs of faults", play_all(pairs));
}
