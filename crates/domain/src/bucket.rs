//! Stock in buckets: where the units of an item lie, and what may happen to one bucket.
//!
//! A bucket is one item of the stock table. It stays under 1 KB when full, unless a buyer may have more than 24 of it, so each change
//! costs one write unit, and it names its holders, so each change happens once however often it is asked for.
//! `free + Σ holders + sold = cap` holds in every bucket at every moment: the bucket is its own proof.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::ids::{IdempotencyKey, Offer, OrderId};

/// Units in a bucket. A full one, with 24 orders in it, is 108 + 24 × 34 = 924 bytes with the longest names, under one write unit.
pub const UNITS_PER_BUCKET: u32 = 24;

/// The most units an item can have: 417 thousand buckets, more than any table takes in one sale.
pub const MAX_STOCK: u32 = 10_000_000;

/// The most segments of an item: its first stock and its restocks. Each is up to 100 bytes of the item's row, and a sale with its 40
/// items is one read of at most 1 MB, which every running function makes every second.
pub const MAX_SEGMENTS: usize = 200;

/// The number of a bucket within its item, from 0.
pub type BucketNo = u32;

/// Units that were laid out together: the first stock, or a restock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segment {
    /// How many units.
    pub units: u32,
    /// At most so many in one bucket.
    pub size: u32,
    /// The operator's name for the restock, so that asking again is the same restock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<IdempotencyKey>,
}

impl Segment {
    /// Units laid out for a limit per buyer. A limit above a bucket's size makes larger buckets: an order lies in one bucket.
    pub fn new(units: u32, limit_per_buyer: u32, key: Option<IdempotencyKey>) -> Self {
        Self { units, size: limit_per_buyer.max(UNITS_PER_BUCKET), key }
    }

    /// How many buckets it takes.
    pub fn buckets(&self) -> u32 {
        self.units.div_ceil(self.size.max(1))
    }

    /// The units of its `nth` bucket: as even as can be, so that no bucket empties long before the others.
    fn cap(&self, nth: u32) -> u32 {
        let buckets = self.buckets().max(1);
        self.units / buckets + u32::from(nth < self.units % buckets)
    }
}

/// All units of an item, in the order in which they were laid out. Segments are only ever added.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Layout(pub Vec<Segment>);

impl Layout {
    /// How many buckets there are.
    pub fn buckets(&self) -> u32 {
        self.0.iter().map(Segment::buckets).sum()
    }

    /// How many units there are.
    pub fn total(&self) -> u64 {
        self.0.iter().map(|segment| u64::from(segment.units)).sum()
    }

    /// How many units a bucket was laid out with. `None`: there is no such bucket.
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

    /// The restock of this name, if there was one.
    pub fn restock(&self, key: &IdempotencyKey) -> Option<&Segment> {
        self.0.iter().find(|segment| segment.key.as_ref() == Some(key))
    }
}

/// The key of a bucket in the stock table.
pub fn bucket_key(offer: &Offer, bucket: BucketNo) -> String {
    format!("{offer}#{bucket}")
}

/// The bucket that a key of the stock table names.
pub fn parse_bucket_key(key: &str) -> Option<(Offer, BucketNo)> {
    let mut parts = key.split('#');
    let (sale, item, bucket) = (parts.next()?, parts.next()?, parts.next()?);
    let offer = Offer { sale: sale.parse().ok()?, item: item.parse().ok()? };
    parts.next().is_none().then_some((offer, bucket.parse().ok()?))
}

/// One bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bucket {
    /// Units laid out in it.
    pub cap: u32,
    /// Units anybody can have.
    pub free: u32,
    /// Units paid for.
    pub sold: u32,
    /// Units held for orders that are not paid yet.
    #[serde(default)]
    pub holders: BTreeMap<OrderId, u32>,
    /// Whose the sold units are. An order that is in here never holds again: a hold that wandered and arrives after its order was
    /// paid for finds it.
    #[serde(default, rename = "soldTo")]
    pub sold_to: BTreeMap<OrderId, u32>,
}

