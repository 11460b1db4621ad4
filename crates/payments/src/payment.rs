//! What is asked of a provider and what it can answer, in the same terms for all of them.

use aws_lc_rs::digest::{SHA256, digest};
use domain::ids::PaymentNumber;
use domain::money::Currency;
use domain::shop_data::ShopData;
use jiff::Timestamp;

use crate::http::HttpCall;
use crate::shared::crypto::hex;

/// How the buyer reaches the payment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// A page of the provider to which the buyer's browser is sent.
    Page,
    /// A QR code that the buyer scans with a phone.
    Qr,
}

/// 128 random bits as 32 hexadecimal digits. The caller passes it in: this crate has no source of random numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nonce(String);

impl Nonce {
    pub fn new(random: [u8; 16]) -> Self {
        Self(hex(&random))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A payment to be started. Everything in it comes from the order and nothing from the buyer's request, except the
/// buyer's IP address.
///
/// The same number must always make the same request, times included: the provider recognises the payment by its number
/// and answers a repeated request with the same payment. Another amount or another time needs another number.
#[derive(Clone, Debug)]
pub struct PaymentRequest {
    /// Identifies the order and the attempt to pay it.
    pub number: PaymentNumber,
    /// What the buyer reads on the payment page.
    pub title: String,
    /// In minor units.
    pub amount: i64,
    pub currency: Currency,
    /// The payment deadline.
    pub expires_at: Timestamp,
    /// Where the provider sends its notices.
    pub notify_url: String,
    /// Where the provider sends the buyer's browser afterwards.
    pub return_url: String,
    /// The buyer's IP address, which WeChat Pay v2 requires.
    pub client_ip: String,
    /// `None` for the provider's usual way.
    pub way: Option<Way>,
    /// What the shop attached to the purchase, for providers that show such data in their own console (Stripe).
    pub shop_data: ShopData,
}

/// What starting a payment takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    /// The provider must be called; `interpret_create` reads its answer.
    Call(HttpCall),
    /// No call is needed: the signed link is the request (Alipay's page).
    Ready(Created),
}

/// A payment that the buyer can make now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Created {
    /// The page to which the buyer's browser is sent.
    pub pay_url: Option<String>,
    /// The content of the QR code.
    pub qr_code: Option<String>,
    /// The provider's own id of the payment, if it has one at this point (Stripe's session). The caller must keep it:
    /// [`PaymentRef`] needs it.
    pub payment: Option<String>,
}

/// A payment that was started.
#[derive(Clone, Debug)]
pub struct PaymentRef {
    pub number: PaymentNumber,
    /// [`Created::payment`].
    pub payment: Option<String>,
    /// [`Paid::transaction`], if the payment is known to be made. With it a provider can be asked about a payment of
    /// which [`Created::payment`] was not kept.
    pub transaction: Option<String>,
}

/// Money that has arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paid {
    /// The provider's id of the movement of money. A refund refers to it.
    pub transaction: String,
    /// In minor units.
    pub amount: i64,
    pub currency: Currency,
    /// By the provider's clock.
    pub paid_at: Option<Timestamp>,
}

/// The status of a payment, from a verified answer of the provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PaymentStatus {
    /// The provider does not know the payment: it was never started there or, at Alipay, its QR code was never scanned.
    Missing,
    /// It can still be paid.
    NotPaid,
    /// The buyer has confirmed it and the bank has not answered yet: it can still become paid.
    Processing,
    Paid(Paid),
    /// Paid, and refunded since, at least in part: how much, in minor units, if the provider tells it. WeChat Pay does
    /// not.
    Refunded(Paid, Option<i64>),
    /// It was not paid and can no longer be paid.
    Closed,
    /// A status that this crate does not know. An operator must look at it.
    Unknown(String),
}

/// The result of closing a payment, from a verified answer of the provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProviderCloseAnswer {
    /// It can no longer be paid.
    Closed,
    /// There is nothing to close: it was never started there or, at Alipay, its QR code was never scanned. This
    /// counts as closed.
    NothingThere,
    /// It was paid before it could be closed. A query tells the details.
    AlreadyPaid,
    /// It was not closed, and the provider does not say why. A query tells the status.
    Unclear(String),
}

