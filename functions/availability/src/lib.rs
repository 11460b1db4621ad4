//! The stream of stock changes: keeps the pages of open buckets and the ledger.
//!
//! A stream is ordered, so a batch stops at the first record that cannot be read or written. Everything before it
//! is done, and Lambda delivers that record and all that follow again.

use aws_lambda_events::dynamodb::{Event, EventRecord};
use aws_lambda_events::streams::{DynamoDbBatchItemFailure, DynamoDbEventResponse};
use domain::Timestamp;
use domain::availability::Change;
use domain::bucket::{Bucket, parse_bucket_key};
use flows::sale::stock_moved::{StockChange, stock_moved};
use runtime::Environment;
use serde::Deserialize;
use store::Store;

/// What a running function needs.
pub struct App {
    pub store: Store,
}

impl App {
    /// A function that has just started.
    pub fn new(store: Store) -> Self {
        Self { store }
    }

    /// The function as it is deployed.
    pub fn start(environment: &Environment) -> Self {
        Self::new(environment.store())
    }
}

/// Why a record cannot be read.
#[derive(Debug, thiserror::Error)]
enum Unreadable {
    #[error("its key does not read: {0}")]
    Keys(serde_dynamo::Error),
    #[error("its key {0:?} is not a bucket's")]
    NotABucket(String),
    #[error("its {image} image does not read: {error}")]
    Image { image: &'static str, error: serde_dynamo::Error },
    #[error("its time does not read: {0}")]
    Time(jiff::Error),
    #[error("its event {0:?} is not known")]
    Event(String),
}

/// Handles a batch. The answer names the record from which Lambda delivers it again, if there is one.
pub async fn handle(app: &App, event: Event) -> DynamoDbEventResponse {
    let first = event.records.first().map(sequence);
    let (changes, unread) = read(event);
    let count = changes.len();
    if let Err(error) = stock_moved(&app.store, changes).await {
        tracing::warn!(%error, records = count, sequence = first, "a batch was not handled: it will come again");
        return again(first.unwrap_or_default());
    }
    match unread {
        None => DynamoDbEventResponse::default(),
        Some((sequence, error)) => {
            tracing::error!(sequence, %error, "a record cannot be read: it stops its shard until it is set aside");
            again(sequence)
        }
    }
}

fn again(sequence: String) -> DynamoDbEventResponse {
    let mut failure = DynamoDbBatchItemFailure::default();
    failure.item_identifier = Some(sequence);
    let mut response = DynamoDbEventResponse::default();
    response.batch_item_failures = vec![failure];
    response
}

/// A record without a number makes Lambda deliver the whole batch again, which does no harm.
fn sequence(record: &EventRecord) -> String {
    record.change.sequence_number.clone().unwrap_or_default()
}

/// The changes up to the first record that cannot be read, and that record's number.
fn read(event: Event) -> (Vec<StockChange>, Option<(String, Unreadable)>) {
    let mut changes = Vec::with_capacity(event.records.len());
    for record in event.records {
        let sequence = sequence(&record);
        match change(record) {
            Ok(Some(change)) => changes.push(change),
            Ok(None) => {}
            Err(error) => return (changes, Some((sequence, error))),
        }
    }
    (changes, None)
}

/// The change of a record; `None`: a bucket was removed, which no flow does.
fn change(record: EventRecord) -> Result<Option<StockChange>, Unreadable> {
    #[derive(Deserialize)]
    struct Keys {
        bucket: String,
    }
    let sequence = sequence(&record);
    let EventRecord { event_name, change: record, .. } = record;
    let Keys { bucket: key } = serde_dynamo::from_item(record.keys).map_err(Unreadable::Keys)?;
    match event_name.as_str() {
        "INSERT" | "MODIFY" => {}
        "REMOVE" => {
            tracing::warn!(
                bucket = key,
                "a bucket was removed from the stock table: reconcile will tell what is missing"
            );
            return Ok(None);
        }
        _ => return Err(Unreadable::Event(event_name)),
    }
    let (offer, bucket) = parse_bucket_key(&key).ok_or(Unreadable::NotABucket(key))?;
    let old = match event_name.as_str() {
        "INSERT" => None,
        _ => Some(image("old", record.old_image)?),
    };
    let new = image("new", record.new_image)?;
    let at_ms = record.approximate_creation_date_time.timestamp_millis();
    let at = Timestamp::from_millisecond(at_ms).map_err(Unreadable::Time)?;
    Ok(Some(StockChange { change: Change { offer, bucket, old, new }, at, sequence }))
}

fn image(image: &'static str, item: serde_dynamo::Item) -> Result<Bucket, Unreadable> {
    serde_dynamo::from_item(item).map_err(|error| Unreadable::Image { image, error })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    const ORDER: &str = "01K9RXJ8G00123456789ABCDEF0000A";

    fn bucket(free: u32, holders: Value) -> Value {
        json!({
            "bucket": {"S": "s1#phone#3"}, "cap": {"N": "24"}, "sold": {"N": "0"},
            "free": {"N": free.to_string()}, "holders": {"M": holders},
        })
    }

    fn record(name: &str, sequence: &str, old: Option<Value>, new: Option<Value>) -> Value {
        let mut change = json!({
            "ApproximateCreationDateTime": 1_762_819_200, "Keys": {"bucket": {"S": "s1#phone#3"}},
            "SequenceNumber": sequence, "SizeBytes": 100, "StreamViewType": "NEW_AND_OLD_IMAGES",
        });
        for (image, value) in [("OldImage", old), ("NewImage", new)] {
            if let Some(value) = value {
                change[image] = value;
            }
        }
        json!({
            "eventID": sequence, "eventName": name, "eventVersion": "1.1", "eventSource": "aws:dynamodb",
            "awsRegion": "us-east-1", "dynamodb": change,
            "eventSourceARN": "arn:aws:dynamodb:us-east-1:1:table/x/stream/y",
        })
    }

    fn read_all(records: &[Value]) -> (Vec<StockChange>, Option<(String, String)>) {
        let event = serde_json::from_value(json!({"Records": records})).unwrap();
        let (changes, unread) = read(event);
        (changes, unread.map(|(sequence, error)| (sequence, error.to_string())))
    }

    #[test]
    fn images_become_changes() {
        let held = bucket(22, json!({ORDER: {"N": "2"}}));
        let (changes, unread) = read_all(&[
            record("INSERT", "1", None, Some(bucket(24, json!({})))),
            record("MODIFY", "2", Some(bucket(24, json!({}))), Some(held)),
        ]);
        assert!(unread.is_none());
        assert_eq!(changes.len(), 2);
        assert_eq!(changes[0].change.old, None);
        assert_eq!(changes[0].at.as_second(), 1_762_819_200);
        let moved = &changes[1].change;
        assert_eq!((moved.offer.to_string().as_str(), moved.bucket, moved.new.free), ("s1#phone", 3, 22));
        assert_eq!(moved.new.holders.values().copied().collect::<Vec<_>>(), [2]);
    }

    #[test]
    fn an_unreadable_record_stops_the_batch() {
        let good = record("INSERT", "1", None, Some(bucket(24, json!({}))));
        let mut elsewhere = record("INSERT", "2", None, Some(bucket(24, json!({}))));
        elsewhere["dynamodb"]["Keys"]["bucket"]["S"] = "not a bucket".into();
        for (bad, why) in [
            (record("INSERT", "2", None, None), "its new image does not read"),
            (record("MODIFY", "2", None, Some(bucket(24, json!({})))), "its old image does not read"),
            (
                record("MODIFY", "2", Some(bucket(24, json!({}))), Some(bucket(1, json!({"x": {"N": "1"}})))),
                "new image",
            ),
            (record("UPSERT", "2", None, Some(bucket(24, json!({})))), "\"UPSERT\" is not known"),
            (elsewhere, "\"not a bucket\" is not a bucket's"),
        ] {
            let (changes, unread) = read_all(&[good.clone(), bad, good.clone()]);
            let (sequence, said) = unread.unwrap();
            assert_eq!((changes.len(), sequence.as_str()), (1, "2"), "{said}");
            assert!(said.contains(why), "{said}");
        }
        assert_eq!(
            serde_json::to_value(again("2".into())).unwrap(),
            json!({"batchItemFailures": [{"itemIdentifier": "2"}]})
        );
    }

    #[test]
    fn a_removed_bucket_is_ignored() {
        let removed = record("REMOVE", "1", Some(bucket(24, json!({}))), None);
        let (changes, unread) = read_all(&[removed, record("INSERT", "2", None, Some(bucket(24, json!({}))))]);
        assert_eq!((changes.len(), unread), (1, None));
    }

    #[test]
    fn the_sample_event_lays_out_holds_and_releases() {
        let event = serde_json::from_str(include_str!("../../../tests/events/availability.json")).unwrap();
        let (changes, unread) = read(event);
        assert!(unread.is_none());
        let free: Vec<u32> = changes.iter().map(|change| change.change.new.free).collect();
        assert_eq!(free, [24, 23, 24]);
    }
}
