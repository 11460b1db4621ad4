//! A payment is closed at its provider, before anything that was kept for it is given away.

use domain::Timestamp;
use domain::ids::PaymentNumber;
use domain::order::Order;
use domain::payment::{Arrived, Method, OpenPayment};
use payments::{Paid, PaymentRef, PaymentStatus, ProviderCloseAnswer, ProviderKind};
use store::OrderChange;

use crate::Context;
use crate::error::FlowError;

/// How the close of a payment ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ProviderClose {
    /// It was not paid, and can no longer be paid.
    Closed,
    /// It was paid, and at least a part of the money is still there.
    Paid(Arrived),
    /// It was paid, and all of it went back at the provider: it can no longer be paid.
    Refunded(Arrived),
    /// It is not paid yet, and the provider does not close it before this moment.
    NotBefore(Timestamp),
    /// The order or its open payment changed in between: read it again.
    Changed,
}

/// Closes an order's open payment at its provider. After a crash it can be run again: closing a closed payment
/// has no effect.
///
/// For a payment without a link the provider is not even asked. A link is shown only once it is kept, and none is
/// kept once the payment is marked as closing: no buyer has a link, so no one can pay.
pub(crate) async fn close_at_provider(
    context: Context<'_>,
    order: &Order,
    payment: &OpenPayment,
) -> Result<ProviderClose, FlowError> {
    let Context { store, providers, now } = context;
    if payment.link.is_some() {
        let asked = AtProvider::of(order, payment)?;
        let provider = providers.get(asked.kind, now).await.map_err(|trouble| asked.trouble(trouble))?;
        let closable = payment.started_at.saturating_add(provider.closable_after()).unwrap_or(now);
        if now < closable {
            return Ok(match asked.status(context).await? {
                PaymentStatus::Paid(paid) => asked.paid(paid, 0),
                PaymentStatus::Refunded(paid, refunded) => asked.refunded(paid, refunded),
                PaymentStatus::Closed | PaymentStatus::Missing => ProviderClose::Closed,
                _ => ProviderClose::NotBefore(closable),
            });
        }
    }
    if payment.closing {
        return close(context, order, payment).await;
    }
    // From here on no buyer is sent to this payment, even if this run stops here.
    match store.mark_payment_closing(&order.id, payment.attempt).await? {
        OrderChange::Made(order) => match &order.payment {
            Some(payment) => close(context, &order, payment).await,
            None => Ok(ProviderClose::Changed),
        },
        OrderChange::Refused(_) => Ok(ProviderClose::Changed),
    }
}

async fn close(context: Context<'_>, order: &Order, payment: &OpenPayment) -> Result<ProviderClose, FlowError> {
    match payment.link {
        None => Ok(ProviderClose::Closed),
        Some(_) => AtProvider::of(order, payment)?.close(context).await,
    }
}

/// Closes a payment that its order no longer needs, at its provider only. `Some`: it was paid, or even refunded.
pub(crate) async fn close_leftover_at_provider(
    context: Context<'_>,
    order: &Order,
    payment: &OpenPayment,
) -> Result<Option<Arrived>, FlowError> {
    match close(context, order, payment).await? {
        ProviderClose::Paid(arrived) | ProviderClose::Refunded(arrived) => Ok(Some(arrived)),
        ProviderClose::Closed | ProviderClose::NotBefore(_) | ProviderClose::Changed => Ok(None),
    }
}

/// A payment that was asked for at a provider.
struct AtProvider<'a> {
    order: &'a Order,
    attempt: u8,
    method: Method,
    kind: ProviderKind,
    reference: PaymentRef,
}

impl<'a> AtProvider<'a> {
    fn of(order: &'a Order, payment: &OpenPayment) -> Result<Self, FlowError> {
        let attempt = order.attempts.get(usize::from(payment.attempt));
        let known = attempt.and_then(|attempt| Some((attempt.method, ProviderKind::of(attempt.method)?)));
        let number = PaymentNumber::new(order.id.clone(), payment.attempt);
        let (Some((method, kind)), Some(number)) = (known, number) else {
            let detail = format!("order {} has an open payment that it never asked for", order.id);
            return Err(FlowError::Store(store::StoreError::Permanent { operation: "close a payment", detail }));
        };
        let reference = payment.link.as_ref().and_then(|link| link.reference.clone());
        let reference = PaymentRef { number, payment: reference, transaction: None };
        Ok(Self { order, attempt: payment.attempt, method, kind, reference })
    }

    async fn close(&self, context: Context<'_>) -> Result<ProviderClose, FlowError> {
        let Context { providers, now, .. } = context;
        let answer = providers.close(self.kind, &self.reference, now).await.map_err(|trouble| self.trouble(trouble))?;
        let (unclear, was_paid) = match answer {
            ProviderCloseAnswer::Closed | ProviderCloseAnswer::NothingThere => return Ok(ProviderClose::Closed),
            ProviderCloseAnswer::AlreadyPaid => ("it was paid".to_owned(), true),
            ProviderCloseAnswer::Unclear(what) => (what, false),
        };
        match self.status(context).await? {
            PaymentStatus::Paid(paid) => Ok(self.paid(paid, 0)),
            PaymentStatus::Refunded(paid, refunded) => Ok(self.refunded(paid, refunded)),
            // The buyer has confirmed, and the money may take days. The order waits for a bounded time only: money
            // that arrives after that revives it or goes back.
            PaymentStatus::Processing => {
                let provider = providers.get(self.kind, now).await.map_err(|trouble| self.trouble(trouble))?;
                let until = self.order.pay_by.saturating_add(provider.processing_wait()).unwrap_or(now);
                Ok(if now < until { ProviderClose::NotBefore(until) } else { ProviderClose::Closed })
            }
            // The provider has just reported it as paid: it cannot be missing a moment later.
            PaymentStatus::Closed | PaymentStatus::Missing if !was_paid => Ok(ProviderClose::Closed),
            status => Err(FlowError::Unclear { method: self.method, what: format!("{unclear}; {status:?}") }),
        }
    }

    async fn status(&self, context: Context<'_>) -> Result<PaymentStatus, FlowError> {
        context.providers.query(self.kind, &self.reference, context.now).await.map_err(|trouble| self.trouble(trouble))
    }

    fn paid(&self, paid: Paid, refunded: i64) -> ProviderClose {
        let arrived = Arrived {
            order: self.order.id.clone(),
            attempt: self.attempt,
            method: self.method,
            transaction: paid.transaction,
            amount: paid.amount,
            currency: paid.currency,
            refunded: Some(refunded),
        };
        if arrived.is_all_refunded() { ProviderClose::Refunded(arrived) } else { ProviderClose::Paid(arrived) }
    }

    /// A provider that does not tell how much went back is taken to have sent back all of it: nothing is given away for
    /// money that may not be there, and an operator finds the matter.
    fn refunded(&self, paid: Paid, refunded: Option<i64>) -> ProviderClose {
        let refunded = refunded.unwrap_or(paid.amount);
        self.paid(paid, refunded)
    }

    fn trouble(&self, trouble: providers::Trouble) -> FlowError {
        FlowError::Provider { method: self.method, trouble }
    }
}
