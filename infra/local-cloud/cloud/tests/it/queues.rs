//! What queues do over days and restarts, and how fast they take messages.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use local_cloud::clock::Clock;
use local_cloud::engine::Cloud;
use local_cloud::engine::sqs::{Counts, Outgoing, Receive, SqsError};
use local_cloud::template::model::{Queue, Stack, Table};

use crate::target::{START_MS, driven};

fn attributes(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[tokio::test]
async fn a_message_past_its_retention_is_gone() {
    let (cloud, _) = driven();
    cloud.sqs.create_queue("orders", attributes(&[("MessageRetentionPeriod", "60")])).await.expect("a queue");
    cloud.sqs.send("orders", Outgoing::text("old")).await.expect("sent");
    cloud.clock.advance(Duration::from_secs(61));
    cloud.sqs.send("orders", Outgoing::text("new")).await.expect("sent");
    cloud.sweep().await.expect("a sweep");
    assert_eq!(cloud.sqs.counts("orders").await.expect("counts").visible, 1);
    let messages = cloud.sqs.receive("orders", Receive::default()).await.expect("a receive");
    assert_eq!(messages.iter().map(|message| message.body.as_str()).collect::<Vec<_>>(), ["new"]);
}

#[tokio::test]
async fn an_expired_message_is_not_received_even_before_a_sweep() {
    let (cloud, _) = driven();
    cloud.sqs.create_queue("orders", attributes(&[("MessageRetentionPeriod", "60")])).await.expect("a queue");
    cloud.sqs.send("orders", Outgoing::text("old")).await.expect("sent");
    cloud.clock.advance(Duration::from_secs(61));
    assert_eq!(cloud.sqs.receive("orders", Receive::default()).await.expect("a receive"), []);
}

#[tokio::test]
async fn a_long_poll_wakes_for_a_delayed_message_and_ends_when_its_wait_is_over() {
    let (cloud, _) = driven();
    cloud.sqs.create_queue("orders", BTreeMap::new()).await.expect("a queue");
    cloud.sqs.send("orders", Outgoing { delay_s: Some(5), ..Outgoing::text("later") }).await.expect("sent");
    let poll = |wait_s| {
        let sqs = cloud.sqs.clone();
        tokio::spawn(async move { sqs.receive("orders", Receive { wait_s: Some(wait_s), ..Receive::default() }).await })
    };
    let short = poll(2);
    let long = poll(20);
    tokio::task::yield_now().await;
    cloud.clock.advance(Duration::from_secs(2));
    assert_eq!(short.await.expect("a poll").expect("an answer"), []);
    assert!(!long.is_finished());
    cloud.clock.advance(Duration::from_secs(3));
    assert_eq!(long.await.expect("a poll").expect("an answer").len(), 1);
}

#[tokio::test]
async fn one_message_goes_to_one_of_many_pollers() {
    let (cloud, _) = driven();
    cloud.sqs.create_queue("orders", BTreeMap::new()).await.expect("a queue");
    let polls: Vec<_> = (0..20)
        .map(|_| {
            let sqs = cloud.sqs.clone();
            tokio::spawn(async move { sqs.receive("orders", Receive { wait_s: Some(20), ..Receive::default() }).await })
        })
        .collect();
    tokio::task::yield_now().await;
    cloud.sqs.send("orders", Outgoing::text("one")).await.expect("sent");
    tokio::task::yield_now().await;
    cloud.clock.advance(Duration::from_secs(20));
    let mut received = 0;
    for poll in polls {
        received += poll.await.expect("a poll").expect("an answer").len();
    }
    assert_eq!(received, 1);
}

/// One who waits is woken for a message, and the next in line for the next: time stands still, so nothing else
/// wakes them.
#[tokio::test]
async fn everybody_in_line_gets_a_message() {
    let (cloud, _) = driven();
    cloud.sqs.create_queue("orders", BTreeMap::new()).await.expect("a queue");
    let poll = |_| {
        let sqs = cloud.sqs.clone();
        let one = Receive { max: 1, wait_s: Some(20), ..Receive::default() };
        tokio::spawn(async move { sqs.receive("orders", one).await })
    };
    let polls: Vec<_> = (0..5).map(poll).collect();
    tokio::task::yield_now().await;
    for _ in 0..5 {
        cloud.sqs.send("orders", Outgoing::text("one")).await.expect("sent");
    }
    for poll in polls {
        let waited = tokio::time::timeout(Duration::from_secs(10), poll).await.expect("nobody waits for ever");
        assert_eq!(waited.expect("a poll").expect("an answer").len(), 1);
    }
}

#[tokio::test]
async fn receipts_and_counts_survive_a_restart() {
    let dir = tempfile::tempdir().expect("a directory");
    let clock = Clock::driven(START_MS);
    let handle = {
        let cloud = Cloud::open(dir.path(), clock.clone()).expect("engines");
        cloud.sqs.create_queue("orders", BTreeMap::new()).await.expect("a queue");
        for body in ["a", "b"] {
            cloud.sqs.send("orders", Outgoing::text(body)).await.expect("sent");
        }
        let taken = cloud.sqs.receive("orders", Receive { max: 1, ..Receive::default() }).await.expect("a receive");
        taken[0].receipt_handle.clone()
    };
    let cloud = Cloud::open(dir.path(), clock).expect("engines again");
    let counts = cloud.sqs.counts("orders").await.expect("counts");
    assert_eq!(counts, Counts { visible: 1, in_flight: 1, delayed: 0 });
    cloud.sqs.delete("orders", &handle).await.expect("a delete");
    assert_eq!(cloud.sqs.counts("orders").await.expect("counts").in_flight, 0);
}

#[tokio::test]
async fn a_queue_is_purged_at_most_once_a_minute() {
    let (cloud, _) = driven();
    cloud.sqs.create_queue("orders", BTreeMap::new()).await.expect("a queue");
    cloud.sqs.purge("orders").await.expect("a purge");
    assert!(matches!(cloud.sqs.purge("orders").await, Err(SqsError::PurgeQueueInProgress(_))));
    cloud.clock.advance(Duration::from_secs(60));
    cloud.sqs.purge("orders").await.expect("another purge");
}

/// A stack with a table, a queue with dead letters, and a schedule group.
fn stack(visibility: &str) -> Stack {
    let queue = |name: &str, attributes| Queue {
        logical_id: name.to_owned(),
        name: name.to_owned(),
        arn: format!("arn:aws:sqs:us-east-1:000000000000:{name}"),
        url: format!("http://127.0.0.1/000000000000/{name}"),
        attributes,
    };
    let policy = r#"{"deadLetterTargetArn":"arn:aws:sqs:us-east-1:000000000000:dead","maxReceiveCount":3}"#;
    Stack {
        tables: vec![Table {
            logical_id: "Orders".to_owned(),
            name: "orders".to_owned(),
            arn: "arn:aws:dynamodb:us-east-1:000000000000:table/orders".to_owned(),
            create: serde_json::json!({
                "TableName": "orders",
                "BillingMode": "PAY_PER_REQUEST",
                "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}],
                "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
            }),
            ttl_attribute: Some("expires".to_owned()),
            stream_arn: None,
        }],
        queues: vec![
            queue("orders", attributes(&[("VisibilityTimeout", visibility), ("RedrivePolicy", policy)])),
            queue("dead", BTreeMap::new()),
        ],
        schedule_groups: vec!["orders".to_owned()],
        ..Stack::default()
    }
}

#[tokio::test]
async fn provisioning_again_keeps_what_is_there() {
    let (cloud, wire) = driven();
    cloud.provision(&stack("30")).await.expect("a first time");
    cloud.sqs.send("orders", Outgoing::text("kept")).await.expect("sent");
    let client = aws_sdk_dynamodb::Client::new(&wire.sdk_config());
    let put = client.put_item().table_name("orders").item("pk", crate::dynamodb::text("o-1"));
    put.send().await.expect("an item");

    cloud.provision(&stack("45")).await.expect("a second time");
    assert_eq!(cloud.sqs.counts("orders").await.expect("counts").visible, 1);
    assert_eq!(cloud.sqs.attributes("orders").await.expect("attributes")["VisibilityTimeout"], "45");
    let found = client.get_item().table_name("orders").key("pk", crate::dynamodb::text("o-1")).send().await;
    assert!(found.expect("a get").item.is_some());
    let ttl = client.describe_time_to_live().table_name("orders").send().await.expect("a look");
    let ttl = ttl.time_to_live_description.expect("a description");
    assert_eq!(ttl.attribute_name(), Some("expires"));
}

#[tokio::test]
async fn a_table_that_changed_in_the_template_is_refused() {
    let (cloud, _) = driven();
    cloud.provision(&stack("30")).await.expect("a first time");
    let refused = "table orders has other keys, indexes or stream than the template says: start over with --fresh";
    let stream = serde_json::json!({"StreamEnabled": true, "StreamViewType": "NEW_IMAGE"});
    let keys = serde_json::json!([{"AttributeName": "pk", "KeyType": "HASH"}]);
    let index = serde_json::json!([{"IndexName": "by-pk", "KeySchema": keys, "Projection": {"ProjectionType": "ALL"}}]);
    let other = serde_json::json!([{"AttributeName": "id", "KeyType": "HASH"}]);
    for (property, value) in [("StreamSpecification", stream), ("GlobalSecondaryIndexes", index), ("KeySchema", other)]
    {
        let mut changed = stack("30");
        changed.tables[0].create[property] = value;
        let error = cloud.provision(&changed).await.expect_err("another table");
        assert_eq!(error.to_string(), refused, "{property}");
    }
    // Absent and empty are the same.
    let mut same = stack("30");
    same.tables[0].create["GlobalSecondaryIndexes"] = serde_json::json!([]);
    same.tables[0].create["StreamSpecification"] = serde_json::json!({"StreamEnabled": false});
    cloud.provision(&same).await.expect("the same table");
}

#[tokio::test]
async fn a_message_that_stays_in_sight_comes_once_in_a_receive() {
    let (cloud, _) = driven();
    cloud.sqs.create_queue("orders", BTreeMap::new()).await.expect("a queue");
    for body in ["a", "b"] {
        cloud.sqs.send("orders", Outgoing::text(body)).await.expect("sent");
        cloud.clock.advance(Duration::from_millis(1));
    }
    let at_once = Receive { visibility_s: Some(0), ..Receive::default() };
    for times in 1..=2 {
        let messages = cloud.sqs.receive("orders", at_once).await.expect("a receive");
        let bodies: std::collections::BTreeSet<&str> = messages.iter().map(|message| message.body.as_str()).collect();
        assert_eq!((bodies.len(), messages.len()), (2, 2));
        assert!(messages.iter().all(|message| message.receive_count == times));
    }
}

#[tokio::test]
async fn what_cannot_be_provisioned_is_named() {
    let (cloud, _) = driven();
    let error = cloud.provision(&stack("-1")).await.expect_err("a bad attribute");
    assert_eq!(error.to_string(), "queue orders: Invalid value for the parameter VisibilityTimeout.");
}

/// Not a benchmark: a floor, far under what the engine does (thousands), that catches a commit that waits for the
/// disk.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sends_do_not_wait_for_the_disk() {
    let dir = tempfile::tempdir().expect("a directory");
    let cloud = Cloud::open(dir.path(), Clock::wall()).expect("engines");
    cloud.sqs.create_queue("orders", BTreeMap::new()).await.expect("a queue");
    let started = Instant::now();
    let senders: Vec<_> = (0..8)
        .map(|_| {
            let sqs = cloud.sqs.clone();
            tokio::spawn(async move {
                for _ in 0..500 {
                    sqs.send("orders", Outgoing::text("x".repeat(200))).await.expect("sent");
                }
            })
        })
        .collect();
    for sender in senders {
        sender.await.expect("a sender");
    }
    let each_s = 4_000.0 / started.elapsed().as_secs_f64();
    println!("{each_s:.0} sends a second");
    assert_eq!(cloud.sqs.counts("orders").await.expect("counts").visible, 4_000);
    assert!(each_s > 500.0, "{each_s:.0} sends a second");
}

#[tokio::test]
async fn the_engines_make_what_a_template_declares() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../template/tests/everything.yaml");
    let parameters = [("Stage".to_owned(), "prod".to_owned())].into();
    let stack = local_cloud::template::read(&path, &parameters).expect("a good template");
    let cloud = Cloud::in_memory(Clock::driven(0)).expect("engines");
    cloud.provision(&stack).await.unwrap_or_else(|error| panic!("{error}"));
}
