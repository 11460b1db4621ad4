//! WeChat Pay v2: flat XML, signed with a shared key by MD5 or HMAC-SHA256. For merchants that still use v2.
//!
//! The shared key signs messages in both directions, so a notice must also be complete (both result codes, the ids
//! and a transaction): otherwise a signed request could pass for one. The settings choose the algorithm; the notice
//! never does.

mod answers;
mod notice;

use std::fmt;

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;

use crate::http::{Headers, HttpAnswer, HttpCall, Method};
use crate::list::ProviderKind;
use crate::notice::{Notice, NoticeError, Subject};
use crate::payment::{
    Created, Nonce, PaymentRef, PaymentRequest, PaymentStatus, ProviderCloseAnswer, ProviderError, RefundRequest,
    Refunding, Start, Way,
};
use crate::provider::{FromSettings, PaymentProvider};
use crate::shared::crypto::{Secret, SettingsError, ecb_open, ecb_seal, hmac_sha256_hex, same};
use crate::shared::form::{self, Fields};
use crate::shared::wechat::MAX_FEN;
use crate::shared::{checks, china_time, xml};

/// The longest description, in bytes.
const MAX_TITLE: usize = 127;
/// The longest reason for a refund, in bytes.
const MAX_REASON: usize = 80;
/// A payment expires this long after its order's deadline. A repeated request has the same expiry.
const EXPIRY_AFTER_DEADLINE: SignedDuration = SignedDuration::from_secs(5 * 60 + 30);
/// WeChat Pay refuses to close a payment that is younger than this.
const CLOSABLE_AFTER: SignedDuration = SignedDuration::from_mins(5);

/// How messages are signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum SignType {
    /// WeChat Pay's default.
    #[serde(rename = "MD5")]
    Md5,
    #[serde(rename = "HMAC-SHA256")]
    HmacSha256,
}

impl SignType {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Md5 => "MD5",
            Self::HmacSha256 => "HMAC-SHA256",
        }
    }
}

/// The signature of the fields, in upper-case hexadecimal.
pub(crate) fn sign(fields: &Fields, key: &Secret, sign_type: SignType) -> String {
    let text = format!("{}&key={}", form::signed_text(fields, &["sign"]), key.expose());
    let digest = match sign_type {
        SignType::Md5 => format!("{:x}", md5::compute(text)),
        SignType::HmacSha256 => hmac_sha256_hex(key.expose(), &[text.as_bytes()]),
    };
    digest.to_ascii_uppercase()
}

/// Whether the field `sign` is the signature of the other fields. Compares in constant time.
pub(crate) fn is_signed(fields: &Fields, key: &Secret, sign_type: SignType) -> bool {
    fields.get("sign").is_some_and(|given| same(given, &sign(fields, key, sign_type)))
}

/// Decrypts the content of a notice of a refund. The key is the MD5 digest of the shared key, in lower-case
/// hexadecimal.
pub(crate) fn open_with_digest(key: &Secret, sealed: &str) -> Option<Vec<u8>> {
    ecb_open(&format!("{:x}", md5::compute(key.expose())), sealed)
}

/// Encrypts the content of a notice of a refund as WeChat Pay does.
pub(crate) fn seal_with_digest(key: &Secret, content: &[u8]) -> Option<String> {
    ecb_seal(&format!("{:x}", md5::compute(key.expose())), content)
}

/// The provider's entry in the payment secret.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Settings {
    app_id: String,
    mch_id: String,
    key: Secret,
    sign_type: SignType,
    #[serde(default = "production")]
    base_url: String,
    client_certificate: Option<String>,
    client_key: Option<Secret>,
}

fn production() -> String {
    "https://api.mch.weixin.qq.com".to_owned()
}

/// WeChat Pay v2 for one application of one merchant.
pub struct WechatV2 {
    app_id: String,
    mch_id: String,
    key: Secret,
    sign_type: SignType,
    base_url: String,
    identity: Option<(String, Secret)>,
}

impl fmt::Debug for WechatV2 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WechatV2").field("mch_id", &self.mch_id).finish_non_exhaustive()
    }
}

