//! Alipay's answers. The signature covers the raw text of the answer's object, so that text is checked as it arrived.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Alipay, CLOSE, PRECREATE, QUERY, QUERY_REFUND, REFUND};
use crate::http::HttpAnswer;
use crate::payment::{
    Created, Paid, PaymentRef, PaymentStatus, ProviderCloseAnswer, ProviderError, RefundRequest, Refunding,
};
use crate::shared::{checks, china_time, yuan};

/// The fields that are read, of all answers together.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Body {
    code: String,
    msg: String,
    sub_code: String,
    sub_msg: String,
    out_trade_no: String,
    trade_no: String,
    trade_status: String,
    total_amount: String,
    send_pay_date: String,
    qr_code: String,
    out_request_no: String,
    fund_change: String,
    refund_status: String,
    refund_fee: String,
}

/// A verified answer.
enum Answer {
    Done(Body),
    Refused(Body),
}

fn refused(body: Body) -> ProviderError {
    let code = if body.sub_code.is_empty() { body.code } else { body.sub_code };
    let message = if body.sub_msg.is_empty() { body.msg } else { body.sub_msg };
    ProviderError::Refused { code, message }
}

impl Alipay {
    fn read(&self, method: &str, answer: &HttpAnswer) -> Result<Answer, ProviderError> {
        if answer.status != 200 {
            return Err(ProviderError::Unavailable(format!("status {}", answer.status)));
        }
        let unreadable = |_| ProviderError::Untrusted("it is not Alipay's JSON");
        let parts: BTreeMap<String, Box<RawValue>> = serde_json::from_slice(&answer.body).map_err(unreadable)?;
        let object = format!("{}_response", method.replace('.', "_"));
        let raw = parts.get(&object).or_else(|| parts.get("error_response"));
        let raw = raw.ok_or(ProviderError::Untrusted("it answers something else"))?.get();
        let body: Body = serde_json::from_str(raw).map_err(unreadable)?;
        let sign = parts.get("sign").and_then(|sign| serde_json::from_str::<String>(sign.get()).ok());
        match sign {
            Some(sign) if self.alipay.verify(raw.as_bytes(), &sign) => {}
            Some(_) => return Err(ProviderError::Untrusted("its signature is wrong")),
            // Alipay does not sign the refusal of a request whose signature it does not accept. Nothing follows from
            // it.
            None if body.code.starts_with('4') => return Err(refused(body)),
            None => return Err(ProviderError::Untrusted("it is not signed")),
        }
        match (body.code.as_str(), body.sub_code.as_str()) {
            ("10000", _) => Ok(Answer::Done(body)),
            ("20000", _) | (_, "ACQ.SYSTEM_ERROR" | "SYSTEM_ERROR" | "aop.ACQ.SYSTEM_ERROR") => {
                Err(ProviderError::Unavailable(body.sub_code))
            }
            _ => Ok(Answer::Refused(body)),
        }
    }

    pub(super) fn read_created(&self, answer: &HttpAnswer) -> Result<Created, ProviderError> {
        match self.read(PRECREATE, answer)? {
            Answer::Done(body) if !body.qr_code.is_empty() => {
                Ok(Created { pay_url: None, qr_code: Some(body.qr_code), payment: None })
            }
            Answer::Done(_) => Err(ProviderError::Untrusted("it has no QR code")),
            Answer::Refused(body) => Err(refused(body)),
        }
    }

