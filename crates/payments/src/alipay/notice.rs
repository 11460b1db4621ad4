//! Alipay's notices, and the signed query with which a buyer's browser returns from Alipay.

use super::Alipay;
use crate::MAX_NOTICE;
use crate::list::ProviderKind;
use crate::notice::{Notice, NoticeError, Outcome, Subject};
use crate::shared::form::{self, Fields};
use crate::shared::{checks, china_time, yuan};

impl Alipay {
    pub(super) fn read_notice(&self, body: &[u8]) -> Result<Notice, NoticeError> {
        let fields = self.verified(body)?;
        let one = |name: &'static str| field(&fields, name);
        let status = one("trade_status")?;
        // Alipay may name a refund of 0.00 where there was none.
        let refunded = fields.get("refund_fee").is_some_and(|fee| yuan::to_fen(fee) != Some(0));
        let outcome = match (status, refunded) {
            ("TRADE_SUCCESS" | "TRADE_FINISHED", false) => Outcome::Paid,
            ("TRADE_CLOSED", false) => Outcome::Closed,
            ("TRADE_CLOSED", true) => Outcome::Refunded,
            ("TRADE_SUCCESS" | "TRADE_FINISHED", true) => Outcome::PartlyRefunded,
            _ => Outcome::Other(status.chars().take(32).collect()),
        };
        let (amount, happened_at) = match outcome {
            Outcome::Refunded | Outcome::PartlyRefunded => ("refund_fee", "gmt_refund"),
            _ => ("total_amount", "gmt_payment"),
        };
        Ok(Notice {
            provider: ProviderKind::Alipay,
            subject: subject(&fields)?,
            transaction: Some(one("trade_no")?.to_owned()),
            amount: yuan::to_fen(one(amount)?).ok_or(NoticeError::Malformed(amount))?,
            currency: checks::yuan().ok_or(NoticeError::Malformed("currency"))?,
            happened_at: fields.get(happened_at).and_then(|time| china_time::from_spaces(time)),
            outcome,
        })
    }

    pub(super) fn read_return_query(&self, query: &str) -> Result<Subject, NoticeError> {
        subject(&self.verified(query.as_bytes())?)
    }

    /// The fields of a form that Alipay has signed for this application and this seller.
    fn verified(&self, form: &[u8]) -> Result<Fields, NoticeError> {
        if form.len() > MAX_NOTICE {
            return Err(NoticeError::TooLarge);
        }
        let mut fields = form::read(form).ok_or(NoticeError::Malformed("body"))?;
        // The signature does not cover empty values, so anyone could add one. They are ignored.
        fields.retain(|_, value| !value.is_empty());
        if field(&fields, "sign_type")? != "RSA2" {
            return Err(NoticeError::Malformed("sign_type"));
        }
        if fields.get("charset").is_some_and(|charset| !charset.eq_ignore_ascii_case("utf-8")) {
            return Err(NoticeError::Malformed("charset"));
        }
        let text = form::signed_text(&fields, &["sign", "sign_type"]);
        if !self.alipay.verify(text.as_bytes(), field(&fields, "sign")?) {
            return Err(NoticeError::BadSignature);
        }
        if field(&fields, "app_id")? != self.app_id {
            return Err(NoticeError::NotUs("app_id"));
        }
        // Alipay leaves it out of some notices. The application is this merchant's, so the payment is too.
        if fields.get("seller_id").is_some_and(|seller| *seller != self.seller_id) {
            return Err(NoticeError::NotUs("seller_id"));
        }
        Ok(fields)
    }
}

fn field<'f>(fields: &'f Fields, name: &'static str) -> Result<&'f str, NoticeError> {
    fields.get(name).map(String::as_str).filter(|value| !value.is_empty()).ok_or(NoticeError::Malformed(name))
}

fn subject(fields: &Fields) -> Result<Subject, NoticeError> {
    let order_type = fields.get("passback_params").map(String::as_str);
    Subject::of(field(fields, "out_trade_no")?, order_type).ok_or(NoticeError::Malformed("out_trade_no"))
}
