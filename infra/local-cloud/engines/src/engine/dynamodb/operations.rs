//! DynamoDB's operations by name: JSON in, JSON and what it cost out.

use dynoxide::types::ConsumedCapacity;
use dynoxide::{DynoxideError, actions};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Consumed, Engine, ready};

/// dynoxide's ARNs are of its own region.
const ENGINE_ARN: &str = "arn:aws:dynamodb:dynoxide:";

/// Whether an operation may change items, and so a stream.
pub(super) fn writes(operation: &str) -> bool {
    matches!(operation, "PutItem" | "UpdateItem" | "DeleteItem" | "BatchWriteItem" | "TransactWriteItems")
}

/// Reads a request.
pub(super) fn read<T: DeserializeOwned>(body: &[u8]) -> dynoxide::Result<T> {
    serde_json::from_slice(body).map_err(|error| {
        let text = error.to_string();
        let text = text.rsplit_once(" at line ").map_or(text.as_str(), |(text, _)| text);
        match text.split_once("VALIDATION:") {
            Some((_, message)) => DynoxideError::ValidationException(message.to_owned()),
            None => DynoxideError::SerializationException(text.to_owned()),
        }
    })
}

fn write<T: serde::Serialize>(answer: &T) -> dynoxide::Result<String> {
    serde_json::to_string(answer).map_err(|error| DynoxideError::InternalServerError(error.to_string()))
}

/// One table's cost or several tables'.
trait Units {
    fn units(&self) -> f64;
}

impl Units for Option<ConsumedCapacity> {
    fn units(&self) -> f64 {
        self.as_ref().map_or(0.0, |consumed| consumed.capacity_units)
    }
}

impl Units for Option<Vec<ConsumedCapacity>> {
    fn units(&self) -> f64 {
        self.iter().flatten().map(|consumed| consumed.capacity_units).sum()
    }
}

/// Runs an operation that has a cost. It is always worked out; the answer tells of it only if the caller asked.
macro_rules! measured {
    ($engine:expr, $body:expr, $action:ident, $request:ident) => {{
        let mut request: actions::$action::$request = read($body)?;
        let asked = request.return_consumed_capacity.as_deref().is_some_and(|mode| mode != "NONE");
        if !asked {
            request.return_consumed_capacity = Some("TOTAL".to_owned());
        }
        let mut answer = ready(actions::$action::execute(&$engine.storage, request))?;
        let units = answer.consumed_capacity.units();
        if !asked {
            answer.consumed_capacity = None;
        }
        (write(&answer)?, units)
    }};
}

/// Runs an operation about tables rather than items, whose answer names ARNs.
macro_rules! about_tables {
    ($engine:expr, $body:expr, $action:ident) => {{
        let body = to_engine_arns($body);
        let answer = ready(actions::$action::execute(&$engine.storage, read(&body)?))?;
        write(&answer)?.replace(ENGINE_ARN, &our_arn())
    }};
    ($engine:expr, $body:expr, $action:ident, with lifecycle) => {{
        let body = to_engine_arns($body);
        let answer = ready(actions::$action::execute(&$engine.storage, read(&body)?, &$engine.lifecycle))?;
        write(&answer)?.replace(ENGINE_ARN, &our_arn())
    }};
}

fn our_arn() -> String {
    format!("arn:aws:dynamodb:{}:", crate::REGION)
}

fn to_engine_arns(body: &[u8]) -> Vec<u8> {
    String::from_utf8_lossy(body).replace(&our_arn(), ENGINE_ARN).into_bytes()
}

impl Engine {
    pub(super) fn dispatch(&mut self, operation: &str, body: &[u8]) -> dynoxide::Result<(String, Consumed)> {
        let written = |(json, write_units): (String, f64)| (json, Consumed { read_units: 0.0, write_units });
        let seen = |(json, read_units): (String, f64)| (json, Consumed { read_units, write_units: 0.0 });
        Ok(match operation {
            "PutItem" => written(measured!(self, body, put_item, PutItemRequest)),
            "UpdateItem" => written(measured!(self, body, update_item, UpdateItemRequest)),
            "DeleteItem" => written(measured!(self, body, delete_item, DeleteItemRequest)),
            "BatchWriteItem" => written(measured!(self, body, batch_write_item, BatchWriteItemRequest)),
            "TransactWriteItems" => self.transact_write(body)?,
            "GetItem" => seen(measured!(self, body, get_item, GetItemRequest)),
            "Query" => seen(measured!(self, body, query, QueryRequest)),
            "Scan" => seen(measured!(self, body, scan, ScanRequest)),
            "BatchGetItem" => seen(measured!(self, body, batch_get_item, BatchGetItemRequest)),
            "TransactGetItems" => seen(measured!(self, body, transact_get_items, TransactGetItemsRequest)),
            other => (self.about_tables(other, body)?, Consumed::default()),
        })
    }

    fn about_tables(&mut self, operation: &str, body: &[u8]) -> dynoxide::Result<String> {
        Ok(match operation {
            "CreateTable" => about_tables!(self, body, create_table),
            "ListTables" => about_tables!(self, body, list_tables),
            "DescribeTable" => about_tables!(self, body, describe_table, with lifecycle),
            "UpdateTable" => about_tables!(self, body, update_table, with lifecycle),
            "DeleteTable" => about_tables!(self, body, delete_table, with lifecycle),
            "UpdateTimeToLive" => about_tables!(self, body, update_time_to_live),
            "DescribeTimeToLive" => about_tables!(self, body, describe_time_to_live),
            "TagResource" => about_tables!(self, body, tag_resource),
            "UntagResource" => about_tables!(self, body, untag_resource),
            "ListTagsOfResource" => about_tables!(self, body, list_tags_of_resource),
            "ListStreams" => about_tables!(self, body, list_streams),
            "DescribeStream" => about_tables!(self, body, describe_stream),
            "GetShardIterator" => about_tables!(self, body, get_shard_iterator),
            "GetRecords" => {
                let mut answer = ready(actions::get_records::execute(&self.storage, read(body)?))?;
                for record in &mut answer.records {
                    record.aws_region = crate::REGION.to_owned();
                }
                write(&answer)?
            }
            other => {
                return Err(DynoxideError::ValidationException(format!(
                    "DynamoDB operation {other} is not part of the local cloud"
                )));
            }
        })
    }

    fn transact_write(&mut self, body: &[u8]) -> dynoxide::Result<(String, Consumed)> {
        let mut request: Value = read(body)?;
        let token = request.get("ClientRequestToken").and_then(Value::as_str).map(str::to_owned);
        let now_ms = self.clock.now_ms();
        let items = match &token {
            Some(token) => {
                let items = request.get_mut("TransactItems").map(Value::take).unwrap_or_default();
                if let Some(answer) = self.tokens.recall(token, &items, now_ms)? {
                    return Ok((answer, Consumed::default()));
                }
                items
            }
            None => Value::Null,
        };
        let (json, write_units) = measured!(self, body, transact_write_items, TransactWriteItemsRequest);
        if let Some(token) = token {
            self.tokens.remember(token, items, json.clone(), now_ms);
        }
        Ok((json, Consumed { read_units: 0.0, write_units }))
    }
}
