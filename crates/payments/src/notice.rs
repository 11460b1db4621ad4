//! What a provider tells by itself: notices.

use domain::ids::PaymentNumber;
use domain::money::Currency;
use jiff::Timestamp;

use crate::payment::{Kind, Paid};

/// What a verified notice is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A payment for an order of this system (type 2).
    FlashSale(PaymentNumber),
    /// An order of the shop's own (type 1), by the shop's number.
    Ordinary(String),
}

impl Subject {
    /// What goes into attach or metadata for an order of this system.
    pub(crate) const FLASH_SALE: &'static str = "2";

    /// From the payment's number and its attach or metadata. A payment without a type is told by its number: those of this
    /// system have a form of their own.
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

/// What happened, by a notice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Paid: the notice has a transaction.
    Paid,
    /// The payment failed. Of WeChat Pay the same QR code could still be paid: it is closed like one that is not paid.
    Failed,
    /// It was closed unpaid.
    Closed,
    /// Money went back; the notice's amount is what went back. WeChat Pay v2 does not sign it, so there it is a reason to ask
    /// `query_refund`, and no more.
    Refunded,
    /// A refund did not happen: for a person.
    RefundFailed,
    /// Nothing to act on (still being paid, partly refunded).
    Other(String),
}

/// A notice that was verified: signature over the raw bytes, age, and the merchant's and application's ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Who sent it.
    pub provider: Kind,
    /// What it is about.
    pub subject: Subject,
    /// The provider's number of the movement of money. Always there when the outcome is Paid.
    pub transaction: Option<String>,
    /// Minor units.
    pub amount: i64,
    /// The currency.
    pub currency: Currency,
    /// When, by the provider's clock.
    pub happened_at: Option<Timestamp>,
    /// What happened.
    pub outcome: Outcome,
}

impl Notice {
    /// A notice about this money.
    pub(crate) fn new(provider: Kind, subject: Subject, money: Paid, outcome: Outcome) -> Self {
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

    /// The money, if the notice says that it arrived.
    pub fn paid(&self) -> Option<Paid> {
        let transaction = self.transaction.clone().filter(|_| self.outcome == Outcome::Paid)?;
        Some(Paid { transaction, amount: self.amount, currency: self.currency.clone(), paid_at: self.happened_at })
    }
}

/// Why a notice changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoticeError {
    /// Too long to be a notice.
    #[error("longer than {} bytes", crate::MAX_NOTICE)]
    TooLarge,
    /// A header or field is missing, doubled or not of its form.
    #[error("{0} is missing or not of its form")]
    Malformed(&'static str),
    /// Signed too long ago, or in the future.
    #[error("signed {0} s away from now; less than {max} s is allowed", max = crate::MAX_SKEW_S)]
    Stale(i64),
    /// Signed with a key that is not in the settings: has the provider changed it?
    #[error("signed with an unknown key: {0}")]
    UnknownKey(String),
    /// WeChat Pay's probe: it sends a wrong signature on purpose and expects to be refused.
    #[error("the provider's own signature probe")]
    Probe,
    /// Forged or altered.
    #[error("the signature is wrong")]
    BadSignature,
    /// For another merchant, seller or application.
    #[error("{0} is another's")]
    NotUs(&'static str),
    /// Genuine, but about nothing that this system handles: answered as success.
    #[error("not about a payment here: {0}")]
    NotOurs(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_type_routes_a_notice() {
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
