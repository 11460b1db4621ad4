//! What of a table cannot be changed by starting again: its keys, its indexes and its stream.

use std::collections::{BTreeMap, BTreeSet};

use dynoxide::storage::TableMetadata;
use serde_json::Value;

/// Attribute names with `HASH` or `RANGE`, in any order.
type Keys = BTreeSet<(String, String)>;

/// A table as far as kept data depends on it.
#[derive(Debug, PartialEq)]
pub(super) struct TableShape {
    keys: Keys,
    indexes: BTreeMap<String, Keys>,
    /// The view type of its stream, if it has one.
    stream: Option<String>,
}

impl TableShape {
    /// What a `CreateTable` request asks for.
    pub(super) fn asked(request: &Value) -> Self {
        let stream = request.get("StreamSpecification");
        let enabled = stream.and_then(|stream| stream.get("StreamEnabled")).and_then(Value::as_bool).unwrap_or(false);
        Self {
            keys: keys(request.get("KeySchema")),
            indexes: indexes([request.get("GlobalSecondaryIndexes"), request.get("LocalSecondaryIndexes")]),
            stream: stream.filter(|_| enabled).map(|stream| text(stream, "StreamViewType")),
        }
    }

    /// What a table has.
    pub(super) fn kept(table: &TableMetadata) -> Self {
        let read = |json: &str| serde_json::from_str::<Value>(json).ok();
        let global = table.gsi_definitions.as_deref().and_then(read);
        let local = table.lsi_definitions.as_deref().and_then(read);
        Self {
            keys: keys(read(&table.key_schema).as_ref()),
            indexes: indexes([global.as_ref(), local.as_ref()]),
            stream: table.stream_enabled.then(|| table.stream_view_type.clone().unwrap_or_default()),
        }
    }
}

/// Global and local indexes alike: their names differ.
fn indexes(lists: [Option<&Value>; 2]) -> BTreeMap<String, Keys> {
    let all = lists.into_iter().flatten().filter_map(Value::as_array).flatten();
    all.map(|index| (text(index, "IndexName"), keys(index.get("KeySchema")))).collect()
}

fn keys(schema: Option<&Value>) -> Keys {
    let elements = schema.and_then(Value::as_array).into_iter().flatten();
    elements.map(|key| (text(key, "AttributeName"), text(key, "KeyType"))).collect()
}

fn text(value: &Value, field: &str) -> String {
    value.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
}
