//! Changes of a table to a function, in order.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use local_cloud::clock::Clock;
use local_cloud::engine::Cloud;
use local_cloud::invoke::{Invoker, Outcome};
use local_cloud::sources::Sources;
use local_cloud::sources::stream::{StreamConsumer, StreamStep};
use local_cloud::template::model::{EventSource, Stack, StreamSource, Table};
use serde_json::{Value, json};

use crate::recorder::{answered, cloud, drain, failed, function, make_queue, recorder, seconds};

const STREAM: &str = "arn:aws:dynamodb:us-east-1:000000000000:table/stock/stream/2023-11-14T22:13:20.000";

async fn call(cloud: &Cloud, operation: &str, body: Value) {
    let request = Request::post("/")
        .header("x-amz-target", format!("DynamoDB_20120810.{operation}"))
        .body(Bytes::from(body.to_string()))
        .unwrap();
    let response = cloud.call(request).await;
    assert!(response.status().is_success(), "{:?}", response.body());
}

async fn table(cloud: &Cloud) -> StreamSource {
    let create = json!({
        "TableName": "stock",
        "AttributeDefinitions": [{ "AttributeName": "id", "AttributeType": "S" }],
        "KeySchema": [{ "AttributeName": "id", "KeyType": "HASH" }],
        "BillingMode": "PAY_PER_REQUEST",
        "StreamSpecification": { "StreamEnabled": true, "StreamViewType": "NEW_AND_OLD_IMAGES" },
    });
    call(cloud, "CreateTable", create).await;
    StreamSource {
        table: "stock".into(),
        batch_size: 100,
        window: Duration::ZERO,
        from_start: true,
        filters: Vec::new(),
        retries: None,
        bisect: false,
        partial_responses: false,
        on_failure: None,
    }
}

async fn put(cloud: &Cloud, ids: &[&str]) {
    for id in ids {
        let item = json!({ "TableName": "stock", "Item": { "id": { "S": id }, "free": { "N": "5" } } });
        call(cloud, "PutItem", item).await;
    }
}

fn consumer(cloud: &Cloud, invoker: &Invoker, source: &StreamSource) -> StreamConsumer {
    StreamConsumer::new(cloud.clone(), invoker.clone(), &function("availability"), source, STREAM).unwrap()
}

/// The keys in an event, in its order.
fn keys(event: &Value) -> Vec<String> {
    let records = event["Records"].as_array().unwrap();
    records.iter().map(|record| record["dynamodb"]["Keys"]["id"]["S"].as_str().unwrap().to_owned()).collect()
}

fn batches(events: &crate::recorder::Events) -> Vec<Vec<String>> {
    events.lock().unwrap().iter().map(keys).collect()
}

/// Steps until there is nothing to do, each later than the longest wait before a retry.
async fn settle(cloud: &Cloud, consumer: &StreamConsumer) {
    for _ in 0..100 {
        seconds(cloud, 31);
        if consumer.poll_once().await.unwrap() == StreamStep::Idle {
            return;
        }
    }
    panic!("never idle");
}

#[tokio::test]
async fn changes_come_in_order_in_batches_as_aws_gives_them() {
    let cloud = cloud();
    let mut source = table(&cloud).await;
    source.batch_size = 2;
    let (invoker, events) = recorder(|_| answered(json!(null)));
    let consumer = consumer(&cloud, &invoker, &source);
    put(&cloud, &["a", "b", "c"]).await;
    assert_eq!(consumer.poll_once().await.unwrap(), StreamStep::Advanced(2));
    assert_eq!(consumer.poll_once().await.unwrap(), StreamStep::Advanced(1));
    assert_eq!(consumer.poll_once().await.unwrap(), StreamStep::Idle);
    assert_eq!(batches(&events), [vec!["a", "b"], vec!["c"]]);
    let record = events.lock().unwrap()[0]["Records"][0].clone();
    assert_eq!(record["eventName"], "INSERT");
    assert_eq!(record["eventSource"], "aws:dynamodb");
    assert_eq!(record["eventSourceARN"], STREAM);
    assert_eq!(record["awsRegion"], "us-east-1");
    let change = &record["dynamodb"];
    assert_eq!(change["NewImage"], json!({ "id": { "S": "a" }, "free": { "N": "5" } }));
    assert!(change.get("OldImage").is_none());
    assert_eq!(change["StreamViewType"], "NEW_AND_OLD_IMAGES");
    assert_eq!(change["ApproximateCreationDateTime"].as_f64(), Some(1_700_000_000.0));
    for field in ["SequenceNumber", "SizeBytes"] {
        assert!(change.get(field).is_some(), "{field}");
    }
}

