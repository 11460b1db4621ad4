//! Somebody refunded a payment in the provider's console, and this system hears of it.
//!
//! The provider is asked how much went back: a notice can be old, and another refund can have followed.
//!
//! | the order | all of it went back | a part went back |
//! |---|---|---|
//! | is paid with this payment | it is refunded, and its units and points return | recorded in the order |
//! | has not settled it yet | it is settled now: nothing is left to pay with | it is settled now: the rest pays |
//! | anything else | nothing changes | nothing changes |
//!
//! Such a refund can fail afterwards, days later. The provider is asked again, and what is recorded is corrected:
//!
//! | the order | then |
//! |---|---|
//! | is paid with this payment | what went back is corrected, and an operator is told |
//! | was refunded for it | its refund is opened again, as [`crate::pay::refund::refund_failed`] does |
//! | has not settled it yet | it is settled now, with what is left of it |
//!
//! Stopped anywhere, the notice comes again; each step changes nothing the second time.

use domain::ids::PaymentNumber;
use domain::order::Status;
use domain::payment::{Arrived, Matter, MatterKind, Method};
use payments::{PaymentRef, PaymentStatus, ProviderKind};

use crate::error::FlowError;
use crate::pay::refund::{Asker, FailedRefund, Refund, refund, refund_failed};
use crate::pay::settle::{Settled, settle};
use crate::{CAS_ATTEMPTS, Context};

/// What a refund that this system did not ask for came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Foreign {
    /// All of the money is back, and so the order is REFUNDED, or on the way to it.
    Refunded,
    /// A part of the money is back, which the order records. It stays paid.
    Recorded,
    /// The order is not paid with this money, or nothing of it went back.
    Nothing,
    /// The provider does not tell how much went back.
    Unclear,
}

/// Handles a refund that this system did not ask for.
pub async fn foreign_refund(
    context: Context<'_>,
    number: &PaymentNumber,
    method: Method,
    transaction: &str,
) -> Result<Foreign, FlowError> {
    let Some(kind) = ProviderKind::of(method) else { return Ok(Foreign::Nothing) };
    let reference = PaymentRef { number: number.clone(), payment: None, transaction: Some(transaction.to_owned()) };
    let status = context.providers.query(kind, &reference, context.now).await;
    let (paid, refunded) = match status.map_err(|trouble| FlowError::Provider { method, trouble })? {
        PaymentStatus::Refunded(paid, refunded) if paid.transaction == transaction => (paid, refunded),
        _ => return Ok(Foreign::Nothing),
    };
    let arrived = Arrived {
        order: number.order().clone(),
        attempt: number.attempt(),
        method,
        transaction: paid.transaction,
        amount: paid.amount,
        currency: paid.currency,
        refunded: Some(refunded.unwrap_or(paid.amount)),
    };
    for _ in 0..CAS_ATTEMPTS {
        let Some(order) = context.store.order(number.order()).await? else { return Ok(Foreign::Nothing) };
        let pays = order.paid.as_ref().filter(|with| with.method == method && with.transaction == transaction);
        let (Some(with), Status::Paid) = (pays, order.status) else {
            let is_decided = pays.is_some() || order.returned.contains(transaction);
            // The notice of the payment itself has not been settled yet: this one tells more.
            if !is_decided && matches!(settle(context, &arrived).await?, Settled::AlreadyPaid(_)) {
                continue;
            }
            return Ok(Foreign::Nothing);
        };
        return match refunded {
            None => Ok(Foreign::Unclear),
            Some(refunded) if refunded >= with.amount => match refund(context, &order.id, Asker::Operator).await? {
                Refund::Done { .. } | Refund::UnderWay(_) => Ok(Foreign::Refunded),
                Refund::Refused(_) | Refund::TooLate(_) | Refund::Unknown => Ok(Foreign::Nothing),
            },
            Some(refunded) => {
                context.store.record_foreign_refund(&order.id, transaction, refunded).await?;
                Ok(Foreign::Recorded)
            }
        };
    }
    Err(FlowError::Busy)
}

/// A provider reports that a refund failed that this system did not ask for.
pub async fn foreign_refund_failed(
    context: Context<'_>,
    number: &PaymentNumber,
    method: Method,
    transaction: &str,
) -> Result<FailedRefund, FlowError> {
    let Some(kind) = ProviderKind::of(method) else { return Ok(FailedRefund::Nothing) };
    let mut failed = FailedRefund::Nothing;
    for _ in 0..CAS_ATTEMPTS {
        // A refund of the order that began in the meantime counted on what went back elsewhere.
        if let Some(entry) = context.store.refund_entry(number.order(), method, transaction).await? {
            let of_entry = refund_failed(context, &entry).await?;
            return Ok(if of_entry == FailedRefund::Nothing { failed } else { of_entry });
        }
        let Some(order) = context.store.order(number.order()).await? else { return Ok(failed) };
        // The order is read first: what is recorded then is replaced by what the provider says afterwards.
        let reference = PaymentRef { number: number.clone(), payment: None, transaction: Some(transaction.to_owned()) };
        let status = context.providers.query(kind, &reference, context.now).await;
        let (paid, refunded) = match status.map_err(|trouble| FlowError::Provider { method, trouble })? {
            PaymentStatus::Refunded(paid, Some(refunded)) if paid.transaction == transaction => (paid, refunded),
            PaymentStatus::Paid(paid) if paid.transaction == transaction => (paid, 0),
            _ => return Ok(failed),
        };
        let Some(with) = order.paid.as_ref().filter(|with| with.method == method && with.transaction == transaction)
        else {
            let arrived = Arrived {
                order: order.id.clone(),
                attempt: number.attempt(),
                method,
                transaction: paid.transaction,
                amount: paid.amount,
                currency: paid.currency,
                refunded: Some(refunded),
            };
            settle(context, &arrived).await?;
            return Ok(failed);
        };
        if with.refunded <= refunded {
            return Ok(failed);
        }
        // First the matter: once the figure is corrected, a repeated notice finds nothing to do.
        let matter = Matter {
            order: order.id.clone(),
            kind: MatterKind::LateRefundFailure,
            method,
            transaction: transaction.to_owned(),
            amount: with.refunded.saturating_sub(refunded),
            currency: paid.currency,
            words: "a refund made at the provider, not by this system, failed afterwards".to_owned(),
            at: context.now,
        };
        context.store.log_matter(&matter).await?;
        if context.store.correct_foreign_refund(&order.id, with, refunded).await? {
            failed = FailedRefund::Corrected;
        }
    }
    Err(FlowError::Busy)
}
