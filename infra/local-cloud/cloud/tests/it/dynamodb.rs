//! DynamoDB through the SDK: errors with their items, costs, tokens, expiry and streams.

use std::collections::HashMap;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, AttributeValue, BillingMode, ConditionCheck, GlobalSecondaryIndex, KeySchemaElement, KeyType,
    Projection, ProjectionType, Put, ReturnConsumedCapacity, ReturnValuesOnConditionCheckFailure, ScalarAttributeType,
    StreamSpecification, StreamViewType, TimeToLiveSpecification, TransactWriteItem,
};
use local_cloud::clock::Clock;
use local_cloud::engine::Cloud;
use local_cloud::sources::stream::{StreamConsumer, StreamStep};
use local_cloud::template::model::StreamSource;
use local_cloud::wire::Wire;

use crate::recorder::{answered, function, recorder};
use crate::target::{START_MS, driven};

pub(crate) fn text(value: impl Into<String>) -> AttributeValue {
    AttributeValue::S(value.into())
}

pub(crate) fn number(value: i64) -> AttributeValue {
    AttributeValue::N(value.to_string())
}

/// A table with the key `pk`, and, with `extras`, a stream and an index by `buyer`.
pub(crate) async fn make_table(client: &Client, name: &str, extras: bool) {
    let attribute = |name: &str| {
        let attribute = AttributeDefinition::builder().attribute_name(name);
        attribute.attribute_type(ScalarAttributeType::S).build().expect("an attribute")
    };
    let key =
        |name: &str| KeySchemaElement::builder().attribute_name(name).key_type(KeyType::Hash).build().expect("a key");
    let mut request = client.create_table().table_name(name).billing_mode(BillingMode::PayPerRequest);
    request = request.attribute_definitions(attribute("pk")).key_schema(key("pk"));
    if extras {
        let everything = Projection::builder().projection_type(ProjectionType::All).build();
        let index = GlobalSecondaryIndex::builder().index_name("by-buyer").key_schema(key("buyer"));
        request = request.attribute_definitions(attribute("buyer"));
        request = request.global_secondary_indexes(index.projection(everything).build().expect("an index"));
        let stream = StreamSpecification::builder().stream_enabled(true);
        let stream = stream.stream_view_type(StreamViewType::NewAndOldImages);
        request = request.stream_specification(stream.build().expect("a stream"));
    }
    request.send().await.expect("a table");
}

async fn put(client: &Client, table: &str, pk: &str) {
    client.put_item().table_name(table).item("pk", text(pk)).send().await.expect("an item");
}

#[tokio::test]
async fn a_failed_condition_gives_the_item_it_met() {
    let (_, wire) = driven();
    let client = Client::new(&wire.sdk_config());
    make_table(&client, "orders", false).await;
    client
        .put_item()
        .table_name("orders")
        .item("pk", text("o-1"))
        .item("state", text("PAID"))
        .send()
        .await
        .expect("one");

    let update = client.update_item().table_name("orders").key("pk", text("o-1")).update_expression("SET note = :n");
    let update = update.condition_expression("attribute_not_exists(pk)").expression_attribute_values(":n", text("x"));
    let update = update.return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
    let error = update.send().await.expect_err("a failed condition").into_service_error();
    let aws_sdk_dynamodb::operation::update_item::UpdateItemError::ConditionalCheckFailedException(failed) = error
    else {
        panic!("{error:?}");
    };
    assert_eq!(failed.item.expect("the item")["state"], text("PAID"));
}

#[tokio::test]
async fn a_cancelled_transaction_gives_a_reason_for_each_action() {
    let (_, wire) = driven();
    let client = Client::new(&wire.sdk_config());
    make_table(&client, "orders", false).await;
    put(&client, "orders", "o-1").await;

    let fresh = Put::builder().table_name("orders").item("pk", text("o-2")).build().expect("a put");
    let taken = ConditionCheck::builder().table_name("orders").key("pk", text("o-1"));
    let taken = taken.condition_expression("attribute_not_exists(pk)");
    let taken = taken.return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
    let transaction = client.transact_write_items().transact_items(TransactWriteItem::builder().put(fresh).build());
    let taken = TransactWriteItem::builder().condition_check(taken.build().expect("a check")).build();
    let error = transaction.transact_items(taken).send().await.expect_err("a cancellation").into_service_error();
    let aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError::TransactionCanceledException(
        cancelled,
    ) = error
    else {
        panic!("{error:?}");
    };
    let reasons = cancelled.cancellation_reasons();
    let codes: Vec<_> = reasons.iter().filter_map(|reason| reason.code()).collect();
    assert_eq!(codes, ["None", "ConditionalCheckFailed"]);
    assert_eq!(reasons[1].item().expect("the item")["pk"], text("o-1"));
    let absent = client.get_item().table_name("orders").key("pk", text("o-2")).send().await.expect("a get");
    assert_eq!(absent.item, None);
}

