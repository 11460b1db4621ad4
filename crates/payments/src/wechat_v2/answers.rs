//! WeChat Pay v2's answers. `return_code` tells whether the call was understood (if it was not, the answer is not
//! signed); `result_code` tells its result.

use super::{WechatV2, is_signed};
use crate::http::HttpAnswer;
use crate::payment::{
    Created, Paid, PaymentRef, PaymentStatus, ProviderCloseAnswer, ProviderError, RefundRequest, Refunding,
};
use crate::shared::form::Fields;
use crate::shared::{checks, china_time, wechat, xml};

/// A verified answer.
enum Answer {
    Done(Fields),
    Refused(Fields),
}

fn get<'f>(fields: &'f Fields, name: &str) -> &'f str {
    fields.get(name).map_or("", String::as_str)
}

fn refused(code: &str, message: &str) -> ProviderError {
    ProviderError::Refused { code: code.to_owned(), message: message.to_owned() }
}

impl Answer {
    fn done(self) -> Result<Fields, ProviderError> {
        match self {
            Self::Done(fields) => Ok(fields),
            Self::Refused(fields) => Err(refused(get(&fields, "err_code"), get(&fields, "err_code_des"))),
        }
    }
}

impl WechatV2 {
    fn read(&self, answer: &HttpAnswer) -> Result<Answer, ProviderError> {
        if answer.status != 200 {
            return Err(ProviderError::Unavailable(format!("status {}", answer.status)));
        }
        let mut fields =
            xml::read("xml", &answer.body).ok_or(ProviderError::Untrusted("it is not WeChat Pay's XML"))?;
        fields.retain(|_, value| !value.is_empty());
        if get(&fields, "return_code") != "SUCCESS" {
            return Err(refused(get(&fields, "return_code"), get(&fields, "return_msg")));
        }
        if !is_signed(&fields, &self.key, self.sign_type) {
            return Err(ProviderError::Untrusted("its signature is wrong"));
        }
        if get(&fields, "mch_id") != self.mch_id || get(&fields, "appid") != self.app_id {
            return Err(ProviderError::Untrusted("it is for another merchant"));
        }
        match (get(&fields, "result_code"), get(&fields, "err_code")) {
            ("SUCCESS", _) => Ok(Answer::Done(fields)),
            (_, code @ ("SYSTEMERROR" | "BIZERR_NEED_RETRY" | "FREQUENCY_LIMITED")) => {
                Err(ProviderError::Unavailable(code.to_owned()))
            }
            _ => Ok(Answer::Refused(fields)),
        }
    }

    pub(super) fn read_created(&self, answer: &HttpAnswer) -> Result<Created, ProviderError> {
        let fields = self.read(answer)?.done()?;
        let qr_code = fields.get("code_url").cloned().ok_or(ProviderError::Untrusted("it has no QR code"))?;
        Ok(Created { pay_url: None, qr_code: Some(qr_code), payment: None })
    }

    pub(super) fn read_status(
        &self,
        payment: &PaymentRef,
        answer: &HttpAnswer,
    ) -> Result<PaymentStatus, ProviderError> {
        let fields = match self.read(answer)? {
            Answer::Refused(fields) if get(&fields, "err_code") == "ORDERNOTEXIST" => {
                return Ok(PaymentStatus::Missing);
            }
            other => other.done()?,
        };
        if get(&fields, "out_trade_no") != payment.number.to_string() {
            return Err(ProviderError::Untrusted("it is about another payment"));
        }
        wechat::status(get(&fields, "trade_state"), || paid(&fields))
    }

    pub(super) fn read_closed(&self, answer: &HttpAnswer) -> Result<ProviderCloseAnswer, ProviderError> {
        Ok(match self.read(answer)? {
            Answer::Done(_) => ProviderCloseAnswer::Closed,
            Answer::Refused(fields) => match get(&fields, "err_code") {
                "ORDERCLOSED" => ProviderCloseAnswer::Closed,
                "ORDERPAID" => ProviderCloseAnswer::AlreadyPaid,
                "ORDERNOTEXIST" => ProviderCloseAnswer::NothingThere,
                other => ProviderCloseAnswer::Unclear(other.to_owned()),
            },
        })
    }

    /// WeChat Pay v2 only confirms that it has accepted the refund. `query_refund` tells when it is done.
    pub(super) fn read_refund(&self, refund: &RefundRequest, answer: &HttpAnswer) -> Result<Refunding, ProviderError> {
        let fields = self.read(answer)?.done()?;
        if get(&fields, "out_refund_no") != refund.refund.as_str() {
            return Err(ProviderError::Untrusted("it is about another refund"));
        }
        Ok(Refunding::Processing)
    }

    /// The query names one refund, so the answer contains that refund alone, with the index 0.
    pub(super) fn read_refund_status(
        &self,
        refund: &RefundRequest,
        answer: &HttpAnswer,
    ) -> Result<Refunding, ProviderError> {
        let fields = match self.read(answer)? {
            Answer::Refused(fields) if get(&fields, "err_code") == "REFUNDNOTEXIST" => return Ok(Refunding::Missing),
            other => other.done()?,
        };
        if get(&fields, "out_refund_no_0") != refund.refund.as_str() {
            return Err(ProviderError::Untrusted("it is about another refund"));
        }
        Ok(match get(&fields, "refund_status_0") {
            "SUCCESS" => Refunding::Refunded,
            "PROCESSING" => Refunding::Processing,
            "REFUNDCLOSE" => Refunding::Failed("REFUNDCLOSE".to_owned()),
            // CHANGE: the buyer's card does not take the money. It is sent on in WeChat Pay's console.
            other => Refunding::Stuck(other.to_owned()),
        })
    }
}

/// The money that an answer or a notice reports.
pub(super) fn paid(fields: &Fields) -> Option<Paid> {
    Some(Paid {
        transaction: fields.get("transaction_id").cloned()?,
        amount: fen(fields, "total_fee")?,
        currency: fields.get("fee_type").map_or_else(checks::yuan, |text| checks::currency(text))?,
        paid_at: fields.get("time_end").and_then(|time| china_time::from_digits(time)),
    })
}

/// An amount: only digits, and more than zero.
pub(super) fn fen(fields: &Fields, name: &str) -> Option<i64> {
    let digits = fields.get(name).filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?;
    digits.parse().ok().filter(|amount| *amount > 0)
}
