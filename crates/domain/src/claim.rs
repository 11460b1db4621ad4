//! The claim: the arbiter of one live order for a buyer and an item.
//!
//! A buyer has one record for each sale. In it, a claim for each item with a live order, and what was answered under each
//! idempotency key. An order can only ever hold stock where its claim says.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::bucket::BucketNo;
use crate::ids::{IdempotencyKey, ItemId, OrderId};

/// A claim that is HELD for longer than this was left by a request that died: the function's timeout is 5 seconds.
pub const RESUMABLE_AFTER: SignedDuration = SignedDuration::from_secs(6);

/// A claim that is HELD for longer than this has no first request any more, whoever's clock is right: they are a minute apart at the
/// most. What that request was accepted with may still be on its way.
pub const FIRST_REQUEST_ENDED_AFTER: SignedDuration = SignedDuration::from_mins(2);

/// Answers remembered for a buyer and sale, beside those of live claims. A buyer who cancels and buys again leaves one behind each time.
pub const MAX_KEYS: usize = 8;

/// How far an order has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum ClaimState {
    /// The purchase is being made: stock may or may not be held yet.
    Held,
    /// Its units are held, and order-consumer or a second request for it has taken it: there is an order, or will be.
    Ordered,
    /// Its order was closed, then paid late and revived: what is left of the close does not drop it, only a refund does.
    Revived,
}

/// A buyer's claim on an item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// The order it is for.
    pub order: OrderId,
    /// Units.
    pub quantity: u32,
    /// The bucket that the units are, or will be, held in.
    pub bucket: BucketNo,
    /// How far it has come.
    pub state: ClaimState,
    /// Buckets that another request than the first moved it away from: the first may have held its units there meanwhile.
    #[serde(rename = "previousBuckets", default, skip_serializing_if = "Vec::is_empty")]
    pub previous_buckets: Vec<BucketNo>,
}

/// What was asked and answered under an idempotency key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answered {
    /// The answer.
    pub order: OrderId,
    /// What was asked for …
    pub item: ItemId,
    /// … and how many.
    pub quantity: u32,
}

/// Everything a buyer has in one sale.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BuyerClaims {
    /// Live claims by item.
    pub claims: BTreeMap<ItemId, Claim>,
    /// Answers by idempotency key.
    pub keys: BTreeMap<IdempotencyKey, Answered>,
}

/// What a buyer asks for.
#[derive(Clone, Debug)]
pub struct Press<'a> {
    /// The item.
    pub item: &'a ItemId,
    /// Units.
    pub quantity: u32,
    /// The buyer's own name for this try.
    pub key: Option<&'a IdempotencyKey>,
    /// When.
    pub now: Timestamp,
}

/// What a buyer's claims say to a press.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimStanding {
    /// Nothing stands in its way.
    Free,
    /// It was answered before, with this order: answer the same.
    Same(OrderId),
    /// It is, or may be, this buyer's own unfinished try: go on with it.
    GoOn(Claim),
    /// There is a live order already.
    Duplicate(OrderId),
    /// The key was used for something else.
    Mismatch,
}

impl BuyerClaims {
    /// What these claims say to a press.
    pub fn standing(&self, press: &Press<'_>) -> ClaimStanding {
        let claim = self.claims.get(press.item);
        if let Some(answered) = press.key.and_then(|key| self.keys.get(key)) {
            if answered.item != *press.item || answered.quantity != press.quantity {
                return ClaimStanding::Mismatch;
            }
            return match claim {
                Some(claim) if claim.order == answered.order && claim.state == ClaimState::Held => {
                    ClaimStanding::GoOn(claim.clone())
                }
                _ => ClaimStanding::Same(answered.order.clone()),
            };
        }
        match claim {
            None => ClaimStanding::Free,
            Some(claim) if claim.state == ClaimState::Held && is_resumable(&claim.order, press.now) => {
                ClaimStanding::GoOn(claim.clone())
            }
            Some(claim) => ClaimStanding::Duplicate(claim.order.clone()),
        }
    }

    /// Keys to forget, oldest first, so that a buyer's record stays small: none while at most [`MAX_KEYS`] are of orders that have
    /// ended. The keys of live claims are never among them.
    pub fn keys_to_forget(&self) -> Vec<IdempotencyKey> {
        let live = |answered: &Answered| self.claims.values().any(|claim| claim.order == answered.order);
        let mut old: Vec<_> = self.keys.iter().filter(|(_, answered)| !live(answered)).collect();
        if old.len() <= MAX_KEYS {
            return Vec::new();
        }
        old.sort_by_key(|(_, answered)| answered.order.pressed_at());
        // Half of them stay, so that this is not done again at the next press.
        let forgotten = old.len() - MAX_KEYS / 2;
        old.into_iter().take(forgotten).map(|(key, _)| key.clone()).collect()
    }
}