impl Bucket {
    /// A bucket nobody has bought from.
    pub fn new(cap: u32) -> Self {
        Self { cap, free: cap, ..Self::default() }
    }

    /// Units held.
    pub fn held(&self) -> u32 {
        self.holders.values().sum()
    }

    /// Whether every unit is somewhere.
    pub fn adds_up(&self) -> bool {
        let sold_to: u64 = self.sold_to.values().copied().map(u64::from).sum();
        sold_to == u64::from(self.sold)
            && u64::from(self.free) + u64::from(self.held()) + u64::from(self.sold) == u64::from(self.cap)
    }
}

/// What happened to an order's units in one change of a bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Movement {
    /// Whose units.
    pub order: OrderId,
    /// How many.
    pub quantity: u32,
    /// Where they went.
    pub kind: MovementKind,
    /// Free units of the bucket before …
    pub before: u32,
    /// … and after.
    pub after: u32,
}

/// Where units went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MovementKind {
    /// Free → held.
    Deduct,
    /// Held → sold.
    Confirm,
    /// Held → free.
    RollBack,
    /// Free → sold: a closed order was paid late, and could be had again.
    Revive,
    /// Sold → free.
    Refund,
}

impl MovementKind {
    /// Its entry in the ledger.
    pub fn entry(self) -> &'static str {
        match self {
            Self::Deduct => "STOCK#DEDUCT",
            Self::Confirm => "STOCK#CONFIRM",
            Self::RollBack => "STOCK#ROLLBACK",
            Self::Revive => "STOCK#REVIVE",
            Self::Refund => "STOCK#REFUND",
        }
    }
}

/// What one change of a bucket did, by whose its units were before and after. A bucket's first appearance moves nothing.
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
            let sold = new.sold_to.contains_key(order);
            all.push(moved(order, *quantity, if sold { MovementKind::Confirm } else { MovementKind::RollBack }));
        }
    }
    for (order, quantity) in &new.sold_to {
        if !old.sold_to.contains_key(order) && !old.holders.contains_key(order) {
            all.push(moved(order, *quantity, MovementKind::Revive));
        }
    }
    for (order, quantity) in &old.sold_to {
        if !new.sold_to.contains_key(order) {
            all.push(moved(order, *quantity, MovementKind::Refund));
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
    fn every_unit_lies_in_exactly_one_bucket() {
        for (units, limit) in [(1, 1), (23, 1), (24, 1), (25, 1), (1_000, 1), (1_000_000, 1), (100, 40), (7, 100)] {
            let layout = Layout(vec![Segment::new(units, limit, None), Segment::new(units, limit, None)]);
            let caps: Vec<u32> = (0..layout.buckets()).filter_map(|bucket| layout.cap(bucket)).collect();
            assert_eq!(caps.iter().map(|cap| u64::from(*cap)).sum::<u64>(), layout.total(), "{units} units");
            assert!(caps.iter().all(|cap| *cap >= 1 && *cap <= UNITS_PER_BUCKET.max(limit)), "{units} units");
            assert_eq!(layout.cap(layout.buckets()), None);
        }
    }

    #[test]
    fn a_restock_leaves_earlier_buckets_alone() {
        let before = Layout(vec![Segment::new(100, 1, None)]);
        let mut after = before.clone();
        after.0.push(Segment::new(30, 1, None));
        for bucket in 0..before.buckets() {
            assert_eq!(before.cap(bucket), after.cap(bucket));
        }
    }

    #[test]
    fn keys_name_buckets() {
        let offer = Offer { sale: "s1".parse().unwrap(), item: "i1".parse().unwrap() };
        assert_eq!(parse_bucket_key(&bucket_key(&offer, 17)), Some((offer, 17)));
        for bad in ["", "s1", "s1#i1", "s1#i1#x", "s1#i1#1#2", "s 1#i1#1"] {
            assert_eq!(parse_bucket_key(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn movements_tell_where_units_went() {
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
        assert_eq!(movements(None, &empty), []);
        assert!(empty.adds_up() && held.adds_up() && sold.adds_up());
    }
}
