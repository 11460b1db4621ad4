//! Pages of open buckets are corrected by the buckets themselves.

use std::collections::BTreeSet;
use std::ops::Range;

use domain::availability::{Page, PageNo};
use domain::bucket::{Bucket, BucketNo};
use domain::ids::Offer;
use store::{Closed, Store, StoreError};

/// A page, and its buckets as they were read after it.
pub(super) struct Seen<'a> {
    pub(super) number: PageNo,
    pub(super) on_page: Range<BucketNo>,
    /// `None`: the stream has not written the page yet.
    pub(super) page: Option<Page>,
    pub(super) buckets: &'a [(BucketNo, Bucket)],
}

/// Corrects a page that differs from its buckets, and copies of it that are behind. Returns how many buckets were
/// corrected.
///
/// The stream may only be behind: writing first what it will write later does no harm. If the page has changed
/// since it was read, no bucket is closed on it: the next run looks again.
pub(super) async fn correct(store: &Store, offer: &Offer, seen: Seen<'_>) -> Result<u32, StoreError> {
    let Seen { number, on_page, page, buckets } = seen;
    let open: BTreeSet<BucketNo> =
        buckets.iter().filter(|(_, bucket)| bucket.free > 0).map(|(number, _)| *number).collect();
    let (listed, version) = match &page {
        Some(page) => (page.open.clone(), page.version),
        None => (on_page.collect(), 0),
    };
    let closed: BTreeSet<BucketNo> = &listed - &open;
    // While a page is not written, every bucket on it counts as open. The first write ends that, so it must list
    // all open ones.
    let opened = if version == 0 && !closed.is_empty() { open } else { &open - &listed };
    let mut corrected = opened.len();
    let mut now = page;
    if !closed.is_empty() && (version > 0 || opened.is_empty()) {
        now = match store.close_on_page(offer, number, &closed, version).await? {
            Closed::Done(now) => {
                corrected += closed.len();
                Some(now)
            }
            Closed::Changed(now) => Some(now),
        };
    }
    now = store.open_on_page(offer, number, &opened).await?.or(now);
    if let Some(now) = now.filter(|now| now.version > 0) {
        Box::pin(store.correct_copies(offer, number, &now)).await?;
    }
    Ok(u32::try_from(corrected).unwrap_or(u32::MAX))
}
