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
//! often it is asked. A number that failed at the provider is never used again: the next attempt has its own. Money
//! cannot go back twice, because no provider refunds more than was paid.
//!
//! | the provider says | the entry | next |
//! |---|---|---|
//! | refunded | closed | nothing, unless the refund fails later: then the entry is opened again |
//! | working on it | `tries + 1` | asked how it stands, not for another refund |
//! | failed | `rounds + 1` | asked again, under a new number |
//! | stuck: a person must complete it there | `refused` | asked how it stands |
//! | no, and all of the money went back in its console | closed | nothing |
//! | no, and a part went back in its console | `elsewhere` | asked for the rest |
//! | no | `refused` | an operator resolves it ([`crate::pay::resolve`]); asked again every hour |

use domain::ids::{OrderId, PaymentNumber};
use domain::order::{Event, Order, Status, Step, step};
use domain::payment::{Matter, MatterKind, Method, RefundCause, RefundEntry};
use payments::{PaymentRef, PaymentStatus, ProviderError, ProviderKind, RefundNumber, RefundRequest, Refunding};
use providers::Trouble;

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
    /// The sale's time for refunds is over: only an operator can refund the order.
    TooLate(Box<Order>),
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

/// Who asks for a refund.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asker {
    /// The buyer, who can until the time that the sale sets.
    Buyer,
    /// An operator, or the provider's own report that the money went back.
    Operator,
}

