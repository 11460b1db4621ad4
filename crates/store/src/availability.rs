//! Pages of open buckets, and their copies.
//!
//! One DynamoDB key allows 3,000 read units per second, and every running function reads a page several times per
//! second. A deployment for thousands of functions therefore has copies of each page, and a function reads one of them.
//!
//! | written | row | read by |
//! |---|---|---|
//! | first | the page itself, under a condition on its version | reconcile, revivals; all, if there are no copies |
//! | then | copies 1 to n, each only if its version is older | presses |
//! | last | copy 0, in the same way | the storefront |
//!
//! Copy 0 is written when all others have its version. So a version that a buyer has seen is in the copy that any
//! function reads, and a function that knows less does not have to read the page itself.
//!
//! | stopped after | left behind | repaired by |
//! |---|---|---|
//! | the page | copies with an older version | the stream's batch comes again; reconcile compares them |
//! | some copies | the others, and copy 0, with an older version | the same |
//! | copy 0 | nothing | |

use std::collections::{BTreeMap, BTreeSet};

use aws_sdk_dynamodb::types::AttributeValue;
use domain::availability::{Page, PageChange, PageNo, copy_key, page_in_key, page_key};
use domain::bucket::BucketNo;
use domain::ids::Offer;
use futures::future::try_join_all;

use crate::rows::{Change, Row, Written, n, s};
use crate::{Store, StoreError};

/// How often a page that changed in between is tried again: every shard of the stock's stream writes to it.
const CAS_ATTEMPTS: u32 = 8;

/// Which row of a page is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageRow {
    /// The page itself.
    Itself,
    /// One of its copies, from 0. Copy 0 is never newer than another one.
    Copy(u32),
}

impl PageRow {
    /// What buyers are shown.
    pub const SHOWN: u32 = 0;

    fn key(self, offer: &Offer, page: PageNo) -> String {
        match self {
            Self::Itself => page_key(offer, page),
            Self::Copy(copy) => copy_key(offer, page, copy),
        }
    }
}

impl Store {
    /// Opens buckets on a page and closes others, and then on its copies. Idempotent.
    pub async fn update_page(&self, offer: &Offer, page: PageNo, change: &PageChange) -> Result<(), StoreError> {
        let mut now = self.open_on_page(offer, page, &change.opened).await?;
        if !change.closed.is_empty() {
            now = Some(Box::pin(self.close_at_any_version(offer, page, &change.closed, now.as_ref())).await?);
        }
        match now {
            Some(now) => Box::pin(self.copy_page(offer, page, &now)).await,
            None => Ok(()),
        }
    }

    async fn close_at_any_version(
        &self,
        offer: &Offer,
        page: PageNo,
        buckets: &BTreeSet<BucketNo>,
        known: Option<&Page>,
    ) -> Result<Page, StoreError> {
        let mut version = match known {
            Some(page) => page.version,
            None => self.pages(offer, &[page]).await?.pop().map_or(0, |(_, page)| page.version),
        };
        for _ in 0..CAS_ATTEMPTS {
            match self.close_on_page(offer, page, buckets, version).await? {
                Closed::Done(now) => return Ok(now),
                Closed::Changed(now) => version = now.version,
            }
        }
        Err(StoreError::Conflict { operation: "turn a page" })
    }

    /// Opens buckets on a page. If it is delayed or wrong, it costs one refused hold. Returns the page as it is now, if
    /// there was something to write.
    pub async fn open_on_page(
        &self,
        offer: &Offer,
        page: PageNo,
        buckets: &BTreeSet<BucketNo>,
    ) -> Result<Option<Page>, StoreError> {
        const OPERATION: &str = "open buckets on a page";
        if buckets.is_empty() {
            return Ok(None);
        }
        let change = self.page_row(offer, page, buckets).update("ADD #open :buckets, #version :one");
        match change.send(OPERATION, &self.dynamodb).await? {
            Written::Done(row) | Written::Refused(Some(row)) => read(OPERATION, &row).map(|(_, page)| Some(page)),
            Written::Refused(None) => Ok(None),
        }
    }

    /// Closes buckets on a page that is at `version` (0: the page is not written yet); otherwise returns the page
    /// as it is now. Without that condition a delayed write would close buckets that have opened since, and their
    /// units would seem sold out until reconcile corrects the page.
    pub async fn close_on_page(
        &self,
        offer: &Offer,
        page: PageNo,
        buckets: &BTreeSet<BucketNo>,
        version: u64,
    ) -> Result<Closed, StoreError> {
        const OPERATION: &str = "close buckets on a page";
        let change = self.page_row(offer, page, buckets).update("DELETE #open :buckets").update("ADD #version :one");
        let change = match version {
            0 => change.only_if("attribute_not_exists(#version)"),
            version => change.only_if("#version = :version").value(":version", n(version)),
        };
        match change.send(OPERATION, &self.dynamodb).await? {
            Written::Done(row) => Ok(Closed::Done(read(OPERATION, &row)?.1)),
            Written::Refused(None) => Ok(Closed::Changed(Page::default())),
            Written::Refused(Some(row)) => Ok(Closed::Changed(read(OPERATION, &row)?.1)),
        }
    }

    fn page_row(&self, offer: &Offer, page: PageNo, buckets: &BTreeSet<BucketNo>) -> Change {
        Change::of(&self.names.availability, [("page", s(page_key(offer, page)))])
            .name("#open", "open")
            .name("#version", "version")
            .value(":buckets", number_set(buckets))
            .value(":one", n(1))
    }

