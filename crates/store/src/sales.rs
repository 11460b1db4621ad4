//! Sales and their items: one partition per sale.

use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::types::{Delete, Put, TransactWriteItem};
use domain::bucket::Segment;
use domain::ids::{ItemId, Offer, SaleId};
use domain::sale::{Item, Sale, SaleState, SaleWithItems};

use crate::retention::SETTLED;
use crate::rows::{Row, Rows, UnreadableRow, Written, attribute, n, read_row, row, s, text, update};
use crate::{Store, StoreError};

pub(crate) const SALE: &str = "SALE";
const ITEM: &str = "ITEM#";
/// The one value of `watch`, which puts a sale into the index of watched sales: those that reconcile walks.
const WATCHED: &str = "1";

/// Pages of 1 MB that are read for a list: about a thousand sales each.
const SALE_PAGES: u32 = 10;

/// The result of a write to a sale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SaleWrite {
    Done,
    /// Another operator changed it in between: read it again.
    Changed,
}

/// The rows of a sale that this release can read, and the others by name.
#[derive(Clone, Debug, Default)]
pub struct SaleRows {
    /// `None`: there is no such sale, or its own row cannot be read.
    pub sale: Option<Sale>,
    pub items: Rows<Item>,
}

impl Store {
    /// Writes a sale and its items in one transaction: a new sale if `sale.version` is 1, else over the previous
    /// version. Deletes the items in `removed`. Only for sales whose stock is not laid out.
    pub async fn put_sale(&self, sale: &Sale, items: &[Item], removed: &[ItemId]) -> Result<SaleWrite, StoreError> {
        const OPERATION: &str = "write a sale";
        let invalid = |error: aws_sdk_dynamodb::error::BuildError| StoreError::unreadable(OPERATION, error);
        let table = &self.names.sales;
        let put_sale = Put::builder().table_name(table).set_item(Some(row(OPERATION, sale)?)).item("part", s(SALE));
        let put_sale = match sale.version {
            1 => put_sale.condition_expression("attribute_not_exists(sale)"),
            version => put_sale
                .condition_expression("#version = :before AND #state = :draft")
                .expression_attribute_names("#version", "version")
                .expression_attribute_names("#state", "state")
                .expression_attribute_values(":before", n(version - 1))
                .expression_attribute_values(":draft", attribute(OPERATION, &SaleState::Draft)?),
        };
        let mut writes = vec![TransactWriteItem::builder().put(put_sale.build().map_err(invalid)?).build()];
        for item in items {
            let put = Put::builder()
                .table_name(table)
                .set_item(Some(row(OPERATION, item)?))
                .item("sale", s(&sale.id))
                .item("part", s(item_part(&item.id)));
            writes.push(TransactWriteItem::builder().put(put.build().map_err(invalid)?).build());
        }
        for item in removed {
            let delete = Delete::builder().table_name(table).key("sale", s(&sale.id)).key("part", s(item_part(item)));
            writes.push(TransactWriteItem::builder().delete(delete.build().map_err(invalid)?).build());
        }
        match self.dynamodb.transact_write_items().set_transact_items(Some(writes)).send().await {
            Ok(_) => Ok(SaleWrite::Done),
            Err(SdkError::ServiceError(error)) if condition_failed(error.err()) => Ok(SaleWrite::Changed),
            Err(SdkError::ServiceError(error)) if error.err().is_transaction_canceled_exception() => {
                Err(StoreError::Conflict { operation: OPERATION })
            }
            Err(error) => Err(StoreError::of(OPERATION, &error)),
        }
    }

    /// Writes a sale's own row over the previous version, in any state; its items stay.
    pub async fn put_sale_row(&self, sale: &Sale, watch: bool) -> Result<SaleWrite, StoreError> {
        const OPERATION: &str = "change a sale";
        let mut request = self
            .dynamodb
            .put_item()
            .table_name(&self.names.sales)
            .set_item(Some(row(OPERATION, sale)?))
            .item("part", s(SALE))
            .condition_expression("#version = :before")
            .expression_attribute_names("#version", "version")
            .expression_attribute_values(":before", n(sale.version.saturating_sub(1)));
        if watch {
            request = request.item("watch", s(WATCHED));
        }
        Ok(match crate::rows::put(OPERATION, request).await? {
            Written::Done(_) => SaleWrite::Done,
            Written::Refused(_) => SaleWrite::Changed,
        })
    }

