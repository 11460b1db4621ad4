//! Money arrived: a notice reports it, or a payment that was to be closed turns out to be made.
//!
//! The order decides what the money is for ([`domain::payment::money_verdict`]). Each decision is one conditional
//! write, so money that is reported twice, out of order, or at the same moment as a timeout or a cancel is
//! decided once.
//!
//! | the order | step | stopped after it | repaired by |
//! |---|---|---|---|
//! | waits | PAID (spends frozen points) | no pay log, units not sold | the notice again or reconcile, by the holder |
//! | | pay log | units not sold | the same |
//! | | units sold | the schedule of its deadline | it fires without effect |
//! | | the schedule is deleted | nothing left | |
//! | is closed | money into the pay log, marked open | the order is still closed | reconcile, led by that mark |
//! | | the remaining steps of the close | the same | the same |
//! | | PAID, units sold, claim, mark removed: one transaction | nothing left | |
//! | does not need it | money into the pay log, marked open | no refund yet | reconcile, led by that mark |
//! | | its refund is decided, mark removed: one transaction | money not back | reconcile, led by the refund's mark |
//! | | the refund: see [`crate::pay::refund`] | | |

use domain::availability::{Page, pages};
use domain::bucket::BucketNo;
use domain::order::{Order, Status};
use domain::payment::{Arrived, MoneyVerdict, OpenPayment, PaidWith, PayEntry, money_verdict};
use store::{OrderChange, Revival, Store, StoreError};

use crate::error::FlowError;
use crate::pay::close_at_provider::close_leftover_at_provider;
use crate::pay::refund::{self, Progress};
use crate::{CAS_ATTEMPTS, Context, finish};

/// Pages that are searched for open buckets to revive an order in: 4,096 buckets.
const PAGES_SEARCHED: u32 = 8;
/// Buckets that are read to find units, and how many of those that have some are tried.
const BUCKETS_READ: usize = 100;
const BUCKETS_TRIED: usize = 8;

/// What the money was for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settled {
    /// This run paid the order with it.
    Paid(Box<Order>),
    /// It had paid for the order before. The remaining steps, if any, are done now.
    AlreadyPaid(Box<Order>),
    /// The order was closed; it lives again and is paid.
    Revived(Box<Order>),
    /// It goes back, or is back; `newly_refunded` if this run finished the refund.
    Returned { order: Box<Order>, newly_refunded: bool },
    /// It is not what was asked for. Nothing changed: a person has to look at it.
    Wrong(Box<Order>),
    /// There is no such order.
    Unknown,
}

/// Settles money that arrived.
pub async fn settle(context: Context<'_>, arrived: &Arrived) -> Result<Settled, FlowError> {
    let mut leftovers = Vec::new();
    let settled = settle_one(context, arrived, &mut leftovers).await;
    if let Ok(Settled::Paid(order) | Settled::AlreadyPaid(order)) = &settled {
        finish::drop_deadline(context.store, order, context.now).await;
    }
    // Only this run knows of these payments: they are closed even if the order's last steps failed.
    while let Some(leftover) = leftovers.pop() {
        if let Err(error) = close_leftover(context, &leftover, &mut leftovers).await {
            let order_id = &leftover.order.id;
            tracing::warn!(%order_id, %error, "another open payment of a paid order was not closed");
        }
    }
    settled
}

/// A payment that was open when another attempt paid its order.
struct Leftover {
    order: Order,
    payment: OpenPayment,
}

/// Closes a payment that its order no longer needs, so that the buyer does not pay twice. If the buyer has paid
/// it already, that money is settled too: it goes back.
async fn close_leftover(
    context: Context<'_>,
    leftover: &Leftover,
    leftovers: &mut Vec<Leftover>,
) -> Result<(), FlowError> {
    if let Some(arrived) = close_leftover_at_provider(context, &leftover.order, &leftover.payment).await? {
        settle_one(context, &arrived, leftovers).await?;
    }
    Ok(())
}

/// Settles one transaction. Open payments that the order no longer needs are added to `leftovers`.
async fn settle_one(
    context: Context<'_>,
    arrived: &Arrived,
    leftovers: &mut Vec<Leftover>,
) -> Result<Settled, FlowError> {
    let Context { store, now, .. } = context;
    for _ in 0..CAS_ATTEMPTS {
        let Some(order) = store.order(&arrived.order).await?.map(Box::new) else { return Ok(Settled::Unknown) };
        let with = paid_with(&order, arrived);
        let settled = match money_verdict(&order, arrived) {
            MoneyVerdict::Keep => keep(context, &order, &with, leftovers).await?,
            MoneyVerdict::Kept => {
                // Once a refund has begun nothing is left to finish here: the refund takes care of the units.
                if order.status == Status::Paid {
                    finish::paid(store, &order, now).await?;
                }
                store.close_pay_entry(&order.id, &with).await?;
                Some(Settled::AlreadyPaid(order))
            }
            MoneyVerdict::Revive => revive(context, &order, &with).await?,
            MoneyVerdict::Return => return_money(context, &order, &with).await?,
            MoneyVerdict::Returned => {
                let newly_refunded = resume_return(context, &order, &with).await?;
                Some(Settled::Returned { order, newly_refunded })
            }
            MoneyVerdict::Wrong => Some(Settled::Wrong(order)),
        };
        if let Some(settled) = settled {
            return Ok(settled);
        }
    }
    Err(FlowError::Busy)
}

