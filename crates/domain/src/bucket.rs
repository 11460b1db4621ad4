//! Stock in buckets: how the units of an item are split up, and what can happen to one bucket.
//!
//! A bucket is one row of the stock table. A full bucket of up to 24 orders stays under 1 KB, so a change costs one
//! write unit. Only a high limit per buyer makes larger buckets. A bucket names its holders, so a repeated change has
//! no effect.
//! `free + Σ holders + sold = cap` holds in every bucket at every moment, so each bucket can be checked on its own.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::ids::{IdempotencyKey, Offer, OrderId};

/// Units in a bucket. With the longest names, a bucket with 24 orders takes 108 + 24 × 34 = 924 bytes: one write unit.
pub const UNITS_PER_BUCKET: u32 = 24;

/// The most units an item can have: 417 thousand buckets, more than one sale can use.
pub const MAX_STOCK: u32 = 10_000_000;

/// The most segments of an item: its first stock and its restocks. A segment takes up to 100 bytes of the item's row.
/// Every running function reads the sale with its 40 items once a second, in one read of at most 1 MB.
pub const MAX_SEGMENTS: usize = 200;

/// The number of a bucket within its item, from 0.
pub type BucketNo = u32;

/// Units that were laid out together: the first stock, or a restock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segment {
    pub units: u32,
    /// The most units in one bucket of this segment.
    pub size: u32,
    /// The operator's idempotency key for a restock. The first stock has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<IdempotencyKey>,
}

impl Segment {
    /// An order takes its units from one bucket. So no bucket is smaller than the limit per buyer, as far as the units
    /// suffice: a limit above [`UNITS_PER_BUCKET`] makes larger buckets, and units for less than two buckets make one.
    pub fn new(units: u32, limit_per_buyer: u32, key: Option<IdempotencyKey>) -> Self {
        let usual = limit_per_buyer.max(UNITS_PER_BUCKET);
        let most_buckets = (units / limit_per_buyer.max(1)).max(1);
        let size = if units.div_ceil(usual) > most_buckets { units.div_ceil(most_buckets) } else { usual };
        Self { units, size, key }
    }

    pub fn buckets(&self) -> u32 {
        self.units.div_ceil(self.size.max(1))
    }

    /// The units of the `nth` bucket. Units are spread evenly, so that no bucket is empty long before the others.
    fn cap(&self, nth: u32) -> u32 {
        let buckets = self.buckets().max(1);
        self.units / buckets + u32::from(nth < self.units % buckets)
    }
}

/// All units of an item, as segments in the order in which they were added. Segments are never changed or removed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Layout(pub Vec<Segment>);

impl Layout {
    pub fn buckets(&self) -> u32 {
        self.0.iter().map(Segment::buckets).sum()
    }

    pub fn total(&self) -> u64 {
        self.0.iter().map(|segment| u64::from(segment.units)).sum()
    }

    /// The units that a bucket starts with, or `None` if the item has no such bucket.
    pub fn cap(&self, bucket: BucketNo) -> Option<u32> {
        let mut first = 0;
        for segment in &self.0 {
            let end = first + segment.buckets();
            if bucket < end {
                return Some(segment.cap(bucket - first));
            }
            first = end;
        }
        None
    }

    /// The restock with this idempotency key, if there was one.
    pub fn restock(&self, key: &IdempotencyKey) -> Option<&Segment> {
        self.0.iter().find(|segment| segment.key.as_ref() == Some(key))
    }
}

/// The key of a bucket in the stock table.
pub fn bucket_key(offer: &Offer, bucket: BucketNo) -> String {
    format!("{offer}#{bucket}")
}

