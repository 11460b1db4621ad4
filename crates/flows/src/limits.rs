//! Rate limits of one running function: a token bucket for an item, and a cool-down for a buyer. API Gateway's throttling
//! stands above them; these are what a sale's settings ask for.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use domain::Timestamp;
use domain::ids::{BuyerKey, Offer};
use domain::sale::Sale;

/// Buyers remembered in one generation; two are kept: some 10 MB at the most.
const BUYERS: usize = 50_000;
/// Items remembered.
const ITEMS: usize = 1_000;

/// The limits' memory.
#[derive(Debug, Default)]
pub struct Limits {
    memory: Mutex<Memory>,
}

#[derive(Debug, Default)]
struct Memory {
    items: HashMap<Offer, Tokens>,
    /// When a buyer last pressed, in two generations: the older one is dropped when the younger is full.
    young: HashMap<(BuyerKey, Offer), i64>,
    old: HashMap<(BuyerKey, Offer), i64>,
}

#[derive(Clone, Copy, Debug)]
struct Tokens {
    /// Thousandths of a token.
    millis: i64,
    filled_at_ms: i64,
}

impl Limits {
    /// Lets a press through, or says after how many milliseconds to try again.
    pub fn admit(&self, sale: &Sale, offer: &Offer, buyer: &BuyerKey, now: Timestamp) -> Result<(), i64> {
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        let now_ms = now.as_millisecond();
        if sale.buyer_cooldown_ms > 0 {
            memory.cool_down(offer, buyer, i64::from(sale.buyer_cooldown_ms), now_ms)?;
        }
        match sale.item_rate_per_second {
            Some(rate) => memory.take_token(offer, i64::from(rate), now_ms),
            None => Ok(()),
        }
    }
}

impl Memory {
    fn cool_down(&mut self, offer: &Offer, buyer: &BuyerKey, cooldown_ms: i64, now_ms: i64) -> Result<(), i64> {
        let key = (buyer.clone(), offer.clone());
        let last = self.young.get(&key).or_else(|| self.old.get(&key));
        if let Some(left_ms) = last.map(|last_ms| last_ms + cooldown_ms - now_ms).filter(|left_ms| *left_ms > 0) {
            return Err(left_ms);
        }
        if self.young.len() >= BUYERS {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, now_ms);
        Ok(())
    }

    /// A bucket holds one second's worth.
    fn take_token(&mut self, offer: &Offer, rate: i64, now_ms: i64) -> Result<(), i64> {
        if self.items.len() >= ITEMS && !self.items.contains_key(offer) {
            self.items.clear();
        }
        let full = rate * 1_000;
        let tokens = self.items.entry(offer.clone()).or_insert(Tokens { millis: full, filled_at_ms: now_ms });
        let passed_ms = (now_ms - tokens.filled_at_ms).clamp(0, 1_000);
        tokens.millis = (tokens.millis + passed_ms * rate).min(full);
        tokens.filled_at_ms = now_ms;
        if tokens.millis < 1_000 {
            return Err(((1_000 - tokens.millis) / rate).max(1));
        }
        tokens.millis -= 1_000;
        Ok(())
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
    fn an_item_lets_its_rate_through() {
        let limits = Limits::default();
        let sale = sale(0, Some(10));
        let through = |ms| (0..100).filter(|n| limits.admit(&sale, &offer(), &buyer(*n), at(ms)).is_ok()).count();
        assert_eq!(through(0), 10);
        assert_eq!(through(500), 5);
        assert_eq!(through(60_000), 10, "no more than a second's worth is saved up");
        assert_eq!(limits.admit(&sale, &offer(), &buyer(0), at(60_000)), Err(100));
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
