//! Paying for an order: which money is for it, and which is to go back.
//!
//! The order's row is the arbiter of every transaction: it either pays for the order ([`PaidWith`]) or is among those that go back
//! (`returned`), never both, and each is decided once, by a condition. [`verdict`] says which it is to be.

use std::fmt;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::ids::{OrderId, PaymentNumber};
use crate::money::Currency;
use crate::order::{Order, Status};

/// Tries to pay one order: as many as a payment's number can tell apart.
pub const MAX_ATTEMPTS: usize = PaymentNumber::ATTEMPTS;

/// How an order can be paid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Alipay.
    Alipay,
    /// WeChat Pay v3.
    Wechat,
    /// WeChat Pay v2.
    WechatV2,
    /// Stripe Checkout.
    Stripe,
    /// The shop's own points.
    Points,
}

impl Method {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Alipay, Self::Wechat, Self::WechatV2, Self::Stripe, Self::Points];

    /// The name in requests, paths and records.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Alipay => "alipay",
            Self::Wechat => "wechat",
            Self::WechatV2 => "wechat-v2",
            Self::Stripe => "stripe",
            Self::Points => "points",
        }
    }

    /// The method of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|method| method.as_str() == name)
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A try to pay an order at a provider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Attempt {
    /// Where.
    pub method: Method,
    /// Money asked for there, in minor units.
    pub amount: i64,
    /// Points frozen beside it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub points: i64,
}

fn is_zero(number: &i64) -> bool {
    *number == 0
}

/// The payment that can be made now: the last of an order's attempts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenPayment {
    /// Which attempt.
    pub attempt: u8,
    /// When it was started.
    #[serde(with = "jiff::fmt::serde::timestamp::millisecond::required")]
    pub started_at: Timestamp,
    /// The buyer's address then. The same payment asked for again must be asked for with the same words.
    pub client_ip: String,
    /// What the provider answered; none: it was not asked yet, or its answer was lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<Link>,
    /// Somebody has begun to close it: it is not to be shown any more.
    #[serde(default)]
    pub closing: bool,
}

/// How a buyer gets to a payment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Link {
    /// A page to go to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pay_url: Option<String>,
    /// What a QR code must say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qr_code: Option<String>,
    /// The provider's own number of the payment, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
}

/// What paid for an order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PaidWith {
    /// How.
    pub method: Method,
    /// Which attempt; 0 for points, which need none.
    pub attempt: u8,
    /// The provider's number of the movement of money.
    pub transaction: String,
    /// Money, in minor units.
    pub amount: i64,
    /// Points.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub points: i64,
}

/// Money that arrived, by a verified notice or answer of a provider's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// For which order.
    pub order: OrderId,
    /// By which of its attempts.
    pub attempt: u8,
    /// How.
    pub method: Method,
    /// The provider's number of the movement of money.
    pub transaction: String,
    /// Minor units.
    pub amount: i64,
    /// The currency.
    pub currency: Currency,
}

/// What money that arrived is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoneyVerdict {
    /// It pays for the order.
    Keep,
    /// It has paid for the order.
    Kept,
    /// The order was closed: it pays for the order if there are units for it, else it goes back.
    Revive,
    /// It goes back.
    Return,
    /// It was decided before that it goes back.
    Returned,
    /// It is not what was asked for: another amount, currency or method, or an attempt that never was. For a person.
    Wrong,
}

/// What money is for, as its order stands now.
///
/// An attempt with points beside the money is only paid for while its points are frozen: once it was closed they went back, and
/// the money alone is too little.
pub fn verdict(order: &Order, arrived: &Arrived) -> MoneyVerdict {
    if order.returned.contains(&arrived.transaction) {
        return MoneyVerdict::Returned;
    }
    if order.paid.as_ref().is_some_and(|paid| paid.transaction == arrived.transaction) {
        return MoneyVerdict::Kept;
    }
    let Some(attempt) = order.attempts.get(usize::from(arrived.attempt)) else { return MoneyVerdict::Wrong };
    let asked = (attempt.method, attempt.amount, &order.currency);
    if asked != (arrived.method, arrived.amount, &arrived.currency) {
        return MoneyVerdict::Wrong;
    }
    let is_open = order.payment.as_ref().is_some_and(|payment| payment.attempt == arrived.attempt);
    match order.status {
        Status::PendingPayment if is_open || attempt.points == 0 => MoneyVerdict::Keep,
        Status::Closed if attempt.points == 0 => MoneyVerdict::Revive,
        Status::PendingPayment
        | Status::Closed
        | Status::Failed
        | Status::Paid
        | Status::Refunding
        | Status::Refunded => MoneyVerdict::Return,
    }
}

