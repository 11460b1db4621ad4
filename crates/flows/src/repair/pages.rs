//! Pages of open buckets are corrected by the buckets themselves.

use std::collections::BTreeSet;
use std::ops::Range;

use domain::availability::{Page, PageNo};
use domain::bucket::{Bucket, BucketNo};
use domain::ids::Offer;
use store::{Store, StoreError};

/// A page, and its buckets as they were read after it.
pub(super) struct Seen<'a> {
    pub(super) number: PageNo,
    pub(super) on_page: Range<BucketNo>,
    /// `None`: the stream has not written the page yet.
    pub(super) page: Option<Page>,
    pub(super) buckets: &'a [(BucketNo, Bucket)],
}

/// Corrects a page that differs from its buckets. Returns how many buckets were corrected.
///
/// The stream may only be behind: writing first what it will write later does no harm. If the page has changed
/// since it was read, no bucket is closed on it: the next run looks again.
pub(super) async fn correct(store: &Store, offer: &Offer, seen: Seen<'_>) -> Result<u32, StoreError> {
    let Seen { number, on_page, page, buckets } = seen;
    let open: BTreeSet<BucketNo> =
        buckets.iter().filter(|(_, bucket)| bucket.free > 0).map(|(number, _)| *number).collect();
    let (listed, version) = match page {
        Some(page) => (page.open, page.version),
        None => (on_page.collect(), 0),
    };
    let closed: BTreeSet<BucketNo> = &listed - &open;
    // While a page is not written, every bucket on it counts as open. The first write ends that, so it must list
    // all open ones.
    let opened = if version == 0 && !closed.is_empty() { open } else { &open - &listed };
    let mut corrected = opened.len();
    if version > 0 || opened.is_empty() {
        let is_closed = closed.is_empty() || store.close_on_page(offer, number, &closed, version).await?.is_none();
        corrected += if is_closed { closed.len() } else { 0 };
    }
    store.open_on_page(offer, number, &opened).await?;
    Ok(u32::try_from(corrected).unwrap_or(u32::MAX))
}