/// The inverse of [`bucket_key`].
pub fn parse_bucket_key(key: &str) -> Option<(Offer, BucketNo)> {
    let mut parts = key.split('#');
    let (sale, item, bucket) = (parts.next()?, parts.next()?, parts.next()?);
    let offer = Offer { sale: sale.parse().ok()?, item: item.parse().ok()? };
    parts.next().is_none().then_some((offer, bucket.parse().ok()?))
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bucket {
    /// The units that the bucket started with.
    pub cap: u32,
    pub free: u32,
    /// Units paid for.
    pub sold: u32,
    /// Units held for orders that are not paid yet.
    #[serde(default)]
    pub holders: BTreeMap<OrderId, u32>,
    /// The orders that bought the sold units. An order in this map cannot hold again, so a delayed hold that arrives
    /// after its order was paid is refused. A refunded order stays here for a while with 0 units, for the same reason.
    #[serde(default, rename = "soldTo")]
    pub sold_to: BTreeMap<OrderId, u32>,
}

impl Bucket {
    /// A bucket from which nothing was bought yet.
    pub fn new(cap: u32) -> Self {
        Self { cap, free: cap, ..Self::default() }
    }

    pub fn held(&self) -> u32 {
        self.holders.values().sum()
    }

    /// The orders that have bought units and not given them back.
    pub fn sold(&self) -> impl Iterator<Item = (&OrderId, u32)> {
        self.sold_to.iter().map(|(order, quantity)| (order, *quantity)).filter(|(_, quantity)| *quantity > 0)
    }

    /// The orders that gave their units back and are still remembered.
    pub fn returned(&self) -> impl Iterator<Item = &OrderId> {
        self.sold_to.iter().filter(|(_, quantity)| **quantity == 0).map(|(order, _)| order)
    }

    fn is_sold_to(&self, order: &OrderId) -> bool {
        self.sold_to.get(order).is_some_and(|quantity| *quantity > 0)
    }

    /// Whether every unit is free, held or sold, and every sold unit belongs to an order.
    pub fn adds_up(&self) -> bool {
        let sold_to: u64 = self.sold_to.values().copied().map(u64::from).sum();
        sold_to == u64::from(self.sold)
            && u64::from(self.free) + u64::from(self.held()) + u64::from(self.sold) == u64::from(self.cap)
    }
}

/// What one change of a bucket did to the units of one order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Movement {
    pub order: OrderId,
    pub quantity: u32,
    pub kind: MovementKind,
    /// Free units of the bucket before the change.
    pub before: u32,
    /// Free units of the bucket after the change.
    pub after: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MovementKind {
    /// Free → held.
    Deduct,
    /// Held → sold.
    Confirm,
    /// Held → free.
    RollBack,
    /// Free → sold: a closed order was paid late, and units for it were free.
    Revive,
    /// Sold → free.
    Refund,
}

impl MovementKind {
    /// What the name of its entry in the ledger begins with.
    pub fn entry(self) -> &'static str {
        match self {
            Self::Deduct => "STOCK#DEDUCT",
            Self::Confirm => "STOCK#CONFIRM",
            Self::RollBack => "STOCK#ROLLBACK",
            Self::Revive => "STOCK#REVIVE",
            Self::Refund => "STOCK#REFUND",
        }
    }

    /// Whether a ledger entry of this name is about such a movement.
    pub fn has_entry(self, name: &str) -> bool {
        name.strip_prefix(self.entry()).is_some_and(|rest| rest.starts_with('#'))
    }
}