    pub(super) fn read_status(
        &self,
        payment: &PaymentRef,
        answer: &HttpAnswer,
    ) -> Result<PaymentStatus, ProviderError> {
        let body = match self.read(QUERY, answer)? {
            Answer::Done(body) => body,
            Answer::Refused(body) if body.sub_code == "ACQ.TRADE_NOT_EXIST" => return Ok(PaymentStatus::Missing),
            Answer::Refused(body) => return Err(refused(body)),
        };
        if body.out_trade_no != payment.number.to_string() {
            return Err(ProviderError::Untrusted("it is about another payment"));
        }
        // A trade that was paid and is closed was refunded in full.
        let was_paid = !body.send_pay_date.is_empty();
        match body.trade_status.as_str() {
            "WAIT_BUYER_PAY" => Ok(PaymentStatus::NotPaid),
            "TRADE_SUCCESS" | "TRADE_FINISHED" => {
                let refunded = yuan::to_fen(&body.refund_fee).filter(|refunded| *refunded > 0);
                let paid = paid(&body)?;
                Ok(match refunded {
                    Some(refunded) => PaymentStatus::Refunded(paid, Some(refunded)),
                    None => PaymentStatus::Paid(paid),
                })
            }
            "TRADE_CLOSED" if was_paid => {
                let paid = paid(&body)?;
                let all = paid.amount;
                Ok(PaymentStatus::Refunded(paid, Some(all)))
            }
            "TRADE_CLOSED" => Ok(PaymentStatus::Closed),
            _ => Ok(PaymentStatus::Unknown(body.trade_status)),
        }
    }

    /// A QR code that was never scanned has no trade to close. That counts as closed.
    pub(super) fn read_closed(
        &self,
        payment: &PaymentRef,
        answer: &HttpAnswer,
    ) -> Result<ProviderCloseAnswer, ProviderError> {
        match self.read(CLOSE, answer)? {
            Answer::Done(body) if body.out_trade_no == payment.number.to_string() => Ok(ProviderCloseAnswer::Closed),
            Answer::Done(_) => Err(ProviderError::Untrusted("it is about another payment")),
            Answer::Refused(body) => match body.sub_code.as_str() {
                "ACQ.TRADE_NOT_EXIST" => Ok(ProviderCloseAnswer::NothingThere),
                // Paid, refunded or closed already: a query tells which.
                _ => Ok(ProviderCloseAnswer::Unclear(body.sub_code)),
            },
        }
    }

    /// `fund_change: N` means that this request moved no money, which is also true of a repeated request.
    pub(super) fn read_refund(&self, refund: &RefundRequest, answer: &HttpAnswer) -> Result<Refunding, ProviderError> {
        match self.read(REFUND, answer)? {
            Answer::Done(body) if body.trade_no != refund.transaction => {
                Err(ProviderError::Untrusted("it is about another payment"))
            }
            Answer::Done(body) if body.fund_change == "Y" => Ok(Refunding::Refunded),
            Answer::Done(_) => Ok(Refunding::Processing),
            Answer::Refused(body) => Err(refused(body)),
        }
    }

    pub(super) fn read_refund_status(
        &self,
        refund: &RefundRequest,
        answer: &HttpAnswer,
    ) -> Result<Refunding, ProviderError> {
        match self.read(QUERY_REFUND, answer)? {
            Answer::Done(body) if body.refund_status == "REFUND_PROCESSING" => Ok(Refunding::Processing),
            // Alipay leaves the status out if it has no such refund. A failed one is asked for again under its number.
            Answer::Done(body) if body.refund_status != "REFUND_SUCCESS" => Ok(Refunding::Missing),
            Answer::Done(body) if body.out_request_no == refund.refund.as_str() => Ok(Refunding::Refunded),
            Answer::Done(_) => Err(ProviderError::Untrusted("it is about another refund")),
            Answer::Refused(body) => Err(refused(body)),
        }
    }
}

fn paid(body: &Body) -> Result<Paid, ProviderError> {
    let read = || {
        Some(Paid {
            transaction: Some(body.trade_no.clone()).filter(|id| !id.is_empty())?,
            amount: yuan::to_fen(&body.total_amount)?,
            currency: checks::yuan()?,
            paid_at: china_time::from_spaces(&body.send_pay_date),
        })
    };
    read().ok_or(ProviderError::Untrusted("its amount or transaction cannot be read"))
}
