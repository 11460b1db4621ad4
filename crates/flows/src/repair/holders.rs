//! Each holder that is old enough leads to its order and its claim, which say what is missing.

use std::collections::{BTreeMap, BTreeSet};

use domain::bucket::{Bucket, BucketNo};
use domain::ids::{Buyer, Offer, OrderId};
use domain::message::{OrderMessage, VERSION};
use domain::order::{Order, Reason};
use domain::repair::{HolderVerdict, holder_verdict, is_due, is_send_due};
use futures::stream::{self, StreamExt};
use jiff::SignedDuration;
use store::StoreError;

use super::Report;
use super::walk::Run;
use crate::buy::place_order;
use crate::pay::close::{self, Cause, CloseOutcome};
use crate::{Context, FlowError, finish};

/// Holders that are repaired at the same time.
const CONCURRENCY: usize = 8;
/// Holders between two looks at the lease. Their orders are read together.
const BETWEEN_LEASES: usize = 1_600;

/// A refunded order is remembered in its bucket for this long. Longer than any request is in flight.
const RETURNED_FOR: SignedDuration = SignedDuration::from_mins(10);

/// A holder that is old enough to be examined.
struct Holder {
    bucket: BucketNo,
    order: OrderId,
    quantity: u32,
}

/// Repairs what the holders of these buckets lead to.
pub(super) async fn repair(
    run: &Run<'_>,
    offer: &Offer,
    read: &[(BucketNo, Bucket)],
    report: &mut Report,
) -> Result<(), StoreError> {
    let now = run.context.now;
    let due: Vec<Holder> = read
        .iter()
        .flat_map(|(number, bucket)| bucket.holders.iter().map(move |(order, quantity)| (*number, order, *quantity)))
        .filter(|(_, order, _)| is_due(order, now))
        .map(|(bucket, order, quantity)| Holder { bucket, order: order.clone(), quantity })
        .collect();
    report.holders += u64::try_from(due.len()).unwrap_or(u64::MAX);
    for holders in due.chunks(BETWEEN_LEASES) {
        if !run.lease.keep(run.context).await? {
            return Ok(());
        }
        repair_some(run, offer, holders, report).await?;
    }
    forget_returned(run, offer, read).await
}

/// Forgets the orders that gave their units back, once no delayed hold of them can arrive.
async fn forget_returned(run: &Run<'_>, offer: &Offer, read: &[(BucketNo, Bucket)]) -> Result<(), StoreError> {
    let Context { store, now, .. } = run.context;
    let returned: Vec<(BucketNo, &OrderId)> =
        read.iter().flat_map(|(number, bucket)| bucket.returned().map(move |order| (*number, order))).collect();
    if returned.is_empty() {
        return Ok(());
    }
    let found = store.readable_orders(returned.iter().map(|(_, order)| *order).collect::<BTreeSet<_>>()).await?;
    let is_past = |order: &Order| order.refunded_at.is_some_and(|at| now.duration_since(at) >= RETURNED_FOR);
    let past: BTreeSet<&OrderId> = found.read.iter().filter(|order| is_past(order)).map(|order| &order.id).collect();
    for (bucket, order) in returned.into_iter().filter(|(_, order)| past.contains(order)) {
        store.forget_returned(offer, bucket, order).await?;
    }
    Ok(())
}

async fn repair_some(run: &Run<'_>, offer: &Offer, holders: &[Holder], report: &mut Report) -> Result<(), StoreError> {
    let ids: BTreeSet<&OrderId> = holders.iter().map(|holder| &holder.order).collect();
    let found = run.context.store.readable_orders(ids).await?;
    let unreadable: BTreeSet<String> = found.unreadable.iter().map(|row| row.name.clone()).collect();
    report.unreadable.extend(found.unreadable.iter().map(ToString::to_string));
    let orders: BTreeMap<OrderId, Order> = found.read.into_iter().map(|order| (order.id.clone(), order)).collect();
    // Nothing is decided about an order that cannot be read.
    let readable = holders.iter().filter(|holder| !unreadable.contains(&format!("order {}", holder.order)));
    let mut repairs = Vec::new();
    for holder in readable {
        let order = orders.get(&holder.order);
        repairs.push(async move { (&holder.order, repair_holder(run, offer, holder, order).await) });
    }
    let done: Vec<(&OrderId, Result<Repair, FlowError>)> =
        stream::iter(repairs).buffer_unordered(CONCURRENCY).collect().await;
    for (order, result) in done {
        match result {
            Ok(Repair::Done(HolderVerdict::Leave)) => {}
            Ok(Repair::Done(verdict)) => {
                let trace = orders.get(order).and_then(|order| order.trace.as_deref());
                tracing::info!(order_id = %order, trace, ?verdict, "reconciled");
                report.count(verdict);
            }
            Ok(Repair::Waits) => report.waiting += 1,
            Err(error) => report.add_flow_failure(format!("order {order}"), &error),
        }
    }
    Ok(())
}

