//! Which bucket to try, and whether any is open, from memory.
//!
//! A running function keeps one page of open buckets for each item and reads it again after a few hundred
//! milliseconds. It also remembers for a second which buckets it found too empty: the page may be stale, and each
//! further attempt would cost a write. While the page is fresh, a refusal costs no call at all.
//!
//! When stock returns, the stream of stock changes opens the bucket on its page, and every running function sees
//! it when it next reads the page. No other broadcast is needed.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use domain::Timestamp;
use domain::availability::{Page, PageNo, pages};
use domain::bucket::BucketNo;
use domain::ids::Offer;
use store::{Store, StoreError};

/// How long a page is used before it is read again. A restock is seen everywhere after this time plus the
/// stream's delay.
pub const FRESH_FOR_MS: i64 = 300;
/// How long a bucket that was found too empty is not tried again, unless the page shows that it closed and opened
/// since. A unit that returns to the bucket is seen within this time.
const OBSERVED_FOR_MS: i64 = 1_000;
/// How soon after a strong read the pages may be read again because a buyer saw a newer version. A made-up
/// version costs at most one read in this time.
const REREAD_AFTER_MS: i64 = 50;
/// Buckets read by one request: the most that DynamoDB allows.
const BUCKETS_READ: usize = 100;
/// Cached items; a sale has at most 40.
const CAPACITY: usize = 1_000;

/// What a press should try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pick {
    /// Try this bucket.
    Bucket(BucketNo),
    /// No bucket is open for this quantity. A smaller quantity may get `available`, the most units that a bucket
    /// was seen to have.
    Nothing { available: u32 },
}

/// What a press looks for.
#[derive(Clone, Copy, Debug)]
pub struct Search<'a> {
    pub offer: &'a Offer,
    /// How many buckets the item has.
    pub buckets: u32,
    pub quantity: u32,
    /// The `availabilityVersion` that the buyer saw when pressing. A function that knows an older version reads
    /// the pages again before it refuses.
    pub seen_version: Option<u64>,
    pub now: Timestamp,
    /// Random bits, so that running functions spread over pages and buckets.
    pub random: u32,
}

/// The picker of one running function.
#[derive(Debug, Default)]
pub struct BucketPicker {
    items: Mutex<HashMap<Offer, Arc<tokio::sync::Mutex<View>>>>,
}

/// What is known of one item.
#[derive(Debug, Default)]
struct View {
    read_at_ms: Option<i64>,
    /// The page in use; `None`: no bucket was open at the last read.
    page: Option<PageNo>,
    open: BTreeSet<BucketNo>,
    /// What was seen of buckets of the page.
    observed: HashMap<BucketNo, Observation>,
    /// How many buckets the item had at the last read: a restock adds some.
    buckets: u32,
    /// The newest version that was read of each page.
    versions: BTreeMap<PageNo, u64>,
    /// When all pages were last read with strong consistency.
    strongly_read_at_ms: Option<i64>,
}

/// A bucket was seen to have at most so many units.
#[derive(Clone, Copy, Debug)]
struct Observation {
    free_at_most: u32,
    at_ms: i64,
    /// The availability version that was known then: it may be older than what a buyer has seen.
    version: u64,
}

impl BucketPicker {
    /// A bucket to try.
    pub async fn pick(&self, store: &Store, search: &Search<'_>) -> Result<Pick, StoreError> {
        let view = self.view(search.offer);
        // Held while reading, so that concurrent presses share one read.
        let mut view = view.lock().await;
        let Search { quantity, random, .. } = *search;
        if !view.is_fresh(search) {
            view.read(store, search).await?;
        }
        if let Some(bucket) = view.choose(quantity, random) {
            return Ok(Pick::Bucket(bucket));
        }
        // This page is used up: look for another one before giving up.
        if pages(search.buckets) > 1 && view.page.is_some() {
            view.read_all(store, search).await?;
            if let Some(bucket) = view.choose(quantity, random) {
                return Ok(Pick::Bucket(bucket));
            }
        }
        // The buyer has seen something newer than what was observed of the buckets.
        if view.forget_older_than(search.seen_version)
            && let Some(bucket) = view.choose(quantity, random)
        {
            return Ok(Pick::Bucket(bucket));
        }
        // The buyer has seen something newer than this function knows.
        if view.is_stale(search) {
            view.read_all_strongly(store, search).await?;
            if let Some(bucket) = view.choose(quantity, random) {
                return Ok(Pick::Bucket(bucket));
            }
        }
        Ok(Pick::Nothing { available: view.best_seen() })
    }

    /// The most units that a bucket of the page in use was seen to have.
    pub async fn available(&self, offer: &Offer) -> u32 {
        self.view(offer).lock().await.best_seen()
    }

    /// Remembers that a bucket was seen to have only `free` units.
    pub async fn observed(&self, offer: &Offer, bucket: BucketNo, free: u32, now: Timestamp) {
        let view = self.view(offer);
        view.lock().await.observe(bucket, free, now);
    }

