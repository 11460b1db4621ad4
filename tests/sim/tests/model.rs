//! The protocol, looked at whole: every state that three buyers and two units can come to.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Instant;

use sim::model::search::search;
use sim::model::{Bug, Size};

/// Three buyers at once.
const CROWD: Size = Size {
    orders: [1, 1, 1],
    caps: [1, 1],
    processes: 2,
    wandering: 0,
    again: false,
    keys: false,
    pays: false,
    bug: None,
};
/// Two buyers who press again and again; and with keys.
const PAIR: Size = Size { orders: [1, 1, 0], again: true, ..CROWD };
const PAIR_WITH_KEYS: Size = Size { keys: true, ..PAIR };
/// The same for one unit: every move is to a bucket that has nothing.
const ONE_UNIT: Size = Size { caps: [1, 0], ..PAIR_WITH_KEYS };
/// One buyer, everything that one order can meet: late payments, and writes that wander.
const ALONE: Size = Size { orders: [1, 0, 0], wandering: 1, again: true, keys: true, pays: true, ..CROWD };
/// The same with both units in one bucket.
const ONE_BUCKET: Size = Size { caps: [2, 0], ..ALONE };
/// One buyer who buys again after the first order's end; and with another buyer in the way.
const TWICE: Size = Size { orders: [2, 0, 0], keys: true, pays: true, ..CROWD };
const TWICE_IN_A_CROWD: Size = Size { orders: [2, 1, 0], ..PAIR };

#[test]
fn the_protocol_is_right_in_every_state() {
    let mut all = 0;
    for size in [CROWD, PAIR, PAIR_WITH_KEYS, ONE_UNIT, ALONE, ONE_BUCKET, TWICE] {
        let began = Instant::now();
        let found = search(size);
        let seconds = began.elapsed().as_secs_f64();
        println!(
            "{size:?}: {} states, {} transitions, {} of them at rest, {seconds:.1} s",
            found.states, found.transitions, found.quiet
        );
        assert!(found.violation.is_none(), "{}", found.violation.unwrap_or_default());
        assert!(!found.gave_up, "too many states: {size:?}");
        all += found.states;
    }
    println!("{all} states in all");
    assert!(all > 1_000_000, "{all} states are not what this was made for");
}

/// A search that finds nothing when a condition is left out proves nothing about it.
#[test]
fn every_bug_in_the_protocol_is_found() {
    for bug in Bug::ALL {
        let size = match bug {
            Bug::HoldWithoutUnits | Bug::HoldTwice | Bug::HoldWhatIsSold | Bug::AcceptedBeforeItIsHeld => ONE_BUCKET,
            Bug::KeyNotLookedAt
            | Bug::OrderOverAnOrder
            | Bug::ReleaseWhatIsNotHeld
            | Bug::ConfirmWhatIsNotHeld
            | Bug::CloseWhatIsPaid
            | Bug::PayWhatIsClosed
            | Bug::UnitsReleasedBeforeTheClaim => ALONE,
            Bug::KeyAdoptedBeforeItIsHeld
            | Bug::MoveAClaimOfAnOrder
            | Bug::ReleasedWhileAMessageIsUnderWay
            | Bug::AcceptedBeforeItIsTaken
            | Bug::AnyRequestWithdraws => PAIR_WITH_KEYS,
            Bug::WithdrawsWithoutLookingBack => ONE_UNIT,
            Bug::ClaimOverAClaim | Bug::DropAnybodysClaim | Bug::ReviveBesideAClaim => TWICE,
            Bug::WithdrawAClaimOfAnOrder | Bug::OrderWithoutAClaim => TWICE_IN_A_CROWD,
        };
        let found = search(Size { bug: Some(bug), ..size });
        assert!(!found.gave_up, "{bug:?}: too many states");
        let violation = found.violation.unwrap_or_else(|| panic!("{bug:?} was not found"));
        let steps = violation.lines().count() - 1;
        let what = violation.lines().next().unwrap_or_default().split(": Tables").next().unwrap_or_default();
        println!("{bug:?}: after {} states, {steps} steps: {what}", found.states);
    }
}
