//! Renaming of buyers and buckets. States that differ only in these names behave alike, so the search visits one of
//! them.

use super::Size;
use super::tables::{
    BUCKETS, BUYERS, Bucket, BucketNo, BucketSet, Claim, ORDERS_EACH, Order, OrderNo, OrderSet, Tables, bit, buyer,
};

/// A renaming: the new number of each buyer, and whether the two buckets change places.
pub type Renaming = ([u8; BUYERS], bool);

/// All renamings of buyers that may start the same number of orders, and of buckets of the same size.
pub fn renamings(size: Size) -> Vec<Renaming> {
    let orders = |name: u8| size.orders[usize::from(name)];
    let mut renamings = Vec::new();
    for [a, b, c] in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        if [orders(a), orders(b), orders(c)] == size.orders {
            renamings.push(([a, b, c], false));
            if size.caps[0] == size.caps[1] {
                renamings.push(([a, b, c], true));
            }
        }
    }
    renamings
}

/// The same order after its buyer was renamed.
pub fn rename_order(order: OrderNo, buyers: &[u8; BUYERS]) -> OrderNo {
    buyers[buyer(order)] * ORDERS_EACH as OrderNo + order % ORDERS_EACH as OrderNo
}

pub fn rename_bucket(bucket: BucketNo, swap: bool) -> BucketNo {
    if swap { BUCKETS as BucketNo - 1 - bucket } else { bucket }
}

pub fn rename_buckets(buckets: BucketSet, swap: bool) -> BucketSet {
    if swap { (buckets & 1) << 1 | buckets >> 1 } else { buckets }
}

impl Tables {
    /// The same tables after renaming: buyer `row` becomes `buyers[row]`, and the buckets change places if `swap`.
    pub fn renamed(&self, buyers: &[u8; BUYERS], swap: bool) -> Self {
        let ids = |of: OrderSet| Self::ids(of).fold(0, |ids, order| ids | bit(rename_order(order, buyers)));
        let place = |bucket: usize| if swap { BUCKETS - 1 - bucket } else { bucket };
        let mut new = Self {
            numbers: ids(self.numbers),
            taken: ids(self.taken),
            accepted: ids(self.accepted),
            refunds: ids(self.refunds),
            ..*self
        };
        for (bucket, at) in self.buckets.iter().enumerate() {
            new.buckets[place(bucket)] =
                Bucket { holders: ids(at.holders), sold_to: ids(at.sold_to), returned: ids(at.returned), ..*at };
            new.messages[place(bucket)] = ids(self.messages[bucket]);
        }
        for row in 0..BUYERS {
            let name = usize::from(buyers[row]);
            let claim = |claim: Claim| Claim {
                order: rename_order(claim.order, buyers),
                bucket: rename_bucket(claim.bucket, swap),
                previous: rename_buckets(claim.previous, swap),
                ..claim
            };
            new.claims[name] = self.claims[row].map(claim);
            new.keys[name] = self.keys[row].map(|order| rename_order(order, buyers));
            for nth in 0..ORDERS_EACH {
                let order = self.orders[row * ORDERS_EACH + nth];
                new.orders[name * ORDERS_EACH + nth] =
                    order.map(|order| Order { bucket: rename_bucket(order.bucket, swap), ..order });
            }
        }
        new
    }
}
