//! What is asked of a provider and what it can say, the same for all of them.

use std::fmt;

use aws_lc_rs::digest::{SHA256, digest};
use domain::ids::PaymentNumber;
use domain::money::Currency;
use jiff::Timestamp;

use crate::http::HttpCall;

/// Which provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Alipay, RSA2.
    Alipay,
    /// WeChat Pay v3.
    WechatV3,
    /// WeChat Pay v2.
    WechatV2,
    /// Stripe Checkout.
    Stripe,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Alipay, Self::WechatV3, Self::WechatV2, Self::Stripe];

    /// The name in paths and records.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Alipay => "alipay",
            Self::WechatV3 => "wechat",
            Self::WechatV2 => "wechat-v2",
            Self::Stripe => "stripe",
        }
    }

    /// The provider of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How the buyer gets to pay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// A page of the provider's, that the buyer's browser is sent to.
    Page,
    /// A QR code that the buyer's phone reads.
    Qr,
}

/// 128 random bits, written as 32 hexadecimal digits. Passed in: this crate has no source of random numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nonce(String);

impl Nonce {
    /// From random bytes.
    pub fn new(random: [u8; 16]) -> Self {
        Self(crate::crypto::hex(&random))
    }

    /// The digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A payment to be started. Everything in it comes from the order, nothing from the buyer's request, except the address.
///
/// The same number must always make the same request (the times too): the provider recognises the payment by it and answers a
/// repeated request with the same payment. Another amount or another time is another number.
#[derive(Clone, Debug)]
pub struct PaymentRequest {
    /// Its number at the provider: the order, and which try to pay it is.
    pub number: PaymentNumber,
    /// What the buyer reads on the pay page.
    pub title: String,
    /// Minor units.
    pub amount: i64,
    /// The currency.
    pub currency: Currency,
    /// The payment deadline.
    pub expires_at: Timestamp,
    /// Where the provider sends its notices.
    pub notify_url: String,
    /// Where the buyer's browser comes back to.
    pub return_url: String,
    /// The buyer's address; WeChat Pay v2 asks for it.
    pub client_ip: String,
    /// Page or QR code; none for the provider's usual one.
    pub way: Option<Way>,
}

/// What starting a payment takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    /// The provider must be called; its answer is read by `interpret_create`.
    Call(HttpCall),
    /// Nothing to call: the signed link is the request (Alipay's page).
    Ready(Created),
}

/// A payment that the buyer can now make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Created {
    /// A page to send the buyer's browser to.
    pub pay_url: Option<String>,
    /// What a QR code must say.
    pub qr_code: Option<String>,
    /// The provider's own number, where it has one at this point (Stripe's session). It must be kept: [`PaymentRef`].
    pub payment: Option<String>,
}

/// A payment that was started.
#[derive(Clone, Debug)]
pub struct PaymentRef {
    /// Its number.
    pub number: PaymentNumber,
    /// [`Created::payment`].
    pub payment: Option<String>,
}

/// Money that has arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paid {
    /// The provider's number of the movement of money; a refund names it.
    pub transaction: String,
    /// Minor units.
    pub amount: i64,
    /// The currency.
    pub currency: Currency,
    /// When, by the provider's clock.
    pub paid_at: Option<Timestamp>,
}

/// Where a payment stands, by a verified answer of the provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PaymentStatus {
    /// The provider does not know it: it was never started there, or (Alipay) its QR code was never read.
    Missing,
    /// It can still be paid.
    NotPaid,
    /// The buyer has done it, the bank has not: it can still become paid.
    Processing,
    /// Paid.
    Paid(Paid),
    /// Paid, and refunded since; at least partly, but Alipay tells only of all of it.
    Refunded(Paid),
    /// It cannot be paid any more, and was not.
    Closed,
    /// Something that this crate has no name for: for a person.
    Unknown(String),
}

/// What closing a payment came to, by a verified answer of the provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProviderCloseAnswer {
    /// It cannot be paid any more.
    Closed,
    /// There is nothing to close: never started there, or (Alipay) its QR code was never read. A clean close.
    NothingThere,
    /// It was paid before: query it.
    AlreadyPaid,
    /// Not closed, and it does not say why: query it.
    Unclear(String),
}

/// A refund to be made. Asking again with the same number never moves money twice.
#[derive(Clone, Debug)]
pub struct RefundRequest {
    /// Its number.
    pub number: PaymentNumber,
    /// The payment's transaction number.
    pub transaction: String,
    /// The refund's own number, fixed for this refund.
    pub refund: RefundNumber,
    /// What goes back, in minor units.
    pub amount: i64,
    /// What was paid, in minor units.
    pub total: i64,
    /// The currency.
    pub currency: Currency,
    /// What the buyer reads.
    pub reason: String,
    /// Where WeChat Pay sends its notice about it.
    pub notify_url: Option<String>,
}

/// A refund's number: 1 to 64 letters, digits, `-` or `_`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefundNumber(String);

impl RefundNumber {
    /// Checks the text.
    pub fn parse(text: impl Into<String>) -> Option<Self> {
        let text = text.into();
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        ((1..=64).contains(&text.len()) && text.bytes().all(allowed)).then_some(Self(text))
    }

    /// The one refund of a payment, which is always of all of it. The transaction is in it because a provider takes a refund's
    /// number once: if one payment number was ever paid twice, each payment can still go back.
    pub fn of(payment: &PaymentNumber, transaction: &str) -> Self {
        let told_apart: Vec<u8> = digest(&SHA256, transaction.as_bytes()).as_ref().iter().take(4).copied().collect();
        Self(format!("{payment}R{}", crate::crypto::hex(&told_apart)))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What a refund came to, by a verified answer of the provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refunding {
    /// The money is on its way and nothing more is to be done.
    Refunded,
    /// Not finished: ask `query_refund`, or the same refund again.
    Processing,
    /// It will not happen by itself: for a person.
    Failed(String),
}

/// Why there is no answer to act on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProviderError {
    /// The provider does not take such a payment; nothing was sent.
    #[error("{0}")]
    Unsupported(String),
    /// The provider said no. Asking the same again will not help.
    #[error("the provider refused: {code}: {message}")]
    Refused {
        /// The provider's own code.
        code: String,
        /// The provider's own words.
        message: String,
    },
    /// Whether it happened is not known: ask again later.
    #[error("the provider gave no clear answer: {0}")]
    Unavailable(String),
    /// The answer is not signed as it must be, or cannot be read: it says nothing.
    #[error("the provider's answer cannot be trusted: {0}")]
    Untrusted(&'static str),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refund_has_one_number() {
        let payment = PaymentNumber::parse("01K9PZ0000ABCDEFGHJKMNPQRS000001").unwrap();
        let number = RefundNumber::of(&payment, "4200000001");
        assert_eq!(number, RefundNumber::of(&payment, "4200000001"));
        assert_ne!(number, RefundNumber::of(&payment, "4200000002"), "each payment can go back");
        assert_eq!(number.as_str(), "01K9PZ0000ABCDEFGHJKMNPQRS000001Rac5aca0a");
        assert_eq!(RefundNumber::parse(number.as_str()), Some(number), "a provider takes it");
    }

    #[test]
    fn kinds_are_found_by_their_names() {
        for kind in Kind::ALL {
            assert_eq!(Kind::parse(kind.as_str()), Some(kind));
        }
        assert_eq!(Kind::parse("paypal"), None);
    }
}
