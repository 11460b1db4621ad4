//! WeChat Pay v2's notices.

use super::answers::{fen, paid};
use super::{WechatV2, is_signed, open_with_digest};
use crate::form::Fields;
use crate::http::HttpAnswer;
use crate::notice::{Notice, NoticeError, Outcome, Subject};
use crate::payment::{Kind, Paid};
use crate::{MAX_NOTICE, checks, china, xml};

impl WechatV2 {
    /// Reads and verifies a notice: of a payment, which is signed, or of a refund, which is encrypted.
    pub fn notice(&self, body: &[u8]) -> Result<Notice, NoticeError> {
        if body.len() > MAX_NOTICE {
            return Err(NoticeError::TooLarge);
        }
        let mut fields = xml::read("xml", body).ok_or(NoticeError::Malformed("body"))?;
        // An empty value is not signed: whoever passes the notice on could add one. It is as good as not there.
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
        self.is_for_us(fields)?;
        // The same key signs answers to queries, which have a trade state: such an answer is not a notice.
        if fields.contains_key("trade_state") {
            return Err(NoticeError::Malformed("trade_state"));
        }
        let outcome = match get(fields, "result_code")? {
            "SUCCESS" => Outcome::Paid,
            "FAIL" => Outcome::Failed,
            _ => return Err(NoticeError::Malformed("result_code")),
        };
        let subject = subject(fields, fields.get("attach").map(String::as_str))?;
        let paid = paid(fields).ok_or(NoticeError::Malformed("total_fee"))?;
        Ok(Notice::new(Kind::WechatV2, subject, paid, outcome))
    }

    /// A refund's notice has no signature: whoever made it knew the key that its content is encrypted with. The way of encrypting
    /// (each block by itself) does not keep blocks of genuine notices from being put together anew, so it is to be asked about.
    fn refund_notice(&self, fields: &Fields, sealed: &str) -> Result<Notice, NoticeError> {
        self.is_for_us(fields)?;
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
            paid_at: refund.get("success_time").and_then(|time| china::from_spaces(time)),
        };
        Ok(Notice::new(Kind::WechatV2, subject(&refund, None)?, money, outcome))
    }

    fn is_for_us(&self, fields: &Fields) -> Result<(), NoticeError> {
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

    /// What WeChat Pay wants to read.
    pub fn success(&self) -> HttpAnswer {
        let body = "<xml><return_code><![CDATA[SUCCESS]]></return_code><return_msg><![CDATA[OK]]></return_msg></xml>";
        HttpAnswer::new(200, "text/xml", body)
    }

    /// WeChat Pay tries again.
    pub fn failure(&self) -> HttpAnswer {
        let body = "<xml><return_code><![CDATA[FAIL]]></return_code><return_msg><![CDATA[refused]]></return_msg></xml>";
        HttpAnswer::new(400, "text/xml", body)
    }
}

fn get<'f>(fields: &'f Fields, name: &'static str) -> Result<&'f str, NoticeError> {
    fields.get(name).map(String::as_str).ok_or(NoticeError::Malformed(name))
}

fn subject(fields: &Fields, attach: Option<&str>) -> Result<Subject, NoticeError> {
    Subject::of(get(fields, "out_trade_no")?, attach).ok_or(NoticeError::Malformed("out_trade_no"))
}
