//! Stripe Checkout.
//!
//! Stripe counts amounts in minor units, as this system does, also for currencies without decimals: 500 is ¥500 in
//! JPY and $5.00 in USD. A currency that Stripe counts in other units than its minor ones is refused, not converted.
//!
//! A session lives for at least 30 minutes, which is longer than most payment windows. Closing a payment expires it.

mod answers;
mod notice;

use std::fmt;

use domain::money::Currency;
use domain::shop_data::ShopData;
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;

use crate::http::{Headers, HttpAnswer, HttpCall, Method};
use crate::list::ProviderKind;
use crate::notice::{Notice, NoticeError, Subject};
use crate::payment::{
    Created, Nonce, PaymentRef, PaymentRequest, PaymentStatus, ProviderCloseAnswer, ProviderError, RefundRequest,
    Refunding, Start, Way,
};
use crate::provider::{FromSettings, PaymentProvider, ReturnPage};
use crate::shared::crypto::{Secret, SettingsError};
use crate::shared::{checks, form};

/// The largest amount of one payment: eight digits.
const MAX_AMOUNT: i64 = 99_999_999;
/// The longest product name, in bytes.
const MAX_TITLE: usize = 250;
/// A session ends this long after the payment deadline. So it lasts for the 30 minutes that Stripe requires, even if
/// the buyer starts just before the deadline, and a repeated request has the same end.
const SESSION_AFTER_DEADLINE: SignedDuration = SignedDuration::from_mins(31);
/// Stripe's longest session.
const MAX_SESSION: SignedDuration = SignedDuration::from_hours(24);
/// The longest wait for a delayed method. Bank debits take up to fourteen days.
const MAX_DELAYED_WAIT_S: u32 = 14 * 24 * 60 * 60;
/// The version of the API that answers follow, whatever the account's default is.
const API_VERSION: &str = "2024-06-20";

/// Stripe counts these in other units than their ISO 4217 minor units.
const OTHER_UNITS: [&str; 3] = ["ISK", "UGX", "MGA"];
/// These have three decimals, of which Stripe accepts two: the last digit must be 0.
const THREE_DECIMALS: [&str; 5] = ["BHD", "JOD", "KWD", "OMR", "TND"];

/// The provider's entry in the payment secret.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Settings {
    secret_key: Secret,
    webhook_secrets: Vec<Secret>,
    #[serde(default = "production")]
    base_url: String,
    /// The payment methods that the page offers. Delayed ones (vouchers, bank debits) hold a unit until
    /// `delayedWaitSeconds` after the deadline.
    #[serde(default = "instant_methods")]
    methods: Vec<String>,
    #[serde(default = "delayed_wait")]
    delayed_wait_seconds: u32,
}

fn instant_methods() -> Vec<String> {
    vec!["card".to_owned()]
}

fn delayed_wait() -> u32 {
    15 * 60
}

fn production() -> String {
    "https://api.stripe.com".to_owned()
}

/// Stripe Checkout for one account.
pub struct Stripe {
    secret_key: Secret,
    /// One for each endpoint, and two for an endpoint whose secret is being rotated.
    webhook_secrets: Vec<Secret>,
    base_url: String,
    methods: Vec<String>,
    delayed_wait: SignedDuration,
}

impl fmt::Debug for Stripe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stripe").field("base_url", &self.base_url).finish_non_exhaustive()
    }
}

impl FromSettings for Stripe {
    const RETURN_PAGE: ReturnPage = ReturnPage::MarkedIfPaid("session_id");

    /// Reads `{"secretKey", "webhookSecrets": […], "baseUrl"?}`.
    fn from_json(json: &str) -> Result<Self, SettingsError> {
        let settings: Settings = checks::settings(json)?;
        if path_part(settings.secret_key.expose()).is_err() {
            return Err(SettingsError::new("secretKey", "must be Stripe's secret key (sk_… or rk_…)"));
        }
        if !(1..=5).contains(&settings.webhook_secrets.len()) {
            return Err(SettingsError::new("webhookSecrets", "must have 1 to 5 signing secrets (whsec_…)"));
        }
        if settings.webhook_secrets.iter().any(|secret| secret.expose().len() < 16) {
            return Err(SettingsError::new("webhookSecrets", "must be signing secrets (whsec_…)"));
        }
        let is_method = |name: &String| {
            let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
            (1..=32).contains(&name.len()) && name.bytes().all(plain)
        };
        if !(1..=20).contains(&settings.methods.len()) || !settings.methods.iter().all(is_method) {
            return Err(SettingsError::new("methods", "must have 1 to 20 of Stripe's payment method types (card)"));
        }
        if settings.delayed_wait_seconds > MAX_DELAYED_WAIT_S {
            return Err(SettingsError::new("delayedWaitSeconds", "must be at most 1209600 (14 days)"));
        }
        Ok(Self {
            base_url: checks::base_url("baseUrl", &settings.base_url)?,
            secret_key: settings.secret_key,
            webhook_secrets: settings.webhook_secrets,
            methods: settings.methods,
            delayed_wait: SignedDuration::from_secs(settings.delayed_wait_seconds.into()),
        })
    }
}

