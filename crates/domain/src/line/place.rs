//! Places: where a buyer stands in the line.

use hmac::{Hmac, KeyInit as _, Mac as _};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::ids::BuyerKey;

/// The first place of those who join after the opening. Everybody who joined before it has a lower place.
const LATE: u64 = 1 << 63;

/// The secret that puts the lobby in order. Its [`Commitment`] is published when the line is set up, the seed itself at
/// the opening: until then nobody can know a place, and afterwards everybody can check that it was not exchanged.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Seed([u8; 32]);

/// The SHA-256 of a [`Seed`], in hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Commitment(String);

/// Whether a buyer joined before or after the opening.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Cohort {
    /// Before the opening: in random order.
    Lobby,
    /// At or after the opening: in order of arrival.
    Late,
}

impl Cohort {
    pub fn of(joined_at: Timestamp, opens_at: Timestamp) -> Self {
        if joined_at < opens_at { Self::Lobby } else { Self::Late }
    }
}

impl Seed {
    pub fn new(random: [u8; 32]) -> Self {
        Self(random)
    }

    pub fn commitment(&self) -> Commitment {
        Commitment(hex(&Sha256::digest(self.0)))
    }

    /// The seed in hexadecimal digits. Before the opening it is a secret.
    pub fn reveal(&self) -> String {
        hex(&self.0)
    }
}

impl TryFrom<String> for Seed {
    type Error = &'static str;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        let bytes = unhex(&text).ok_or("a seed is 64 hexadecimal digits")?;
        bytes.try_into().map(Self).map_err(|_| "a seed is 64 hexadecimal digits")
    }
}

impl From<Seed> for String {
    fn from(seed: Seed) -> String {
        seed.reveal()
    }
}

/// A seed must not appear in a log.
impl std::fmt::Debug for Seed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Seed(..)")
    }
}

impl Commitment {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A place in the line. The line serves lower places first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Place(u64);

impl Place {
    /// Before everybody: `through` of a line that has not moved yet.
    pub const START: Place = Place(0);
    /// How many different places the lobby has.
    pub(super) const LOBBY_SIZE: u64 = LATE;

    /// The place of a buyer. In the lobby it depends on the seed and the buyer alone, so being early gives nothing and
    /// joining again changes nothing. Later ones follow in order of arrival, to the microsecond.
    pub fn of(seed: &Seed, buyer: &BuyerKey, joined_at: Timestamp, opens_at: Timestamp) -> Self {
        match Cohort::of(joined_at, opens_at) {
            Cohort::Lobby => Self::in_lobby(seed, buyer),
            Cohort::Late => Self::late(joined_at, opens_at),
        }
    }

    /// 63 bits of HMAC-SHA-256 of the buyer's key under the seed. Not 0: that is [`Place::START`].
    fn in_lobby(seed: &Seed, buyer: &BuyerKey) -> Self {
        let mac = mac(&seed.0, buyer.as_str().as_bytes());
        let bits = mac.iter().take(8).fold(0_u64, |bits, byte| (bits << 8) | u64::from(*byte));
        Self((bits >> 1).max(1))
    }

    /// The place of somebody who arrives at this moment, after the opening.
    pub fn late(joined_at: Timestamp, opens_at: Timestamp) -> Self {
        let micros = joined_at.as_microsecond().saturating_sub(opens_at.as_microsecond());
        Self(LATE.saturating_add(u64::try_from(micros).unwrap_or(0)))
    }

    /// The place before which a share of the lobby stands.
    pub(super) fn after_share_of_lobby(people: f64, of: f64) -> Self {
        let share = if of > 0.0 { (people / of).clamp(0.0, 1.0) } else { 1.0 };
        Self(super::pace::to_u64(share * to_f64(LATE)).min(LATE))
    }

    /// The place of arrivals up to this long after the opening.
    pub(super) fn after_micros(micros: f64) -> Self {
        Self(LATE.saturating_add(super::pace::to_u64(micros)))
    }

    /// Microseconds after the opening, or `None` for a place in the lobby.
    pub(super) fn late_micros(self) -> Option<u64> {
        self.0.checked_sub(LATE)
    }

    pub fn cohort(self) -> Cohort {
        if self.0 < LATE { Cohort::Lobby } else { Cohort::Late }
    }

    /// The number, as it is published.
    pub fn number(self) -> u64 {
        self.0
    }