#[tokio::test]
async fn a_failing_batch_holds_the_others_up_until_it_succeeds() {
    let cloud = cloud();
    let mut source = table(&cloud).await;
    source.batch_size = 1;
    let tries = Arc::new(AtomicU32::new(0));
    let (invoker, events) = recorder(move |_| match tries.fetch_add(1, Ordering::Relaxed) {
        0..3 => failed(),
        _ => answered(json!(null)),
    });
    let consumer = consumer(&cloud, &invoker, &source);
    put(&cloud, &["a", "b"]).await;
    assert_eq!(consumer.poll_once().await.unwrap(), StreamStep::Failed);
    // Not at once again.
    assert!(matches!(consumer.poll_once().await.unwrap(), StreamStep::Waiting(_)));
    settle(&cloud, &consumer).await;
    assert_eq!(batches(&events), [["a"], ["a"], ["a"], ["a"], ["b"]]);
}

#[tokio::test]
async fn a_batch_without_retries_left_is_given_up_and_told_of() {
    let cloud = cloud();
    let mut source = table(&cloud).await;
    source.retries = Some(1);
    source.on_failure = Some(make_queue(&cloud, "failures", &[]).await);
    let (invoker, events) =
        recorder(|event| if keys(event).contains(&"bad".into()) { failed() } else { answered(json!(null)) });
    let consumer = consumer(&cloud, &invoker, &source);
    put(&cloud, &["a", "bad"]).await;
    settle(&cloud, &consumer).await;
    put(&cloud, &["b"]).await;
    settle(&cloud, &consumer).await;
    assert_eq!(batches(&events), [vec!["a", "bad"], vec!["a", "bad"], vec!["b"]]);
    let told = drain(&cloud, "failures").await;
    assert_eq!(told.len(), 1);
    let record: Value = serde_json::from_str(&told[0].body).unwrap();
    assert_eq!(record["requestContext"]["condition"], "RetryAttemptsExhausted");
    assert_eq!(record["requestContext"]["approximateInvokeCount"], 2);
    let info = &record["DDBStreamBatchInfo"];
    let first = events.lock().unwrap()[0]["Records"][0]["dynamodb"]["SequenceNumber"].clone();
    let last = events.lock().unwrap()[0]["Records"][1]["dynamodb"]["SequenceNumber"].clone();
    assert_eq!((&info["startSequenceNumber"], &info["endSequenceNumber"]), (&first, &last));
    assert_eq!(info["batchSize"], 2);
    assert_eq!(info["streamArn"], STREAM);
    assert_eq!(info["approximateArrivalOfFirstRecord"], "2023-11-14T22:13:20Z");
}

#[tokio::test]
async fn bisecting_finds_the_bad_record_and_gives_up_that_one_alone() {
    let cloud = cloud();
    let mut source = table(&cloud).await;
    source.retries = Some(1);
    source.bisect = true;
    source.on_failure = Some(make_queue(&cloud, "failures", &[]).await);
    let (invoker, events) =
        recorder(|event| if keys(event).contains(&"bad".into()) { failed() } else { answered(json!(null)) });
    let consumer = consumer(&cloud, &invoker, &source);
    put(&cloud, &["a", "b", "c", "d", "bad", "e", "f", "g"]).await;
    settle(&cloud, &consumer).await;
    let good: Vec<String> =
        batches(&events).into_iter().filter(|batch| !batch.contains(&"bad".into())).flatten().collect();
    assert_eq!(good, ["a", "b", "c", "d", "e", "f", "g"]);
    let told = drain(&cloud, "failures").await;
    assert_eq!(told.len(), 1);
    let record: Value = serde_json::from_str(&told[0].body).unwrap();
    assert_eq!(record["DDBStreamBatchInfo"]["batchSize"], 1);
}

#[tokio::test]
async fn a_partial_response_goes_on_from_the_first_failure() {
    let cloud = cloud();
    let mut source = table(&cloud).await;
    source.partial_responses = true;
    let tries = Arc::new(AtomicU32::new(0));
    let (invoker, events) = recorder(move |event| {
        let number = |index: usize| event["Records"][index]["dynamodb"]["SequenceNumber"].clone();
        match tries.fetch_add(1, Ordering::Relaxed) {
            0 => answered(
                json!({ "batchItemFailures": [{ "itemIdentifier": number(2) }, { "itemIdentifier": number(1) }] }),
            ),
            1 => answered(json!({ "batchItemFailures": [{ "itemIdentifier": "nobody" }] })),
            _ => answered(json!({ "batchItemFailures": [] })),
        }
    });
    let consumer = consumer(&cloud, &invoker, &source);
    put(&cloud, &["a", "b", "c"]).await;
    settle(&cloud, &consumer).await;
    assert_eq!(batches(&events), [vec!["a", "b", "c"], vec!["b", "c"], vec!["b", "c"]]);
}

#[tokio::test]
async fn being_throttled_does_not_count_as_a_failure() {
    let cloud = cloud();
    let mut source = table(&cloud).await;
    source.retries = Some(0);
    let tries = Arc::new(AtomicU32::new(0));
    let (invoker, events) = recorder(move |_| match tries.fetch_add(1, Ordering::Relaxed) {
        0..5 => Outcome::Throttled,
        _ => answered(json!(null)),
    });
    let consumer = consumer(&cloud, &invoker, &source);
    put(&cloud, &["a"]).await;
    settle(&cloud, &consumer).await;
    assert_eq!(batches(&events).len(), 6);
}

