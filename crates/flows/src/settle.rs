//! Money arrived: by a notice, or because a payment that was to be closed turned out to be made.
//!
//! The order decides what the money is for ([`domain::payment::verdict`]), each time by a condition, so that whatever arrives twice, out
//! of order, or at the same moment as a timeout or a cancel is decided once.
//!
//! | the order | what happens | stopped after | who repairs it |
//! |---|---|---|---|
//! | waits | PAID (frozen points are spent with it) | | the notice comes again; reconcile, led by the holder |
//! | | pay log | | the same |
//! | | units sold | nothing undone | |
//! | is closed | money into the pay log, marked open | | reconcile, led by that mark |
//! | | what the close left undone is finished | | the same |
//! | | PAID, units sold, claim, mark removed: one transaction | nothing undone | |
//! | has no use for it | money into the pay log, marked open | | reconcile, led by that mark |
//! | | its refund is decided, mark removed: one transaction | | reconcile, led by the refund's own mark |
//! | | the refund: see [`crate::refund`] | | |

use domain::Timestamp;
use domain::availability::{Page, pages};
use domain::bucket::BucketNo;
use domain::order::{Order, Status};
use domain::payment::{Arrived, MoneyVerdict, OpenPayment, PaidWith, PayEntry, verdict};
use futures::future::BoxFuture;
use providers::Providers;
use store::{OrderChange, Revival, Store, StoreError};

use crate::close;
use crate::close_at_provider::close_leftover_at_provider;
use crate::refund;
use crate::undone::FlowError;

/// How often the order is looked at again because it changed meanwhile.
const ROUNDS: u32 = 5;
/// Pages of open buckets that are looked at for a unit: 4,096 buckets.
const PAGES_LOOKED_AT: u32 = 8;
/// Buckets that are read for a unit, and of those that have one, tried.
const BUCKETS_READ: usize = 100;
const BUCKETS_TRIED: usize = 8;

/// What became of the money.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settled {
    /// It pays for the order, since now.
    Paid(Box<Order>),
    /// It had paid for the order; whatever was left undone is done now.
    Before(Box<Order>),
    /// The order had been closed; it lives again, and is paid.
    Revived(Box<Order>),
    /// It goes back, or has gone back.
    Returned(Box<Order>),
    /// It is not what was asked for: nothing changed. For a person.
    Wrong(Box<Order>),
    /// There is no such order.
    Unknown,
}

/// Settles money that arrived.
pub fn settle<'a>(
    store: &'a Store,
    providers: &'a Providers,
    arrived: &'a Arrived,
    now: Timestamp,
) -> BoxFuture<'a, Result<Settled, FlowError>> {
    Box::pin(async move {
        for _ in 0..ROUNDS {
            let Some(order) = store.order(&arrived.order).await?.map(Box::new) else { return Ok(Settled::Unknown) };
            let with = paid_with(&order, arrived);
            let settled = match verdict(&order, arrived) {
                MoneyVerdict::Keep => keep(store, providers, &order, &with, now).await?,
                MoneyVerdict::Kept => {
                    // Once it is on its way back there is nothing left to finish: the refund sees to the units.
                    if order.status == Status::Paid {
                        finish(store, &order, now).await?;
                    }
                    store.close_pay_entry(&order.id, &with).await?;
                    Some(Settled::Before(order))
                }
                MoneyVerdict::Revive => revive(store, providers, &order, &with, now).await?,
                MoneyVerdict::Return => send_back(store, providers, &order, &with, now).await?,
                MoneyVerdict::Returned => {
                    go_on_sending_back(store, providers, &order, &with, now).await?;
                    Some(Settled::Returned(order))
                }
                MoneyVerdict::Wrong => Some(Settled::Wrong(order)),
            };
            if let Some(settled) = settled {
                return Ok(settled);
            }
        }
        Err(FlowError::Busy)
    })
}

