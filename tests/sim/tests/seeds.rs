//! Runs many seeds: none may violate anything, and together they must reach every place.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::panic::catch_unwind;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use sim::block_on;
use sim::coverage::Coverage;
use sim::run::{Run, run};
use sim::shrink::shrink;

/// Seeds that `make test` runs.
const SEEDS: u64 = 1_000;
/// After so many failing seeds the others are not run.
const MAX_FAILURES: usize = 3;

/// The places that [`SEEDS`] seeds must reach, because otherwise they prove nothing about them: kinds of faults and
/// deliveries, answers, repairs, and ends of orders.
const PLACES: &str = "
    fault NotApplied(Io)            fault AppliedButLost(Io)        fault AppliedButServerError     fault Throttled
    fault ServerError               fault TransactionConflict       fault Late                      fault Stale
    crashes                         times out
    payment Paid                    payment PaidLate                payment Failed
    payment NotifiedAgain           payment Confirmed               payment RefundedInConsole
    payment PartlyRefundedInConsole                                 payment Disputed
    payment RefundFailed
    payment RefundsFail             payment ServerError             metric MoneyMatters FOREIGN_REFUND
    metric MoneyMatters DISPUTE     metric MoneyMatters LATE_REFUND_FAILURE
    delivery Once                   delivery Twice                  delivery NotDeleted             delivery Lost
    delivery of a newer version     row of a newer version          edited
    edit refused as stale
    metric UnreadableRows           metric DeadlinesUnscheduled
    deadline Due                    deadline Early                  deadline Twice                  deadline Never
    metric PurchaseAccepted         metric PurchaseUnsent           metric PurchaseRefused SOLD_OUT
    metric PurchaseRefused DUPLICATE_ORDER                          metric PurchaseRefused IDEMPOTENCY_MISMATCH
    metric PurchaseRefused PAUSED   metric PurchaseRefused UNAVAILABLE
    metric OrdersPlaced             metric DeadLetters              metric Timeouts
    metric OrdersClosed CANCELLED   metric OrdersClosed TIMED_OUT   metric OrdersClosed PAYMENT_FAILED
    metric PaymentsSettled alipay   metric PaymentsSettled wechat   metric PaymentsSettled wechat-v2
    metric PaymentsSettled stripe   metric PaymentsSettled points
    metric Refunds                  metric RefundsOpen              metric ReconcileErrors
    metric ReconcileRepairs SENT_AGAIN                              metric ReconcileRepairs CLOSED
    metric ReconcileRepairs FINISHED                                metric ReconcileRepairs CONFIRMED
    metric ReconcileRepairs REFUNDED                                metric ReconcileRepairs SETTLED
    metric ReconcileRepairs LAID_OUT                                metric ReconcileRepairs PAGES_MENDED
    end CLOSED                      end PAID                        end REFUNDED                    end STOCK#REVIVE
";

/// Places that only one seed in a few hundred reaches: [`SEEDS_FOR_RARE`] seeds must reach them.
const RARE_PLACES: &str = "metric ReconcileRepairs RELEASED  metric ReconcileRepairs FAILED";
const SEEDS_FOR_RARE: u64 = 10_000;

fn places(list: &'static str) -> impl Iterator<Item = &'static str> {
    list.split("  ").flat_map(str::lines).map(str::trim).filter(|place| !place.is_empty())
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|value| value.parse().ok())
}

/// `SEED=17` runs one seed. `SEEDS=100000` runs that many, and `FROM=5000` starts there.
fn seeds() -> std::ops::Range<u64> {
    match number("SEED") {
        Some(seed) => seed..seed + 1,
        None => {
            let from = number("FROM").unwrap_or(0);
            from..from + number("SEEDS").unwrap_or(SEEDS)
        }
    }
}

#[derive(Default)]
struct Total {
    done: u64,
    coverage: Coverage,
    /// `None`: the run panicked, and the panic has been printed.
    violations: Vec<(u64, Option<Run>)>,
}

