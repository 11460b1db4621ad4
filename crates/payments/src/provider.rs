//! The one interface. Which provider it is, only the settings decide; a flow does not know.

use std::fmt;

use jiff::{SignedDuration, Timestamp};

use crate::alipay::Alipay;
use crate::crypto::SettingsError;
use crate::http::{Headers, HttpAnswer, HttpCall};
use crate::notice::{Notice, NoticeError, Subject};
use crate::payment::{
    ProviderCloseAnswer, Created, Kind, Nonce, PaymentRef, PaymentRequest, ProviderError, RefundRequest, Refunding, PaymentStatus, Start,
};
use crate::stripe::Stripe;
use crate::wechat_v2::WechatV2;
use crate::wechat_v3::WechatV3;

/// A provider with its settings.
pub enum Provider {
    /// Alipay.
    Alipay(Box<Alipay>),
    /// WeChat Pay v3.
    WechatV3(Box<WechatV3>),
    /// WeChat Pay v2.
    WechatV2(Box<WechatV2>),
    /// Stripe.
    Stripe(Box<Stripe>),
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Alipay(it) => it.fmt(f),
            Self::WechatV3(it) => it.fmt(f),
            Self::WechatV2(it) => it.fmt(f),
            Self::Stripe(it) => it.fmt(f),
        }
    }
}

impl Provider {
    /// From the provider's secret, a JSON object; each provider's `from_json` says what is in it.
    pub fn from_json(kind: Kind, json: &str) -> Result<Self, SettingsError> {
        Ok(match kind {
            Kind::Alipay => Self::Alipay(Box::new(Alipay::from_json(json)?)),
            Kind::WechatV3 => Self::WechatV3(Box::new(WechatV3::from_json(json)?)),
            Kind::WechatV2 => Self::WechatV2(Box::new(WechatV2::from_json(json)?)),
            Kind::Stripe => Self::Stripe(Box::new(Stripe::from_json(json)?)),
        })
    }