#[tokio::test]
async fn filtered_records_are_passed_over() {
    let cloud = cloud();
    let mut source = table(&cloud).await;
    source.filters = vec![json!({ "eventName": ["INSERT"], "dynamodb": { "Keys": { "id": { "S": ["x1", "x2"] } } } })];
    let (invoker, events) = recorder(|_| answered(json!(null)));
    let consumer = consumer(&cloud, &invoker, &source);
    put(&cloud, &["a", "x1", "b", "x2", "x1", "c"]).await;
    assert_eq!(consumer.poll_once().await.unwrap(), StreamStep::Advanced(6));
    put(&cloud, &["d"]).await;
    assert_eq!(consumer.poll_once().await.unwrap(), StreamStep::Advanced(1));
    assert_eq!(batches(&events), [["x1", "x2"]]);
}

#[tokio::test]
async fn another_consumer_goes_on_where_the_first_stopped() {
    let cloud = cloud();
    let source = table(&cloud).await;
    let (invoker, events) = recorder(|_| answered(json!(null)));
    put(&cloud, &["a"]).await;
    consumer(&cloud, &invoker, &source).poll_once().await.unwrap();
    put(&cloud, &["b"]).await;
    consumer(&cloud, &invoker, &source).poll_once().await.unwrap();
    assert_eq!(batches(&events), [["a"], ["b"]]);
}

#[tokio::test]
async fn a_mapping_from_the_end_sees_only_what_comes_after_it() {
    let cloud = cloud();
    let mut source = table(&cloud).await;
    source.from_start = false;
    let (invoker, events) = recorder(|_| answered(json!(null)));
    put(&cloud, &["before"]).await;
    let consumer = consumer(&cloud, &invoker, &source);
    consumer.prepare().await.unwrap();
    put(&cloud, &["after"]).await;
    consumer.poll_once().await.unwrap();
    assert_eq!(batches(&events), [["after"]]);
}

/// The loops of streams and schedules, on the wall's clock.
#[tokio::test]
async fn running_sources_take_changes_and_fire_schedules_as_they_come() {
    let cloud = Cloud::in_memory(Clock::wall()).unwrap();
    let stream = table(&cloud).await;
    let (taken, mut arrived) = tokio::sync::mpsc::unbounded_channel();
    let (invoker, _) = recorder(move |event| {
        taken.send(event.clone()).unwrap();
        answered(json!(null))
    });
    let mut consumer = function("availability");
    consumer.sources = vec![EventSource::Stream(stream)];
    let table = Table {
        logical_id: "Stock".into(),
        name: "stock".into(),
        arn: "arn:aws:dynamodb:us-east-1:000000000000:table/stock".into(),
        create: json!({}),
        ttl_attribute: None,
        stream_arn: Some(STREAM.into()),
    };
    let stack = Stack { functions: vec![consumer], tables: vec![table], ..Stack::default() };
    let running = Sources::open(&cloud, &stack, &invoker, Arc::new(|_, _| true)).await.unwrap().start();
    let mut next = async || tokio::time::timeout(Duration::from_secs(10), arrived.recv()).await.unwrap().unwrap();
    for id in ["a", "b"] {
        put(&cloud, &[id]).await;
        assert_eq!(keys(&next().await), [id]);
    }
    // Made while the loop waits for nothing: it must notice.
    // Two seconds, cut to a whole one: never so near that it has passed when it arrives.
    let at = jiff::Timestamp::from_millisecond(cloud.clock.now_ms() + 2000).unwrap();
    let definition = serde_json::from_value(json!({
        "ScheduleExpression": at.strftime("at(%Y-%m-%dT%H:%M:%S)").to_string(),
        "FlexibleTimeWindow": { "Mode": "OFF" },
        "Target": {
            "Arn": "arn:aws:lambda:us-east-1:000000000000:function:availability",
            "RoleArn": "arn:aws:iam::000000000000:role/scheduler",
            "Input": r#"{"fired":true}"#,
        },
    }))
    .unwrap();
    cloud.scheduler.create("default", "soon", definition, None).await.unwrap();
    assert_eq!(next().await, json!({ "fired": true }));
    tokio::time::timeout(Duration::from_secs(10), running.stop(Duration::from_secs(60))).await.unwrap();
}

#[tokio::test]
async fn a_mapping_to_a_table_without_a_stream_says_what_to_add() {
    let cloud = cloud();
    let mut consumer = function("availability");
    consumer.sources = vec![EventSource::Stream(table(&cloud).await)];
    let (invoker, _) = recorder(|_| failed());
    let stack = Stack { functions: vec![consumer], ..Stack::default() };
    let error = Sources::open(&cloud, &stack, &invoker, Arc::new(|_, _| true)).await.err().unwrap();
    assert_eq!(error.to_string(), "function availability: table stock has no stream: give it a StreamSpecification");
}
