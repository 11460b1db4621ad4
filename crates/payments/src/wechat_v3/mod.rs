//! WeChat Pay v3: JSON, signed with RSA in both directions. The content of a notice is also encrypted.
//!
//! Answers are verified like notices: an unsigned answer never means that something is paid, closed or missing.

mod answers;
mod notice;

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::http::{Headers, HttpAnswer, HttpCall, Method, path_and_query};
use crate::list::ProviderKind;
use crate::notice::{Notice, NoticeError, Subject};
use crate::payment::{
    Created, Nonce, PaymentRef, PaymentRequest, PaymentStatus, ProviderCloseAnswer, ProviderError, RefundRequest,
    Refunding, Start, Way,
};
use crate::provider::{FromSettings, PaymentProvider};
use crate::shared::crypto::{ContentKey, SettingsError, SigningKey, VerifyingKey};
use crate::shared::wechat::MAX_FEN;
use crate::shared::{checks, china_time};

/// The longest description, in bytes. WeChat Pay accepts 127 characters.
const MAX_TITLE: usize = 127;
/// The longest reason for a refund, in bytes.
const MAX_REASON: usize = 80;

/// The provider's entry in the payment secret.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Settings {
    app_id: String,
    mch_id: String,
    serial_no: String,
    private_key: String,
    api_v3_key: String,
    platform_keys: BTreeMap<String, String>,
    #[serde(default = "production")]
    base_url: String,
}

fn production() -> String {
    "https://api.mch.weixin.qq.com".to_owned()
}

/// WeChat Pay v3 for one application of one merchant.
pub struct WechatV3 {
    app_id: String,
    mch_id: String,
    serial_no: String,
    base_url: String,
    key: SigningKey,
    content_key: ContentKey,
    /// WeChat Pay's public keys, by the serial that the headers of a message name. There are several during a rotation.
    platform_keys: BTreeMap<String, VerifyingKey>,
}

impl fmt::Debug for WechatV3 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let serials: Vec<_> = self.platform_keys.keys().collect();
        let mut out = f.debug_struct("WechatV3");
        out.field("mch_id", &self.mch_id).field("platform_keys", &serials).finish_non_exhaustive()
    }
}

impl FromSettings for WechatV3 {
    /// Reads `{"appId", "mchId", "serialNo", "privateKey", "apiV3Key", "platformKeys": {serial: PEM}, "baseUrl"?}`. A
    /// platform key is a certificate under its serial number, or a public key under its id (`PUB_KEY_ID_…`).
    fn from_json(json: &str) -> Result<Self, SettingsError> {
        let settings: Settings = checks::settings(json)?;
        if settings.platform_keys.is_empty() || settings.platform_keys.len() > 10 {
            return Err(SettingsError::new("platformKeys", "must have 1 to 10 keys of WeChat Pay, by their serial"));
        }
        let mut platform_keys = BTreeMap::new();
        for (serial, pem) in &settings.platform_keys {
            let field = format!("platformKeys.{}", checks::id("platformKeys", serial)?);
            let (key, in_certificate) = VerifyingKey::parse(&field, pem)?;
            let same =
                |number: &String| number.trim_start_matches('0').eq_ignore_ascii_case(serial.trim_start_matches('0'));
            if in_certificate.as_ref().is_some_and(|number| !same(number)) {
                return Err(SettingsError::new(field, "is a certificate with another serial number"));
            }
            platform_keys.insert(in_certificate.unwrap_or_else(|| serial.clone()), key);
        }
        Ok(Self {
            app_id: checks::id("appId", &settings.app_id)?,
            mch_id: checks::id("mchId", &settings.mch_id)?,
            serial_no: checks::id("serialNo", &settings.serial_no)?,
            base_url: checks::base_url("baseUrl", &settings.base_url)?,
            key: SigningKey::parse("privateKey", &settings.private_key)?,
            content_key: ContentKey::parse("apiV3Key", &settings.api_v3_key)?,
            platform_keys,
        })
    }
}

impl PaymentProvider for WechatV3 {
    fn kind(&self) -> ProviderKind {
        ProviderKind::WechatV3
    }

    /// Creates a native payment, which is a QR code.
    fn create(&self, request: &PaymentRequest, now: Timestamp, nonce: &Nonce) -> Result<Start, ProviderError> {
        checks::takes_yuan("WeChat Pay", request.amount, &request.currency, MAX_FEN)?;
        if request.way == Some(Way::Page) {
            return Err(ProviderError::Unsupported("WeChat Pay offers a QR code, not a page".to_owned()));
        }
        let body = json!({
            "appid": self.app_id,
            "mchid": self.mch_id,
            "description": checks::title(&request.title, &[], MAX_TITLE),
            "out_trade_no": request.number,
            "time_expire": china_time::rfc3339(request.expires_at),
            "attach": Subject::FLASH_SALE,
            "notify_url": request.notify_url,
            "amount": {"total": request.amount, "currency": request.currency},
        });
        Ok(Start::Call(self.call("/v3/pay/transactions/native", Some(&body), now, nonce)))
    }

    fn interpret_create(&self, answer: &HttpAnswer, now: Timestamp) -> Result<Created, ProviderError> {
        self.read_created(answer, now)
    }

    fn query(&self, payment: &PaymentRef, now: Timestamp, nonce: &Nonce) -> Result<HttpCall, ProviderError> {
        let path = format!("/v3/pay/transactions/out-trade-no/{}?mchid={}", payment.number, self.mch_id);
        Ok(self.call(&path, None, now, nonce))
    }

