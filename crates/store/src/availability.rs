//! Pages of open buckets.

use std::collections::BTreeSet;

use aws_sdk_dynamodb::types::AttributeValue;
use domain::availability::{Page, PageChange, PageNo, page_key};
use domain::bucket::BucketNo;
use domain::ids::Offer;

use crate::rows::{Row, n, s};
use crate::{Store, StoreError};

impl Store {
    /// Puts buckets on a page and takes others off. Sets make it safe to repeat.
    pub async fn turn_page(&self, offer: &Offer, page: PageNo, change: &PageChange) -> Result<(), StoreError> {
        // One expression cannot both add to and delete from a set.
        for (action, buckets) in [("ADD", &change.opened), ("DELETE", &change.closed)] {
            if buckets.is_empty() {
                continue;
            }
            let expression = match action {
                "ADD" => "ADD #open :buckets, #version :one",
                _ => "DELETE #open :buckets ADD #version :one",
            };
            self.dynamodb
                .update_item()
                .table_name(&self.names.availability)
                .key("page", s(page_key(offer, page)))
                .update_expression(expression)
                .expression_attribute_names("#open", "open")
                .expression_attribute_names("#version", "version")
                .expression_attribute_values(":buckets", number_set(buckets))
                .expression_attribute_values(":one", n(1))
                .send()
                .await
                .map_err(|error| StoreError::of("turn a page", &error))?;
        }
        Ok(())
    }

    /// Reads pages in one call (of up to 100). A page that the stream has not told of yet is left out.
    pub async fn pages(&self, offer: &Offer, pages: &[PageNo]) -> Result<Vec<(PageNo, Page)>, StoreError> {
        const OPERATION: &str = "read pages";
        let key = |page: &PageNo| Row::from([("page".to_owned(), s(page_key(offer, *page)))]);
        let rows = match pages {
            [page] => {
                let output = self
                    .dynamodb
                    .get_item()
                    .table_name(&self.names.availability)
                    .set_key(Some(key(page)))
                    .send()
                    .await
                    .map_err(|error| StoreError::of(OPERATION, &error))?;
                output.item.into_iter().collect()
            }
            pages => {
                self.read_many(OPERATION, &self.names.availability, pages.iter().map(key).collect(), false).await?
            }
        };
        rows.into_iter().map(|row| read_page(&row).ok_or_else(|| StoreError::unreadable(OPERATION, "a page"))).collect()
    }
}

fn number_set(buckets: &BTreeSet<BucketNo>) -> AttributeValue {
    AttributeValue::Ns(buckets.iter().map(ToString::to_string).collect())
}

fn read_page(row: &Row) -> Option<(PageNo, Page)> {
    let number = row.get("page")?.as_s().ok()?.rsplit('#').next()?.parse().ok()?;
    let version = row.get("version")?.as_n().ok()?.parse().ok()?;
    // An empty set does not exist: a page without one has nothing open.
    let open = match row.get("open") {
        None => BTreeSet::new(),
        Some(open) => open.as_ns().ok()?.iter().map(|bucket| bucket.parse().ok()).collect::<Option<_>>()?,
    };
    Some((number, Page { open, version }))
}
