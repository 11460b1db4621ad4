//! Sales whose outcome is known without a simulation.

use super::*;
use crate::facts::{NEW_TABLE_WRITES, TABLE_WRITES_QUOTA};
use crate::sale::Shape;

const PLENTY: Capacity =
    Capacity { warm_writes: TABLE_WRITES_QUOTA, provisioned: 10_000, concurrency: u32::MAX, gateway: 1e9 };
const OURS: Writes = Writes { claim: 1.0, hold: 1.0, order: 3.0, refuses_from_memory: true };
const COUNTER: Writes = Writes { claim: 0.0, hold: 1.0, order: 1.0, refuses_from_memory: false };
const TRANSACTION: Writes = Writes { claim: 0.0, hold: 6.0, order: 0.0, refuses_from_memory: false };

fn sale(units: u32, buyers: u32, seconds: u32) -> Sale {
    Sale { units, buyers, seconds, shape: Shape::Even, comes_back: 0, paid_percent: 100 }
}

fn play(sale: &Sale, design: Design, writes: Writes, capacity: Capacity) -> Outcome {
    Simulation::new(sale, design, writes, capacity).play()
}

#[test]
fn every_request_is_answered_once_and_no_unit_is_sold_twice() {
    let sale = Sale { comes_back: 2, ..sale(2_000, 50_000, 5) };
    for (design, writes) in [(Design::Buckets, OURS), (Design::Counter, COUNTER), (Design::Transaction, TRANSACTION)] {
        for warm_writes in [NEW_TABLE_WRITES, TABLE_WRITES_QUOTA] {
            let outcome = play(&sale, design, writes, Capacity { warm_writes, ..PLENTY });
            let all = |figure: fn(&Second) -> u32| outcome.all(figure);
            let answered = all(|second| second.accepted) + all(|second| second.refused) + all(|second| second.later);
            assert_eq!(answered, all(|second| second.presses), "{design:?}");
            assert!(all(|second| second.accepted) <= 2_000, "{design:?}");
            let left = all(|second| second.accepted) + all(|second| second.refused) + u64::from(outcome.gave_up);
            assert_eq!(left, 50_000, "{design:?}: each buyer has bought, been refused or given up");
        }
    }
}

#[test]
fn a_counter_sells_at_most_a_thousand_per_second() {
    // 10,000 buyers per second want 5,000 units, for ten seconds.
    let sale = sale(5_000, 100_000, 10);
    let counter = play(&sale, Design::Counter, COUNTER, PLENTY);
    let after = counter.sold_out_after_s.unwrap();
    assert!((4.9..5.2).contains(&after), "{after}");
    assert!(counter.all(|second| second.later) > 40_000);
    let buckets = play(&sale, Design::Buckets, OURS, PLENTY);
    let after = buckets.sold_out_after_s.unwrap();
    assert!((0.5..0.7).contains(&after), "5,000 of 10,000 a second: {after}");
    assert_eq!(buckets.later_while_selling.0, 0, "no buyer is refused while units are left");
}

#[test]
fn a_transaction_sells_as_much_as_its_hot_row_accepts() {
    let outcome = play(&sale(5_000, 100_000, 10), Design::Transaction, TRANSACTION, PLENTY);
    let sold = outcome.all(|second| second.accepted);
    assert!((740..=752).contains(&sold), "75 a second for ten seconds: {sold}");
    assert_eq!(outcome.writes, 600_000.0, "each attempt is charged, also one without effect");
}

#[test]
fn new_tables_sell_four_thousand_per_second() {
    let sale = Sale { comes_back: 20, ..sale(20_000, 200_000, 10) };
    let outcome = play(&sale, Design::Buckets, OURS, Capacity { warm_writes: NEW_TABLE_WRITES, ..PLENTY });
    let after = outcome.sold_out_after_s.unwrap();
    assert!((5.0..7.5).contains(&after), "20,000 at no more than 4,000 a second, not evenly hashed: {after}");
    assert!(outcome.throttled > 0);
}

#[test]
fn lambda_accepts_ten_thousand_per_second_at_first_and_a_thousand_more_each_second() {
    let sale = sale(1, 600_000, 20);
    let outcome = play(&sale, Design::Buckets, OURS, Capacity { provisioned: 0, ..PLENTY });
    let let_in = |second: usize| outcome.seconds[second].presses - outcome.seconds[second].later;
    assert!((9_500..12_000).contains(&let_in(0)), "{}", let_in(0));
    assert!((19_000..22_500).contains(&let_in(10)), "{}", let_in(10));
    let short = play(&sale, Design::Buckets, OURS, Capacity { provisioned: 0, concurrency: 500, ..PLENTY });
    let let_in = |second: usize| short.seconds[second].presses - short.seconds[second].later;
    assert!((4_900..5_600).contains(&let_in(10)), "ten a second for each: {}", let_in(10));
}

#[test]
fn a_sold_out_sale_writes_nothing_once_all_functions_know() {
    let outcome = play(&sale(100, 100_000, 10), Design::Buckets, OURS, PLENTY);
    assert!(outcome.sold_out_after_s.unwrap() < 0.1);
    // For 0.6 s functions still believe that units are free: up to three writes without effect, and their claims.
    assert!(outcome.writes < 6_500.0 * 9.0, "{}", outcome.writes);
    let counter = play(&sale(100, 100_000, 10), Design::Counter, COUNTER, PLENTY);
    assert!(counter.writes >= 9_900.0, "each request that a counter accepts is a write: {}", counter.writes);
    assert!(outcome.refused_in.percentile_ms(50.0) < outcome.accepted_in.percentile_ms(50.0), "from memory, mostly");
}
