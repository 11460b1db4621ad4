//! An order and its life.
//!
//! The whole life is one total `match` in [`step`]: a new status does not compile until every event has decided what
//! to do with it.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::bucket::BucketNo;
use crate::ids::{Buyer, ItemId, Offer, OrderId, SaleId};
use crate::message::OrderMessage;
use crate::money::Currency;
use crate::payment::{Attempt, OpenPayment, PaidWith};
use crate::shop_data::ShopData;

/// The status of an order.
///
/// A purchase that is accepted but has no order yet is shown to its buyer as QUEUED. It exists only as a claim, so
/// QUEUED is not a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Status {
    /// The buyer may pay until `pay_by`.
    PendingPayment,
    Paid,
    /// The order was not paid: it timed out, was cancelled, or its payment failed.
    Closed,
    /// The order could not be created.
    Failed,
    /// The refund has started, and the provider has not confirmed it yet.
    Refunding,
    Refunded,
}

impl Status {
    pub const ALL: [Status; 6] =
        [Self::PendingPayment, Self::Paid, Self::Closed, Self::Failed, Self::Refunding, Self::Refunded];

    /// The text that is stored and shown.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PendingPayment => "PENDING_PAYMENT",
            Self::Paid => "PAID",
            Self::Closed => "CLOSED",
            Self::Failed => "FAILED",
            Self::Refunding => "REFUNDING",
            Self::Refunded => "REFUNDED",
        }
    }

    /// How far along its life the order is. Every event that changes the status increases the rank, so of two statuses
    /// the one with the greater rank is the newer, in whatever order they were received. QUEUED would have rank 0.
    pub fn rank(self) -> u32 {
        match self {
            Self::PendingPayment => 1,
            Self::Closed | Self::Failed => 2,
            Self::Paid => 3,
            Self::Refunding => 4,
            Self::Refunded => 5,
        }
    }

    /// Whether the buyer has, or may still get, what was ordered. A buyer has at most one live order for an item.
    pub fn is_live(self) -> bool {
        match self {
            Self::PendingPayment | Self::Paid | Self::Refunding => true,
            Self::Closed | Self::Failed | Self::Refunded => false,
        }
    }
}

/// What can happen to an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The payment deadline passed, the buyer cancelled, or the payment failed.
    Close,
    /// The money arrived.
    Pay,
    /// The money arrived after the order was closed, and free units were found for it.
    Revive,
    /// Somebody asked for the money back.
    StartRefund,
    /// The provider confirmed the refund, or an operator has made it by hand.
    FinishRefund,
    /// An operator gives up a refund that the provider refuses: the order stays paid.
    KeepPaid,
}

/// What an event does to an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The status changes to this one. The caller writes it under the condition that the status is still the old one.
    Become(Status),
    /// The event took effect before: a duplicate delivery, or a retry after a crash. The status stays, and the caller
    /// runs the steps that follow from it once more. Each of them is idempotent, so this completes what a crash left.
    Already,
    /// The event is not allowed in this status, and nothing changes.
    Refuse,
}

