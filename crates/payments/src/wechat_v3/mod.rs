//! WeChat Pay v3: JSON, signed with RSA in both directions; notices are also encrypted.
//!
//! Answers are verified like notices: an unsigned answer never says that something is paid, closed or missing.

mod answers;
mod notice;

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::crypto::{ContentKey, SettingsError, SigningKey, VerifyingKey};
use crate::http::{HttpCall, Method, path_and_query};
use crate::notice::Subject;
use crate::payment::{Nonce, PaymentRef, PaymentRequest, ProviderError, RefundRequest, Start, Way};
use crate::wechat::MAX_FEN;
use crate::{checks, china};

/// The longest description; WeChat Pay takes 127 characters.
const MAX_TITLE: usize = 127;
/// The longest reason of a refund, in bytes.
const MAX_REASON: usize = 80;

/// The secret, as it is kept.
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

/// One application of one merchant.
pub struct WechatV3 {
    app_id: String,
    mch_id: String,
    serial_no: String,
    base_url: String,
    key: SigningKey,
    content_key: ContentKey,
    /// WeChat Pay's keys by the serial that its headers name. Several, because it changes them.
    platform_keys: BTreeMap<String, VerifyingKey>,
}

impl fmt::Debug for WechatV3 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let serials: Vec<_> = self.platform_keys.keys().collect();
        let mut out = f.debug_struct("WechatV3");
        out.field("mch_id", &self.mch_id).field("platform_keys", &serials).finish_non_exhaustive()
    }
}

impl WechatV3 {
    /// From `{"appId", "mchId", "serialNo", "privateKey", "apiV3Key", "platformKeys": {serial: PEM}, "baseUrl"?}`. A platform
    /// key is a certificate under its serial number, or a public key under its id (`PUB_KEY_ID_…`).
    pub fn from_json(json: &str) -> Result<Self, SettingsError> {
        let settings: Settings = checks::settings(json)?;
        if settings.platform_keys.is_empty() || settings.platform_keys.len() > 10 {
            return Err(SettingsError::new("platformKeys", "must have 1 to 10 keys of WeChat Pay by their serial"));
        }
        let mut platform_keys = BTreeMap::new();
        for (serial, pem) in &settings.platform_keys {
            let field = format!("platformKeys.{}", checks::id("platformKeys", serial)?);
            let (key, in_certificate) = VerifyingKey::parse(&field, pem)?;
            let same =
                |number: &String| number.trim_start_matches('0').eq_ignore_ascii_case(serial.trim_start_matches('0'));
            if in_certificate.as_ref().is_some_and(|number| !same(number)) {
                return Err(SettingsError::new(field, "is a certificate of another serial number"));
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

    /// A native payment: a QR code.
    pub fn create(&self, request: &PaymentRequest, now: Timestamp, nonce: &Nonce) -> Result<Start, ProviderError> {
        checks::takes_yuan("WeChat Pay", request.amount, &request.currency, MAX_FEN)?;
        if request.way == Some(Way::Page) {
            return Err(ProviderError::Unsupported("WeChat Pay gives a QR code, not a page".to_owned()));
        }
        let body = json!({
            "appid": self.app_id,
            "mchid": self.mch_id,
            "description": checks::title(&request.title, &[], MAX_TITLE),
            "out_trade_no": request.number,
            "time_expire": china::rfc3339(request.expires_at),
            "attach": Subject::FLASH_SALE,
            "notify_url": request.notify_url,
            "amount": {"total": request.amount, "currency": request.currency},
        });
        Ok(Start::Call(self.call("/v3/pay/transactions/native", Some(&body), now, nonce)))
    }

    /// Where does it stand?
    pub fn query(&self, payment: &PaymentRef, now: Timestamp, nonce: &Nonce) -> HttpCall {
        let path = format!("/v3/pay/transactions/out-trade-no/{}?mchid={}", payment.number, self.mch_id);
        self.call(&path, None, now, nonce)
    }

    /// Let it not be paid any more.
    pub fn close(&self, payment: &PaymentRef, now: Timestamp, nonce: &Nonce) -> HttpCall {
        let path = format!("/v3/pay/transactions/out-trade-no/{}/close", payment.number);
        self.call(&path, Some(&json!({"mchid": self.mch_id})), now, nonce)
    }

    /// Money back.
    pub fn refund(&self, refund: &RefundRequest, now: Timestamp, nonce: &Nonce) -> Result<HttpCall, ProviderError> {
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

    /// Is the money back?
    pub fn query_refund(&self, refund: &RefundRequest, now: Timestamp, nonce: &Nonce) -> HttpCall {
        self.call(&format!("/v3/refund/domestic/refunds/{}", refund.refund.as_str()), None, now, nonce)
    }

    fn call(&self, path: &str, body: Option<&Value>, now: Timestamp, nonce: &Nonce) -> HttpCall {
        let method = if body.is_some() { Method::Post } else { Method::Get };
        let url = format!("{}{path}", self.base_url);
        let body = body.map(Value::to_string).unwrap_or_default();
        let (time, nonce) = (now.as_second(), nonce.as_str());
        let signature = self.key.sign(request_text(method, path_and_query(&url), time, nonce, &body).as_bytes());
        let authorization = format!(
            "{SCHEME} mchid=\"{}\",nonce_str=\"{nonce}\",timestamp=\"{time}\",serial_no=\"{}\",signature=\"{signature}\"",
            self.mch_id, self.serial_no
        );
        let mut headers = crate::http::Headers::from([
            ("Accept", "application/json"),
            ("Authorization", &authorization),
            ("Content-Type", "application/json"),
            ("User-Agent", "seckill-payments/1"),
        ]);
        // A merchant with a WeChat Pay public key says so, and gets answers signed with that one.
        if let Some(id) = self.platform_keys.keys().find(|serial| serial.starts_with("PUB_KEY_ID_")) {
            headers.push("Wechatpay-Serial", id);
        }
        HttpCall { method, url, headers, body: body.into_bytes(), client_certificate: false }
    }
}

/// The scheme of the Authorization header.
pub(crate) const SCHEME: &str = "WECHATPAY2-SHA256-RSA2048";

/// What the merchant signs.
pub(crate) fn request_text(method: Method, path: &str, time: i64, nonce: &str, body: &str) -> String {
    format!("{}\n{path}\n{time}\n{nonce}\n{body}\n", method.as_str())
}

/// What WeChat Pay signs, in answers and notices: the raw body, whatever is in it.
pub(crate) fn platform_text(time: &str, nonce: &str, body: &[u8]) -> Vec<u8> {
    [time.as_bytes(), b"\n", nonce.as_bytes(), b"\n", body, b"\n"].concat()
}
