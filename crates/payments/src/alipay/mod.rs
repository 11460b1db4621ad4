//! Alipay, open platform, RSA2 with plain public keys.
//!
//! A request is a set of fields; the signature covers the sorted, unescaped fields, `sign_type` included. An answer is
//! signed over the raw text of its object. A notice is signed over its decoded fields without `sign` and `sign_type`.
//!
//! The signed text joins `name=value` with `&` and escapes nothing. So a title must not contain `=` or `&`, and every
//! value that matters is read strictly.

mod answers;
mod notice;

use std::fmt;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::http::{Headers, HttpAnswer, HttpCall, Method};
use crate::list::ProviderKind;
use crate::notice::{Notice, NoticeError, Subject};
use crate::payment::{
    Created, Nonce, PaymentRef, PaymentRequest, PaymentStatus, ProviderCloseAnswer, ProviderError, RefundRequest,
    Refunding, Start, Way,
};
use crate::provider::{FromSettings, PaymentProvider, ReturnPage};
use crate::shared::crypto::{SettingsError, SigningKey, VerifyingKey};
use crate::shared::form::{self, Fields};
use crate::shared::{checks, china_time, yuan};

const PAGE_PAY: &str = "alipay.trade.page.pay";
const PRECREATE: &str = "alipay.trade.precreate";
const QUERY: &str = "alipay.trade.query";
const CLOSE: &str = "alipay.trade.close";
const REFUND: &str = "alipay.trade.refund";
const QUERY_REFUND: &str = "alipay.trade.fastpay.refund.query";

/// The longest title, in bytes. Alipay accepts 256 characters.
const MAX_TITLE: usize = 256;

/// The provider's entry in the payment secret.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Settings {
    app_id: String,
    seller_id: String,
    private_key: String,
    alipay_public_key: String,
    #[serde(default = "production")]
    gateway: String,
}

fn production() -> String {
    "https://openapi.alipay.com/gateway.do".to_owned()
}

/// Alipay for one application of one merchant.
pub struct Alipay {
    app_id: String,
    seller_id: String,
    gateway: String,
    key: SigningKey,
    alipay: VerifyingKey,
}

impl fmt::Debug for Alipay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Alipay").field("app_id", &self.app_id).finish_non_exhaustive()
    }
}

impl FromSettings for Alipay {
    const RETURN_PAGE: ReturnPage = ReturnPage::Signed;

    /// Reads `{"appId", "sellerId", "privateKey", "alipayPublicKey", "gateway"?}`.
    fn from_json(json: &str) -> Result<Self, SettingsError> {
        let settings: Settings = checks::settings(json)?;
        Ok(Self {
            app_id: checks::id("appId", &settings.app_id)?,
            seller_id: checks::id("sellerId", &settings.seller_id)?,
            gateway: checks::base_url("gateway", &settings.gateway)?,
            key: SigningKey::parse("privateKey", &settings.private_key)?,
            alipay: VerifyingKey::parse("alipayPublicKey", &settings.alipay_public_key)?.0,
        })
    }
}

impl PaymentProvider for Alipay {
    fn kind(&self) -> ProviderKind {
        ProviderKind::Alipay
    }

    /// A page is a signed link and needs no call; a QR code is asked for.
    fn create(&self, request: &PaymentRequest, now: Timestamp, _: &Nonce) -> Result<Start, ProviderError> {
        checks::takes_yuan("Alipay", request.amount, &request.currency, yuan::MAX_FEN)?;
        let mut content = json!({
            "out_trade_no": request.number,
            "total_amount": yuan::from_fen(request.amount),
            // Alipay forbids these characters in a subject.
            "subject": checks::title(&request.title, &['&', '=', '/'], MAX_TITLE),
            "time_expire": china_time::with_spaces(request.expires_at),
            "passback_params": Subject::FLASH_SALE,
        });
        match request.way.unwrap_or(Way::Page) {
            Way::Qr => {
                let urls = [("notify_url", request.notify_url.as_str())];
                Ok(Start::Call(self.call(self.fields(PRECREATE, &content, now, &urls))))
            }
            Way::Page => {
                if let Some(content) = content.as_object_mut() {
                    content.insert("product_code".to_owned(), "FAST_INSTANT_TRADE_PAY".into());
                }
                let urls = [("notify_url", request.notify_url.as_str()), ("return_url", &request.return_url)];
                let fields = self.fields(PAGE_PAY, &content, now, &urls);
                let pay_url = format!("{}?{}", self.gateway, form::write(&fields));
                Ok(Start::Ready(Created { pay_url: Some(pay_url), qr_code: None, payment: None }))
            }
        }
    }