impl FromSettings for WechatV2 {
    /// Reads `{"appId", "mchId", "key", "signType": "MD5" or "HMAC-SHA256", "baseUrl"?, "clientCertificate"?,
    /// "clientKey"?}`. Refunds need the last two, in PEM.
    fn from_json(json: &str) -> Result<Self, SettingsError> {
        let settings: Settings = checks::settings(json)?;
        if settings.key.expose().len() != 32 {
            return Err(SettingsError::new("key", "must be the API key, 32 characters"));
        }
        let identity = match (settings.client_certificate, settings.client_key) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            _ => return Err(SettingsError::new("clientCertificate", "and clientKey go together")),
        };
        Ok(Self {
            app_id: checks::id("appId", &settings.app_id)?,
            mch_id: checks::id("mchId", &settings.mch_id)?,
            key: settings.key,
            sign_type: settings.sign_type,
            base_url: checks::base_url("baseUrl", &settings.base_url)?,
            identity,
        })
    }
}

impl PaymentProvider for WechatV2 {
    fn kind(&self) -> ProviderKind {
        ProviderKind::WechatV2
    }

    fn client_identity(&self) -> Option<(&str, &str)> {
        self.identity.as_ref().map(|(certificate, key)| (certificate.as_str(), key.expose()))
    }

    /// Creates a native payment, which is a QR code.
    fn create(&self, request: &PaymentRequest, _: Timestamp, nonce: &Nonce) -> Result<Start, ProviderError> {
        checks::takes_yuan("WeChat Pay", request.amount, &request.currency, MAX_FEN)?;
        if request.way == Some(Way::Page) {
            return Err(ProviderError::Unsupported("WeChat Pay offers a QR code, not a page".to_owned()));
        }
        // WeChat Pay refuses an expiry less than five minutes ahead, and a payment can be started until its deadline.
        // The order is closed at its deadline all the same.
        let expires_at = request.expires_at.saturating_add(EXPIRY_AFTER_DEADLINE).unwrap_or(request.expires_at);
        let fields = [
            ("body", checks::title(&request.title, &[], MAX_TITLE)),
            ("attach", Subject::FLASH_SALE.to_owned()),
            ("out_trade_no", request.number.to_string()),
            ("total_fee", request.amount.to_string()),
            ("fee_type", request.currency.to_string()),
            ("spbill_create_ip", request.client_ip.clone()),
            ("time_expire", china_time::digits(expires_at)),
            ("notify_url", request.notify_url.clone()),
            ("trade_type", "NATIVE".to_owned()),
            ("product_id", request.number.to_string()),
        ];
        Ok(Start::Call(self.call("/pay/unifiedorder", fields, nonce)))
    }

    fn interpret_create(&self, answer: &HttpAnswer, _: Timestamp) -> Result<Created, ProviderError> {
        self.read_created(answer)
    }

    fn query(&self, payment: &PaymentRef, _: Timestamp, nonce: &Nonce) -> Result<HttpCall, ProviderError> {
        Ok(self.call("/pay/orderquery", [("out_trade_no", payment.number.to_string())], nonce))
    }

    fn interpret_query(
        &self,
        payment: &PaymentRef,
        answer: &HttpAnswer,
        _: Timestamp,
    ) -> Result<PaymentStatus, ProviderError> {
        self.read_status(payment, answer)
    }

    fn close(&self, payment: &PaymentRef, _: Timestamp, nonce: &Nonce) -> Result<HttpCall, ProviderError> {
        Ok(self.call("/pay/closeorder", [("out_trade_no", payment.number.to_string())], nonce))
    }

    /// The answer does not name the payment: only the connection ties it to the request.
    fn interpret_close(
        &self,
        _: &PaymentRef,
        answer: &HttpAnswer,
        _: Timestamp,
    ) -> Result<ProviderCloseAnswer, ProviderError> {
        self.read_closed(answer)
    }

    fn closable_after(&self) -> SignedDuration {
        CLOSABLE_AFTER
    }

