//! The stock's stream: what is open, and the ledger.
//!
//! The ledger is written from the stream and not by the flows that move stock: it records what the stock did, with the
//! figures before and after of that very change, and not what a flow meant to do. It has one row for each order and kind of movement: of
//! an order that held twice, because one of its holds came late, the movement that the stream told first is there. A stream delivers
//! again after a failure: sets and conditional puts make the same changes again come out the same.

use domain::Timestamp;
use domain::availability::{Change, page_changes};
use domain::bucket::{Movement, movements};
use futures::stream::{self, StreamExt, TryStreamExt};
use store::{Store, StoreError};

/// Ledger rows written at the same time.
const AT_ONCE: usize = 16;

/// A change of a bucket, and when it happened.
#[derive(Clone, Debug)]
pub struct StockChange {
    /// The change.
    pub change: Change,
    /// When.
    pub at: Timestamp,
}

/// Turns the pages and writes the ledger. Pages first: buyers wait for them.
pub async fn stock_moved(store: &Store, changes: Vec<StockChange>) -> Result<(), StoreError> {
    let only_changes: Vec<Change> = changes.iter().map(|changed| changed.change.clone()).collect();
    for ((offer, page), change) in page_changes(&only_changes) {
        // In a box: nested any deeper, the compiler does not lay it out.
        Box::pin(store.turn_page(&offer, page, &change)).await?;
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
    stream::iter(writes).buffer_unordered(AT_ONCE).try_collect().await
}
