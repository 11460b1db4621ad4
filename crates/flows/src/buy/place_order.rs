//! An accepted purchase becomes an order, once, however often its message arrives.
//!
//! | stopped after | left behind | repaired by |
//! |---|---|---|
//! | the claim is ORDERED | no order yet | the message comes again; if it is lost, reconcile sends it again |
//! | the order is placed | no schedule | the message comes again; else reconcile closes the order when overdue |
//! | the schedule could not be made | no schedule | reconcile closes the order when overdue |
//! | the schedule is made | nothing | |
//!
//! The claim decides: an order is only made for the purchase that has the buyer's claim. A purchase that lost it
//! is recorded as FAILED, and its units return by the steps of [`crate::finish::closed`]. The same steps follow
//! if a message arrives after its order has ended and still finds the claim.

use domain::Timestamp;
use domain::claim::ClaimState;
use domain::ids::Offer;
use domain::message::OrderMessage;
use domain::money::amount;
use domain::order::{Order, Reason, Status};
use domain::sale::{Item, Sale, SaleWithItems};
use jiff::SignedDuration;
use store::{ClaimWrite, Placed, Store, StoreError};

use crate::finish;
use crate::sale::sales::Sales;

/// What a message led to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Placement {
    /// This run placed the order.
    Placed(Box<Order>),
    /// The order existed before, from the same message.
    AlreadyPlaced(Box<Order>),
    /// The purchase could not become an order: it is FAILED, and its units are free again.
    Failed(Reason),
}

/// A placement, and why its deadline could not be scheduled, if it could not: reconcile closes the order then.
#[derive(Debug)]
pub struct PlacedOrder {
    pub placement: Placement,
    pub unscheduled: Option<StoreError>,
}

impl From<Placement> for PlacedOrder {
    fn from(placement: Placement) -> Self {
        Self { placement, unscheduled: None }
    }
}

/// Makes the order of a message.
pub async fn place_order(
    store: &Store,
    sales: &Sales,
    message: &OrderMessage,
    now: Timestamp,
) -> Result<PlacedOrder, StoreError> {
    let offer = message.offer();
    let Some((sale, item)) = sale_and_item(store, sales, &offer, now).await? else {
        return fail(store, message, Reason::UnknownItem, now).await.map(PlacedOrder::from);
    };

    // 1. From now on the claim belongs to this order, at this message's bucket: only the order's own end removes it.
    let bucket = match store.mark_ordered(&offer, &message.order_id, message.bucket).await? {
        ClaimWrite::Done => message.bucket,
        ClaimWrite::Refused(claims) => match claims.claims.get(&offer.item) {
            // Another message of the same order was first, perhaps with another bucket: that bucket is the order's.
            Some(claim) if claim.order == message.order_id && claim.state != ClaimState::Held => claim.bucket,
            _ => return fail(store, message, Reason::ClaimLost, now).await.map(PlacedOrder::from),
        },
    };

    // 2. The order.
    let order = Order { bucket, ..pending(message, &sale, &item, now) };
    let (order, new) = match store.place(&order).await? {
        Placed::New => (order, true),
        Placed::Existing(existing) => (*existing, false),
    };

    // 3. Its deadline. A schedule that exists is this one. An order that has ended needs none, but the claim
    // found above should have been dropped when it ended.
    let mut unscheduled = None;
    if !order.status.is_live() {
        finish::closed(store, &order).await?;
    } else if order.status == Status::PendingPayment {
        let soonest = now.saturating_add(SignedDuration::from_secs(1)).unwrap_or(now);
        let deadline = order.pay_by.max(soonest);
        unscheduled = store.schedule_deadline(&order.id, deadline, order.trace.as_deref()).await.err();
    }
    let order = Box::new(order);
    let placement = if new { Placement::Placed(order) } else { Placement::AlreadyPlaced(order) };
    Ok(PlacedOrder { placement, unscheduled })
}

/// The sale and the item of an order. If the cache does not know them, the database is read before the purchase fails.
async fn sale_and_item(
    store: &Store,
    sales: &Sales,
    offer: &Offer,
    now: Timestamp,
) -> Result<Option<(Sale, Item)>, StoreError> {
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
/// If another copy of the message places the order at the same time, the first write of the order's row decides.
/// Stopped after that write, the holder is still in its bucket, and reconcile does the remaining steps.
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
        // A delayed copy of a message whose order was placed long ago.
        Placed::Existing(existing) => return Ok(Placement::AlreadyPlaced(existing)),
    }
    finish::closed(store, &failed).await?;
    Ok(Placement::Failed(reason))
}
