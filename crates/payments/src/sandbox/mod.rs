//! The provider's side of each protocol, for the sandbox and for tests. It verifies the merchant's signature, answers
//! with its own, and makes signed notices. Keys and signatures are real, so that a request accepted here has the
//! form that the real provider requires.
//!
//! It keeps no state: the caller has the payments, and says what an answer or a notice contains.

mod alipay;
mod keys;
mod stripe;
mod wechat_v2;
mod wechat_v3;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub use keys::Keys;

use crate::http::{HttpAnswer, HttpCall};
use crate::list::ProviderKind;
use crate::payment::{Nonce, Way};
use crate::shared::crypto::SettingsError;

/// A payment, as the provider keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Payment {
    /// The provider's own number: Stripe's session.
    pub id: String,
    /// The number of the movement of money, once paid.
    pub transaction: String,
    /// The merchant's number.
    pub number: String,
    /// Attach or metadata: the order's type.
    pub order_type: String,
    /// What the buyer reads.
    pub title: String,
    /// Minor units.
    pub amount: i64,
    /// The currency, in capitals.
    pub currency: String,
    /// Where notices go. Stripe is not told: the caller fills it in.
    pub notify_url: String,
    /// Where the buyer's browser goes back to.
    pub return_url: String,
    /// Where it stands.
    pub state: State,
    /// When it was paid.
    pub paid_at: Option<Timestamp>,
    /// Minor units that went back.
    #[serde(default)]
    pub refunded: i64,
}

/// Where a payment stands at the provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum State {
    /// It can be paid.
    NotPaid,
    /// The buyer has confirmed it, and the money comes days later, or never (Stripe's delayed methods).
    Processing,
    /// Paid.
    Paid,
    /// It cannot be paid any more.
    Closed,
    /// Paid, and all of it sent back.
    Refunded,
}

/// A refund, as the provider keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Refund {
    /// The payment's transaction number.
    pub transaction: String,
    /// The merchant's number of the refund.
    pub refund: String,
    /// Minor units.
    pub amount: i64,
    /// Where WeChat Pay sends its notice about it.
    pub notify_url: Option<String>,
    /// What became of it.
    #[serde(default)]
    pub state: RefundState,
}

/// What became of a refund.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum RefundState {
    /// The money is with the buyer.
    #[default]
    Done,
    /// On its way.
    Pending,
    /// Given up: the money is with the merchant.
    Failed,
    /// The buyer's bank does not take it, and a person must act. Only WeChat Pay has it.
    Stuck,
}

/// What the merchant asks, after its signature was verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// A new payment: its numbers of the provider's (`id`, `transaction`) are empty.
    Create {
        /// What it is to be.
        payment: Payment,
        /// A page or a QR code.
        way: Way,
        /// Until when it can be paid.
        expires_at: Option<Timestamp>,
    },
    /// Where does the payment stand? By number, at Stripe by session.
    Query(String),
    /// Let it not be paid any more. By number, at Stripe by session.
    Close(String),
    /// Money back.
    Refund(Refund),
    /// Is the money back? By the merchant's number of the refund, at Stripe by transaction.
    QueryRefund(String),
}

