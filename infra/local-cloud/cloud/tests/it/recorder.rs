//! Engines on a driven clock, and a function that is a closure and remembers what it was given.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use local_cloud::clock::Clock;
use local_cloud::engine::Cloud;
use local_cloud::engine::sqs::{Receive, Received, Sqs};
use local_cloud::invoke::{FunctionError, Invoker, Outcome};
use local_cloud::template::model::{AsyncConfig, Function};
use serde_json::Value;

/// Where every test's time begins: 2023-11-14T22:13:20Z.
pub(crate) const START_MS: i64 = 1_700_000_000_000;

pub(crate) fn cloud() -> Cloud {
    Cloud::in_memory(Clock::driven(START_MS)).unwrap()
}

pub(crate) fn seconds(cloud: &Cloud, seconds: u64) {
    cloud.clock.advance(Duration::from_secs(seconds));
}

/// The events that were given, in order.
pub(crate) type Events = Arc<Mutex<Vec<Value>>>;

/// An invoker whose every function answers as `answer` says.
pub(crate) fn recorder(answer: impl Fn(&Value) -> Outcome + Send + Sync + 'static) -> (Invoker, Events) {
    let events = Events::default();
    let seen = Arc::clone(&events);
    let invoker: Invoker = Arc::new(move |_function, payload: Bytes| {
        let event: Value = serde_json::from_slice(&payload).unwrap();
        let outcome = answer(&event);
        seen.lock().unwrap().push(event);
        futures::future::ready(outcome).boxed()
    });
    (invoker, events)
}

pub(crate) fn answered(value: Value) -> Outcome {
    Outcome::Answered(Bytes::from(value.to_string()))
}

pub(crate) fn failed() -> Outcome {
    Outcome::Failed(FunctionError { error_type: "Broken".into(), message: "it broke".into() })
}

pub(crate) fn function(name: &str) -> Function {
    Function {
        logical_id: name.into(),
        name: name.into(),
        arn: format!("arn:aws:lambda:us-east-1:000000000000:function:{name}"),
        binary: name.into(),
        timeout: Duration::from_secs(10),
        memory_mb: 128,
        reserved_concurrency: None,
        environment: BTreeMap::new(),
        statements: Vec::new(),
        sources: Vec::new(),
        asynchronous: AsyncConfig {
            retries: 2,
            maximum_age: Duration::from_secs(21_600),
            on_failure: None,
            dead_letter_queue: None,
        },
    }
}

pub(crate) async fn make_queue(cloud: &Cloud, name: &str, attributes: &[(&str, &str)]) -> String {
    let attributes = attributes.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    cloud.sqs.create_queue(name, attributes).await.unwrap();
    Sqs::arn_of(name)
}

/// What is in a queue now, taken out.
pub(crate) async fn drain(cloud: &Cloud, queue: &str) -> Vec<Received> {
    let mut all = Vec::new();
    loop {
        let some = cloud.sqs.receive(queue, Receive { wait_s: Some(0), ..Receive::default() }).await.unwrap();
        if some.is_empty() {
            return all;
        }
        for message in some {
            cloud.sqs.delete(queue, &message.receipt_handle).await.unwrap();
            all.push(message);
        }
    }
}
