//! Payments: which money pays for an order, and which is refunded.
//!
//! The order's row decides about every transaction: it either pays for the order (`paid`) or is refunded (`returned`),
//! never both. Each decision is one conditional write, so it is made once. [`money_verdict`] says which of the two it
//! is.

use std::fmt;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::ids::{OrderId, PaymentNumber};
use crate::money::Currency;
use crate::order::{Order, Status};

/// The most attempts to pay one order.
pub const MAX_ATTEMPTS: usize = PaymentNumber::ATTEMPTS;

/// A way to pay for an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    Alipay,
    /// WeChat Pay v3.
    Wechat,
    /// WeChat Pay v2.
    WechatV2,
    Stripe,
    /// The shop's own points.
    Points,
}

impl Method {
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

    /// The inverse of [`Method::as_str`].
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|method| method.as_str() == name)
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An attempt to pay for an order at a provider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Attempt {
    pub method: Method,
    /// The money to pay at the provider, in minor units.
    pub amount: i64,
    /// The points that are frozen for the rest of the price.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub points: i64,
}

fn is_zero(number: &i64) -> bool {
    *number == 0
}

/// The payment that the buyer can make now: the last of the order's attempts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenPayment {
    /// The index into the order's attempts.
    pub attempt: u8,
    #[serde(with = "jiff::fmt::serde::timestamp::millisecond::required")]
    pub started_at: Timestamp,
    /// The buyer's IP address when the payment was started. A retry must send the provider exactly the same request.
    pub client_ip: String,
    /// The provider's answer. `None` when it was not asked yet, or its answer was lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<Link>,
    /// A flow has started to close this payment, so it is no longer shown to the buyer.
    #[serde(default)]
    pub closing: bool,
}

/// How the buyer reaches the provider's payment page.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Link {
    /// The page to open in a browser.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pay_url: Option<String>,
    /// The content of the QR code to show.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qr_code: Option<String>,
    /// The provider's own id of the payment, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
}

/// The payment that paid for an order, or a payment that is refunded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PaidWith {
    pub method: Method,
    /// The index into the order's attempts. 0 for a payment with points alone, which has no attempt.
    pub attempt: u8,
    /// The provider's id of the transaction.
    pub transaction: String,
    /// In minor units.
    pub amount: i64,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub points: i64,
    /// What the provider has sent back of it without being asked by this system, in minor units: an operator's refund
    /// in the provider's console.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub refunded: i64,
}

impl PaidWith {
    /// A payment with money alone.
    pub fn of(method: Method, attempt: u8, transaction: &str, amount: i64) -> Self {
        Self { method, attempt, transaction: transaction.to_owned(), amount, points: 0, refunded: 0 }
    }
}

/// Money that arrived, according to a verified notice or answer of a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrived {
    pub order: OrderId,
    /// The index into the order's attempts.
    pub attempt: u8,
    pub method: Method,
    /// The provider's id of the transaction.
    pub transaction: String,
    /// In minor units.
    pub amount: i64,
    pub currency: Currency,
    /// What the provider has sent back of it since, in minor units. `None`: it was not asked.
    pub refunded: Option<i64>,
}

impl Arrived {
    /// Whether all of it went back before it was settled: there is nothing left that could pay for an order.
    pub fn is_all_refunded(&self) -> bool {
        self.refunded.is_some_and(|refunded| refunded >= self.amount)
    }
}

/// What happens to money that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoneyVerdict {
    /// The money pays for the order.
    Keep,
    /// This transaction has already paid for the order.
    Kept,
    /// The order was closed. The money pays for it if units are free, and is refunded otherwise.
    Revive,
    /// The order does not need the money: refund it.
    Return,
    /// This transaction was already marked for a refund.
    Returned,
    /// The amount, the currency or the method differs from what was requested, or no such attempt exists. A person has
    /// to decide.
    Wrong,
}

