//! The protocol of claim, bucket and order, small enough to be looked at whole: every order of events that a few buyers, two units and a
//! few processes at once can come to, each state once.
//!
//! Time is not in it: a try may be taken for abandoned at any moment, a deadline may come at any moment, and reconcile looks at a
//! holder however young it is. So what holds here holds for every clock; but that an order's first request has ended is known, as it is to
//! whoever comes two minutes later. Processes die between any two steps; an answer is lost and the
//! write sent again; a write wanders and lands when nobody thinks of it any more; a message comes as often as it likes.
//!
//! What is decided is decided by the code that is deployed ([`domain::order::step`], [`domain::repair::verdict`],
//! [`domain::claim::BuyerClaims::standing`]); the conditions of the writes are written down here once more ([`tables`]), and the steps of the
//! flows too ([`processes`], [`steps`]). [`search`] goes everywhere.

pub mod decisions;
pub mod processes;
pub mod search;
pub mod steps;
pub mod tables;

/// A bug in the protocol: each must be found, or the search proves nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    HoldWithoutUnits,
    HoldTwice,
    HoldWhatIsSold,
    ClaimOverAClaim,
    KeyNotLookedAt,
    KeyAdoptedBeforeItIsHeld,
    MoveAClaimOfAnOrder,
    WithdrawAClaimOfAnOrder,
    OrderWithoutAClaim,
    OrderOverAnOrder,
    DropAnybodysClaim,
    ReleaseWhatIsNotHeld,
    ConfirmWhatIsNotHeld,
    CloseWhatIsPaid,
    PayWhatIsClosed,
    UnitsReleasedBeforeTheClaim,
    ReleasedWhileAMessageIsUnderWay,
    AcceptedBeforeItIsHeld,
    AcceptedBeforeItIsTaken,
    AnyRequestWithdraws,
    WithdrawsWithoutLookingBack,
    ReviveBesideAClaim,
}

impl Bug {
    pub const ALL: [Self; 22] = [
        Self::HoldWithoutUnits,
        Self::HoldTwice,
        Self::HoldWhatIsSold,
        Self::ClaimOverAClaim,
        Self::KeyNotLookedAt,
        Self::KeyAdoptedBeforeItIsHeld,
        Self::MoveAClaimOfAnOrder,
        Self::WithdrawAClaimOfAnOrder,
        Self::OrderWithoutAClaim,
        Self::OrderOverAnOrder,
        Self::DropAnybodysClaim,
        Self::ReleaseWhatIsNotHeld,
        Self::ConfirmWhatIsNotHeld,
        Self::CloseWhatIsPaid,
        Self::PayWhatIsClosed,
        Self::UnitsReleasedBeforeTheClaim,
        Self::ReleasedWhileAMessageIsUnderWay,
        Self::AcceptedBeforeItIsHeld,
        Self::AcceptedBeforeItIsTaken,
        Self::AnyRequestWithdraws,
        Self::WithdrawsWithoutLookingBack,
        Self::ReviveBesideAClaim,
    ];
}

/// How much there is of everything.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// How many orders each of the three buyers may begin.
    pub orders: [u8; tables::BUYERS],
    /// The units of each bucket.
    pub caps: [i8; tables::BUCKETS],
    /// How many processes run at once, at the most.
    pub processes: usize,
    /// How many writes wander at once, at the most.
    pub wandering: usize,
    /// Whether buyers press again who have begun all their orders.
    pub again: bool,
    /// Whether some presses come with a key.
    pub keys: bool,
    /// Whether some orders are paid for, in time or late.
    pub pays: bool,
    /// What is wrong, if anything is.
    pub bug: Option<Bug>,
}