/// What the provider says.
#[derive(Clone, Copy, Debug)]
pub enum Reply<'a> {
    /// The payment was made; this is its link, for a page or a QR code.
    Created(&'a Payment, &'a str),
    /// Where it stands.
    PaymentStatus(&'a Payment),
    /// It is closed now, or was.
    Closed(&'a Payment),
    /// It cannot be closed: it was paid.
    AlreadyPaid(&'a Payment),
    /// There is no such payment.
    Missing,
    /// The refund was made; whether it was made just now.
    Refunded(&'a Payment, &'a Refund, bool),
    /// There is no such refund.
    NoRefund,
    /// The provider has trouble.
    Trouble,
    /// Something else that the provider says no to, in its own words.
    Refused(Refusal<'a>),
}

/// A no in the provider's own words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal<'a> {
    /// The status; Alipay and WeChat Pay v2 answer 200 whatever they say.
    pub status: u16,
    /// The code.
    pub code: &'a str,
    /// For people.
    pub message: &'a str,
}

/// What the number of a refund begins with that a person made in the provider's console.
pub const CONSOLE: &str = "console";

/// What a notice tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happened {
    /// Paid.
    Paid,
    /// The payment failed. Only WeChat Pay v2 and Stripe tell it.
    Failed,
    /// It was closed unpaid. Only Alipay and Stripe tell it.
    Closed,
    /// All of it was sent back.
    Refunded,
    /// A part of it was sent back. Only Alipay and Stripe tell it.
    PartlyRefunded,
    /// A refund that had been made failed. Only Stripe tells it.
    RefundFailed,
    /// The same of a refund that a person made in the console.
    ConsoleRefundFailed,
    /// The buyer confirmed a delayed method. Only Stripe tells it.
    Confirmed,
    /// The money of a delayed method arrived. Only Stripe tells it.
    PaidAtLast,
    /// The buyer disputes it. Only Stripe tells it.
    Disputed,
}

/// All four providers.
#[derive(Debug)]
pub struct Sandbox {
    alipay: alipay::Side,
    wechat_v3: wechat_v3::Side,
    wechat_v2: wechat_v2::Side,
    stripe: stripe::Side,
    #[cfg(test)]
    toy: crate::tests::toy::Side,
}

impl Sandbox {
    /// With these keys.
    pub fn new(keys: &Keys) -> Result<Self, SettingsError> {
        Ok(Self {
            alipay: alipay::Side::new(keys)?,
            wechat_v3: wechat_v3::Side::new(keys)?,
            wechat_v2: wechat_v2::Side::new(keys),
            stripe: stripe::Side::new(keys),
            #[cfg(test)]
            toy: crate::tests::toy::Side::new(keys)?,
        })
    }

    /// Verifies and reads a request of the merchant's. One that is not in order is answered as the provider would.
    pub fn read(&self, kind: ProviderKind, call: &HttpCall, now: Timestamp) -> Result<Asked, HttpAnswer> {
        match kind {
            ProviderKind::Alipay => self.alipay.read(call),
            ProviderKind::WechatV3 => self.wechat_v3.read(call, now),
            ProviderKind::WechatV2 => self.wechat_v2.read(call),
            ProviderKind::Stripe => self.stripe.read(call),
            #[cfg(test)]
            ProviderKind::Toy => self.toy.read(call),
        }
    }

    /// The signed answer to what was asked.
    pub fn answer(
        &self,
        kind: ProviderKind,
        asked: &Asked,
        reply: Reply<'_>,
        now: Timestamp,
        nonce: &Nonce,
    ) -> HttpAnswer {
        match kind {
            ProviderKind::Alipay => self.alipay.answer(asked, reply),
            ProviderKind::WechatV3 => self.wechat_v3.answer(reply, now, nonce),
            ProviderKind::WechatV2 => self.wechat_v2.answer(asked, reply, nonce),
            ProviderKind::Stripe => self.stripe.answer(asked, reply, now),
            #[cfg(test)]
            ProviderKind::Toy => self.toy.answer(reply),
        }
    }

    /// A signed notice, ready to be sent to the payment's notify URL; none if this provider does not tell such a thing.
    pub fn notice(
        &self,
        kind: ProviderKind,
        payment: &Payment,
        happened: Happened,
        now: Timestamp,
        nonce: &Nonce,
    ) -> Option<HttpCall> {
        match kind {
            ProviderKind::Alipay => self.alipay.notice(payment, happened, now, nonce),
            ProviderKind::WechatV3 => self.wechat_v3.notice(payment, happened, now, nonce),
            ProviderKind::WechatV2 => self.wechat_v2.notice(payment, happened, now, nonce),
            ProviderKind::Stripe => self.stripe.notice(payment, happened, now, nonce),
            #[cfg(test)]
            ProviderKind::Toy => self.toy.notice(payment, happened),
        }
    }

    /// Where the buyer's browser goes back to after a payment: Alipay signs it, Stripe fills in its session.
    pub fn return_url(&self, kind: ProviderKind, payment: &Payment, now: Timestamp) -> String {
        match kind {
            ProviderKind::Alipay => self.alipay.return_url(payment, now),
            ProviderKind::Stripe => payment.return_url.replace("{CHECKOUT_SESSION_ID}", &payment.id),
            ProviderKind::WechatV3 | ProviderKind::WechatV2 => payment.return_url.clone(),
            #[cfg(test)]
            ProviderKind::Toy => payment.return_url.clone(),
        }
    }
}

/// A value of a JSON object that is a text.
fn text(json: &serde_json::Value, name: &str) -> String {
    json.get(name).and_then(serde_json::Value::as_str).unwrap_or_default().to_owned()
}
