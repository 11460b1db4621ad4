//! The gate: which bucket to try, and that there is none, known in memory.
//!
//! A running function keeps one page of open buckets for each item, reads it again after a few hundred milliseconds, and
//! remembers the buckets it found too empty for a second: the page may be behind, and trying them again would cost a write each time. While the page is fresh a refusal costs no call at all.
//! When stock returns, the stock's stream opens the bucket on its page, and every running function sees it at its next
//! reading: that is the broadcast.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use domain::Timestamp;
use domain::availability::{Page, PageNo, pages};
use domain::bucket::BucketNo;
use domain::ids::Offer;
use store::{Store, StoreError};

/// How long a page is believed. A restock is seen everywhere within this and the stream's delay.
pub const FRESH_FOR_MS: i64 = 300;
/// How long a bucket that was found too empty is not tried again, unless the page has told meanwhile that it closed and opened. A
/// unit that comes back into it is seen within this.
const FOUND_FOR_MS: i64 = 1_000;
/// How soon after a strong read the pages are read again because a buyer saw a newer version. A made-up version costs at most one
/// read in this time.
const REREAD_AFTER_MS: i64 = 50;
/// Buckets looked into by one read: the most that DynamoDB takes.
const LOOKED_INTO: usize = 100;
/// Items remembered; a sale has at most 40.
const CAPACITY: usize = 1_000;

/// What the gate says to a press.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pick {
    /// Try this bucket.
    Bucket(BucketNo),
    /// Nothing is open for this quantity; a smaller one could perhaps have `available`.
    Nothing {
        /// The most units that a bucket was seen to have.
        available: u32,
    },
}

/// What a press looks for.
#[derive(Clone, Copy, Debug)]
pub struct Search<'a> {
    pub offer: &'a Offer,
    /// How many buckets the item has.
    pub buckets: u32,
    pub quantity: u32,
    /// The `availabilityVersion` that the buyer saw when pressing. A function that knows an older one reads the pages again before it
    /// refuses.
    pub seen_version: Option<u64>,
    pub now: Timestamp,
    /// Random bits: running functions spread over the pages and buckets.
    pub roll: u32,
}

/// The gate of one running function.
#[derive(Debug, Default)]
pub struct BucketPicker {
    items: Mutex<HashMap<Offer, Arc<tokio::sync::Mutex<View>>>>,
}

/// What is known of one item.
#[derive(Debug, Default)]
struct View {
    read_at_ms: Option<i64>,
    /// The page in use; `None`: nothing was open anywhere at the last reading.
    page: Option<PageNo>,
    open: BTreeSet<BucketNo>,
    /// Buckets of the page that were found to have at most so many, and when.
    at_most: HashMap<BucketNo, (u32, i64)>,
    /// How many buckets the item had at the last reading: a restock makes more.
    buckets: u32,
    /// The newest version that was read of each page.
    versions: BTreeMap<PageNo, u64>,
    /// When all pages were last read strongly.
    strongly_read_at_ms: Option<i64>,
}

impl BucketPicker {
    /// A bucket to try.
    pub async fn pick(&self, store: &Store, search: &Search<'_>) -> Result<Pick, StoreError> {
        let view = self.view(search.offer);
        // Held while reading: presses that come together share one read.
        let mut view = view.lock().await;
        let Search { quantity, roll, .. } = *search;
        if !view.is_fresh(search) {
            view.read(store, search).await?;
        }
        if let Some(bucket) = view.choose(quantity, roll) {
            return Ok(Pick::Bucket(bucket));
        }
        // This page is used up; look for another one before saying that there is nothing.
        if pages(search.buckets) > 1 && view.page.is_some() {
            view.read_all(store, search).await?;
            if let Some(bucket) = view.choose(quantity, roll) {
                return Ok(Pick::Bucket(bucket));
            }
        }
        // The buyer has seen something newer than this function knows.
        if view.is_behind(search) {
            view.read_all_strongly(store, search).await?;
            if let Some(bucket) = view.choose(quantity, roll) {
                return Ok(Pick::Bucket(bucket));
            }
        }
        Ok(Pick::Nothing { available: view.best_seen() })
    }

    /// Notes that a bucket was found to have only `free` units.
    pub async fn found(&self, offer: &Offer, bucket: BucketNo, free: u32, now: Timestamp) {
        let view = self.view(offer);
        view.lock().await.at_most.insert(bucket, (free, now.as_millisecond()));
    }

    /// Looks into up to a hundred buckets that are said to be open, in one read. When several in a row were found empty the
    /// page is behind, and finding the others out by writing to them would cost a write each.
    pub async fn look(&self, store: &Store, offer: &Offer, now: Timestamp, roll: u32) -> Result<(), StoreError> {
        let view = self.view(offer);
        let mut view = view.lock().await;
        let unknown: Vec<BucketNo> =
            view.open.iter().filter(|bucket| !view.at_most.contains_key(bucket)).copied().collect();
        let first = index(roll, unknown.len());
        let chosen: Vec<BucketNo> =
            unknown.iter().cycle().skip(first).take(unknown.len().min(LOOKED_INTO)).copied().collect();
        if chosen.is_empty() {
            return Ok(());
        }
        for (bucket, content) in store.recent_buckets(offer, chosen).await? {
            view.at_most.insert(bucket, (content.free, now.as_millisecond()));
        }
        Ok(())
    }

