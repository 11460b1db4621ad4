//! What a function and its callers can rely on, on both hosts: as processes and in this process.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use local_cloud::host::{Counters, Host, HostLimits};
use local_cloud::in_process::{InProcessConfig, InProcessHost, Linked, Registry};
use local_cloud::invoke::{FunctionError, Invoker, Outcome};
use local_cloud::template::model::Function;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::host::{behave, config, function};

/// Where functions run.
enum AnyHost {
    Processes(Host),
    InProcess(InProcessHost),
}

/// A host on a temporary directory that holds the logs.
struct Fixture {
    name: &'static str,
    host: AnyHost,
    directory: TempDir,
}

/// The same functions on both hosts.
fn both(functions: &[Function], change: impl Fn(&mut HostLimits)) -> [Fixture; 2] {
    let directory = tempfile::tempdir().unwrap();
    let mut processes = config(directory.path(), functions.to_vec());
    change(&mut processes.limits);
    let limits = processes.limits.clone();
    let processes = Fixture { name: "processes", host: AnyHost::Processes(Host::start(processes).unwrap()), directory };
    let directory = tempfile::tempdir().unwrap();
    let in_process = InProcessHost::start(in_process(directory.path(), functions, limits)).unwrap();
    [processes, Fixture { name: "in process", host: AnyHost::InProcess(in_process), directory }]
}

fn in_process(directory: &Path, functions: &[Function], limits: HostLimits) -> InProcessConfig {
    let registry = Registry::default().with("test-bootstrap", |setup| {
        let behaviour = setup.variables.get("BEHAVIOUR").cloned().unwrap_or_default();
        if behaviour == "exits-at-start" {
            (setup.log)("no configuration");
            return Err("no configuration".into());
        }
        let log = setup.log;
        Ok(Linked::events(move |payload: Value| {
            let (behaviour, log) = (behaviour.clone(), log.clone());
            async move {
                let answer = behave(&behaviour, payload).await;
                log("echoing");
                answer
            }
        }))
    });
    InProcessConfig {
        functions: functions.to_vec(),
        registry,
        sdk_config: std::sync::Arc::new(|_, _| {
            aws_config::SdkConfig::builder().behavior_version(aws_config::BehaviorVersion::latest()).build()
        }),
        endpoint_url: "http://127.0.0.1:9".into(),
        logs_dir: directory.join("logs"),
        limits,
        states: 1,
    }
}

impl Fixture {
    fn invoker(&self) -> Invoker {
        match &self.host {
            AnyHost::Processes(host) => host.invoker(),
            AnyHost::InProcess(host) => host.invoker(),
        }
    }

    fn counters_of(&self, function: &str) -> Counters {
        match &self.host {
            AnyHost::Processes(host) => host.counters_of(function),
            AnyHost::InProcess(host) => host.counters_of(function),
        }
    }

    async fn stop(self) {
        match self.host {
            AnyHost::Processes(host) => host.stop().await,
            AnyHost::InProcess(host) => host.stop().await,
        }
    }

    async fn invoke(&self, function: &str, event: Value) -> Outcome {
        self.invoker()(function.into(), Bytes::from(event.to_string())).await
    }

    async fn answer(&self, function: &str, event: Value) -> Value {
        match self.invoke(function, event).await {
            Outcome::Answered(bytes) => serde_json::from_slice(&bytes).unwrap(),
            other => panic!("{}, {function}: {other:?}", self.name),
        }
    }

    async fn error(&self, function: &str) -> FunctionError {
        match self.invoke(function, json!({})).await {
            Outcome::Failed(error) => error,
            other => panic!("{}, {function}: {other:?}", self.name),
        }
    }