/// Decides what `event` does to an order in `status`. This function is the whole life of an order:
///
/// ```text
/// PENDING_PAYMENT --Pay--> PAID --StartRefund--> REFUNDING --FinishRefund--> REFUNDED
///        |                 ^  ^                      |
///      Close               |  +-------KeepPaid-------+
///        v                 |
///     CLOSED ----Revive----+                FAILED: no event changes it
/// ```
///
/// Three properties hold, and the tests of this module check each of them for every status and event:
///
/// - **Idempotent.** Repeating the event that led to the current status answers [`Step::Already`].
/// - **Forward only.** Every change increases [`Status::rank`], except `KeepPaid`, which an operator alone can decide.
/// - **Units are given back once.** An order that is no longer live becomes live again only through `Revive`, which
///   takes new units.
///
/// `Pay` and `Revive` are different events because their writes differ: a pending order still holds its units, and a
/// closed one must take free units in the same transaction that marks it as paid.
///
/// The match has no wildcard. A new status or event does not compile until every combination has an answer.
pub fn step(status: Status, event: Event) -> Step {
    use Event::{Close, FinishRefund, KeepPaid, Pay, Revive, StartRefund};
    use Status::{Closed, Failed, Paid, PendingPayment, Refunded, Refunding};
    match (status, event) {
        (PendingPayment, Close) => Step::Become(Closed),
        (PendingPayment, Pay) => Step::Become(Paid),
        (PendingPayment, Revive | StartRefund | FinishRefund | KeepPaid) => Step::Refuse,

        (Paid, Pay | Revive | KeepPaid) => Step::Already,
        (Paid, StartRefund) => Step::Become(Refunding),
        (Paid, Close | FinishRefund) => Step::Refuse,

        (Closed, Close) => Step::Already,
        (Closed, Revive) => Step::Become(Paid),
        (Closed, Pay | StartRefund | FinishRefund | KeepPaid) => Step::Refuse,

        (Failed, Close | Pay | Revive | StartRefund | FinishRefund | KeepPaid) => Step::Refuse,

        (Refunding, StartRefund) => Step::Already,
        (Refunding, FinishRefund) => Step::Become(Refunded),
        (Refunding, KeepPaid) => Step::Become(Paid),
        (Refunding, Close | Pay | Revive) => Step::Refuse,

        (Refunded, StartRefund | FinishRefund) => Step::Already,
        (Refunded, Close | Pay | Revive | KeepPaid) => Step::Refuse,
    }
}

/// Why an order is CLOSED or FAILED.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Reason {
    /// The payment deadline passed.
    TimedOut,
    /// The buyer cancelled.
    Cancelled,
    /// The provider reported that the payment failed.
    PaymentFailed,
    /// Another purchase of the same buyer took the claim before this one became an order.
    ClaimLost,
    /// The sale or the item no longer exists.
    UnknownItem,
    /// An operator closed the order without asking its payment provider.
    Operator,
}

impl Reason {
    /// The text that is stored and shown.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::TimedOut => "TIMED_OUT",
            Self::Cancelled => "CANCELLED",
            Self::PaymentFailed => "PAYMENT_FAILED",
            Self::ClaimLost => "CLAIM_LOST",
            Self::UnknownItem => "UNKNOWN_ITEM",
            Self::Operator => "OPERATOR",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Order {
    #[serde(rename = "order")]
    pub id: OrderId,
    /// The `sub` of the buyer's token.
    pub buyer_name: Buyer,
    pub sale: SaleId,
    pub item: ItemId,
    /// The name of the item at the time of the order.
    pub item_name: String,
    pub quantity: u32,
    /// The price of all units, in minor units.
    pub amount: i64,
    pub currency: Currency,
    /// The bucket that holds the units.
    pub bucket: BucketNo,
    pub status: Status,
    /// Set when the status is CLOSED or FAILED.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    #[serde(with = "jiff::fmt::serde::timestamp::millisecond::required")]
    pub created_at: Timestamp,
    /// The payment deadline.
    #[serde(with = "jiff::fmt::serde::timestamp::millisecond::required")]
    pub pay_by: Timestamp,
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "jiff::fmt::serde::timestamp::millisecond::optional"
    )]
    pub paid_at: Option<Timestamp>,
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "jiff::fmt::serde::timestamp::millisecond::optional"
    )]
    pub closed_at: Option<Timestamp>,
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "jiff::fmt::serde::timestamp::millisecond::optional"
    )]
    pub refunded_at: Option<Timestamp>,
    /// The price in points, if the order can be paid with points.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub points_price: Option<i64>,
    /// Every attempt to pay, oldest first. The payment number at the provider contains the index into this list.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attempts: Vec<Attempt>,
    /// The attempt that the buyer can pay now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payment: Option<OpenPayment>,
    /// The transaction that paid for the order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paid: Option<PaidWith>,
    /// Transactions that are refunded because the order did not need them. They never pay for the order.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub returned: BTreeSet<String>,
    /// How often an operator gave up a refund and kept the order as paid.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub kept: u32,
    /// What the shop attached to the purchase.
    #[serde(default, skip_serializing_if = "ShopData::is_empty")]
    pub shop_data: ShopData,
    /// The trace id of the purchase request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
}

