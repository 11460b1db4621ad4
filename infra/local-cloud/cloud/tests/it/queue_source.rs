//! Messages of a queue to a function.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use local_cloud::clock::Clock;
use local_cloud::engine::Cloud;
use local_cloud::engine::sqs::{MessageAttribute, Outgoing};
use local_cloud::invoke::{Invoker, Outcome};
use local_cloud::sources::Sources;
use local_cloud::sources::queue::{Polled, QueueConsumer};
use local_cloud::template::model::{EventSource, QueueSource, Stack};
use serde_json::{Value, json};

use crate::recorder::{answered, cloud, drain, failed, function, make_queue, recorder, seconds};

/// A queue `orders` whose messages go to `dead` after two receives.
async fn orders(cloud: &Cloud) -> QueueSource {
    let dead = make_queue(cloud, "dead", &[]).await;
    let redrive = json!({ "deadLetterTargetArn": dead, "maxReceiveCount": 2 }).to_string();
    let queue_arn = make_queue(cloud, "orders", &[("VisibilityTimeout", "30"), ("RedrivePolicy", &redrive)]).await;
    QueueSource {
        queue_arn,
        batch_size: 10,
        window: Duration::ZERO,
        partial_responses: true,
        maximum_concurrency: None,
    }
}

fn consumer(cloud: &Cloud, invoker: &Invoker, source: &QueueSource) -> QueueConsumer {
    QueueConsumer::new(cloud.sqs.clone(), cloud.clock.clone(), invoker.clone(), "order-consumer", source)
}

async fn send(cloud: &Cloud, bodies: &[&str]) {
    for body in bodies {
        cloud.sqs.send("orders", Outgoing::text(*body)).await.unwrap();
    }
}

/// The bodies in an event.
fn bodies(event: &Value) -> Vec<&str> {
    event["Records"].as_array().unwrap().iter().map(|record| record["body"].as_str().unwrap()).collect()
}

/// Answers that the records whose body is `bad` failed.
fn refuse_bad(event: &Value) -> Outcome {
    let bad = event["Records"].as_array().unwrap().iter().filter(|record| record["body"] == "bad");
    let failures: Vec<Value> = bad.map(|record| json!({ "itemIdentifier": record["messageId"] })).collect();
    answered(json!({ "batchItemFailures": failures }))
}

#[tokio::test]
async fn one_bad_message_of_a_batch_comes_back_alone_and_ends_in_the_dead_letter_queue() {
    let cloud = cloud();
    let source = orders(&cloud).await;
    let (invoker, events) = recorder(refuse_bad);
    let consumer = consumer(&cloud, &invoker, &source);
    send(&cloud, &["a", "bad", "b"]).await;
    assert_eq!(consumer.poll_once().await.unwrap(), Polled { received: 3, succeeded: 2, throttled: false });
    seconds(&cloud, 29);
    assert_eq!(consumer.poll_once().await.unwrap(), Polled::default());
    seconds(&cloud, 1);
    assert_eq!(consumer.poll_once().await.unwrap(), Polled { received: 1, succeeded: 0, throttled: false });
    seconds(&cloud, 30);
    assert_eq!(consumer.poll_once().await.unwrap(), Polled::default());
    let dead = drain(&cloud, "dead").await;
    assert_eq!(dead.iter().map(|message| message.body.as_str()).collect::<Vec<_>>(), ["bad"]);
    assert_eq!(bodies(&events.lock().unwrap()[1]), ["bad"]);
}

#[tokio::test]
async fn a_failed_invocation_or_an_answer_without_sense_leaves_the_whole_batch() {
    for outcome in [failed(), answered(json!({ "batchItemFailures": [{ "itemIdentifier": "nobody" }] }))] {
        let cloud = cloud();
        let source = orders(&cloud).await;
        let (invoker, _) = recorder(move |_| outcome.clone());
        send(&cloud, &["a", "b"]).await;
        let polled = consumer(&cloud, &invoker, &source).poll_once().await.unwrap();
        assert_eq!(polled, Polled { received: 2, succeeded: 0, throttled: false });
        assert_eq!(cloud.sqs.counts("orders").await.unwrap().in_flight, 2);
    }
}

#[tokio::test]
async fn without_partial_responses_an_answer_is_success_whatever_it_says() {
    let cloud = cloud();
    let mut source = orders(&cloud).await;
    source.partial_responses = false;
    let (invoker, _) = recorder(refuse_bad);
    send(&cloud, &["bad"]).await;
    assert_eq!(consumer(&cloud, &invoker, &source).poll_once().await.unwrap().succeeded, 1);
    seconds(&cloud, 60);
    assert!(drain(&cloud, "orders").await.is_empty());
}

