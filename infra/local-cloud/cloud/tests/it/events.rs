//! EventBridge through the SDK: the template's buses, who may put events on them, and batches of which a part is
//! refused.

use std::collections::BTreeMap;
use std::sync::Arc;

use aws_sdk_eventbridge::Client;
use aws_sdk_eventbridge::error::ProvideErrorMetadata as _;
use aws_sdk_eventbridge::types::PutEventsRequestEntry;
use local_cloud::clock::Clock;
use local_cloud::endpoint::Endpoint;
use local_cloud::engine::{Cloud, Service};
use local_cloud::iam::{Policies, access_key_id};
use local_cloud::template;
use local_cloud::template::model::Stack;
use local_cloud::wire::{Fault, Wire};

use crate::target::{driven, over_http};

const TEMPLATE: &str = include_str!("../templates/events.yaml");

fn stack() -> Stack {
    template::read_str("events.yaml", TEMPLATE, &BTreeMap::new()).expect("a template")
}

fn event(bus: &str, number: u32) -> PutEventsRequestEntry {
    let detail = format!(r#"{{"number": {number}}}"#);
    PutEventsRequestEntry::builder().event_bus_name(bus).source("shop").detail_type("sold").detail(detail).build()
}

fn numbers(cloud: &Cloud) -> Vec<u64> {
    cloud.events.put_so_far().iter().map(|event| event.detail["number"].as_u64().expect("a number")).collect()
}

#[tokio::test]
async fn events_are_put_on_a_bus_and_remembered() {
    let (cloud, wire) = driven();
    let stack = stack();
    cloud.provision(&stack).await.expect("provisioned");
    let (bus, arn) = (&stack.functions[0].environment["BUS"], &stack.functions[0].environment["BUS_ARN"]);
    assert_eq!(bus, "local-orders");
    let client = Client::new(&wire.sdk_config());
    let answer = client.put_events().entries(event(bus, 1)).entries(event(arn, 2)).send().await.expect("put");
    assert_eq!(answer.failed_entry_count(), 0);
    assert!(answer.entries().iter().all(|entry| entry.event_id().is_some()));
    let put = cloud.events.latest(1).pop().expect("an event");
    assert_eq!((put.bus.as_str(), put.source.as_str(), put.detail_type.as_str()), ("local-orders", "shop", "sold"));
    assert_eq!(put.put_ms, crate::target::START_MS);
    assert_eq!(numbers(&cloud), [1, 2]);
}

#[tokio::test]
async fn what_the_service_would_not_take_is_refused() {
    let (cloud, wire) = driven();
    cloud.provision(&stack()).await.expect("provisioned");
    let client = Client::new(&wire.sdk_config());
    let bad = |change: fn(aws_sdk_eventbridge::types::builders::PutEventsRequestEntryBuilder) -> _| {
        let good = PutEventsRequestEntry::builder().event_bus_name("other").source("shop").detail_type("sold");
        change(good.detail("{}"))
    };
    let answer = client
        .put_events()
        .entries(event("other", 1))
        .entries(bad(|entry| entry.detail("[]").build()))
        .entries(bad(|entry| entry.source("aws.s3").build()))
        .entries(bad(|entry| entry.detail_type("").build()))
        .entries(event("missing", 2))
        .send()
        .await
        .expect("an answer");
    assert_eq!(answer.failed_entry_count(), 4);
    let codes: Vec<Option<&str>> = answer.entries().iter().map(|entry| entry.error_code()).collect();
    let (source, missing) = ("NotAuthorizedForSourceException", "ResourceNotFoundException");
    assert_eq!(codes, [None, Some("MalformedDetail"), Some(source), Some("InvalidArgument"), Some(missing)]);
    assert_eq!(numbers(&cloud), [1]);
    for count in [0, 11] {
        let entries = (0..count).map(|number| event("other", number)).collect();
        let refused = client.put_events().set_entries(Some(entries)).send().await.expect_err("too few or too many");
        assert_eq!(refused.code(), Some("ValidationException"), "{count}");
    }
    let unknown = client.list_event_buses().send().await.expect_err("not supported");
    assert_eq!(unknown.code(), Some("UnknownOperationException"));
}

#[tokio::test]
async fn a_function_puts_events_on_the_buses_that_its_policy_names() {
    let stack = stack();
    let cloud = Cloud::in_memory(Clock::wall()).expect("engines");
    cloud.provision(&stack).await.expect("provisioned");
    let policies = Arc::new(Policies::from_stack(&stack));
    let endpoint = Endpoint::start(cloud.clone(), 0, Some(policies.authorizer())).await.expect("an endpoint");
    let client = Client::new(&over_http(&endpoint.url(), &access_key_id("local-ShopFunction")));
    client.put_events().entries(event("local-orders", 1)).send().await.expect("put");
    let denied = client.put_events().entries(event("local-orders", 2)).entries(event("other", 3)).send().await;
    let denied = denied.expect_err("not in the policy");
    assert_eq!(denied.code(), Some("AccessDeniedException"));
    assert!(denied.message().is_some_and(|text| text.contains("event-bus/other")), "{denied:?}");
    assert_eq!(numbers(&cloud), [1]);
    endpoint.stop().await;
}

#[tokio::test]
async fn a_part_of_a_batch_can_be_refused() {
    let (cloud, _) = driven();
    cloud.provision(&stack()).await.expect("provisioned");
    let wire = Wire::new(cloud.clone()).with_faults(|call| {
        let on_the_bus = call.service == Service::Events && call.resource().as_deref() == Some("other");
        if on_the_bus { Fault::PartlyApplied } else { Fault::None }
    });
    let entries = (0..5).map(|number| event("other", number)).collect();
    let answer = Client::new(&wire.sdk_config()).put_events().set_entries(Some(entries)).send().await.expect("put");
    assert_eq!(answer.failed_entry_count(), 2);
    let refused: Vec<bool> = answer.entries().iter().map(|entry| entry.error_code().is_some()).collect();
    assert_eq!(refused, [false, true, false, true, false]);
    assert_eq!(numbers(&cloud), [0, 2, 4]);
}

#[tokio::test]
async fn a_part_of_a_batch_of_messages_can_be_refused() {
    let (cloud, _) = driven();
    let wire = Wire::new(cloud.clone()).with_faults(|call| match call.operation.as_str() {
        "SendMessageBatch" => Fault::PartlyApplied,
        _ => Fault::None,
    });
    let sqs = aws_sdk_sqs::Client::new(&wire.sdk_config());
    let url = sqs.create_queue().queue_name("q").send().await.expect("a queue").queue_url.expect("a URL");
    let entry = |id: &str| {
        let entry = aws_sdk_sqs::types::SendMessageBatchRequestEntry::builder();
        entry.id(id).message_body(id).build().expect("an entry")
    };
    let answer = sqs.send_message_batch().queue_url(url).entries(entry("a")).entries(entry("b")).send().await;
    let answer = answer.expect("an answer");
    assert_eq!(answer.successful().iter().map(|sent| sent.id()).collect::<Vec<_>>(), ["a"]);
    assert_eq!(answer.failed().iter().map(|failed| failed.id()).collect::<Vec<_>>(), ["b"]);
    assert_eq!(cloud.sqs.counts("q").await.expect("counts").visible, 1);
}

#[test]
fn mistakes_about_buses_are_told_with_their_line() {
    let line = TEMPLATE.lines().position(|line| line.contains("{Name: other}")).expect("a line") + 1;
    for (wrong, says) in [("{Nam: other}", "did you mean Name"), ("{}", "Name")] {
        let text = TEMPLATE.replace("{Name: other}", wrong);
        let error = template::read_str("t.yaml", &text, &BTreeMap::new()).expect_err("a mistake").to_string();
        assert!(error.starts_with(&format!("t.yaml:{line}")) && error.contains(says), "{error}");
    }
}
