//! Identifiers. Each is parsed once, where it enters the system, and is valid from then on.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Why a text is not a valid identifier.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} {rule}")]
pub struct BadName {
    /// The field or header, as a caller knows it.
    pub what: &'static str,
    /// The rule that the text breaks: "must be ...".
    pub rule: &'static str,
}

/// Defines an identifier with a length limit and an alphabet.
macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $what:literal, $max:literal, $rule:literal, $allowed:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            pub fn parse(text: impl Into<String>) -> Result<Self, BadName> {
                let text = text.into();
                let allowed: fn(char) -> bool = $allowed;
                if text.is_empty() || text.len() > $max || !text.chars().all(allowed) {
                    return Err(BadName { what: $what, rule: $rule });
                }
                Ok(Self(text))
            }

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
    /// A buyer: the `sub` of a verified token.
    Buyer, "sub", 128, "must be 1 to 128 characters, none of them a control character",
    |c| !c.is_control()
);
name!(
    /// A name that the caller gives to a request, so that a retry with the same key is not carried out twice.
    IdempotencyKey, "Idempotency-Key", 64, "must be 1 to 64 visible ASCII characters",
    |c| c.is_ascii_graphic()
);
name!(
    /// The shop's own name for a purchase, such as the number of a cart.
    Reference, "reference", 64, "must be 1 to 64 bytes, none of them a control character",
    |c| !c.is_control()
);

/// A purchase without a key of its own uses its order id as the key.
impl From<&OrderId> for IdempotencyKey {
    fn from(order: &OrderId) -> Self {
        Self(order.as_str().to_owned())
    }
}

/// Crockford's base 32: no letter looks like a digit, and texts sort like the numbers they encode.
const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/// Encodes the lowest `5 * length` bits of `bits`, most significant first.
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

/// A short key for a buyer: 16 characters that encode 80 bits of a salted digest. Among ten million buyers, the
/// probability that any two share a key is 4 in 100 billion. Without the salt, a guessable `sub` such as a phone number
/// could be recovered from an order id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct BuyerKey(String);

impl BuyerKey {
    const LENGTH: u32 = 16;

    /// `salt` is a secret of the deployment.
    pub fn of(buyer: &Buyer, salt: &str) -> Self {
        let digest = Sha256::new().chain_update(salt).chain_update([0]).chain_update(buyer.as_str()).finalize();
        let bits = digest.iter().take(10).fold(0_u128, |bits, byte| (bits << 8) | u128::from(*byte));
        Self(base32(bits, Self::LENGTH))
    }

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

/// The id of an order: the time of the purchase request (10 characters), the [`BuyerKey`] (16) and 25 random bits (5).
///
/// It has 31 characters. Every payment provider accepts 32, so one is left for the attempt in a [`PaymentNumber`].
/// The id contains the partition key of the orders and claims tables: an order is found without an index, and a holder
/// in a bucket leads to its claim by its id alone. The random bits separate requests that one buyer sends within the
/// same millisecond.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct OrderId(String);

impl OrderId {
    pub const LENGTH: usize = 31;

    /// Uses the lowest 25 bits of `random`.
    pub fn new(pressed_at: Timestamp, buyer: &BuyerKey, random: u32) -> Self {
        let ms = u128::try_from(pressed_at.as_millisecond()).unwrap_or(0);
        Self(format!("{}{}{}", base32(ms, 10), buyer, base32(u128::from(random), 5)))
    }

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

    /// When the purchase was requested.
    pub fn pressed_at(&self) -> Timestamp {
        self.time().unwrap_or(Timestamp::UNIX_EPOCH)
    }

    pub fn buyer(&self) -> BuyerKey {
        BuyerKey(self.0.get(10..26).unwrap_or_default().to_owned())
    }

    /// The shard of its sale's index that the order is in: the last of its random characters.
    pub fn shard(&self) -> OrderShard {
        let last = self.0.bytes().last();
        OrderShard(ALPHABET.iter().position(|letter| Some(*letter) == last).unwrap_or(0))
    }

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

/// One of the 32 parts of the index of a sale's orders. A key of an index takes 1,000 writes a second, so the orders of
/// one sale must not share one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OrderShard(usize);

impl OrderShard {
    /// All shards, in order.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..ALPHABET.len()).map(Self)
    }
}

impl fmt::Display for OrderShard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", ALPHABET.get(self.0).copied().map_or('0', char::from))
    }
}

/// The merchant's number of one attempt to pay an order: the order id and one character for the attempt.
///
/// It has 32 characters, the most that every provider accepts. Each attempt needs its own number, because a provider
/// does not accept the number of a payment that was closed, or that was started for another amount.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PaymentNumber {
    order: OrderId,
    attempt: u8,
}

impl PaymentNumber {
    /// The most attempts to pay one order: as many as one character can encode.
    pub const ATTEMPTS: usize = ALPHABET.len();

    /// Attempts are counted from 0. `None` when the order has used all its attempts.
    pub fn new(order: OrderId, attempt: u8) -> Option<Self> {
        (usize::from(attempt) < Self::ATTEMPTS).then_some(Self { order, attempt })
    }

    pub fn parse(text: impl AsRef<str>) -> Result<Self, BadName> {
        let bad = BadName { what: "paymentId", rule: "must be 32 characters of Crockford's base 32" };
        let read = |text: &str| {
            let (order, attempt) = text.split_at_checked(OrderId::LENGTH)?;
            let attempt = (attempt.len() == 1).then(|| from_base32(attempt))??;
            Self::new(OrderId::parse(order).ok()?, u8::try_from(attempt).ok()?)
        };
        read(text.as_ref()).ok_or(bad)
    }

    pub fn order(&self) -> &OrderId {
        &self.order
    }

    /// Counted from 0.
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

/// An item in a sale. A buyer has at most one live order for an offer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Offer {
    pub sale: SaleId,
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
    fn an_order_id_contains_its_time_and_its_buyer() {
        let pressed_at: Timestamp = "2026-11-11T00:00:00.123Z".parse().unwrap();
        let id = OrderId::new(pressed_at, &buyer(), u32::MAX);
        assert_eq!(id.as_str().len(), OrderId::LENGTH);
        assert_eq!(id.pressed_at(), pressed_at);
        assert_eq!(id.buyer(), buyer());
        assert_eq!(OrderId::parse(id.as_str()), Ok(id));
    }

    #[test]
    fn a_payment_number_contains_its_order_and_its_attempt() {
        let order = OrderId::new("2026-11-11T00:00:00Z".parse().unwrap(), &buyer(), 7);
        let numbers: Vec<_> = (0..=u8::MAX).filter_map(|attempt| PaymentNumber::new(order.clone(), attempt)).collect();
        assert_eq!(numbers.len(), 32, "one character encodes 32 attempts");
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
    fn a_buyer_key_depends_on_the_salt_and_the_buyer() {
        let alice = Buyer::parse("alice").unwrap();
        assert_ne!(BuyerKey::of(&alice, "a"), BuyerKey::of(&alice, "b"));
        assert_ne!(BuyerKey::of(&alice, "a"), BuyerKey::of(&Buyer::parse("bob").unwrap(), "a"));
    }

    #[test]
    fn invalid_identifiers_are_refused() {
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