/// Whether the first request of this order has ended.
pub fn first_request_ended(order: &OrderId, now: Timestamp) -> bool {
    now.duration_since(order.pressed_at()) > FIRST_REQUEST_ENDED_AFTER
}

/// Whether the request that made this order's claim has died, if the claim is still HELD.
pub fn is_resumable(order: &OrderId, now: Timestamp) -> bool {
    now.duration_since(order.pressed_at()) > RESUMABLE_AFTER
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{Buyer, BuyerKey};

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millisecond(ms).unwrap()
    }

    fn order(ms: i64) -> OrderId {
        OrderId::new(at(ms), &BuyerKey::of(&Buyer::parse("a").unwrap(), ""), 1)
    }

    fn claims(state: ClaimState, key: Option<&str>) -> BuyerClaims {
        let item = ItemId::parse("i").unwrap();
        let claim = Claim { order: order(1_000), quantity: 1, bucket: 3, state, previous_buckets: Vec::new() };
        let answered = Answered { order: order(1_000), item: item.clone(), quantity: 1 };
        BuyerClaims {
            claims: [(item, claim)].into(),
            keys: key.map(|key| (IdempotencyKey::parse(key).unwrap(), answered)).into_iter().collect(),
        }
    }

    fn standing(claims: &BuyerClaims, item: &str, quantity: u32, key: Option<&str>, now_ms: i64) -> ClaimStanding {
        let key = key.map(|key| IdempotencyKey::parse(key).unwrap());
        claims.standing(&Press { item: &ItemId::parse(item).unwrap(), quantity, key: key.as_ref(), now: at(now_ms) })
    }

    #[test]
    fn a_second_press_is_a_duplicate() {
        for state in [ClaimState::Held, ClaimState::Ordered] {
            assert_eq!(standing(&claims(state, None), "i", 1, None, 2_000), ClaimStanding::Duplicate(order(1_000)));
            assert_eq!(
                standing(&claims(state, Some("k")), "i", 1, Some("other"), 2_000),
                ClaimStanding::Duplicate(order(1_000))
            );
        }
    }

    #[test]
    fn the_same_key_gets_the_same_answer() {
        assert_eq!(
            standing(&claims(ClaimState::Ordered, Some("k")), "i", 1, Some("k"), 9_000),
            ClaimStanding::Same(order(1_000))
        );
        let mut closed = claims(ClaimState::Ordered, Some("k"));
        closed.claims.clear();
        assert_eq!(
            standing(&closed, "i", 1, Some("k"), 9_000),
            ClaimStanding::Same(order(1_000)),
            "after the order was closed"
        );
        assert_eq!(standing(&closed, "i", 1, Some("new"), 9_000), ClaimStanding::Free, "a new key buys again");
    }

    #[test]
    fn the_same_key_for_something_else_is_a_mismatch() {
        let claims = claims(ClaimState::Ordered, Some("k"));
        assert_eq!(standing(&claims, "i", 2, Some("k"), 2_000), ClaimStanding::Mismatch);
        assert_eq!(standing(&claims, "another", 1, Some("k"), 2_000), ClaimStanding::Mismatch);
    }

    #[test]
    fn an_unfinished_try_is_gone_on_with() {
        let held = claims(ClaimState::Held, Some("k"));
        assert!(matches!(standing(&held, "i", 1, Some("k"), 1_001), ClaimStanding::GoOn(_)), "the same try, at once");
        assert!(matches!(standing(&held, "i", 1, None, 7_001), ClaimStanding::GoOn(_)), "another try, once it is abandoned");
        assert_eq!(standing(&held, "i", 1, None, 7_000), ClaimStanding::Duplicate(order(1_000)));
        let ordered = claims(ClaimState::Ordered, None);
        assert_eq!(
            standing(&ordered, "i", 1, None, 999_000),
            ClaimStanding::Duplicate(order(1_000)),
            "an order is never abandoned"
        );
    }

    #[test]
    fn old_keys_are_forgotten_but_not_those_of_live_claims() {
        let mut many = claims(ClaimState::Ordered, Some("live"));
        for n in 0..=i64::try_from(MAX_KEYS).unwrap() {
            assert!(many.keys_to_forget().is_empty(), "{n} keys of ended orders");
            let answered = Answered { order: order(2_000 + n), item: ItemId::parse("i").unwrap(), quantity: 1 };
            many.keys.insert(IdempotencyKey::parse(format!("k{n}")).unwrap(), answered);
        }
        let forget = many.keys_to_forget();
        assert_eq!(forget.len(), MAX_KEYS + 1 - MAX_KEYS / 2);
        assert_eq!(forget.first().unwrap().as_str(), "k0", "the oldest first");
        assert!(forget.iter().all(|key| key.as_str() != "live"));
        many.keys.retain(|key, _| !forget.contains(key));
        assert!(many.keys_to_forget().is_empty());
    }
}
