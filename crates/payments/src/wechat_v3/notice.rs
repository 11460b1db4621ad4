//! WeChat Pay v3's notices: the signature over the raw body is verified, then the content is decrypted, then read.

use jiff::Timestamp;
use serde::Deserialize;

use super::answers::Transaction;
use super::{WechatV3, platform_text};
use crate::http::Headers;
use crate::list::ProviderKind;
use crate::notice::{Notice, NoticeError, Outcome, Subject};
use crate::payment::Paid;
use crate::shared::checks;
use crate::{MAX_NOTICE, MAX_SKEW_S};

#[derive(Deserialize)]
struct Envelope {
    event_type: String,
    resource: Resource,
}

#[derive(Deserialize)]
struct Resource {
    algorithm: String,
    ciphertext: String,
    #[serde(default)]
    associated_data: String,
    nonce: String,
}

#[derive(Deserialize)]
struct Refund {
    mchid: String,
    out_trade_no: String,
    transaction_id: String,
    refund_status: String,
    success_time: Option<Timestamp>,
    amount: RefundAmount,
}

#[derive(Deserialize)]
struct RefundAmount {
    refund: i64,
}

impl WechatV3 {
    pub(super) fn read_notice(&self, headers: &Headers, body: &[u8], now: Timestamp) -> Result<Notice, NoticeError> {
        self.verify(headers, body, now)?;
        let envelope: Envelope = serde_json::from_slice(body).map_err(|_| NoticeError::Malformed("body"))?;
        let resource = &envelope.resource;
        if resource.algorithm != "AEAD_AES_256_GCM" {
            return Err(NoticeError::Malformed("resource.algorithm"));
        }
        let content = self
            .content_key
            .open(&resource.nonce, &resource.associated_data, &resource.ciphertext)
            .ok_or(NoticeError::Malformed("resource.ciphertext"))?;
        if envelope.event_type.starts_with("TRANSACTION.") {
            self.payment_notice(&content)
        } else if envelope.event_type.starts_with("REFUND.") {
            self.refund_notice(&content)
        } else {
            Err(NoticeError::NotOurs(envelope.event_type.chars().take(64).collect()))
        }
    }

    fn payment_notice(&self, content: &[u8]) -> Result<Notice, NoticeError> {
        let transaction: Transaction =
            serde_json::from_slice(content).map_err(|_| NoticeError::Malformed("resource"))?;
        if transaction.mchid != self.mch_id {
            return Err(NoticeError::NotUs("mchid"));
        }
        if transaction.appid != self.app_id {
            return Err(NoticeError::NotUs("appid"));
        }
        let outcome = match transaction.trade_state.as_str() {
            "SUCCESS" => Outcome::Paid,
            "CLOSED" | "REVOKED" => Outcome::Closed,
            "PAYERROR" => Outcome::Failed,
            other => Outcome::Other(other.chars().take(32).collect()),
        };
        let paid = transaction.paid().filter(|paid| paid.amount > 0).ok_or(NoticeError::Malformed("amount"))?;
        let subject = Subject::of(&transaction.out_trade_no, transaction.attach.as_deref());
        let subject = subject.ok_or(NoticeError::Malformed("out_trade_no"))?;
        Ok(Notice::new(ProviderKind::WechatV3, subject, paid, outcome))
    }

    fn refund_notice(&self, content: &[u8]) -> Result<Notice, NoticeError> {
        let refund: Refund = serde_json::from_slice(content).map_err(|_| NoticeError::Malformed("resource"))?;
        if refund.mchid != self.mch_id {
            return Err(NoticeError::NotUs("mchid"));
        }
        let outcome = if refund.refund_status == "SUCCESS" { Outcome::Refunded } else { Outcome::RefundFailed };
        // The notice of a refund has no attach field.
        let subject = Subject::of(&refund.out_trade_no, None).ok_or(NoticeError::Malformed("out_trade_no"))?;
        let money = Paid {
            transaction: refund.transaction_id,
            amount: refund.amount.refund,
            currency: checks::yuan().ok_or(NoticeError::Malformed("currency"))?,
            paid_at: refund.success_time,
        };
        Ok(Notice::new(ProviderKind::WechatV3, subject, money, outcome))
    }

    /// Checks that WeChat Pay has signed this body, recently, with a key that is in the settings.
    pub(super) fn verify(&self, headers: &Headers, body: &[u8], now: Timestamp) -> Result<(), NoticeError> {
        if body.len() > MAX_NOTICE {
            return Err(NoticeError::TooLarge);
        }
        let one = |name: &'static str| headers.one(name).ok_or(NoticeError::Malformed(name));
        let (time, nonce) = (one("Wechatpay-Timestamp")?, one("Wechatpay-Nonce")?);
        let (serial, signature) = (one("Wechatpay-Serial")?, one("Wechatpay-Signature")?);
        let seconds: i64 = time.parse().map_err(|_| NoticeError::Malformed("Wechatpay-Timestamp"))?;
        let age = now.as_second().saturating_sub(seconds);
        if age.saturating_abs() >= MAX_SKEW_S {
            return Err(NoticeError::Stale(age));
        }
        if signature.starts_with("WECHATPAY/SIGNTEST/") {
            return Err(NoticeError::Probe);
        }
        let unknown = || NoticeError::UnknownKey(serial.chars().take(64).collect());
        let key = self.platform_keys.get(serial).ok_or_else(unknown)?;
        if !key.verify(&platform_text(time, nonce, body), signature) {
            return Err(NoticeError::BadSignature);
        }
        Ok(())
    }
}
