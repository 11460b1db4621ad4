//! Stripe's answers. They are not signed; TLS authenticates them.

use domain::money::Currency;
use jiff::Timestamp;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::Stripe;
use crate::http::HttpAnswer;
use crate::notice::Subject;
use crate::payment::{
    Created, Paid, PaymentRef, PaymentStatus, ProviderCloseAnswer, ProviderError, RefundRequest, Refunding,
};
use crate::shared::checks;

/// What a 404 means. Stripe chose the session's id itself and never deletes a session, so the key must belong to
/// another account or to the other mode. Whether the session was paid is not known.
const NO_SUCH_SESSION: &str = "no such session: does the key belong to another account?";

/// A Checkout session, in answers and in events.
#[derive(Deserialize)]
pub(super) struct Session {
    pub(super) id: String,
    pub(super) client_reference_id: Option<String>,
    pub(super) status: Option<String>,
    pub(super) payment_status: Option<String>,
    pub(super) amount_total: Option<i64>,
    pub(super) currency: Option<String>,
    pub(super) payment_intent: Option<Expandable>,
    pub(super) url: Option<String>,
    #[serde(default)]
    pub(super) metadata: Metadata,
}

#[derive(Default, Deserialize)]
pub(super) struct Metadata {
    pub(super) order: Option<String>,
    #[serde(rename = "orderType")]
    pub(super) order_type: Option<String>,
    pub(super) refund: Option<String>,
}

/// The id of a payment intent or, if the request asked to expand it, the payment intent.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Expandable {
    Id(String),
    Whole(PaymentIntent),
}