    /// Which one it is.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Alipay(_) => Kind::Alipay,
            Self::WechatV3(_) => Kind::WechatV3,
            Self::WechatV2(_) => Kind::WechatV2,
            Self::Stripe(_) => Kind::Stripe,
        }
    }

    /// How old a payment must be before it can be closed. Sooner, WeChat Pay v2 refuses.
    pub fn closable_after(&self) -> SignedDuration {
        match self {
            Self::WechatV2(_) => SignedDuration::from_mins(5),
            Self::Alipay(_) | Self::WechatV3(_) | Self::Stripe(_) => SignedDuration::ZERO,
        }
    }

    /// Starts a payment.
    pub fn create(&self, request: &PaymentRequest, now: Timestamp, nonce: &Nonce) -> Result<Start, ProviderError> {
        match self {
            Self::Alipay(it) => it.create(request, now),
            Self::WechatV3(it) => it.create(request, now, nonce),
            Self::WechatV2(it) => it.create(request, nonce),
            Self::Stripe(it) => it.create(request, now),
        }
    }

    /// The payment that the buyer can now make.
    pub fn interpret_create(&self, answer: &HttpAnswer, now: Timestamp) -> Result<Created, ProviderError> {
        match self {
            Self::Alipay(it) => it.interpret_create(answer),
            Self::WechatV3(it) => it.interpret_create(answer, now),
            Self::WechatV2(it) => it.interpret_create(answer),
            Self::Stripe(it) => it.interpret_create(answer),
        }
    }

    /// Asks where a payment stands.
    pub fn query(&self, payment: &PaymentRef, now: Timestamp, nonce: &Nonce) -> Result<HttpCall, ProviderError> {
        match self {
            Self::Alipay(it) => Ok(it.query(payment, now)),
            Self::WechatV3(it) => Ok(it.query(payment, now, nonce)),
            Self::WechatV2(it) => Ok(it.query(payment, nonce)),
            Self::Stripe(it) => it.query(payment),
        }
    }

    /// Where the payment stands.
    pub fn interpret_query(
        &self,
        payment: &PaymentRef,
        answer: &HttpAnswer,
        now: Timestamp,
    ) -> Result<PaymentStatus, ProviderError> {
        match self {
            Self::Alipay(it) => it.interpret_query(payment, answer),
            Self::WechatV3(it) => it.interpret_query(payment, answer, now),
            Self::WechatV2(it) => it.interpret_query(payment, answer),
            Self::Stripe(it) => it.interpret_query(payment, answer),
        }
    }

    /// Asks that a payment cannot be made any more.
    pub fn close(&self, payment: &PaymentRef, now: Timestamp, nonce: &Nonce) -> Result<HttpCall, ProviderError> {
        match self {
            Self::Alipay(it) => Ok(it.close(payment, now)),
            Self::WechatV3(it) => Ok(it.close(payment, now, nonce)),
            Self::WechatV2(it) => Ok(it.close(payment, nonce)),
            Self::Stripe(it) => it.close(payment),
        }
    }

    /// Whether it is closed.
    pub fn interpret_close(
        &self,
        payment: &PaymentRef,
        answer: &HttpAnswer,
        now: Timestamp,
    ) -> Result<ProviderCloseAnswer, ProviderError> {
        match self {
            Self::Alipay(it) => it.interpret_close(payment, answer),
            Self::WechatV3(it) => it.interpret_close(answer, now),
            Self::WechatV2(it) => it.interpret_close(answer),
            Self::Stripe(it) => it.interpret_close(payment, answer),
        }
    }

    /// Asks for money to go back. The same refund number never moves money twice.
    pub fn refund(&self, refund: &RefundRequest, now: Timestamp, nonce: &Nonce) -> Result<HttpCall, ProviderError> {
        match self {
            Self::Alipay(it) => it.refund(refund, now),
            Self::WechatV3(it) => it.refund(refund, now, nonce),
            Self::WechatV2(it) => it.refund(refund, nonce),
            Self::Stripe(it) => it.refund(refund),
        }
    }

    /// Whether the money went back.
    pub fn interpret_refund(
        &self,
        refund: &RefundRequest,
        answer: &HttpAnswer,
        now: Timestamp,
    ) -> Result<Refunding, ProviderError> {
        match self {
            Self::Alipay(it) => it.interpret_refund(refund, answer),
            Self::WechatV3(it) => it.interpret_refund(refund, answer, now),
            Self::WechatV2(it) => it.interpret_refund(refund, answer),
            Self::Stripe(it) => it.interpret_refund(refund, answer),
        }
    }

    /// Asks whether the money went back.
    pub fn query_refund(
        &self,
        refund: &RefundRequest,
        now: Timestamp,
        nonce: &Nonce,
    ) -> Result<HttpCall, ProviderError> {
        match self {
            Self::Alipay(it) => Ok(it.query_refund(refund, now)),
            Self::WechatV3(it) => Ok(it.query_refund(refund, now, nonce)),
            Self::WechatV2(it) => Ok(it.query_refund(refund, nonce)),
            Self::Stripe(it) => it.query_refund(refund),
        }
    }

    /// Whether the money went back.
    pub fn interpret_query_refund(
        &self,
        refund: &RefundRequest,
        answer: &HttpAnswer,
        now: Timestamp,
    ) -> Result<Refunding, ProviderError> {
        match self {
            Self::Alipay(it) => it.interpret_query_refund(refund, answer),
            Self::WechatV3(it) => it.interpret_refund(refund, answer, now),
            Self::WechatV2(it) => it.interpret_query_refund(refund, answer),
            Self::Stripe(it) => it.interpret_query_refund(refund, answer),
        }
    }

    /// Reads and verifies a notice, over the raw bytes of its body.
    pub fn notice(&self, headers: &Headers, raw_body: &[u8], now: Timestamp) -> Result<Notice, NoticeError> {
        match self {
            Self::Alipay(it) => it.notice(raw_body),
            Self::WechatV3(it) => it.notice(headers, raw_body, now),
            Self::WechatV2(it) => it.notice(raw_body),
            Self::Stripe(it) => it.notice(headers, raw_body, now),
        }
    }

    /// Tells the provider that its notice was taken, and that it need not send it again.
    pub fn success_answer(&self) -> HttpAnswer {
        match self {
            Self::Alipay(it) => it.success(),
            Self::WechatV3(it) => it.success(),
            Self::WechatV2(it) => it.success(),
            Self::Stripe(it) => it.success(),
        }
    }

    /// Tells the provider that its notice was not taken. It does not say why: whoever forges notices would learn from it. A
    /// genuine notice about something else is answered as success, or it would come for days.
    pub fn failure_answer(&self, error: &NoticeError) -> HttpAnswer {
        if matches!(error, NoticeError::NotOurs(_)) {
            return self.success_answer();
        }
        match self {
            Self::Alipay(it) => it.failure(),
            Self::WechatV3(it) => it.failure(error),
            Self::WechatV2(it) => it.failure(),
            Self::Stripe(it) => it.failure(),
        }
    }

    /// Tells the provider to send a genuine notice again, because it could not be worked on now.
    pub fn try_again_answer(&self) -> HttpAnswer {
        let body = match self {
            Self::Alipay(it) => it.failure(),
            Self::WechatV3(it) => it.failure(&NoticeError::Malformed("")),
            Self::WechatV2(it) => it.failure(),
            Self::Stripe(it) => it.failure(),
        };
        HttpAnswer { status: 503, ..body }
    }

    /// What a buyer's browser came back from, once that is verified. For display only: it never settles anything.
    /// Only Alipay signs it; of the others' return pages nothing is to be believed but the order's own state.
    pub fn read_return(&self, query: &str) -> Result<Subject, NoticeError> {
        match self {
            Self::Alipay(it) => it.read_return(query),
            Self::WechatV3(_) | Self::WechatV2(_) | Self::Stripe(_) => {
                Err(NoticeError::NotOurs("a return page that is not signed".to_owned()))
            }
        }
    }
}