/// Decides what happens to money that arrived, given the current state of its order.
///
/// The rules apply in this order:
///
/// 1. A decision is final. A transaction that the order lists as returned or as its payment stays that.
/// 2. Money that differs from what the attempt requested is [`Wrong`](MoneyVerdict::Wrong), whatever the status.
/// 3. Money of which nothing is left, because it was refunded at the provider, is recorded as returned.
/// 4. A pending order keeps the full price, even of an attempt that was replaced by another one: the buyer paid it.
/// 5. A closed order is [revived](MoneyVerdict::Revive) by the full price.
/// 6. Everything else is refunded: the order is paid already, refunded or failed.
///
/// An attempt that combines money and points is kept only while it is the open payment. When it is closed its points
/// are given back, and the money alone is less than the price.
pub fn money_verdict(order: &Order, arrived: &Arrived) -> MoneyVerdict {
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
    if arrived.is_all_refunded() {
        return MoneyVerdict::Return;
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

/// The money to pay when `points` cover a part of an order that costs `amount`, or `points_price` points. Rounded up,
/// so that points are never worth more than their share. `None` when this many points cannot be combined with money.
pub fn money_beside(amount: i64, points_price: Option<i64>, points: i64) -> Option<i64> {
    if points == 0 {
        return Some(amount);
    }
    let price = points_price.filter(|price| (1..*price).contains(&points))?;
    let left = i128::from(amount) * i128::from(price - points);
    let money = (left + i128::from(price) - 1) / i128::from(price);
    i64::try_from(money).ok().filter(|money| *money > 0)
}

/// Why money is refunded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum RefundCause {
    /// The buyer or the shop asked for a refund of a paid order. Its units become free.
    Order,
    /// The order did not need the money: it was closed, already paid, or no units were left for it.
    NotNeeded,
}

/// An entry of the payment log: money that arrived.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PayEntry {
    pub order: OrderId,
    #[serde(flatten)]
    pub with: PaidWith,
    pub currency: Currency,
    /// When the entry was written.
    #[serde(with = "jiff::fmt::serde::timestamp::millisecond::required")]
    pub at: Timestamp,
}

impl PayEntry {
    pub fn new(order: &Order, with: &PaidWith, at: Timestamp) -> Self {
        Self { order: order.id.clone(), with: with.clone(), currency: order.currency.clone(), at }
    }

    /// The sort key of this entry among the entries of its order.
    pub fn name(method: Method, transaction: &str) -> String {
        format!("PAY#{method}#{transaction}")
    }

    /// The payment as it was reported, for [`money_verdict`].
    pub fn arrived(&self) -> Arrived {
        Arrived {
            order: self.order.clone(),
            attempt: self.with.attempt,
            method: self.with.method,
            transaction: self.with.transaction.clone(),
            amount: self.with.amount,
            currency: self.currency.clone(),
            refunded: None,
        }
    }
}

/// An entry of the refund log. A refund always covers a whole transaction, or what is left of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RefundEntry {
    pub order: OrderId,
    /// The payment that is refunded.
    #[serde(flatten)]
    pub with: PaidWith,
    pub currency: Currency,
    pub cause: RefundCause,
    /// When the refund was decided.
    #[serde(with = "jiff::fmt::serde::timestamp::millisecond::required")]
    pub at: Timestamp,
    /// When the provider confirmed the refund.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "jiff::fmt::serde::timestamp::millisecond::optional"
    )]
    pub done_at: Option<Timestamp>,
    /// How many requests to the provider have failed.
    #[serde(default)]
    pub tries: u32,
    /// How many refund numbers have failed for good at the provider. The next request uses a new number.
    #[serde(default)]
    pub rounds: u32,
    /// What the provider has sent back without being asked by this system, in minor units. The rest is asked for.
    #[serde(default)]
    pub elsewhere: i64,
    /// The provider refuses for good, and only a person can go on. The provider is still asked now and then.
    #[serde(default)]
    pub refused: bool,
    /// When the last of them failed.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "jiff::fmt::serde::timestamp::millisecond::optional"
    )]
    pub tried_at: Option<Timestamp>,
    /// The error of the last failed request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

impl RefundEntry {
    pub fn new(order: &Order, with: &PaidWith, cause: RefundCause, at: Timestamp) -> Self {
        Self {
            order: order.id.clone(),
            with: with.clone(),
            currency: order.currency.clone(),
            cause,
            at,
            done_at: None,
            tries: 0,
            // After an operator gave up a refund, the numbers of the next one must differ from those of the first.
            rounds: order.kept.saturating_mul(100),
            elsewhere: with.refunded,
            refused: false,
            tried_at: None,
            trouble: None,
        }
    }

