//! The stock ledger: what moved, append-only, one row for each order and kind of movement.

use domain::Timestamp;
use domain::bucket::{BucketNo, Movement};
use domain::ids::{Offer, OrderId};

use crate::rows::{Row, n, put, s};
use crate::{Store, StoreError};

impl Store {
    /// Records a movement, once.
    pub async fn record(
        &self,
        offer: &Offer,
        bucket: BucketNo,
        movement: &Movement,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        let request = self
            .dynamodb
            .put_item()
            .table_name(&self.names.ledger)
            .item("order", s(&movement.order))
            .item("entry", s(movement.kind.entry()))
            .item("sale", s(&offer.sale))
            .item("item", s(&offer.item))
            .item("bucket", n(bucket))
            .item("quantity", n(movement.quantity))
            .item("before", n(movement.before))
            .item("after", n(movement.after))
            .item("at", n(at.as_millisecond()))
            .condition_expression("attribute_not_exists(entry)");
        put("write the ledger", request).await.map(|_| ())
    }

    pub async fn entries(&self, order: &OrderId) -> Result<Vec<Row>, StoreError> {
        let output = self
            .dynamodb
            .query()
            .table_name(&self.names.ledger)
            .key_condition_expression("#order = :order")
            .expression_attribute_names("#order", "order")
            .expression_attribute_values(":order", s(order))
            .consistent_read(true)
            .send()
            .await
            .map_err(|error| StoreError::of("read the ledger", &error))?;
        Ok(output.items.unwrap_or_default())
    }
}
