//! An unpaid order ends: its deadline passed, its buyer cancelled it, or its payment failed.
//!
//! | stopped after | left behind | repaired by |
//! |---|---|---|
//! | the open payment is marked as closing | the order waits; its payment is no longer shown | (1) |
//! | the payment is closed at its provider | the same | (1); closing it again has no effect |
//! | the order is CLOSED, its frozen points are back | claim and units still held | (2) |
//! | the claim is dropped | units still held; the buyer may buy again | (2) |
//! | the units are released | the schedule of its deadline | it fires without effect |
//! | the schedule is deleted | nothing | |
//!
//! (1) The same close again, which Lambda retries, or reconcile after the deadline. A buyer who asks for a payment in
//! the meantime gets a new one.
//!
//! (2) The same close again, or reconcile, led by the holder.
//!
//! The provider comes first: nothing is given away while the payment for it can still be made. A payment that
//! turns out to be made settles the order instead.

use domain::Timestamp;
use domain::ids::OrderId;
use domain::order::{Event, Order, Reason, Status, Step, step};
use store::OrderChange;

use crate::error::FlowError;
use crate::pay::close_at_provider::{ProviderClose, close_at_provider};
use crate::pay::settle::{Settled, settle};
use crate::{CAS_ATTEMPTS, Context, finish};

/// Why an order is to be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Its payment deadline passed. An order whose deadline is still ahead is not closed.
    Deadline,
    /// Its buyer cancelled.
    Buyer,
    /// The provider reported that this attempt to pay failed. The order is not closed once another attempt is open.
    PaymentFailed { attempt: u8 },
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

/// How a close ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CloseOutcome {
    /// This run closed it.
    Closed(Box<Order>),
    /// It was closed before. Its remaining steps, if any, are done now.
    AlreadyClosed(Box<Order>),
    /// Its deadline has not passed yet, or another attempt to pay it is open.
    NotDue(Box<Order>),
    /// Its payment was made, so the order is paid; `newly` if this run made it so.
    Paid { order: Box<Order>, newly: bool },
    /// Its provider does not close the payment before this moment. It is not paid so far.
    NotBefore(Box<Order>, Timestamp),
    /// It cannot be closed: it is paid, or has ended otherwise.
    Refused(Box<Order>),
    /// There is no such order.
    Unknown,
}

/// Closes an order.
pub async fn close(context: Context<'_>, id: &OrderId, cause: Cause) -> Result<CloseOutcome, FlowError> {
    let outcome = close_unpaid(context, id, cause).await?;
    if let CloseOutcome::Closed(order) | CloseOutcome::AlreadyClosed(order) = &outcome {
        finish::drop_deadline(context.store, order, context.now).await;
    }
    Ok(outcome)
}

async fn close_unpaid(context: Context<'_>, id: &OrderId, cause: Cause) -> Result<CloseOutcome, FlowError> {
    let Context { store, now, .. } = context;
    let deadline_passed = (cause == Cause::Deadline).then_some(now);
    // Most orders have no payment open: one write closes them, without a read.
    let mut closed_at_provider: Option<Box<Order>> = None;
    if matches!(cause, Cause::PaymentFailed { .. }) {
        match prepare(context, store.order(id).await?.map(Box::new), cause).await? {
            Prepared::ClosedAtProvider(order) => closed_at_provider = Some(order),
            Prepared::Ended(outcome) => return Ok(outcome),
            Prepared::Changed => return Err(FlowError::Busy),
        }
    }
    for _ in 0..CAS_ATTEMPTS {
        let payment = closed_at_provider.as_deref().and_then(|order| Some((order, order.payment.as_ref()?)));
        match store.close_order(id, cause.reason(), now, deadline_passed, payment).await? {
            OrderChange::Made(order) => {
                finish::closed(store, &order).await?;
                return Ok(CloseOutcome::Closed(order));
            }
            OrderChange::Refused(order) => match prepare(context, order, cause).await? {
                Prepared::ClosedAtProvider(order) => closed_at_provider = Some(order),
                Prepared::Changed => closed_at_provider = None,
                Prepared::Ended(outcome) => return Ok(outcome),
            },
        }
    }
    Err(FlowError::Busy)
}

/// What has to be known before an order is closed.
enum Prepared {
    /// The open payment of the order, as it is here, is closed at its provider: close the order.
    ClosedAtProvider(Box<Order>),
    /// The order changed at the same time: try again.
    Changed,
    /// There is nothing to close, or it is done.
    Ended(CloseOutcome),
}

/// Prepares the close of an order that could not be closed by one write: closes its open payment, or tells why it
/// stays as it is.
async fn prepare(context: Context<'_>, order: Option<Box<Order>>, cause: Cause) -> Result<Prepared, FlowError> {
    let Context { store, now, .. } = context;
    let Some(order) = order else { return Ok(Prepared::Ended(CloseOutcome::Unknown)) };
    match step(order.status, Event::Close) {
        Step::Become(_) => {}
        Step::Already => {
            finish::closed(store, &order).await?;
            return Ok(Prepared::Ended(CloseOutcome::AlreadyClosed(order)));
        }
        Step::Refuse => {
            // A failed order has the same last steps as a closed one: some may be missing.
            if order.status == Status::Failed {
                finish::closed(store, &order).await?;
            }
            return Ok(Prepared::Ended(CloseOutcome::Refused(order)));
        }
    }
    if cause == Cause::Deadline && order.pay_by > now {
        return Ok(Prepared::Ended(CloseOutcome::NotDue(order)));
    }
    let payment = match (&order.payment, cause) {
        (Some(payment), Cause::PaymentFailed { attempt }) if payment.attempt != attempt => {
            return Ok(Prepared::Ended(CloseOutcome::NotDue(order)));
        }
        (None, Cause::PaymentFailed { .. }) => return Ok(Prepared::Ended(CloseOutcome::NotDue(order))),
        (None, Cause::Deadline | Cause::Buyer) => return Ok(Prepared::Changed),
        (Some(payment), _) => payment,
    };
    match close_at_provider(context, &order, payment).await? {
        ProviderClose::Closed => Ok(Prepared::ClosedAtProvider(order)),
        ProviderClose::Changed => Ok(Prepared::Changed),
        ProviderClose::NotBefore(moment) => Ok(Prepared::Ended(CloseOutcome::NotBefore(order, moment))),
        ProviderClose::Paid(arrived) => match settle(context, &arrived).await? {
            Settled::Paid(order) | Settled::AlreadyPaid(order) | Settled::Revived(order) => {
                let newly = context.is_this_run(order.paid_at);
                Ok(Prepared::Ended(CloseOutcome::Paid { order, newly }))
            }
            // Other money paid for the order at the same moment.
            Settled::Returned { .. } => Ok(Prepared::Changed),
            Settled::Wrong(_) | Settled::Unknown => Err(FlowError::unexpected_payment(&arrived)),
        },
    }
}