    /// What is still to be refunded, in minor units.
    pub fn remaining(&self) -> i64 {
        self.with.amount.saturating_sub(self.elsewhere).max(0)
    }

    /// The sort key of this entry among the entries of its order.
    pub fn name(method: Method, transaction: &str) -> String {
        format!("REFUND#{method}#{transaction}")
    }

    /// Whether to ask the provider again now. The first retry comes after a minute; the delay then doubles with each
    /// failure, up to an hour.
    pub fn is_due(&self, now: Timestamp) -> bool {
        let Some(tried_at) = self.tried_at else { return now.duration_since(self.at) >= crate::repair::GRACE };
        let minutes = 1_i64 << self.tries.saturating_sub(1).min(6);
        now.duration_since(tried_at) >= SignedDuration::from_mins(minutes.min(60))
    }
}

/// An entry of the ledger with work left to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenEntry {
    /// Money arrived, and it is not decided yet whether it pays for its order.
    Pay(PayEntry),
    /// A refund that the provider has not confirmed yet.
    Refund(RefundEntry),
    /// Something about money that an operator must look at. No step of this system goes on with it.
    Matter(Matter),
}

/// What an operator must look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum MatterKind {
    /// Money arrived that differs from what was requested.
    WrongPayment,
    /// Money arrived for an order that does not exist.
    UnknownOrder,
    /// Money went back that this system did not send.
    ForeignRefund,
    /// A refund failed after the provider had reported it as done.
    LateRefundFailure,
    /// The buyer disputes the payment at the bank.
    Dispute,
}

impl MatterKind {
    pub const ALL: [Self; 5] =
        [Self::WrongPayment, Self::UnknownOrder, Self::ForeignRefund, Self::LateRefundFailure, Self::Dispute];

    /// The text that is stored, shown and counted.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::WrongPayment => "WRONG_PAYMENT",
            Self::UnknownOrder => "UNKNOWN_ORDER",
            Self::ForeignRefund => "FOREIGN_REFUND",
            Self::LateRefundFailure => "LATE_REFUND_FAILURE",
            Self::Dispute => "DISPUTE",
        }
    }
}

/// A matter of money that is open until an operator resolves it: an entry of the ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Matter {
    /// The order that the payment's number names. It need not exist.
    pub order: OrderId,
    pub kind: MatterKind,
    pub method: Method,
    /// The provider's id of the transaction.
    pub transaction: String,
    /// In minor units.
    pub amount: i64,
    pub currency: Currency,
    /// What the provider said.
    pub words: String,
    #[serde(with = "jiff::fmt::serde::timestamp::millisecond::required")]
    pub at: Timestamp,
}

impl Matter {
    /// The sort key of this entry among the entries of its order. The same matter reported twice is one entry.
    pub fn name(&self) -> String {
        format!("MATTER#{}#{}#{}", self.kind.as_str(), self.method, self.transaction)
    }
}

/// How an operator resolves what is stuck.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Resolution {
    /// The money is back at the buyer: the operator has sent it by other means.
    RefundedByHand,
    /// No money goes back: the order stays paid, or stays as it is.
    KeepAsPaid,
    /// The order is closed although its provider does not say whether its payment was made.
    CloseWithoutProvider,
}

/// An operator's decision, an entry of the ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Resolved {
    pub order: OrderId,
    #[serde(rename = "as")]
    pub resolution: Resolution,
    pub reason: String,
    /// The `sub` of the operator's token.
    pub by: String,
    /// The order's status before.
    pub before: Status,
    #[serde(with = "jiff::fmt::serde::timestamp::millisecond::required")]
    pub at: Timestamp,
}

