//! An order that is not paid ends: its deadline passed, or its buyer cancelled.
//!
//! | stopped after | what is left | who repairs it |
//! |---|---|---|
//! | the order is CLOSED | claim and units still held | the same close again (Lambda retries it), or reconcile, led by the holder |
//! | the claim is dropped | units still held; the buyer may buy again | the same |
//! | the units are released | nothing undone | |
//!
//! The release is last because the holder in the bucket is what leads reconcile to an order that was left half closed.

use domain::Timestamp;
use domain::ids::OrderId;
use domain::order::{Event, Order, Reason, Status, Step, step};
use store::{OrderChange, Store, StoreError};

/// Why an order is to be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Its payment deadline passed. Closes nothing before that.
    Deadline,
    /// Its buyer cancelled.
    Buyer,
}

/// What became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Closing {
    /// It is closed now.
    Closed(Box<Order>),
    /// It had been closed before; whatever was left undone is done now.
    Before(Box<Order>),
    /// Its deadline has not passed yet.
    NotDue(Box<Order>),
    /// It cannot be closed: it is paid, or has ended otherwise.
    Refused(Box<Order>),
    /// There is no such order.
    Unknown,
}

/// Closes an order.
pub async fn close(store: &Store, id: &OrderId, cause: Cause, now: Timestamp) -> Result<Closing, StoreError> {
    let (reason, deadline_passed) = match cause {
        Cause::Deadline => (Reason::TimedOut, Some(now)),
        Cause::Buyer => (Reason::Cancelled, None),
    };
    match store.close_order(id, reason, now, deadline_passed).await? {
        OrderChange::Made(order) => {
            finish(store, &order).await?;
            Ok(Closing::Closed(order))
        }
        OrderChange::Refused(None) => Ok(Closing::Unknown),
        OrderChange::Refused(Some(order)) => match step(order.status, Event::Close) {
            Step::Become(_) => Ok(Closing::NotDue(order)),
            Step::Already => {
                finish(store, &order).await?;
                Ok(Closing::Before(order))
            }
            // A failed order has ended as a closed one has: finish what may be left of that.
            Step::Refuse if order.status == Status::Failed => {
                finish(store, &order).await?;
                Ok(Closing::Refused(order))
            }
            Step::Refuse => Ok(Closing::Refused(order)),
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
