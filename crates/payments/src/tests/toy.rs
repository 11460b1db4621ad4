//! A fifth provider, which exists only in the tests of this crate. It shows all that a provider takes: this file, one
//! line in `list.rs`, and its side of the sandbox (`Side`, below). The tests that loop over `ProviderKind::ALL`
//! run on it unchanged.
//!
//! The toy speaks JSON, and the header `Toy-Signature` is an HMAC over the raw body with a shared key. What is signed
//! starts with the purpose of the message, so that an answer cannot pass for a notice. The toy stands behind the method
//! `points`, which no real provider uses.

use jiff::Timestamp;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::provider::{FromSettings, PaymentProvider};
use crate::sandbox::{Asked, Happened, Keys, Payment, Refund, RefundState, Reply, State};
use crate::shared::checks;
use crate::shared::crypto::{Secret, SettingsError, hmac_sha256_hex, same};
use crate::{
    Created, Headers, HttpAnswer, HttpCall, MAX_NOTICE, Method, Nonce, Notice, NoticeError, Outcome, Paid, PaymentRef,
    PaymentRequest, PaymentStatus, ProviderCloseAnswer, ProviderError, ProviderKind, RefundRequest, Refunding, Start,
    Subject, Way,
};

/// The provider's entry in the payment secret, which is also all that the toy needs to know.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Toy {
    key: Secret,
    base_url: String,
}

impl FromSettings for Toy {
    fn from_json(json: &str) -> Result<Self, SettingsError> {
        let toy: Self = checks::settings(json)?;
        Ok(Self { base_url: checks::base_url("baseUrl", &toy.base_url)?, key: toy.key })
    }
}

/// A payment, in answers and in notices.
#[derive(Deserialize)]
struct ToyPayment {
    number: String,
    order_type: String,
    state: State,
    transaction: String,
    amount: i64,
    currency: String,
    paid_at: Option<Timestamp>,
}

impl ToyPayment {
    fn paid(self) -> Option<Paid> {
        let currency = checks::currency(&self.currency)?;
        Some(Paid { transaction: self.transaction, amount: self.amount, currency, paid_at: self.paid_at })
    }
}

#[derive(Deserialize)]
struct ToyRefund {
    refund: String,
}

#[derive(Deserialize)]
struct Refusal {
    code: String,
    message: String,
}

impl Toy {
    fn signature(&self, purpose: &str, body: &[u8]) -> String {
        hmac_sha256_hex(self.key.expose(), &[purpose.as_bytes(), b"\n", body])
    }

    fn is_signed(&self, purpose: &str, headers: &Headers, body: &[u8]) -> bool {
        headers.one("Toy-Signature").is_some_and(|given| same(given, &self.signature(purpose, body)))
    }

    fn call(&self, operation: &str, body: &Value) -> HttpCall {
        let body = body.to_string().into_bytes();
        HttpCall {
            method: Method::Post,
            url: format!("{}/{operation}", self.base_url),
            headers: [("Toy-Signature", self.signature(operation, &body))].into(),
            body,
            client_certificate: false,
        }
    }

    /// The content of a signed answer; the inner error is a signed refusal.
    fn read<T: DeserializeOwned>(&self, answer: &HttpAnswer) -> Result<Result<T, Refusal>, ProviderError> {
        if answer.status >= 500 {
            return Err(ProviderError::Unavailable(format!("status {}", answer.status)));
        }
        if !self.is_signed("answer", &answer.headers, &answer.body) {
            return Err(ProviderError::Untrusted("its signature is wrong"));
        }
        let unreadable = |_| ProviderError::Untrusted("it is not the toy's JSON");
        if answer.status == 200 {
            return serde_json::from_slice(&answer.body).map(Ok).map_err(unreadable);
        }
        serde_json::from_slice(&answer.body).map(Err).map_err(unreadable)
    }
}

fn refused(refusal: Refusal) -> ProviderError {
    ProviderError::Refused { code: refusal.code, message: refusal.message }
}

impl PaymentProvider for Toy {
    fn kind(&self) -> ProviderKind {
        ProviderKind::Toy
    }

    fn create(&self, request: &PaymentRequest, _: Timestamp, _: &Nonce) -> Result<Start, ProviderError> {
        let payment = json!({
            "number": request.number, "orderType": Subject::FLASH_SALE, "title": request.title,
            "amount": request.amount, "currency": request.currency, "expiresAt": request.expires_at,
            "notifyUrl": request.notify_url,
        });
        Ok(Start::Call(self.call("create", &payment)))
    }

    fn interpret_create(&self, answer: &HttpAnswer, _: Timestamp) -> Result<Created, ProviderError> {
        let link: String = self.read(answer)?.map_err(refused)?;
        Ok(Created { pay_url: None, qr_code: Some(link), payment: None })
    }

