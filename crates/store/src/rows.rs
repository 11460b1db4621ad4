//! What the tables have in common: reading rows, conditional writes, and reads of many keys.

use std::collections::HashMap;

use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::operation::put_item::builders::PutItemFluentBuilder;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder;
use aws_sdk_dynamodb::types::{AttributeValue, KeysAndAttributes, ReturnValuesOnConditionCheckFailure};
use serde::de::DeserializeOwned;

use crate::{Store, StoreError};

/// A row as DynamoDB gives it.
pub(crate) type Row = HashMap<String, AttributeValue>;

/// What became of a conditional write.
#[derive(Debug)]
pub(crate) enum Written {
    /// It was written; the attributes that were asked for.
    Done(Row),
    /// Its condition did not hold; the row that is there.
    Refused(Option<Row>),
}

/// DynamoDB takes at most so many keys in one read.
const KEYS_PER_READ: usize = 100;
/// DynamoDB may leave keys unread under load; they are asked for again so often.
const REREADS: usize = 8;

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

/// Sends a conditional update. A failed condition answers with the row that is there: it costs nothing and says why.
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

impl Store {
    /// Reads many rows by their keys; those that are not there are left out.
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
                if attempt == REREADS {
                    return Err(StoreError::Throttled { operation });
                }
                tokio::time::sleep(std::time::Duration::from_millis(20 << attempt)).await;
            }
        }
        Ok(rows)
    }
}
