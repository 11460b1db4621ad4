//! An exhaustive model of the protocol of claims, buckets and orders. It is small enough to visit every state that a
//! few buyers, two units and a few concurrent processes can reach, each state once.
//!
//! The model has no time: an attempt may be taken for abandoned at any moment, a deadline may fire at any moment,
//! and reconcile inspects a holder however young it is. So what holds here holds for every clock. The one exception
//! is that a request knows whether the first request for its order has ended, as it does two minutes later in
//! reality. Processes crash between any two steps, answers are lost and the write is sent again, a delayed write
//! arrives long after its sender has given up, and messages are delivered any number of times.
//!
//! Decisions are made by the deployed code ([`domain::order::step`], [`domain::repair::holder_verdict`],
//! [`domain::claim::BuyerClaims::standing`]). The conditions of the writes ([`tables`]) and the steps of the flows
//! ([`processes`], [`steps`]) are written down here a second time. [`search`] visits all states, and [`symmetry`]
//! treats states that differ only in names as one.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::as_conversions,
    clippy::panic
)]

pub mod decisions;
pub mod invariants;
pub mod processes;
pub mod search;
pub mod steps;
pub mod symmetry;
pub mod tables;

/// A bug in the protocol. The search must find each one, or it proves nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    HoldWithoutUnits,
    HoldTwice,
    HoldWhatIsSold,
    ClaimOverAClaim,
    KeyNotChecked,
    KeyAdoptedBeforeItIsHeld,
    MoveAClaimOfAnOrder,
    WithdrawAClaimOfAnOrder,
    OrderWithoutAClaim,
    OrderOverAnOrder,
    DropAnotherOrdersClaim,
    ReleaseWhatIsNotHeld,
    ConfirmWhatIsNotHeld,
    CloseWhatIsPaid,
    PayWhatIsClosed,
    UnitsReleasedBeforeTheClaim,
    ReleasedWhileAMessageIsInFlight,
    AcceptedBeforeItIsHeld,
    AcceptedBeforeItIsTaken,
    AnyRequestWithdraws,
    WithdrawsWithoutCheckingPrevious,
    ReviveBesideAClaim,
    TakeBackWhatIsNotSold,
    ReturnedIsForgotten,
    RefundedIsReleased,
}

impl Bug {
    pub const ALL: [Self; 25] = [
        Self::HoldWithoutUnits,
        Self::HoldTwice,
        Self::HoldWhatIsSold,
        Self::ClaimOverAClaim,
        Self::KeyNotChecked,
        Self::KeyAdoptedBeforeItIsHeld,
        Self::MoveAClaimOfAnOrder,
        Self::WithdrawAClaimOfAnOrder,
        Self::OrderWithoutAClaim,
        Self::OrderOverAnOrder,
        Self::DropAnotherOrdersClaim,
        Self::ReleaseWhatIsNotHeld,
        Self::ConfirmWhatIsNotHeld,
        Self::CloseWhatIsPaid,
        Self::PayWhatIsClosed,
        Self::UnitsReleasedBeforeTheClaim,
        Self::ReleasedWhileAMessageIsInFlight,
        Self::AcceptedBeforeItIsHeld,
        Self::AcceptedBeforeItIsTaken,
        Self::AnyRequestWithdraws,
        Self::WithdrawsWithoutCheckingPrevious,
        Self::ReviveBesideAClaim,
        Self::TakeBackWhatIsNotSold,
        Self::ReturnedIsForgotten,
        Self::RefundedIsReleased,
    ];
}

/// The bounds of a search.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// How many orders each of the three buyers may start.
    pub orders: [u8; tables::BUYERS],
    /// The units of each bucket.
    pub caps: [i8; tables::BUCKETS],
    /// The most processes at the same time.
    pub processes: usize,
    /// The most delayed writes at the same time.
    pub delayed: usize,
    /// Whether buyers who have started all their orders press again.
    pub presses_again: bool,
    /// Whether some presses carry an idempotency key.
    pub with_keys: bool,
    /// Whether some orders are paid, in time or late.
    pub with_payments: bool,
    /// Whether some paid orders are refunded.
    pub with_refunds: bool,
    pub bug: Option<Bug>,
}