#[derive(Deserialize)]
pub(super) struct PaymentIntent {
    id: String,
    status: Option<String>,
    amount_received: Option<i64>,
    currency: Option<String>,
    #[serde(default)]
    metadata: Metadata,
    latest_charge: Option<LatestCharge>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum LatestCharge {
    Id(#[allow(dead_code, reason = "only the variant matters")] String),
    Whole(Charge),
}

#[derive(Deserialize)]
struct Charge {
    created: i64,
    #[serde(default)]
    amount_refunded: i64,
}

impl Expandable {
    pub(super) fn id(&self) -> &str {
        match self {
            Self::Id(id) => id,
            Self::Whole(intent) => &intent.id,
        }
    }

    fn status(&self) -> Option<&str> {
        match self {
            Self::Id(_) => None,
            Self::Whole(intent) => intent.status.as_deref(),
        }
    }

    fn charge(&self) -> Option<&Charge> {
        match self {
            Self::Whole(PaymentIntent { latest_charge: Some(LatestCharge::Whole(charge)), .. }) => Some(charge),
            _ => None,
        }
    }
}

impl Session {
    pub(super) fn money(&self) -> Option<(i64, Currency)> {
        Some((self.amount_total.filter(|amount| *amount >= 0)?, checks::currency(self.currency.as_deref()?)?))
    }

    fn paid(&self) -> Option<Paid> {
        let (amount, currency) = self.money()?;
        let intent = self.payment_intent.as_ref()?;
        let paid_at = intent.charge().and_then(|charge| Timestamp::from_second(charge.created).ok());
        Some(Paid { transaction: intent.id().to_owned(), amount, currency, paid_at })
    }
}

#[derive(Deserialize)]
struct ErrorBody {
    error: StripeError,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct StripeError {
    code: Option<String>,
    r#type: String,
    message: String,
}

#[derive(Deserialize)]
struct Refund {
    status: Option<String>,
    payment_intent: Option<String>,
    #[serde(default)]
    metadata: Metadata,
}

#[derive(Deserialize)]
struct RefundList {
    data: Vec<Refund>,
}

/// A refusal, with its HTTP status.
struct Refusal {
    status: u16,
    error: StripeError,
}

impl From<Refusal> for ProviderError {
    fn from(refusal: Refusal) -> Self {
        let code = refusal.error.code.unwrap_or(refusal.error.r#type);
        Self::Refused { code, message: refusal.error.message }
    }
}

/// The outer error means that nothing is known; the inner one is a refusal.
fn read<T: DeserializeOwned>(answer: &HttpAnswer) -> Result<Result<T, Refusal>, ProviderError> {
    match answer.status {
        200..=299 => serde_json::from_slice(&answer.body)
            .map(Ok)
            .map_err(|_| ProviderError::Untrusted("it is not Stripe's JSON")),
        // 409: the same request is in flight.
        status @ (409 | 429) => Err(ProviderError::Unavailable(format!("status {status}"))),
        status @ 400..=499 => {
            let body: Option<ErrorBody> = serde_json::from_slice(&answer.body).ok();
            Ok(Err(Refusal { status, error: body.map(|body| body.error).unwrap_or_default() }))
        }
        status => Err(ProviderError::Unavailable(format!("status {status}"))),
    }
}

impl Stripe {
    /// The page, and the session's id, which the caller must keep.
    pub(super) fn read_created(&self, answer: &HttpAnswer) -> Result<Created, ProviderError> {
        // Stripe keeps the answer to a request that it has begun, an error as well, and repeats it under the same key.
        if answer.status >= 500 {
            return Err(ProviderError::Spent(format!("status {}", answer.status)));
        }
        let session: Session = read(answer)??;
        let page = session.url.ok_or(ProviderError::Untrusted("it has no page"))?;
        Ok(Created { pay_url: Some(page), qr_code: None, payment: Some(session.id) })
    }

    pub(super) fn read_status(
        &self,
        payment: &PaymentRef,
        answer: &HttpAnswer,
    ) -> Result<PaymentStatus, ProviderError> {
        if let (None, Some(transaction)) = (&payment.payment, &payment.transaction) {
            return intent_status(payment, transaction, answer);
        }
        let session = match read::<Session>(answer)? {
            Ok(session) => session,
            Err(refusal) if refusal.status == 404 => return Ok(PaymentStatus::Unknown(NO_SUCH_SESSION.to_owned())),
            Err(refusal) => return Err(refusal.into()),
        };
        check_subject(payment, &session)?;
        let paid = || session.paid().ok_or(ProviderError::Untrusted("its amount or transaction cannot be read"));
        let refunded = session.payment_intent.as_ref().and_then(Expandable::charge);
        let refunded = refunded.map(|charge| charge.amount_refunded).filter(|refunded| *refunded > 0);
        Ok(match (session.status.as_deref(), session.payment_status.as_deref()) {
            (Some("complete"), Some("paid")) if refunded.is_some() => PaymentStatus::Refunded(paid()?, refunded),
            (Some("complete"), Some("paid")) => PaymentStatus::Paid(paid()?),
            // The buyer has confirmed and the bank has not answered yet. If the bank refuses, Stripe waits for
            // another payment method, but the page of a complete session does not offer one: no money can come.
            (Some("complete"), Some("unpaid")) => match session.payment_intent.as_ref().and_then(Expandable::status) {
                Some("requires_payment_method" | "canceled") => PaymentStatus::Closed,
                _ => PaymentStatus::Processing,
            },
            (Some("open"), _) => PaymentStatus::NotPaid,
            (Some("expired"), _) => PaymentStatus::Closed,
            (status, payment_status) => PaymentStatus::Unknown(format!("{status:?} {payment_status:?}")),
        })
    }

    /// What a payment intent was made for. One that Stripe does not know, or without our metadata, is another system's.
    pub(super) fn read_subject(&self, answer: &HttpAnswer) -> Result<Option<Subject>, ProviderError> {
        match read::<PaymentIntent>(answer)? {
            Ok(PaymentIntent { metadata: Metadata { order: Some(order), order_type, .. }, .. }) => {
                Ok(Subject::of(&order, order_type.as_deref()))
            }
            Ok(_) => Ok(None),
            Err(refusal) if refusal.status == 404 => Ok(None),
            Err(refusal) => Err(refusal.into()),
        }
    }

    /// Only an open session can be expired. A query tells the status of any other.
    pub(super) fn read_closed(
        &self,
        payment: &PaymentRef,
        answer: &HttpAnswer,
    ) -> Result<ProviderCloseAnswer, ProviderError> {
        match read::<Session>(answer)? {
            Ok(session) => {
                check_subject(payment, &session)?;
                let status = session.status.unwrap_or_default();
                Ok(if status == "expired" { ProviderCloseAnswer::Closed } else { ProviderCloseAnswer::Unclear(status) })
            }
            Err(refusal) if refusal.status == 404 => Ok(ProviderCloseAnswer::Unclear(NO_SUCH_SESSION.to_owned())),
            Err(refusal) if refusal.status == 400 => Ok(ProviderCloseAnswer::Unclear(refusal.error.r#type)),
            Err(refusal) => Err(refusal.into()),
        }
    }

    pub(super) fn read_refund(&self, refund: &RefundRequest, answer: &HttpAnswer) -> Result<Refunding, ProviderError> {
        match read::<Refund>(answer)? {
            Ok(made) if made.payment_intent.as_deref() == Some(&refund.transaction) => Ok(refund_status(&made)),
            Ok(_) => Err(ProviderError::Untrusted("it is about another payment")),
            Err(refusal) if refusal.error.code.as_deref() == Some("charge_already_refunded") => {
                // The whole payment was refunded, perhaps by another refund, so nothing remains to be done. A query,
                // which looks for this refund's own number, would never tell.
                Ok(Refunding::Refunded)
            }
            Err(refusal) => Err(refusal.into()),
        }
    }

    /// Looks for this refund among those of the payment.
    pub(super) fn read_refund_status(
        &self,
        refund: &RefundRequest,
        answer: &HttpAnswer,
    ) -> Result<Refunding, ProviderError> {
        let list: RefundList = read(answer)??;
        let this = |made: &&Refund| {
            made.metadata.refund.as_deref() == Some(refund.refund.as_str())
                && made.payment_intent.as_deref() == Some(&refund.transaction)
        };
        Ok(list.data.iter().find(this).map_or(Refunding::Missing, refund_status))
    }
}

/// The status of a payment that is known by its payment intent alone, because it was made.
fn intent_status(payment: &PaymentRef, transaction: &str, answer: &HttpAnswer) -> Result<PaymentStatus, ProviderError> {
    let intent: PaymentIntent = read(answer)??;
    if intent.id != transaction || intent.metadata.order.as_deref() != Some(payment.number.to_string().as_str()) {
        return Err(ProviderError::Untrusted("it is about another payment"));
    }
    let charge = match &intent.latest_charge {
        Some(LatestCharge::Whole(charge)) => Some(charge),
        _ => None,
    };
    let paid = || {
        let paid_at = charge.and_then(|charge| Timestamp::from_second(charge.created).ok());
        let (amount, currency) = (intent.amount_received?, checks::currency(intent.currency.as_deref()?)?);
        Some(Paid { transaction: transaction.to_owned(), amount, currency, paid_at })
    };
    let paid = || paid().ok_or(ProviderError::Untrusted("its amount cannot be read"));
    let refunded = charge.map(|charge| charge.amount_refunded).filter(|refunded| *refunded > 0);
    Ok(match intent.status.as_deref() {
        Some("succeeded") if refunded.is_some() => PaymentStatus::Refunded(paid()?, refunded),
        Some("succeeded") => PaymentStatus::Paid(paid()?),
        Some("processing") => PaymentStatus::Processing,
        Some("canceled") => PaymentStatus::Closed,
        other => PaymentStatus::Unknown(format!("{other:?}")),
    })
}

fn check_subject(payment: &PaymentRef, session: &Session) -> Result<(), ProviderError> {
    let same_number = session.client_reference_id.as_deref() == Some(payment.number.to_string().as_str());
    if !same_number || payment.payment.as_deref() != Some(&session.id) {
        return Err(ProviderError::Untrusted("it is about another payment"));
    }
    Ok(())
}

fn refund_status(refund: &Refund) -> Refunding {
    match refund.status.as_deref() {
        Some("succeeded") => Refunding::Refunded,
        Some("pending" | "requires_action") | None => Refunding::Processing,
        Some(other) => Refunding::Failed(other.to_owned()),
    }
}
