//! A payment is closed at its provider, before anything that was kept for it is given away.

use domain::Timestamp;
use domain::ids::PaymentNumber;
use domain::order::Order;
use domain::payment::{Arrived, Method, OpenPayment};
use payments::{Kind, Paid, PaymentRef, PaymentStatus, ProviderCloseAnswer};
use providers::Providers;
use store::{OrderChange, Store};

use crate::undone::FlowError;

/// What became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ProviderClose {
    /// It cannot be paid any more, and was not.
    Closed,
    /// It was paid.
    Paid(Arrived),
    /// The provider does not close it before this moment; it was not paid yet.
    NotBefore(Timestamp),
    /// The order, or its open payment, is another by now: look again.
    Changed,
}

/// Closes an order's open payment at its provider. Stopped anywhere, it can be run again: a closed payment is closed again.
///
/// A payment without a link is not even asked for: its link is shown only once it is kept, and none is kept any more once the payment
/// is marked as closing. Nobody has it, so nobody can pay.
pub(crate) async fn close_at_provider(
    store: &Store,
    providers: &Providers,
    order: &Order,
    payment: &OpenPayment,
    now: Timestamp,
) -> Result<ProviderClose, FlowError> {
    if payment.link.is_some() {
        let asked = AtProvider::of(order, payment)?;
        let provider = providers.get(asked.kind, now).await.map_err(|trouble| asked.trouble(trouble))?;
        let closable = payment.started_at.saturating_add(provider.closable_after()).unwrap_or(now);
        if now < closable {
            return Ok(match asked.standing(providers, now).await? {
                PaymentStatus::Paid(paid) => ProviderClose::Paid(asked.arrived(paid)),
                PaymentStatus::Closed | PaymentStatus::Missing => ProviderClose::Closed,
                _ => ProviderClose::NotBefore(closable),
            });
        }
    }
    if payment.closing {
        return close(providers, order, payment, now).await;
    }
    // From here on nobody is sent to it any more, whatever happens to this try.
    match store.closing_payment(&order.id, payment.attempt).await? {
        OrderChange::Made(order) => match &order.payment {
            Some(payment) => close(providers, &order, payment, now).await,
            None => Ok(ProviderClose::Changed),
        },
        OrderChange::Refused(_) => Ok(ProviderClose::Changed),
    }
}

async fn close(
    providers: &Providers,
    order: &Order,
    payment: &OpenPayment,
    now: Timestamp,
) -> Result<ProviderClose, FlowError> {
    match payment.link {
        None => Ok(ProviderClose::Closed),
        Some(_) => AtProvider::of(order, payment)?.close(providers, now).await,
    }
}

/// Closes a payment that its order does not need any more, at its provider only. `Some`: it was paid.
pub(crate) async fn close_leftover_at_provider(
    providers: &Providers,
    order: &Order,
    payment: &OpenPayment,
    now: Timestamp,
) -> Result<Option<Arrived>, FlowError> {
    match close(providers, order, payment, now).await? {
        ProviderClose::Paid(arrived) => Ok(Some(arrived)),
        ProviderClose::Closed | ProviderClose::NotBefore(_) | ProviderClose::Changed => Ok(None),
    }
}

/// A payment that was asked for at a provider.
struct AtProvider<'a> {
    order: &'a Order,
    attempt: u8,
    method: Method,
    kind: Kind,
    reference: PaymentRef,
}

impl<'a> AtProvider<'a> {
    fn of(order: &'a Order, payment: &OpenPayment) -> Result<Self, FlowError> {
        let attempt = order.attempts.get(usize::from(payment.attempt));
        let known = attempt.and_then(|attempt| Some((attempt.method, Kind::of(attempt.method)?)));
        let number = PaymentNumber::new(order.id.clone(), payment.attempt);
        let (Some((method, kind)), Some(number)) = (known, number) else {
            let detail = format!("order {} has an open payment that it never asked for", order.id);
            return Err(FlowError::Store(store::StoreError::Permanent { operation: "close a payment", detail }));
        };
        let reference = payment.link.as_ref().and_then(|link| link.reference.clone());
        let reference = PaymentRef { number, payment: reference };
        Ok(Self { order, attempt: payment.attempt, method, kind, reference })
    }

    async fn close(&self, providers: &Providers, now: Timestamp) -> Result<ProviderClose, FlowError> {
        let said = providers.close(self.kind, &self.reference, now).await.map_err(|trouble| self.trouble(trouble))?;
        let (unclear, was_paid) = match said {
            ProviderCloseAnswer::Closed | ProviderCloseAnswer::NothingThere => return Ok(ProviderClose::Closed),
            ProviderCloseAnswer::AlreadyPaid => ("it was paid".to_owned(), true),
            ProviderCloseAnswer::Unclear(what) => (what, false),
        };
        match self.standing(providers, now).await? {
            PaymentStatus::Paid(paid) => Ok(ProviderClose::Paid(self.arrived(paid))),
            // What the provider has just called paid is not believed to be missing a moment later.
            PaymentStatus::Closed | PaymentStatus::Missing if !was_paid => Ok(ProviderClose::Closed),
            standing => Err(FlowError::Unclear { method: self.method, what: format!("{unclear}; {standing:?}") }),
        }
    }

    async fn standing(&self, providers: &Providers, now: Timestamp) -> Result<PaymentStatus, FlowError> {
        providers.query(self.kind, &self.reference, now).await.map_err(|trouble| self.trouble(trouble))
    }

    fn arrived(&self, paid: Paid) -> Arrived {
        Arrived {
            order: self.order.id.clone(),
            attempt: self.attempt,
            method: self.method,
            transaction: paid.transaction,
            amount: paid.amount,
            currency: paid.currency,
        }
    }

    fn trouble(&self, trouble: providers::Trouble) -> FlowError {
        FlowError::Provider { method: self.method, trouble }
    }
}
