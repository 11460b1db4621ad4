//! Alipay, open platform, RSA2 with plain public keys.
//!
//! A request is a set of fields, signed sorted and un-escaped, `sign_type` included. An answer is signed over the raw text of
//! its object. A notice is signed over its decoded fields without `sign` and `sign_type`. The signed text joins
//! `name=value` with `&` and escapes nothing, so a title never carries those two characters, and no value that
//! decides anything is read leniently.

mod answers;
mod notice;

use std::fmt;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::crypto::{SettingsError, SigningKey, VerifyingKey};
use crate::form::{self, Fields};
use crate::http::{HttpCall, Method};
use crate::notice::Subject;
use crate::payment::{Created, PaymentRef, PaymentRequest, ProviderError, RefundRequest, Start, Way};
use crate::{checks, china, yuan};

const PAGE_PAY: &str = "alipay.trade.page.pay";
const PRECREATE: &str = "alipay.trade.precreate";
const QUERY: &str = "alipay.trade.query";
const CLOSE: &str = "alipay.trade.close";
const REFUND: &str = "alipay.trade.refund";
const QUERY_REFUND: &str = "alipay.trade.fastpay.refund.query";

/// The longest title, in bytes. Alipay takes 256 characters.
const MAX_TITLE: usize = 256;

/// The secret, as it is kept.
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

/// One application of one merchant.
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

impl Alipay {
    /// From `{"appId", "sellerId", "privateKey", "alipayPublicKey", "gateway"?}`.
    pub fn from_json(json: &str) -> Result<Self, SettingsError> {
        let settings: Settings = checks::settings(json)?;
        Ok(Self {
            app_id: checks::id("appId", &settings.app_id)?,
            seller_id: checks::id("sellerId", &settings.seller_id)?,
            gateway: checks::base_url("gateway", &settings.gateway)?,
            key: SigningKey::parse("privateKey", &settings.private_key)?,
            alipay: VerifyingKey::parse("alipayPublicKey", &settings.alipay_public_key)?.0,
        })
    }

    /// The page is a signed link, the QR code is asked for.
    pub fn create(&self, request: &PaymentRequest, now: Timestamp) -> Result<Start, ProviderError> {
        checks::takes_yuan("Alipay", request.amount, &request.currency, yuan::MAX_FEN)?;
        let mut content = json!({
            "out_trade_no": request.number,
            "total_amount": yuan::from_fen(request.amount),
            // Alipay forbids these characters in a subject.
            "subject": checks::title(&request.title, &['&', '=', '/'], MAX_TITLE),
            "time_expire": china::with_spaces(request.expires_at),
            "passback_params": Subject::FLASH_SALE,
        });
        match request.way.unwrap_or(Way::Page) {
            Way::Qr => Ok(Start::Call(self.call(self.fields(
                PRECREATE,
                &content,
                now,
                &[("notify_url", &request.notify_url)],
            )))),
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

    /// Where does it stand?
    pub fn query(&self, payment: &PaymentRef, now: Timestamp) -> HttpCall {
        self.call(self.fields(QUERY, &json!({"out_trade_no": payment.number}), now, &[]))
    }

    /// Let it not be paid any more.
    pub fn close(&self, payment: &PaymentRef, now: Timestamp) -> HttpCall {
        self.call(self.fields(CLOSE, &json!({"out_trade_no": payment.number}), now, &[]))
    }

    /// Money back.
    pub fn refund(&self, refund: &RefundRequest, now: Timestamp) -> Result<HttpCall, ProviderError> {
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

    /// Is the money back?
    pub fn query_refund(&self, refund: &RefundRequest, now: Timestamp) -> HttpCall {
        let content = json!({"trade_no": refund.transaction, "out_request_no": refund.refund.as_str()});
        self.call(self.fields(QUERY_REFUND, &content, now, &[]))
    }

    /// The fields of a request, with their signature.
    fn fields(&self, method: &str, content: &Value, now: Timestamp, urls: &[(&str, &str)]) -> Fields {
        let content = content.to_string();
        let time = china::with_spaces(now);
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

    /// The content goes into the body, all else into the query, where Alipay looks for `charset` before it reads the body.
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
