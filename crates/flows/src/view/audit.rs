//! The proof, for each item, that free + held + sold = total, read from the buckets themselves; and the sale's orders
//! by status, counted from the index of its orders.
//!
//! Neither reads anything of another sale. A sale has up to millions of orders: what one request does not count, the
//! next one does, from a cursor on.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use domain::bucket::{Bucket, BucketNo};
use domain::ids::{ItemId, Offer, OrderId, SaleId};
use domain::order::Status;
use domain::sale::{Item, SaleWithItems};
use store::{Store, StoreError};

/// Buckets read together.
const READ_TOGETHER: u32 = 500;
/// Buckets named for each kind of finding; the rest are counted.
const MAX_NAMED: usize = 20;
/// Orders that are counted together: 50 reads of a hundred, 16 at a time.
const ORDERS_TOGETHER: usize = 5_000;
/// An audit starts no further page of orders after this: its caller gets an answer within 29 seconds.
const AUDIT_BUDGET: Duration = Duration::from_secs(15);

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

/// The audit of a sale.
#[derive(Clone, Debug)]
pub struct SaleAudit {
    pub sale: SaleWithItems,
    pub items: BTreeMap<ItemId, ItemAudit>,
    /// Where the next request goes on counting orders. `None`: all are counted.
    pub cursor: Option<OrderId>,
}

/// Audits a sale, and counts its orders from the one after `after` on. `None`: there is no such sale.
pub async fn audit(store: &Store, id: &SaleId, after: Option<OrderId>) -> Result<Option<SaleAudit>, StoreError> {
    audit_until(store, id, after, Instant::now() + AUDIT_BUDGET).await
}

/// The same, counting no further orders after `until`.
pub async fn audit_until(
    store: &Store,
    id: &SaleId,
    after: Option<OrderId>,
    until: Instant,
) -> Result<Option<SaleAudit>, StoreError> {
    let Some(sale) = store.sale(id).await? else { return Ok(None) };
    let mut items: BTreeMap<ItemId, ItemAudit> = BTreeMap::new();
    for item in sale.items.values() {
        items.insert(item.id.clone(), item_totals(store, id, item).await?.audit(item));
    }
    let counted = count_orders(store, id, after, usize::MAX, until).await?;
    for ((item, status), count) in counted.orders {
        if let Some(audit) = items.get_mut(&item) {
            audit.orders.insert(status, count);
        }
    }
    if counted.unreadable > 0 {
        let finding = format!("{} orders cannot be read by this release and are not counted", counted.unreadable);
        for audit in items.values_mut() {
            audit.findings.push(finding.clone());
        }
    }
    Ok(Some(SaleAudit { sale, items, cursor: counted.cursor }))
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
    /// Orders that this release cannot read.
    pub unreadable: u64,
    /// The last order that was counted. `None`: all of the sale's are.
    pub cursor: Option<OrderId>,
}

/// Counts the orders of a sale after `after`: at most `most`, and none after `until`, but always one page.
pub async fn count_orders(
    store: &Store,
    id: &SaleId,
    after: Option<OrderId>,
    most: usize,
    until: Instant,
) -> Result<OrderCounts, StoreError> {
    let mut counts = OrderCounts { cursor: after, ..OrderCounts::default() };
    let mut left = most;
    loop {
        let page = left.min(ORDERS_TOGETHER);
        let ids = store.order_ids(id, counts.cursor.as_ref(), page).await?;
        let found = store.order_summaries(&ids).await?;
        counts.unreadable += u64::try_from(found.unreadable.len()).unwrap_or(u64::MAX);
        for order in found.read {
            *counts.orders.entry((order.item, order.status)).or_default() += 1;
        }
        if ids.len() < page {
            counts.cursor = None;
            return Ok(counts);
        }
        counts.cursor = ids.last().cloned();
        left = left.saturating_sub(ids.len());
        if left == 0 || Instant::now() >= until {
            return Ok(counts);
        }
    }
}