    /// Waits until the function's log contains `text`: it is written a moment after the answer.
    async fn logged(&self, function: &str, text: &str) -> String {
        let path = self.directory.path().join(format!("logs/{function}.log"));
        for _ in 0..1000 {
            let log = std::fs::read_to_string(&path).unwrap();
            if log.contains(text) {
                return log;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("{}: {text:?} is not in {}", self.name, std::fs::read_to_string(&path).unwrap());
    }
}

#[tokio::test]
async fn an_event_is_answered_counted_and_logged_as_lambda_does() {
    for fixture in both(&[function("echo", "echo")], |_| {}) {
        for number in 0..3 {
            assert_eq!(fixture.answer("echo", json!({ "number": number })).await, json!({ "number": number }));
        }
        let expected = Counters { invocations: 3, errors: 0, cold_starts: 1, throttles: 0, environments: 1 };
        assert_eq!(fixture.counters_of("echo"), expected, "{}", fixture.name);
        let log = fixture.logged("echo", "echoing").await;
        let log = if log.matches("REPORT").count() < 3 { fixture.logged("echo", "REPORT").await } else { log };
        let reports: Vec<_> = log.lines().filter(|line| line.starts_with("REPORT RequestId: ")).collect();
        assert_eq!(reports.len(), 3, "{}", fixture.name);
        assert!(reports[0].contains("\tMemory Size: 256 MB\tInit Duration: "), "{}", reports[0]);
        assert!(!reports[1].contains("Init Duration"), "{}", reports[1]);
        assert_eq!(log.matches("START RequestId: ").count(), 3);
        assert_eq!(log.matches("END RequestId: ").count(), 3);
    }
}

#[tokio::test]
async fn a_panic_and_an_error_are_reported_and_the_function_lives() {
    for fixture in both(&[function("panics", "panics"), function("fails", "fails")], |_| {}) {
        for _ in 0..2 {
            assert_eq!(fixture.error("panics").await.message, "Lambda panicked: the shelf is empty");
            assert_eq!(fixture.error("fails").await.message, "no such order");
        }
        assert_eq!(fixture.counters_of("panics").cold_starts, 1, "{}", fixture.name);
        assert_eq!(fixture.counters_of("panics").errors, 2, "{}", fixture.name);
        fixture.logged("panics", "Status: error").await;
    }
}

#[tokio::test]
async fn a_hanging_function_is_ended_at_its_timeout_and_starts_anew() {
    let mut hangs = function("hangs", "hangs");
    hangs.timeout = Duration::from_millis(300);
    for fixture in both(&[hangs, function("echo", "echo")], |_| {}) {
        let (error, echo) = tokio::join!(fixture.error("hangs"), fixture.answer("echo", json!(1)));
        assert_eq!(echo, json!(1));
        assert_eq!(error.error_type, "Sandbox.Timedout");
        let log = fixture.logged("hangs", "Status: timeout").await;
        let request = log.split("START RequestId: ").nth(1).unwrap().split(' ').next().unwrap();
        assert_eq!(error.message, format!("RequestId: {request} Error: Task timed out after 0.30 seconds"));
        assert_eq!(fixture.error("hangs").await.error_type, "Sandbox.Timedout");
        assert_eq!(fixture.counters_of("hangs").cold_starts, 2, "{}", fixture.name);
    }
}

#[tokio::test]
async fn a_function_that_does_not_start_fails_its_events() {
    for fixture in both(&[function("broken", "exits-at-start")], |_| {}) {
        for _ in 0..5 {
            assert_eq!(fixture.error("broken").await.error_type, "Runtime.ExitError", "{}", fixture.name);
        }
        let log = fixture.logged("broken", "INIT_REPORT").await;
        assert!(log.contains("no configuration"), "{}", fixture.name);
    }
}

#[tokio::test]
async fn no_more_at_once_than_the_limit_and_no_more_waiting_than_the_queue_holds() {
    let mut slow = function("slow", "slow");
    slow.reserved_concurrency = Some(2);
    for fixture in both(&[slow], |limits| limits.queue_length = 2) {
        let outcomes = join_all((0..6).map(|_| fixture.invoke("slow", json!({ "ms": 200 })))).await;
        let throttled = outcomes.iter().filter(|outcome| **outcome == Outcome::Throttled).count();
        // Processes that are starting take nothing yet, so two more of the six wait in the queue and are throttled.
        let expected = if fixture.name == "processes" { 4 } else { 2 };
        assert_eq!(throttled, expected, "{}", fixture.name);
        assert_eq!(fixture.counters_of("slow").throttles, u64::try_from(expected).unwrap());
    }
}

#[tokio::test]
async fn a_function_without_concurrency_is_throttled() {
    let mut nothing = function("echo", "echo");
    nothing.reserved_concurrency = Some(0);
    for fixture in both(&[nothing], |_| {}) {
        assert_eq!(fixture.invoke("echo", json!(1)).await, Outcome::Throttled, "{}", fixture.name);
    }
}

#[tokio::test]
async fn an_event_that_waits_too_long_is_throttled() {
    let mut slow = function("slow", "slow");
    slow.reserved_concurrency = Some(1);
    for fixture in both(&[slow], |limits| limits.queue_wait = Duration::from_secs(2)) {
        // A start that took longer than the wait would be throttled too: ask until it is up.
        while !matches!(fixture.invoke("slow", json!({ "ms": 0 })).await, Outcome::Answered(_)) {}
        let before = fixture.counters_of("slow").throttles;
        let long = fixture.invoke("slow", json!({ "ms": 3000 }));
        let late = async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            fixture.invoke("slow", json!({ "ms": 0 })).await
        };
        let (long, late) = tokio::join!(long, late);
        assert!(matches!(long, Outcome::Answered(_)), "{}", fixture.name);
        assert_eq!(late, Outcome::Throttled, "{}", fixture.name);
        assert_eq!(fixture.counters_of("slow").throttles, before + 1);
    }
}

#[tokio::test]
async fn answers_and_events_over_six_megabytes_fail() {
    for fixture in both(&[function("large", "large"), function("echo", "echo")], |_| {}) {
        assert_eq!(fixture.error("large").await.error_type, "Function.ResponseSizeTooLarge", "{}", fixture.name);
        let outcome = fixture.invoke("echo", json!("x".repeat(7_000_000))).await;
        let Outcome::Failed(error) = outcome else { panic!("{}: {outcome:?}", fixture.name) };
        assert_eq!(error.error_type, "RequestEntityTooLargeException", "{}", fixture.name);
    }
}

#[tokio::test]
async fn an_unknown_function_is_said_to_be_unknown() {
    for fixture in both(&[], |_| {}) {
        assert_eq!(fixture.error("nobody").await.error_type, "ResourceNotFoundException", "{}", fixture.name);
    }
}

#[tokio::test]
async fn stopping_lets_a_running_invocation_finish_and_takes_no_more() {
    for fixture in both(&[function("slow", "slow")], |_| {}) {
        fixture.answer("slow", json!({ "ms": 0 })).await;
        let (name, invoker) = (fixture.name, fixture.invoker());
        let running = tokio::spawn(invoker("slow".into(), Bytes::from_static(br#"{"ms":300}"#)));
        tokio::time::sleep(Duration::from_millis(50)).await;
        fixture.stop().await;
        assert!(matches!(running.await.unwrap(), Outcome::Answered(_)), "{name}");
        assert_eq!(invoker("slow".into(), Bytes::from_static(b"{}")).await, Outcome::Throttled, "{name}");
    }
}

#[tokio::test]
async fn dropping_the_host_ends_what_runs() {
    for fixture in both(&[function("slow", "slow")], |_| {}) {
        fixture.answer("slow", json!({ "ms": 0 })).await;
        let name = fixture.name;
        let running = tokio::spawn(fixture.invoker()("slow".into(), Bytes::from_static(br#"{"ms":60000}"#)));
        tokio::time::sleep(Duration::from_millis(50)).await;
        drop(fixture);
        assert!(matches!(running.await.unwrap(), Outcome::Failed(_)), "{name}");
    }
}

#[tokio::test]
async fn several_states_of_a_function_take_turns() {
    let directory = tempfile::tempdir().unwrap();
    let functions = [function("echo", "echo")];
    let config = InProcessConfig { states: 3, ..in_process(directory.path(), &functions, HostLimits::default()) };
    let host = InProcessHost::start(config).unwrap();
    for _ in 0..7 {
        let outcome = host.invoker()("echo".into(), Bytes::from_static(b"1")).await;
        assert!(matches!(outcome, Outcome::Answered(_)));
    }
    let expected = Counters { invocations: 7, cold_starts: 3, environments: 3, ..Counters::default() };
    assert_eq!(host.counters(), expected);
}

#[tokio::test]
async fn a_function_that_is_not_linked_says_what_to_do() {
    let directory = tempfile::tempdir().unwrap();
    let mut nowhere = function("shop", "echo");
    nowhere.binary = "shop-bootstrap".into();
    let error = InProcessHost::start(in_process(directory.path(), &[nowhere], HostLimits::default())).unwrap_err();
    assert_eq!(
        error.to_string(),
        "function shop: this program has no function shop-bootstrap: run it with --host processes"
    );
}