    fn interpret_create(&self, answer: &HttpAnswer, _: Timestamp) -> Result<Created, ProviderError> {
        self.read_created(answer)
    }

    fn query(&self, payment: &PaymentRef, now: Timestamp, _: &Nonce) -> Result<HttpCall, ProviderError> {
        Ok(self.call(self.fields(QUERY, &json!({"out_trade_no": payment.number}), now, &[])))
    }

    fn interpret_query(
        &self,
        payment: &PaymentRef,
        answer: &HttpAnswer,
        _: Timestamp,
    ) -> Result<PaymentStatus, ProviderError> {
        self.read_status(payment, answer)
    }

    fn close(&self, payment: &PaymentRef, now: Timestamp, _: &Nonce) -> Result<HttpCall, ProviderError> {
        Ok(self.call(self.fields(CLOSE, &json!({"out_trade_no": payment.number}), now, &[])))
    }

    fn interpret_close(
        &self,
        payment: &PaymentRef,
        answer: &HttpAnswer,
        _: Timestamp,
    ) -> Result<ProviderCloseAnswer, ProviderError> {
        self.read_closed(payment, answer)
    }

    fn refund(&self, refund: &RefundRequest, now: Timestamp, _: &Nonce) -> Result<HttpCall, ProviderError> {
        checks::takes_yuan("Alipay", refund.amount, &refund.currency, yuan::MAX_FEN)?;
        checks::refundable(refund.amount, refund.total)?;
        let content = json!({
            "trade_no": refund.transaction,
            "out_request_no": refund.refund.as_str(),
            "refund_amount": yuan::from_fen(refund.amount),
            "refund_reason": checks::title(&refund.reason, &['&', '=', '/'], MAX_TITLE),
        });
        Ok(self.call(self.fields(REFUND, &content, now, &[])))
    }

    fn interpret_refund(
        &self,
        refund: &RefundRequest,
        answer: &HttpAnswer,
        _: Timestamp,
    ) -> Result<Refunding, ProviderError> {
        self.read_refund(refund, answer)
    }

    fn query_refund(&self, refund: &RefundRequest, now: Timestamp, _: &Nonce) -> Result<HttpCall, ProviderError> {
        let content = json!({"trade_no": refund.transaction, "out_request_no": refund.refund.as_str()});
        Ok(self.call(self.fields(QUERY_REFUND, &content, now, &[])))
    }

    fn interpret_query_refund(
        &self,
        refund: &RefundRequest,
        answer: &HttpAnswer,
        _: Timestamp,
    ) -> Result<Refunding, ProviderError> {
        self.read_refund_status(refund, answer)
    }

    fn notice(&self, _: &Headers, raw_body: &[u8], _: Timestamp) -> Result<Notice, NoticeError> {
        self.read_notice(raw_body)
    }

    fn success_answer(&self) -> HttpAnswer {
        HttpAnswer::new(200, "text/plain", "success")
    }

    /// Alipay repeats a notice after any answer but `success`.
    fn refusal(&self, _: &NoticeError) -> HttpAnswer {
        HttpAnswer::new(400, "text/plain", "fail")
    }

    fn read_return(&self, query: &str) -> Result<Subject, NoticeError> {
        self.read_return_query(query)
    }
}

impl Alipay {
    /// The signed fields of a request.
    fn fields(&self, method: &str, content: &Value, now: Timestamp, urls: &[(&str, &str)]) -> Fields {
        let content = content.to_string();
        let time = china_time::with_spaces(now);
        let common = [
            ("app_id", self.app_id.as_str()),
            ("method", method),
            ("format", "JSON"),
            ("charset", "utf-8"),
            ("sign_type", "RSA2"),
            ("timestamp", &time),
            ("version", "1.0"),
            ("biz_content", &content),
        ];
        let pairs = common.iter().chain(urls);
        let mut fields: Fields = pairs.map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
        let sign = self.key.sign(form::signed_text(&fields, &["sign"]).as_bytes());
        fields.insert("sign".to_owned(), sign);
        fields
    }

    /// The content goes into the body and everything else into the query, because Alipay reads `charset` from the query
    /// before it reads the body.
    fn call(&self, mut fields: Fields) -> HttpCall {
        let content = fields.remove_entry("biz_content");
        HttpCall {
            method: Method::Post,
            url: format!("{}?{}", self.gateway, form::write(&fields)),
            headers: [("Content-Type", "application/x-www-form-urlencoded;charset=utf-8")].into(),
            body: form::write(content).into_bytes(),
            client_certificate: false,
        }
    }
}