    fn query(&self, payment: &PaymentRef, _: Timestamp, _: &Nonce) -> Result<HttpCall, ProviderError> {
        Ok(self.call("query", &json!(payment.number)))
    }

    fn interpret_query(
        &self,
        payment: &PaymentRef,
        answer: &HttpAnswer,
        _: Timestamp,
    ) -> Result<PaymentStatus, ProviderError> {
        let seen: ToyPayment = match self.read(answer)? {
            Ok(seen) => seen,
            Err(refusal) if refusal.code == "MISSING" => return Ok(PaymentStatus::Missing),
            Err(refusal) => return Err(refused(refusal)),
        };
        if seen.number != payment.number.to_string() {
            return Err(ProviderError::Untrusted("it is about another payment"));
        }
        let state = seen.state;
        let paid = || seen.paid().ok_or(ProviderError::Untrusted("its currency cannot be read"));
        Ok(match state {
            State::NotPaid => PaymentStatus::NotPaid,
            State::Processing => PaymentStatus::Processing,
            State::Paid => PaymentStatus::Paid(paid()?),
            State::Refunded => PaymentStatus::Refunded(paid()?, None),
            State::Closed => PaymentStatus::Closed,
        })
    }

    fn close(&self, payment: &PaymentRef, _: Timestamp, _: &Nonce) -> Result<HttpCall, ProviderError> {
        Ok(self.call("close", &json!(payment.number)))
    }

    fn interpret_close(
        &self,
        payment: &PaymentRef,
        answer: &HttpAnswer,
        _: Timestamp,
    ) -> Result<ProviderCloseAnswer, ProviderError> {
        match self.read::<ToyPayment>(answer)? {
            Ok(seen) if seen.number == payment.number.to_string() => Ok(ProviderCloseAnswer::Closed),
            Ok(_) => Err(ProviderError::Untrusted("it is about another payment")),
            Err(refusal) => Ok(match refusal.code.as_str() {
                "MISSING" => ProviderCloseAnswer::NothingThere,
                "PAID" => ProviderCloseAnswer::AlreadyPaid,
                _ => ProviderCloseAnswer::Unclear(refusal.code),
            }),
        }
    }

    fn refund(&self, refund: &RefundRequest, _: Timestamp, _: &Nonce) -> Result<HttpCall, ProviderError> {
        checks::refundable(refund.amount, refund.total)?;
        let refund = json!({
            "transaction": refund.transaction, "refund": refund.refund.as_str(), "amount": refund.amount,
        });
        Ok(self.call("refund", &refund))
    }

    fn interpret_refund(
        &self,
        refund: &RefundRequest,
        answer: &HttpAnswer,
        _: Timestamp,
    ) -> Result<Refunding, ProviderError> {
        match self.read::<ToyRefund>(answer)?.map_err(refused)? {
            made if made.refund == refund.refund.as_str() => Ok(Refunding::Refunded),
            _ => Err(ProviderError::Untrusted("it is about another refund")),
        }
    }

    fn query_refund(&self, refund: &RefundRequest, _: Timestamp, _: &Nonce) -> Result<HttpCall, ProviderError> {
        Ok(self.call("query-refund", &json!(refund.refund.as_str())))
    }

    fn interpret_query_refund(
        &self,
        refund: &RefundRequest,
        answer: &HttpAnswer,
        now: Timestamp,
    ) -> Result<Refunding, ProviderError> {
        self.interpret_refund(refund, answer, now)
    }

    fn notice(&self, headers: &Headers, raw_body: &[u8], _: Timestamp) -> Result<Notice, NoticeError> {
        if raw_body.len() > MAX_NOTICE {
            return Err(NoticeError::TooLarge);
        }
        if !self.is_signed("notice", headers, raw_body) {
            return Err(NoticeError::BadSignature);
        }
        let payment: ToyPayment = serde_json::from_slice(raw_body).map_err(|_| NoticeError::Malformed("body"))?;
        let subject = Subject::of(&payment.number, Some(&payment.order_type));
        let subject = subject.ok_or(NoticeError::Malformed("number"))?;
        let outcome = match payment.state {
            State::Paid => Outcome::Paid,
            State::Refunded => Outcome::Refunded,
            State::Closed => Outcome::Closed,
            State::NotPaid | State::Processing => Outcome::Other("NOT_PAID".to_owned()),
        };
        let money = payment.paid().ok_or(NoticeError::Malformed("currency"))?;
        Ok(Notice::new(ProviderKind::Toy, subject, money, outcome))
    }

    fn success_answer(&self) -> HttpAnswer {
        HttpAnswer::new(200, "text/plain", "taken")
    }

    fn refusal(&self, _: &NoticeError) -> HttpAnswer {
        HttpAnswer::new(400, "text/plain", "refused")
    }
}