/// A refund to be made. Repeating it with the same refund number never moves money twice.
#[derive(Clone, Debug)]
pub struct RefundRequest {
    pub number: PaymentNumber,
    /// [`Paid::transaction`] of the payment.
    pub transaction: String,
    /// The number of this refund. It changes only after the provider has given it up.
    pub refund: RefundNumber,
    /// How many requests for this refund have failed before. Stripe repeats the first answer to a request, errors
    /// included, so each attempt must be a new request there.
    pub attempt: u32,
    /// What is refunded, in minor units.
    pub amount: i64,
    /// What was paid, in minor units.
    pub total: i64,
    pub currency: Currency,
    /// What the buyer reads.
    pub reason: String,
    /// Where WeChat Pay sends its notice about the refund.
    pub notify_url: Option<String>,
}

/// The number of a refund: 1 to 64 letters, digits, `-` or `_`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefundNumber(String);

impl RefundNumber {
    pub fn parse(text: impl Into<String>) -> Option<Self> {
        let text = text.into();
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        ((1..=64).contains(&text.len()) && text.bytes().all(allowed)).then_some(Self(text))
    }

    /// The only refund of a payment, which is always a refund of the whole amount. The number depends on the
    /// transaction, because a provider accepts each refund number once: if one payment number is paid twice, both
    /// payments can still be refunded.
    pub fn of(payment: &PaymentNumber, transaction: &str) -> Self {
        let suffix: Vec<u8> = digest(&SHA256, transaction.as_bytes()).as_ref().iter().take(4).copied().collect();
        Self(format!("{payment}R{}", hex(&suffix)))
    }

    /// The number after `rounds` numbers of this refund have failed: a provider does not take up a failed one again.
    #[must_use]
    pub fn after(self, rounds: u32) -> Self {
        match rounds {
            0 => self,
            rounds => Self(format!("{}T{rounds}", self.0)),
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The result of a refund, from a verified answer of the provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refunding {
    /// The money is on its way to the buyer, and nothing remains to be done.
    Refunded,
    /// Not finished: `query_refund` tells the result later.
    Processing,
    /// The provider has given up this refund, and no money went back. Asking again needs a new number.
    Failed(String),
    /// The provider has taken the money and cannot deliver it: an operator must complete the refund at the provider,
    /// under the same number.
    Stuck(String),
    /// The provider does not know such a refund.
    Missing,
}

/// Why there is no answer to act on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProviderError {
    /// The provider does not support such a payment. Nothing was sent.
    #[error("{0}")]
    Unsupported(String),
    /// The provider refused, in its own words. Repeating the request does not help.
    #[error("the provider refused: {code}: {message}")]
    Refused { code: String, message: String },
    /// The provider failed, and answers this request in the same way for a day. A new request may succeed.
    #[error("the provider failed, and repeats this answer: {0}")]
    Spent(String),
    /// It is not known whether the request took effect. It can be repeated later.
    #[error("the provider gave no clear answer: {0}")]
    Unavailable(String),
    /// The answer is not signed as it must be, or cannot be read. Nothing follows from it.
    #[error("the provider's answer cannot be trusted: {0}")]
    Untrusted(&'static str),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_has_one_refund_number() {
        let payment = PaymentNumber::parse("01K9PZ0000ABCDEFGHJKMNPQRS000001").unwrap();
        let number = RefundNumber::of(&payment, "4200000001");
        assert_eq!(number, RefundNumber::of(&payment, "4200000001"));
        assert_ne!(number, RefundNumber::of(&payment, "4200000002"), "each transaction can be refunded");
        assert_eq!(number.as_str(), "01K9PZ0000ABCDEFGHJKMNPQRS000001Rac5aca0a");
        assert_eq!(RefundNumber::parse(number.as_str()), Some(number.clone()), "a provider accepts it");
        assert_eq!(number.clone().after(0), number);
        assert_eq!(number.clone().after(2).as_str(), format!("{}T2", number.as_str()), "a failed number is not reused");
    }
}
