//! An order and its life. The whole life is one `match`: adding a state does not compile until every event has decided.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::bucket::BucketNo;
use crate::ids::{Buyer, ItemId, Offer, OrderId, SaleId};
use crate::message::OrderMessage;
use crate::money::Currency;
use crate::payment::{Attempt, OpenPayment, PaidWith};

/// Where an order stands. A purchase that is accepted but has no order yet is QUEUED to its buyer: that is a claim, not a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Status {
    /// The buyer may pay until `pay_by`.
    PendingPayment,
    /// Paid.
    Paid,
    /// Not paid: timed out, cancelled, or the payment failed.
    Closed,
    /// The order could not be made.
    Failed,
    /// Money is on its way back.
    Refunding,
    /// Money is back.
    Refunded,
}

impl Status {
    /// All of them.
    pub const ALL: [Status; 6] =
        [Self::PendingPayment, Self::Paid, Self::Closed, Self::Failed, Self::Refunding, Self::Refunded];

    /// As it is stored and shown.
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

    /// How far along its life this is. Every event that changes a status takes it further, so the greater of two that were seen is the
    /// later one, however late either arrived. A purchase that is QUEUED comes before all of them, at 0.
    pub fn rank(self) -> u32 {
        match self {
            Self::PendingPayment => 1,
            Self::Closed | Self::Failed => 2,
            Self::Paid => 3,
            Self::Refunding => 4,
            Self::Refunded => 5,
        }
    }

    /// Whether the buyer still has, or may still get, what was ordered: one live order for a buyer and item.
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
    /// The money arrived after the order was closed, and there are units for it again.
    Revive,
    /// The money is to go back.
    StartRefund,
    /// The money went back.
    FinishRefund,
}

/// What an event does to an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It changes.
    Become(Status),
    /// It had happened already; whatever was left undone then is to be done now.
    Already,
    /// It cannot happen to this order.
    Refuse,
}

/// The order's life.
pub fn step(status: Status, event: Event) -> Step {
    use Event::{Close, FinishRefund, Pay, Revive, StartRefund};
    use Status::{Closed, Failed, Paid, PendingPayment, Refunded, Refunding};
    match (status, event) {
        (PendingPayment, Close) => Step::Become(Closed),
        (PendingPayment, Pay) => Step::Become(Paid),
        (PendingPayment, Revive | StartRefund | FinishRefund) => Step::Refuse,

        (Paid, Pay | Revive) => Step::Already,
        (Paid, StartRefund) => Step::Become(Refunding),
        (Paid, Close | FinishRefund) => Step::Refuse,

        (Closed, Close) => Step::Already,
        (Closed, Revive) => Step::Become(Paid),
        (Closed, Pay | StartRefund | FinishRefund) => Step::Refuse,

        (Failed, Close | Pay | Revive | StartRefund | FinishRefund) => Step::Refuse,

        (Refunding, StartRefund) => Step::Already,
        (Refunding, FinishRefund) => Step::Become(Refunded),
        (Refunding, Close | Pay | Revive) => Step::Refuse,

        (Refunded, StartRefund | FinishRefund) => Step::Already,
        (Refunded, Close | Pay | Revive) => Step::Refuse,
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
    /// The provider said that the payment failed.
    PaymentFailed,
    /// The buyer's claim went to another try before this one could become an order.
    ClaimLost,
    /// The sale or the item is not there any more.
    UnknownItem,
}

impl Reason {
    /// As it is stored and shown.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::TimedOut => "TIMED_OUT",
            Self::Cancelled => "CANCELLED",
            Self::PaymentFailed => "PAYMENT_FAILED",
            Self::ClaimLost => "CLAIM_LOST",
            Self::UnknownItem => "UNKNOWN_ITEM",
        }
    }
}

/// An order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Order {
    /// Its number.
    #[serde(rename = "order")]
    pub id: OrderId,
    /// Who ordered: the token's `sub`.
    pub buyer_name: Buyer,
    /// The sale.
    pub sale: SaleId,
    /// The item.
    pub item: ItemId,
    /// The item's name when it was ordered.
    pub item_name: String,
    /// Units.
    pub quantity: u32,
    /// What is to be paid, in minor units.
    pub amount: i64,
    /// The currency.
    pub currency: Currency,
    /// Where its units are held.
    pub bucket: BucketNo,
    /// Where it stands.
    pub status: Status,
    /// Why it is CLOSED or FAILED.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// When the order was made.
    #[serde(with = "jiff::fmt::serde::timestamp::millisecond::required")]
    pub created_at: Timestamp,
    /// The payment deadline.
    #[serde(with = "jiff::fmt::serde::timestamp::millisecond::required")]
    pub pay_by: Timestamp,
    /// When it was paid.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "jiff::fmt::serde::timestamp::millisecond::optional"
    )]
    pub paid_at: Option<Timestamp>,
    /// When it was closed.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "jiff::fmt::serde::timestamp::millisecond::optional"
    )]
    pub closed_at: Option<Timestamp>,
    /// When its money had gone back.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "jiff::fmt::serde::timestamp::millisecond::optional"
    )]
    pub refunded_at: Option<Timestamp>,
    /// What it costs in points, if it can be had for points.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub points_price: Option<i64>,
    /// Every try to pay it, from the first. A payment's number at its provider names its place here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attempts: Vec<Attempt>,
    /// The payment that can be made now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payment: Option<OpenPayment>,
    /// What it was paid with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paid: Option<PaidWith>,
    /// Transactions whose money is not for this order: they are sent back, and never pay for it.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub returned: BTreeSet<String>,
    /// The trace of the press that began it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
}

impl Order {
    /// The order of an accepted purchase, as it is before anything is known of its item: for nothing, and due at once.
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
            trace: message.trace.clone(),
        }
    }

    /// What was ordered.
    pub fn offer(&self) -> Offer {
        Offer { sale: self.sale.clone(), item: self.item.clone() }
    }

    /// Greater with every change that its buyer can see: the status, and while it waits, the payment that is open. Who is told twice, or
    /// of a newer state before an older one, keeps the greater. It is read off the order, so it costs nothing to keep.
    pub fn version(&self) -> u32 {
        const STATUS: u32 = 1_000;
        let payment = match &self.payment {
            Some(open) if !open.closing => 0,
            Some(_) => 1,
            None => 2,
        };
        // Attempts are few (MAX_ATTEMPTS), so they never reach the next status.
        let attempts = u32::try_from(self.attempts.len()).unwrap_or(u32::MAX).min(STATUS / 3 - 1);
        self.status.rank() * STATUS + attempts * 3 + payment
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVENTS: [Event; 5] = [Event::Close, Event::Pay, Event::Revive, Event::StartRefund, Event::FinishRefund];

    #[test]
    fn an_event_that_changed_an_order_changes_it_only_once() {
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
    fn every_change_of_a_status_takes_it_further() {
        for status in Status::ALL {
            for event in EVENTS {
                if let Step::Become(next) = step(status, event) {
                    assert!(next.rank() > status.rank(), "{status:?} {event:?}");
                }
            }
        }
    }

    #[test]
    fn every_change_of_a_payment_is_a_later_version() {
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
        assert!(seen.is_sorted_by(|one, next| one < next), "{seen:?}");
    }

    #[test]
    fn an_order_that_returned_its_stock_lives_again_only_by_being_revived() {
        for status in Status::ALL.into_iter().filter(|status| !status.is_live()) {
            for event in EVENTS.into_iter().filter(|event| *event != Event::Revive) {
                assert!(!matches!(step(status, event), Step::Become(_)), "{status:?} {event:?}");
            }
        }
    }
}
