//! What the tables have in common: reading rows, conditional writes, and reads of many keys.

use std::collections::HashMap;

use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::operation::put_item::builders::PutItemFluentBuilder;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder;
use aws_sdk_dynamodb::types::{
    AttributeValue, KeysAndAttributes, Put, ReturnValue, ReturnValuesOnConditionCheckFailure, TransactWriteItem,
    Update, WriteRequest,
};
use serde::de::DeserializeOwned;

use crate::{Store, StoreError};

/// A row as DynamoDB gives it.
pub(crate) type Row = HashMap<String, AttributeValue>;

/// The result of a conditional write.
#[derive(Debug)]
pub(crate) enum Written {
    /// It was written; the attributes that were requested.
    Done(Row),
    /// Its condition failed; the row as it is.
    Refused(Option<Row>),
}

/// The most keys that DynamoDB allows in one read.
const KEYS_PER_READ: usize = 100;
/// The most rows that DynamoDB allows in one write.
const ROWS_PER_WRITE: usize = 25;
/// DynamoDB may leave keys unread under load: how often they are requested again.
const REREADS: u32 = 8;
/// DynamoDB may leave rows unwritten under load: how often they are sent again. A stream then delivers its batch again.
const REWRITES: u32 = 5;

/// Waits before the part of a batch that was left undone is sent again; fails if it was sent often enough.
async fn before_repeat(operation: &'static str, attempt: u32, most: u32) -> Result<(), StoreError> {
    if attempt == most {
        return Err(StoreError::Throttled { operation });
    }
    tokio::time::sleep(std::time::Duration::from_millis(20 << attempt)).await;
    Ok(())
}

pub(crate) fn s(text: impl ToString) -> AttributeValue {
    AttributeValue::S(text.to_string())
}

pub(crate) fn n(number: impl ToString) -> AttributeValue {
    AttributeValue::N(number.to_string())
}

/// Reads a row as `T`.
pub(crate) fn read_row<T: DeserializeOwned>(operation: &'static str, row: Row) -> Result<T, StoreError> {
    serde_dynamo::from_item(row).map_err(|error| StoreError::unreadable(operation, error))
}

/// Writes `value` as an attribute.
pub(crate) fn attribute<T: serde::Serialize>(operation: &'static str, value: &T) -> Result<AttributeValue, StoreError> {
    serde_dynamo::to_attribute_value(value).map_err(|error| StoreError::unreadable(operation, error))
}

/// Writes `value` as a row.
pub(crate) fn row<T: serde::Serialize>(operation: &'static str, value: &T) -> Result<Row, StoreError> {
    serde_dynamo::to_item(value).map_err(|error| StoreError::unreadable(operation, error))
}

/// Sends a conditional update. A failed condition returns the row as it is, which costs nothing and explains the
/// failure.
pub(crate) async fn update(operation: &'static str, request: UpdateItemFluentBuilder) -> Result<Written, StoreError> {
    let request = request.return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
    match request.send().await {
        Ok(output) => Ok(Written::Done(output.attributes.unwrap_or_default())),
        Err(SdkError::ServiceError(error)) if error.err().is_conditional_check_failed_exception() => {
            match error.into_err() {
                UpdateItemError::ConditionalCheckFailedException(failed) => Ok(Written::Refused(failed.item)),
                _ => Ok(Written::Refused(None)),
            }
        }
        Err(error) => Err(StoreError::of(operation, &error)),
    }
}

/// Sends a conditional put.
pub(crate) async fn put(operation: &'static str, request: PutItemFluentBuilder) -> Result<Written, StoreError> {
    let request = request.return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
    match request.send().await {
        Ok(_) => Ok(Written::Done(Row::new())),
        Err(SdkError::ServiceError(error)) if error.err().is_conditional_check_failed_exception() => {
            match error.into_err() {
                PutItemError::ConditionalCheckFailedException(failed) => Ok(Written::Refused(failed.item)),
                _ => Ok(Written::Refused(None)),
            }
        }
        Err(error) => Err(StoreError::of(operation, &error)),
    }
}

