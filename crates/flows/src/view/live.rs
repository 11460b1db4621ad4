//! Current figures for an operator who watches a sale.
//!
//! They are summed from the buckets, never kept as counters: a stream may deliver twice, and a counter that all
//! buyers write to would be a hot key. However many consoles are open, a running function reads the buckets of a
//! sale at most once a second, and those of a very large sale less often.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use domain::Timestamp;
use domain::ids::{ItemId, SaleId};
use domain::order::Status;
use domain::sale::SaleWithItems;
use store::{Store, StoreError};

use crate::cache::Cache;
use crate::view::audit;

/// How long figures are cached.
const FRESH_FOR_MS: i64 = 1_000;
/// The same for a sale with more than [`MANY_BUCKETS`]: reading so many is itself a load.
const MANY_FRESH_FOR_MS: i64 = 15_000;
const MANY_BUCKETS: u32 = 5_000;
/// How long order counts are cached.
const ORDERS_FRESH_FOR_MS: i64 = 10_000;
/// Orders that are counted for the console. With more, only an audit counts them.
const MOST_ORDERS: usize = 40_000;
/// Time for counting: a console asks every few seconds.
const COUNT_BUDGET: Duration = Duration::from_secs(5);
/// Cached sales.
const CAPACITY: usize = 100;

/// An item's figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    pub total: u64,
    /// Units that can be bought.
    pub free: u64,
    /// Units held by orders that are not paid.
    pub held: u64,
    pub sold: u64,
}

/// A sale's figures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaleFigures {
    pub sale: SaleWithItems,
    /// When the figures were read.
    pub at: Timestamp,
    pub items: BTreeMap<ItemId, Figures>,
}

/// Orders by status, and when they were counted.
pub type Counted = (BTreeMap<Status, u64>, Timestamp);

/// The cache of one running function.
#[derive(Debug)]
pub struct Live {
    sales: Cache<SaleId, Option<Arc<SaleFigures>>>,
    large: Cache<SaleId, Option<Arc<SaleFigures>>>,
    orders: Cache<SaleId, Option<Arc<Counted>>>,
}

impl Default for Live {
    fn default() -> Self {
        Self {
            sales: Cache::new(FRESH_FOR_MS, CAPACITY),
            large: Cache::new(MANY_FRESH_FOR_MS, CAPACITY),
            orders: Cache::new(ORDERS_FRESH_FOR_MS, CAPACITY),
        }
    }
}

impl Live {
    /// A sale's figures; `None`: there is no such sale.
    pub async fn figures(
        &self,
        store: &Store,
        id: &SaleId,
        now: Timestamp,
    ) -> Result<Option<Arc<SaleFigures>>, StoreError> {
        self.sales
            .get(id, now, async {
                let Some(sale) = store.sale(id).await? else { return Ok(None) };
                let buckets = sale.items.values().fold(0, |sum: u32, item| sum.saturating_add(item.layout.buckets()));
                if buckets <= MANY_BUCKETS {
                    return read(store, sale, now).await;
                }
                self.large.get(id, now, read(store, sale, now)).await
            })
            .await
    }

    /// How many orders of a sale are in each status; `None`: too many to count for the console.
    pub async fn orders(&self, store: &Store, id: &SaleId, now: Timestamp) -> Result<Option<Arc<Counted>>, StoreError> {
        self.orders
            .get(id, now, async {
                let until = Instant::now() + COUNT_BUDGET;
                let counted = audit::count_orders(store, id, None, MOST_ORDERS, until).await?;
                let mut counts: BTreeMap<Status, u64> = BTreeMap::new();
                for ((_, status), count) in counted.orders {
                    *counts.entry(status).or_default() += count;
                }
                Ok(counted.cursor.is_none().then(|| Arc::new((counts, now))))
            })
            .await
    }
}

async fn read(store: &Store, sale: SaleWithItems, at: Timestamp) -> Result<Option<Arc<SaleFigures>>, StoreError> {
    let mut items = BTreeMap::new();
    for item in sale.items.values() {
        let totals = audit::item_totals(store, &sale.sale.id, item).await?;
        let (free, held, sold) = (totals.free(), totals.held(), totals.sold());
        items.insert(item.id.clone(), Figures { total: item.layout.total(), free, held, sold });
    }
    Ok(Some(Arc::new(SaleFigures { sale, at, items })))
}
