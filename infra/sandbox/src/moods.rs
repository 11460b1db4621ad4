//! How a provider feels: for tests of what the shop does when one is not well. A mood is forgotten with the process.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use payments::ProviderKind;

/// How a provider answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mood {
    /// As it should.
    Well,
    /// With 503, and nothing is done.
    Down,
    /// Never, and nothing is done.
    Slow,
    /// With 200 and a page that means nothing; nothing is done.
    Rubbish,
    /// With its own server error (500), and nothing is done. Stripe keeps that answer under the request's key.
    Failing,
    /// Refunds fail at once: nothing goes back. Other calls are answered well.
    RefundsFail,
    /// Refunds are taken, and stay pending. Other calls are answered well.
    RefundsPend,
    /// The buyer's bank does not take refunds (WeChat Pay). Elsewhere they fail. Other calls are answered well.
    RefundsStick,
    /// Refunds are refused for good. Other calls are answered well.
    RefundsRefused,
    /// It does what was asked, and signs the answer wrongly. Stripe, which signs nothing, answers rubbish instead.
    WrongSignature,
}

impl Mood {
    /// The name of every mood.
    pub const NAMES: &str = "well, down, slow, rubbish, failing, refunds-fail, refunds-pend, refunds-stick, \
                             refunds-refused or wrong-signature";

    /// Whether it concerns refunds only.
    fn is_about_refunds(self) -> bool {
        matches!(self, Self::RefundsFail | Self::RefundsPend | Self::RefundsStick | Self::RefundsRefused)
    }

    /// The mood of that name: one of [`Mood::NAMES`].
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "well" => Self::Well,
            "down" => Self::Down,
            "slow" => Self::Slow,
            "rubbish" => Self::Rubbish,
            "failing" => Self::Failing,
            "refunds-fail" => Self::RefundsFail,
            "refunds-pend" => Self::RefundsPend,
            "refunds-stick" => Self::RefundsStick,
            "refunds-refused" => Self::RefundsRefused,
            "wrong-signature" => Self::WrongSignature,
            _ => return None,
        })
    }
}

/// The moods of all providers. Copies share them.
#[derive(Clone, Default)]
pub(super) struct Moods(Arc<Mutex<BTreeMap<ProviderKind, Spell>>>);

struct Spell {
    mood: Mood,
    calls_left: Option<u32>,
}

impl Moods {
    pub(super) fn set(&self, kind: ProviderKind, mood: Mood, calls: Option<u32>) {
        let mut moods = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        moods.insert(kind, Spell { mood, calls_left: calls });
    }

    /// The mood that the next call meets. A mood about refunds is met by refunds only.
    pub(super) fn next(&self, kind: ProviderKind, is_refund: bool) -> Mood {
        let mut moods = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match moods.get_mut(&kind) {
            None => Mood::Well,
            Some(Spell { mood, .. }) if mood.is_about_refunds() && !is_refund => Mood::Well,
            Some(Spell { mood, calls_left: None }) => *mood,
            Some(Spell { mood, calls_left: Some(left) }) => match left.checked_sub(1) {
                Some(fewer) => {
                    *left = fewer;
                    *mood
                }
                None => Mood::Well,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mood_lasts_as_long_as_it_was_told_to() {
        let moods = Moods::default();
        assert_eq!(moods.next(ProviderKind::Stripe, false), Mood::Well);
        moods.set(ProviderKind::Stripe, Mood::Down, Some(2));
        moods.set(ProviderKind::Alipay, Mood::Slow, None);
        let stripe: Vec<Mood> = (0..3).map(|_| moods.next(ProviderKind::Stripe, false)).collect();
        assert_eq!(stripe, [Mood::Down, Mood::Down, Mood::Well]);
        assert!((0..5).all(|_| moods.next(ProviderKind::Alipay, false) == Mood::Slow));
        moods.set(ProviderKind::Alipay, Mood::Well, None);
        assert_eq!(moods.next(ProviderKind::Alipay, false), Mood::Well);
    }

    #[test]
    fn a_mood_about_refunds_waits_for_a_refund() {
        let moods = Moods::default();
        moods.set(ProviderKind::Stripe, Mood::RefundsFail, Some(1));
        assert_eq!(moods.next(ProviderKind::Stripe, false), Mood::Well);
        assert_eq!(moods.next(ProviderKind::Stripe, true), Mood::RefundsFail);
        assert_eq!(moods.next(ProviderKind::Stripe, true), Mood::Well);
    }

    #[test]
    fn moods_have_names() {
        assert_eq!(Mood::parse("wrong-signature"), Some(Mood::WrongSignature));
        assert_eq!(Mood::parse("angry"), None);
    }
}
