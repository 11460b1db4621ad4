//! Money goes back: that of a paid order, whose units return; or money that no order needs.
//!
//! | stopped after | left behind | repaired by |
//! |---|---|---|
//! | the order is REFUNDING, its refund logged: one transaction | money not back | reconcile, led by that mark |
//! | the provider has sent the money back | the order is still REFUNDING | the same; asking again moves no money |
//! | the order is REFUNDED, and its points are back: one transaction | claim and units | the same |
//! | the claim is dropped | units; the buyer may buy again | the same |
//! | the units are on sale again | the mark | the same |
//! | the mark is removed | nothing | |
//!
//! The refund's number is derived from the payment and its transaction, so the provider recognises it however
//! often it is asked.

use domain::ids::{OrderId, PaymentNumber};
use domain::order::{Event, Order, Status, Step, step};
use domain::payment::{Method, RefundCause, RefundEntry};
use payments::{ProviderKind, RefundNumber, RefundRequest, Refunding};

use crate::error::FlowError;
use crate::{CAS_ATTEMPTS, Context, finish};

/// Characters of the provider's explanation that are kept in the refund log.
const MAX_EXPLANATION: usize = 200;

/// How a request for a refund ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refund {
    /// The money is back; `newly` if this run refunded the order.
    Done { order: Box<Order>, newly: bool },
    /// The refund is in progress: reconcile resumes it.
    UnderWay(Box<Order>),
    /// The order is not one that can be refunded.
    Refused(Box<Order>),
    /// There is no such order.
    Unknown,
}

/// How far a refund has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// This run finished it.
    Done,
    /// It was finished before.
    AlreadyDone,
    /// The provider is still working on it, or failed.
    Open,
}

/// Refunds a paid order.
pub async fn refund(context: Context<'_>, id: &OrderId) -> Result<Refund, FlowError> {
    let Context { store, now, .. } = context;
    for _ in 0..CAS_ATTEMPTS {
        let Some(order) = store.order(id).await? else { return Ok(Refund::Unknown) };
        let Some(with) = order.paid.clone() else { return Ok(Refund::Refused(Box::new(order))) };
        match step(order.status, Event::StartRefund) {
            Step::Refuse => return Ok(Refund::Refused(Box::new(order))),
            Step::Become(_) if !store.start_refund(&order, &with, now).await? => continue,
            Step::Become(_) | Step::Already => {}
        }
        let entry = store.refund_entry(id, with.method, &with.transaction).await?;
        if let Some(entry) = entry.filter(|entry| entry.done_at.is_none())
            && let Err(error) = resume(context, &entry).await
        {
            tracing::warn!(order_id = %id, %error, "a refund is not done yet");
        }
        let Some(order) = store.order(id).await?.map(Box::new) else { return Ok(Refund::Unknown) };
        return Ok(match order.status {
            Status::Refunded => Refund::Done { newly: context.is_this_run(order.refunded_at), order },
            _ => Refund::UnderWay(order),
        });
    }
    Err(FlowError::Busy)
}

/// Resumes a refund that was decided.
pub async fn resume(context: Context<'_>, entry: &RefundEntry) -> Result<Progress, FlowError> {
    let Context { store, now, .. } = context;
    if entry.done_at.is_some() {
        return Ok(Progress::AlreadyDone);
    }
    if entry.with.method != Method::Points {
        let answer = ask_provider(context, entry).await;
        let trouble = match &answer {
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
            let short: String = trouble.chars().take(MAX_EXPLANATION).collect();
            store.record_refund_attempt(entry, &short, now).await?;
            return answer.map(|_| Progress::Open);
        }
    }
    if entry.cause == RefundCause::Order {
        finish::refunded(store, entry, now).await?;
    }
    store.close_refund_entry(entry, now).await?;
    Ok(Progress::Done)
}

/// Asks the provider for the refund. If it was asked before, it is first asked whether the refund is done.
async fn ask_provider(context: Context<'_>, entry: &RefundEntry) -> Result<Refunding, FlowError> {
    let Context { providers, now, .. } = context;
    let method = entry.with.method;
    let failed = |trouble| FlowError::Provider { method, trouble };
    let (Some(kind), Some(request)) = (ProviderKind::of(method), request(entry)) else {
        return Err(FlowError::Unclear { method, what: "the refund log does not name a payment".to_owned() });
    };
    if entry.tries > 0 {
        match providers.query_refund(kind, &request, now).await {
            Ok(Refunding::Refunded) => return Ok(Refunding::Refunded),
            // A provider that does not answer is not asked a second time: other refunds wait for their turn.
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
            RefundCause::NotNeeded => "the order was no longer available".to_owned(),
        },
        notify_url: None,
    })
}