    /// Writes a page, as it was read or written, to its copies. A copy that is newer stays as it is.
    pub async fn copy_page(&self, offer: &Offer, number: PageNo, page: &Page) -> Result<(), StoreError> {
        if self.names.page_copies == 0 {
            return Ok(());
        }
        try_join_all((1..=self.names.page_copies).map(|copy| self.write_copy(offer, number, copy, page))).await?;
        self.write_copy(offer, number, PageRow::SHOWN, page).await
    }

    async fn write_copy(&self, offer: &Offer, number: PageNo, copy: u32, page: &Page) -> Result<(), StoreError> {
        let change = Change::of(&self.names.availability, [("page", s(copy_key(offer, number, copy)))])
            .name("#open", "open")
            .name("#version", "version")
            .value(":version", n(page.version))
            .update("SET #version = :version")
            .only_if("attribute_not_exists(#version) OR #version < :version");
        let change = match page.open.is_empty() {
            true => change.update("REMOVE #open"),
            false => change.update("SET #open = :open").value(":open", number_set(&page.open)),
        };
        change.send("copy a page", &self.dynamodb).await.map(|_| ())
    }

    /// Writes a page to its copies if one of them is missing or older. Returns whether it was so.
    pub async fn correct_copies(&self, offer: &Offer, number: PageNo, page: &Page) -> Result<bool, StoreError> {
        const OPERATION: &str = "read copies of a page";
        if self.names.page_copies == 0 {
            return Ok(false);
        }
        let copies = PageRow::SHOWN..=self.names.page_copies;
        let keys = copies.clone().map(|copy| key(PageRow::Copy(copy), offer, number)).collect();
        let rows = self.read_many(OPERATION, &self.names.availability, keys, false).await?;
        let rows = rows.iter().map(|row| read(OPERATION, row)).collect::<Result<Vec<_>, _>>()?;
        let is_behind = rows.len() < copies.count() || rows.iter().any(|(_, copy)| copy.version < page.version);
        if is_behind {
            Box::pin(self.copy_page(offer, number, page)).await?;
        }
        Ok(is_behind)
    }

    /// Reads up to 100 pages in one call. A page that the stream has not written yet is left out.
    pub async fn pages(&self, offer: &Offer, pages: &[PageNo]) -> Result<Vec<(PageNo, Page)>, StoreError> {
        self.page_rows(offer, pages, PageRow::Itself, false).await
    }

    /// Pages as buyers are shown them. A page of which there is no copy yet has no version: it is not known which
    /// functions have it.
    pub async fn shown_pages(&self, offer: &Offer, pages: &[PageNo]) -> Result<Vec<(PageNo, Page)>, StoreError> {
        if self.names.page_copies == 0 {
            return self.pages(offer, pages).await;
        }
        let shown = self.page_rows(offer, pages, PageRow::Copy(PageRow::SHOWN), false).await?;
        let mut shown: BTreeMap<PageNo, Page> = shown.into_iter().collect();
        let missing: Vec<PageNo> = pages.iter().filter(|page| !shown.contains_key(page)).copied().collect();
        if !missing.is_empty() {
            let read = self.pages(offer, &missing).await?;
            shown.extend(read.into_iter().map(|(number, page)| (number, Page { version: 0, ..page })));
        }
        Ok(shown.into_iter().collect())
    }

    /// Reads one row of each of these pages, strongly consistent or not: that costs twice as much, and includes
    /// everything that was written before. A row that does not exist is left out.
    pub async fn page_rows(
        &self,
        offer: &Offer,
        pages: &[PageNo],
        which: PageRow,
        strongly: bool,
    ) -> Result<Vec<(PageNo, Page)>, StoreError> {
        const OPERATION: &str = "read pages";
        let rows = match pages {
            [] => Vec::new(),
            [page] => {
                let output = self
                    .dynamodb
                    .get_item()
                    .table_name(&self.names.availability)
                    .set_key(Some(key(which, offer, *page)))
                    .consistent_read(strongly)
                    .send()
                    .await
                    .map_err(|error| StoreError::of(OPERATION, &error))?;
                output.item.into_iter().collect()
            }
            pages => {
                let keys = pages.iter().map(|page| key(which, offer, *page)).collect();
                self.read_many(OPERATION, &self.names.availability, keys, strongly).await?
            }
        };
        rows.iter().map(|row| read(OPERATION, row)).collect()
    }
}

/// The result of closing buckets on a page at a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Closed {
    /// They are closed; the page as it is now.
    Done(Page),
    /// The page has changed in between, and stays as it is.
    Changed(Page),
}

fn key(which: PageRow, offer: &Offer, page: PageNo) -> Row {
    Row::from([("page".to_owned(), s(which.key(offer, page)))])
}

fn number_set(buckets: &BTreeSet<BucketNo>) -> AttributeValue {
    AttributeValue::Ns(buckets.iter().map(ToString::to_string).collect())
}

fn read(operation: &'static str, row: &Row) -> Result<(PageNo, Page), StoreError> {
    read_page(row).ok_or_else(|| StoreError::unreadable_row(operation, "a page"))
}

fn read_page(row: &Row) -> Option<(PageNo, Page)> {
    let number = page_in_key(row.get("page")?.as_s().ok()?)?;
    let version = row.get("version")?.as_n().ok()?.parse().ok()?;
    // DynamoDB has no empty sets: a page without the attribute has no open bucket.
    let open = match row.get("open") {
        None => BTreeSet::new(),
        Some(open) => open.as_ns().ok()?.iter().map(|bucket| bucket.parse().ok()).collect::<Option<_>>()?,
    };
    Some((number, Page { open, version }))
}
