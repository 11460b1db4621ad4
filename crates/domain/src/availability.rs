//! What is still open: for each item, pages that name the buckets with something free.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::bucket::{Bucket, BucketNo};
use crate::ids::Offer;

/// Buckets on one page: about 3 KB of numbers, a small read.
pub const BUCKETS_PER_PAGE: u32 = 512;

/// The number of a page within its item, from 0.
pub type PageNo = u32;

/// The page that a bucket is on.
pub fn page_of(bucket: BucketNo) -> PageNo {
    bucket / BUCKETS_PER_PAGE
}

/// How many pages an item with so many buckets has.
pub fn pages(buckets: u32) -> u32 {
    buckets.div_ceil(BUCKETS_PER_PAGE)
}

/// The buckets on a page of an item with so many buckets.
pub fn buckets_on(page: PageNo, buckets: u32) -> Range<BucketNo> {
    let first = page.saturating_mul(BUCKETS_PER_PAGE);
    first..first.saturating_add(BUCKETS_PER_PAGE).min(buckets)
}

/// The key of a page in the availability table.
pub fn page_key(offer: &Offer, page: PageNo) -> String {
    format!("{offer}#{page}")
}

/// One page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// Buckets with something free, as far as the stream has told.
    pub open: BTreeSet<BucketNo>,
    /// Grows with every change.
    pub version: u64,
}

impl Page {
    /// The page before the stream has told anything: everything is open. A wrong guess costs one refused write.
    pub fn assume_open(page: PageNo, buckets: u32) -> Self {
        Self { open: buckets_on(page, buckets).collect(), version: 0 }
    }
}

/// A bucket before and after one change.
#[derive(Clone, Debug)]
pub struct Change {
    /// Which item.
    pub offer: Offer,
    /// Which bucket.
    pub bucket: BucketNo,
    /// What it was; `None` is its first appearance.
    pub old: Option<Bucket>,
    /// What it is.
    pub new: Bucket,
}

/// What changes on the pages, by item and page: buckets that open and buckets that close. A later change of a bucket wins
/// over an earlier one of the same batch, as the stream is in order for each bucket.
pub fn page_changes(changes: &[Change]) -> BTreeMap<(Offer, PageNo), PageChange> {
    let mut pages: BTreeMap<(Offer, PageNo), PageChange> = BTreeMap::new();
    for change in changes {
        let was_open = change.old.as_ref().map(|bucket| bucket.free > 0);
        let is_open = change.new.free > 0;
        if was_open == Some(is_open) {
            continue;
        }
        let page = pages.entry((change.offer.clone(), page_of(change.bucket))).or_default();
        let (into, out_of) =
            if is_open { (&mut page.opened, &mut page.closed) } else { (&mut page.closed, &mut page.opened) };
        out_of.remove(&change.bucket);
        into.insert(change.bucket);
    }
    pages
}

/// Buckets to put on and take off a page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageChange {
    /// Buckets that have something again.
    pub opened: BTreeSet<BucketNo>,
    /// Buckets that have nothing left.
    pub closed: BTreeSet<BucketNo>,
}

/// How an item looks to a buyer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Availability {
    /// Plenty.
    InStock,
    /// Nine buckets of ten are empty.
    Low,
    /// Nothing is free now; a unit may come back.
    SoldOut,
}

impl Availability {
    /// By how many of an item's buckets are open.
    pub fn of(open: u32, buckets: u32) -> Self {
        match open {
            0 => Self::SoldOut,
            open if u64::from(open) * 10 <= u64::from(buckets) => Self::Low,
            _ => Self::InStock,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(bucket: BucketNo, old_free: Option<u32>, free: u32) -> Change {
        let offer = Offer { sale: "s".parse().unwrap(), item: "i".parse().unwrap() };
        let with = |free| Bucket { free, sold: 24 - free, ..Bucket::new(24) };
        Change { offer, bucket, old: old_free.map(with), new: with(free) }
    }

    #[test]
    fn only_opening_and_closing_touch_a_page() {
        assert!(page_changes(&[change(0, Some(24), 23), change(1, Some(0), 0)]).is_empty());
        let changes = page_changes(&[change(0, Some(1), 0), change(1, Some(0), 1), change(513, None, 24)]);
        let pages: Vec<_> = changes.into_iter().map(|((_, page), change)| (page, change)).collect();
        assert_eq!(
            pages,
            [
                (0, PageChange { opened: [1].into(), closed: [0].into() }),
                (1, PageChange { opened: [513].into(), closed: [].into() }),
            ]
        );
    }

    #[test]
    fn the_last_change_of_a_bucket_wins() {
        let changes = page_changes(&[change(3, Some(1), 0), change(3, Some(0), 1)]);
        assert_eq!(changes.into_values().next(), Some(PageChange { opened: [3].into(), closed: [].into() }));
    }

    #[test]
    fn pages_cover_all_buckets_once() {
        for buckets in [1, 511, 512, 513, 41_667] {
            let covered: u32 =
                (0..pages(buckets)).map(|page| u32::try_from(buckets_on(page, buckets).len()).unwrap()).sum();
            assert_eq!(covered, buckets);
        }
    }

    #[test]
    fn availability_by_open_buckets() {
        assert_eq!(Availability::of(0, 100), Availability::SoldOut);
        assert_eq!(Availability::of(10, 100), Availability::Low);
        assert_eq!(Availability::of(11, 100), Availability::InStock);
        assert_eq!(Availability::of(1, 1), Availability::InStock);
    }
}
