//! The rate limits of a sale's settings, for one running function: a token bucket per item, and a cool-down per
//! buyer. API Gateway throttles before them.
//!
//! A press passes both limits or counts for neither, so a buyer who waits as long as the answer says is not
//! refused for the earlier press. The memory is bounded: when it is full the oldest entries are forgotten, to the
//! buyer's advantage. A sale without limits costs nothing here.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Mutex, PoisonError};

use domain::Timestamp;
use domain::ids::{BuyerKey, Offer};
use domain::sale::Sale;

/// Buyers remembered in one generation. Two generations are kept: about 5 MB at most (`make bench` measures it).
pub const BUYERS: usize = 50_000;
/// Items remembered.
const ITEMS: usize = 1_000;

/// The rate limits of one running function.
#[derive(Debug, Default)]
pub struct Limits {
    memory: Mutex<Memory>,
    /// Hashes a buyer and an item to the number they are remembered by. It is randomly seeded, so a collision
    /// cannot be provoked. Two buyers with the same number would cool down together; the chance is 1 in 2^47
    /// among all that are remembered.
    hasher: RandomState,
}

#[derive(Debug, Default)]
struct Memory {
    items: HashMap<Offer, Tokens>,
    /// When a buyer last pressed, in two generations: the older one is dropped when the younger is full.
    young: HashMap<u64, i64>,
    old: HashMap<u64, i64>,
}

#[derive(Clone, Copy, Debug)]
struct Tokens {
    /// Thousandths of a token.
    millis: i64,
    filled_at_ms: i64,
}

impl Limits {
    /// Admits a press, or returns after how many milliseconds to try again.
    pub fn admit(&self, sale: &Sale, offer: &Offer, buyer: &BuyerKey, now: Timestamp) -> Result<(), i64> {
        let (cooldown_ms, rate) = (i64::from(sale.buyer_cooldown_ms), sale.item_rate_per_second.map(i64::from));
        if cooldown_ms == 0 && rate.is_none() {
            return Ok(());
        }
        let now_ms = now.as_millisecond();
        let buyer_at_item = (cooldown_ms > 0).then(|| self.hasher.hash_one((buyer, offer)));
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        let cooldown_left_ms =
            buyer_at_item.map_or(0, |buyer_at_item| memory.cooldown_left(buyer_at_item, cooldown_ms, now_ms));
        let tokens = rate.map(|rate| (rate, memory.tokens(offer, rate, now_ms)));
        let no_token_ms = tokens.as_ref().map_or(0, |(rate, tokens)| tokens.wait_ms(*rate));
        match cooldown_left_ms.max(no_token_ms) {
            0 => {
                if let Some((_, tokens)) = tokens {
                    tokens.millis -= 1_000;
                }
                if let Some(buyer_at_item) = buyer_at_item {
                    memory.pressed(buyer_at_item, now_ms);
                }
                Ok(())
            }
            wait_ms => Err(wait_ms),
        }
    }
}

impl Memory {
    /// How long a buyer still has to wait. If the clock was set back, it is never longer than the cool-down.
    fn cooldown_left(&self, buyer_at_item: u64, cooldown_ms: i64, now_ms: i64) -> i64 {
        let last = self.young.get(&buyer_at_item).or_else(|| self.old.get(&buyer_at_item));
        last.map_or(0, |last_ms| (last_ms + cooldown_ms - now_ms).clamp(0, cooldown_ms))
    }

    fn pressed(&mut self, buyer_at_item: u64, now_ms: i64) {
        if self.young.len() >= BUYERS {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(buyer_at_item, now_ms);
    }

    /// An item's token bucket, refilled up to now. It holds at most the tokens of one second.
    fn tokens(&mut self, offer: &Offer, rate: i64, now_ms: i64) -> &mut Tokens {
        let full = rate * 1_000;
        if self.items.len() >= ITEMS && !self.items.contains_key(offer) {
            self.items.clear();
        }
        let tokens = self.items.entry(offer.clone()).or_insert(Tokens { millis: full, filled_at_ms: now_ms });
        let passed_ms = (now_ms - tokens.filled_at_ms).clamp(0, 1_000);
        tokens.millis = (tokens.millis + passed_ms * rate).min(full);
        tokens.filled_at_ms = now_ms;
        tokens
    }
}

impl Tokens {
    /// How long until there is a token, in whole milliseconds, rounded up.
    fn wait_ms(&self, rate: i64) -> i64 {
        let short = 1_000 - self.millis;
        if short <= 0 { 0 } else { (short + rate - 1) / rate }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::ids::Buyer;

    fn sale(cooldown_ms: u32, rate: Option<u32>) -> Sale {
        Sale {
            id: "s".parse().unwrap(),
            name: "s".into(),
            starts_at: at(0),
            ends_at: at(1_000_000),
            payment_window_s: 900,
            state: domain::sale::SaleState::Ready,
            buyer_cooldown_ms: cooldown_ms,
            item_rate_per_second: rate,
            refunds_until: None,
            version: 1,
            changed_at: at(0),
        }
    }

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millisecond(ms).unwrap()
    }

