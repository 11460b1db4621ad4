//! WeChat Pay v3's answers.

use jiff::Timestamp;
use serde::Deserialize;

use super::WechatV3;
use crate::http::HttpAnswer;
use crate::payment::{ProviderCloseAnswer, Created, Paid, PaymentRef, ProviderError, RefundRequest, Refunding, PaymentStatus};
use crate::{checks, wechat};

/// What is paid, in an answer to a query and in a notice.
#[derive(Deserialize)]
pub(super) struct Transaction {
    pub(super) appid: String,
    pub(super) mchid: String,
    pub(super) out_trade_no: String,
    pub(super) trade_state: String,
    pub(super) transaction_id: Option<String>,
    pub(super) attach: Option<String>,
    pub(super) success_time: Option<Timestamp>,
    pub(super) amount: Option<Amount>,
}

#[derive(Deserialize)]
pub(super) struct Amount {
    pub(super) total: i64,
    pub(super) currency: Option<String>,
}

impl Transaction {
    pub(super) fn paid(&self) -> Option<Paid> {
        let amount = self.amount.as_ref()?;
        Some(Paid {
            transaction: self.transaction_id.clone().filter(|number| !number.is_empty())?,
            amount: amount.total,
            currency: amount.currency.as_deref().map_or_else(checks::yuan, checks::currency)?,
            paid_at: self.success_time,
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
struct Complaint {
    code: String,
    message: String,
}

/// A verified answer.
enum Answer<'a> {
    Done(&'a [u8]),
    No(Complaint),
}

impl WechatV3 {
    /// A signed yes or no. A no without a signature (a bad request signature, a gateway in between) concludes nothing.
    fn read<'a>(&self, answer: &'a HttpAnswer, now: Timestamp) -> Result<Answer<'a>, ProviderError> {
        let complaint = || serde_json::from_slice::<Complaint>(&answer.body).unwrap_or_default();
        if answer.status >= 500 || answer.status == 429 {
            return Err(ProviderError::Unavailable(format!("status {} {}", answer.status, complaint().code)));
        }
        let signed = self.verify(&answer.headers, &answer.body, now);
        match (answer.status, signed) {
            (200..=299, Ok(())) => Ok(Answer::Done(&answer.body)),
            (400..=499, Ok(())) => Ok(Answer::No(complaint())),
            (400..=499, Err(_)) => Err(refused(complaint())),
            (_, Err(_)) => Err(ProviderError::Untrusted("it is not signed by a known key of WeChat Pay's")),
            (status, Ok(())) => Err(ProviderError::Unavailable(format!("status {status}"))),
        }
    }

    /// The QR code.
    pub fn interpret_create(&self, answer: &HttpAnswer, now: Timestamp) -> Result<Created, ProviderError> {
        match self.read(answer, now)? {
            Answer::Done(body) => {
                let url: CodeUrl = json(body)?;
                Ok(Created { pay_url: None, qr_code: Some(url.code_url), payment: None })
            }
            Answer::No(complaint) => Err(refused(complaint)),
        }
    }

    /// Where the payment stands.
    pub fn interpret_query(
        &self,
        payment: &PaymentRef,
        answer: &HttpAnswer,
        now: Timestamp,
    ) -> Result<PaymentStatus, ProviderError> {
        let transaction: Transaction = match self.read(answer, now)? {
            Answer::Done(body) => json(body)?,
            Answer::No(no) if is_missing(&no.code) => return Ok(PaymentStatus::Missing),
            Answer::No(complaint) => return Err(refused(complaint)),
        };
        if transaction.out_trade_no != payment.number.to_string() || transaction.mchid != self.mch_id {
            return Err(ProviderError::Untrusted("it is about another payment"));
        }
        wechat::standing(&transaction.trade_state, || transaction.paid())
    }

    /// Whether it is closed. The answer does not name the order: it is bound to the request by the connection alone.
    pub fn interpret_close(&self, answer: &HttpAnswer, now: Timestamp) -> Result<ProviderCloseAnswer, ProviderError> {
        Ok(match self.read(answer, now)? {
            Answer::Done(_) => ProviderCloseAnswer::Closed,
            Answer::No(complaint) => match complaint.code.as_str() {
                "ORDER_CLOSED" | "ORDERCLOSED" => ProviderCloseAnswer::Closed,
                "ORDERPAID" | "ORDER_PAID" => ProviderCloseAnswer::AlreadyPaid,
                code if is_missing(code) => ProviderCloseAnswer::NothingThere,
                _ => ProviderCloseAnswer::Unclear(complaint.code),
            },
        })
    }

    /// Whether the money went back; for the refund itself and for asking about it.
    pub fn interpret_refund(
        &self,
        refund: &RefundRequest,
        answer: &HttpAnswer,
        now: Timestamp,
    ) -> Result<Refunding, ProviderError> {
        let standing: Refund = match self.read(answer, now)? {
            Answer::Done(body) => json(body)?,
            Answer::No(complaint) => return Err(refused(complaint)),
        };
        if standing.out_refund_no != refund.refund.as_str() {
            return Err(ProviderError::Untrusted("it is about another refund"));
        }
        Ok(match standing.status.as_str() {
            "SUCCESS" => Refunding::Refunded,
            "PROCESSING" => Refunding::Processing,
            _ => Refunding::Failed(standing.status),
        })
    }
}

fn is_missing(code: &str) -> bool {
    matches!(code, "ORDER_NOT_EXIST" | "ORDERNOTEXIST")
}

fn refused(complaint: Complaint) -> ProviderError {
    ProviderError::Refused { code: complaint.code, message: complaint.message }
}

fn json<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, ProviderError> {
    serde_json::from_slice(body).map_err(|_| ProviderError::Untrusted("it is not WeChat Pay's JSON"))
}