/// The money that is left to pay beside `points` of an order that costs `amount`, or `points_price` points. Rounded up, so that
/// no points are worth more than their share. `None`: so many points cannot be used beside money.
pub fn money_beside(amount: i64, points_price: Option<i64>, points: i64) -> Option<i64> {
    if points == 0 {
        return Some(amount);
    }
    let price = points_price.filter(|price| (1..*price).contains(&points))?;
    let left = i128::from(amount) * i128::from(price - points);
    let money = (left + i128::from(price) - 1) / i128::from(price);
    i64::try_from(money).ok().filter(|money| *money > 0)
}

/// Why money went back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum RefundCause {
    /// The buyer, or the shop, took a paid order back: its units return.
    Order,
    /// It came for an order that was closed, paid for already, or could not be had any more.
    NotNeeded,
}

/// An entry of the pay log: money that arrived.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PayEntry {
    /// For which order.
    pub order: OrderId,
    /// The money, or points, and their number.
    #[serde(flatten)]
    pub with: PaidWith,
    /// The currency.
    pub currency: Currency,
    /// When it was written down.
    #[serde(with = "jiff::fmt::serde::timestamp::millisecond::required")]
    pub at: Timestamp,
}

impl PayEntry {
    /// Money that arrived for an order.
    pub fn new(order: &Order, with: &PaidWith, at: Timestamp) -> Self {
        Self { order: order.id.clone(), with: with.clone(), currency: order.currency.clone(), at }
    }

    /// Its name among the order's entries.
    pub fn name(method: Method, transaction: &str) -> String {
        format!("PAY#{method}#{transaction}")
    }

    /// As it arrived.
    pub fn arrived(&self) -> Arrived {
        Arrived {
            order: self.order.clone(),
            attempt: self.with.attempt,
            method: self.with.method,
            transaction: self.with.transaction.clone(),
            amount: self.with.amount,
            currency: self.currency.clone(),
        }
    }
}

/// An entry of the refund log: money that goes back, all of one transaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RefundEntry {
    /// Of which order.
    pub order: OrderId,
    /// What goes back.
    #[serde(flatten)]
    pub with: PaidWith,
    /// The currency.
    pub currency: Currency,
    /// Why.
    pub cause: RefundCause,
    /// When it was decided.
    #[serde(with = "jiff::fmt::serde::timestamp::millisecond::required")]
    pub at: Timestamp,
    /// When it was done.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "jiff::fmt::serde::timestamp::millisecond::optional"
    )]
    pub done_at: Option<Timestamp>,
    /// How often the provider was asked in vain.
    #[serde(default)]
    pub tries: u32,
    /// When it was last asked in vain.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "jiff::fmt::serde::timestamp::millisecond::optional"
    )]
    pub tried_at: Option<Timestamp>,
    /// What the provider said then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

impl RefundEntry {
    /// Money of an order that is to go back.
    pub fn new(order: &Order, with: &PaidWith, cause: RefundCause, at: Timestamp) -> Self {
        Self {
            order: order.id.clone(),
            with: with.clone(),
            currency: order.currency.clone(),
            cause,
            at,
            done_at: None,
            tries: 0,
            tried_at: None,
            trouble: None,
        }
    }

    /// Its name among the order's entries.
    pub fn name(method: Method, transaction: &str) -> String {
        format!("REFUND#{method}#{transaction}")
    }

    /// Whether the provider is to be asked again now: after a minute, then after twice as long each time, up to an hour.
    pub fn is_due(&self, now: Timestamp) -> bool {
        let Some(tried_at) = self.tried_at else { return now.duration_since(self.at) >= crate::repair::GRACE };
        let minutes = 1_i64 << self.tries.saturating_sub(1).min(6);
        now.duration_since(tried_at) >= SignedDuration::from_mins(minutes.min(60))
    }
}

