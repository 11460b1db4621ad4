//! Somebody refunded a payment in the provider's console, and this system hears of it.
//!
//! The provider is asked how much went back: a notice can be old, and another refund can have followed.
//!
//! | the order | all of it went back | a part went back |
//! |---|---|---|
//! | is paid with this payment | it is refunded as if the buyer had asked: units and points return | recorded in the order |
//! | anything else | nothing changes | nothing changes |
//!
//! A payment that its order has not settled yet is settled by its own notice or by the order's close, which ask the
//! provider as well. Stopped anywhere, the notice comes again; each step changes nothing the second time.

use domain::ids::PaymentNumber;
use domain::order::Status;
use domain::payment::Method;
use payments::{Kind, PaymentRef, PaymentStatus};

use crate::Context;
use crate::error::FlowError;
use crate::pay::refund::{Asker, Refund, refund};

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
    let Some(order) = context.store.order(number.order()).await? else { return Ok(Foreign::Nothing) };
    let with = order.paid.as_ref().filter(|with| with.method == method && with.transaction == transaction);
    let (Status::Paid, Some(with), Some(kind)) = (order.status, with, Kind::of(method)) else {
        return Ok(Foreign::Nothing);
    };
    let reference = PaymentRef { number: number.clone(), payment: None, transaction: Some(transaction.to_owned()) };
    let status = context.providers.query(kind, &reference, context.now).await;
    match status.map_err(|trouble| FlowError::Provider { method, trouble })? {
        PaymentStatus::Refunded(_, Some(refunded)) if refunded >= with.amount => {
            match refund(context, &order.id, Asker::Operator).await? {
                Refund::Done { .. } | Refund::UnderWay(_) => Ok(Foreign::Refunded),
                Refund::Refused(_) | Refund::TooLate(_) | Refund::Unknown => Ok(Foreign::Nothing),
            }
        }
        PaymentStatus::Refunded(_, Some(refunded)) => {
            context.store.record_foreign_refund(&order.id, transaction, refunded).await?;
            Ok(Foreign::Recorded)
        }
        PaymentStatus::Refunded(_, None) => Ok(Foreign::Unclear),
        _ => Ok(Foreign::Nothing),
    }
}
