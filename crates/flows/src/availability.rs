//! How items look to buyers: plenty, low, or sold out, read from the pages of open buckets through a memory of a second.
//!
//! A view and never a promise: what a press gets is decided by the buckets.

use std::collections::{BTreeMap, HashMap};

use domain::Timestamp;
use domain::availability::{Availability, Page, PageNo, pages};
use domain::ids::{ItemId, Offer};
use domain::sale::{Item, SaleWithItems};
use futures::stream::{self, StreamExt, TryStreamExt};
use store::{Store, StoreError};

use crate::cache::Cache;

/// How long a look is believed: as long as the page that shows it.
const FRESH_FOR_MS: i64 = 1_000;
/// Items remembered.
const CAPACITY: usize = 1_000;
/// Items looked at together.
const AT_ONCE: usize = 8;

/// How an item looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    pub availability: Availability,
    /// Grows with every change of what is open: the sum of the pages' versions.
    pub version: u64,
}

impl Look {
    /// Nothing was laid out yet, or nothing is known.
    pub const NOTHING: Self = Self { availability: Availability::SoldOut, version: 0 };
}

/// The memory of one running function.
#[derive(Debug)]
pub struct AvailabilityCache {
    items: Cache<Offer, Look>,
}

impl Default for AvailabilityCache {
    fn default() -> Self {
        Self { items: Cache::new(FRESH_FOR_MS, CAPACITY) }
    }
}

impl AvailabilityCache {
    /// How every item of a sale looks.
    pub async fn of(
        &self,
        store: &Store,
        found: &SaleWithItems,
        now: Timestamp,
    ) -> Result<BTreeMap<ItemId, Look>, StoreError> {
        let looks: Vec<_> = found.items.values().map(|item| self.item(store, found, item, now)).collect();
        stream::iter(looks).buffer_unordered(AT_ONCE).try_collect().await
    }

    async fn item(
        &self,
        store: &Store,
        found: &SaleWithItems,
        item: &Item,
        now: Timestamp,
    ) -> Result<(ItemId, Look), StoreError> {
        let offer = Offer { sale: found.sale.id.clone(), item: item.id.clone() };
        let look = self.items.get(&offer, now, look(store, &offer, item)).await?;
        Ok((item.id.clone(), look))
    }
}

async fn look(store: &Store, offer: &Offer, item: &Item) -> Result<Look, StoreError> {
    let buckets = item.layout.buckets();
    let numbers: Vec<PageNo> = (0..pages(buckets)).collect();
    if numbers.is_empty() {
        return Ok(Look::NOTHING);
    }
    let read = store.pages(offer, &numbers).await?.into_iter().collect();
    Ok(look_of(&numbers, read, buckets))
}

/// A page that the stream has not told of yet is open.
fn look_of(numbers: &[PageNo], mut read: HashMap<PageNo, Page>, buckets: u32) -> Look {
    let page = |number: &PageNo| read.remove(number).unwrap_or_else(|| Page::assume_open(*number, buckets));
    let pages: Vec<Page> = numbers.iter().map(page).collect();
    let open: usize = pages.iter().map(|page| page.open.len()).sum();
    let open = u32::try_from(open).unwrap_or(u32::MAX);
    Look { availability: Availability::of(open, buckets), version: pages.iter().map(|page| page.version).sum() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_nothing_is_told_of_is_open() {
        let told = |open: &[u32], version| Page { open: open.iter().copied().collect(), version };
        let looks = |read: &[(PageNo, Page)]| {
            let look = look_of(&[0, 1], read.iter().cloned().collect(), 600);
            (look.availability, look.version)
        };
        assert_eq!(looks(&[]), (Availability::InStock, 0));
        assert_eq!(looks(&[(0, told(&[3, 4], 7))]), (Availability::InStock, 7), "two and 88 are open");
        assert_eq!(looks(&[(0, told(&[3, 4], 7)), (1, told(&[], 2))]), (Availability::Low, 9));
        assert_eq!(looks(&[(0, told(&[], 8)), (1, told(&[], 2))]), (Availability::SoldOut, 10));
    }
}
