//! Schedules: at their second, once; retried and given up when the target cannot be called.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use local_cloud::engine::Cloud;
use local_cloud::engine::scheduler::Definition;
use local_cloud::sources::asynchronous::Asynchronous;
use local_cloud::sources::schedules::{RoleMay, Schedules};
use local_cloud::template::model::{EventSource, Function, ScheduleSource};
use serde_json::{Value, json};

use crate::recorder::{Events, answered, cloud, drain, failed, function, make_queue, recorder, seconds};

const ROLE: &str = "arn:aws:iam::000000000000:role/scheduler";

struct Fixture {
    cloud: Cloud,
    schedules: Schedules,
    asynchronous: Asynchronous,
    seen: Events,
}

async fn fixture(may: RoleMay) -> Fixture {
    let cloud = cloud();
    let (invoker, seen) = recorder(|event| if event["fail"] == true { failed() } else { answered(json!(null)) });
    let (sqs, clock) = (cloud.sqs.clone(), cloud.clock.clone());
    let functions = [function("timeout-check")];
    let asynchronous = Asynchronous::open(sqs.clone(), clock.clone(), invoker, &functions).await.unwrap();
    let schedules = Schedules::new(cloud.scheduler.clone(), sqs, clock, asynchronous.clone(), may);
    Fixture { cloud, schedules, asynchronous, seen }
}

fn everybody() -> RoleMay {
    Arc::new(|_, _| true)
}

impl Fixture {
    async fn create(&self, name: &str, expression: &str, target: Value) {
        let definition: Definition = serde_json::from_value(json!({
            "ScheduleExpression": expression,
            "FlexibleTimeWindow": { "Mode": "OFF" },
            "ActionAfterCompletion": "DELETE",
            "Target": target,
        }))
        .unwrap();
        self.cloud.scheduler.create("default", name, definition, None).await.unwrap();
    }

    /// Moves on a second at a time; gives the seconds at which something was delivered.
    async fn deliveries_within(&self, wait_s: u64) -> Vec<u64> {
        let mut delivered_at = Vec::new();
        for second in 1..=wait_s {
            seconds(&self.cloud, 1);
            if self.schedules.poll_once().await.unwrap() > 0 {
                delivered_at.push(second);
            }
            self.asynchronous.poll_once().await.unwrap();
        }
        delivered_at
    }
}

