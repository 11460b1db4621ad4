//! Stripe's answers. They are not signed: the connection's TLS vouches for them.

use domain::money::Currency;
use jiff::Timestamp;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::Stripe;
use crate::checks;
use crate::http::HttpAnswer;
use crate::payment::{ProviderCloseAnswer, Created, Paid, PaymentRef, ProviderError, RefundRequest, Refunding, PaymentStatus};

/// What a 404 means. Stripe is asked by an id that it gave itself, and keeps sessions for good: a key of another account, or of the other
/// mode, does not see them. Whether it was paid is not known.
const NO_SUCH_SESSION: &str = "no such session: is the key another account's?";

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

/// An id, or the thing itself.
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
    latest_charge: Option<LatestCharge>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum LatestCharge {
    Id(#[allow(dead_code, reason = "only its form counts")] String),
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
struct Complaint {
    error: ComplaintBody,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ComplaintBody {
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

/// A no, with its status.
struct No {
    status: u16,
    complaint: ComplaintBody,
}

impl From<No> for ProviderError {
    fn from(no: No) -> Self {
        let code = no.complaint.code.unwrap_or(no.complaint.r#type);
        Self::Refused { code, message: no.complaint.message }
    }
}

/// `Err` of the outer: nothing is known. `Err` of the inner: a no.
fn read<T: DeserializeOwned>(answer: &HttpAnswer) -> Result<Result<T, No>, ProviderError> {
    match answer.status {
        200..=299 => serde_json::from_slice(&answer.body)
            .map(Ok)
            .map_err(|_| ProviderError::Untrusted("it is not Stripe's JSON")),
        // 409: the same request is being worked on elsewhere.
        status @ (409 | 429) => Err(ProviderError::Unavailable(format!("status {status}"))),
        status @ 400..=499 => {
            let complaint: Option<Complaint> = serde_json::from_slice(&answer.body).ok();
            Ok(Err(No { status, complaint: complaint.map(|it| it.error).unwrap_or_default() }))
        }
        status => Err(ProviderError::Unavailable(format!("status {status}"))),
    }
}

impl Stripe {
    /// The page, and the session's id, which must be kept.
    pub fn interpret_create(&self, answer: &HttpAnswer) -> Result<Created, ProviderError> {
        let session: Session = read(answer)??;
        let page = session.url.ok_or(ProviderError::Untrusted("it has no page"))?;
        Ok(Created { pay_url: Some(page), qr_code: None, payment: Some(session.id) })
    }

    /// Where the payment stands.
    pub fn interpret_query(&self, payment: &PaymentRef, answer: &HttpAnswer) -> Result<PaymentStatus, ProviderError> {
        let session = match read::<Session>(answer)? {
            Ok(session) => session,
            Err(no) if no.status == 404 => return Ok(PaymentStatus::Unknown(NO_SUCH_SESSION.to_owned())),
            Err(no) => return Err(no.into()),
        };
        about(payment, &session)?;
        let paid = || session.paid().ok_or(ProviderError::Untrusted("its amount or number cannot be read"));
        let refunded = session.payment_intent.as_ref().and_then(Expandable::charge);
        let refunded = refunded.is_some_and(|charge| charge.amount_refunded > 0);
        Ok(match (session.status.as_deref(), session.payment_status.as_deref()) {
            (Some("complete"), Some("paid")) if refunded => PaymentStatus::Refunded(paid()?),
            (Some("complete"), Some("paid")) => PaymentStatus::Paid(paid()?),
            // The buyer has done it, and the bank took its time. After a no of the bank's, Stripe waits for another way to pay, but the
            // session's page is closed for good.
            (Some("complete"), Some("unpaid")) => match session.payment_intent.as_ref().and_then(Expandable::status) {
                Some("requires_payment_method" | "canceled") => PaymentStatus::Closed,
                _ => PaymentStatus::Processing,
            },
            (Some("open"), _) => PaymentStatus::NotPaid,
            (Some("expired"), _) => PaymentStatus::Closed,
            (status, payment_status) => PaymentStatus::Unknown(format!("{status:?} {payment_status:?}")),
        })
    }

    /// Whether it is closed. Only an open session can be expired; the query tells what another one is.
    pub fn interpret_close(&self, payment: &PaymentRef, answer: &HttpAnswer) -> Result<ProviderCloseAnswer, ProviderError> {
        match read::<Session>(answer)? {
            Ok(session) => {
                about(payment, &session)?;
                let status = session.status.unwrap_or_default();
                Ok(if status == "expired" { ProviderCloseAnswer::Closed } else { ProviderCloseAnswer::Unclear(status) })
            }
            Err(no) if no.status == 404 => Ok(ProviderCloseAnswer::Unclear(NO_SUCH_SESSION.to_owned())),
            Err(no) if no.status == 400 => Ok(ProviderCloseAnswer::Unclear(no.complaint.r#type)),
            Err(no) => Err(no.into()),
        }
    }

    /// Whether the money went back.
    pub fn interpret_refund(&self, refund: &RefundRequest, answer: &HttpAnswer) -> Result<Refunding, ProviderError> {
        match read::<Refund>(answer)? {
            Ok(made) if made.payment_intent.as_deref() == Some(&refund.transaction) => Ok(standing(&made)),
            Ok(_) => Err(ProviderError::Untrusted("it is about another payment")),
            Err(no) if no.complaint.code.as_deref() == Some("charge_already_refunded") => {
                // All of the payment went back, by whatever refund. If this one is of all of it, there is nothing left to do, and the
                // query, which looks for this refund's own number, would never say so.
                Ok(if refund.amount == refund.total { Refunding::Refunded } else { Refunding::Processing })
            }
            Err(no) => Err(no.into()),
        }
    }

    /// Whether the money went back: this refund among those of the payment.
    pub fn interpret_query_refund(
        &self,
        refund: &RefundRequest,
        answer: &HttpAnswer,
    ) -> Result<Refunding, ProviderError> {
        let list: RefundList = read(answer)??;
        let this = |made: &&Refund| {
            made.metadata.refund.as_deref() == Some(refund.refund.as_str())
                && made.payment_intent.as_deref() == Some(&refund.transaction)
        };
        Ok(list.data.iter().find(this).map_or(Refunding::Processing, standing))
    }
}

fn about(payment: &PaymentRef, session: &Session) -> Result<(), ProviderError> {
    let same_number = session.client_reference_id.as_deref() == Some(payment.number.to_string().as_str());
    if !same_number || payment.payment.as_deref() != Some(&session.id) {
        return Err(ProviderError::Untrusted("it is about another payment"));
    }
    Ok(())
}

fn standing(refund: &Refund) -> Refunding {
    match refund.status.as_deref() {
        Some("succeeded") => Refunding::Refunded,
        Some("pending" | "requires_action") | None => Refunding::Processing,
        Some(other) => Refunding::Failed(other.to_owned()),
    }
}
