//! A ticket opens one WebSocket, once. It is what a browser can put into a URL instead of its token, which must not stand in logs.

use jiff::SignedDuration;
use sha2::{Digest as _, Sha256};

use crate::ids::{base32, from_base32};

/// How long a ticket is good: long enough to connect over a slow line.
pub const GOOD_FOR: SignedDuration = SignedDuration::from_secs(60);

/// A ticket: 128 random bits. Knowing it is being its buyer, so it has no `Debug` and no `Display`.
#[derive(Clone, PartialEq, Eq)]
pub struct Ticket(String);

impl Ticket {
    const LENGTH: u32 = 26;

    /// A ticket of these random bits.
    pub fn new(random: u128) -> Self {
        Self(base32(random, Self::LENGTH))
    }

    /// Reads a ticket; `None`: no ticket looks like this.
    pub fn parse(text: &str) -> Option<Self> {
        (text.len() == 26 && from_base32(text).is_some()).then(|| Self(text.to_owned()))
    }

    /// The text, for its buyer alone.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// What is kept of it: enough to know it again, not enough to use it.
    pub fn digest(&self) -> String {
        let digest = Sha256::digest(self.0.as_bytes());
        let bits = digest.iter().take(16).fold(0_u128, |bits, byte| (bits << 8) | u128::from(*byte));
        base32(bits, Self::LENGTH)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_is_read_as_it_was_written_and_not_kept() {
        let ticket = Ticket::new(u128::MAX / 3);
        assert_eq!(ticket.reveal().len(), 26);
        assert!(Ticket::parse(ticket.reveal()) == Some(ticket.clone()));
        assert_ne!(ticket.digest(), ticket.reveal());
        assert_ne!(ticket.digest(), Ticket::new(u128::MAX / 3 + 1).digest());
        for text in ["", "x", "../orders", &"U".repeat(26), &ticket.reveal().to_ascii_lowercase(), &"0".repeat(27)] {
            assert!(Ticket::parse(text).is_none(), "{text}");
        }
    }
}
