//! The stream of stock changes keeps the pages of open buckets and the ledger.
//!
//! The ledger is written from the stream and not by the flows that move stock: it records what the stock did,
//! with the figures before and after that very change, and not what a flow intended. It has one row for each
//! order and kind of movement. If an order held twice, because one of its holds was delayed, the row is that of
//! the first movement in the stream.
//!
//! A stream delivers at least once. Sets and conditional puts make a repeated change have no effect.

use domain::Timestamp;
use domain::availability::{Change, page_changes};
use domain::bucket::{Movement, movements};
use futures::stream::{self, StreamExt, TryStreamExt};
use store::{Store, StoreError};

/// Ledger rows written at the same time.
const CONCURRENCY: usize = 16;

/// A change of a bucket, and when it happened.
#[derive(Clone, Debug)]
pub struct StockChange {
    pub change: Change,
    pub at: Timestamp,
}

/// Updates the pages and writes the ledger. Pages come first: buyers wait for them.
pub async fn stock_moved(store: &Store, changes: Vec<StockChange>) -> Result<(), StoreError> {
    let only_changes: Vec<Change> = changes.iter().map(|changed| changed.change.clone()).collect();
    for ((offer, page), change) in page_changes(&only_changes) {
        // Boxed: nested any deeper, the future exceeds the compiler's layout limit.
        Box::pin(store.update_page(&offer, page, &change)).await?;
    }
    let mut moved = Vec::new();
    for StockChange { change, at } in &changes {
        moved.extend(movements(change.old.as_ref(), &change.new).into_iter().map(|movement| (change, movement, *at)));
    }
    let record = |(change, movement, at): &(&Change, Movement, Timestamp)| {
        let (store, offer, bucket, movement, at) =
            (store.clone(), change.offer.clone(), change.bucket, movement.clone(), *at);
        async move { store.record(&offer, bucket, &movement, at).await }
    };
    let writes: Vec<_> = moved.iter().map(record).collect();
    stream::iter(writes).buffer_unordered(CONCURRENCY).try_collect().await
}
