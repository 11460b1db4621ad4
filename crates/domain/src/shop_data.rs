//! What a shop attaches to a purchase: its own reference, and a few opaque pairs.
//!
//! The product only carries them: from the press through claim, message and order to exports, events and the payment
//! provider. The claim has them until the order exists, so a lost message loses nothing.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::ids::{BadName, Reference};

/// How many pairs a purchase may carry.
pub const MAX_PAIRS: usize = 8;
/// How many bytes all names and values may have together. With it, a buyer's row with one claim stays below 1 KB, which
/// is one write unit.
pub const MAX_BYTES: usize = 256;
/// How many bytes a name may have. Stripe accepts 40 in its metadata, where each is preceded by `shop_`.
pub const MAX_NAME_BYTES: usize = 32;

/// The reference and the metadata of a purchase.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShopData {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<Reference>,
    #[serde(default, skip_serializing_if = "Metadata::is_empty")]
    pub metadata: Metadata,
}

impl ShopData {
    pub fn is_empty(&self) -> bool {
        self.reference.is_none() && self.metadata.is_empty()
    }

    /// A short digest, which tells whether two requests carried the same. `None` if there is nothing.
    pub fn digest(&self) -> Option<String> {
        if self.is_empty() {
            return None;
        }
        let mut hasher = Sha256::new();
        // Each part is preceded by its length, so that no two different values are hashed from the same bytes.
        let reference = self.reference.as_ref().map_or("", Reference::as_str);
        let pairs = self.metadata.0.iter().flat_map(|(name, value)| [name.as_str(), value.as_str()]);
        for part in std::iter::once(reference).chain(pairs) {
            hasher.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
            hasher.update(part);
        }
        Some(hasher.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect())
    }
}

/// Names and values that only the shop understands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "BTreeMap<String, String>")]
pub struct Metadata(BTreeMap<String, String>);

impl Metadata {
    pub fn parse(pairs: BTreeMap<String, String>) -> Result<Self, BadName> {
        let bytes: usize = pairs.iter().map(|(name, value)| name.len() + value.len()).sum();
        let is_name = |name: &str| {
            let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
            !name.is_empty() && name.len() <= MAX_NAME_BYTES && name.chars().all(allowed)
        };
        let is_value = |value: &str| !value.chars().any(char::is_control);
        let fits = pairs.len() <= MAX_PAIRS && bytes <= MAX_BYTES;
        if !fits || !pairs.iter().all(|(name, value)| is_name(name) && is_value(value)) {
            return Err(BadName {
                what: "metadata",
                rule: "must be at most 8 pairs of texts, 256 bytes in all; names have 1 to 32 of the characters \
                       a-z, A-Z, 0-9, _, - and ., and values have no control characters",
            });
        }
        Ok(Self(pairs))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn pairs(&self) -> &BTreeMap<String, String> {
        &self.0
    }
}

impl TryFrom<BTreeMap<String, String>> for Metadata {
    type Error = BadName;
    fn try_from(pairs: BTreeMap<String, String>) -> Result<Self, BadName> {
        Self::parse(pairs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(pairs: &[(&str, &str)]) -> Result<Metadata, BadName> {
        Metadata::parse(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    fn data(reference: Option<&str>, pairs: &[(&str, &str)]) -> ShopData {
        let reference = reference.map(|text| Reference::parse(text).unwrap());
        ShopData { reference, metadata: metadata(pairs).unwrap() }
    }

    #[test]
    fn metadata_is_small() {
        let names: Vec<String> = (0..=MAX_PAIRS).map(|n| format!("n{n}")).collect();
        let pairs = |many: usize| names.iter().take(many).map(|name| (name.as_str(), "v")).collect::<Vec<_>>();
        assert!(metadata(&pairs(MAX_PAIRS)).is_ok());
        assert!(metadata(&pairs(MAX_PAIRS + 1)).is_err());
        assert!(metadata(&[("n", &"v".repeat(MAX_BYTES - 1))]).is_ok());
        assert!(metadata(&[("n", &"v".repeat(MAX_BYTES))]).is_err());
        assert!(metadata(&[(&"n".repeat(MAX_NAME_BYTES), "")]).is_ok());
        assert!(metadata(&[(&"n".repeat(MAX_NAME_BYTES + 1), "")]).is_err());
        for (name, value) in [("", "v"), ("a b", "v"), ("ü", "v"), ("n[0]", "v"), ("n", "a\nb"), ("n", "\0")] {
            assert!(metadata(&[(name, value)]).is_err(), "{name:?} {value:?}");
        }
        assert!(metadata(&[("campaign", "双十一"), ("a-b_c.d", "")]).is_ok());
    }

    #[test]
    fn a_digest_tells_different_data_apart() {
        assert_eq!(data(None, &[]).digest(), None);
        let all = [
            data(Some("a"), &[]),
            data(Some("b"), &[]),
            data(None, &[("a", "")]),
            data(None, &[("a", "b")]),
            data(None, &[("ab", "")]),
            data(Some("a"), &[("a", "b")]),
        ];
        for (n, one) in all.iter().enumerate() {
            assert_eq!(one.digest().unwrap().len(), 16);
            for other in all.iter().skip(n + 1) {
                assert_ne!(one.digest(), other.digest(), "{one:?} {other:?}");
            }
        }
    }
}