/// The toy's side of the protocol, for the sandbox.
#[derive(Debug)]
pub(crate) struct Side(Toy);

impl Side {
    pub(crate) fn new(keys: &Keys) -> Result<Self, SettingsError> {
        Ok(Self(Toy::from_json(&keys.settings(ProviderKind::Toy, "https://toy.example"))?))
    }

    pub(crate) fn read(&self, call: &HttpCall) -> Result<Asked, HttpAnswer> {
        let operation = call.path_and_query().rsplit('/').next().unwrap_or_default();
        if !self.0.is_signed(operation, &call.headers, &call.body) {
            return Err(self.refuse("SIGNATURE", "the signature is wrong"));
        }
        let body: Value = serde_json::from_slice(&call.body).unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        match operation {
            "create" => {
                let payment = Payment {
                    id: String::new(),
                    transaction: String::new(),
                    number: text(&body["number"]),
                    order_type: text(&body["orderType"]),
                    title: text(&body["title"]),
                    amount: body["amount"].as_i64().unwrap_or_default(),
                    currency: text(&body["currency"]),
                    notify_url: text(&body["notifyUrl"]),
                    return_url: String::new(),
                    state: State::NotPaid,
                    paid_at: None,
                    refunded: 0,
                };
                Ok(Asked::Create { payment, way: Way::Qr, expires_at: text(&body["expiresAt"]).parse().ok() })
            }
            "query" => Ok(Asked::Query(text(&body))),
            "close" => Ok(Asked::Close(text(&body))),
            "refund" => Ok(Asked::Refund(Refund {
                transaction: text(&body["transaction"]),
                refund: text(&body["refund"]),
                amount: body["amount"].as_i64().unwrap_or_default(),
                notify_url: None,
                state: RefundState::Done,
            })),
            "query-refund" => Ok(Asked::QueryRefund(text(&body))),
            _ => Err(self.refuse("OPERATION", "there is no such operation")),
        }
    }

    pub(crate) fn answer(&self, reply: Reply<'_>) -> HttpAnswer {
        match reply {
            Reply::Created(_, link) => self.signed(200, &json!(link)),
            Reply::PaymentStatus(payment) | Reply::Closed(payment) => self.signed(200, &told(payment, payment.state)),
            Reply::Refunded(_, refund, _) => self.signed(200, &json!({"refund": refund.refund})),
            Reply::AlreadyPaid(_) => self.refuse("PAID", "it was paid"),
            Reply::Missing | Reply::NoRefund => self.refuse("MISSING", "there is none"),
            Reply::Trouble => self.signed(500, &Value::Null),
            Reply::Refused(refusal) => self.refuse(refusal.code, refusal.message),
        }
    }

    /// The toy reports payments and refunds, and nothing else.
    pub(crate) fn notice(&self, payment: &Payment, happened: Happened) -> Option<HttpCall> {
        let state = match happened {
            Happened::Paid => State::Paid,
            Happened::Refunded => State::Refunded,
            _ => return None,
        };
        let call = self.0.call("notice", &told(payment, state));
        Some(HttpCall { url: payment.notify_url.clone(), ..call })
    }

    fn signed(&self, status: u16, body: &Value) -> HttpAnswer {
        let body = body.to_string().into_bytes();
        HttpAnswer { status, headers: [("Toy-Signature", self.0.signature("answer", &body))].into(), body }
    }

    fn refuse(&self, code: &str, message: &str) -> HttpAnswer {
        self.signed(400, &json!({"code": code, "message": message}))
    }
}

fn told(payment: &Payment, state: State) -> Value {
    json!({
        "number": payment.number, "order_type": payment.order_type, "state": state,
        "transaction": payment.transaction, "amount": payment.amount, "currency": payment.currency,
        "paid_at": payment.paid_at,
    })
}

#[test]
fn the_toy_is_in_the_list_and_is_built_from_its_settings() {
    assert!(ProviderKind::ALL.contains(&ProviderKind::Toy));
    let provider = super::provider(ProviderKind::Toy);
    assert_eq!(provider.kind(), ProviderKind::Toy);
    assert_eq!(
        ProviderKind::parse(ProviderKind::Toy.as_str()),
        Some(ProviderKind::Toy),
        "its URLs and its settings are found by its name"
    );
}

#[test]
fn a_signed_answer_is_not_a_notice() {
    let answer = super::sandbox().answer(
        ProviderKind::Toy,
        &Asked::Query(super::NUMBER.to_owned()),
        Reply::PaymentStatus(&super::paid_payment(ProviderKind::Toy)),
        super::now(),
        &super::nonce(),
    );
    let verdict = super::provider(ProviderKind::Toy).notice(&answer.headers, &answer.body, super::now());
    assert_eq!(verdict, Err(NoticeError::BadSignature));
}
