//! An order that is not paid ends: its deadline passed, its buyer cancelled, or its payment failed.
//!
//! | stopped after | what is left | who repairs it |
//! |---|---|---|
//! | the open payment is marked as closing | an order that still waits; its payment is shown to nobody | the same close again (Lambda retries it), or reconcile after the deadline; a buyer who asks for a payment gets a new one |
//! | the payment is closed at its provider | the same | the same; closing it again is no harm |
//! | the order is CLOSED, and its frozen points are back | claim and units still held | the same close again, or reconcile, led by the holder |
//! | the claim is dropped | units still held; the buyer may buy again | the same |
//! | the units are released | nothing undone | |
//!
//! The provider comes first: nothing is given away while the payment for it can still be made. A payment that turns out to be made
//! settles the order. The release is last because the holder in the bucket is what leads reconcile to an order that was left half
//! closed.

use domain::Timestamp;
use domain::ids::OrderId;
use domain::order::{Event, Order, Reason, Status, Step, step};
use providers::Providers;
use store::{OrderChange, Store, StoreError};

use crate::close_at_provider::{ProviderClose, close_at_provider};
use crate::settle::{Settled, settle};
use crate::undone::FlowError;

/// How often the order is looked at again because it changed meanwhile.
const ROUNDS: u32 = 5;

/// Why an order is to be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Its payment deadline passed. Closes nothing before that.
    Deadline,
    /// Its buyer cancelled.
    Buyer,
    /// The provider said that this attempt to pay it failed. Closes nothing once another attempt is open.
    PaymentFailed {
        /// Which attempt.
        attempt: u8,
    },
}

impl Cause {
    fn reason(self) -> Reason {
        match self {
            Self::Deadline => Reason::TimedOut,
            Self::Buyer => Reason::Cancelled,
            Self::PaymentFailed { .. } => Reason::PaymentFailed,
        }
    }
}

/// What became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CloseOutcome {
    /// It is closed now.
    Closed(Box<Order>),
    /// It had been closed before; whatever was left undone is done now.
    Before(Box<Order>),
    /// Its deadline has not passed yet, or another attempt to pay it is open.
    NotDue(Box<Order>),
    /// Its payment was made: the order is paid.
    Paid(Box<Order>),
    /// Its provider does not close the payment before this moment. It was not paid so far.
    NotBefore(Box<Order>, Timestamp),
    /// It cannot be closed: it is paid, or has ended otherwise.
    Refused(Box<Order>),
    /// There is no such order.
    Unknown,
}

/// Closes an order.
pub async fn close(
    store: &Store,
    providers: &Providers,
    id: &OrderId,
    cause: Cause,
    now: Timestamp,
) -> Result<CloseOutcome, FlowError> {
    let deadline_passed = (cause == Cause::Deadline).then_some(now);
    // Most orders have no payment open: they are closed with one write, unseen.
    let mut seen: Option<Box<Order>> = None;
    if matches!(cause, Cause::PaymentFailed { .. }) {
        match look(store, providers, store.order(id).await?.map(Box::new), cause, now).await? {
            Look::ClosedAtProvider(order) => seen = Some(order),
            Look::Ended(closing) => return Ok(closing),
            Look::Again => return Err(FlowError::Busy),
        }
    }
    for _ in 0..ROUNDS {
        let shut = seen.as_deref().and_then(|order| Some((order, order.payment.as_ref()?)));
        match store.close_order(id, cause.reason(), now, deadline_passed, shut).await? {
            OrderChange::Made(order) => {
                finish(store, &order).await?;
                return Ok(CloseOutcome::Closed(order));
            }
            OrderChange::Refused(order) => match look(store, providers, order, cause, now).await? {
                Look::ClosedAtProvider(order) => seen = Some(order),
                Look::Again => seen = None,
                Look::Ended(closing) => return Ok(closing),
            },
        }
    }
    Err(FlowError::Busy)
}

enum Look {
    /// The open payment of the order, as it is here, is closed at its provider: close the order.
    ClosedAtProvider(Box<Order>),
    /// It changes just now.
    Again,
    /// There is nothing to close, or it is done.
    Ended(CloseOutcome),
}

/// Looks at an order that could not be closed as it was.
async fn look(
    store: &Store,
    providers: &Providers,
    order: Option<Box<Order>>,
    cause: Cause,
    now: Timestamp,
) -> Result<Look, FlowError> {
    let Some(order) = order else { return Ok(Look::Ended(CloseOutcome::Unknown)) };
    match step(order.status, Event::Close) {
        Step::Become(_) => {}
        Step::Already => {
            finish(store, &order).await?;
            return Ok(Look::Ended(CloseOutcome::Before(order)));
        }
        Step::Refuse => {
            // A failed order has ended as a closed one has: finish what may be left of that.
            if order.status == Status::Failed {
                finish(store, &order).await?;
            }
            return Ok(Look::Ended(CloseOutcome::Refused(order)));
        }
    }
    if cause == Cause::Deadline && order.pay_by > now {
        return Ok(Look::Ended(CloseOutcome::NotDue(order)));
    }
    let payment = match (&order.payment, cause) {
        (Some(payment), Cause::PaymentFailed { attempt }) if payment.attempt != attempt => {
            return Ok(Look::Ended(CloseOutcome::NotDue(order)));
        }
        (None, Cause::PaymentFailed { .. }) => return Ok(Look::Ended(CloseOutcome::NotDue(order))),
        (None, Cause::Deadline | Cause::Buyer) => return Ok(Look::Again),
        (Some(payment), _) => payment,
    };
    match close_at_provider(store, providers, &order, payment, now).await? {
        ProviderClose::Closed => Ok(Look::ClosedAtProvider(order)),
        ProviderClose::Changed => Ok(Look::Again),
        ProviderClose::NotBefore(moment) => Ok(Look::Ended(CloseOutcome::NotBefore(order, moment))),
        ProviderClose::Paid(arrived) => match settle(store, providers, &arrived, now).await? {
            Settled::Paid(order) | Settled::Before(order) | Settled::Revived(order) => {
                Ok(Look::Ended(CloseOutcome::Paid(order)))
            }
            // It was paid with other money in the same moment, or is not what was asked for.
            Settled::Returned(_) => Ok(Look::Again),
            Settled::Wrong(_) | Settled::Unknown => {
                let what = format!("{} {} were paid as {}", arrived.amount, arrived.currency, arrived.transaction);
                Err(FlowError::Unclear { method: arrived.method, what })
            }
        },
    }
}

/// What follows from an order's being closed or failed: the buyer may buy again, and the units are on sale again.
pub async fn finish(store: &Store, order: &Order) -> Result<(), StoreError> {
    let offer = order.offer();
    store.drop_claim(&offer, &order.id).await?;
    store.release(&offer, order.bucket, &order.id, order.quantity).await?;
    Ok(())
}
