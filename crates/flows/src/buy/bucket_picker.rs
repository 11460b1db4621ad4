//! Which bucket to try, and whether any is open, from memory.
//!
//! A running function keeps one page of open buckets for each item and reads it again after a few hundred
//! milliseconds: sooner while the page changes, later while it does not. It also remembers for a second which buckets
//! it found too empty: the page may be stale, and each further attempt would cost a write. While the page is fresh, a
//! refusal costs no call at all.
//!
//! When stock returns, the stream of stock changes opens the bucket on its page, and every running function sees
//! it when it next reads the page. No other broadcast is needed.
//!
//! Thousands of functions read the same pages. Each stays with one copy of them (`store::PageRow`), and the time until
//! its next read is random within limits, so functions that started together do not read together.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use domain::Timestamp;
use domain::availability::{Page, PageNo, pages};
use domain::bucket::BucketNo;
use domain::ids::Offer;
use store::{PageRow, Store, StoreError};

/// How long a page is used at most before it is read again. A restock is seen everywhere after this time plus the
/// stream's delay.
pub const FRESH_FOR_MS: i64 = 700;
/// How long it is used at most after a read that found it changed. Each read that finds it unchanged prolongs that by
/// half, up to `FRESH_FOR_MS`.
pub const CHANGING_FRESH_FOR_MS: i64 = 400;
/// Either time is shortened at random by up to a quarter.
pub const SHORTENED_BY: i64 = 4;
/// How long a bucket that was found too empty is not tried again, unless the page shows that it closed and opened
/// since. A unit that returns to the bucket is seen within this time.
pub const OBSERVED_FOR_MS: i64 = 1_000;
/// How soon after a strong read the pages may be read again because a buyer saw a newer version. A made-up
/// version costs at most one read in this time.
pub const REREAD_AFTER_MS: i64 = 50;
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
    /// Which rows of the pages this function reads; `None`: it has not read any yet.
    row: Option<PageRow>,
    read_at_ms: Option<i64>,
    /// When all pages were last read.
    all_read_at_ms: Option<i64>,
    /// How long a read page is used, before it is shortened at random and after.
    patience_ms: i64,
    fresh_for_ms: i64,
    /// The page in use; `None`: no page had a bucket to try at the last read.
    page: Option<PageNo>,
    /// The open buckets of each page, as they were last read.
    open: BTreeMap<PageNo, BTreeSet<BucketNo>>,
    /// What was seen of open buckets.
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
        if view.page.is_some() && pages(search.buckets) > 1 {
            match view.knows_all_pages(search) {
                true => view.turn_to_one(search),
                false => view.read_all(store, search).await?,
            }
            if let Some(bucket) = view.choose(quantity, random) {
                return Ok(Pick::Bucket(bucket));
            }
        }
        // The buyer has seen something newer than what was observed of the buckets.
        if view.forget_older_than(search.seen_version) {
            view.turn_to_one(search);
            if let Some(bucket) = view.choose(quantity, random) {
                return Ok(Pick::Bucket(bucket));
            }
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

    /// The most units that an open bucket was seen to have.
    pub async fn available(&self, offer: &Offer) -> u32 {
        self.view(offer).lock().await.best_seen()
    }

    /// Remembers that a bucket was seen to have only `free` units. The page is stale: it is read again soon.
    pub async fn observed(&self, offer: &Offer, bucket: BucketNo, free: u32, now: Timestamp) {
        let view = self.view(offer);
        let mut view = view.lock().await;
        view.fresh_for_ms = view.fresh_for_ms.min(CHANGING_FRESH_FOR_MS);
        view.observe(bucket, free, now);
    }

    /// Reads buckets that the known pages list as open, those of the page in use first: up to `calls` times a
    /// hundred. When several in a row turn out to be empty, the page is stale, and trying each of the others would
    /// cost a write.
    pub async fn read_buckets(
        &self,
        store: &Store,
        offer: &Offer,
        now: Timestamp,
        random: u32,
        calls: usize,
    ) -> Result<(), StoreError> {
        let view = self.view(offer);
        let mut view = view.lock().await;
        let most = BUCKETS_READ * calls;
        let mut chosen = view.unobserved(|page| Some(page) == view.page, random, most);
        chosen.extend(view.unobserved(|page| Some(page) != view.page, random, most - chosen.len()));
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
        let read_at_ms = if self.page.is_some() { self.read_at_ms } else { self.all_read_at_ms };
        self.is_within(read_at_ms, search.now, self.fresh_for_ms) && self.buckets == search.buckets
    }

    /// Whether all pages were read so recently that a used up page is no reason to read them again.
    fn knows_all_pages(&self, search: &Search<'_>) -> bool {
        self.is_within(self.all_read_at_ms, search.now, self.fresh_for_ms)
    }

    fn is_within(&self, at_ms: Option<i64>, now: Timestamp, duration_ms: i64) -> bool {
        at_ms.is_some_and(|at_ms| (0..duration_ms).contains(&(now.as_millisecond() - at_ms)))
    }

    /// Whether the buyer has seen a newer version, and the pages were not read for that reason a moment ago.
    fn is_stale(&self, search: &Search<'_>) -> bool {
        let just_read = self.is_within(self.strongly_read_at_ms, search.now, REREAD_AFTER_MS);
        search.seen_version.is_some_and(|seen| seen > self.known_version()) && !just_read
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
        let page = match self.page {
            Some(page) => page,
            // Running functions spread over the pages.
            None if self.read_at_ms.is_none() => search.random.checked_rem(pages(search.buckets)).unwrap_or(0),
            None => return self.read_all(store, search).await,
        };
        let read = self.rows(store, search, &[page], false).await?;
        self.page = Some(page);
        self.note(read, &[page], search);
        Ok(())
    }

    /// Reads all pages and turns to one with an open bucket.
    async fn read_all(&mut self, store: &Store, search: &Search<'_>) -> Result<(), StoreError> {
        let numbers = all_pages(search.buckets);
        let read = self.rows(store, search, &numbers, false).await?;
        self.all_read_at_ms = Some(search.now.as_millisecond());
        self.note(read, &numbers, search);
        self.turn_to_one(search);
        Ok(())
    }

    /// Reads all pages with strong consistency, and forgets earlier observations: they are older than what the
    /// buyer has seen.
    async fn read_all_strongly(&mut self, store: &Store, search: &Search<'_>) -> Result<(), StoreError> {
        let numbers = all_pages(search.buckets);
        let read = self.rows(store, search, &numbers, true).await?;
        self.observed.clear();
        self.strongly_read_at_ms = Some(search.now.as_millisecond());
        self.all_read_at_ms = self.strongly_read_at_ms;
        self.note(read, &numbers, search);
        self.turn_to_one(search);
        Ok(())
    }

    /// Reads this function's copy of these pages; or the pages themselves, where there is no copy yet.
    async fn rows(
        &mut self,
        store: &Store,
        search: &Search<'_>,
        numbers: &[PageNo],
        strongly: bool,
    ) -> Result<HashMap<PageNo, Page>, StoreError> {
        let copy = || match store.page_copies() {
            0 => PageRow::Itself,
            // Other bits than those that choose the page.
            copies => PageRow::Copy(1 + (search.random.wrapping_mul(2_654_435_761) >> 16) % copies),
        };
        let row = *self.row.get_or_insert_with(copy);
        let mut read: HashMap<PageNo, Page> =
            Box::pin(store.page_rows(search.offer, numbers, row, strongly)).await?.into_iter().collect();
        if row != PageRow::Itself {
            let missing: Vec<PageNo> = numbers.iter().filter(|page| !read.contains_key(page)).copied().collect();
            read.extend(Box::pin(store.page_rows(search.offer, &missing, PageRow::Itself, strongly)).await?);
        }
        Ok(read)
    }

    /// Notes what was read of these pages, and decides when to read them again.
    fn note(&mut self, mut read: HashMap<PageNo, Page>, numbers: &[PageNo], search: &Search<'_>) {
        let now_ms = search.now.as_millisecond();
        let known_before = self.known_version();
        for number in numbers {
            let content = read.remove(number).unwrap_or_else(|| Page::assume_open(*number, search.buckets));
            let known = self.versions.entry(*number).or_default();
            *known = content.version.max(*known);
            // Observations stay valid for a while, unless the page shows that the bucket has closed since.
            let on_page = |bucket: &BucketNo| domain::availability::page_of(*bucket) == *number;
            self.observed.retain(|bucket, _| !on_page(bucket) || content.open.contains(bucket));
            self.open.insert(*number, content.open);
        }
        self.observed.retain(|_, seen| (0..OBSERVED_FOR_MS).contains(&(now_ms - seen.at_ms)));
        let is_unchanged = self.read_at_ms.is_some() && self.known_version() == known_before;
        self.patience_ms = match is_unchanged {
            true => (self.patience_ms + self.patience_ms / 2).clamp(CHANGING_FRESH_FOR_MS, FRESH_FOR_MS),
            false => CHANGING_FRESH_FOR_MS,
        };
        let shortest = self.patience_ms / SHORTENED_BY;
        self.fresh_for_ms = self.patience_ms - i64::from(search.random >> 8).checked_rem(shortest).unwrap_or(0);
        self.read_at_ms = Some(now_ms);
        self.buckets = search.buckets;
    }

    /// Turns to one of the known pages with a bucket to try; to none if there is no such page.
    fn turn_to_one(&mut self, search: &Search<'_>) {
        let usable =
            |(_, open): &(&PageNo, &BTreeSet<BucketNo>)| open.iter().any(|b| self.may_have(*b, search.quantity));
        let usable: Vec<PageNo> = self.open.iter().filter(usable).map(|(number, _)| *number).collect();
        self.page = usable.get(index(search.random, usable.len())).copied();
    }

    /// Whether a bucket was not seen to have fewer units.
    fn may_have(&self, bucket: BucketNo, quantity: u32) -> bool {
        self.observed.get(&bucket).is_none_or(|seen| seen.free_at_most >= quantity)
    }

    /// A bucket of the page in use: one that was seen to have the units, or else one of which nothing is known.
    fn choose(&self, quantity: u32, random: u32) -> Option<BucketNo> {
        let open = self.page.and_then(|page| self.open.get(&page))?;
        let candidates: Vec<BucketNo> =
            open.iter().filter(|bucket| self.may_have(**bucket, quantity)).copied().collect();
        let seen: Vec<BucketNo> =
            candidates.iter().filter(|bucket| self.observed.contains_key(bucket)).copied().collect();
        let candidates = if seen.is_empty() { candidates } else { seen };
        candidates.get(index(random, candidates.len())).copied()
    }

    /// Up to `most` open buckets of which nothing is known, from a random one on.
    fn unobserved(&self, of: impl Fn(PageNo) -> bool, random: u32, most: usize) -> Vec<BucketNo> {
        let pages = self.open.iter().filter(|(page, _)| of(**page));
        let open = pages.flat_map(|(_, open)| open).filter(|bucket| !self.observed.contains_key(bucket));
        let open: Vec<BucketNo> = open.copied().collect();
        open.iter().cycle().skip(index(random, open.len())).take(open.len().min(most)).copied().collect()
    }

    fn best_seen(&self) -> u32 {
        let open = self.open.values().flatten().filter_map(|bucket| self.observed.get(bucket));
        open.map(|seen| seen.free_at_most).max().unwrap_or(0)
    }
}

fn all_pages(buckets: u32) -> Vec<PageNo> {
    (0..pages(buckets)).collect()
}

/// A random index into a list of `length`.
fn index(random: u32, length: usize) -> usize {
    usize::try_from(random).unwrap_or(0).checked_rem(length).unwrap_or(0)
}