    pub async fn rename_item(&self, offer: &Offer, name: &str) -> Result<(), StoreError> {
        let request = self
            .item_row(offer)
            .update_expression("SET #name = :name")
            .condition_expression("attribute_exists(sale)")
            .expression_attribute_names("#name", "name")
            .expression_attribute_values(":name", s(name));
        update("rename an item", request).await.map(|_| ())
    }

    /// A sale with its items, read consistently.
    pub async fn sale(&self, sale: &SaleId) -> Result<Option<SaleWithItems>, StoreError> {
        self.query_sale(sale, true).await
    }

    /// The same by an eventually consistent read, for half the price.
    pub async fn recent_sale(&self, sale: &SaleId) -> Result<Option<SaleWithItems>, StoreError> {
        self.query_sale(sale, false).await
    }

    /// A sale with its items, read consistently, each row on its own: an item that cannot be read does not hide the
    /// others.
    pub async fn readable_sale(&self, sale: &SaleId) -> Result<SaleRows, StoreError> {
        const OPERATION: &str = "read a sale";
        let mut found = SaleRows::default();
        for row in self.sale_rows(OPERATION, sale, true).await? {
            let name = format!("{} of sale {sale}", text(&row, "part"));
            match text(&row, "part") {
                SALE => match read_row(OPERATION, row) {
                    Ok(row) => found.sale = Some(row),
                    Err(error) => found.items.unreadable.push(UnreadableRow::new(name, &error)),
                },
                _ => found.items.add(name, read_row(OPERATION, row)),
            }
        }
        Ok(found)
    }

    async fn sale_rows(
        &self,
        operation: &'static str,
        sale: &SaleId,
        consistent: bool,
    ) -> Result<Vec<Row>, StoreError> {
        let output = self
            .dynamodb
            .query()
            .table_name(&self.names.sales)
            .key_condition_expression("sale = :sale")
            .expression_attribute_values(":sale", s(sale))
            .consistent_read(consistent)
            .send()
            .await
            .map_err(|error| StoreError::of(operation, &error))?;
        Ok(output.items.unwrap_or_default())
    }

    async fn query_sale(&self, sale: &SaleId, consistent: bool) -> Result<Option<SaleWithItems>, StoreError> {
        const OPERATION: &str = "read a sale";
        let mut found = None;
        let mut items = std::collections::BTreeMap::new();
        for row in self.sale_rows(OPERATION, sale, consistent).await? {
            match row.get("part").and_then(|part| part.as_s().ok()).map(String::as_str) {
                Some(SALE) => found = Some(read_row::<Sale>(OPERATION, row)?),
                Some(_) => {
                    let item: Item = read_row(OPERATION, row)?;
                    items.insert(item.id.clone(), item);
                }
                None => return Err(StoreError::unreadable_row(OPERATION, "a row without a part")),
            }
        }
        Ok(found.map(|sale| SaleWithItems { sale, items }))
    }

    /// All sales, the newest first, at most `most`, and whether there are more. An operator asks this rarely and
    /// there are hundreds of sales, so no index is kept for it.
    pub async fn all_sales(&self, most: usize) -> Result<(Vec<SaleWithItems>, bool), StoreError> {
        const OPERATION: &str = "list all sales";
        let mut sales: std::collections::BTreeMap<SaleId, Sale> = std::collections::BTreeMap::new();
        let mut items: Vec<(SaleId, Item)> = Vec::new();
        let mut after = None;
        let mut left_over = true;
        for _ in 0..SALE_PAGES {
            let output = self
                .dynamodb
                .scan()
                .table_name(&self.names.sales)
                .set_exclusive_start_key(after.take())
                .send()
                .await
                .map_err(|error| StoreError::of(OPERATION, &error))?;
            for row in output.items.unwrap_or_default() {
                let text = |name: &str| row.get(name).and_then(|value| value.as_s().ok()).cloned();
                match (text("part").as_deref(), text("sale").and_then(|id| SaleId::parse(id).ok())) {
                    (Some(SALE), Some(id)) => drop(sales.insert(id, read_row(OPERATION, row)?)),
                    (Some(_), Some(id)) => items.push((id, read_row(OPERATION, row)?)),
                    _ => return Err(StoreError::unreadable_row(OPERATION, "a row without a part")),
                }
            }
            after = output.last_evaluated_key;
            if after.is_none() {
                left_over = false;
                break;
            }
        }
        // An id starts with the time at which it was made.
        let more = left_over || sales.len() > most;
        let newest = sales.into_values().rev().take(most);
        let mut found: Vec<SaleWithItems> =
            newest.map(|sale| SaleWithItems { sale, items: Default::default() }).collect();
        for (id, item) in items {
            if let Some(sale) = found.iter_mut().find(|found| found.sale.id == id) {
                sale.items.insert(item.id.clone(), item);
            }
        }
        Ok((found, more))
    }

