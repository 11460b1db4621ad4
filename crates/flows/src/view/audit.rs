//! The proof, for each item, that free + held + sold = total, read from the buckets themselves.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use domain::bucket::{Bucket, BucketNo};
use domain::ids::{ItemId, Offer, SaleId};
use domain::order::Status;
use domain::sale::{Item, SaleWithItems};
use store::{Store, StoreError};

/// Buckets read together.
const READ_TOGETHER: u32 = 500;
/// Buckets named for each kind of finding; the rest are counted.
const MAX_NAMED: usize = 20;
/// Pages of orders read for the counts: 1 MB each, about two thousand orders.
const ORDER_PAGES: u32 = 500;
/// An audit starts no further page of orders after this: its caller gets an answer within 29 seconds, and the
/// last page takes up to three.
const AUDIT_BUDGET: Duration = Duration::from_secs(20);

/// The figures of one item.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ItemAudit {
    /// Units that were laid out, or will be.
    pub total: u64,
    /// Units that can be bought.
    pub free: u64,
    /// Units held by orders that are not paid.
    pub held: u64,
    pub sold: u64,
    pub orders: BTreeMap<Status, u64>,
    /// Units missing (positive) or too many (negative), of those laid out so far. Must be 0.
    pub drift: i64,
    /// Inconsistencies, in words.
    pub findings: Vec<String>,
}

/// Adds up buckets as they are read.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    expected: u64,
    free: u64,
    held: u64,
    sold: u64,
    broken: Vec<BucketNo>,
    gone: Vec<BucketNo>,
    to_come: Vec<BucketNo>,
}

impl Totals {
    /// Adds buckets `from..to`, as they were read.
    pub fn add(&mut self, item: &Item, from: BucketNo, to: BucketNo, read: &[(BucketNo, Bucket)]) {
        let mut read: BTreeMap<BucketNo, &Bucket> = read.iter().map(|(number, bucket)| (*number, bucket)).collect();
        for number in from..to {
            let bucket = read.remove(&number);
            if bucket.is_some() || number < item.laid_out {
                self.expected += u64::from(item.layout.cap(number).unwrap_or(0));
            }
            let Some(bucket) = bucket else {
                if number < item.laid_out { &mut self.gone } else { &mut self.to_come }.push(number);
                continue;
            };
            self.free += u64::from(bucket.free);
            self.held += u64::from(bucket.held());
            self.sold += u64::from(bucket.sold);
            if !bucket.adds_up() || item.layout.cap(number) != Some(bucket.cap) {
                self.broken.push(number);
            }
        }
    }

    pub fn held(&self) -> u64 {
        self.held
    }

    pub fn free(&self) -> u64 {
        self.free
    }

    pub fn sold(&self) -> u64 {
        self.sold
    }

    /// Compares the totals with an item's layout.
    pub fn audit(&self, item: &Item) -> ItemAudit {
        let there = self.free + self.held + self.sold;
        let mut findings = Vec::new();
        let mut report = |buckets: &[BucketNo], what: &str| {
            for bucket in buckets.iter().take(MAX_NAMED) {
                findings.push(format!("bucket {bucket} {what}"));
            }
            if buckets.len() > MAX_NAMED {
                findings.push(format!("and {} more buckets: each {what}", buckets.len() - MAX_NAMED));
            }
        };
        report(&self.broken, "does not add up: free + held + sold is not what was laid out");
        report(&self.gone, "was laid out and has disappeared: restore the stock table from its point-in-time recovery");
        report(&self.to_come, "is not laid out yet: preheat again, or wait for reconcile");
        ItemAudit {
            total: item.layout.total(),
            free: self.free,
            held: self.held,
            sold: self.sold,
            orders: BTreeMap::new(),
            drift: i64::try_from(self.expected).unwrap_or(i64::MAX) - i64::try_from(there).unwrap_or(i64::MAX),
            findings,
        }
    }
}

/// Audits a sale; `None`: there is no such sale.
pub async fn audit(
    store: &Store,
    id: &SaleId,
) -> Result<Option<(SaleWithItems, BTreeMap<ItemId, ItemAudit>)>, StoreError> {
    let until = Instant::now() + AUDIT_BUDGET;
    let Some(found) = store.sale(id).await? else { return Ok(None) };
    let mut audits: BTreeMap<ItemId, ItemAudit> = BTreeMap::new();
    for item in found.items.values() {
        audits.insert(item.id.clone(), item_totals(store, id, item).await?.audit(item));
    }
    let counted = count_orders(store, id, ORDER_PAGES, until).await?;
    for ((item, status), count) in counted.orders {
        if let Some(audit) = audits.get_mut(&item) {
            audit.orders.insert(status, count);
        }
    }
    if !counted.are_all {
        for audit in audits.values_mut() {
            audit.findings.push(
                "there are too many orders to count here: orders by status are of the first ones only".to_owned(),
            );
        }
    }
    Ok(Some((found, audits)))
}

/// What an item's buckets add up to.
pub(crate) async fn item_totals(store: &Store, sale: &SaleId, item: &Item) -> Result<Totals, StoreError> {
    let offer = Offer { sale: sale.clone(), item: item.id.clone() };
    let mut totals = Totals::default();
    let mut from = 0;
    while from < item.layout.buckets() {
        let to = from.saturating_add(READ_TOGETHER).min(item.layout.buckets());
        totals.add(item, from, to, &store.buckets(&offer, from..to).await?);
        from = to;
    }
    Ok(totals)
}

/// Orders of a sale that were counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OrderCounts {
    /// How many orders of an item are in a status.
    pub orders: BTreeMap<(ItemId, Status), u64>,
    /// Whether these are all orders of the sale.
    pub are_all: bool,
}

/// Counts the orders of a sale. Reads at most `most_pages` pages of all orders, and starts none after `until`.
pub async fn count_orders(
    store: &Store,
    id: &SaleId,
    most_pages: u32,
    until: Instant,
) -> Result<OrderCounts, StoreError> {
    let mut counts = OrderCounts::default();
    let mut after = None;
    for _ in 0..most_pages {
        if Instant::now() >= until {
            break;
        }
        let (orders, last) = store.order_statuses(id, after.take()).await?;
        for item_and_status in orders {
            *counts.orders.entry(item_and_status).or_default() += 1;
        }
        match last {
            Some(last) => after = Some(last),
            None => return Ok(OrderCounts { are_all: true, ..counts }),
        }
    }
    Ok(counts)
}