/// A conditional update that can be sent alone or as a part of a transaction.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    table: String,
    key: Row,
    updates: Vec<String>,
    conditions: Vec<String>,
    names: HashMap<String, String>,
    values: Row,
}

impl Change {
    pub(crate) fn of(table: &str, key: impl IntoIterator<Item = (&'static str, AttributeValue)>) -> Self {
        Self {
            table: table.to_owned(),
            key: key.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
            updates: Vec::new(),
            conditions: Vec::new(),
            names: HashMap::new(),
            values: Row::new(),
        }
    }

    /// Adds a clause, such as `SET a = :a` or `REMOVE b`. Several of one kind are joined.
    pub(crate) fn update(mut self, clause: &str) -> Self {
        self.updates.push(clause.to_owned());
        self
    }

    /// Adds a condition; all must hold.
    pub(crate) fn only_if(mut self, condition: &str) -> Self {
        self.conditions.push(format!("({condition})"));
        self
    }

    pub(crate) fn name(mut self, alias: &str, name: impl Into<String>) -> Self {
        self.names.insert(alias.to_owned(), name.into());
        self
    }

    pub(crate) fn value(mut self, alias: &str, value: AttributeValue) -> Self {
        self.values.insert(alias.to_owned(), value);
        self
    }

    fn condition(&self) -> Option<String> {
        (!self.conditions.is_empty()).then(|| self.conditions.join(" AND "))
    }

    fn expression(&self) -> String {
        let of_kind = |kind: &str| {
            let clauses: Vec<&str> = self.updates.iter().filter_map(|clause| clause.strip_prefix(kind)).collect();
            (!clauses.is_empty()).then(|| format!("{kind}{}", clauses.join(",")))
        };
        ["SET", "REMOVE", "ADD", "DELETE"].into_iter().filter_map(of_kind).collect::<Vec<_>>().join(" ")
    }

    /// As a part of a transaction.
    pub(crate) fn part(self, operation: &'static str) -> Result<TransactWriteItem, StoreError> {
        let update = Update::builder()
            .update_expression(self.expression())
            .set_condition_expression(self.condition())
            .table_name(self.table)
            .set_key(Some(self.key))
            .set_expression_attribute_names(not_empty(self.names))
            .set_expression_attribute_values(not_empty(self.values))
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
            .build()
            .map_err(|error| StoreError::unreadable(operation, error))?;
        Ok(TransactWriteItem::builder().update(update).build())
    }

    /// Sends the update alone. Returns the row as it is after the change.
    pub(crate) async fn send(
        self,
        operation: &'static str,
        client: &aws_sdk_dynamodb::Client,
    ) -> Result<Written, StoreError> {
        let request = client
            .update_item()
            .update_expression(self.expression())
            .set_condition_expression(self.condition())
            .table_name(self.table)
            .set_key(Some(self.key))
            .set_expression_attribute_names(not_empty(self.names))
            .set_expression_attribute_values(not_empty(self.values))
            .return_values(ReturnValue::AllNew);
        update(operation, request).await
    }
}

fn not_empty<V>(map: HashMap<String, V>) -> Option<HashMap<String, V>> {
    (!map.is_empty()).then_some(map)
}

/// A put of a new row as a part of a transaction; `key` is an attribute that every row has.
pub(crate) fn put_part(
    operation: &'static str,
    table: &str,
    row: Row,
    key: &str,
) -> Result<TransactWriteItem, StoreError> {
    let put = Put::builder()
        .table_name(table)
        .set_item(Some(row))
        .condition_expression("attribute_not_exists(#key)")
        .expression_attribute_names("#key", key)
        .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
        .build()
        .map_err(|error| StoreError::unreadable(operation, error))?;
    Ok(TransactWriteItem::builder().put(put).build())
}

/// The result of a transaction.
#[derive(Debug)]
pub(crate) enum Transacted {
    Done,
    /// Nothing was written: some conditions failed.
    Refused(Vec<Condition>),
}

/// What a part of a refused transaction met.
#[derive(Clone, Debug)]
pub(crate) enum Condition {
    Held,
    /// Its condition failed; the row as it is.
    Failed(Option<Row>),
}

/// Sends a transaction. A collision with another transaction is an error that may pass.
pub(crate) async fn transact(
    operation: &'static str,
    client: &aws_sdk_dynamodb::Client,
    parts: Vec<TransactWriteItem>,
) -> Result<Transacted, StoreError> {
    let error = match client.transact_write_items().set_transact_items(Some(parts)).send().await {
        Ok(_) => return Ok(Transacted::Done),
        Err(error) => error,
    };
    let Some(TransactWriteItemsError::TransactionCanceledException(cancelled)) = error.as_service_error() else {
        return Err(StoreError::of(operation, &error));
    };
    let codes: Vec<&str> = cancelled.cancellation_reasons().iter().filter_map(|reason| reason.code()).collect();
    // A part that collided with another transaction was not evaluated, whatever the others met: retry the transaction.
    if codes.contains(&"TransactionConflict") {
        return Err(StoreError::Conflict { operation });
    }
    if codes.iter().any(|code| matches!(*code, "ThrottlingError" | "ProvisionedThroughputExceeded")) {
        return Err(StoreError::Throttled { operation });
    }
    if codes.contains(&"ConditionalCheckFailed") {
        let found = cancelled.cancellation_reasons().iter().map(|reason| match reason.code() {
            Some("ConditionalCheckFailed") => Condition::Failed(reason.item().cloned()),
            _ => Condition::Held,
        });
        return Ok(Transacted::Refused(found.collect()));
    }
    Err(StoreError::of(operation, &error))
}

impl Store {
    /// Reads many rows by their keys; missing ones are left out.
    pub(crate) async fn read_many(
        &self,
        operation: &'static str,
        table: &str,
        keys: Vec<Row>,
        consistent: bool,
    ) -> Result<Vec<Row>, StoreError> {
        let mut rows = Vec::with_capacity(keys.len());
        for chunk in keys.chunks(KEYS_PER_READ) {
            let mut left = chunk.to_vec();
            for attempt in 0..=REREADS {
                let request = KeysAndAttributes::builder()
                    .set_keys(Some(std::mem::take(&mut left)))
                    .consistent_read(consistent)
                    .build()
                    .map_err(|error| StoreError::unreadable(operation, error))?;
                let output = self
                    .dynamodb
                    .batch_get_item()
                    .request_items(table, request)
                    .send()
                    .await
                    .map_err(|error| StoreError::of(operation, &error))?;
                rows.extend(output.responses.into_iter().flatten().flat_map(|(_, rows)| rows));
                left = output
                    .unprocessed_keys
                    .and_then(|mut unread| unread.remove(table))
                    .map(|unread| unread.keys)
                    .unwrap_or_default();
                if left.is_empty() {
                    break;
                }
                before_repeat(operation, attempt, REREADS).await?;
            }
        }
        Ok(rows)
    }

    /// Writes many rows, without a condition: repeating a write must leave the same row.
    pub(crate) async fn write_many(
        &self,
        operation: &'static str,
        table: &str,
        writes: Vec<WriteRequest>,
    ) -> Result<(), StoreError> {
        for chunk in writes.chunks(ROWS_PER_WRITE) {
            let mut left = chunk.to_vec();
            for attempt in 0..=REWRITES {
                let output = self
                    .dynamodb
                    .batch_write_item()
                    .request_items(table, std::mem::take(&mut left))
                    .send()
                    .await
                    .map_err(|error| StoreError::of(operation, &error))?;
                left = output.unprocessed_items.and_then(|mut undone| undone.remove(table)).unwrap_or_default();
                if left.is_empty() {
                    break;
                }
                before_repeat(operation, attempt, REWRITES).await?;
            }
        }
        Ok(())
    }
}
