//! How much of an item buyers see: in stock, low, or sold out. Read from the pages of open buckets, and cached
//! for a second.
//!
//! This is a view and not a promise: the buckets decide what a press gets.

use std::collections::{BTreeMap, HashMap};

use domain::Timestamp;
use domain::availability::{Availability, Page, PageNo, pages};
use domain::ids::{ItemId, Offer};
use domain::sale::{Item, SaleWithItems};
use futures::stream::{self, StreamExt, TryStreamExt};
use store::{Store, StoreError};

use crate::cache::Cache;

/// How long an item's availability is cached: as long as the web page that shows it.
const FRESH_FOR_MS: i64 = 1_000;
/// Cached items.
const CAPACITY: usize = 1_000;
/// Items read at the same time.
const CONCURRENCY: usize = 8;

/// How much of an item is left, as buyers see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ItemAvailability {
    pub availability: Availability,
    /// Grows with every change of what is open: the sum of the pages' versions.
    pub version: u64,
}

impl ItemAvailability {
    /// Nothing is laid out yet, or nothing is known.
    pub const NONE: Self = Self { availability: Availability::SoldOut, version: 0 };
}

/// The cache of one running function.
#[derive(Debug)]
pub struct AvailabilityCache {
    items: Cache<Offer, ItemAvailability>,
}

impl Default for AvailabilityCache {
    fn default() -> Self {
        Self { items: Cache::new(FRESH_FOR_MS, CAPACITY) }
    }
}

impl AvailabilityCache {
    /// The availability of every item of a sale.
    pub async fn of(
        &self,
        store: &Store,
        found: &SaleWithItems,
        now: Timestamp,
    ) -> Result<BTreeMap<ItemId, ItemAvailability>, StoreError> {
        let reads: Vec<_> = found.items.values().map(|item| self.item(store, found, item, now)).collect();
        stream::iter(reads).buffer_unordered(CONCURRENCY).try_collect().await
    }

    async fn item(
        &self,
        store: &Store,
        found: &SaleWithItems,
        item: &Item,
        now: Timestamp,
    ) -> Result<(ItemId, ItemAvailability), StoreError> {
        let offer = Offer { sale: found.sale.id.clone(), item: item.id.clone() };
        let availability = self.items.get(&offer, now, read(store, &offer, item)).await?;
        Ok((item.id.clone(), availability))
    }
}

async fn read(store: &Store, offer: &Offer, item: &Item) -> Result<ItemAvailability, StoreError> {
    let buckets = item.layout.buckets();
    let numbers: Vec<PageNo> = (0..pages(buckets)).collect();
    if numbers.is_empty() {
        return Ok(ItemAvailability::NONE);
    }
    let read = store.shown_pages(offer, &numbers).await?.into_iter().collect();
    Ok(sum_up(&numbers, read, buckets))
}

/// A page that the stream has not written yet counts as open.
fn sum_up(numbers: &[PageNo], mut read: HashMap<PageNo, Page>, buckets: u32) -> ItemAvailability {
    let page = |number: &PageNo| read.remove(number).unwrap_or_else(|| Page::assume_open(*number, buckets));
    let pages: Vec<Page> = numbers.iter().map(page).collect();
    let open: usize = pages.iter().map(|page| page.open.len()).sum();
    let open = u32::try_from(open).unwrap_or(u32::MAX);
    ItemAvailability {
        availability: Availability::of(open, buckets),
        version: pages.iter().map(|page| page.version).sum(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_is_not_written_yet_is_open() {
        let page = |open: &[u32], version| Page { open: open.iter().copied().collect(), version };
        let seen = |read: &[(PageNo, Page)]| {
            let item = sum_up(&[0, 1], read.iter().cloned().collect(), 600);
            (item.availability, item.version)
        };
        assert_eq!(seen(&[]), (Availability::InStock, 0));
        assert_eq!(seen(&[(0, page(&[3, 4], 7))]), (Availability::InStock, 7), "two and 88 are open");
        assert_eq!(seen(&[(0, page(&[3, 4], 7)), (1, page(&[], 2))]), (Availability::Low, 9));
        assert_eq!(seen(&[(0, page(&[], 8)), (1, page(&[], 2))]), (Availability::SoldOut, 10));
    }
}
