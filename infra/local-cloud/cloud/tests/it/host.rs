//! The host with real processes: what only they have. `both_hosts.rs` has the rest.
//!
//! This test binary is its own bootstrap: a script in a temporary directory starts it again with [`bootstrap`] as the
//! only test to run, and an environment variable says how to behave.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use bytes::Bytes;
use lambda_runtime::{Error, LambdaEvent, service_fn};
use local_cloud::clock::Clock;
use local_cloud::host::{AccessKey, Host, HostConfig, HostError, HostLimits};
use local_cloud::invoke::{FunctionError, Outcome};
use local_cloud::template::model::{AsyncConfig, Function};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Not a test of its own: the process that the host starts. Without the variable there is nothing to do.
#[test]
fn bootstrap() {
    let Ok(behaviour) = std::env::var("BEHAVIOUR") else {
        return;
    };
    if behaviour == "exits-at-start" {
        eprintln!("no configuration");
        std::process::exit(7);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let done = runtime.block_on(lambda_runtime::run(service_fn(|event| handle(&behaviour, event))));
    std::process::exit(i32::from(done.is_err()));
}

/// What a function does on either host.
pub(crate) async fn behave(behaviour: &str, event: Value) -> Result<Value, Error> {
    match behaviour {
        "panics" => panic!("the shelf is empty"),
        "fails" => Err("no such order".into()),
        "hangs" => std::future::pending().await,
        "slow" => {
            tokio::time::sleep(Duration::from_millis(event["ms"].as_u64().unwrap())).await;
            Ok(json!({ "process": std::process::id() }))
        }
        "large" => Ok(json!("x".repeat(7_000_000))),
        _ => Ok(event),
    }
}

async fn handle(behaviour: &str, event: LambdaEvent<Value>) -> Result<Value, Error> {
    match behaviour {
        "exits" => std::process::exit(3),
        "environment" => {
            let variables: serde_json::Map<_, _> = std::env::vars().map(|(name, value)| (name, json!(value))).collect();
            let context = event.context;
            Ok(json!({
                "variables": variables,
                "arn": context.invoked_function_arn,
                "request": context.request_id,
                "trace": context.xray_trace_id,
                "deadline": context.deadline,
            }))
        }
        _ => {
            println!("echoing");
            behave(behaviour, event.payload).await
        }
    }
}

pub(crate) fn function(name: &str, behaviour: &str) -> Function {
    Function {
        logical_id: name.into(),
        name: name.into(),
        arn: format!("arn:aws:lambda:us-east-1:000000000000:function:{name}"),
        binary: "test-bootstrap".into(),
        timeout: Duration::from_secs(20),
        memory_mb: 256,
        reserved_concurrency: None,
        environment: [("BEHAVIOUR".to_owned(), behaviour.to_owned())].into(),
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

/// A host on a temporary directory that holds the script and the logs.
struct Fixture {
    host: Host,
    directory: TempDir,
}

pub(crate) fn config(directory: &Path, functions: Vec<Function>) -> HostConfig {
    let script = directory.join("test-bootstrap");
    let this = std::env::current_exe().unwrap();
    let text = format!("#!/bin/sh\nexec '{}' --exact host::bootstrap --nocapture\n", this.display());
    std::fs::write(&script, text).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    HostConfig {
        functions,
        binaries_dir: directory.to_owned(),
        endpoint_url: "http://127.0.0.1:9".into(),
        access_keys: [(
            "environment".to_owned(),
            AccessKey { id: "AKIDENV".into(), secret: "secret".into(), session_token: "session".into() },
        )]
        .into(),
        logs_dir: directory.join("logs"),
        // Debug builds on a busy machine: nothing here may fail for being slow to start.
        limits: HostLimits {
            init_timeout: Duration::from_secs(60),
            queue_wait: Duration::from_secs(60),
            ..HostLimits::default()
        },
        clock: Clock::wall(),
    }
}

fn start(functions: Vec<Function>) -> Fixture {
    start_with(functions, |_| {})
}

fn start_with(functions: Vec<Function>, change: impl FnOnce(&mut HostConfig)) -> Fixture {
    let directory = tempfile::tempdir().unwrap();
    let mut config = config(directory.path(), functions);
    change(&mut config);
    Fixture { host: Host::start(config).unwrap(), directory }
}

impl Fixture {
    async fn invoke(&self, function: &str, event: Value) -> Outcome {
        self.host.invoker()(function.into(), Bytes::from(event.to_string())).await
    }

    async fn answer(&self, function: &str, event: Value) -> Value {
        match self.invoke(function, event).await {
            Outcome::Answered(bytes) => serde_json::from_slice(&bytes).unwrap(),
            other => panic!("{function}: {other:?}"),
        }
    }

    async fn error(&self, function: &str) -> FunctionError {
        match self.invoke(function, json!({})).await {
            Outcome::Failed(error) => error,
            other => panic!("{function}: {other:?}"),
        }
    }

    /// Waits until the function's log contains `text`: the process's output arrives by a pipe.
    async fn logged(&self, function: &str, text: &str) -> String {
        let path = self.directory.path().join(format!("logs/{function}.log"));
        for _ in 0..1000 {
            let log = std::fs::read_to_string(&path).unwrap();
            if log.contains(text) {
                return log;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("{text:?} is not in {}", std::fs::read_to_string(&path).unwrap());
    }
}

#[tokio::test]
async fn an_exit_while_invoked_is_an_exit_error_and_the_next_event_gets_a_new_process() {
    let fixture = start(vec![function("exits", "exits")]);
    for _ in 0..2 {
        let error = fixture.error("exits").await;
        assert_eq!(error.error_type, "Runtime.ExitError");
        assert!(error.message.starts_with("RequestId: "), "{}", error.message);
        assert!(error.message.ends_with(" Error: Runtime exited with error: exit status 3"), "{}", error.message);
    }
    assert_eq!(fixture.host.counters().cold_starts, 2);
}

#[tokio::test]
async fn a_function_that_does_not_start_fails_its_events_without_a_hot_loop() {
    let fixture = start(vec![function("broken", "exits-at-start")]);
    for _ in 0..20 {
        let error = fixture.error("broken").await;
        assert_eq!(error.error_type, "Runtime.ExitError");
        assert_eq!(error.message, "Runtime exited with error: exit status 7");
    }
    assert!(fixture.host.counters().cold_starts < 10, "{:?}", fixture.host.counters());
    let log = fixture.logged("broken", "INIT_REPORT").await;
    assert!(log.contains("no configuration"));
}

#[tokio::test]
async fn a_process_killed_from_outside_is_reported() {
    let fixture = start(vec![function("slow", "slow")]);
    let process = fixture.answer("slow", json!({ "ms": 0 })).await["process"].to_string();
    let invocation = fixture.invoke("slow", json!({ "ms": 30_000 }));
    let kill = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(std::process::Command::new("kill").args(["-9", &process]).status().unwrap().success());
    };
    let (outcome, ()) = tokio::join!(invocation, kill);
    let Outcome::Failed(error) = outcome else { panic!("{outcome:?}") };
    assert_eq!(error.error_type, "Runtime.ExitError");
    assert!(error.message.contains("signal: 9"), "{}", error.message);
    fixture.answer("slow", json!({ "ms": 0 })).await;
}

#[tokio::test]
async fn the_environment_is_lambdas_and_nothing_else() {
    let fixture = start(vec![function("environment", "environment")]);
    let answer = fixture.answer("environment", json!({})).await;
    let variables = answer["variables"].as_object().unwrap();
    for (name, value) in [
        ("AWS_LAMBDA_FUNCTION_NAME", "environment"),
        ("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST"),
        ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "256"),
        ("AWS_LAMBDA_LOG_GROUP_NAME", "/aws/lambda/environment"),
        ("AWS_REGION", "us-east-1"),
        ("AWS_DEFAULT_REGION", "us-east-1"),
        ("AWS_ACCESS_KEY_ID", "AKIDENV"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
        ("AWS_SESSION_TOKEN", "session"),
        ("AWS_ENDPOINT_URL", "http://127.0.0.1:9"),
        ("BEHAVIOUR", "environment"),
    ] {
        assert_eq!(variables[name], value, "{name}");
    }
    assert!(!variables.contains_key("HOME") && !variables.contains_key("CARGO_MANIFEST_DIR"));
    assert_eq!(answer["arn"], "arn:aws:lambda:us-east-1:000000000000:function:environment");
    assert!(answer["trace"].as_str().unwrap().starts_with("Root=1-"));
    assert_eq!(variables["_X_AMZN_TRACE_ID"], answer["trace"]);
    let left_ms = answer["deadline"].as_i64().unwrap() - Clock::wall().now_ms();
    assert!((10_000..=20_000).contains(&left_ms), "{left_ms}");
}

#[tokio::test]
async fn a_missing_binary_says_what_to_run() {
    let directory = tempfile::tempdir().unwrap();
    let mut nowhere = function("shop", "echo");
    nowhere.binary = "shop-bootstrap".into();
    let error = Host::start(config(directory.path(), vec![nowhere])).unwrap_err();
    assert!(matches!(error, HostError::MissingBinary { .. }));
    let path = directory.path().join("shop-bootstrap");
    let expected =
        format!("function shop: there is no binary at {}: run `cargo build --bin shop-bootstrap`", path.display());
    assert_eq!(error.to_string(), expected);
}

#[tokio::test]
async fn stopping_lets_a_running_invocation_finish_and_ends_every_process() {
    let fixture = start(vec![function("slow", "slow")]);
    let process = fixture.answer("slow", json!({ "ms": 0 })).await["process"].as_u64().unwrap();
    let invoker = fixture.host.invoker();
    let running = tokio::spawn(invoker("slow".into(), Bytes::from_static(br#"{"ms":300}"#)));
    tokio::time::sleep(Duration::from_millis(50)).await;
    fixture.host.stop().await;
    assert!(matches!(running.await.unwrap(), Outcome::Answered(_)));
    assert_eq!(invoker("slow".into(), Bytes::from_static(b"{}")).await, Outcome::Throttled);
    assert!(!Path::new(&format!("/proc/{process}")).exists());
}

#[tokio::test]
async fn dropping_the_host_kills_even_a_hanging_process() {
    let fixture = start(vec![function("slow", "slow")]);
    let process = fixture.answer("slow", json!({ "ms": 0 })).await["process"].as_u64().unwrap();
    let running = tokio::spawn(fixture.host.invoker()("slow".into(), Bytes::from_static(br#"{"ms":60000}"#)));
    tokio::time::sleep(Duration::from_millis(50)).await;
    drop(fixture);
    assert!(matches!(running.await.unwrap(), Outcome::Failed(_)));
    assert!(!Path::new(&format!("/proc/{process}")).exists());
}

#[tokio::test]
async fn idle_environments_are_stopped() {
    let fixture = start_with(vec![function("echo", "echo")], |config| {
        config.limits.idle_after = Duration::from_millis(200);
    });
    fixture.answer("echo", json!(1)).await;
    let until = Instant::now() + Duration::from_secs(10);
    while fixture.host.counters().environments > 0 {
        assert!(Instant::now() < until, "still there");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    fixture.answer("echo", json!(1)).await;
    assert_eq!(fixture.host.counters().cold_starts, 2);
}

/// What a bootstrap does when the host has been killed: its next call is refused, and it exits.
#[tokio::test]
async fn a_bootstrap_whose_runtime_api_goes_away_exits() {
    let directory = tempfile::tempdir().unwrap();
    let config = config(directory.path(), Vec::new());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut child = tokio::process::Command::new(config.binaries_dir.join("test-bootstrap"))
        .env("BEHAVIOUR", "echo")
        .env("AWS_LAMBDA_RUNTIME_API", listener.local_addr().unwrap().to_string())
        .env("AWS_LAMBDA_FUNCTION_NAME", "echo")
        .env("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST")
        .env("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "128")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let (connection, _) = listener.accept().await.unwrap();
    drop((listener, connection));
    let status = tokio::time::timeout(Duration::from_secs(10), child.wait()).await.unwrap().unwrap();
    assert!(!status.success());
}
