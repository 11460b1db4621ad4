//! WeChat Pay v2's notices.

use super::answers::{fen, paid};
use super::{WechatV2, is_signed, open_with_digest};
use crate::MAX_NOTICE;
use crate::list::ProviderKind;
use crate::notice::{Notice, NoticeError, Outcome, Subject};
use crate::payment::Paid;
use crate::shared::form::Fields;
use crate::shared::{checks, china_time, xml};

impl WechatV2 {
    /// Reads the notice of a payment, which is signed, or of a refund, which is encrypted.
    pub(super) fn read_notice(&self, body: &[u8]) -> Result<Notice, NoticeError> {
        if body.len() > MAX_NOTICE {
            return Err(NoticeError::TooLarge);
        }
        let mut fields = xml::read("xml", body).ok_or(NoticeError::Malformed("body"))?;
        // The signature does not cover empty values, so anyone could add one. They are ignored.
        fields.retain(|_, value| !value.is_empty());
        match fields.get("req_info") {
            Some(sealed) => self.refund_notice(&fields, sealed),
            None => self.payment_notice(&fields),
        }
    }

    fn payment_notice(&self, fields: &Fields) -> Result<Notice, NoticeError> {
        if fields.get("sign_type").is_some_and(|given| given != self.sign_type.as_str()) {
            return Err(NoticeError::Malformed("sign_type"));
        }
        if !is_signed(fields, &self.key, self.sign_type) {
            return Err(NoticeError::BadSignature);
        }
        self.check_recipient(fields)?;
        // The same key signs answers: to queries, which have a trade state, and to refunds and queries about them,
        // which have a refund's number. Such an answer must not pass for a notice.
        if fields.contains_key("trade_state") {
            return Err(NoticeError::Malformed("trade_state"));
        }
        if fields.keys().any(|name| name.starts_with("out_refund_no") || name.starts_with("refund_")) {
            return Err(NoticeError::Malformed("out_refund_no"));
        }
        let outcome = match get(fields, "result_code")? {
            "SUCCESS" => Outcome::Paid,
            "FAIL" => Outcome::Failed,
            _ => return Err(NoticeError::Malformed("result_code")),
        };
        let subject = subject(fields, fields.get("attach").map(String::as_str))?;
        let paid = paid(fields).ok_or(NoticeError::Malformed("total_fee"))?;
        Ok(Notice::new(ProviderKind::WechatV2, subject, paid, outcome))
    }

    /// The notice of a refund is not signed. Its content is encrypted with the shared key, but block by block (ECB),
    /// so blocks of genuine notices could be recombined. The caller must therefore confirm it with a query.
    fn refund_notice(&self, fields: &Fields, sealed: &str) -> Result<Notice, NoticeError> {
        self.check_recipient(fields)?;
        let content = open_with_digest(&self.key, sealed).ok_or(NoticeError::BadSignature)?;
        let mut refund = xml::read("root", &content).ok_or(NoticeError::Malformed("req_info"))?;
        refund.retain(|_, value| !value.is_empty());
        let outcome = match get(&refund, "refund_status")? {
            "SUCCESS" => Outcome::Refunded,
            "CHANGE" | "REFUNDCLOSE" => Outcome::RefundFailed,
            other => Outcome::Other(other.chars().take(32).collect()),
        };
        let money = Paid {
            transaction: get(&refund, "transaction_id")?.to_owned(),
            amount: fen(&refund, "refund_fee").ok_or(NoticeError::Malformed("refund_fee"))?,
            currency: checks::yuan().ok_or(NoticeError::Malformed("currency"))?,
            paid_at: refund.get("success_time").and_then(|time| china_time::from_spaces(time)),
        };
        Ok(Notice::new(ProviderKind::WechatV2, subject(&refund, None)?, money, outcome))
    }

    fn check_recipient(&self, fields: &Fields) -> Result<(), NoticeError> {
        if get(fields, "mch_id")? != self.mch_id {
            return Err(NoticeError::NotUs("mch_id"));
        }
        if get(fields, "appid")? != self.app_id {
            return Err(NoticeError::NotUs("appid"));
        }
        if get(fields, "return_code")? != "SUCCESS" {
            return Err(NoticeError::Malformed("return_code"));
        }
        Ok(())
    }
}

fn get<'f>(fields: &'f Fields, name: &'static str) -> Result<&'f str, NoticeError> {
    fields.get(name).map(String::as_str).ok_or(NoticeError::Malformed(name))
}

fn subject(fields: &Fields, attach: Option<&str>) -> Result<Subject, NoticeError> {
    Subject::of(get(fields, "out_trade_no")?, attach).ok_or(NoticeError::Malformed("out_trade_no"))
}