/// An entry of the ledger that something is still to be done about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenEntry {
    /// Money arrived, and it is not decided what it is for.
    Pay(PayEntry),
    /// Money is to go back.
    Refund(RefundEntry),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{Buyer, BuyerKey};

    fn at(s: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + s).unwrap()
    }

    fn cny() -> Currency {
        Currency::parse("CNY").unwrap()
    }

    fn order(status: Status) -> Order {
        let mixed = Attempt { method: Method::Wechat, amount: 500, points: 50 };
        let open = OpenPayment { attempt: 1, started_at: at(5), client_ip: String::new(), link: None, closing: false };
        Order {
            attempts: vec![Attempt { method: Method::Alipay, amount: 1_000, points: 0 }, mixed],
            payment: (status == Status::PendingPayment).then_some(open),
            status,
            amount: 1_000,
            currency: cny(),
            points_price: Some(100),
            ..crate::repair::tests::order(status)
        }
    }

    fn arrived(attempt: u8, method: Method, transaction: &str, amount: i64) -> Arrived {
        let order = OrderId::new(at(0), &BuyerKey::of(&Buyer::parse("a").unwrap(), ""), 1);
        Arrived { order, attempt, method, transaction: transaction.to_owned(), amount, currency: cny() }
    }

    #[test]
    fn money_is_kept_once_and_only_for_what_was_asked() {
        let alipay = arrived(0, Method::Alipay, "t", 1_000);
        let wechat = arrived(1, Method::Wechat, "t", 500);
        let pending = order(Status::PendingPayment);
        assert_eq!(verdict(&pending, &alipay), MoneyVerdict::Keep);
        assert_eq!(verdict(&pending, &wechat), MoneyVerdict::Keep);
        let closed_attempt = Order { payment: None, ..pending.clone() };
        assert_eq!(verdict(&closed_attempt, &alipay), MoneyVerdict::Keep, "the whole price, whenever it comes");
        assert_eq!(verdict(&closed_attempt, &wechat), MoneyVerdict::Return, "its points went back");
        assert_eq!(verdict(&order(Status::Closed), &alipay), MoneyVerdict::Revive);
        assert_eq!(verdict(&order(Status::Closed), &wechat), MoneyVerdict::Return);
        for status in [Status::Paid, Status::Refunding, Status::Refunded, Status::Failed] {
            assert_eq!(verdict(&order(status), &alipay), MoneyVerdict::Return, "{status:?}");
        }
        for wrong in [
            arrived(0, Method::Alipay, "t", 999),
            arrived(0, Method::Stripe, "t", 1_000),
            arrived(1, Method::Wechat, "t", 1_000),
            arrived(2, Method::Alipay, "t", 1_000),
            Arrived { currency: Currency::parse("USD").unwrap(), ..alipay.clone() },
        ] {
            for status in Status::ALL {
                assert_eq!(verdict(&order(status), &wrong), MoneyVerdict::Wrong, "{wrong:?}");
            }
        }
    }

    #[test]
    fn what_was_decided_stays_decided() {
        let alipay = arrived(0, Method::Alipay, "t", 1_000);
        for status in Status::ALL {
            let returned = Order { returned: ["t".to_owned()].into(), ..order(status) };
            assert_eq!(verdict(&returned, &alipay), MoneyVerdict::Returned, "{status:?}");
            let with =
                PaidWith { method: Method::Alipay, attempt: 0, transaction: "t".into(), amount: 1_000, points: 0 };
            assert_eq!(verdict(&Order { paid: Some(with), ..order(status) }, &alipay), MoneyVerdict::Kept, "{status:?}");
        }
    }

    #[test]
    fn points_beside_money_are_worth_their_share() {
        assert_eq!(money_beside(1_000, None, 0), Some(1_000));
        assert_eq!(money_beside(1_000, None, 1), None);
        assert_eq!(money_beside(1_000, Some(100), 50), Some(500));
        assert_eq!(money_beside(1_000, Some(3), 1), Some(667), "rounded up");
        assert_eq!(money_beside(1_000, Some(100), 100), None, "nothing left to pay with money");
        assert_eq!(money_beside(1_000, Some(100), -1), None);
        assert_eq!(money_beside(crate::money::MAX_PRICE, Some(crate::money::MAX_PRICE), 1), Some(999_999_999_999));
    }

    #[test]
    fn a_refund_that_did_not_work_is_tried_less_and_less_often() {
        let with = PaidWith { method: Method::Alipay, attempt: 0, transaction: "t".into(), amount: 1, points: 0 };
        let entry = |tries, tried_at| RefundEntry {
            order: arrived(0, Method::Alipay, "t", 1).order,
            with: with.clone(),
            currency: cny(),
            cause: RefundCause::Order,
            at: at(0),
            done_at: None,
            tries,
            tried_at,
            trouble: None,
        };
        assert!(!entry(0, None).is_due(at(59)) && entry(0, None).is_due(at(60)));
        for (tries, wait) in [(1, 60), (2, 120), (3, 240), (7, 3_600), (u32::MAX, 3_600)] {
            let entry = entry(tries, Some(at(0)));
            assert!(!entry.is_due(at(wait - 1)) && entry.is_due(at(wait)), "{tries}");
        }
    }
}
