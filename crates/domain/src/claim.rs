//! Claims: a buyer has at most one live order for an item.
//!
//! A buyer has one row per sale. It contains a claim for each item with a live order, and the answer that was given
//! under each idempotency key. An order can hold units only in the bucket that its claim names.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::bucket::BucketNo;
use crate::ids::{IdempotencyKey, ItemId, OrderId};
use crate::shop_data::ShopData;

/// A claim that is HELD for longer than this was left by a request that crashed, because the function times out after
/// 5 seconds. The buyer's next request resumes it.
pub const RESUMABLE_AFTER: SignedDuration = SignedDuration::from_secs(6);

/// The request that made a claim has certainly ended after this time, even if the clocks of two functions differ by a
/// minute. A write or message that it sent may still be in flight.
pub const FIRST_REQUEST_ENDED_AFTER: SignedDuration = SignedDuration::from_mins(2);

/// How many answers a buyer's row keeps in addition to those of live claims. A buyer who cancels and buys again leaves
/// one behind each time.
pub const MAX_KEYS: usize = 8;

/// How far the purchase behind a claim has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum ClaimState {
    /// The purchase is in progress: its units may or may not be held yet.
    Held,
    /// The units are held, and order-consumer or a second request has accepted the purchase. The order exists or will.
    Ordered,
    /// The order was closed, then paid late and revived. Unfinished steps of the close do not remove this claim; only a
    /// refund does.
    Revived,
}

/// A buyer's claim on an item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    pub order: OrderId,
    pub quantity: u32,
    /// The bucket in which the units are, or will be, held.
    pub bucket: BucketNo,
    pub state: ClaimState,
    /// Buckets from which a request other than the first moved this claim. The first request may have held its units in
    /// one of them in the meantime.
    #[serde(rename = "previousBuckets", default, skip_serializing_if = "Vec::is_empty")]
    pub previous_buckets: Vec<BucketNo>,
    /// What the shop attached to the purchase. If the message is lost, reconcile makes it again from the claim.
    #[serde(rename = "shopData", default, skip_serializing_if = "ShopData::is_empty")]
    pub shop_data: ShopData,
}

/// What was asked and answered under an idempotency key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answered {
    /// The order that was answered.
    pub order: OrderId,
    /// The item and quantity that were requested.
    pub item: ItemId,
    pub quantity: u32,
    /// The digest of the shop's data that came with the request.
    #[serde(rename = "shopData", default, skip_serializing_if = "Option::is_none")]
    pub shop_data: Option<String>,
    /// The order's quantity, if it is another one: the request has resumed a purchase whose units were held already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub got: Option<u32>,
}

/// All claims and remembered answers of one buyer in one sale.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BuyerClaims {
    /// Live claims by item.
    pub claims: BTreeMap<ItemId, Claim>,
    /// Answers by idempotency key.
    pub keys: BTreeMap<IdempotencyKey, Answered>,
    /// When the buyer last made a claim on an item. Only kept in a sale with a cool-down.
    pub pressed: BTreeMap<ItemId, Timestamp>,
}

/// A purchase request, as far as claims are concerned.
#[derive(Clone, Debug)]
pub struct Press<'a> {
    pub item: &'a ItemId,
    pub quantity: u32,
    pub shop_data: &'a ShopData,
    pub key: Option<&'a IdempotencyKey>,
    pub now: Timestamp,
}

/// What a buyer's claims mean for a purchase request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimStanding {
    /// The buyer may start a purchase.
    Free,
    /// The request is a retry that was answered with this order: give the same answer.
    Same(OrderId),
    /// An earlier request left this purchase unfinished: resume it.
    Resume(Claim),
    /// The buyer has a live order for the item.
    Duplicate(OrderId),
    /// The idempotency key was used for another item or quantity, or with other data of the shop.
    Mismatch,
}

