//! Names of things: each is parsed once, at the edge, and is valid from then on.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Why a text is not a name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} {rule}")]
pub struct BadName {
    /// Which kind of name.
    pub what: &'static str,
    /// The rule it breaks.
    pub rule: &'static str,
}

/// Defines a name with a length limit and an alphabet.
macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $what:literal, $max:literal, $rule:literal, $allowed:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// Checks the text.
            pub fn parse(text: impl Into<String>) -> Result<Self, BadName> {
                let text = text.into();
                let allowed: fn(char) -> bool = $allowed;
                if text.is_empty() || text.len() > $max || !text.chars().all(allowed) {
                    return Err(BadName { what: $what, rule: $rule });
                }
                Ok(Self(text))
            }

            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl FromStr for $name {
            type Err = BadName;
            fn from_str(text: &str) -> Result<Self, BadName> {
                Self::parse(text)
            }
        }

        impl TryFrom<String> for $name {
            type Error = BadName;
            fn try_from(text: String) -> Result<Self, BadName> {
                Self::parse(text)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> String {
                name.0
            }
        }
    };
}

name!(
    /// A sale (活动).
    SaleId, "saleId", 32, "must be 1 to 32 letters, digits, '-' or '_'",
    |c| c.is_ascii_alphanumeric() || c == '-' || c == '_'
);
name!(
    /// An item of a sale.
    ItemId, "itemId", 32, "must be 1 to 32 letters, digits, '-' or '_'",
    |c| c.is_ascii_alphanumeric() || c == '-' || c == '_'
);
name!(
    /// Who buys: the verified token's `sub`.
    Buyer, "sub", 128, "must be 1 to 128 characters, none of them a control character",
    |c| !c.is_control()
);
name!(
    /// The buyer's own name for one try, so that trying again is the same try.
    IdempotencyKey, "Idempotency-Key", 64, "must be 1 to 64 visible ASCII characters",
    |c| c.is_ascii_graphic()
);

/// An order's number is a name for the try that made it up.
impl From<&OrderId> for IdempotencyKey {
    fn from(order: &OrderId) -> Self {
        Self(order.as_str().to_owned())
    }
}

/// Crockford's base 32: no letter that looks like a digit, and the order of texts is the order of numbers.
const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/// Writes the lowest `5 * length` bits of `bits`, most significant first.
pub(crate) fn base32(bits: u128, length: u32) -> String {
    (0..length)
        .rev()
        .filter_map(|place| {
            let digit = usize::try_from((bits >> (5 * place)) & 31).ok()?;
            ALPHABET.get(digit).copied().map(char::from)
        })
        .collect()
}

pub(crate) fn from_base32(text: &str) -> Option<u128> {
    text.bytes().try_fold(0_u128, |bits, byte| {
        let digit = ALPHABET.iter().position(|&letter| letter == byte)?;
        Some((bits << 5) | u128::try_from(digit).ok()?)
    })
}

/// A short name for a buyer: 16 characters, 80 bits of a salted digest. Two of ten million buyers share one with a
/// chance of 4 in 100 billion. The salt keeps a guessable name (a phone number) from being guessed back from an order id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct BuyerKey(String);

impl BuyerKey {
    const LENGTH: u32 = 16;

    /// The key of a buyer in a deployment with this salt.
    pub fn of(buyer: &Buyer, salt: &str) -> Self {
        let digest = Sha256::new().chain_update(salt).chain_update([0]).chain_update(buyer.as_str()).finalize();
        let bits = digest.iter().take(10).fold(0_u128, |bits, byte| (bits << 8) | u128::from(*byte));
        Self(base32(bits, Self::LENGTH))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for BuyerKey {
    type Error = BadName;
    fn try_from(text: String) -> Result<Self, BadName> {
        if text.len() != 16 || from_base32(&text).is_none() {
            return Err(BadName { what: "buyer key", rule: "must be 16 characters of Crockford's base 32" });
        }
        Ok(Self(text))
    }
}

impl From<BuyerKey> for String {
    fn from(key: BuyerKey) -> String {
        key.0
    }
}

impl fmt::Display for BuyerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An order's number: when it was pressed (10 characters), whose it is (16), and 25 random bits (5).
///
/// 31 characters: one less than every payment provider takes, which leaves one for a [`PaymentNumber`]. It leads to the buyer's
/// partition of the orders and claims tables without an index, and a holder in a bucket that carries it leads to its claim
/// without carrying anything more. The random bits only tell presses of one buyer in one millisecond apart.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct OrderId(String);

impl OrderId {
    /// Characters in an order id.
    pub const LENGTH: usize = 31;

    /// A new order id. Of `random` the lowest 25 bits count.
    pub fn new(pressed_at: Timestamp, buyer: &BuyerKey, random: u32) -> Self {
        let ms = u128::try_from(pressed_at.as_millisecond()).unwrap_or(0);
        Self(format!("{}{}{}", base32(ms, 10), buyer, base32(u128::from(random), 5)))
    }

    /// Checks the text.
    pub fn parse(text: impl Into<String>) -> Result<Self, BadName> {
        let text = text.into();
        let id = Self(text);
        if id.0.len() != Self::LENGTH || from_base32(&id.0).is_none() || id.time().is_none() {
            return Err(BadName { what: "orderId", rule: "must be 31 characters of Crockford's base 32" });
        }
        Ok(id)
    }

    fn time(&self) -> Option<Timestamp> {
        let ms = from_base32(self.0.get(..10)?)?;
        Timestamp::from_millisecond(i64::try_from(ms).ok()?).ok()
    }

    /// When the buyer pressed.
    pub fn pressed_at(&self) -> Timestamp {
        self.time().unwrap_or(Timestamp::UNIX_EPOCH)
    }

    /// Whose order it is.
    pub fn buyer(&self) -> BuyerKey {
        BuyerKey(self.0.get(10..26).unwrap_or_default().to_owned())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for OrderId {
    type Error = BadName;
    fn try_from(text: String) -> Result<Self, BadName> {
        Self::parse(text)
    }
}

impl From<OrderId> for String {
    fn from(id: OrderId) -> String {
        id.0
    }
}

impl fmt::Display for OrderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The number of one try to pay an order, at the payment provider: the order's, and one character for which try it is.
///
/// 32 characters, the most that every provider takes. A try needs a number of its own: one that was closed, or that was started
/// over another amount, cannot be used again.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PaymentNumber {
    order: OrderId,
    attempt: u8,
}

impl PaymentNumber {
    /// How many tries to pay an order there can be: what one character tells apart.
    pub const ATTEMPTS: usize = ALPHABET.len();

    /// The number of a try, counted from 0. `None`: the order has had all its tries.
    pub fn new(order: OrderId, attempt: u8) -> Option<Self> {
        (usize::from(attempt) < Self::ATTEMPTS).then_some(Self { order, attempt })
    }

    /// Checks the text.
    pub fn parse(text: impl AsRef<str>) -> Result<Self, BadName> {
        let bad = BadName { what: "paymentId", rule: "must be 32 characters of Crockford's base 32" };
        let read = |text: &str| {
            let (order, attempt) = text.split_at_checked(OrderId::LENGTH)?;
            let attempt = (attempt.len() == 1).then(|| from_base32(attempt))??;
            Self::new(OrderId::parse(order).ok()?, u8::try_from(attempt).ok()?)
        };
        read(text.as_ref()).ok_or(bad)
    }

    /// The order that is being paid.
    pub fn order(&self) -> &OrderId {
        &self.order
    }

    /// Which try it is, from 0.
    pub fn attempt(&self) -> u8 {
        self.attempt
    }
}

impl fmt::Display for PaymentNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.order, base32(u128::from(self.attempt), 1))
    }
}