    fn offer() -> Offer {
        Offer { sale: "s".parse().unwrap(), item: "i".parse().unwrap() }
    }

    fn buyer(n: usize) -> BuyerKey {
        BuyerKey::of(&Buyer::parse(format!("buyer-{n}")).unwrap(), "")
    }

    #[test]
    fn a_buyer_cools_down_alone() {
        let limits = Limits::default();
        let sale = sale(1_000, None);
        assert_eq!(limits.admit(&sale, &offer(), &buyer(1), at(0)), Ok(()));
        assert_eq!(limits.admit(&sale, &offer(), &buyer(1), at(400)), Err(600));
        assert_eq!(limits.admit(&sale, &offer(), &buyer(2), at(400)), Ok(()));
        assert_eq!(limits.admit(&sale, &offer(), &buyer(1), at(1_000)), Ok(()));
    }

    #[test]
    fn an_item_admits_its_rate() {
        let limits = Limits::default();
        let sale = sale(0, Some(10));
        let through = |ms| (0..100).filter(|n| limits.admit(&sale, &offer(), &buyer(*n), at(ms)).is_ok()).count();
        assert_eq!(through(0), 10);
        assert_eq!(through(500), 5);
        assert_eq!(through(60_000), 10, "no more than the tokens of one second are saved");
        assert_eq!(limits.admit(&sale, &offer(), &buyer(0), at(60_000)), Err(100));
    }

    #[test]
    fn a_buyer_who_waits_as_long_as_answered_is_admitted() {
        let limits = Limits::default();
        let sale = sale(2_000, Some(3));
        for n in 1..=3 {
            assert_eq!(limits.admit(&sale, &offer(), &buyer(n), at(0)), Ok(()));
        }
        // There is no token for a fourth press: it does not count, and its buyer does not have to cool down.
        let wait_ms = limits.admit(&sale, &offer(), &buyer(4), at(0)).unwrap_err();
        assert_eq!(wait_ms, 334, "a third of a second, rounded up");
        assert_eq!(limits.admit(&sale, &offer(), &buyer(4), at(wait_ms)), Ok(()));
        // A buyer who is cooling down takes no token from the others.
        assert_eq!(limits.admit(&sale, &offer(), &buyer(4), at(1_000)), Err(1_334));
        for n in 5..=6 {
            assert_eq!(limits.admit(&sale, &offer(), &buyer(n), at(1_000)), Ok(()));
        }
        assert_eq!(limits.admit(&sale, &offer(), &buyer(4), at(334 + 2_000)), Ok(()));
    }

    #[test]
    fn no_buyer_waits_long_after_the_clock_is_set_back() {
        let limits = Limits::default();
        let sale = sale(1_000, Some(1));
        assert_eq!(limits.admit(&sale, &offer(), &buyer(1), at(100_000)), Ok(()));
        assert_eq!(limits.admit(&sale, &offer(), &buyer(1), at(0)), Err(1_000));
    }

    #[test]
    fn a_sale_without_limits_remembers_nothing() {
        let limits = Limits::default();
        assert_eq!(limits.admit(&sale(0, None), &offer(), &buyer(1), at(0)), Ok(()));
        let memory = limits.memory.lock().unwrap();
        assert!(memory.items.is_empty() && memory.young.is_empty());
    }

    #[test]
    fn memory_is_bounded() {
        let limits = Limits::default();
        let sale = sale(60_000, None);
        for n in 0..2 * BUYERS + 2 {
            let _ = limits.admit(&sale, &offer(), &buyer(n), at(0));
        }
        let memory = limits.memory.lock().unwrap();
        assert!(memory.young.len() <= BUYERS && memory.old.len() <= BUYERS);
    }
}
