//! The stock ledger: what moved, append-only, one row for each movement.
//!
//! A row's key names its movement: the order, the kind, the bucket, and the number of the stream record that reported
//! it. All of a row is taken from that record, so whichever run writes the row, and however often, it is the same row.
//! That makes a write without a condition safe, and only such writes can be sent in batches.

use std::collections::BTreeMap;

use aws_sdk_dynamodb::types::{PutRequest, WriteRequest};
use domain::Timestamp;
use domain::bucket::{BucketNo, Movement};
use domain::ids::{Offer, OrderId};

use crate::rows::{Row, n, s};
use crate::{Store, StoreError};

/// A movement of units, as a stream record reports it.
#[derive(Clone, Debug)]
pub struct StockEntry {
    pub offer: Offer,
    pub bucket: BucketNo,
    pub movement: Movement,
    pub at: Timestamp,
    /// The number of the stream record. The records of a bucket have different ones.
    pub sequence: String,
}

impl StockEntry {
    fn name(&self) -> String {
        format!("{}#{}#{}", self.movement.kind.entry(), self.bucket, self.sequence)
    }

    fn row(&self) -> Row {
        let Self { offer, bucket, movement, at, .. } = self;
        let fields = [
            ("order", s(&movement.order)),
            ("entry", s(self.name())),
            ("sale", s(&offer.sale)),
            ("item", s(&offer.item)),
            ("bucket", n(bucket)),
            ("quantity", n(movement.quantity)),
            ("before", n(movement.before)),
            ("after", n(movement.after)),
            ("at", n(at.as_millisecond())),
        ];
        fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

impl Store {
    /// Records movements, up to 25 in one call. Idempotent.
    pub async fn record(&self, entries: &[StockEntry]) -> Result<(), StoreError> {
        const OPERATION: &str = "write the ledger";
        // DynamoDB refuses a batch that names a row twice.
        let rows: BTreeMap<_, Row> =
            entries.iter().map(|entry| ((entry.movement.order.clone(), entry.name()), entry.row())).collect();
        let put = |row| PutRequest::builder().set_item(Some(row)).build();
        let writes = rows
            .into_values()
            .map(|row| put(row).map(|put| WriteRequest::builder().put_request(put).build()))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| StoreError::unreadable(OPERATION, error))?;
        self.write_many(OPERATION, &self.names.ledger, writes).await
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
