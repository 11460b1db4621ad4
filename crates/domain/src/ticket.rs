//! Tickets: a ticket opens one WebSocket, once.
//!
//! A browser cannot send its token in a header when it opens a WebSocket, and a token in the URL would end up in access
//! logs. So it exchanges the token for a ticket, which is useless after it was used.

use jiff::SignedDuration;
use sha2::{Digest as _, Sha256};

use crate::ids::{base32, from_base32};

/// How long a ticket is valid: long enough to connect over a slow network.
pub const GOOD_FOR: SignedDuration = SignedDuration::from_secs(60);

/// 128 random bits. A ticket is a credential, so it has neither `Debug` nor `Display`.
#[derive(Clone, PartialEq, Eq)]
pub struct Ticket(String);

impl Ticket {
    const LENGTH: u32 = 26;

    pub fn new(random: u128) -> Self {
        Self(base32(random, Self::LENGTH))
    }

    /// `None` when the text cannot be a ticket.
    pub fn parse(text: &str) -> Option<Self> {
        (text.len() == 26 && from_base32(text).is_some()).then(|| Self(text.to_owned()))
    }

    /// The text of the ticket. Give it only to its buyer.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// What the store keeps: enough to recognise the ticket, not enough to use it.
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
    fn a_ticket_parses_back_and_its_digest_does_not_reveal_it() {
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
