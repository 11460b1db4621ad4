//! Stripe's webhook events.

use domain::money::Currency;
use jiff::Timestamp;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::Stripe;
use super::answers::{Expandable, Metadata, Session};
use crate::http::Headers;
use crate::list::ProviderKind;
use crate::notice::{Notice, NoticeError, Outcome, Subject};
use crate::shared::checks;
use crate::shared::crypto::{hmac_sha256_hex, same};
use crate::{MAX_NOTICE, MAX_SKEW_S};

/// The most signatures that are compared. There are several while a secret is being rotated.
const MAX_SIGNATURES: usize = 8;

#[derive(Deserialize)]
struct Event<'a> {
    r#type: String,
    created: i64,
    /// Present for events of a connected account, which is another merchant.
    account: Option<String>,
    #[serde(borrow)]
    data: Data<'a>,
}

#[derive(Deserialize)]
struct Data<'a> {
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Deserialize)]
struct Charge {
    amount_refunded: i64,
    refunded: bool,
    currency: String,
    payment_intent: Option<Expandable>,
    #[serde(default)]
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Refund {
    amount: i64,
    currency: String,
    status: Option<String>,
    payment_intent: Option<Expandable>,
    #[serde(default)]
    metadata: Metadata,
}

/// Its metadata is its own: it names the payment by the payment intent alone.
#[derive(Deserialize)]
struct Dispute {
    amount: i64,
    currency: String,
    reason: Option<String>,
    payment_intent: Option<Expandable>,
}

impl Stripe {
    pub(super) fn read_notice(&self, headers: &Headers, body: &[u8], now: Timestamp) -> Result<Notice, NoticeError> {
        self.verify(headers, body, now)?;
        let event: Event<'_> = serde_json::from_slice(body).map_err(|_| NoticeError::Malformed("body"))?;
        if event.account.is_some() {
            return Err(NoticeError::NotUs("account"));
        }
        let object = event.data.object;
        match event.r#type.as_str() {
            "checkout.session.completed" => {
                session(&event, object, |session| match session.payment_status.as_deref() {
                    Some("paid") => Outcome::Paid,
                    other => Outcome::Other(other.unwrap_or_default().chars().take(32).collect()),
                })
            }
            "checkout.session.async_payment_succeeded" => session(&event, object, |_| Outcome::Paid),
            "checkout.session.async_payment_failed" => session(&event, object, |_| Outcome::Failed),
            "checkout.session.expired" => session(&event, object, |_| Outcome::Closed),
            "charge.refunded" => charge(&event, object),
            "refund.created" | "refund.updated" | "refund.failed" | "charge.refund.updated" => refund(&event, object),
            "charge.dispute.created" => dispute(&event, object),
            other => Err(NoticeError::NotOurs(other.chars().take(64).collect())),
        }
    }

    /// Verifies `Stripe-Signature: t=…,v1=…[,v1=…]`, an HMAC over `t.body`.
    fn verify(&self, headers: &Headers, body: &[u8], now: Timestamp) -> Result<(), NoticeError> {
        if body.len() > MAX_NOTICE {
            return Err(NoticeError::TooLarge);
        }
        let malformed = NoticeError::Malformed("Stripe-Signature");
        let header = headers.one("Stripe-Signature").ok_or(malformed.clone())?;
        let parts = || header.split(',').filter_map(|part| part.split_once('='));
        let mut times = parts().filter(|(name, _)| *name == "t").map(|(_, time)| time);
        let (Some(time), None) = (times.next(), times.next()) else { return Err(malformed) };
        let seconds: i64 = time.parse().map_err(|_| malformed)?;
        let age = now.as_second().saturating_sub(seconds);
        if age.saturating_abs() >= MAX_SKEW_S {
            return Err(NoticeError::Stale(age));
        }
        let given: Vec<_> = parts().filter(|(name, _)| *name == "v1").take(MAX_SIGNATURES).collect();
        let expected = |secret: &str| hmac_sha256_hex(secret, &[time.as_bytes(), b".", body]);
        let mut secrets = self.webhook_secrets.iter().map(|secret| expected(secret.expose()));
        if !secrets.any(|expected| given.iter().any(|(_, signature)| same(signature, &expected))) {
            return Err(NoticeError::BadSignature);
        }
        Ok(())
    }
}