impl Resolved {
    /// The sort key of this entry among the entries of its order.
    pub fn name(&self) -> String {
        format!("RESOLVED#{:013}", self.at.as_millisecond())
    }
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
        Arrived { order, attempt, method, transaction: transaction.to_owned(), amount, currency: cny(), refunded: None }
    }

    #[test]
    fn money_is_kept_once_and_only_if_it_matches_its_attempt() {
        let alipay = arrived(0, Method::Alipay, "t", 1_000);
        let wechat = arrived(1, Method::Wechat, "t", 500);
        let pending = order(Status::PendingPayment);
        assert_eq!(money_verdict(&pending, &alipay), MoneyVerdict::Keep);
        assert_eq!(money_verdict(&pending, &wechat), MoneyVerdict::Keep);
        let closed_attempt = Order { payment: None, ..pending.clone() };
        assert_eq!(
            money_verdict(&closed_attempt, &alipay),
            MoneyVerdict::Keep,
            "the full price, although the attempt was closed"
        );
        assert_eq!(money_verdict(&closed_attempt, &wechat), MoneyVerdict::Return, "its points were given back");
        assert_eq!(money_verdict(&order(Status::Closed), &alipay), MoneyVerdict::Revive);
        assert_eq!(money_verdict(&order(Status::Closed), &wechat), MoneyVerdict::Return);
        for status in [Status::Paid, Status::Refunding, Status::Refunded, Status::Failed] {
            assert_eq!(money_verdict(&order(status), &alipay), MoneyVerdict::Return, "{status:?}");
        }
        for wrong in [
            arrived(0, Method::Alipay, "t", 999),
            arrived(0, Method::Stripe, "t", 1_000),
            arrived(1, Method::Wechat, "t", 1_000),
            arrived(2, Method::Alipay, "t", 1_000),
            Arrived { currency: Currency::parse("USD").unwrap(), ..alipay.clone() },
        ] {
            for status in Status::ALL {
                assert_eq!(money_verdict(&order(status), &wrong), MoneyVerdict::Wrong, "{wrong:?}");
            }
        }
    }

    #[test]
    fn a_decision_about_a_transaction_is_final() {
        let alipay = arrived(0, Method::Alipay, "t", 1_000);
        for status in Status::ALL {
            let returned = Order { returned: ["t".to_owned()].into(), ..order(status) };
            assert_eq!(money_verdict(&returned, &alipay), MoneyVerdict::Returned, "{status:?}");
            let with = PaidWith::of(Method::Alipay, 0, "t", 1_000);
            assert_eq!(
                money_verdict(&Order { paid: Some(with), ..order(status) }, &alipay),
                MoneyVerdict::Kept,
                "{status:?}"
            );
        }
    }

    #[test]
    fn money_that_went_back_before_it_was_settled_pays_for_nothing() {
        let alipay = arrived(0, Method::Alipay, "t", 1_000);
        let all = Arrived { refunded: Some(1_000), ..alipay.clone() };
        let part = Arrived { refunded: Some(999), ..alipay };
        for status in [Status::PendingPayment, Status::Closed] {
            assert_eq!(money_verdict(&order(status), &all), MoneyVerdict::Return, "{status:?}");
            assert_ne!(
                money_verdict(&order(status), &part),
                MoneyVerdict::Return,
                "{status:?}: it stands for the rest"
            );
        }
    }

    #[test]
    fn points_are_worth_their_share_of_the_price() {
        assert_eq!(money_beside(1_000, None, 0), Some(1_000));
        assert_eq!(money_beside(1_000, None, 1), None);
        assert_eq!(money_beside(1_000, Some(100), 50), Some(500));
        assert_eq!(money_beside(1_000, Some(3), 1), Some(667), "rounded up");
        assert_eq!(money_beside(1_000, Some(100), 100), None, "no money left to pay");
        assert_eq!(money_beside(1_000, Some(100), -1), None);
        assert_eq!(money_beside(crate::money::MAX_PRICE, Some(crate::money::MAX_PRICE), 1), Some(999_999_999_999));
    }

    #[test]
    fn a_failed_refund_is_retried_with_backoff() {
        let with = PaidWith::of(Method::Alipay, 0, "t", 1);
        let entry = |tries, tried_at| RefundEntry {
            order: arrived(0, Method::Alipay, "t", 1).order,
            with: with.clone(),
            currency: cny(),
            cause: RefundCause::Order,
            at: at(0),
            done_at: None,
            tries,
            rounds: 0,
            elsewhere: 0,
            refused: false,
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