    /// Reads up to a hundred buckets that the page lists as open, in one request. When several in a row turn out
    /// to be empty, the page is stale, and trying each of the others would cost a write.
    pub async fn read_buckets(
        &self,
        store: &Store,
        offer: &Offer,
        now: Timestamp,
        random: u32,
    ) -> Result<(), StoreError> {
        let view = self.view(offer);
        let mut view = view.lock().await;
        let unknown: Vec<BucketNo> =
            view.open.iter().filter(|bucket| !view.observed.contains_key(bucket)).copied().collect();
        let first = index(random, unknown.len());
        let chosen: Vec<BucketNo> =
            unknown.iter().cycle().skip(first).take(unknown.len().min(BUCKETS_READ)).copied().collect();
        if chosen.is_empty() {
            return Ok(());
        }
        for (bucket, content) in store.recent_buckets(offer, chosen).await? {
            view.observe(bucket, content.free, now);
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

    /// Whether the buyer has seen a newer version, and the pages were not read for that reason a moment ago.
    fn is_stale(&self, search: &Search<'_>) -> bool {
        let now_ms = search.now.as_millisecond();
        let just_read = |at_ms| (0..REREAD_AFTER_MS).contains(&(now_ms - at_ms));
        search.seen_version.is_some_and(|seen| seen > self.known_version())
            && !self.strongly_read_at_ms.is_some_and(just_read)
    }

    /// The version of the item's availability that this function knows.
    fn known_version(&self) -> u64 {
        self.versions.values().sum()
    }

    fn observe(&mut self, bucket: BucketNo, free: u32, now: Timestamp) {
        let seen = Observation { free_at_most: free, at_ms: now.as_millisecond(), version: self.known_version() };
        self.observed.insert(bucket, seen);
    }

    /// Forgets what was observed before the version that a buyer has seen: a bucket may have closed and opened since,
    /// between two reads of the page. A version that this function does not know may be made up, and forgets nothing.
    /// Returns whether something was forgotten.
    fn forget_older_than(&mut self, seen_version: Option<u64>) -> bool {
        let known = self.known_version();
        let Some(seen) = seen_version.filter(|seen| *seen <= known) else { return false };
        let before = self.observed.len();
        self.observed.retain(|_, observation| observation.version >= seen);
        self.observed.len() < before
    }

    /// Reads the page in use again, or all pages if none is in use.
    async fn read(&mut self, store: &Store, search: &Search<'_>) -> Result<(), StoreError> {
        let first = self.read_at_ms.is_none();
        let page = match self.page {
            Some(page) => page,
            // Running functions spread over the pages.
            None if first => search.random.checked_rem(pages(search.buckets)).unwrap_or(0),
            None => return self.read_all(store, search).await,
        };
        let read = store.pages(search.offer, &[page]).await?.pop();
        let content = read.map_or_else(|| Page::assume_open(page, search.buckets), |(_, content)| content);
        self.note_version(page, &content);
        self.turn_to(Some((page, content)), search);
        Ok(())
    }

    /// Reads all pages and turns to one with an open bucket.
    async fn read_all(&mut self, store: &Store, search: &Search<'_>) -> Result<(), StoreError> {
        let read = store.pages(search.offer, &all_pages(search.buckets)).await?;
        self.turn_to_one_of(read, search);
        Ok(())
    }

    /// Reads all pages with strong consistency, and forgets earlier observations: they are older than what the
    /// buyer has seen.
    async fn read_all_strongly(&mut self, store: &Store, search: &Search<'_>) -> Result<(), StoreError> {
        let read = store.pages_consistently(search.offer, &all_pages(search.buckets)).await?;
        self.observed.clear();
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
            if !content.open.is_empty() && !self.is_used_up(&content, search.quantity) {
                open.push((page, content));
            }
        }
        let chosen = match open.len() {
            0 => None,
            count => Some(open.swap_remove(index(search.random, count))),
        };
        self.turn_to(chosen, search);
    }

    /// Whether every open bucket of a page was seen to have too few units.
    fn is_used_up(&self, page: &Page, quantity: u32) -> bool {
        let is_short = |bucket: &BucketNo| self.observed.get(bucket).is_some_and(|seen| seen.free_at_most < quantity);
        page.open.iter().all(is_short)
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
        // Observations on the same page stay valid for a while, unless the page shows that the bucket has closed since.
        let keep = number == self.page;
        self.observed.retain(|bucket, seen| {
            keep && content.open.contains(bucket) && (0..OBSERVED_FOR_MS).contains(&(now_ms - seen.at_ms))
        });
        (self.page, self.open) = (number, content.open);
    }

    fn choose(&self, quantity: u32, random: u32) -> Option<BucketNo> {
        let has = |bucket: &&BucketNo| self.observed.get(bucket).is_none_or(|seen| seen.free_at_most >= quantity);
        let candidates: Vec<BucketNo> = self.open.iter().filter(has).copied().collect();
        candidates.get(index(random, candidates.len())).copied()
    }

    fn best_seen(&self) -> u32 {
        self.open.iter().filter_map(|bucket| self.observed.get(bucket)).map(|seen| seen.free_at_most).max().unwrap_or(0)
    }
}

fn all_pages(buckets: u32) -> Vec<PageNo> {
    (0..pages(buckets)).collect()
}

/// A random index into a list of `length`.
fn index(random: u32, length: usize) -> usize {
    usize::try_from(random).unwrap_or(0).checked_rem(length).unwrap_or(0)
}