fn read<T: DeserializeOwned>(object: &RawValue) -> Result<T, NoticeError> {
    serde_json::from_str(object.get()).map_err(|_| NoticeError::Malformed("data.object"))
}

/// Reads an event of a session. An account can serve several systems: a session without our metadata belongs to another
/// one.
fn session(event: &Event<'_>, object: &RawValue, outcome: impl Fn(&Session) -> Outcome) -> Result<Notice, NoticeError> {
    let session: Session = read(object)?;
    let subject = subject(event, &session.metadata)?;
    // A session of this system has the number in both places. For its own orders the shop may put anything there.
    if matches!(subject, Subject::FlashSale(_)) && session.metadata.order != session.client_reference_id {
        return Err(NoticeError::Malformed("client_reference_id"));
    }
    let outcome = outcome(&session);
    let transaction = session.payment_intent.as_ref().map(|intent| intent.id().to_owned());
    if outcome == Outcome::Paid && transaction.is_none() {
        return Err(NoticeError::Malformed("payment_intent"));
    }
    let (amount, currency) = session.money().ok_or(NoticeError::Malformed("amount_total"))?;
    Ok(notice(event, subject, transaction, amount, currency, outcome))
}

fn charge(event: &Event<'_>, object: &RawValue) -> Result<Notice, NoticeError> {
    let charge: Charge = read(object)?;
    let outcome = if charge.refunded { Outcome::Refunded } else { Outcome::PartlyRefunded };
    let currency = checks::currency(&charge.currency).ok_or(NoticeError::Malformed("currency"))?;
    let transaction = charge.payment_intent.map(|intent| intent.id().to_owned());
    Ok(notice(event, subject(event, &charge.metadata)?, transaction, charge.amount_refunded, currency, outcome))
}

fn refund(event: &Event<'_>, object: &RawValue) -> Result<Notice, NoticeError> {
    let refund: Refund = read(object)?;
    let outcome = match refund.status.as_deref() {
        Some("succeeded") => Outcome::Refunded,
        Some("failed" | "canceled") => Outcome::RefundFailed,
        other => Outcome::Other(other.unwrap_or_default().chars().take(32).collect()),
    };
    let currency = checks::currency(&refund.currency).ok_or(NoticeError::Malformed("currency"))?;
    let transaction = refund.payment_intent.map(|intent| intent.id().to_owned());
    // A refund made in Stripe's console has no metadata. That it was made is told by its charge; that it failed, by
    // nothing else than this event.
    let is_nameless = refund.metadata.order.is_none() && transaction.is_some();
    let subject = match outcome {
        Outcome::RefundFailed if is_nameless => Subject::Transaction,
        _ => subject(event, &refund.metadata)?,
    };
    Ok(notice(event, subject, transaction, refund.amount, currency, outcome))
}

fn dispute(event: &Event<'_>, object: &RawValue) -> Result<Notice, NoticeError> {
    let dispute: Dispute = read(object)?;
    let currency = checks::currency(&dispute.currency).ok_or(NoticeError::Malformed("currency"))?;
    let transaction = dispute.payment_intent.map(|intent| intent.id().to_owned());
    let transaction = transaction.ok_or(NoticeError::Malformed("payment_intent"))?;
    let outcome = Outcome::Disputed(dispute.reason.unwrap_or_default().chars().take(64).collect());
    Ok(notice(event, Subject::Transaction, Some(transaction), dispute.amount, currency, outcome))
}

fn subject(event: &Event<'_>, metadata: &Metadata) -> Result<Subject, NoticeError> {
    let not_ours = || NoticeError::NotOurs(event.r#type.chars().take(64).collect());
    let order = metadata.order.as_deref().ok_or_else(not_ours)?;
    Subject::of(order, metadata.order_type.as_deref()).ok_or(NoticeError::Malformed("metadata.order"))
}

fn notice(
    event: &Event<'_>,
    subject: Subject,
    transaction: Option<String>,
    amount: i64,
    currency: Currency,
    outcome: Outcome,
) -> Notice {
    Notice {
        provider: ProviderKind::Stripe,
        subject,
        transaction,
        amount,
        currency,
        happened_at: Timestamp::from_second(event.created).ok(),
        outcome,
    }
}