fn target(arn: &str) -> Value {
    json!({ "Arn": arn, "RoleArn": ROLE, "Input": r#"{"orderId":"1"}"# })
}

const TIMEOUT_CHECK: &str = "arn:aws:lambda:us-east-1:000000000000:function:timeout-check";

#[tokio::test]
async fn a_one_time_schedule_fires_once_at_its_second_and_is_gone() {
    let fixture = fixture(everybody()).await;
    fixture.create("order-1", "at(2023-11-14T22:13:35)", target(TIMEOUT_CHECK)).await;
    assert_eq!(fixture.deliveries_within(60).await, [15]);
    assert_eq!(*fixture.seen.lock().unwrap(), [json!({ "orderId": "1" })]);
    assert!(fixture.cloud.scheduler.get("default", "order-1").await.is_err());
}

#[tokio::test]
async fn a_functions_own_error_is_retried_by_lambdas_rules_not_the_schedules() {
    let fixture = fixture(everybody()).await;
    let mut target = target(TIMEOUT_CHECK);
    target["Input"] = json!(r#"{"fail":true}"#);
    target["RetryPolicy"] = json!({ "MaximumRetryAttempts": 0 });
    fixture.create("order-1", "at(2023-11-14T22:13:21)", target).await;
    assert_eq!(fixture.deliveries_within(600).await, [1]);
    assert_eq!(fixture.seen.lock().unwrap().len(), 3);
}

#[tokio::test]
async fn a_role_that_may_not_is_retried_as_the_schedule_says_and_delivered_when_it_may() {
    let allowed = Arc::new(AtomicBool::new(false));
    let may = Arc::clone(&allowed);
    let fixture = fixture(Arc::new(move |role, arn| {
        assert_eq!((role, arn), (ROLE, TIMEOUT_CHECK));
        may.load(Ordering::Relaxed)
    }))
    .await;
    fixture.create("order-1", "at(2023-11-14T22:13:21)", target(TIMEOUT_CHECK)).await;
    assert!(fixture.deliveries_within(5).await.is_empty());
    assert!(fixture.seen.lock().unwrap().is_empty());
    allowed.store(true, Ordering::Relaxed);
    // Tried at 1, 2, 4 and then at 8 seconds.
    assert_eq!(fixture.deliveries_within(60).await, [3]);
    assert_eq!(fixture.seen.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_target_that_is_not_there_ends_in_the_schedules_dead_letter_queue() {
    let fixture = fixture(everybody()).await;
    let dead = make_queue(&fixture.cloud, "dead", &[]).await;
    let missing = "arn:aws:lambda:us-east-1:000000000000:function:nobody";
    let mut target = target(missing);
    target["Input"] = json!(r#"{"attempt":<aws.scheduler.attempt-number>}"#);
    target["RetryPolicy"] = json!({ "MaximumRetryAttempts": 2 });
    target["DeadLetterConfig"] = json!({ "Arn": dead });
    fixture.create("order-1", "at(2023-11-14T22:13:21)", target).await;
    // Tried at 1, 2 and 4 seconds.
    assert!(fixture.deliveries_within(3).await.is_empty());
    assert!(drain(&fixture.cloud, "dead").await.is_empty());
    assert!(fixture.deliveries_within(60).await.is_empty());
    let dead = drain(&fixture.cloud, "dead").await;
    assert_eq!(dead.len(), 1);
    assert_eq!(dead[0].body, r#"{"attempt":3}"#);
    for (name, value) in [
        ("ERROR_CODE", "ResourceNotFoundException"),
        ("ERROR_MESSAGE", "Function not found: nobody"),
        ("EXHAUSTED_RETRY_CONDITION", "MaximumRetryAttempts"),
        ("RETRY_ATTEMPTS", "2"),
        ("SCHEDULED_TIME", "2023-11-14T22:13:21Z"),
        ("SCHEDULE_ARN", "arn:aws:scheduler:us-east-1:000000000000:schedule/default/order-1"),
        ("TARGET_ARN", missing),
    ] {
        assert_eq!(dead[0].attributes[name].text.as_deref(), Some(value), "{name}");
    }
    assert!(fixture.cloud.scheduler.get("default", "order-1").await.is_err());
}

#[tokio::test]
async fn an_event_older_than_its_policy_allows_is_given_up() {
    let fixture = fixture(Arc::new(|_, _| false)).await;
    let dead = make_queue(&fixture.cloud, "dead", &[]).await;
    let mut target = target(TIMEOUT_CHECK);
    target["RetryPolicy"] = json!({ "MaximumEventAgeInSeconds": 60 });
    target["DeadLetterConfig"] = json!({ "Arn": dead });
    fixture.create("order-1", "at(2023-11-14T22:13:21)", target).await;
    fixture.deliveries_within(120).await;
    let dead = drain(&fixture.cloud, "dead").await;
    assert_eq!(dead[0].attributes["EXHAUSTED_RETRY_CONDITION"].text.as_deref(), Some("MaximumEventAgeInSeconds"));
    assert_eq!(dead[0].attributes["ERROR_CODE"].text.as_deref(), Some("AccessDeniedException"));
}

#[tokio::test]
async fn a_queue_gets_the_input_as_a_message_with_the_context_filled_in() {
    let fixture = fixture(everybody()).await;
    let arn = make_queue(&fixture.cloud, "orders", &[]).await;
    let mut target = target(&arn);
    target["Input"] = json!("<aws.scheduler.schedule-arn> at <aws.scheduler.scheduled-time>");
    fixture.create("order-1", "at(2023-11-14T22:13:21)", target).await;
    assert_eq!(fixture.deliveries_within(5).await, [1]);
    let messages = drain(&fixture.cloud, "orders").await;
    let expected = "arn:aws:scheduler:us-east-1:000000000000:schedule/default/order-1 at 2023-11-14T22:13:21Z";
    assert_eq!(messages[0].body, expected);
}

fn every_minute(name: &str, input: Option<&str>) -> Function {
    let mut function = function("timeout-check");
    function.sources = vec![EventSource::Schedule(ScheduleSource {
        name: name.into(),
        expression: "rate(1 minute)".into(),
        input: input.map(str::to_owned),
        retries: 0,
        dead_letter_queue: None,
        enabled: true,
    })];
    function
}

#[tokio::test]
async fn the_templates_schedules_recur_without_a_role_of_their_own() {
    let fixture = fixture(Arc::new(|_, _| false)).await;
    fixture.schedules.register(&[every_minute("reconcile", None)]).await.unwrap();
    // A rate begins when the schedule is made.
    assert_eq!(fixture.deliveries_within(180).await, [1, 60, 120, 180]);
    let seen = fixture.seen.lock().unwrap();
    assert_eq!(seen[1]["detail-type"], "Scheduled Event");
    assert_eq!(seen[1]["time"], "2023-11-14T22:14:20Z");
}

#[tokio::test]
async fn registering_again_keeps_the_time_takes_changes_and_drops_what_is_gone() {
    let fixture = fixture(everybody()).await;
    fixture.schedules.register(&[every_minute("reconcile", None)]).await.unwrap();
    fixture.create("order-1", "at(2024-11-14T22:13:21)", target(TIMEOUT_CHECK)).await;
    seconds(&fixture.cloud, 30);
    fixture.schedules.register(&[every_minute("reconcile", None)]).await.unwrap();
    assert_eq!(fixture.deliveries_within(30).await, [1, 30]);
    fixture.schedules.register(&[every_minute("reconcile", Some("{}"))]).await.unwrap();
    let scheduler = &fixture.cloud.scheduler;
    let definition = scheduler.get("default", "reconcile").await.unwrap().definition;
    assert_eq!(definition.target.input.as_deref(), Some("{}"));
    fixture.schedules.register(&[every_minute("sweep", None)]).await.unwrap();
    assert!(scheduler.get("default", "reconcile").await.is_err());
    assert!(scheduler.get("default", "sweep").await.is_ok());
    assert!(scheduler.get("default", "order-1").await.is_ok());
}