    fn view(&self, offer: &Offer) -> Arc<tokio::sync::Mutex<View>> {
        let mut items = self.items.lock().unwrap_or_else(PoisonError::into_inner);
        if items.len() >= CAPACITY && !items.contains_key(offer) {
            items.clear();
        }
        items.entry(offer.clone()).or_default().clone()
    }
}

impl View {
    fn is_fresh(&self, search: &Search<'_>) -> bool {
        let now_ms = search.now.as_millisecond();
        let fresh = self.read_at_ms.is_some_and(|read_at_ms| (0..FRESH_FOR_MS).contains(&(now_ms - read_at_ms)));
        fresh && self.buckets == search.buckets
    }

    /// Whether the buyer has seen a newer version, and the pages were not just read for such a buyer.
    fn is_behind(&self, search: &Search<'_>) -> bool {
        let known: u64 = self.versions.values().sum();
        let now_ms = search.now.as_millisecond();
        let just_read = |at_ms| (0..REREAD_AFTER_MS).contains(&(now_ms - at_ms));
        search.seen_version.is_some_and(|seen| seen > known) && !self.strongly_read_at_ms.is_some_and(just_read)
    }

    /// Reads the page in use again, or looks at all of them if none is.
    async fn read(&mut self, store: &Store, search: &Search<'_>) -> Result<(), StoreError> {
        let first = self.read_at_ms.is_none();
        let page = match self.page {
            Some(page) => page,
            // Running functions spread over the pages.
            None if first => search.roll.checked_rem(pages(search.buckets)).unwrap_or(0),
            None => return self.read_all(store, search).await,
        };
        let read = store.pages(search.offer, &[page]).await?.pop();
        let content = read.map_or_else(|| Page::assume_open(page, search.buckets), |(_, content)| content);
        self.note_version(page, &content);
        self.turn_to(Some((page, content)), search);
        Ok(())
    }

    /// Reads all pages and turns to one with something open.
    async fn read_all(&mut self, store: &Store, search: &Search<'_>) -> Result<(), StoreError> {
        let read = store.pages(search.offer, &all_pages(search.buckets)).await?;
        self.turn_to_one_of(read, search);
        Ok(())
    }

    /// Reads all pages as they are now, and forgets what was found before: it is older than what the buyer has seen.
    async fn read_all_strongly(&mut self, store: &Store, search: &Search<'_>) -> Result<(), StoreError> {
        let read = store.pages_as_they_are(search.offer, &all_pages(search.buckets)).await?;
        self.at_most.clear();
        self.turn_to_one_of(read, search);
        self.strongly_read_at_ms = Some(search.now.as_millisecond());
        Ok(())
    }

    fn turn_to_one_of(&mut self, read: Vec<(PageNo, Page)>, search: &Search<'_>) {
        let mut read: HashMap<PageNo, Page> = read.into_iter().collect();
        let mut open = Vec::new();
        for page in all_pages(search.buckets) {
            let content = read.remove(&page).unwrap_or_else(|| Page::assume_open(page, search.buckets));
            self.note_version(page, &content);
            if !content.open.is_empty() && !self.is_used_up(page) {
                open.push((page, content));
            }
        }
        let chosen = match open.len() {
            0 => None,
            count => Some(open.swap_remove(index(search.roll, count))),
        };
        self.turn_to(chosen, search);
    }

    /// Whether everything on the page in use was found empty.
    fn is_used_up(&self, page: PageNo) -> bool {
        let is_empty = |bucket: &BucketNo| matches!(self.at_most.get(bucket), Some((0, _)));
        self.page == Some(page) && self.open.iter().all(is_empty)
    }

    fn note_version(&mut self, page: PageNo, content: &Page) {
        let known = self.versions.entry(page).or_default();
        *known = content.version.max(*known);
    }

    fn turn_to(&mut self, page: Option<(PageNo, Page)>, search: &Search<'_>) {
        let now_ms = search.now.as_millisecond();
        self.read_at_ms = Some(now_ms);
        self.buckets = search.buckets;
        let number = page.as_ref().map(|(number, _)| *number);
        let content = page.map(|(_, content)| content).unwrap_or_default();
        // What was found on this page holds a little longer, unless the page says that the bucket has closed since.
        let keep = number == self.page;
        self.at_most.retain(|bucket, (_, found_at_ms)| {
            keep && content.open.contains(bucket) && (0..FOUND_FOR_MS).contains(&(now_ms - *found_at_ms))
        });
        (self.page, self.open) = (number, content.open);
    }

    fn choose(&self, quantity: u32, roll: u32) -> Option<BucketNo> {
        let has = |bucket: &&BucketNo| self.at_most.get(bucket).is_none_or(|(at_most, _)| *at_most >= quantity);
        let candidates: Vec<BucketNo> = self.open.iter().filter(has).copied().collect();
        candidates.get(index(roll, candidates.len())).copied()
    }

    fn best_seen(&self) -> u32 {
        self.open.iter().filter_map(|bucket| self.at_most.get(bucket)).map(|(at_most, _)| *at_most).max().unwrap_or(0)
    }
}

fn all_pages(buckets: u32) -> Vec<PageNo> {
    (0..pages(buckets)).collect()
}

/// A place in a list of `length`, by a random number.
fn index(roll: u32, length: usize) -> usize {
    usize::try_from(roll).unwrap_or(0).checked_rem(length).unwrap_or(0)
}