/// The movements in one change of a bucket, found by comparing its orders before and after. The creation of a bucket
/// moves nothing.
pub fn movements(old: Option<&Bucket>, new: &Bucket) -> Vec<Movement> {
    let Some(old) = old else { return Vec::new() };
    let moved = |order: &OrderId, quantity: u32, kind| Movement {
        order: order.clone(),
        quantity,
        kind,
        before: old.free,
        after: new.free,
    };
    let mut all = Vec::new();
    for (order, quantity) in &new.holders {
        if !old.holders.contains_key(order) {
            all.push(moved(order, *quantity, MovementKind::Deduct));
        }
    }
    for (order, quantity) in &old.holders {
        if !new.holders.contains_key(order) {
            let sold = new.is_sold_to(order);
            all.push(moved(order, *quantity, if sold { MovementKind::Confirm } else { MovementKind::RollBack }));
        }
    }
    for (order, quantity) in new.sold() {
        if !old.is_sold_to(order) && !old.holders.contains_key(order) {
            all.push(moved(order, quantity, MovementKind::Revive));
        }
    }
    for (order, quantity) in old.sold() {
        if !new.is_sold_to(order) {
            all.push(moved(order, quantity, MovementKind::Refund));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{Buyer, BuyerKey};

    fn order(n: u32) -> OrderId {
        OrderId::new(jiff::Timestamp::UNIX_EPOCH, &BuyerKey::of(&Buyer::parse("a").unwrap(), ""), n)
    }

    #[test]
    fn every_unit_is_in_exactly_one_bucket() {
        for (units, limit) in
            [(1, 1), (23, 1), (24, 1), (25, 1), (1_000, 1), (1_000_000, 1), (100, 40), (7, 100), (30, 20)]
        {
            let layout = Layout(vec![Segment::new(units, limit, None), Segment::new(units, limit, None)]);
            let caps: Vec<u32> = (0..layout.buckets()).filter_map(|bucket| layout.cap(bucket)).collect();
            assert_eq!(caps.iter().map(|cap| u64::from(*cap)).sum::<u64>(), layout.total(), "{units} units");
            assert!(caps.iter().all(|cap| *cap >= limit.min(units)), "{units} units, {limit} a buyer: {caps:?}");
            assert!(caps.iter().all(|cap| *cap <= UNITS_PER_BUCKET.max(2 * limit)), "{units} units: {caps:?}");
            assert_eq!(layout.cap(layout.buckets()), None);
        }
    }

    #[test]
    fn no_bucket_is_smaller_than_the_limit_while_the_units_suffice() {
        let caps = |units, limit| {
            let layout = Layout(vec![Segment::new(units, limit, None)]);
            (0..layout.buckets()).filter_map(|bucket| layout.cap(bucket)).collect::<Vec<_>>()
        };
        assert_eq!(caps(30, 20), [30]);
        assert_eq!(caps(100, 60), [100]);
        assert_eq!(caps(50, 20), [25, 25]);
        assert_eq!(caps(48, 5), [24, 24]);
        assert_eq!(caps(10, 20), [10]);
        for units in 1..=600 {
            for limit in 1..=100 {
                assert!(
                    caps(units, limit).iter().all(|cap| *cap >= limit.min(units)),
                    "{units} units, {limit} a buyer"
                );
            }
        }
    }

    #[test]
    fn a_restock_does_not_change_earlier_buckets() {
        let before = Layout(vec![Segment::new(100, 1, None)]);
        let mut after = before.clone();
        after.0.push(Segment::new(30, 1, None));
        for bucket in 0..before.buckets() {
            assert_eq!(before.cap(bucket), after.cap(bucket));
        }
    }

    #[test]
    fn a_bucket_key_parses_back_to_its_bucket() {
        let offer = Offer { sale: "s1".parse().unwrap(), item: "i1".parse().unwrap() };
        assert_eq!(parse_bucket_key(&bucket_key(&offer, 17)), Some((offer, 17)));
        for bad in ["", "s1", "s1#i1", "s1#i1#x", "s1#i1#1#2", "s 1#i1#1"] {
            assert_eq!(parse_bucket_key(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn movements_describe_where_units_went() {
        let empty = Bucket::new(10);
        let held = Bucket { free: 8, holders: [(order(1), 2)].into(), ..Bucket::new(10) };
        let sold = Bucket { free: 8, sold: 2, sold_to: [(order(1), 2)].into(), ..Bucket::new(10) };
        let kinds = |old: &Bucket, new: &Bucket| -> Vec<_> {
            movements(Some(old), new).into_iter().map(|m| (m.kind, m.quantity, m.before, m.after)).collect()
        };
        assert_eq!(kinds(&empty, &held), [(MovementKind::Deduct, 2, 10, 8)]);
        assert_eq!(kinds(&held, &sold), [(MovementKind::Confirm, 2, 8, 8)]);
        assert_eq!(kinds(&held, &empty), [(MovementKind::RollBack, 2, 8, 10)]);
        assert_eq!(kinds(&empty, &sold), [(MovementKind::Revive, 2, 10, 8)]);
        assert_eq!(kinds(&sold, &empty), [(MovementKind::Refund, 2, 8, 10)]);
        let returned = Bucket { sold_to: [(order(1), 0)].into(), ..Bucket::new(10) };
        assert_eq!(kinds(&sold, &returned), [(MovementKind::Refund, 2, 8, 10)]);
        assert_eq!(kinds(&returned, &empty), []);
        assert_eq!(movements(None, &empty), []);
        assert!(empty.adds_up() && held.adds_up() && sold.adds_up() && returned.adds_up());
    }
}
