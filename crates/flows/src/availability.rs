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

/// The memory of one running function.
#[derive(Debug)]
pub struct Shelves {
    items: Cache<Offer, Availability>,
}

impl Default for Shelves {
    fn default() -> Self {
        Self { items: Cache::new(FRESH_FOR_MS, CAPACITY) }
    }
}

impl Shelves {
    /// How every item of a sale looks.
    pub async fn of(
        &self,
        store: &Store,
        found: &SaleWithItems,
        now: Timestamp,
    ) -> Result<BTreeMap<ItemId, Availability>, StoreError> {
        let looks: Vec<_> = found.items.values().map(|item| self.item(store, found, item, now)).collect();
        stream::iter(looks).buffer_unordered(AT_ONCE).try_collect().await
    }

    async fn item(
        &self,
        store: &Store,
        found: &SaleWithItems,
        item: &Item,
        now: Timestamp,
    ) -> Result<(ItemId, Availability), StoreError> {
        let offer = Offer { sale: found.sale.id.clone(), item: item.id.clone() };
        let availability = self.items.get(&offer, now, look(store, &offer, item)).await?;
        Ok((item.id.clone(), availability))
    }
}

async fn look(store: &Store, offer: &Offer, item: &Item) -> Result<Availability, StoreError> {
    let buckets = item.layout.buckets();
    let numbers: Vec<PageNo> = (0..pages(buckets)).collect();
    if numbers.is_empty() {
        return Ok(Availability::of(0, 0));
    }
    let read = store.pages(offer, &numbers).await?.into_iter().collect();
    Ok(Availability::of(open(&numbers, read, buckets), buckets))
}

/// How many buckets are open. A page that the stream has not told of yet is open.
fn open(numbers: &[PageNo], mut read: HashMap<PageNo, Page>, buckets: u32) -> u32 {
    let mut page = |number: &PageNo| read.remove(number).unwrap_or_else(|| Page::untold(*number, buckets));
    let open: usize = numbers.iter().map(|number| page(number).open.len()).sum();
    u32::try_from(open).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_nothing_is_told_of_is_open() {
        let told = |open: &[u32]| Page { open: open.iter().copied().collect(), version: 1 };
        assert_eq!(open(&[0, 1], HashMap::new(), 600), 600);
        assert_eq!(open(&[0, 1], [(0, told(&[3, 4]))].into(), 600), 2 + 88);
        assert_eq!(open(&[0, 1], [(0, told(&[])), (1, told(&[]))].into(), 600), 0);
    }
}