impl BuyerClaims {
    /// What these claims mean for a purchase request.
    pub fn standing(&self, press: &Press<'_>) -> ClaimStanding {
        let claim = self.claims.get(press.item);
        if let Some(answered) = press.key.and_then(|key| self.keys.get(key)) {
            let same_purchase = answered.item == *press.item && answered.quantity == press.quantity;
            if !same_purchase || answered.shop_data != press.shop_data.digest() {
                return ClaimStanding::Mismatch;
            }
            return match claim {
                Some(claim) if claim.order == answered.order && claim.state == ClaimState::Held => {
                    ClaimStanding::Resume(claim.clone())
                }
                _ => ClaimStanding::Same(answered.order.clone()),
            };
        }
        match claim {
            None => ClaimStanding::Free,
            Some(claim) if claim.state == ClaimState::Held && is_resumable(&claim.order, press.now) => {
                ClaimStanding::Resume(claim.clone())
            }
            Some(claim) => ClaimStanding::Duplicate(claim.order.clone()),
        }
    }

    /// The quantity of an order, as far as these claims and answers know it.
    pub fn quantity_of(&self, order: &OrderId) -> Option<u32> {
        let claimed = self.claims.values().find(|claim| claim.order == *order).map(|claim| claim.quantity);
        let answered = || self.keys.values().find(|answered| answered.order == *order);
        claimed.or_else(|| answered().map(|answered| answered.got.unwrap_or(answered.quantity)))
    }

    /// How long the buyer still has to wait before the next claim on an item, in milliseconds. A claim that another
    /// function made in this one's future does not count: their clocks differ.
    pub fn cooldown_left_ms(&self, item: &ItemId, cooldown_ms: i64, now: Timestamp) -> i64 {
        let passed_ms = self.pressed.get(item).map(|pressed| now.as_millisecond() - pressed.as_millisecond());
        passed_ms
            .filter(|passed_ms| (0..cooldown_ms).contains(passed_ms))
            .map_or(0, |passed_ms| cooldown_ms - passed_ms)
    }

    /// The idempotency keys to remove, oldest first, so that a buyer's row stays small. Empty while at most
    /// [`MAX_KEYS`] belong to orders that have ended. Keys of live claims are never removed.
    pub fn keys_to_forget(&self) -> Vec<IdempotencyKey> {
        let live = |answered: &Answered| self.claims.values().any(|claim| claim.order == answered.order);
        let mut old: Vec<_> = self.keys.iter().filter(|(_, answered)| !live(answered)).collect();
        if old.len() <= MAX_KEYS {
            return Vec::new();
        }
        old.sort_by_key(|(_, answered)| answered.order.pressed_at());
        // Half of them stay, so that the next purchase does not have to remove keys again.
        let forgotten = old.len() - MAX_KEYS / 2;
        old.into_iter().take(forgotten).map(|(key, _)| key.clone()).collect()
    }
}

/// Whether the first request of this order has ended.
pub fn first_request_ended(order: &OrderId, now: Timestamp) -> bool {
    now.duration_since(order.pressed_at()) > FIRST_REQUEST_ENDED_AFTER
}