    /// The connection must present [`Self::client_identity`].
    fn refund(&self, refund: &RefundRequest, _: Timestamp, nonce: &Nonce) -> Result<HttpCall, ProviderError> {
        checks::takes_yuan("WeChat Pay", refund.total, &refund.currency, MAX_FEN)?;
        checks::refundable(refund.amount, refund.total)?;
        if self.identity.is_none() && self.base_url.starts_with("https://") {
            let missing = "WeChat Pay v2 refunds need clientCertificate and clientKey in the settings";
            return Err(ProviderError::Unsupported(missing.to_owned()));
        }
        let fields = [
            ("transaction_id", refund.transaction.clone()),
            ("out_refund_no", refund.refund.as_str().to_owned()),
            ("total_fee", refund.total.to_string()),
            ("refund_fee", refund.amount.to_string()),
            ("refund_fee_type", refund.currency.to_string()),
            ("refund_desc", checks::title(&refund.reason, &[], MAX_REASON)),
        ];
        let notify_url = refund.notify_url.iter().map(|url| ("notify_url", url.clone()));
        let call = self.call("/secapi/pay/refund", fields.into_iter().chain(notify_url), nonce);
        Ok(HttpCall { client_certificate: true, ..call })
    }

    fn interpret_refund(
        &self,
        refund: &RefundRequest,
        answer: &HttpAnswer,
        _: Timestamp,
    ) -> Result<Refunding, ProviderError> {
        self.read_refund(refund, answer)
    }

    fn query_refund(&self, refund: &RefundRequest, _: Timestamp, nonce: &Nonce) -> Result<HttpCall, ProviderError> {
        Ok(self.call("/pay/refundquery", [("out_refund_no", refund.refund.as_str().to_owned())], nonce))
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
        let body = "<xml><return_code><![CDATA[SUCCESS]]></return_code><return_msg><![CDATA[OK]]></return_msg></xml>";
        HttpAnswer::new(200, "text/xml", body)
    }

    fn refusal(&self, _: &NoticeError) -> HttpAnswer {
        let body = "<xml><return_code><![CDATA[FAIL]]></return_code><return_msg><![CDATA[refused]]></return_msg></xml>";
        HttpAnswer::new(400, "text/xml", body)
    }
}

impl WechatV2 {
    fn call<'n>(&self, path: &str, fields: impl IntoIterator<Item = (&'n str, String)>, nonce: &Nonce) -> HttpCall {
        let mut fields: Fields = fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let common = [
            ("appid", self.app_id.as_str()),
            ("mch_id", &self.mch_id),
            ("nonce_str", nonce.as_str()),
            ("sign_type", self.sign_type.as_str()),
        ];
        fields.extend(common.map(|(name, value)| (name.to_owned(), value.to_owned())));
        fields.insert("sign".to_owned(), sign(&fields, &self.key, self.sign_type));
        HttpCall {
            method: Method::Post,
            url: format!("{}{path}", self.base_url),
            headers: [("Content-Type", "text/xml; charset=utf-8")].into(),
            body: xml::write("xml", &fields).into_bytes(),
            client_certificate: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The fields and the MD5 signature are WeChat Pay's own example.
    #[test]
    fn the_published_example_is_signed_as_published() {
        let fields = [
            ("appid", "wxd930ea5d5a258f4f"),
            ("mch_id", "10000100"),
            ("device_info", "1000"),
            ("body", "test"),
            ("nonce_str", "ibuaiVcKdpRxkhJA"),
            ("empty", ""),
        ];
        let mut fields: Fields = fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let key = Secret::new("192006250b4c09247ec02edce69f6a2d");
        assert_eq!(sign(&fields, &key, SignType::Md5), "9A0A8659F005D6984697E2CA0A9CF3B7");
        let hmac = "6A9AE1657590FD6257D693A078E1C3E4BB6BA4DC30B23E0EE2496E54170DACD6";
        assert_eq!(sign(&fields, &key, SignType::HmacSha256), hmac);
        fields.insert("sign".to_owned(), hmac.to_owned());
        assert!(is_signed(&fields, &key, SignType::HmacSha256));
        assert!(!is_signed(&fields, &key, SignType::Md5), "the message must not choose the algorithm");
        fields.insert("sign".to_owned(), hmac.to_lowercase());
        assert!(!is_signed(&fields, &key, SignType::HmacSha256), "a signature has one spelling");
    }
}
