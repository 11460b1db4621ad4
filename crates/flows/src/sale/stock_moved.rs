//! The stream of stock changes keeps the pages of open buckets and the ledger.
//!
//! The ledger is written from the stream and not by the flows that move stock: it records what the stock did,
//! with the figures before and after that very change, and not what a flow intended. It has one row for each
//! movement. An order has one of each kind; if a hold was delayed, and the order held twice, it has two.
//!
//! | stopped after | left behind | repaired by |
//! |---|---|---|
//! | some pages | other pages list empty buckets, or miss open ones | the batch comes again |
//! | all pages, or a part of the ledger rows | rows are missing | the batch comes again |
//! | all rows | nothing | |
//!
//! A stream delivers at least once, so every step may run again, also after a later batch. Pages are sets, and a
//! bucket is taken off a page only at the version that was read. A ledger row is the same, byte for byte, whichever
//! run writes it, because its key names the stream record that it is made of.

use domain::Timestamp;
use domain::availability::{Change, page_changes};
use domain::bucket::movements;
use store::{StockEntry, Store, StoreError};

/// A change of a bucket, and when it happened.
#[derive(Clone, Debug)]
pub struct StockChange {
    pub change: Change,
    pub at: Timestamp,
    /// The number of its stream record.
    pub sequence: String,
}

/// Updates the pages and writes the ledger. Pages come first: buyers wait for them.
pub async fn stock_moved(store: &Store, changes: Vec<StockChange>) -> Result<(), StoreError> {
    let only_changes: Vec<Change> = changes.iter().map(|changed| changed.change.clone()).collect();
    for ((offer, page), change) in page_changes(&only_changes) {
        // Boxed: nested any deeper, the future exceeds the compiler's layout limit.
        Box::pin(store.update_page(&offer, page, &change)).await?;
    }
    let entries: Vec<StockEntry> = changes.iter().flat_map(entries).collect();
    store.record(&entries).await
}

fn entries(changed: &StockChange) -> Vec<StockEntry> {
    let StockChange { change, at, sequence } = changed;
    let entry = |movement| StockEntry {
        offer: change.offer.clone(),
        bucket: change.bucket,
        movement,
        at: *at,
        sequence: sequence.clone(),
    };
    movements(change.old.as_ref(), &change.new).into_iter().map(entry).collect()
}
