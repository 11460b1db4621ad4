//! Records of past sales that are kept for a limited time.
//!
//! A settled sale leaves the index of watched sales. Where orders are kept for a limited time, it stays there under
//! another key, until all of its orders are removed.

use aws_sdk_dynamodb::error::SdkError;
use domain::ids::{OrderId, SaleId};
use domain::order::Order;
use domain::sale::Sale;
use jiff::SignedDuration;

use crate::rows::{Row, s, update};
use crate::sales::{SALE, sale_write};
use crate::{SaleWrite, Store, StoreError};

/// The value of `watch` of a sale that is settled and whose orders are to be removed one day.
pub(crate) const SETTLED: &str = "SETTLED";

/// The rows of an order in the ledger.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LedgerRows {
    pub entries: Vec<String>,
    /// Whether one of them is marked open.
    pub has_open: bool,
}

impl Store {
    /// How long the orders of a sale are kept; `None`: for good.
    pub fn orders_kept_for(&self) -> Option<SignedDuration> {
        self.names.retention_days.map(|days| SignedDuration::from_hours(i64::from(days) * 24))
    }

    /// Settled sales whose orders are not removed yet, by their start.
    pub async fn settled_sales(&self, most: i32) -> Result<Vec<SaleId>, StoreError> {
        const OPERATION: &str = "list settled sales";
        let output = self
            .dynamodb
            .query()
            .table_name(&self.names.sales)
            .index_name("watched")
            .key_condition_expression("watch = :settled")
            .expression_attribute_values(":settled", s(SETTLED))
            .limit(most)
            .send()
            .await
            .map_err(|error| StoreError::of(OPERATION, &error))?;
        let id = |row: Row| SaleId::parse(row.get("sale")?.as_s().ok()?).ok();
        Ok(output.items.unwrap_or_default().into_iter().filter_map(id).collect())
    }

    /// All orders of a settled sale are removed: it leaves the index, if it is still at this version.
    pub async fn forget_settled_sale(&self, sale: &Sale) -> Result<SaleWrite, StoreError> {
        let request = self
            .dynamodb
            .update_item()
            .table_name(&self.names.sales)
            .key("sale", s(&sale.id))
            .key("part", s(SALE))
            .update_expression("REMOVE watch")
            .condition_expression("watch = :settled AND #version = :version")
            .expression_attribute_names("#version", "version")
            .expression_attribute_values(":settled", s(SETTLED))
            .expression_attribute_values(":version", crate::rows::n(sale.version));
        sale_write(update("forget a settled sale", request).await?)
    }

    /// The rows of an order in the ledger, read consistently.
    pub async fn ledger_rows(&self, order: &OrderId) -> Result<LedgerRows, StoreError> {
        let rows = self.entries(order).await?;
        let has_open = rows.iter().any(|row| row.contains_key("open"));
        let name = |row: &Row| row.get("entry").and_then(|entry| entry.as_s().ok()).cloned();
        Ok(LedgerRows { entries: rows.iter().filter_map(name).collect(), has_open })
    }

    /// Removes a row of the ledger, unless it is marked open.
    pub async fn remove_entry(&self, order: &OrderId, entry: &str) -> Result<bool, StoreError> {
        let request = self
            .dynamodb
            .delete_item()
            .table_name(&self.names.ledger)
            .key("order", s(order))
            .key("entry", s(entry))
            .condition_expression("attribute_not_exists(#open)")
            .expression_attribute_names("#open", "open");
        match request.send().await {
            Ok(_) => Ok(true),
            Err(SdkError::ServiceError(error)) if error.err().is_conditional_check_failed_exception() => Ok(false),
            Err(error) => Err(StoreError::of("remove a ledger row", &error)),
        }
    }

    /// Removes an order that still has the status with which it was read. Returns whether it is gone.
    pub async fn remove_order(&self, order: &Order) -> Result<bool, StoreError> {
        let request = self
            .dynamodb
            .delete_item()
            .table_name(&self.names.orders)
            .key("buyer", s(order.id.buyer()))
            .key("order", s(&order.id))
            // Gone already: the answer of the first attempt was lost.
            .condition_expression("attribute_not_exists(#status) OR #status = :status")
            .expression_attribute_names("#status", "status")
            .expression_attribute_values(":status", s(order.status.as_str()));
        match request.send().await {
            Ok(_) => Ok(true),
            Err(SdkError::ServiceError(error)) if error.err().is_conditional_check_failed_exception() => Ok(false),
            Err(error) => Err(StoreError::of("remove an order", &error)),
        }
    }
}
