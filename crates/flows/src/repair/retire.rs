//! Orders of past sales are removed after the time for which they are kept, with their claims and ledger rows.
//!
//! Only of a sale that reconcile has found settled: it is over, and no bucket holds a unit for an order. The order of
//! the steps keeps what is left complete: an order is found by the index of its sale until everything else of it is
//! gone.
//!
//! | stopped after | left behind | repaired by |
//! |---|---|---|
//! | the claim | the order and its ledger rows | the next run |
//! | some ledger rows | the order and the other rows | the next run |
//! | the order | nothing | |
//!
//! An order whose status changed in between stays, and so does one with an open entry; the next run looks again.

use domain::ids::OrderId;
use domain::order::Order;
use domain::retention::is_removable;
use domain::sale::Sale;
use futures::stream::{self, StreamExt, TryStreamExt};
use jiff::SignedDuration;
use store::StoreError;

use crate::Context;

/// Orders that one run looks at.
const ORDERS_PER_RUN: usize = 2_000;
/// Settled sales that one run looks at.
const SALES_PER_RUN: i32 = 50;
/// Orders read together.
const READ_TOGETHER: usize = 100;
/// Orders removed at the same time.
const CONCURRENCY: usize = 8;

/// Removes orders that were kept for long enough. Returns how many.
pub async fn remove_past_orders(context: Context<'_>) -> Result<u32, StoreError> {
    let Context { store, now, .. } = context;
    let Some(kept_for) = store.orders_kept_for() else { return Ok(0) };
    let (mut left, mut removed) = (ORDERS_PER_RUN, 0_u32);
    for id in store.settled_sales(SALES_PER_RUN).await? {
        let Some(found) = store.sale(&id).await? else { continue };
        let over_since = found.sale.ends_at.max(found.sale.changed_at);
        if left > 0 && now.duration_since(over_since) >= kept_for {
            let gone = Box::pin(retire_sale(context, &found.sale, kept_for, &mut left)).await?;
            removed = removed.saturating_add(gone);
        }
    }
    Ok(removed)
}

async fn retire_sale(
    context: Context<'_>,
    sale: &Sale,
    kept_for: SignedDuration,
    left: &mut usize,
) -> Result<u32, StoreError> {
    let store = context.store;
    let mut after: Option<OrderId> = None;
    let (mut kept, mut gone) = (0_usize, 0_u32);
    while *left > 0 {
        let ids = Box::pin(store.order_ids(&sale.id, after.as_ref(), READ_TOGETHER.min(*left))).await?;
        if ids.is_empty() {
            if kept == 0 {
                store.forget_settled_sale(sale).await?;
            }
            return Ok(gone);
        }
        *left = left.saturating_sub(ids.len());
        let found = Box::pin(store.readable_orders(&ids)).await?;
        kept += found.unreadable.len();
        let removals: Vec<_> = found.read.iter().map(|order| remove(context, order, kept_for)).collect();
        let removed: Vec<bool> = stream::iter(removals).buffer_unordered(CONCURRENCY).try_collect().await?;
        let count = removed.iter().filter(|removed| **removed).count();
        kept += removed.len().saturating_sub(count);
        gone = gone.saturating_add(u32::try_from(count).unwrap_or(u32::MAX));
        after = ids.into_iter().last();
    }
    Ok(gone)
}

/// Removes one order, if nothing can follow for it. Returns whether it is gone.
async fn remove(context: Context<'_>, order: &Order, kept_for: SignedDuration) -> Result<bool, StoreError> {
    let Context { store, now, .. } = context;
    let rows = Box::pin(store.ledger_rows(&order.id)).await?;
    if !is_removable(order, rows.has_open, kept_for, now) {
        return Ok(false);
    }
    Box::pin(store.drop_refunded_claim(&order.offer(), &order.id)).await?;
    for entry in &rows.entries {
        if !Box::pin(store.remove_entry(&order.id, entry)).await? {
            return Ok(false);
        }
    }
    Box::pin(store.remove_order(order)).await
}