#[tokio::test]
async fn a_table_that_is_not_there_is_refused_by_name() {
    let (_, wire) = driven();
    let client = Client::new(&wire.sdk_config());
    let error = client.get_item().table_name("nowhere").key("pk", text("x")).send().await.expect_err("no table");
    assert!(error.into_service_error().is_resource_not_found_exception());
}

#[tokio::test]
async fn a_write_costs_a_unit_for_each_kilobyte_and_each_index() {
    let (_, wire) = driven();
    let client = Client::new(&wire.sdk_config());
    make_table(&client, "plain", false).await;
    make_table(&client, "indexed", true).await;
    let cost = async |table: &str, item: HashMap<String, AttributeValue>| {
        let request = client.put_item().table_name(table).set_item(Some(item));
        let answer = request.return_consumed_capacity(ReturnConsumedCapacity::Total).send().await.expect("a put");
        answer.consumed_capacity.expect("a cost").capacity_units.expect("units")
    };
    let item = |pk: &str, filler: usize, buyer: Option<&str>| {
        let mut item = HashMap::from([("pk".to_owned(), text(pk)), ("filler".to_owned(), text("x".repeat(filler)))]);
        item.extend(buyer.map(|buyer| ("buyer".to_owned(), text(buyer))));
        item
    };
    // table, item, units
    let cases = [
        ("plain", item("a", 10, None), 1.0),
        ("plain", item("b", 1_100, None), 2.0),
        // 1,024 bytes to the byte: names and values.
        ("plain", item("c", 1_024 - 2 - 1 - 6, None), 1.0),
        ("plain", item("d", 1_025 - 2 - 1 - 6, None), 2.0),
        // Not in the index without its key; one more with it; two more when the key changes (one out, one in).
        ("indexed", item("a", 10, None), 1.0),
        ("indexed", item("a", 10, Some("b-1")), 2.0),
        ("indexed", item("a", 10, Some("b-2")), 3.0),
    ];
    for (number, (table, item, units)) in cases.into_iter().enumerate() {
        assert_eq!(cost(table, item).await, units, "case {number}");
    }
}

#[tokio::test]
async fn a_transaction_costs_twice_and_its_token_makes_it_once() {
    let (cloud, wire) = driven();
    let client = Client::new(&wire.sdk_config());
    make_table(&client, "ledger", false).await;
    let add = |token: &str, amount: i64| {
        let update = aws_sdk_dynamodb::types::Update::builder().table_name("ledger").key("pk", text("balance"));
        let update = update.update_expression("ADD amount :a").expression_attribute_values(":a", number(amount));
        let action = TransactWriteItem::builder().update(update.build().expect("an update")).build();
        client.transact_write_items().transact_items(action).client_request_token(token).send()
    };
    add("t-1", 5).await.expect("a transaction");
    assert_eq!(wire.calls().last().expect("a call").write_units, 2.0);
    add("t-1", 5).await.expect("the same again");
    let other = add("t-1", 6).await.expect_err("another under the same token").into_service_error();
    assert!(other.is_idempotent_parameter_mismatch_exception(), "{other:?}");
    let balance = async || {
        let item = client.get_item().table_name("ledger").key("pk", text("balance")).send().await.expect("a get");
        item.item.expect("an item")["amount"].clone()
    };
    assert_eq!(balance().await, number(5));
    // A token is forgotten after ten minutes.
    cloud.clock.advance(Duration::from_secs(601));
    add("t-1", 5).await.expect("a new transaction");
    assert_eq!(balance().await, number(10));
}

#[tokio::test]
async fn expired_items_go_when_they_are_swept_and_are_in_the_stream() {
    let (cloud, wire) = driven();
    let client = Client::new(&wire.sdk_config());
    make_table(&client, "connections", true).await;
    let ttl = TimeToLiveSpecification::builder().enabled(true).attribute_name("expires").build().expect("a setting");
    client.update_time_to_live().table_name("connections").time_to_live_specification(ttl).send().await.expect("a TTL");
    let expires = START_MS / 1_000 + 60;
    let item = client.put_item().table_name("connections").item("pk", text("c-1")).item("expires", number(expires));
    item.send().await.expect("an item");

    assert_eq!(cloud.dynamodb.sweep_ttl().await.expect("a sweep"), 0);
    cloud.clock.advance(Duration::from_secs(61));
    assert_eq!(cloud.dynamodb.sweep_ttl().await.expect("a sweep"), 1);
    let records = cloud.dynamodb.stream_records("connections", None, 10).await.expect("records");
    let last = &records.last().expect("a record").event();
    assert_eq!(last["eventName"], "REMOVE");
    assert_eq!(last["userIdentity"]["principalId"], "dynamodb.amazonaws.com");
}

