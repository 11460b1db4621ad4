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
use futures::stream::{self, StreamExt, TryStreamExt};
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
const REREADS: usize = 8;
/// Requests of one read that run at the same time.
const READS_AT_ONCE: usize = 16;
/// DynamoDB may leave rows unwritten under load: how often they are sent again. A stream then delivers its batch again.
const REWRITES: u32 = 5;

pub(crate) fn s(text: impl ToString) -> AttributeValue {
    AttributeValue::S(text.to_string())
}

pub(crate) fn n(number: impl ToString) -> AttributeValue {
    AttributeValue::N(number.to_string())
}

/// The version of the rows that this release writes. A row without a version is of version 1.
pub(crate) const ROW_VERSION: u32 = 1;
/// The attribute that carries it.
pub(crate) const ROW_VERSION_NAME: &str = "rowVersion";

/// Reads a row as `T`. A row of a newer version is not read: its fields may mean something else.
pub(crate) fn read_row<T: DeserializeOwned>(operation: &'static str, row: Row) -> Result<T, StoreError> {
    check_version(operation, &row)?;
    serde_dynamo::from_item(row).map_err(|error| StoreError::unreadable_row(operation, error))
}

/// Refuses a row of a newer version.
pub(crate) fn check_version(operation: &'static str, row: &Row) -> Result<(), StoreError> {
    let Some(version) = row.get(ROW_VERSION_NAME) else { return Ok(()) };
    match version.as_n().ok().and_then(|version| version.parse::<u32>().ok()) {
        Some(1..=ROW_VERSION) => Ok(()),
        _ => {
            let version = version.as_n().map_or("unknown", String::as_str);
            let detail = format!("its version is {version}, and this release knows version {ROW_VERSION}");
            Err(StoreError::unreadable_row(operation, detail))
        }
    }
}

/// Rows that were read together: those that this release can read, and the others by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rows<T> {
    pub read: Vec<T>,
    pub unreadable: Vec<UnreadableRow>,
}

impl<T> Default for Rows<T> {
    fn default() -> Self {
        Self { read: Vec::new(), unreadable: Vec::new() }
    }
}

impl<T> Rows<T> {
    /// Adds a row that was read, or notes that it could not be. `name` says which row it is.
    pub(crate) fn add(&mut self, name: impl std::fmt::Display, row: Result<T, StoreError>) {
        match row {
            Ok(row) => self.read.push(row),
            Err(error) => self.unreadable.push(UnreadableRow::new(name, &error)),
        }
    }
}

/// A row that this release cannot read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadableRow {
    /// What the row is about, such as `order 01K…`.
    pub name: String,
    pub why: String,
}

impl UnreadableRow {
    pub fn new(name: impl std::fmt::Display, error: &StoreError) -> Self {
        Self { name: name.to_string(), why: error.to_string() }
    }
}

impl std::fmt::Display for UnreadableRow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.name, self.why)
    }
}

/// The text of a row's attribute, for its name.
pub(crate) fn text<'a>(row: &'a Row, name: &str) -> &'a str {
    row.get(name).and_then(|value| value.as_s().ok()).map_or("?", String::as_str)
}

/// Writes `value` as an attribute.
pub(crate) fn attribute<T: serde::Serialize>(operation: &'static str, value: &T) -> Result<AttributeValue, StoreError> {
    serde_dynamo::to_attribute_value(value).map_err(|error| StoreError::unreadable(operation, error))
}

/// Writes `value` as a row of this release's version.
pub(crate) fn row<T: serde::Serialize>(operation: &'static str, value: &T) -> Result<Row, StoreError> {
    let row: Result<Row, _> = serde_dynamo::to_item(value);
    let mut row = row.map_err(|error| StoreError::unreadable(operation, error))?;
    row.insert(ROW_VERSION_NAME.to_owned(), n(ROW_VERSION));
    Ok(row)
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

/// A put under a condition as a part of a transaction.
pub(crate) fn put_part_if(
    operation: &'static str,
    table: &str,
    row: Row,
    condition: &str,
) -> Result<TransactWriteItem, StoreError> {
    let put = Put::builder()
        .table_name(table)
        .set_item(Some(row))
        .condition_expression(condition)
        .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
        .build()
        .map_err(|error| StoreError::unreadable(operation, error))?;
    Ok(TransactWriteItem::builder().put(put).build())
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
    /// Reads many rows by their keys; missing ones are left out. Several requests run at the same time.
    pub(crate) async fn read_many(
        &self,
        operation: &'static str,
        table: &str,
        keys: Vec<Row>,
        consistent: bool,
    ) -> Result<Vec<Row>, StoreError> {
        self.read_many_of(operation, table, keys, consistent, &[]).await
    }

    /// The same with these attributes alone; with none named, all.
    pub(crate) async fn read_many_of(
        &self,
        operation: &'static str,
        table: &str,
        keys: Vec<Row>,
        consistent: bool,
        attributes: &[&str],
    ) -> Result<Vec<Row>, StoreError> {
        let chunks: Vec<Vec<Row>> = keys.chunks(KEYS_PER_READ).map(<[Row]>::to_vec).collect();
        let reads: Vec<_> =
            chunks.into_iter().map(|chunk| self.read_chunk(operation, table, chunk, consistent, attributes)).collect();
        let reads: Vec<Vec<Row>> = stream::iter(reads).buffer_unordered(READS_AT_ONCE).try_collect().await?;
        Ok(reads.into_iter().flatten().collect())
    }

    async fn read_chunk(
        &self,
        operation: &'static str,
        table: &str,
        mut left: Vec<Row>,
        consistent: bool,
        attributes: &[&str],
    ) -> Result<Vec<Row>, StoreError> {
        let mut rows = Vec::with_capacity(left.len());
        // Every name has an alias: some are words of DynamoDB's own.
        let names: HashMap<String, String> =
            attributes.iter().map(|name| (format!("#{name}"), (*name).into())).collect();
        let projection = (!names.is_empty()).then(|| names.keys().cloned().collect::<Vec<_>>().join(", "));
        for attempt in 0..=REREADS {
            let request = KeysAndAttributes::builder()
                .set_keys(Some(std::mem::take(&mut left)))
                .consistent_read(consistent)
                .set_projection_expression(projection.clone())
                .set_expression_attribute_names(not_empty(names.clone()))
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
                return Ok(rows);
            }
            if attempt < REREADS {
                tokio::time::sleep(std::time::Duration::from_millis(20 << attempt)).await;
            }
        }
        Err(StoreError::Throttled { operation })
    }

    /// Writes many rows, without a condition: repeating a write must leave the same row.
    pub(crate) async fn write_many(
        &self,
        operation: &'static str,
        table: &str,
        writes: Vec<WriteRequest>,
    ) -> Result<(), StoreError> {
        for chunk in writes.chunks(ROWS_PER_WRITE) {
            self.write_chunk(operation, table, chunk.to_vec()).await?;
        }
        Ok(())
    }

    async fn write_chunk(
        &self,
        operation: &'static str,
        table: &str,
        mut left: Vec<WriteRequest>,
    ) -> Result<(), StoreError> {
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
                return Ok(());
            }
            if attempt < REWRITES {
                tokio::time::sleep(std::time::Duration::from_millis(20 << attempt)).await;
            }
        }
        Err(StoreError::Throttled { operation })
    }
}
