//! Money: an integer in minor units (fen, cents) and its currency. Never a float.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ids::BadName;

/// An ISO 4217 code, such as `CNY`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Currency(String);

impl Currency {
    pub fn parse(text: impl Into<String>) -> Result<Self, BadName> {
        let text = text.into();
        if text.len() != 3 || !text.bytes().all(|byte| byte.is_ascii_uppercase()) {
            return Err(BadName { what: "currency", rule: "must be three capital letters, such as CNY" });
        }
        Ok(Self(text))
    }

    /// The ISO 4217 code for "no currency", for an order whose price is not known yet.
    pub fn none() -> Self {
        Self("XXX".to_owned())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Currency {
    type Error = BadName;
    fn try_from(text: String) -> Result<Self, BadName> {
        Self::parse(text)
    }
}

impl From<Currency> for String {
    fn from(currency: Currency) -> String {
        currency.0
    }
}

impl fmt::Display for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The highest price: a trillion minor units. A price times any valid quantity fits into an `i64`.
pub const MAX_PRICE: i64 = 1_000_000_000_000;

/// The price of `quantity` units. It never saturates: prices are at most [`MAX_PRICE`], quantities are small.
pub fn amount(price: i64, quantity: u32) -> i64 {
    price.saturating_mul(i64::from(quantity))
}
