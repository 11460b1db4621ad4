//! The steps that follow once an order is closed, paid or refunded.
//!
//! The order's row is the decision; these steps carry it out. Every flow that makes or finds such a decision
//! calls them, and so does reconcile, as often as needed: each step checks its own condition and changes nothing
//! the second time. They call no flow.
//!
//! The holder in the bucket always goes last. It is what leads reconcile to an order whose steps were interrupted.

use domain::Timestamp;
use domain::order::Order;
use domain::payment::{PayEntry, RefundEntry};
use store::{Moved, OrderChange, Store, StoreError};

/// An order is closed or failed: its buyer may buy again, and its units are on sale again.
pub async fn closed(store: &Store, order: &Order) -> Result<(), StoreError> {
    let offer = order.offer();
    store.drop_claim(&offer, &order.id).await?;
    store.release(&offer, order.bucket, &order.id, order.quantity).await?;
    Ok(())
}

/// An order is paid: the payment is in the pay log, and the units are sold.
pub async fn paid(store: &Store, order: &Order, now: Timestamp) -> Result<(), StoreError> {
    if let Some(with) = &order.paid {
        let at = order.paid_at.unwrap_or(now);
        store.log_payment(&PayEntry::new(order, with, at), false).await?;
    }
    store.confirm(&order.offer(), order.bucket, &order.id, order.quantity).await?;
    Ok(())
}

/// The money of a paid order is back: the order is REFUNDED and gets its points back, its buyer may buy again,
/// and its units are on sale again.
pub async fn refunded(store: &Store, entry: &RefundEntry, now: Timestamp) -> Result<(), StoreError> {
    let order = match store.finish_refund(&entry.order, entry.with.points, now).await? {
        OrderChange::Made(order) | OrderChange::Refused(Some(order)) => order,
        OrderChange::Refused(None) => return Ok(()),
    };
    let offer = order.offer();
    store.drop_refunded_claim(&offer, &order.id).await?;
    if let Some(with) = &order.paid {
        let at = order.paid_at.unwrap_or(now);
        store.log_payment(&PayEntry::new(&order, with, at), false).await?;
    }
    give_back(store, &order).await
}

/// The units of a refunded order are on sale again.
///
/// They may still be held, because the steps of the payment were interrupted or are in progress. They are not counted
/// as sold first: a run that stopped in between would leave them sold to this order, and nothing would lead to them.
/// The bucket remembers the order, so that a delayed hold is refused, and a run that believes the order to be paid
/// finds nothing to sell.
pub async fn give_back(store: &Store, order: &Order) -> Result<(), StoreError> {
    let (offer, bucket, id, quantity) = (order.offer(), order.bucket, &order.id, order.quantity);
    if store.take_back(&offer, bucket, id, quantity).await? == Moved::Now
        || store.release_refunded(&offer, bucket, id, quantity).await? == Moved::Now
    {
        return Ok(());
    }
    // They were given back before, or another run counted them as sold between the two.
    store.take_back(&offer, bucket, id, quantity).await?;
    Ok(())
}

/// An order has ended, or is paid, before its deadline: the schedule of the deadline is not needed. Best effort: a
/// schedule that stays fires once, finds nothing to close, and deletes itself.
pub async fn drop_deadline(store: &Store, order: &Order, now: Timestamp) {
    if order.pay_by > now
        && let Err(error) = store.delete_deadline(&order.id).await
    {
        tracing::warn!(order_id = %order.id, %error, "a deadline was not deleted: it will fire without effect");
    }
}
