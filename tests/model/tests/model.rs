//! The exhaustive model: the protocol is correct in every state that up to three buyers and two units can reach.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Instant;

use model::search::search;
use model::{Bug, Size};

const THREE_BUYERS: Size = Size {
    orders: [1, 1, 1],
    caps: [1, 1],
    processes: 2,
    delayed: 0,
    presses_again: false,
    with_keys: false,
    with_payments: false,
    with_refunds: false,
    bug: None,
};
/// Two buyers who press repeatedly, without and with keys.
const TWO_BUYERS: Size = Size { orders: [1, 1, 0], presses_again: true, ..THREE_BUYERS };
const TWO_BUYERS_WITH_KEYS: Size = Size { with_keys: true, ..TWO_BUYERS };
/// The same with one unit, so every move is to an empty bucket.
const ONE_UNIT: Size = Size { caps: [1, 0], ..TWO_BUYERS_WITH_KEYS };
/// One buyer with everything that can happen to one order: late payments and delayed writes.
const ONE_BUYER: Size =
    Size { orders: [1, 0, 0], delayed: 1, presses_again: true, with_keys: true, with_payments: true, ..THREE_BUYERS };
/// The same with both units in one bucket.
const ONE_BUCKET: Size = Size { caps: [2, 0], ..ONE_BUYER };
/// One order that is paid and refunded, with delayed writes.
const REFUNDED: Size = Size { presses_again: false, with_keys: false, with_refunds: true, caps: [1, 0], ..ONE_BUYER };
/// One buyer who buys again after the first order has ended, alone and with a second buyer.
const BUYS_TWICE: Size = Size { orders: [2, 0, 0], with_keys: true, with_payments: true, ..THREE_BUYERS };
const BUYS_TWICE_WITH_A_RIVAL: Size = Size { orders: [2, 1, 0], ..TWO_BUYERS };

#[test]
fn the_protocol_is_correct_in_every_state() {
    let mut all = 0;
    for size in [THREE_BUYERS, TWO_BUYERS, TWO_BUYERS_WITH_KEYS, ONE_UNIT, ONE_BUYER, ONE_BUCKET, BUYS_TWICE, REFUNDED]
    {
        let began = Instant::now();
        let found = search(size);
        let seconds = began.elapsed().as_secs_f64();
        println!(
            "{size:?}: {} states, {} transitions, {} quiet states, {seconds:.1} s",
            found.states, found.transitions, found.quiet
        );
        assert!(found.violation.is_none(), "{}", found.violation.unwrap_or_default());
        assert!(!found.gave_up, "too many states: {size:?}");
        all += found.states;
    }
    println!("{all} states in all");
    assert!(all > 1_000_000, "only {all} states were visited");
}

/// A search that misses a left-out condition proves nothing about it.
#[test]
fn every_bug_in_the_model_is_found() {
    for bug in Bug::ALL {
        let size = match bug {
            Bug::HoldWithoutUnits | Bug::HoldTwice | Bug::HoldWhatIsSold | Bug::AcceptedBeforeItIsHeld => ONE_BUCKET,
            Bug::KeyNotChecked
            | Bug::OrderOverAnOrder
            | Bug::ReleaseWhatIsNotHeld
            | Bug::ConfirmWhatIsNotHeld
            | Bug::CloseWhatIsPaid
            | Bug::PayWhatIsClosed
            | Bug::UnitsReleasedBeforeTheClaim => ONE_BUYER,
            Bug::KeyAdoptedBeforeItIsHeld
            | Bug::MoveAClaimOfAnOrder
            | Bug::ReleasedWhileAMessageIsInFlight
            | Bug::AcceptedBeforeItIsTaken
            | Bug::AnyRequestWithdraws => TWO_BUYERS_WITH_KEYS,
            Bug::TakeBackWhatIsNotSold | Bug::ReturnedIsForgotten | Bug::RefundedIsReleased => REFUNDED,
            Bug::WithdrawsWithoutCheckingPrevious => ONE_UNIT,
            Bug::ClaimOverAClaim | Bug::DropAnotherOrdersClaim | Bug::ReviveBesideAClaim => BUYS_TWICE,
            Bug::WithdrawAClaimOfAnOrder | Bug::OrderWithoutAClaim => BUYS_TWICE_WITH_A_RIVAL,
        };
        let found = search(Size { bug: Some(bug), ..size });
        assert!(!found.gave_up, "{bug:?}: too many states");
        let violation = found.violation.unwrap_or_else(|| panic!("{bug:?} was not found"));
        let steps = violation.lines().count() - 1;
        let what = violation.lines().next().unwrap_or_default().split(": Tables").next().unwrap_or_default();
        println!("{bug:?}: after {} states, {steps} steps: {what}", found.states);
    }
}