impl Order {
    /// The order of an accepted purchase before its item has been read: the amount is 0 and the deadline is `now`.
    pub fn of(message: &OrderMessage, now: Timestamp) -> Self {
        Self {
            id: message.order_id.clone(),
            buyer_name: message.buyer.clone(),
            sale: message.sale_id.clone(),
            item: message.item_id.clone(),
            item_name: message.item_id.to_string(),
            quantity: message.quantity,
            amount: 0,
            currency: Currency::none(),
            bucket: message.bucket,
            status: Status::PendingPayment,
            reason: None,
            created_at: now,
            pay_by: now,
            paid_at: None,
            closed_at: None,
            refunded_at: None,
            points_price: None,
            attempts: Vec::new(),
            payment: None,
            paid: None,
            returned: BTreeSet::new(),
            kept: 0,
            shop_data: message.shop_data.clone(),
            trace: message.trace.clone(),
        }
    }

    pub fn offer(&self) -> Offer {
        Offer { sale: self.sale.clone(), item: self.item.clone() }
    }

    /// A number that grows with every change the buyer can see: a new status or, while the order is pending, a change
    /// of its open payment. A client that receives updates twice or out of order keeps the one with the greatest
    /// version. The version is derived from the order, so keeping it up to date needs no extra write.
    pub fn version(&self) -> u32 {
        const STATUS: u32 = 1_000;
        // An order that is kept as paid goes back from REFUNDING to PAID. Ranks are below 10.
        const KEPT: u32 = 10 * STATUS;
        let payment = match &self.payment {
            Some(open) if !open.closing => 0,
            Some(_) => 1,
            None => 2,
        };
        // At most MAX_ATTEMPTS attempts exist, so this part never carries over into the status.
        let attempts = u32::try_from(self.attempts.len()).unwrap_or(u32::MAX).min(STATUS / 3 - 1);
        self.kept.saturating_mul(KEPT).saturating_add(self.status.rank() * STATUS + attempts * 3 + payment)
    }
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVENTS: [Event; 6] =
        [Event::Close, Event::Pay, Event::Revive, Event::StartRefund, Event::FinishRefund, Event::KeepPaid];

    #[test]
    fn an_event_changes_an_order_only_once() {
        for status in Status::ALL {
            for event in EVENTS {
                if let Step::Become(next) = step(status, event) {
                    assert_ne!(next, status);
                    assert_eq!(step(next, event), Step::Already, "{status:?} {event:?}");
                }
            }
        }
    }

    #[test]
    fn every_change_of_the_status_but_an_operators_increases_its_rank() {
        for status in Status::ALL {
            for event in EVENTS.into_iter().filter(|event| *event != Event::KeepPaid) {
                if let Step::Become(next) = step(status, event) {
                    assert!(next.rank() > status.rank(), "{status:?} {event:?}");
                }
            }
        }
    }

    #[test]
    fn every_change_of_a_payment_increases_the_version() {
        let at = Timestamp::UNIX_EPOCH;
        let new = Order::of(&crate::message::sample::message(at), at);
        let mut seen = vec![new.version()];
        let mut order = new;
        for attempt in 0..crate::payment::MAX_ATTEMPTS {
            order.attempts.push(Attempt { method: crate::payment::Method::Alipay, amount: 1, points: 0 });
            let attempt = u8::try_from(attempt).unwrap();
            let open = OpenPayment { attempt, started_at: at, client_ip: String::new(), link: None, closing: false };
            for payment in [Some(open.clone()), Some(OpenPayment { closing: true, ..open }), None] {
                order.payment = payment;
                seen.push(order.version());
            }
        }
        for status in [Status::Closed, Status::Paid, Status::Refunding, Status::Refunded] {
            order.status = status;
            seen.push(order.version());
        }
        for status in [Status::Paid, Status::Refunding, Status::Refunded] {
            (order.kept, order.status) = (1, status);
            seen.push(order.version());
        }
        assert!(seen.is_sorted_by(|one, next| one < next), "{seen:?}");
    }

    #[test]
    fn an_order_that_is_no_longer_live_becomes_live_only_by_revive() {
        for status in Status::ALL.into_iter().filter(|status| !status.is_live()) {
            for event in EVENTS.into_iter().filter(|event| *event != Event::Revive) {
                assert!(!matches!(step(status, event), Step::Become(_)), "{status:?} {event:?}");
            }
        }
    }
}