fn run_all(seeds: std::ops::Range<u64>, max_failures: usize) -> Total {
    let next = AtomicU64::new(seeds.start);
    let total: Mutex<Total> = Mutex::default();
    let began = Instant::now();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            let work = || {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end || total.lock().unwrap().violations.len() >= max_failures {
                        return;
                    }
                    let run = catch_unwind(|| block_on(run(seed))).ok();
                    let mut total = total.lock().unwrap();
                    total.done += 1;
                    if let Some(run) = &run {
                        total.coverage.add(&run.coverage);
                    }
                    if total.done.is_multiple_of(1_000) {
                        println!("{} seeds in {} s", total.done, began.elapsed().as_secs());
                    }
                    let violation = match &run {
                        None => Some("panic"),
                        Some(run) => run.violation.as_deref(),
                    };
                    if let Some(violation) = violation {
                        println!("seed {seed}: {violation}");
                        total.violations.push((seed, run));
                    }
                }
            };
            sim::thread().spawn_scoped(scope, work).unwrap();
        }
    });
    total.into_inner().unwrap()
}

#[test]
fn no_seed_violates_anything() {
    let first = number("FIRST").is_some();
    let total = run_all(seeds(), if first { 1 } else { MAX_FAILURES });
    let mut text = String::new();
    for (seed, run) in total.violations {
        let Some(run) = run else {
            text.push_str(&format!("\n\nseed {seed}: panic; replay with: make sim SEED={seed}"));
            continue;
        };
        let whole = run.steps.len();
        let violation = run.violation.clone().unwrap_or_default();
        if first {
            text.push_str(&violation);
            continue;
        }
        let short = block_on(shrink(seed, run));
        let violation = short.violation.unwrap_or_default();
        text.push_str(&format!(
            "\n\nseed {seed}: {violation}\n{} of {whole} steps are enough; replay with: make sim SEED={seed}\n  {}",
            short.steps.len(),
            short.history.join("\n  ")
        ));
    }
    let count = |what: &str| total.coverage.count(what);
    println!(
        "{} seeds: {} calls, {} accepted presses, {} crashes",
        total.done,
        count("calls"),
        count("accepted"),
        count("crashes") + count("times out")
    );
    for kind in ["fault", "payment", "delivery", "deadline", "metric", "end"] {
        let reached: Vec<String> = total.coverage.of(kind).map(|(what, times)| format!("{what} {times}")).collect();
        println!("{kind}: {}", reached.join(", "));
    }
    assert!(text.is_empty(), "{text}");
    drop(testkit::permissions::Keeper);
    if total.done >= SEEDS {
        let rare = if total.done >= SEEDS_FOR_RARE { RARE_PLACES } else { "" };
        let missed: Vec<&str> = places(PLACES).chain(places(rare)).filter(|place| count(place) == 0).collect();
        assert!(missed.is_empty(), "{} seeds never reached: {missed:?}", total.done);
    }
}

#[test]
fn a_seed_and_its_replay_have_the_same_history() {
    let seed = 7;
    let drawn = block_on(run(seed));
    let again = block_on(run(seed));
    assert_eq!(drawn.history, again.history);
    let replayed = block_on(sim::run::replay(seed, &drawn.steps));
    assert_eq!(drawn.history, replayed.history);
}

#[test]
fn every_planted_bug_still_applies_to_the_source() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let bugs = sim::planted_bugs::bugs();
    assert!(bugs.len() > 20, "planted_bugs.txt was not read: {} bugs", bugs.len());
    let planted = sim::planted_bugs::plant(&bugs, |file| std::fs::read_to_string(root.join(file)).unwrap_or_default());
    let planted = planted.unwrap_or_else(|error| panic!("{error}"));
    for bug in bugs.iter().filter(|bug| bug.name != sim::planted_bugs::SWITCH) {
        let switch = format!("\"{}\"", bug.name);
        assert!(planted.values().any(|text| text.contains(&switch)), "{} has no switch", bug.name);
    }
}
