//! WeChat Pay v3's answers.

use jiff::Timestamp;
use serde::Deserialize;

use super::WechatV3;
use crate::http::HttpAnswer;
use crate::payment::{
    Created, Paid, PaymentRef, PaymentStatus, ProviderCloseAnswer, ProviderError, RefundRequest, Refunding,
};
use crate::shared::{checks, wechat};

/// A payment, in an answer to a query and in a notice.
#[derive(Deserialize)]
pub(super) struct Transaction {
    pub(super) appid: String,
    pub(super) mchid: String,
    pub(super) out_trade_no: String,
    pub(super) trade_state: String,
    pub(super) transaction_id: Option<String>,
    pub(super) attach: Option<String>,
    /// Empty, or missing, while nothing is paid.
    pub(super) success_time: Option<String>,
    pub(super) amount: Option<Amount>,
}

#[derive(Deserialize)]
pub(super) struct Amount {
    /// Missing while nothing is paid.
    pub(super) total: Option<i64>,
    pub(super) currency: Option<String>,
}

impl Transaction {
    pub(super) fn paid(&self) -> Option<Paid> {
        let amount = self.amount.as_ref()?;
        Some(Paid {
            transaction: self.transaction_id.clone().filter(|id| !id.is_empty())?,
            amount: amount.total?,
            currency: amount.currency.as_deref().map_or_else(checks::yuan, checks::currency)?,
            paid_at: self.success_time.as_deref().and_then(|time| time.parse().ok()),
        })
    }
}

#[derive(Deserialize)]
struct CodeUrl {
    code_url: String,
}

#[derive(Deserialize)]
struct Refund {
    out_refund_no: String,
    status: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Refusal {
    code: String,
    message: String,
}

/// A verified answer.
enum Answer<'a> {
    Done(&'a [u8]),
    Refused(Refusal),
}

impl WechatV3 {
    /// Verifies an answer. An unsigned refusal (because of a bad signature of the request, or from a gateway in
    /// between) is an error: nothing follows from it.
    fn read<'a>(&self, answer: &'a HttpAnswer, now: Timestamp) -> Result<Answer<'a>, ProviderError> {
        let refusal = || serde_json::from_slice::<Refusal>(&answer.body).unwrap_or_default();
        if answer.status >= 500 || answer.status == 429 {
            return Err(ProviderError::Unavailable(format!("status {} {}", answer.status, refusal().code)));
        }
        let signed = self.verify(&answer.headers, &answer.body, now);
        match (answer.status, signed) {
            (200..=299, Ok(())) => Ok(Answer::Done(&answer.body)),
            (400..=499, Ok(())) => Ok(Answer::Refused(refusal())),
            (400..=499, Err(_)) => Err(refused(refusal())),
            (_, Err(_)) => Err(ProviderError::Untrusted("it is not signed with a known key of WeChat Pay")),
            (status, Ok(())) => Err(ProviderError::Unavailable(format!("status {status}"))),
        }
    }

    pub(super) fn read_created(&self, answer: &HttpAnswer, now: Timestamp) -> Result<Created, ProviderError> {
        match self.read(answer, now)? {
            Answer::Done(body) => {
                let url: CodeUrl = json(body)?;
                Ok(Created { pay_url: None, qr_code: Some(url.code_url), payment: None })
            }
            Answer::Refused(refusal) => Err(refused(refusal)),
        }
    }

    pub(super) fn read_status(
        &self,
        payment: &PaymentRef,
        answer: &HttpAnswer,
        now: Timestamp,
    ) -> Result<PaymentStatus, ProviderError> {
        let transaction: Transaction = match self.read(answer, now)? {
            Answer::Done(body) => json(body)?,
            Answer::Refused(refusal) if is_missing(&refusal.code) => return Ok(PaymentStatus::Missing),
            Answer::Refused(refusal) => return Err(refused(refusal)),
        };
        if transaction.out_trade_no != payment.number.to_string() || transaction.mchid != self.mch_id {
            return Err(ProviderError::Untrusted("it is about another payment"));
        }
        wechat::status(&transaction.trade_state, || transaction.paid())
    }

    pub(super) fn read_closed(
        &self,
        answer: &HttpAnswer,
        now: Timestamp,
    ) -> Result<ProviderCloseAnswer, ProviderError> {
        Ok(match self.read(answer, now)? {
            Answer::Done(_) => ProviderCloseAnswer::Closed,
            Answer::Refused(refusal) => match refusal.code.as_str() {
                "ORDER_CLOSED" | "ORDERCLOSED" => ProviderCloseAnswer::Closed,
                "ORDERPAID" | "ORDER_PAID" => ProviderCloseAnswer::AlreadyPaid,
                code if is_missing(code) => ProviderCloseAnswer::NothingThere,
                _ => ProviderCloseAnswer::Unclear(refusal.code),
            },
        })
    }

    /// Reads the answer to a query about a refund: the same as to the refund itself, or that there is none.
    pub(super) fn read_refund_status(
        &self,
        refund: &RefundRequest,
        answer: &HttpAnswer,
        now: Timestamp,
    ) -> Result<Refunding, ProviderError> {
        match self.read_refund(refund, answer, now) {
            Err(ProviderError::Refused { code, .. }) if code == "RESOURCE_NOT_EXISTS" => Ok(Refunding::Missing),
            other => other,
        }
    }

    /// Reads the answer to a refund.
    pub(super) fn read_refund(
        &self,
        refund: &RefundRequest,
        answer: &HttpAnswer,
        now: Timestamp,
    ) -> Result<Refunding, ProviderError> {
        let made: Refund = match self.read(answer, now)? {
            Answer::Done(body) => json(body)?,
            Answer::Refused(refusal) => return Err(refused(refusal)),
        };
        if made.out_refund_no != refund.refund.as_str() {
            return Err(ProviderError::Untrusted("it is about another refund"));
        }
        Ok(match made.status.as_str() {
            "SUCCESS" => Refunding::Refunded,
            "PROCESSING" => Refunding::Processing,
            "CLOSED" => Refunding::Failed(made.status),
            // ABNORMAL: the buyer's card does not take the money. It is sent on in WeChat Pay's console.
            _ => Refunding::Stuck(made.status),
        })
    }
}

fn is_missing(code: &str) -> bool {
    matches!(code, "ORDER_NOT_EXIST" | "ORDERNOTEXIST")
}

fn refused(refusal: Refusal) -> ProviderError {
    ProviderError::Refused { code: refusal.code, message: refusal.message }
}

fn json<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, ProviderError> {
    serde_json::from_slice(body).map_err(|_| ProviderError::Untrusted("it is not WeChat Pay's JSON"))
}