    /// The watched sales, by their start. At most one page of 1 MB: thousands of sales.
    pub async fn watched_sales(&self) -> Result<Vec<SaleId>, StoreError> {
        const OPERATION: &str = "list sales";
        let output = self
            .dynamodb
            .query()
            .table_name(&self.names.sales)
            .index_name("watched")
            .key_condition_expression("watch = :watched")
            .expression_attribute_values(":watched", s(WATCHED))
            .send()
            .await
            .map_err(|error| StoreError::of(OPERATION, &error))?;
        let id = |row: Row| SaleId::parse(row.get("sale")?.as_s().ok()?).ok();
        Ok(output.items.unwrap_or_default().into_iter().filter_map(id).collect())
    }

    /// Stops watching a sale, if it is still at this version. Where orders are kept for a limited time, it joins the
    /// settled sales instead.
    pub async fn unwatch_sale(&self, sale: &Sale) -> Result<SaleWrite, StoreError> {
        let request = self
            .dynamodb
            .update_item()
            .table_name(&self.names.sales)
            .key("sale", s(&sale.id))
            .key("part", s(SALE))
            .condition_expression("#version = :version")
            .expression_attribute_names("#version", "version")
            .expression_attribute_values(":version", n(sale.version));
        let request = match self.names.retention_days {
            None => request.update_expression("REMOVE watch"),
            Some(_) => {
                request.update_expression("SET watch = :settled").expression_attribute_values(":settled", s(SETTLED))
            }
        };
        sale_write(update("watch a sale no more", request).await?)
    }

    /// Adds a segment to the layout of an item that was read as `item`, if its number of segments, its stock and
    /// its limit per buyer have not changed since. The buckets are laid out afterwards, by any flow that finds
    /// them missing.
    pub async fn extend_layout(&self, offer: &Offer, item: &Item, segment: &Segment) -> Result<SaleWrite, StoreError> {
        const OPERATION: &str = "extend a layout";
        let request = self
            .item_row(offer)
            .update_expression("SET #layout = list_append(#layout, :segment)")
            .condition_expression("size(#layout) = :segments AND stock = :stock AND limitPerBuyer = :limit")
            .expression_attribute_names("#layout", "layout")
            .expression_attribute_values(":segment", attribute(OPERATION, &[segment])?)
            .expression_attribute_values(":segments", n(item.layout.0.len()))
            .expression_attribute_values(":stock", n(item.stock))
            .expression_attribute_values(":limit", n(item.limit_per_buyer));
        sale_write(update(OPERATION, request).await?)
    }

    /// Records how many buckets, from the first on, are known to be laid out. It only grows.
    pub async fn record_laid_out(&self, offer: &Offer, buckets: u32) -> Result<(), StoreError> {
        let request = self
            .item_row(offer)
            .update_expression("SET laidOut = :buckets")
            .condition_expression("laidOut < :buckets")
            .expression_attribute_values(":buckets", n(buckets));
        update("note what is laid out", request).await.map(|_| ())
    }

    fn item_row(&self, offer: &Offer) -> aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder {
        self.dynamodb
            .update_item()
            .table_name(&self.names.sales)
            .key("sale", s(&offer.sale))
            .key("part", s(item_part(&offer.item)))
    }
}

fn item_part(item: &ItemId) -> String {
    format!("{ITEM}{item}")
}

pub(crate) fn sale_write(written: Written) -> Result<SaleWrite, StoreError> {
    Ok(match written {
        Written::Done(_) => SaleWrite::Done,
        Written::Refused(_) => SaleWrite::Changed,
    })
}

fn condition_failed(error: &TransactWriteItemsError) -> bool {
    match error {
        TransactWriteItemsError::TransactionCanceledException(cancelled) => {
            cancelled.cancellation_reasons().iter().any(|reason| reason.code() == Some("ConditionalCheckFailed"))
        }
        _ => false,
    }
}
