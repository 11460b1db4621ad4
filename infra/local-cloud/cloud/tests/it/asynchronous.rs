//! Asynchronous events: kept, retried, given up.

use std::time::Duration;

use local_cloud::engine::Cloud;
use local_cloud::invoke::{Invoker, Outcome};
use local_cloud::sources::asynchronous::{AcceptError, Asynchronous};
use local_cloud::template::model::Function;
use serde_json::{Value, json};

use crate::recorder::{answered, cloud, drain, failed, function, make_queue, recorder, seconds};

async fn open(cloud: &Cloud, invoker: &Invoker, function: &Function) -> Asynchronous {
    let functions = std::slice::from_ref(function);
    Asynchronous::open(cloud.sqs.clone(), cloud.clock.clone(), invoker.clone(), functions).await.unwrap()
}

/// Moves the clock on by `wait_s` a second at a time and gives after how many seconds the event ran again.
async fn runs_within(cloud: &Cloud, events: &Asynchronous, wait_s: u64) -> Vec<u64> {
    let mut ran_at = Vec::new();
    for second in 1..=wait_s {
        seconds(cloud, 1);
        if events.poll_once().await.unwrap() > 0 {
            ran_at.push(second);
        }
    }
    ran_at
}

#[tokio::test]
async fn an_event_that_succeeds_runs_once() {
    let cloud = cloud();
    let (invoker, seen) = recorder(|_| answered(json!("ok")));
    let events = open(&cloud, &invoker, &function("timeout-check")).await;
    events.accept("timeout-check", br#"{"orderId":"1"}"#).await.unwrap();
    assert_eq!(events.poll_once().await.unwrap(), 1);
    assert!(runs_within(&cloud, &events, 300).await.is_empty());
    assert_eq!(*seen.lock().unwrap(), [json!({ "orderId": "1" })]);
}

#[tokio::test]
async fn a_failing_event_is_tried_after_one_and_two_more_minutes_and_then_reported() {
    let cloud = cloud();
    let (invoker, _) = recorder(|_| failed());
    let mut function = function("timeout-check");
    function.asynchronous.on_failure = Some(make_queue(&cloud, "failures", &[]).await);
    function.asynchronous.dead_letter_queue = Some(make_queue(&cloud, "dead", &[]).await);
    let events = open(&cloud, &invoker, &function).await;
    let request_id = events.accept("timeout-check", br#"{"orderId":"1"}"#).await.unwrap();
    assert_eq!(events.poll_once().await.unwrap(), 1);
    assert_eq!(runs_within(&cloud, &events, 600).await, [60, 180]);

    let told = drain(&cloud, "failures").await;
    assert_eq!(told.len(), 1);
    let record: Value = serde_json::from_str(&told[0].body).unwrap();
    let expected = json!({
        "version": "1.0",
        "timestamp": "2023-11-14T22:16:20.000Z",
        "requestContext": {
            "requestId": request_id,
            "functionArn": "arn:aws:lambda:us-east-1:000000000000:function:timeout-check:$LATEST",
            "condition": "RetriesExhausted",
            "approximateInvokeCount": 3,
        },
        "requestPayload": { "orderId": "1" },
        "responseContext": { "statusCode": 200, "executedVersion": "$LATEST", "functionError": "Unhandled" },
        "responsePayload": { "errorType": "Broken", "errorMessage": "it broke" },
    });
    assert_eq!(record, expected);

    let dead = drain(&cloud, "dead").await;
    assert_eq!(dead.len(), 1);
    assert_eq!(dead[0].body, r#"{"orderId":"1"}"#);
    let attribute = |name: &str| dead[0].attributes[name].text.clone().unwrap();
    assert_eq!(attribute("RequestID"), request_id);
    assert_eq!(attribute("ErrorCode"), "200");
    assert_eq!(attribute("ErrorMessage"), "it broke");
}

#[tokio::test]
async fn a_throttled_event_waits_longer_each_time_until_it_is_too_old() {
    let cloud = cloud();
    let (invoker, seen) = recorder(|_| Outcome::Throttled);
    let mut function = function("timeout-check");
    function.asynchronous.maximum_age = Duration::from_secs(60);
    function.asynchronous.on_failure = Some(make_queue(&cloud, "failures", &[]).await);
    let events = open(&cloud, &invoker, &function).await;
    events.accept("timeout-check", b"{}").await.unwrap();
    events.poll_once().await.unwrap();
    // After 1, 2, 4, 8, 16 and 32 seconds more; the last one finds it too old.
    assert_eq!(runs_within(&cloud, &events, 300).await, [1, 3, 7, 15, 31, 63]);
    assert_eq!(seen.lock().unwrap().len(), 6);
    let told = drain(&cloud, "failures").await;
    let record: Value = serde_json::from_str(&told[0].body).unwrap();
    assert_eq!(record["requestContext"]["condition"], "EventAgeExceeded");
    assert!(record.get("responsePayload").is_none());
}

#[tokio::test]
async fn accepted_events_are_kept_by_the_engine_not_by_the_loop() {
    let cloud = cloud();
    let (invoker, seen) = recorder(|_| failed());
    let function = function("timeout-check");
    let before = open(&cloud, &invoker, &function).await;
    before.accept("timeout-check", b"").await.unwrap();
    before.poll_once().await.unwrap();
    drop(before);
    // Another loop goes on with the same event, at the same retry.
    let after = open(&cloud, &invoker, &function).await;
    assert_eq!(runs_within(&cloud, &after, 600).await, [60, 180]);
    assert_eq!(*seen.lock().unwrap(), [json!({}), json!({}), json!({})]);
}

#[tokio::test]
async fn what_cannot_be_accepted_is_said() {
    let cloud = cloud();
    let (invoker, _) = recorder(|_| failed());
    let events = open(&cloud, &invoker, &function("timeout-check")).await;
    assert_eq!(events.accept("nobody", b"{}").await, Err(AcceptError::UnknownFunction("nobody".into())));
    assert_eq!(events.accept("timeout-check", b"\xff").await, Err(AcceptError::NotText));
    let large = vec![b'x'; 1_000_001];
    assert_eq!(events.accept("timeout-check", &large).await, Err(AcceptError::TooLarge { bytes: 1_000_001 }));
}