/// What follows from an order's being paid: the pay log, and its units are sold. The holder goes last: it leads reconcile here.
pub async fn finish(store: &Store, order: &Order, now: Timestamp) -> Result<(), StoreError> {
    if let Some(with) = &order.paid {
        let at = order.paid_at.unwrap_or(now);
        store.log_payment(&PayEntry::new(order, with, at), false).await?;
    }
    store.confirm(&order.offer(), order.bucket, &order.id, order.quantity).await?;
    Ok(())
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

async fn keep(
    store: &Store,
    providers: &Providers,
    order: &Order,
    with: &PaidWith,
    now: Timestamp,
) -> Result<Option<Settled>, FlowError> {
    let OrderChange::Made(paid) = store.pay(order, with, now).await? else { return Ok(None) };
    let finished = finish(store, &paid, now).await;
    // Only this run knows of the other payment, so it is not left for the next one.
    if let Some(other) = order.payment.as_ref().filter(|payment| payment.attempt != with.attempt) {
        close_other(store, providers, order, other, now).await;
    }
    finished?;
    Ok(Some(Settled::Paid(paid)))
}

/// An order that was paid by one attempt needs no other: it is closed, so that the buyer does not pay twice. If this does not work
/// and the buyer does, that money goes back by itself.
async fn close_other(store: &Store, providers: &Providers, order: &Order, other: &OpenPayment, now: Timestamp) {
    let result = match close_leftover_at_provider(providers, order, other, now).await {
        Ok(Some(arrived)) => settle(store, providers, &arrived, now).await.map(|_| ()),
        Ok(None) => Ok(()),
        Err(error) => Err(error),
    };
    if let Err(error) = result {
        tracing::warn!(order_id = %order.id, %error, "another payment of a paid order was not closed");
    }
}

async fn revive(
    store: &Store,
    providers: &Providers,
    order: &Order,
    with: &PaidWith,
    now: Timestamp,
) -> Result<Option<Settled>, FlowError> {
    store.log_payment(&PayEntry::new(order, with, now), true).await?;
    // Whatever the close has not done yet must not be done to the revived order.
    close::finish(store, order).await?;
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
    send_back(store, providers, order, with, now).await
}

/// Buckets that seem to have units for an order, its own of before first.
async fn buckets_with_units(store: &Store, order: &Order) -> Result<Vec<BucketNo>, StoreError> {
    let offer = order.offer();
    let Some(item) = store.sale(&offer.sale).await?.and_then(|mut sale| sale.items.remove(&offer.item)) else {
        return Ok(Vec::new());
    };
    let buckets = item.layout.buckets();
    let mut candidates = vec![order.bucket];
    for page in 0..pages(buckets).min(PAGES_LOOKED_AT) {
        let told = store.pages(&offer, &[page]).await?.pop().map(|(_, page)| page);
        let open = told.unwrap_or_else(|| Page::assume_open(page, buckets)).open;
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

async fn send_back(
    store: &Store,
    providers: &Providers,
    order: &Order,
    with: &PaidWith,
    now: Timestamp,
) -> Result<Option<Settled>, FlowError> {
    let with = &without_points(with);
    let entry = PayEntry::new(order, with, now);
    store.log_payment(&entry, true).await?;
    if !store.return_money(order, with, now).await? {
        return Ok(None);
    }
    go_on_sending_back(store, providers, order, with, now).await?;
    Ok(store.order(&order.id).await?.map(|order| Settled::Returned(Box::new(order))))
}

/// That the money goes back is decided and written down: if the provider does not take the refund now, reconcile asks it again.
async fn go_on_sending_back(
    store: &Store,
    providers: &Providers,
    order: &Order,
    with: &PaidWith,
    now: Timestamp,
) -> Result<(), StoreError> {
    let Some(entry) = store.refund_entry(&order.id, with.method, &with.transaction).await? else { return Ok(()) };
    if let Err(error) = refund::go_on(store, providers, &entry, now).await {
        tracing::warn!(order_id = %order.id, transaction = %with.transaction, %error, "money is not back yet");
    }
    Ok(())
}