/// Whether another request may resume this order, if its claim is still HELD.
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
        let claim = Claim {
            order: order(1_000),
            quantity: 1,
            bucket: 3,
            state,
            previous_buckets: Vec::new(),
            shop_data: Default::default(),
        };
        let answered = Answered { order: order(1_000), item: item.clone(), quantity: 1, shop_data: None, got: None };
        BuyerClaims {
            claims: [(item, claim)].into(),
            keys: key.map(|key| (IdempotencyKey::parse(key).unwrap(), answered)).into_iter().collect(),
            pressed: BTreeMap::new(),
        }
    }

    fn standing(claims: &BuyerClaims, item: &str, quantity: u32, key: Option<&str>, now_ms: i64) -> ClaimStanding {
        let key = key.map(|key| IdempotencyKey::parse(key).unwrap());
        let item = ItemId::parse(item).unwrap();
        let (shop_data, now) = (&ShopData::default(), at(now_ms));
        claims.standing(&Press { item: &item, quantity, shop_data, key: key.as_ref(), now })
    }

    #[test]
    fn a_second_purchase_is_a_duplicate() {
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
    fn the_same_key_with_other_data_of_the_shop_is_a_mismatch() {
        let reference = |text: &str| ShopData { reference: Some(text.parse().unwrap()), ..ShopData::default() };
        let mut claims = claims(ClaimState::Ordered, Some("k"));
        claims.keys.values_mut().for_each(|answered| answered.shop_data = reference("cart-1").digest());
        let (item, key) = (ItemId::parse("i").unwrap(), IdempotencyKey::parse("k").unwrap());
        let standing = |shop_data: &ShopData| {
            claims.standing(&Press { item: &item, quantity: 1, shop_data, key: Some(&key), now: at(2_000) })
        };
        assert_eq!(standing(&reference("cart-1")), ClaimStanding::Same(order(1_000)));
        assert_eq!(standing(&reference("cart-2")), ClaimStanding::Mismatch);
        assert_eq!(standing(&ShopData::default()), ClaimStanding::Mismatch);
    }

    #[test]
    fn an_unfinished_purchase_is_resumed() {
        let held = claims(ClaimState::Held, Some("k"));
        assert!(matches!(standing(&held, "i", 1, Some("k"), 1_001), ClaimStanding::Resume(_)), "the same key, at once");
        assert!(
            matches!(standing(&held, "i", 1, None, 7_001), ClaimStanding::Resume(_)),
            "another request, after a while"
        );
        assert_eq!(standing(&held, "i", 1, None, 7_000), ClaimStanding::Duplicate(order(1_000)));
        let ordered = claims(ClaimState::Ordered, None);
        assert_eq!(
            standing(&ordered, "i", 1, None, 999_000),
            ClaimStanding::Duplicate(order(1_000)),
            "an order is never resumed"
        );
    }

    #[test]
    fn the_quantity_of_an_order_is_known_as_long_as_its_answer() {
        let mut claims = claims(ClaimState::Held, Some("k"));
        claims.claims.values_mut().for_each(|claim| claim.quantity = 3);
        assert_eq!(claims.quantity_of(&order(1_000)), Some(3), "the claim knows");
        claims.claims.clear();
        assert_eq!(claims.quantity_of(&order(1_000)), Some(1));
        claims.keys.values_mut().for_each(|answered| answered.got = Some(3));
        assert_eq!(claims.quantity_of(&order(1_000)), Some(3));
        assert_eq!(claims.quantity_of(&order(2_000)), None);
    }

    #[test]
    fn a_buyer_cools_down_from_claim_to_claim() {
        let item = ItemId::parse("i").unwrap();
        let claims = BuyerClaims { pressed: [(item.clone(), at(10_000))].into(), ..BuyerClaims::default() };
        let left = |now_ms| claims.cooldown_left_ms(&item, 1_000, at(now_ms));
        assert_eq!((left(10_000), left(10_400), left(11_000)), (1_000, 600, 0));
        assert_eq!(left(9_000), 0, "clocks differ");
        assert_eq!(claims.cooldown_left_ms(&ItemId::parse("other").unwrap(), 1_000, at(10_000)), 0);
    }

    #[test]
    fn old_keys_are_forgotten_but_not_those_of_live_claims() {
        let mut many = claims(ClaimState::Ordered, Some("live"));
        for n in 0..=i64::try_from(MAX_KEYS).unwrap() {
            assert!(many.keys_to_forget().is_empty(), "{n} keys of ended orders");
            let answered = Answered {
                order: order(2_000 + n),
                item: ItemId::parse("i").unwrap(),
                quantity: 1,
                shop_data: None,
                got: None,
            };
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
