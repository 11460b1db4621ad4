//! Receipts: what a buyer shows to prove a place.
//!
//! A receipt names its sale and its buyer, so it is worthless to anybody else and in any other sale. It does not say
//! the place: nobody may know a bad place before the opening and join again with another account. After the opening the
//! seed is public, and the place follows from the receipt.

use hmac::{Hmac, KeyInit as _, Mac as _};
use jiff::Timestamp;
use sha2::Sha256;

use super::place::{Cohort, Place, Seed, hex, unhex};
use crate::ids::{BuyerKey, SaleId};

/// The longest receipt that is read.
const MAX_LENGTH: usize = 160;
/// Bytes of the MAC in a receipt: 128 bits.
const MAC_LENGTH: usize = 16;

/// A secret of the stage that signs receipts. Two are in use while one is being replaced: the new one signs, both
/// verify.
#[derive(Clone)]
pub struct ReceiptKey(Vec<u8>);

impl ReceiptKey {
    /// `None` for a secret that is too short to be one: less than 128 bits.
    pub fn new(secret: impl Into<Vec<u8>>) -> Option<Self> {
        let secret = secret.into();
        (secret.len() >= 16).then_some(Self(secret))
    }

    fn mac(&self, receipt: &Receipt) -> Option<Hmac<Sha256>> {
        let mac = Hmac::<Sha256>::new_from_slice(&self.0).ok()?;
        Some(mac.chain_update(b"line-receipt:").chain_update(receipt.claims()))
    }
}

/// A key must not appear in a log.
impl std::fmt::Debug for ReceiptKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ReceiptKey(..)")
    }
}

/// What a receipt says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    pub sale: SaleId,
    pub buyer: BuyerKey,
    pub joined_at: Timestamp,
}

/// Why a receipt is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadReceipt {
    #[error("this is not a receipt of a waiting line")]
    Malformed,
    /// Altered, forged, or signed with a key that is no longer in use.
    #[error("the receipt's signature is not valid")]
    Forged,
    #[error("the receipt is for another sale")]
    OtherSale,
    #[error("the receipt belongs to another buyer")]
    OtherBuyer,
}

impl Receipt {
    fn claims(&self) -> String {
        format!("{}.{}.{}", self.sale, self.buyer, self.joined_at.as_microsecond())
    }

    /// The text that a buyer gets.
    pub fn sign(&self, key: &ReceiptKey) -> String {
        let mac: Vec<u8> = key.mac(self).map(|mac| mac.finalize().into_bytes().to_vec()).unwrap_or_default();
        format!("{}.{}", self.claims(), hex(mac.get(..MAC_LENGTH).unwrap_or_default()))
    }

    /// Reads a receipt and verifies it, in constant time, for the buyer whom the token names and the sale that is
    /// pressed for.
    pub fn verify(text: &str, keys: &[ReceiptKey], sale: &SaleId, buyer: &BuyerKey) -> Result<Self, BadReceipt> {
        let (receipt, mac) = Self::read(text).ok_or(BadReceipt::Malformed)?;
        let signed =
            |key: &ReceiptKey| key.mac(&receipt).is_some_and(|expected| expected.verify_truncated_left(&mac).is_ok());
        if mac.len() != MAC_LENGTH || !keys.iter().any(signed) {
            return Err(BadReceipt::Forged);
        }
        if receipt.sale != *sale {
            return Err(BadReceipt::OtherSale);
        }
        if receipt.buyer != *buyer {
            return Err(BadReceipt::OtherBuyer);
        }
        Ok(receipt)
    }

    fn read(text: &str) -> Option<(Self, Vec<u8>)> {
        if text.len() > MAX_LENGTH {
            return None;
        }
        let mut parts = text.split('.');
        let sale = SaleId::parse(parts.next()?).ok()?;
        let buyer = BuyerKey::try_from(parts.next()?.to_owned()).ok()?;
        let joined_at = Timestamp::from_microsecond(parts.next()?.parse().ok()?).ok()?;
        let mac = unhex(parts.next()?)?;
        parts.next().is_none().then_some((Self { sale, buyer, joined_at }, mac))
    }

    pub fn cohort(&self, opens_at: Timestamp) -> Cohort {
        Cohort::of(self.joined_at, opens_at)
    }

    pub fn place(&self, seed: &Seed, opens_at: Timestamp) -> Place {
        Place::of(seed, &self.buyer, self.joined_at, opens_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Buyer;

    fn key(n: u8) -> ReceiptKey {
        ReceiptKey::new([n; 32]).unwrap()
    }

    fn buyer(name: &str) -> BuyerKey {
        BuyerKey::of(&Buyer::parse(name).unwrap(), "salt")
    }

    fn sale(id: &str) -> SaleId {
        SaleId::parse(id).unwrap()
    }

    fn receipt() -> Receipt {
        let joined_at = "2026-11-11T00:00:00.123456Z".parse().unwrap();
        Receipt { sale: sale("s-1"), buyer: buyer("ann"), joined_at }
    }

    #[test]
    fn a_receipt_verifies_for_its_buyer_and_sale_under_either_key() {
        let text = receipt().sign(&key(1));
        assert!(text.len() < MAX_LENGTH);
        let verify = |keys: &[ReceiptKey]| Receipt::verify(&text, keys, &sale("s-1"), &buyer("ann"));
        assert_eq!(verify(&[key(1)]), Ok(receipt()));
        assert_eq!(verify(&[key(2), key(1)]), Ok(receipt()), "while the key is being replaced");
        assert_eq!(verify(&[key(2)]), Err(BadReceipt::Forged), "after it was replaced");
    }

    #[test]
    fn a_receipt_is_worthless_to_anybody_else() {
        let text = receipt().sign(&key(1));
        assert_eq!(Receipt::verify(&text, &[key(1)], &sale("s-1"), &buyer("bob")), Err(BadReceipt::OtherBuyer));
        assert_eq!(Receipt::verify(&text, &[key(1)], &sale("s-2"), &buyer("ann")), Err(BadReceipt::OtherSale));
    }

    #[test]
    fn every_altered_character_is_noticed() {
        let text = receipt().sign(&key(1));
        for position in 0..text.len() {
            for other in ['0', 'A', '.', 'f'] {
                let mut altered = text.clone();
                altered.replace_range(position..=position, &other.to_string());
                if altered != text {
                    let verified = Receipt::verify(&altered, &[key(1)], &sale("s-1"), &buyer("ann"));
                    assert!(verified.is_err(), "{altered}");
                }
            }
        }
        for bad in ["", "...", "s-1", &text[..text.len() - 2], &format!("{text}00"), &"x".repeat(10_000)] {
            assert!(Receipt::verify(bad, &[key(1)], &sale("s-1"), &buyer("ann")).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_short_secret_is_no_key() {
        assert!(ReceiptKey::new([1; 15]).is_none());
        assert_eq!(format!("{:?}", key(1)), "ReceiptKey(..)");
    }
}
