//! An accepted purchase becomes an order, once, however often its message arrives.
//!
//! | stopped after | what is left | who repairs it |
//! |---|---|---|
//! | the claim is ORDERED | no order yet | the message comes again; if it is lost, reconcile sends it again |
//! | the order is placed | no schedule | the message comes again; without it, reconcile closes the order after its deadline |
//! | the schedule is made | nothing undone | |
//!
//! The claim is the arbiter: an order is only made for the purchase that has the buyer's claim. A purchase that lost it is
//! recorded as FAILED and its units return; a failed order's steps are those of [`crate::close::finish`]. So are those of a message that
//! comes after its order has ended and still finds its claim.

use domain::Timestamp;
use domain::claim::ClaimState;
use domain::ids::Offer;
use domain::message::OrderMessage;
use domain::money::amount;
use domain::order::{Order, Reason, Status};
use domain::sale::{Item, Sale, SaleWithItems};
use jiff::SignedDuration;
use store::{ClaimWrite, Placed, Store, StoreError};

use crate::close;
use crate::sales::Sales;

/// What became of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Placement {
    /// There is a new order.
    Made(Box<Order>),
    /// There was one already, from the same message.
    Before(Box<Order>),
    /// The purchase could not become an order: it is FAILED, and its units are free again.
    Failed(Reason),
}

/// Makes the order of a message.
pub async fn place_order(
    store: &Store,
    sales: &Sales,
    message: &OrderMessage,
    now: Timestamp,
) -> Result<Placement, StoreError> {
    let offer = message.offer();
    let Some((sale, item)) = sold(store, sales, &offer, now).await? else {
        return fail(store, message, Reason::UnknownItem, now).await;
    };

    // 1. The claim is this order's from now on, at this message's bucket: only the order's own end removes it.
    let bucket = match store.mark_ordered(&offer, &message.order_id, message.bucket).await? {
        ClaimWrite::Done => message.bucket,
        ClaimWrite::Refused(claims) => match claims.claims.get(&offer.item) {
            // Another message of the same order was first, perhaps one that held elsewhere: its bucket is the order's.
            Some(claim) if claim.order == message.order_id && claim.state != ClaimState::Held => claim.bucket,
            _ => return fail(store, message, Reason::ClaimLost, now).await,
        },
    };

    // 2. The order.
    let order = Order { bucket, ..pending(message, &sale, &item, now) };
    let (order, new) = match store.place(&order).await? {
        Placed::New => (order, true),
        Placed::Existing(existing) => (*existing, false),
    };

    // 3. Its deadline. One that is there is this one; an order that has ended needs none, but the claim that was found above is one that
    // its end should have dropped.
    if !order.status.is_live() {
        close::finish(store, &order).await?;
    } else if order.status == Status::PendingPayment {
        let soonest = now.saturating_add(SignedDuration::from_secs(1)).unwrap_or(now);
        store.schedule_deadline(&order.id, order.pay_by.max(soonest), order.trace.as_deref()).await?;
    }
    Ok(if new { Placement::Made(Box::new(order)) } else { Placement::Before(Box::new(order)) })
}

/// The sale and the item of an order. What is not in memory is asked of the database as it is now, before a purchase is given up.
async fn sold(store: &Store, sales: &Sales, offer: &Offer, now: Timestamp) -> Result<Option<(Sale, Item)>, StoreError> {
    let of = |found: &SaleWithItems| Some((found.sale.clone(), found.items.get(&offer.item)?.clone()));
    let remembered = sales.get(store, &offer.sale, now).await?;
    if let Some(known) = remembered.as_deref().and_then(of) {
        return Ok(Some(known));
    }
    Ok(store.sale(&offer.sale).await?.as_ref().and_then(of))
}

fn pending(message: &OrderMessage, sale: &Sale, item: &Item, now: Timestamp) -> Order {
    let window = SignedDuration::from_secs(i64::from(sale.payment_window_s));
    Order {
        item_name: item.name.clone(),
        amount: amount(item.price, message.quantity),
        currency: item.currency.clone(),
        pay_by: now.saturating_add(window).unwrap_or(now),
        points_price: item.points_price.map(|points| amount(points, message.quantity)),
        ..Order::of(message, now)
    }
}

/// Records that a purchase could not become an order, and returns its units.
///
/// The order's row decides between this and an order that another copy of the message made: whoever puts it first. Stopped after
/// that, the holder is still in its bucket, and reconcile finishes.
pub async fn fail(
    store: &Store,
    message: &OrderMessage,
    reason: Reason,
    now: Timestamp,
) -> Result<Placement, StoreError> {
    let failed =
        Order { status: Status::Failed, reason: Some(reason), closed_at: Some(now), ..Order::of(message, now) };
    match store.place(&failed).await? {
        Placed::New => {}
        Placed::Existing(existing) if existing.status == Status::Failed => {}
        // A late copy of a message whose order has long been made.
        Placed::Existing(existing) => return Ok(Placement::Before(existing)),
    }
    close::finish(store, &failed).await?;
    Ok(Placement::Failed(reason))
}
