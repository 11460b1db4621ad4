//! WeChat Pay v2's notices.

use super::answers::paid;
use super::{WechatV2, is_signed};
use crate::http::HttpAnswer;
use crate::payment::{Kind, Notice, NoticeError, Outcome, Subject};
use crate::{MAX_NOTICE, xml};

impl WechatV2 {
    /// Reads and verifies a notice.
    pub fn notice(&self, body: &[u8]) -> Result<Notice, NoticeError> {
        if body.len() > MAX_NOTICE {
            return Err(NoticeError::TooLarge);
        }
        let mut fields = xml::read(body).ok_or(NoticeError::Malformed("body"))?;
        // An empty value is not signed: whoever passes the notice on could add one. It is as good as not there.
        fields.retain(|_, value| !value.is_empty());
        if fields.get("sign_type").is_some_and(|given| given != self.sign_type.as_str()) {
            return Err(NoticeError::Malformed("sign_type"));
        }
        if !is_signed(&fields, &self.key, self.sign_type) {
            return Err(NoticeError::BadSignature);
        }
        let get = |name: &'static str| fields.get(name).map(String::as_str).ok_or(NoticeError::Malformed(name));
        if get("mch_id")? != self.mch_id {
            return Err(NoticeError::NotUs("mch_id"));
        }
        if get("appid")? != self.app_id {
            return Err(NoticeError::NotUs("appid"));
        }
        if get("return_code")? != "SUCCESS" {
            return Err(NoticeError::Malformed("return_code"));
        }
        // The same key signs answers to queries, which have a trade state: such an answer is not a notice.
        if fields.contains_key("trade_state") {
            return Err(NoticeError::Malformed("trade_state"));
        }
        let outcome = match get("result_code")? {
            "SUCCESS" => Outcome::Paid,
            "FAIL" => Outcome::Failed,
            _ => return Err(NoticeError::Malformed("result_code")),
        };
        let attach = fields.get("attach").map(String::as_str);
        let subject = Subject::of(get("out_trade_no")?, attach).ok_or(NoticeError::Malformed("out_trade_no"))?;
        let paid = paid(&fields).ok_or(NoticeError::Malformed("total_fee"))?;
        Ok(Notice {
            provider: Kind::WechatV2,
            id: None,
            subject,
            payment: None,
            transaction: Some(paid.transaction),
            amount: paid.amount,
            currency: paid.currency,
            happened_at: paid.paid_at,
            outcome,
        })
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
