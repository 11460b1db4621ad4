//! Pages of open buckets.

use std::collections::BTreeSet;

use aws_sdk_dynamodb::types::AttributeValue;
use domain::availability::{Page, PageChange, PageNo, page_key};
use domain::bucket::BucketNo;
use domain::ids::Offer;

use crate::rows::{Change, Row, Written, n, s};
use crate::{Store, StoreError};

/// How often a page that changed in between is tried again: every shard of the stock's stream writes to it.
const CAS_ATTEMPTS: u32 = 8;

impl Store {
    /// Opens buckets on a page and closes others. Idempotent.
    pub async fn update_page(&self, offer: &Offer, page: PageNo, change: &PageChange) -> Result<(), StoreError> {
        self.open_on_page(offer, page, &change.opened).await?;
        if change.closed.is_empty() {
            return Ok(());
        }
        let mut version = self.pages(offer, &[page]).await?.pop().map_or(0, |(_, page)| page.version);
        for _ in 0..CAS_ATTEMPTS {
            match self.close_on_page(offer, page, &change.closed, version).await? {
                None => return Ok(()),
                Some(now) => version = now.version,
            }
        }
        Err(StoreError::Conflict { operation: "turn a page" })
    }

    /// Opens buckets on a page. If it is delayed or wrong, it costs one refused hold.
    pub async fn open_on_page(
        &self,
        offer: &Offer,
        page: PageNo,
        buckets: &BTreeSet<BucketNo>,
    ) -> Result<(), StoreError> {
        if buckets.is_empty() {
            return Ok(());
        }
        let change = self.page_row(offer, page, buckets).update("ADD #open :buckets, #version :one");
        change.send("open buckets on a page", &self.dynamodb).await.map(|_| ())
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
    ) -> Result<Option<Page>, StoreError> {
        const OPERATION: &str = "close buckets on a page";
        let change = self.page_row(offer, page, buckets).update("DELETE #open :buckets").update("ADD #version :one");
        let change = match version {
            0 => change.only_if("attribute_not_exists(#version)"),
            version => change.only_if("#version = :version").value(":version", n(version)),
        };
        match change.send(OPERATION, &self.dynamodb).await? {
            Written::Done(_) => Ok(None),
            Written::Refused(None) => Ok(Some(Page::default())),
            Written::Refused(Some(row)) => match read_page(&row) {
                Some((_, now)) => Ok(Some(now)),
                None => Err(StoreError::unreadable_row(OPERATION, "a page")),
            },
        }
    }

    fn page_row(&self, offer: &Offer, page: PageNo, buckets: &BTreeSet<BucketNo>) -> Change {
        Change::of(&self.names.availability, [("page", s(page_key(offer, page)))])
            .name("#open", "open")
            .name("#version", "version")
            .value(":buckets", number_set(buckets))
            .value(":one", n(1))
    }

    /// Reads up to 100 pages in one call. A page that the stream has not written yet is left out.
    pub async fn pages(&self, offer: &Offer, pages: &[PageNo]) -> Result<Vec<(PageNo, Page)>, StoreError> {
        self.read_pages(offer, pages, false).await
    }

    /// The same by a strongly consistent read, which costs twice as much: it includes everything that a buyer can
    /// have seen.
    pub async fn pages_consistently(&self, offer: &Offer, pages: &[PageNo]) -> Result<Vec<(PageNo, Page)>, StoreError> {
        self.read_pages(offer, pages, true).await
    }

    async fn read_pages(
        &self,
        offer: &Offer,
        pages: &[PageNo],
        strongly: bool,
    ) -> Result<Vec<(PageNo, Page)>, StoreError> {
        const OPERATION: &str = "read pages";
        let key = |page: &PageNo| Row::from([("page".to_owned(), s(page_key(offer, *page)))]);
        let rows = match pages {
            [page] => {
                let output = self
                    .dynamodb
                    .get_item()
                    .table_name(&self.names.availability)
                    .set_key(Some(key(page)))
                    .consistent_read(strongly)
                    .send()
                    .await
                    .map_err(|error| StoreError::of(OPERATION, &error))?;
                output.item.into_iter().collect()
            }
            pages => {
                self.read_many(OPERATION, &self.names.availability, pages.iter().map(key).collect(), strongly).await?
            }
        };
        rows.into_iter()
            .map(|row| read_page(&row).ok_or_else(|| StoreError::unreadable_row(OPERATION, "a page")))
            .collect()
    }
}

fn number_set(buckets: &BTreeSet<BucketNo>) -> AttributeValue {
    AttributeValue::Ns(buckets.iter().map(ToString::to_string).collect())
}

fn read_page(row: &Row) -> Option<(PageNo, Page)> {
    let number = row.get("page")?.as_s().ok()?.rsplit('#').next()?.parse().ok()?;
    let version = row.get("version")?.as_n().ok()?.parse().ok()?;
    // DynamoDB has no empty sets: a page without the attribute has no open bucket.
    let open = match row.get("open") {
        None => BTreeSet::new(),
        Some(open) => open.as_ns().ok()?.iter().map(|bucket| bucket.parse().ok()).collect::<Option<_>>()?,
    };
    Some((number, Page { open, version }))
}