impl PaymentProvider for Stripe {
    fn kind(&self) -> ProviderKind {
        ProviderKind::Stripe
    }

    /// Creates a Checkout session, which is a page.
    fn create(&self, request: &PaymentRequest, now: Timestamp, _: &Nonce) -> Result<Start, ProviderError> {
        takes(request.amount, &request.currency)?;
        if request.way == Some(Way::Qr) {
            return Err(ProviderError::Unsupported("Stripe offers a page, not a QR code".to_owned()));
        }
        let ends = request.expires_at.saturating_add(SESSION_AFTER_DEADLINE).unwrap_or(request.expires_at);
        if ends.duration_since(now) > MAX_SESSION {
            let too_long = "a payment window of more than 23 hours is longer than Stripe's longest session";
            return Err(ProviderError::Unsupported(too_long.to_owned()));
        }
        let (number, currency) = (request.number.to_string(), request.currency.as_str().to_ascii_lowercase());
        let back = if request.return_url.contains('?') { '&' } else { '?' };
        let names: Vec<String> = (0..self.methods.len()).map(|at| format!("payment_method_types[{at}]")).collect();
        let methods = names.iter().map(String::as_str).zip(self.methods.iter().map(String::as_str));
        let product = checks::title(&request.title, &[], MAX_TITLE);
        let (amount, ends) = (request.amount.to_string(), ends.as_second().to_string());
        let success = format!("{}{back}session_id={{CHECKOUT_SESSION_ID}}", request.return_url);
        let fields = [
            ("mode", "payment"),
            ("client_reference_id", number.as_str()),
            ("line_items[0][quantity]", "1"),
            ("line_items[0][price_data][currency]", &currency),
            ("line_items[0][price_data][unit_amount]", &amount),
            ("line_items[0][price_data][product_data][name]", &product),
            ("metadata[order]", &number),
            ("metadata[orderType]", Subject::FLASH_SALE),
            // The charge inherits these, so that a refund that an operator makes at Stripe still names its payment.
            ("payment_intent_data[metadata][order]", &number),
            ("payment_intent_data[metadata][orderType]", Subject::FLASH_SALE),
            ("success_url", &success),
            ("cancel_url", &request.return_url),
            ("expires_at", &ends),
        ];
        let shop_data = shop_metadata(&request.shop_data);
        let shop_data = shop_data.iter().map(|(name, value)| (name.as_str(), *value));
        let body = form::write(fields.into_iter().chain(methods).chain(shop_data));
        let key = format!("create-{number}");
        Ok(Start::Call(self.call(Method::Post, "/v1/checkout/sessions", body, Some(&key))))
    }

    fn interpret_create(&self, answer: &HttpAnswer, _: Timestamp) -> Result<Created, ProviderError> {
        self.read_created(answer)
    }

    /// The answer includes the charge, which tells about refunds.
    fn query(&self, payment: &PaymentRef, _: Timestamp, _: &Nonce) -> Result<HttpCall, ProviderError> {
        let path = match (&payment.payment, &payment.transaction) {
            (None, Some(intent)) => format!("/v1/payment_intents/{}?expand[]=latest_charge", path_part(intent)?),
            _ => format!("/v1/checkout/sessions/{}?expand[]=payment_intent.latest_charge", session(payment)?),
        };
        Ok(self.call(Method::Get, &path, String::new(), None))
    }

    fn interpret_query(
        &self,
        payment: &PaymentRef,
        answer: &HttpAnswer,
        _: Timestamp,
    ) -> Result<PaymentStatus, ProviderError> {
        self.read_status(payment, answer)
    }

    fn processing_wait(&self) -> SignedDuration {
        self.delayed_wait
    }

    fn query_subject(&self, transaction: &str, _: Timestamp, _: &Nonce) -> Result<HttpCall, ProviderError> {
        let path = format!("/v1/payment_intents/{}?expand[]=latest_charge", path_part(transaction)?);
        Ok(self.call(Method::Get, &path, String::new(), None))
    }

    fn interpret_query_subject(&self, answer: &HttpAnswer) -> Result<Option<Subject>, ProviderError> {
        self.read_subject(answer)
    }

    fn close(&self, payment: &PaymentRef, _: Timestamp, _: &Nonce) -> Result<HttpCall, ProviderError> {
        let path = format!("/v1/checkout/sessions/{}/expire", session(payment)?);
        Ok(self.call(Method::Post, &path, String::new(), None))
    }

    fn interpret_close(
        &self,
        payment: &PaymentRef,
        answer: &HttpAnswer,
        _: Timestamp,
    ) -> Result<ProviderCloseAnswer, ProviderError> {
        self.read_closed(payment, answer)
    }