    pub fn from_number(number: u64) -> Self {
        Self(number)
    }
}

/// HMAC-SHA-256.
pub(super) fn mac(key: &[u8], message: &[u8]) -> [u8; 32] {
    // A key of any length is valid: RFC 2104. The empty result can therefore not occur.
    Hmac::<Sha256>::new_from_slice(key)
        .map(|mac| mac.chain_update(message).finalize().into_bytes().into())
        .unwrap_or_default()
}

/// Exact enough for shares of the axis: 53 bits.
#[expect(clippy::as_conversions, reason = "there is no lossless conversion, and none is needed")]
pub(super) fn to_f64(number: u64) -> f64 {
    number as f64
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(super) fn unhex(text: &str) -> Option<Vec<u8>> {
    // Lower case only, so that nothing has two texts.
    if !text.len().is_multiple_of(2) || !text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
        return None;
    }
    (0..text.len() / 2).map(|n| u8::from_str_radix(text.get(2 * n..2 * n + 2)?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Buyer;

    fn buyer(n: u32) -> BuyerKey {
        BuyerKey::of(&Buyer::parse(format!("buyer-{n}")).unwrap(), "salt")
    }

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millisecond(ms).unwrap()
    }

    #[test]
    fn a_seed_parses_back_and_its_commitment_is_its_sha_256() {
        let seed = Seed::new([7; 32]);
        assert_eq!(Seed::try_from(seed.reveal()).as_ref(), Ok(&seed));
        // printf '\7%.0s' {1..32} | sha256sum
        assert_eq!(seed.commitment().as_str(), "4bb06f8e4e3a7715d201d573d0aa423762e55dabd61a2c02278fa56cc6d294e0");
        assert_eq!(format!("{seed:?}"), "Seed(..)");
        for bad in ["", "07", &"0g".repeat(32), &"07".repeat(33), &"é".repeat(32)] {
            assert!(Seed::try_from(bad.to_owned()).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn hmac_as_in_rfc_4231() {
        let expected = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        assert_eq!(hex(&mac(b"Jefe", b"what do ya want for nothing?")), expected);
    }

    #[test]
    fn in_the_lobby_the_time_of_joining_gives_nothing() {
        let seed = Seed::new([1; 32]);
        let place = |ms| Place::of(&seed, &buyer(1), at(ms), at(10_000));
        assert_eq!(place(0), place(9_999));
        assert_eq!(place(0).cohort(), Cohort::Lobby);
        assert_ne!(place(0), Place::of(&Seed::new([2; 32]), &buyer(1), at(0), at(10_000)), "another seed");
        assert_ne!(place(0), Place::of(&seed, &buyer(2), at(0), at(10_000)), "another buyer");
    }

    #[test]
    fn later_ones_follow_in_order_of_arrival() {
        let seed = Seed::new([1; 32]);
        let place = |n, ms| Place::of(&seed, &buyer(n), at(ms), at(10_000));
        assert!(place(1, 10_000) < place(2, 10_001) && place(2, 10_001) < place(3, 99_000));
        assert!((0..1_000).all(|n| place(n, 0) < place(n, 10_000)), "after the whole lobby");
    }

    /// Chi-square over 100,000 joins: the tenth of the lobby in which a buyer stands does not depend on the tenth of
    /// the time in which the buyer joined.
    #[test]
    fn the_order_of_the_lobby_does_not_depend_on_the_time_of_joining() {
        const JOINS: u32 = 100_000;
        let seed = Seed::new([3; 32]);
        let mut table = [[0_u32; 10]; 10];
        for n in 0..JOINS {
            let joined_at = at(i64::from(n));
            let place = Place::of(&seed, &buyer(n), joined_at, at(i64::from(JOINS)));
            let tenth = usize::try_from(place.number() / (LATE / 10 + 1)).unwrap();
            table[usize::try_from(n / (JOINS / 10)).unwrap()][tenth] += 1;
        }
        let expected = f64::from(JOINS) / 100.0;
        let chi_square: f64 = table.iter().flatten().map(|seen| (f64::from(*seen) - expected).powi(2) / expected).sum();
        // 99 degrees of freedom (the rows are fixed: 90): 99.9 % of all tables are below 148.
        assert!(chi_square < 148.0, "{chi_square}");
    }
}
