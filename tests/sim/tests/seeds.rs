//! Many seeds: none may violate anything, and every kind of fault must have happened.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;

/// `SEED=17` runs one seed; `SEEDS=100000` runs so many.
fn seeds() -> std::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse().ok());
    match number("SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("SEEDS").unwrap_or(150),
    }
}

#[test]
fn no_seed_violates_anything() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (mut calls, mut accepted, mut crashes, mut faults) = (0, 0, 0, BTreeMap::<String, usize>::new());
    let (mut money, mut ends) = (BTreeMap::<&str, usize>::new(), BTreeMap::<&str, usize>::new());
    let mut violations = Vec::new();
    let seeds = seeds();
    for seed in seeds.clone() {
        // Unconstrained: a seed is one long poll, and tokio would stop serving it after a while to be fair to others.
        match runtime.block_on(tokio::task::unconstrained(sim::run::run(seed))) {
            Ok(tally) => {
                calls += tally.calls;
                accepted += tally.accepted;
                crashes += tally.crashes;
                tally.faults.into_iter().for_each(|(fault, times)| *faults.entry(fault).or_default() += times);
                tally.money.into_iter().for_each(|(what, times)| *money.entry(what).or_default() += times);
                tally.ends.into_iter().for_each(|(end, times)| *ends.entry(end).or_default() += times);
            }
            Err(violation) => violations.push(violation),
        }
        if violations.len() >= 3 {
            break;
        }
    }
    println!("{seeds:?}: {calls} calls, {accepted} accepted presses, {crashes} crashes, {faults:?}");
    println!("payments: {money:?}; orders: {ends:?}");
    assert!(violations.is_empty(), "{}\nreplay one with: make sim SEED=…", violations.join("\n\n"));
    if seeds.end - seeds.start >= 100 {
        assert_eq!(faults.len(), 8, "every kind of fault happened, and none: {faults:?}");
        assert_eq!(money.len(), 4, "buyers paid, failed, paid late and were told of again: {money:?}");
        let ways = ["CLOSED", "PAID", "PAID LATE", "REFUNDED"];
        assert!(ways.iter().all(|way| ends.contains_key(way)), "orders ended in every way: {ends:?}");
    }
}