impl FromStr for PaymentNumber {
    type Err = BadName;
    fn from_str(text: &str) -> Result<Self, BadName> {
        Self::parse(text)
    }
}

impl TryFrom<String> for PaymentNumber {
    type Error = BadName;
    fn try_from(text: String) -> Result<Self, BadName> {
        Self::parse(text)
    }
}

impl From<PaymentNumber> for String {
    fn from(number: PaymentNumber) -> String {
        number.to_string()
    }
}

/// An item of a sale: what a buyer can have one live order of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Offer {
    /// The sale.
    pub sale: SaleId,
    /// The item.
    pub item: ItemId,
}

impl fmt::Display for Offer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.sale, self.item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buyer() -> BuyerKey {
        BuyerKey::of(&Buyer::parse("alice").unwrap(), "salt")
    }

    #[test]
    fn an_order_id_says_when_and_whose() {
        let pressed_at: Timestamp = "2026-11-11T00:00:00.123Z".parse().unwrap();
        let id = OrderId::new(pressed_at, &buyer(), u32::MAX);
        assert_eq!(id.as_str().len(), OrderId::LENGTH);
        assert_eq!(id.pressed_at(), pressed_at);
        assert_eq!(id.buyer(), buyer());
        assert_eq!(OrderId::parse(id.as_str()), Ok(id));
    }

    #[test]
    fn a_payment_number_says_which_order_and_which_try() {
        let order = OrderId::new("2026-11-11T00:00:00Z".parse().unwrap(), &buyer(), 7);
        let numbers: Vec<_> = (0..=u8::MAX).filter_map(|attempt| PaymentNumber::new(order.clone(), attempt)).collect();
        assert_eq!(numbers.len(), 32, "one character tells no more apart");
        for (attempt, number) in (0..).zip(&numbers) {
            let text = number.to_string();
            assert_eq!((text.len(), number.order(), number.attempt()), (32, &order, attempt));
            assert_eq!(PaymentNumber::parse(&text).as_ref(), Ok(number));
            assert_eq!(String::from(number.clone()), text);
        }
        assert!(numbers.is_sorted() && numbers.iter().map(PaymentNumber::to_string).is_sorted());
        for bad in ["", order.as_str(), &format!("{order}U"), &format!("{order}00"), &format!("{order}é"), "x"] {
            assert!(PaymentNumber::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn order_ids_sort_by_time() {
        let at = |ms| OrderId::new(Timestamp::from_millisecond(ms).unwrap(), &buyer(), 7);
        assert!(at(1_000) < at(1_001) && at(1_001) < at(2_000_000_000_000));
    }

    #[test]
    fn the_salt_and_the_name_both_count() {
        let alice = Buyer::parse("alice").unwrap();
        assert_ne!(BuyerKey::of(&alice, "a"), BuyerKey::of(&alice, "b"));
        assert_ne!(BuyerKey::of(&alice, "a"), BuyerKey::of(&Buyer::parse("bob").unwrap(), "a"));
    }

    #[test]
    fn strange_names_are_refused() {
        for bad in ["", "a b", "a#b", "../x", "日本", &"x".repeat(33), "a\u{0}"] {
            assert!(SaleId::parse(bad).is_err(), "{bad:?}");
            assert!(ItemId::parse(bad).is_err(), "{bad:?}");
        }
        for bad in ["", "short", "000000000000000000000000000000U", "ZZZZZZZZZZ000000000000000000000", &"é".repeat(16)]
        {
            assert!(OrderId::parse(bad).is_err(), "{bad:?}");
        }
        assert!(Buyer::parse("auth0|5f7c").is_ok());
        assert!(Buyer::parse("line\nbreak").is_err());
        assert!(IdempotencyKey::parse("a b").is_err());
    }
}
