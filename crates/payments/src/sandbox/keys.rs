//! The sandbox's keys: made once, kept by the caller, and given to the merchant's side as settings.

use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der, PublicKeyX509Der};
use aws_lc_rs::rsa::{KeyPair, KeySize};
use aws_lc_rs::signature::KeyPair as _;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::list::ProviderKind;
use crate::shared::crypto::{SettingsError, hex, to_base64};

/// Both halves of an RSA key, in PEM.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Pair {
    pub(super) private: String,
    pub(super) public: String,
}

/// The keys and ids of both sides. It serialises with all its secrets, and prints none.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Keys {
    pub(super) app_id: String,
    pub(super) merchant_id: String,
    pub(super) merchant: Pair,
    pub(super) alipay: Pair,
    pub(super) wechat: Pair,
    pub(super) merchant_serial: String,
    pub(super) wechat_serial: String,
    pub(super) api_v3_key: String,
    pub(super) api_v2_key: String,
    pub(super) stripe_key: String,
    pub(super) stripe_webhook_secret: String,
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keys").field("merchant_id", &self.merchant_id).finish_non_exhaustive()
    }
}

impl Keys {
    /// New keys. Unlike all else in this crate, this draws random numbers, and takes about a second.
    pub fn generate() -> Result<Self, SettingsError> {
        Ok(Self {
            app_id: format!("sandbox{}", random_hex::<4>()?),
            merchant_id: "1900000001".to_owned(),
            merchant: pair()?,
            alipay: pair()?,
            wechat: pair()?,
            merchant_serial: random_hex::<20>()?.to_ascii_uppercase(),
            wechat_serial: format!("PUB_KEY_ID_{}", random_hex::<16>()?),
            api_v3_key: random_hex::<16>()?,
            api_v2_key: random_hex::<16>()?,
            stripe_key: format!("sk_test_{}", random_hex::<16>()?),
            stripe_webhook_secret: format!("whsec_{}", random_hex::<16>()?),
        })
    }

    /// The merchant's settings for a provider whose sandbox is below this address: `{base_url}/alipay/gateway.do`,
    /// `{base_url}/wechat/v3/…`, `{base_url}/wechat-v2/pay/…`, `{base_url}/stripe/v1/…`.
    pub fn settings(&self, kind: ProviderKind, base_url: &str) -> String {
        let base = format!("{}/{kind}", base_url.trim_end_matches('/'));
        let settings = match kind {
            ProviderKind::Alipay => json!({
                "appId": self.app_id, "sellerId": self.merchant_id, "privateKey": self.merchant.private,
                "alipayPublicKey": self.alipay.public, "gateway": format!("{base}/gateway.do"),
            }),
            ProviderKind::WechatV3 => json!({
                "appId": self.app_id, "mchId": self.merchant_id, "serialNo": self.merchant_serial,
                "privateKey": self.merchant.private, "apiV3Key": self.api_v3_key,
                "platformKeys": {&self.wechat_serial: self.wechat.public}, "baseUrl": base,
            }),
            ProviderKind::WechatV2 => json!({
                "appId": self.app_id, "mchId": self.merchant_id, "key": self.api_v2_key, "signType": "HMAC-SHA256",
                "baseUrl": base,
            }),
            ProviderKind::Stripe => json!({
                "secretKey": self.stripe_key, "webhookSecrets": [self.stripe_webhook_secret], "baseUrl": base,
            }),
            #[cfg(test)]
            ProviderKind::Toy => json!({"key": self.api_v2_key, "baseUrl": base}),
        };
        settings.to_string()
    }
}

fn failed<E>(_: E) -> SettingsError {
    SettingsError::new("sandbox keys", "could not be made")
}

fn pair() -> Result<Pair, SettingsError> {
    let key = KeyPair::generate(KeySize::Rsa2048).map_err(failed)?;
    let private: Pkcs8V1Der<'_> = key.as_der().map_err(failed)?;
    let public: PublicKeyX509Der<'_> = key.public_key().as_der().map_err(failed)?;
    Ok(Pair { private: pem("PRIVATE KEY", private.as_ref()), public: pem("PUBLIC KEY", public.as_ref()) })
}

fn pem(label: &str, der: &[u8]) -> String {
    let text = to_base64(der);
    let lines: Vec<_> = text.as_bytes().chunks(64).map(String::from_utf8_lossy).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
}

fn random_hex<const BYTES: usize>() -> Result<String, SettingsError> {
    let mut bytes = [0; BYTES];
    aws_lc_rs::rand::fill(&mut bytes).map_err(failed)?;
    Ok(hex(&bytes))
}
