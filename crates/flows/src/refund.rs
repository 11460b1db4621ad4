//! Money goes back: that of a paid order, whose units return; or money that no order needs.
//!
//! | stopped after | what is left | who repairs it |
//! |---|---|---|
//! | the order is REFUNDING and the refund is in the log, marked open: one transaction | money not back | reconcile, led by that mark |
//! | the provider has sent the money back | the order is still REFUNDING | the same; asking again with the same number moves nothing |
//! | the order is REFUNDED, and its points are back: one transaction | claim and units | the same |
//! | the claim is dropped | units; the buyer may buy again | the same |
//! | the units are on sale again | the mark | the same |
//! | the mark is removed | nothing undone | |
//!
//! The refund's number is fixed by the payment and its transaction: the provider knows it again however often it is asked.

use domain::Timestamp;
use domain::ids::{OrderId, PaymentNumber};
use domain::order::{Event, Order, Status, Step, step};
use domain::payment::{Method, RefundCause, RefundEntry};
use payments::{Kind, RefundNumber, RefundRequest, Refunding};
use providers::Providers;
use store::{OrderChange, Store, StoreError};

use crate::settle;
use crate::undone::FlowError;

/// How often the order is looked at again because it changed meanwhile.
const ROUNDS: u32 = 5;
/// What the provider said is kept so long.
const TROUBLE_KEPT: usize = 200;

/// What became of asking for a refund.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refund {
    /// The money is back.
    Done(Box<Order>),
    /// It is on its way: reconcile sees to it.
    UnderWay(Box<Order>),
    /// The order is not one that can be refunded.
    Refused(Box<Order>),
    /// There is no such order.
    Unknown,
}

/// Refunds a paid order.
pub async fn refund(store: &Store, providers: &Providers, id: &OrderId, now: Timestamp) -> Result<Refund, FlowError> {
    for _ in 0..ROUNDS {
        let Some(order) = store.order(id).await? else { return Ok(Refund::Unknown) };
        let Some(with) = order.paid.clone() else { return Ok(Refund::Refused(Box::new(order))) };
        match step(order.status, Event::StartRefund) {
            Step::Refuse => return Ok(Refund::Refused(Box::new(order))),
            Step::Become(_) if !store.start_refund(&order, &with, now).await? => continue,
            Step::Become(_) | Step::Already => {}
        }
        let entry = store.refund_entry(id, with.method, &with.transaction).await?;
        if let Some(entry) = entry.filter(|entry| entry.done_at.is_none())
            && let Err(error) = go_on(store, providers, &entry, now).await
        {
            tracing::warn!(order_id = %id, %error, "a refund is not done yet");
        }
        let Some(order) = store.order(id).await?.map(Box::new) else { return Ok(Refund::Unknown) };
        return Ok(if order.status == Status::Refunded { Refund::Done(order) } else { Refund::UnderWay(order) });
    }
    Err(FlowError::Busy)
}

/// Goes on with a refund that was decided. True: it is done.
pub async fn go_on(
    store: &Store,
    providers: &Providers,
    entry: &RefundEntry,
    now: Timestamp,
) -> Result<bool, FlowError> {
    if entry.done_at.is_some() {
        return Ok(true);
    }
    if entry.with.method != Method::Points {
        let said = ask(providers, entry, now).await;
        let trouble = match &said {
            Ok(Refunding::Refunded) => None,
            Ok(Refunding::Processing) => Some("the provider is working on it".to_owned()),
            Ok(Refunding::Failed(why)) => {
                let (order_id, method, transaction) = (&entry.order, entry.with.method, &entry.with.transaction);
                tracing::error!(
                    %order_id, %method, transaction, why,
                    "a refund failed at its provider: make it there by hand"
                );
                Some(why.clone())
            }
            Err(error) => Some(error.to_string()),
        };
        if let Some(trouble) = trouble {
            let short: String = trouble.chars().take(TROUBLE_KEPT).collect();
            store.refund_tried(entry, &short, now).await?;
            return said.map(|_| false);
        }
    }
    if entry.cause == RefundCause::Order {
        take_back(store, entry, now).await?;
    }
    store.close_refund_entry(entry, now).await?;
    Ok(true)
}

/// What follows from a paid order's money being back.
async fn take_back(store: &Store, entry: &RefundEntry, now: Timestamp) -> Result<(), StoreError> {
    let order = match store.finish_refund(&entry.order, entry.with.points, now).await? {
        OrderChange::Made(order) | OrderChange::Refused(Some(order)) => order,
        OrderChange::Refused(None) => return Ok(()),
    };
    let offer = order.offer();
    store.drop_refunded_claim(&offer, &order.id).await?;
    // What the settling has left undone is done first: the pay log, and the units counted as sold. A confirm that comes late then finds
    // nothing, and reconcile could not find it any more: the holder that leads there is gone.
    settle::finish(store, &order, now).await?;
    store.take_back(&offer, order.bucket, &order.id, order.quantity).await?;
    Ok(())
}

/// Asks the provider: whether it is done, if it was asked before; else, or if it knows of none, to do it.
async fn ask(providers: &Providers, entry: &RefundEntry, now: Timestamp) -> Result<Refunding, FlowError> {
    let method = entry.with.method;
    let failed = |trouble| FlowError::Provider { method, trouble };
    let (Some(kind), Some(request)) = (Kind::of(method), request(entry)) else {
        return Err(FlowError::Unclear { method, what: "the refund log does not name a payment".to_owned() });
    };
    if entry.tries > 0 {
        match providers.query_refund(kind, &request, now).await {
            Ok(Refunding::Refunded) => return Ok(Refunding::Refunded),
            // A provider that does not answer is not asked twice: others wait for their turn.
            Err(trouble) if trouble.may_pass() => return Err(failed(trouble)),
            Ok(_) | Err(_) => {}
        }
    }
    providers.refund(kind, &request, now).await.map_err(failed)
}

fn request(entry: &RefundEntry) -> Option<RefundRequest> {
    let number = PaymentNumber::new(entry.order.clone(), entry.with.attempt)?;
    Some(RefundRequest {
        refund: RefundNumber::of(&number, &entry.with.transaction),
        number,
        transaction: entry.with.transaction.clone(),
        amount: entry.with.amount,
        total: entry.with.amount,
        currency: entry.currency.clone(),
        reason: match entry.cause {
            RefundCause::Order => "refund of your order".to_owned(),
            RefundCause::NotNeeded => "the order could not be had any more".to_owned(),
        },
        notify_url: None,
    })
}