#[tokio::test]
async fn a_stream_gives_changes_in_order_and_a_reader_goes_on_where_it_stopped() {
    let dir = tempfile::tempdir().expect("a directory");
    let clock = Clock::driven(START_MS);
    {
        let cloud = Cloud::open(dir.path(), clock.clone()).expect("engines");
        let client = Client::new(&Wire::new(cloud.clone()).sdk_config());
        make_table(&client, "orders", true).await;
        let mut writes = cloud.dynamodb.writes();
        writes.mark_unchanged();
        assert_eq!(cloud.dynamodb.latest_sequence_number("orders").await.expect("none yet"), None);
        for order in 0..5 {
            put(&client, "orders", &format!("o-{order}")).await;
        }
        assert!(writes.has_changed().expect("an engine"), "readers are told");
        let records = cloud.dynamodb.stream_records("orders", None, 3).await.expect("records");
        let keys: Vec<_> = records.iter().map(|record| record.event()["dynamodb"]["Keys"]["pk"]["S"].clone()).collect();
        assert_eq!(keys, ["o-0", "o-1", "o-2"]);
        assert_eq!(records[0].event()["awsRegion"], "us-east-1");
        let last = &records[2].sequence_number;
        cloud.save_checkpoint("push", "orders", last).await.expect("a checkpoint");
        assert_eq!(cloud.checkpoint("other", "orders").await.expect("a look"), None);
    }
    let cloud = Cloud::open(dir.path(), clock).expect("engines again");
    let after = cloud.checkpoint("push", "orders").await.expect("a look").expect("the checkpoint");
    let records = cloud.dynamodb.stream_records("orders", Some(&after), 10).await.expect("records");
    let keys: Vec<_> = records.iter().map(|record| record.event()["dynamodb"]["Keys"]["pk"]["S"].clone()).collect();
    assert_eq!(keys, ["o-3", "o-4"]);
    let latest = cloud.dynamodb.latest_sequence_number("orders").await.expect("a look").expect("a number");
    assert_eq!(latest, records[1].sequence_number);
}

#[tokio::test]
async fn a_mapping_from_the_end_of_an_empty_stream_misses_nothing_after_a_restart() {
    let (cloud, wire) = driven();
    let client = Client::new(&wire.sdk_config());
    make_table(&client, "orders", true).await;
    let (invoker, events) = recorder(|_| answered(serde_json::Value::Null));
    let source = StreamSource {
        table: "orders".to_owned(),
        batch_size: 10,
        window: Duration::ZERO,
        from_start: false,
        filters: Vec::new(),
        retries: None,
        bisect: false,
        partial_responses: false,
        on_failure: None,
    };
    let start = || {
        let consumer = StreamConsumer::new(cloud.clone(), invoker.clone(), &function("push"), &source, "a stream");
        consumer.expect("a consumer")
    };
    start().prepare().await.expect("prepared");
    put(&client, "orders", "o-1").await;
    // Another one, as after a crash before the first batch.
    let again = start();
    again.prepare().await.expect("prepared again");
    assert_eq!(again.poll_once().await.expect("a step"), StreamStep::Advanced(1));
    assert_eq!(events.lock().expect("a lock").len(), 1);
}

#[tokio::test]
async fn stream_records_go_after_a_day_and_numbers_keep_rising() {
    let (cloud, wire) = driven();
    let client = Client::new(&wire.sdk_config());
    make_table(&client, "orders", true).await;
    put(&client, "orders", "o-1").await;
    put(&client, "orders", "o-2").await;
    let before = cloud.dynamodb.latest_sequence_number("orders").await.expect("a look").expect("a number");
    cloud.clock.advance(Duration::from_secs(86_401));
    cloud.sweep().await.expect("a sweep");
    let kept = cloud.dynamodb.stream_records("orders", None, 10).await.expect("records");
    assert_eq!(kept.len(), 1, "all but the last");
    put(&client, "orders", "o-3").await;
    let after = cloud.dynamodb.latest_sequence_number("orders").await.expect("a look").expect("a number");
    assert!(after > before);
}

#[tokio::test]
async fn a_table_is_described_with_arns_of_this_cloud() {
    let (_, wire) = driven();
    let client = Client::new(&wire.sdk_config());
    make_table(&client, "orders", true).await;
    let described = client.describe_table().table_name("orders").send().await.expect("a description");
    let table = described.table.expect("a table");
    assert_eq!(table.table_arn(), Some("arn:aws:dynamodb:us-east-1:000000000000:table/orders"));
    assert!(
        table
            .latest_stream_arn()
            .expect("a stream")
            .starts_with("arn:aws:dynamodb:us-east-1:000000000000:table/orders/stream/")
    );
}