fn paid_with(order: &Order, arrived: &Arrived) -> PaidWith {
    let points = order.attempts.get(usize::from(arrived.attempt)).map_or(0, |attempt| attempt.points);
    PaidWith {
        method: arrived.method,
        attempt: arrived.attempt,
        transaction: arrived.transaction.clone(),
        amount: arrived.amount,
        points,
    }
}

/// Money that goes back takes no points with it: they thawed when its attempt was closed.
fn without_points(with: &PaidWith) -> PaidWith {
    PaidWith { points: 0, ..with.clone() }
}

/// The order waits: the money pays for it. `None`: the order changed in between.
async fn keep(
    context: Context<'_>,
    order: &Order,
    with: &PaidWith,
    leftovers: &mut Vec<Leftover>,
) -> Result<Option<Settled>, FlowError> {
    let Context { store, now, .. } = context;
    let OrderChange::Made(paid) = store.pay(order, with, now).await? else { return Ok(None) };
    let other = order.payment.as_ref().filter(|payment| payment.attempt != with.attempt);
    leftovers.extend(other.map(|payment| Leftover { order: order.clone(), payment: payment.clone() }));
    finish::paid(store, &paid, now).await?;
    Ok(Some(Settled::Paid(paid)))
}

/// The order is closed: it is revived if units can be had for it, else the money goes back. `None`: the order
/// changed in between.
async fn revive(context: Context<'_>, order: &Order, with: &PaidWith) -> Result<Option<Settled>, FlowError> {
    let Context { store, now, .. } = context;
    store.log_payment(&PayEntry::new(order, with, now), true).await?;
    // The remaining steps of the close come first: done later, they would take the units from the revived order.
    finish::closed(store, order).await?;
    for bucket in buckets_with_units(store, order).await? {
        match store.revive(order, bucket, with, now).await? {
            Revival::Revived => {
                let revived = store.order(&order.id).await?.map(Box::new);
                return Ok(revived.map(Settled::Revived));
            }
            Revival::Full => {}
            Revival::Claimed => break,
            Revival::Changed => return Ok(None),
        }
    }
    return_money(context, order, with).await
}

/// Buckets that seem to have units for an order, its previous one first.
async fn buckets_with_units(store: &Store, order: &Order) -> Result<Vec<BucketNo>, StoreError> {
    let offer = order.offer();
    let Some(item) = store.sale(&offer.sale).await?.and_then(|mut sale| sale.items.remove(&offer.item)) else {
        return Ok(Vec::new());
    };
    let buckets = item.layout.buckets();
    let mut candidates = vec![order.bucket];
    for number in 0..pages(buckets).min(PAGES_SEARCHED) {
        let page = store.pages(&offer, &[number]).await?.pop().map(|(_, page)| page);
        let open = page.unwrap_or_else(|| Page::assume_open(number, buckets)).open;
        candidates.extend(open.into_iter().filter(|bucket| *bucket != order.bucket));
        if candidates.len() >= BUCKETS_READ {
            break;
        }
    }
    candidates.truncate(BUCKETS_READ);
    let read = store.buckets(&offer, candidates.iter().copied()).await?;
    let has = |bucket: &BucketNo| read.iter().any(|(number, read)| number == bucket && read.free >= order.quantity);
    Ok(candidates.into_iter().filter(has).take(BUCKETS_TRIED).collect())
}

/// The order does not need the money: it goes back. `None`: the order changed in between.
async fn return_money(context: Context<'_>, order: &Order, with: &PaidWith) -> Result<Option<Settled>, FlowError> {
    let Context { store, now, .. } = context;
    let with = &without_points(with);
    let entry = PayEntry::new(order, with, now);
    store.log_payment(&entry, true).await?;
    if !store.return_money(order, with, now).await? {
        return Ok(None);
    }
    let newly_refunded = resume_return(context, order, with).await?;
    let order = store.order(&order.id).await?.map(Box::new);
    Ok(order.map(|order| Settled::Returned { order, newly_refunded }))
}

/// Asks the provider for a refund that is decided and logged. If it does not take the refund now, reconcile asks
/// again. Returns whether this run finished the refund.
async fn resume_return(context: Context<'_>, order: &Order, with: &PaidWith) -> Result<bool, StoreError> {
    let Some(entry) = context.store.refund_entry(&order.id, with.method, &with.transaction).await? else {
        return Ok(false);
    };
    match refund::resume(context, &entry).await {
        Ok(progress) => Ok(progress == Progress::Done),
        Err(error) => {
            tracing::warn!(order_id = %order.id, transaction = %with.transaction, %error, "money is not back yet");
            Ok(false)
        }
    }
}
