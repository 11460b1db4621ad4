//! Notices: the messages that a provider sends on its own initiative.

use domain::ids::PaymentNumber;
use domain::money::Currency;
use jiff::Timestamp;

use crate::list::ProviderKind;
use crate::payment::Paid;

/// What a verified notice is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A payment of an order of this system (order type 2).
    FlashSale(PaymentNumber),
    /// One of the shop's own orders (order type 1), by the shop's number.
    Ordinary(String),
    /// The notice names its transaction only. [`crate::PaymentProvider::query_subject`] asks what it is about.
    Transaction,
}

impl Subject {
    /// The order type that a payment of this system carries in its attach field or metadata.
    pub(crate) const FLASH_SALE: &'static str = "2";

    /// Reads the payment's number and the order type from its attach field or metadata. A payment without an order
    /// type is recognised by its number: the numbers of this system have a form of their own.
    pub(crate) fn of(number: &str, order_type: Option<&str>) -> Option<Self> {
        let ordinary = || {
            let allowed = |byte: u8| byte.is_ascii_graphic();
            ((1..=64).contains(&number.len()) && number.bytes().all(allowed)).then(|| Self::Ordinary(number.to_owned()))
        };
        match order_type {
            Some(Self::FLASH_SALE) => PaymentNumber::parse(number).ok().map(Self::FlashSale),
            Some("1") => ordinary(),
            Some("") | None => PaymentNumber::parse(number).ok().map(Self::FlashSale).or_else(ordinary),
            Some(_) => None,
        }
    }
}

/// What a notice reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The notice has a transaction.
    Paid,
    /// The payment failed. At WeChat Pay the same QR code could still be paid, so the payment is closed like any
    /// other that is not paid.
    Failed,
    /// It was closed without being paid.
    Closed,
    /// The notice's amount was refunded. WeChat Pay v2 does not sign this notice: there it is only a reason to call
    /// `query_refund`.
    Refunded,
    /// A part of the payment was refunded: the notice's amount, in all.
    PartlyRefunded,
    /// A refund failed. An operator must look at it.
    RefundFailed,
    /// The buyer disputes the payment; the provider's reason.
    Disputed(String),
    /// Nothing to act on (for example, the payment is in progress).
    Other(String),
}

/// A notice that was verified: the signature over its raw bytes, its age, and the ids of the merchant and the
/// application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    pub provider: ProviderKind,
    pub subject: Subject,
    /// The provider's id of the movement of money. Always present if the outcome is `Paid`.
    pub transaction: Option<String>,
    /// In minor units.
    pub amount: i64,
    pub currency: Currency,
    /// By the provider's clock.
    pub happened_at: Option<Timestamp>,
    pub outcome: Outcome,
}

impl Notice {
    pub(crate) fn new(provider: ProviderKind, subject: Subject, money: Paid, outcome: Outcome) -> Self {
        Self {
            provider,
            subject,
            transaction: Some(money.transaction),
            amount: money.amount,
            currency: money.currency,
            happened_at: money.paid_at,
            outcome,
        }
    }

    /// The money, if the notice reports that it has arrived.
    pub fn paid(&self) -> Option<Paid> {
        let transaction = self.transaction.clone().filter(|_| self.outcome == Outcome::Paid)?;
        Some(Paid { transaction, amount: self.amount, currency: self.currency.clone(), paid_at: self.happened_at })
    }
}

/// Why a notice is not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoticeError {
    #[error("longer than {} bytes", crate::MAX_NOTICE)]
    TooLarge,
    /// A header or a field is missing, repeated or malformed.
    #[error("{0} is missing or malformed")]
    Malformed(&'static str),
    /// Signed too long ago, or in the future; the number of seconds.
    #[error("signed {0} s ago; less than {max} s either way is allowed", max = crate::MAX_SKEW_S)]
    Stale(i64),
    /// Signed with a key that is not in the settings: the provider may have changed its key.
    #[error("signed with an unknown key: {0}")]
    UnknownKey(String),
    /// WeChat Pay's probe: it sends a wrong signature on purpose and expects a refusal.
    #[error("the provider's own signature probe")]
    Probe,
    #[error("the signature is wrong")]
    BadSignature,
    /// Meant for another merchant, seller or application.
    #[error("{0} is not this merchant's")]
    NotUs(&'static str),
    /// Genuine, but about something that this system does not handle. It is answered as a success.
    #[error("not about a payment of this system: {0}")]
    NotOurs(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_type_tells_whose_order_it_is() {
        let ours = "01K9PZ0000ABCDEFGHJKMNPQRS000001";
        let payment = PaymentNumber::parse(ours).unwrap();
        assert_eq!(Subject::of(ours, Some("2")), Some(Subject::FlashSale(payment.clone())));
        assert_eq!(Subject::of(ours, None), Some(Subject::FlashSale(payment)));
        assert_eq!(Subject::of(ours, Some("1")), Some(Subject::Ordinary(ours.to_owned())));
        assert_eq!(Subject::of("A-17", None), Some(Subject::Ordinary("A-17".to_owned())));
        assert_eq!(Subject::of("A-17", Some("2")), None);
        for (number, order_type) in [("", None), ("a b", Some("1")), ("é", Some("1")), (ours, Some("3"))] {
            assert_eq!(Subject::of(number, order_type), None, "{number} {order_type:?}");
        }
    }
}