#[tokio::test]
async fn throttled_messages_are_back_in_sight_after_a_second() {
    let cloud = cloud();
    let source = orders(&cloud).await;
    let busy = Arc::new(AtomicBool::new(true));
    let now_busy = Arc::clone(&busy);
    let (invoker, _) = recorder(move |event| match now_busy.load(Ordering::Relaxed) {
        true => Outcome::Throttled,
        false => refuse_bad(event),
    });
    let consumer = consumer(&cloud, &invoker, &source);
    send(&cloud, &["a"]).await;
    assert!(consumer.poll_once().await.unwrap().throttled);
    busy.store(false, Ordering::Relaxed);
    assert_eq!(consumer.poll_once().await.unwrap().received, 0);
    seconds(&cloud, 1);
    assert_eq!(consumer.poll_once().await.unwrap().succeeded, 1);
}

#[tokio::test]
async fn a_batch_is_as_large_as_the_mapping_says() {
    let cloud = cloud();
    let mut source = orders(&cloud).await;
    let (invoker, events) = recorder(refuse_bad);
    for (batch_size, expected) in [(25, vec![25]), (4, vec![4, 4, 4])] {
        source.batch_size = batch_size;
        let consumer = consumer(&cloud, &invoker, &source);
        send(&cloud, &["x"; 25]).await;
        events.lock().unwrap().clear();
        for _ in &expected {
            consumer.poll_once().await.unwrap();
        }
        let sizes: Vec<usize> = events.lock().unwrap().iter().map(|event| bodies(event).len()).collect();
        assert_eq!(sizes, expected);
    }
}

#[tokio::test]
async fn a_batch_too_large_for_one_event_is_given_in_pieces() {
    let cloud = cloud();
    let source = orders(&cloud).await;
    let (invoker, events) = recorder(refuse_bad);
    let large = "x".repeat(1_000_000);
    send(&cloud, &[large.as_str(); 8]).await;
    let polled = consumer(&cloud, &invoker, &source).poll_once().await.unwrap();
    assert_eq!(polled, Polled { received: 8, succeeded: 8, throttled: false });
    let sizes: Vec<usize> = events.lock().unwrap().iter().map(|event| bodies(event).len()).collect();
    assert_eq!(sizes, [6, 2]);
}

#[tokio::test]
async fn the_event_is_as_aws_gives_it() {
    let cloud = cloud();
    let source = orders(&cloud).await;
    let (invoker, events) = recorder(refuse_bad);
    let kind = MessageAttribute { data_type: "String".into(), text: Some("order".into()), binary: None };
    let message =
        Outgoing { body: "hello".into(), attributes: [("kind".to_owned(), kind)].into(), ..Outgoing::default() };
    let sent = cloud.sqs.send("orders", message).await.unwrap();
    consumer(&cloud, &invoker, &source).poll_once().await.unwrap();
    let record = events.lock().unwrap()[0]["Records"][0].clone();
    assert!(!record["receiptHandle"].as_str().unwrap().is_empty());
    let expected = json!({
        "messageId": sent.message_id,
        "receiptHandle": record["receiptHandle"],
        "body": "hello",
        "attributes": {
            "ApproximateReceiveCount": "1",
            "SentTimestamp": "1700000000000",
            "SenderId": "000000000000",
            "ApproximateFirstReceiveTimestamp": "1700000000000",
        },
        "messageAttributes": {
            "kind": { "stringValue": "order", "stringListValues": [], "binaryListValues": [], "dataType": "String" },
        },
        "md5OfBody": "5d41402abc4b2a76b9719d911017c592",
        "eventSource": "aws:sqs",
        "eventSourceARN": "arn:aws:sqs:us-east-1:000000000000:orders",
        "awsRegion": "us-east-1",
    });
    assert_eq!(record, expected);
}

/// The loops, on the wall's clock: a message arrives, is taken at once, and a stop is heeded while they wait.
#[tokio::test]
async fn running_sources_take_messages_as_they_come_and_stop_when_told() {
    let cloud = Cloud::in_memory(Clock::wall()).unwrap();
    let source = orders(&cloud).await;
    let (taken, mut arrived) = tokio::sync::mpsc::unbounded_channel();
    let (invoker, _) = recorder(move |event| {
        taken.send(bodies(event).len()).unwrap();
        refuse_bad(event)
    });
    let mut consumer = function("order-consumer");
    consumer.sources = vec![EventSource::Queue(source)];
    let stack = Stack { functions: vec![consumer], ..Stack::default() };
    let sources = Sources::open(&cloud, &stack, &invoker, Arc::new(|_, _| true)).await.unwrap();
    let running = sources.start();
    for _ in 0..3 {
        send(&cloud, &["a"]).await;
        assert_eq!(tokio::time::timeout(Duration::from_secs(10), arrived.recv()).await.unwrap(), Some(1));
    }
    running.asynchronous.accept("order-consumer", br#"{"Records":[]}"#).await.unwrap();
    assert_eq!(tokio::time::timeout(Duration::from_secs(10), arrived.recv()).await.unwrap(), Some(0));
    tokio::time::timeout(Duration::from_secs(10), running.stop(Duration::from_secs(60))).await.unwrap();
}
