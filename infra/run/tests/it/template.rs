//! The product's own template, as the local cloud reads it.

use std::path::Path;

use local_cloud::template::model::{EventSource, Function, Stack, Statement};
use local_cloud::template::{ReadOptions, read, read_with};

fn function<'a>(stack: &'a Stack, id: &str) -> &'a Function {
    stack.functions.iter().find(|function| function.logical_id == id).expect(id)
}

#[test]
fn the_projects_own_template_reads() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../template.yaml");
    let options = ReadOptions { stack_name: seckill_local::STACK_NAME.to_owned(), ..ReadOptions::default() };
    let stack = read_with(&path, &options).unwrap_or_else(|error| panic!("{error}"));

    let seckill = function(&stack, "SeckillFunction");
    assert_eq!(seckill.binary, "seckill");
    assert_eq!(seckill.environment["STOCK_TABLE"], "seckill-StockTable");
    let api = stack.http_api.as_ref().expect("an HTTP API");
    let press = api.routes.iter().find(|route| route.path == "/seckill").expect("POST /seckill");
    assert_eq!((press.method.as_str(), press.authorizer.as_deref()), ("POST", Some("Token")));
    assert!(api.route_throttles.contains_key("POST /seckill"));
    assert!(stack.tables.iter().any(|table| table.stream_arn.is_some()));
    let consumer = function(&stack, "OrderConsumerFunction");
    assert!(matches!(consumer.sources.as_slice(), [EventSource::Queue(source)] if source.partial_responses));
}

/// Resources that the default parameters leave out must be readable too.
#[test]
fn the_projects_own_template_reads_with_every_condition_on() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../template.yaml");
    let shop_queue = "arn:aws:sqs:us-east-1:000000000000:shop";
    let given = [
        ("WarmReadUnits", "20000"),
        ("WarmWriteUnits", "8000"),
        ("WebPages", "yes"),
        ("ShopQueueUrl", "https://sqs.us-east-1.amazonaws.com/000000000000/shop"),
        ("ShopQueueArn", shop_queue),
        ("AlarmTopicArn", "arn:aws:sns:us-east-1:000000000000:alarms"),
        ("SeckillConcurrency", "900"),
        ("ReconcileConcurrency", "1"),
    ];
    let given = given.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    let stack = read(&path, &given).unwrap_or_else(|error| panic!("{error}"));

    assert!(stack.outputs["WebUrl"].starts_with("https://"), "{:?}", stack.outputs);
    assert_eq!(function(&stack, "SeckillFunction").reserved_concurrency, Some(900));
    assert_eq!(function(&stack, "ReconcileFunction").reserved_concurrency, Some(1));
    let tells_the_shop =
        |statement: &&Statement| statement.resources == [shop_queue] && statement.actions == ["sqs:SendMessage"];
    assert_eq!(function(&stack, "PaymentNotifyFunction").statements.iter().filter(tells_the_shop).count(), 1);
    assert!(stack.tables.iter().any(|table| table.logical_id == "StockTable"));
}
