//! Which buckets have free units: each item has pages, and a page lists the open buckets among the 512 it covers.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::bucket::{Bucket, BucketNo};
use crate::ids::Offer;

/// Buckets on one page: about 3 KB of numbers, which is one read unit.
pub const BUCKETS_PER_PAGE: u32 = 512;

/// The number of a page within its item, from 0.
pub type PageNo = u32;

pub fn page_of(bucket: BucketNo) -> PageNo {
    bucket / BUCKETS_PER_PAGE
}

/// How many pages an item with this many buckets has.
pub fn pages(buckets: u32) -> u32 {
    buckets.div_ceil(BUCKETS_PER_PAGE)
}

/// The buckets on a page of an item that has `buckets` buckets in total.
pub fn buckets_on(page: PageNo, buckets: u32) -> Range<BucketNo> {
    let first = page.saturating_mul(BUCKETS_PER_PAGE);
    first..first.saturating_add(BUCKETS_PER_PAGE).min(buckets)
}

/// The key of a page in the availability table.
pub fn page_key(offer: &Offer, page: PageNo) -> String {
    format!("{offer}#{page}")
}

/// The key of a copy of a page.
pub fn copy_key(offer: &Offer, page: PageNo, copy: u32) -> String {
    format!("{offer}#{page}/{copy}")
}

/// The number of a page from its key or from the key of one of its copies.
pub fn page_in_key(key: &str) -> Option<PageNo> {
    let (_, number) = key.rsplit_once('#')?;
    number.split('/').next()?.parse().ok()
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// Buckets with free units, as of the last change that the stock's stream reported.
    pub open: BTreeSet<BucketNo>,
    /// Grows with every change.
    pub version: u64,
}

impl Page {
    /// A page of which the stream has reported nothing yet: every bucket counts as open. A wrong guess costs one
    /// refused write.
    pub fn assume_open(page: PageNo, buckets: u32) -> Self {
        Self { open: buckets_on(page, buckets).collect(), version: 0 }
    }
}

/// A bucket before and after one change.
#[derive(Clone, Debug)]
pub struct Change {
    pub offer: Offer,
    pub bucket: BucketNo,
    /// `None` when the bucket was created.
    pub old: Option<Bucket>,
    pub new: Bucket,
}

/// The changes to make on each page: which buckets open and which close. The stream is in order for each bucket, so a
/// later change in a batch overrides an earlier one of the same bucket.
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

/// Buckets to add to and remove from a page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageChange {
    /// Buckets that have free units again.
    pub opened: BTreeSet<BucketNo>,
    /// Buckets that no longer have free units.
    pub closed: BTreeSet<BucketNo>,
}

/// What a buyer sees of an item's stock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Availability {
    InStock,
    /// At least nine of ten buckets are empty.
    Low,
    /// No unit is free now. One may become free again when an order is closed or refunded.
    SoldOut,
}

impl Availability {
    /// Derived from how many of an item's buckets are open.
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
    fn a_key_names_its_page() {
        let offer = Offer { sale: "s".parse().unwrap(), item: "i".parse().unwrap() };
        assert_eq!(page_in_key(&page_key(&offer, 12)), Some(12));
        assert_eq!((copy_key(&offer, 12, 3).as_str(), page_in_key("s#i#12/3")), ("s#i#12/3", Some(12)));
        assert_eq!((page_in_key("#reconcile#stock"), page_in_key("12")), (None, None));
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