    fn interpret_query(
        &self,
        payment: &PaymentRef,
        answer: &HttpAnswer,
        now: Timestamp,
    ) -> Result<PaymentStatus, ProviderError> {
        self.read_status(payment, answer, now)
    }

    fn close(&self, payment: &PaymentRef, now: Timestamp, nonce: &Nonce) -> Result<HttpCall, ProviderError> {
        let path = format!("/v3/pay/transactions/out-trade-no/{}/close", payment.number);
        Ok(self.call(&path, Some(&json!({"mchid": self.mch_id})), now, nonce))
    }

    /// The answer does not name the payment: only the connection ties it to the request.
    fn interpret_close(
        &self,
        _: &PaymentRef,
        answer: &HttpAnswer,
        now: Timestamp,
    ) -> Result<ProviderCloseAnswer, ProviderError> {
        self.read_closed(answer, now)
    }

    fn refund(&self, refund: &RefundRequest, now: Timestamp, nonce: &Nonce) -> Result<HttpCall, ProviderError> {
        checks::takes_yuan("WeChat Pay", refund.total, &refund.currency, MAX_FEN)?;
        checks::refundable(refund.amount, refund.total)?;
        let mut body = json!({
            "transaction_id": refund.transaction,
            "out_refund_no": refund.refund.as_str(),
            "reason": checks::title(&refund.reason, &[], MAX_REASON),
            "amount": {"refund": refund.amount, "total": refund.total, "currency": refund.currency},
        });
        if let (Some(body), Some(url)) = (body.as_object_mut(), &refund.notify_url) {
            body.insert("notify_url".to_owned(), url.as_str().into());
        }
        Ok(self.call("/v3/refund/domestic/refunds", Some(&body), now, nonce))
    }

    fn interpret_refund(
        &self,
        refund: &RefundRequest,
        answer: &HttpAnswer,
        now: Timestamp,
    ) -> Result<Refunding, ProviderError> {
        self.read_refund(refund, answer, now)
    }

    fn query_refund(&self, refund: &RefundRequest, now: Timestamp, nonce: &Nonce) -> Result<HttpCall, ProviderError> {
        Ok(self.call(&format!("/v3/refund/domestic/refunds/{}", refund.refund.as_str()), None, now, nonce))
    }

    fn interpret_query_refund(
        &self,
        refund: &RefundRequest,
        answer: &HttpAnswer,
        now: Timestamp,
    ) -> Result<Refunding, ProviderError> {
        self.read_refund_status(refund, answer, now)
    }

    fn notice(&self, headers: &Headers, raw_body: &[u8], now: Timestamp) -> Result<Notice, NoticeError> {
        self.read_notice(headers, raw_body, now)
    }

    fn success_answer(&self) -> HttpAnswer {
        HttpAnswer { status: 204, ..HttpAnswer::default() }
    }

    fn refusal(&self, error: &NoticeError) -> HttpAnswer {
        let status = match error {
            NoticeError::BadSignature | NoticeError::Probe | NoticeError::UnknownKey(_) | NoticeError::Stale(_) => 401,
            _ => 400,
        };
        HttpAnswer::new(status, "application/json", json!({"code": "FAIL", "message": "refused"}).to_string())
    }
}

impl WechatV3 {
    fn call(&self, path: &str, body: Option<&Value>, now: Timestamp, nonce: &Nonce) -> HttpCall {
        let method = if body.is_some() { Method::Post } else { Method::Get };
        let url = format!("{}{path}", self.base_url);
        let body = body.map(Value::to_string).unwrap_or_default();
        let (time, nonce) = (now.as_second(), nonce.as_str());
        let signature = self.key.sign(request_text(method, path_and_query(&url), time, nonce, &body).as_bytes());
        let authorization = format!(
            "{SCHEME} mchid=\"{}\",nonce_str=\"{nonce}\",timestamp=\"{time}\",serial_no=\"{}\",\
             signature=\"{signature}\"",
            self.mch_id, self.serial_no
        );
        let mut headers = Headers::from([
            ("Accept", "application/json"),
            ("Authorization", &authorization),
            ("Content-Type", "application/json"),
            ("User-Agent", "seckill-payments/1"),
        ]);
        // A merchant who has a public key of WeChat Pay names it, and the answers are signed with that key.
        if let Some(id) = self.platform_keys.keys().find(|serial| serial.starts_with("PUB_KEY_ID_")) {
            headers.push("Wechatpay-Serial", id);
        }
        HttpCall { method, url, headers, body: body.into_bytes(), client_certificate: false }
    }
}

/// The scheme of the Authorization header.
pub(crate) const SCHEME: &str = "WECHATPAY2-SHA256-RSA2048";

/// The text that the merchant signs.
pub(crate) fn request_text(method: Method, path: &str, time: i64, nonce: &str, body: &str) -> String {
    format!("{}\n{path}\n{time}\n{nonce}\n{body}\n", method.as_str())
}

/// The text that WeChat Pay signs, in answers and in notices. It contains the raw body.
pub(crate) fn platform_text(time: &str, nonce: &str, body: &[u8]) -> Vec<u8> {
    [time.as_bytes(), b"\n", nonce.as_bytes(), b"\n", body, b"\n"].concat()
}
