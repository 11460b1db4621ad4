//! Sales as buyers' requests need them: cached for at most one second, so that a pause takes effect at once.

use std::sync::Arc;

use domain::Timestamp;
use domain::ids::SaleId;
use domain::sale::SaleWithItems;
use store::{Store, StoreError};

use crate::cache::Cache;

/// How long a cached sale is used before it is read again.
pub const FRESH_FOR_MS: i64 = 1_000;
/// Where sales have copies, a press shortens that at random by up to a quarter: thousands of functions should not read
/// together.
pub const SHORTENED_BY: i64 = 4;
/// Cached sales, including names that no sale has.
const CAPACITY: usize = 1_000;

/// The cache of one running function.
#[derive(Debug)]
pub struct Sales {
    sales: Cache<SaleId, Option<Arc<SaleWithItems>>>,
    watched: Cache<(), Arc<Vec<SaleId>>>,
}

impl Default for Sales {
    fn default() -> Self {
        Self { sales: Cache::new(FRESH_FOR_MS, CAPACITY), watched: Cache::new(FRESH_FOR_MS, 1) }
    }
}

impl Sales {
    /// A sale; `None`: there is no such sale.
    pub async fn get(
        &self,
        store: &Store,
        id: &SaleId,
        now: Timestamp,
    ) -> Result<Option<Arc<SaleWithItems>>, StoreError> {
        self.sales.get(id, now, async { Ok(store.recent_sale(id).await?.map(Arc::new)) }).await
    }

    /// A sale, for a press. `random` decides which copy is read, if there are any, and how soon again.
    pub async fn get_for_press(
        &self,
        store: &Store,
        id: &SaleId,
        now: Timestamp,
        random: u32,
    ) -> Result<Option<Arc<SaleWithItems>>, StoreError> {
        let copies = store.page_copies();
        let shorter_ms = match copies {
            0 => 0,
            _ => i64::from(random >> 4).checked_rem(FRESH_FOR_MS / SHORTENED_BY).unwrap_or(0),
        };
        let copy = 1 + (random >> 12).checked_rem(copies).unwrap_or(0);
        let read = async { Ok(Box::pin(store.sale_for_press(id, copy)).await?.map(Arc::new)) };
        self.sales.get_for(FRESH_FOR_MS - shorter_ms, id, now, read).await
    }

    /// All sales that are running or still to come, by their start.
    pub async fn list(&self, store: &Store, now: Timestamp) -> Result<Vec<Arc<SaleWithItems>>, StoreError> {
        let watched =
            self.watched.get(&(), now, async { Ok::<_, StoreError>(Arc::new(store.watched_sales().await?)) }).await?;
        let mut sales = Vec::with_capacity(watched.len());
        for id in watched.iter() {
            sales.extend(self.get(store, id, now).await?);
        }
        Ok(sales)
    }
}