/// What was done about a holder.
enum Repair {
    Done(HolderVerdict),
    /// Its message is missing, and is not sent again yet.
    Waits,
}

async fn repair_holder(
    run: &Run<'_>,
    offer: &Offer,
    holder: &Holder,
    order: Option<&Order>,
) -> Result<Repair, FlowError> {
    let Context { store, now, .. } = run.context;
    let Holder { bucket, order: id, quantity } = holder;
    // Most holders belong to orders that wait for their payment: the order alone decides, and the claim is not read.
    let (claims, buyer) = match order {
        Some(_) => Default::default(),
        None => store.claims(&id.buyer(), &offer.sale).await?,
    };
    let claim = claims.claims.get(&offer.item);
    let verdict = holder_verdict(id, *bucket, order, claim, now);
    // If nothing names the buyer, the failed order is recorded under the buyer's key. It must be recorded in any
    // case, because the record is what makes it safe to return the units.
    let named = buyer.or_else(|| order.map(|order| order.buyer_name.clone()));
    let buyer = match named {
        Some(buyer) => buyer,
        None => Buyer::parse(id.buyer().as_str())
            .map_err(|error| StoreError::Permanent { operation: "reconcile", detail: error.to_string() })?,
    };
    let message = || OrderMessage {
        version: VERSION,
        order_id: id.clone(),
        buyer: buyer.clone(),
        sale_id: offer.sale.clone(),
        item_id: offer.item.clone(),
        quantity: *quantity,
        bucket: *bucket,
        shop_data: claim.filter(|claim| claim.order == *id).map(|claim| claim.shop_data.clone()).unwrap_or_default(),
        trace: None,
    };
    match verdict {
        HolderVerdict::Leave => {}
        HolderVerdict::SendAgain if !is_send_due(id, run.since(), now) || run.is_queue_deep().await? => {
            return Ok(Repair::Waits);
        }
        HolderVerdict::SendAgain => store.send_order(&message()).await?,
        HolderVerdict::Close => return close_overdue(run, id, order).await.map(Repair::Done),
        HolderVerdict::FinishClose => {
            if let Some(order) = order {
                finish::closed(store, order).await?;
            }
        }
        HolderVerdict::GiveBack => {
            if let Some(order) = order {
                finish::give_back(store, order).await?;
            }
        }
        HolderVerdict::Confirm => {
            if let Some(order) = order {
                finish::paid(store, order, now).await?;
            }
        }
        HolderVerdict::Fail => {
            place_order::fail(store, &message(), Reason::ClaimLost, now).await?;
        }
        HolderVerdict::Release => {
            store.release(offer, *bucket, id, *quantity).await?;
        }
    }
    Ok(Repair::Done(verdict))
}

/// Closes an order whose deadline has passed. Returns what was done instead, if the order could not be closed.
async fn close_overdue(run: &Run<'_>, id: &OrderId, order: Option<&Order>) -> Result<HolderVerdict, FlowError> {
    if !run.outages.should_ask(order) {
        return Ok(HolderVerdict::Leave);
    }
    let outcome = close::close(run.context, id, Cause::Deadline).await;
    Ok(match outcome.inspect_err(|error| run.outages.record(error))? {
        CloseOutcome::Closed(_) => HolderVerdict::Close,
        // Its provider reports a payment, and the order is settled by it.
        CloseOutcome::Paid { .. } => HolderVerdict::Confirm,
        // Another request was first, or the provider does not close the payment yet: the next run looks again.
        CloseOutcome::AlreadyClosed(_)
        | CloseOutcome::NotDue(_)
        | CloseOutcome::NotBefore(..)
        | CloseOutcome::Refused(_)
        | CloseOutcome::Unknown => HolderVerdict::Leave,
    })
}