/// Refunds a paid order.
pub async fn refund(context: Context<'_>, id: &OrderId, asker: Asker) -> Result<Refund, FlowError> {
    let Context { store, now, .. } = context;
    for _ in 0..CAS_ATTEMPTS {
        let Some(order) = store.order(id).await? else { return Ok(Refund::Unknown) };
        let Some(with) = order.paid.clone() else { return Ok(Refund::Refused(Box::new(order))) };
        match step(order.status, Event::StartRefund) {
            Step::Refuse => return Ok(Refund::Refused(Box::new(order))),
            // A refund that has begun goes on; only a new one is too late.
            Step::Become(_) if asker == Asker::Buyer && !is_in_time(context, &order).await? => {
                return Ok(Refund::TooLate(Box::new(order)));
            }
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

/// Whether the sale lets the buyer refund the order now. A sale that no longer exists does not.
async fn is_in_time(context: Context<'_>, order: &Order) -> Result<bool, FlowError> {
    let found = context.store.sale(&order.sale).await?;
    Ok(found.is_some_and(|found| context.now < found.sale.refunds_until()))
}

/// Resumes a refund that was decided.
pub async fn resume(context: Context<'_>, entry: &RefundEntry) -> Result<Progress, FlowError> {
    let Context { store, now, .. } = context;
    if entry.done_at.is_some() {
        return Ok(Progress::AlreadyDone);
    }
    if entry.with.method != Method::Points && entry.remaining() > 0 {
        let answer = match ask_provider(context, entry).await {
            Err(error) => look_at_payment(context, entry, error).await,
            answer => answer.map(|refunding| (refunding, entry.elsewhere)),
        };
        if let Some(next) = after(entry, &answer) {
            store.record_refund_attempt(&next, now).await?;
            if next.rounds > entry.rounds || (next.refused && !entry.refused) {
                let (order_id, method, transaction) = (&entry.order, entry.with.method, &entry.with.transaction);
                let why = next.trouble.as_deref().unwrap_or_default();
                tracing::error!(%order_id, %method, transaction, why, "a refund failed at its provider");
            }
            return answer.map(|_| Progress::Open);
        }
    }
    if entry.cause == RefundCause::Order {
        finish::refunded(store, entry, now).await?;
    }
    store.close_refund_entry(entry, now).await?;
    Ok(Progress::Done)
}

/// The entry after an answer that does not end the refund. `None`: the refund is done.
fn after(entry: &RefundEntry, answer: &Result<(Refunding, i64), FlowError>) -> Option<RefundEntry> {
    let (trouble, rounds, elsewhere, refused) = match answer {
        Ok((Refunding::Refunded, _)) => return None,
        Ok((Refunding::Processing | Refunding::Missing, elsewhere)) => {
            ("the provider is working on it".to_owned(), 0, *elsewhere, false)
        }
        Ok((Refunding::Failed(why), elsewhere)) => (why.clone(), 1, *elsewhere, false),
        Ok((Refunding::Stuck(why), elsewhere)) => (why.clone(), 0, *elsewhere, true),
        Err(error) => (error.to_string(), 0, entry.elsewhere, !error.may_pass()),
    };
    Some(RefundEntry {
        trouble: Some(trouble.chars().take(MAX_EXPLANATION).collect()),
        rounds: entry.rounds.saturating_add(rounds),
        elsewhere,
        refused,
        ..entry.clone()
    })
}

/// Asks the provider for the refund. If it was asked before, it is first asked how that refund stands.
async fn ask_provider(context: Context<'_>, entry: &RefundEntry) -> Result<Refunding, FlowError> {
    let Context { providers, now, .. } = context;
    let method = entry.with.method;
    let failed = |trouble| FlowError::Provider { method, trouble };
    let (kind, request) = request(entry)?;
    if entry.tries > 0 {
        match providers.query_refund(kind, &request, now).await {
            // There is no such refund yet: ask for it.
            Ok(Refunding::Missing) => {}
            // A failed refund is never asked for again under its number: the provider would repeat its old answer.
            Ok(known) => return Ok(known),
            // A provider that does not answer is not asked a second time: other refunds wait for their turn.
            Err(trouble) if trouble.may_pass() => return Err(failed(trouble)),
            Err(_) => {}
        }
    }
    providers.refund(kind, &request, now).await.map_err(failed)
}

/// The provider refused. An operator may have refunded the payment in the provider's console: then all of the money is
/// back, or only the rest has to be asked for. Returns what the refund came to, and what went back elsewhere.
async fn look_at_payment(
    context: Context<'_>,
    entry: &RefundEntry,
    error: FlowError,
) -> Result<(Refunding, i64), FlowError> {
    if !matches!(error, FlowError::Provider { trouble: Trouble::Provider(ProviderError::Refused { .. }), .. }) {
        return Err(error);
    }
    match refunded_at_provider(context, entry).await {
        Ok(Some(refunded)) if refunded >= entry.with.amount => Ok((Refunding::Refunded, refunded)),
        Ok(Some(refunded)) if refunded > entry.elsewhere => Ok((Refunding::Missing, refunded)),
        Ok(_) | Err(_) => Err(error),
    }
}

/// How much of the payment went back, as far as the provider tells it.
async fn refunded_at_provider(context: Context<'_>, entry: &RefundEntry) -> Result<Option<i64>, FlowError> {
    let (kind, request) = request(entry)?;
    let reference = PaymentRef { number: request.number, payment: None, transaction: Some(request.transaction) };
    let status = context.providers.query(kind, &reference, context.now).await;
    Ok(match status.map_err(|trouble| FlowError::Provider { method: entry.with.method, trouble })? {
        PaymentStatus::Refunded(paid, refunded) if paid.transaction == entry.with.transaction => refunded,
        PaymentStatus::Paid(paid) if paid.transaction == entry.with.transaction => Some(0),
        _ => None,
    })
}

/// What a provider's report that a refund failed came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailedRefund {
    /// It had been done, and is open again.
    Reopened,
    /// It was open, and will be asked for under a new number.
    Recorded,
    /// It was made in the provider's console: what the order has recorded of it is corrected.
    Corrected,
    /// It did not fail, or that is known.
    Nothing,
}

/// A provider reports that a refund failed, and says the same when it is asked. A refund that had been done is opened
/// again, and the money is sent once more: it is still the buyer's. The order stays REFUNDED, because its units may be
/// sold to somebody else.
pub async fn refund_failed(context: Context<'_>, entry: &RefundEntry) -> Result<FailedRefund, FlowError> {
    let Context { store, providers, now } = context;
    if entry.with.method == Method::Points {
        return Ok(FailedRefund::Nothing);
    }
    let (kind, request) = request(entry)?;
    let asked = providers.query_refund(kind, &request, now).await;
    let answer = asked.map_err(|trouble| FlowError::Provider { method: entry.with.method, trouble })?;
    let (why, elsewhere) = match answer {
        Refunding::Processing => return Ok(FailedRefund::Nothing),
        // Nothing went back elsewhere: this refund is asked for as always.
        Refunding::Refunded | Refunding::Missing if entry.done_at.is_none() && entry.elsewhere == 0 => {
            return Ok(FailedRefund::Nothing);
        }
        // What went back elsewhere may have failed. Then less than the payment is back.
        Refunding::Refunded | Refunding::Missing => {
            let is_all = entry.done_at.is_some() || answer == Refunding::Refunded;
            let should_be_back = if is_all { entry.with.amount } else { entry.elsewhere };
            match refunded_at_provider(context, entry).await? {
                Some(refunded) if refunded < should_be_back => ("a refund made elsewhere failed".to_owned(), refunded),
                _ => return Ok(FailedRefund::Nothing),
            }
        }
        Refunding::Failed(why) | Refunding::Stuck(why) => (why, 0),
    };
    let trouble: String = format!("it failed after it was taken: {why}").chars().take(MAX_EXPLANATION).collect();
    let rounds = entry.rounds.saturating_add(1);
    let next = RefundEntry { trouble: Some(trouble), rounds, elsewhere, refused: false, ..entry.clone() };
    if entry.done_at.is_none() {
        store.record_refund_attempt(&next, now).await?;
        return Ok(FailedRefund::Recorded);
    }
    // First the matter: once the entry is open again, a repeated notice finds nothing to do.
    let matter = Matter {
        order: entry.order.clone(),
        kind: MatterKind::LateRefundFailure,
        method: entry.with.method,
        transaction: entry.with.transaction.clone(),
        amount: entry.with.amount,
        currency: entry.currency.clone(),
        words: next.trouble.clone().unwrap_or_default(),
        at: now,
    };
    store.log_matter(&matter).await?;
    Ok(match store.reopen_refund_entry(&next, now).await? {
        true => FailedRefund::Reopened,
        false => FailedRefund::Nothing,
    })
}

fn request(entry: &RefundEntry) -> Result<(ProviderKind, RefundRequest), FlowError> {
    let method = entry.with.method;
    let number = PaymentNumber::new(entry.order.clone(), entry.with.attempt);
    let (Some(kind), Some(number)) = (ProviderKind::of(method), number) else {
        return Err(FlowError::Unclear { method, what: "the refund log does not name a payment".to_owned() });
    };
    let request = RefundRequest {
        refund: RefundNumber::of(&number, &entry.with.transaction).after(entry.rounds),
        attempt: entry.tries,
        number,
        transaction: entry.with.transaction.clone(),
        amount: entry.remaining(),
        total: entry.with.amount,
        currency: entry.currency.clone(),
        reason: match entry.cause {
            RefundCause::Order => "refund of your order".to_owned(),
            RefundCause::NotNeeded => "the order was no longer available".to_owned(),
        },
        notify_url: None,
    };
    Ok((kind, request))
}
