//! Sales as buyers' requests need them: cached for at most one second, so that a pause takes effect at once.

use std::sync::Arc;

use domain::Timestamp;
use domain::ids::SaleId;
use domain::sale::SaleWithItems;
use store::{Store, StoreError};

use crate::cache::Cache;

/// How long a cached sale is used before it is read again.
const FRESH_FOR_MS: i64 = 1_000;
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