    fn refund(&self, refund: &RefundRequest, _: Timestamp, _: &Nonce) -> Result<HttpCall, ProviderError> {
        takes(refund.amount, &refund.currency)?;
        checks::refundable(refund.amount, refund.total)?;
        let body = form::write([
            ("payment_intent", refund.transaction.as_str()),
            ("amount", &refund.amount.to_string()),
            ("reason", "requested_by_customer"),
            ("metadata[order]", &refund.number.to_string()),
            ("metadata[orderType]", Subject::FLASH_SALE),
            ("metadata[refund]", refund.refund.as_str()),
        ]);
        // Each attempt has a key of its own: Stripe repeats what it has answered under a key, errors included. Money
        // does not go back twice, because a charge is refunded at most once.
        let key = format!("refund-{}-{}", refund.refund.as_str(), refund.attempt);
        Ok(self.call(Method::Post, "/v1/refunds", body, Some(&key)))
    }

    fn interpret_refund(
        &self,
        refund: &RefundRequest,
        answer: &HttpAnswer,
        _: Timestamp,
    ) -> Result<Refunding, ProviderError> {
        self.read_refund(refund, answer)
    }

    fn query_refund(&self, refund: &RefundRequest, _: Timestamp, _: &Nonce) -> Result<HttpCall, ProviderError> {
        let payment_intent = path_part(&refund.transaction)?;
        let path = format!("/v1/refunds?payment_intent={payment_intent}&limit=100");
        Ok(self.call(Method::Get, &path, String::new(), None))
    }

    fn interpret_query_refund(
        &self,
        refund: &RefundRequest,
        answer: &HttpAnswer,
        _: Timestamp,
    ) -> Result<Refunding, ProviderError> {
        self.read_refund_status(refund, answer)
    }

    fn notice(&self, headers: &Headers, raw_body: &[u8], now: Timestamp) -> Result<Notice, NoticeError> {
        self.read_notice(headers, raw_body, now)
    }

    fn success_answer(&self) -> HttpAnswer {
        HttpAnswer::new(200, "application/json", r#"{"received":true}"#)
    }

    fn refusal(&self, _: &NoticeError) -> HttpAnswer {
        HttpAnswer::new(400, "application/json", r#"{"received":false}"#)
    }
}

impl Stripe {
    fn call(&self, method: Method, path: &str, body: String, idempotency_key: Option<&str>) -> HttpCall {
        let mut headers = Headers::from([
            ("Authorization", format!("Bearer {}", self.secret_key.expose())),
            ("Stripe-Version", API_VERSION.to_owned()),
        ]);
        if method == Method::Post {
            headers.push("Content-Type", "application/x-www-form-urlencoded");
        }
        if let Some(key) = idempotency_key {
            headers.push("Idempotency-Key", key);
        }
        HttpCall {
            method,
            url: format!("{}{path}", self.base_url),
            headers,
            body: body.into_bytes(),
            client_certificate: false,
        }
    }
}

fn takes(amount: i64, currency: &Currency) -> Result<(), ProviderError> {
    checks::takes_amount("Stripe", amount, MAX_AMOUNT)?;
    let code = currency.as_str();
    if OTHER_UNITS.contains(&code) {
        return Err(ProviderError::Unsupported(format!("Stripe does not count {code} in its minor units")));
    }
    if THREE_DECIMALS.contains(&code) && amount % 10 != 0 {
        return Err(ProviderError::Unsupported(format!("Stripe takes {code} in steps of 10, not {amount}")));
    }
    Ok(())
}

/// The session of a payment. It is missing if the session was never created or its id was not kept.
fn session(payment: &PaymentRef) -> Result<&str, ProviderError> {
    let missing = || ProviderError::Unsupported("Stripe needs the id of the session, which is missing".to_owned());
    path_part(payment.payment.as_deref().ok_or_else(missing)?)
}

/// Checks an id of Stripe before it goes into a path or a header.
fn path_part(id: &str) -> Result<&str, ProviderError> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if !(1..=255).contains(&id.len()) || !id.bytes().all(plain) {
        return Err(ProviderError::Unsupported("not an id of Stripe".to_owned()));
    }
    Ok(id)
}

/// The shop's data as metadata of the session and of the payment intent, which Stripe shows in its dashboard. The
/// prefix keeps its names apart from those of this system.
fn shop_metadata(data: &ShopData) -> Vec<(String, &str)> {
    let reference = data.reference.iter().map(|reference| ("reference", reference.as_str()));
    let pairs = data.metadata.pairs().iter().map(|(name, value)| (name.as_str(), value.as_str()));
    // A pair that the shop itself calls `reference` would have the same name: the reference takes its place.
    let pairs = pairs.filter(|(name, _)| data.reference.is_none() || *name != "reference");
    let both = |(name, value)| {
        ["metadata", "payment_intent_data[metadata]"].map(|where_to| (format!("{where_to}[shop_{name}]"), value))
    };
    reference.chain(pairs).flat_map(both).collect()
}
