//! What a buyer sees of their own orders.

use domain::Timestamp;
use domain::claim::{Claim, ClaimState, is_resumable};
use domain::ids::{BuyerKey, Offer, OrderId};
use domain::money::{Currency, amount};
use domain::order::Order;
use domain::shop_data::ShopData;
use store::{Store, StoreError};

use crate::sale::sales::Sales;
use crate::sale::stock;

/// Orders in a list, the newest first. The shop's own records have the rest.
const LISTED: u16 = 100;

/// An order, or an accepted purchase that will become one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OrderView {
    /// Accepted; the order does not exist yet.
    Queued(Queued),
    Order(Box<Order>),
}

/// An accepted purchase without an order yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queued {
    /// The id that the order will have.
    pub id: OrderId,
    pub offer: Offer,
    pub quantity: u32,
    /// Name, amount and currency, if the item is known.
    pub item: Option<(String, i64, Currency)>,
    pub shop_data: ShopData,
}

impl OrderView {
    fn id(&self) -> &OrderId {
        match self {
            Self::Queued(queued) => &queued.id,
            Self::Order(order) => &order.id,
        }
    }
}

/// One order of a buyer. An order of another buyer is treated as missing.
pub async fn order(
    store: &Store,
    sales: &Sales,
    buyer: &BuyerKey,
    id: &OrderId,
    now: Timestamp,
) -> Result<Option<OrderView>, StoreError> {
    if id.buyer() != *buyer {
        return Ok(None);
    }
    if let Some(order) = store.order(id).await? {
        return Ok(Some(OrderView::Order(Box::new(order))));
    }
    let queued = queued(store, sales, buyer, now).await?;
    if let Some(queued) = queued.into_iter().find(|queued| queued.id == *id) {
        return Ok(Some(OrderView::Queued(queued)));
    }
    // The order may have been placed, and even ended, between the two reads.
    Ok(store.order(id).await?.map(|order| OrderView::Order(Box::new(order))))
}

/// A buyer's orders, the newest first.
pub async fn orders(
    store: &Store,
    sales: &Sales,
    buyer: &BuyerKey,
    now: Timestamp,
) -> Result<Vec<OrderView>, StoreError> {
    // Claims are read first: a purchase that becomes an order between the two reads is seen twice, but never missed.
    let queued = queued(store, sales, buyer, now).await?;
    let mut views: Vec<OrderView> =
        store.orders_of(buyer, LISTED).await?.into_iter().map(|order| OrderView::Order(Box::new(order))).collect();
    // A claim lives as long as its order. If the list is full, a claim older than all of it belongs to an order
    // that is not in the list.
    let oldest = views.get(usize::from(LISTED) - 1).map(|view| view.id().clone());
    for queued in queued.into_iter().filter(|queued| oldest.as_ref().is_none_or(|oldest| queued.id > *oldest)) {
        if !views.iter().any(|view| *view.id() == queued.id) {
            views.push(OrderView::Queued(queued));
        }
    }
    views.sort_by(|one, other| other.id().cmp(one.id()));
    Ok(views)
}

/// Purchases of a buyer that will become orders.
async fn queued(store: &Store, sales: &Sales, buyer: &BuyerKey, now: Timestamp) -> Result<Vec<Queued>, StoreError> {
    let mut queued = Vec::new();
    for (sale, claims) in store.claims_of(buyer).await? {
        let found = sales.get(store, &sale, now).await?;
        for (item, claim) in claims.claims {
            let offer = Offer { sale: sale.clone(), item };
            if is_abandoned(store, &offer, &claim, now).await? {
                continue;
            }
            let item = &offer.item;
            let known = found.as_ref().and_then(|found| found.items.get(item));
            queued.push(Queued {
                id: claim.order,
                quantity: claim.quantity,
                shop_data: claim.shop_data,
                item: known.map(|item| (item.name.clone(), amount(item.price, claim.quantity), item.currency.clone())),
                offer,
            });
        }
    }
    Ok(queued)
}

/// Whether a claim was left by a request that stopped before it held anything. It becomes an order only if its
/// buyer presses again, and showing it as accepted would keep the buyer from doing that.
async fn is_abandoned(store: &Store, offer: &Offer, claim: &Claim, now: Timestamp) -> Result<bool, StoreError> {
    let may_be_abandoned = claim.state == ClaimState::Held && is_resumable(&claim.order, now);
    Ok(may_be_abandoned && stock::held_in(store, offer, claim).await?.is_none())
}
