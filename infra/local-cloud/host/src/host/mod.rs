//! The Lambda host: bootstrap processes over the Runtime API.
//!
//! It promises what Lambda does: one process is one environment and runs one invocation at a time; a free one is used
//! again, the most recent first; there are never more than the function's limit; an invocation that takes too long is
//! killed, one whose process exits is reported, and neither disturbs any other.

mod environment;
pub(crate) mod ids;
pub(crate) mod log;
mod pool;
pub(crate) mod runner;
mod runtime_api;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::FutureExt;
use tokio::sync::{broadcast, watch};

use crate::REGION;
use crate::clock::Clock;
use crate::invoke::{FunctionError, Invoker, Outcome};
use crate::template::model::Function;
pub(crate) use log::FunctionLog;
use pool::Pool;
use runner::{Counts, Runner};

/// Lambda's limit for an event and for an answer: 6 MB and a little for the envelope.
pub(crate) const LARGEST_PAYLOAD_BYTES: usize = 6 * 1024 * 1024 + 100;
/// How often idle environments are looked for, and a stopping host looks whether it is quiet.
const IDLE_CHECK: Duration = Duration::from_secs(1);
const QUIET_CHECK: Duration = Duration::from_millis(5);
/// How often the logs' buffers are written to their files.
pub(crate) const FLUSH_EVERY: Duration = Duration::from_millis(50);

/// What to run, and how.
#[derive(Clone, Debug)]
pub struct HostConfig {
    /// The functions, from the template.
    pub functions: Vec<Function>,
    /// Where the bootstrap binaries are, each under its cargo name.
    pub binaries_dir: PathBuf,
    /// Where the functions find DynamoDB, SQS and Scheduler.
    pub endpoint_url: String,
    /// Each function's credentials, by its name. A function that is not in it gets a key named after itself.
    pub access_keys: BTreeMap<String, AccessKey>,
    /// Where the logs go; made if it is not there.
    pub logs_dir: PathBuf,
    /// Bounds.
    pub limits: HostLimits,
    /// The time that functions see.
    pub clock: Clock,
}

/// The credentials of a function's process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessKey {
    /// `AWS_ACCESS_KEY_ID`: who calls.
    pub id: String,
    /// `AWS_SECRET_ACCESS_KEY`.
    pub secret: String,
    /// `AWS_SESSION_TOKEN`.
    pub session_token: String,
}

/// The host's bounds, each with a default that suits one machine.
#[derive(Clone, Debug)]
pub struct HostLimits {
    /// Environments of one function at once, if it has no smaller limit of its own.
    pub environments: u32,
    /// Events of one function that may wait for an environment.
    pub queue_length: usize,
    /// How long an event waits before it is throttled.
    pub queue_wait: Duration,
    /// A process must ask for work within this.
    pub init_timeout: Duration,
    /// A free environment is stopped after this.
    pub idle_after: Duration,
    /// How long running invocations get when the host stops.
    pub stop_grace: Duration,
    /// The size at which a log file is put aside.
    pub log_bytes: u64,
}

impl Default for HostLimits {
    fn default() -> Self {
        Self {
            environments: 8,
            queue_length: 1000,
            queue_wait: Duration::from_secs(10),
            init_timeout: Duration::from_secs(10),
            idle_after: Duration::from_secs(300),
            stop_grace: Duration::from_secs(3),
            log_bytes: 16 * 1024 * 1024,
        }
    }
}

/// Why the host cannot start.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// A function has no binary.
    #[error("function {function}: there is no binary at {}: run `cargo build --bin {binary}`", path.display())]
    MissingBinary {
        /// The function's name.
        function: String,
        /// The cargo binary.
        binary: String,
        /// Where it was looked for.
        path: PathBuf,
    },
    /// A function is not linked into this program.
    #[error("function {function}: this program has no function {binary}: run it with --host processes")]
    NotLinked {
        /// The function's name.
        function: String,
        /// The cargo binary.
        binary: String,
    },
    /// Two functions have one name.
    #[error("two functions are named {0}: give one of them another FunctionName")]
    SameName(String),
    /// The logs' directory cannot be used.
    #[error("cannot write logs in {}: {error}: make it writable or choose another DATA_DIR", path.display())]
    Logs {
        /// The directory.
        path: PathBuf,
        error: std::io::Error,
    },
}

/// What has happened since the host started, and what there is now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Invocations that ended.
    pub invocations: u64,
    /// Those of them that failed.
    pub errors: u64,
    /// Environments started.
    pub cold_starts: u64,
    /// Events turned away.
    pub throttles: u64,
    /// Environments now, busy, free and starting.
    pub environments: u64,
}

impl std::iter::Sum for Counters {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| Self {
            invocations: sum.invocations + one.invocations,
            errors: sum.errors + one.errors,
            cold_starts: sum.cold_starts + one.cold_starts,
            throttles: sum.throttles + one.throttles,
            environments: sum.environments + one.environments,
        })
    }
}

/// The running host. Dropping it kills every process at once; [`Host::stop`] lets them finish.
#[derive(Debug)]
pub struct Host {
    runners: Arc<HashMap<String, Arc<Runner>>>,
    stop: watch::Sender<bool>,
    stop_grace: Duration,
}

impl Host {
    /// Checks that everything is there. Processes start when they are needed. Must be called inside a tokio runtime.
    pub fn start(config: HostConfig) -> Result<Self, HostError> {
        let logs_error = |error| HostError::Logs { path: config.logs_dir.clone(), error };
        std::fs::create_dir_all(&config.logs_dir).map_err(logs_error)?;
        let (stop, stopped) = watch::channel(false);
        let mut runners = HashMap::new();
        for function in &config.functions {
            let name = function.name.clone();
            let program = config.binaries_dir.join(&function.binary);
            if !program.is_file() {
                let binary = function.binary.clone();
                return Err(HostError::MissingBinary { function: name, binary, path: program });
            }
            let most = config.limits.environments;
            let limit = function.reserved_concurrency.map_or(most, |reserved| reserved.min(most));
            let runner = Runner {
                function: function.clone(),
                program,
                variables: variables(function, &config),
                limits: config.limits.clone(),
                clock: config.clock.clone(),
                log: FunctionLog::open(&config.logs_dir, &name, config.limits.log_bytes).map_err(logs_error)?,
                counts: Counts::default(),
                stopped: stopped.clone(),
                pool: Mutex::new(Pool::new(usize::try_from(limit).unwrap_or(usize::MAX), config.limits.queue_length)),
            };
            if runners.insert(name.clone(), Arc::new(runner)).is_some() {
                return Err(HostError::SameName(name));
            }
        }
        let runners = Arc::new(runners);
        tokio::spawn(flush_logs(Arc::clone(&runners), stopped.clone()));
        tokio::spawn(stop_idle(Arc::clone(&runners), config.limits.idle_after, stopped));
        Ok(Self { runners, stop, stop_grace: config.limits.stop_grace })
    }

    /// Runs functions by name.
    pub fn invoker(&self) -> Invoker {
        let runners = Arc::clone(&self.runners);
        Arc::new(move |function: String, payload: Bytes| match runners.get(&function) {
            Some(runner) => Arc::clone(runner).invoke(payload).boxed(),
            None => futures::future::ready(unknown_function(&function)).boxed(),
        })
    }

    /// A function's log lines from now on; `None` if there is no such function.
    pub fn logs(&self, function: &str) -> Option<broadcast::Receiver<Arc<str>>> {
        self.runners.get(function).map(|runner| runner.log.subscribe())
    }

    /// Counters of one function, by its name; zeros if there is no such function.
    pub fn counters_of(&self, function: &str) -> Counters {
        self.runners.get(function).map(|runner| counters(runner)).unwrap_or_default()
    }

    /// Counters of all functions together.
    pub fn counters(&self) -> Counters {
        self.runners.values().map(|runner| counters(runner)).sum()
    }

    /// Takes no more events, gives the running ones a moment, then ends every process and waits until it is gone.
    pub async fn stop(self) {
        for runner in self.runners.values() {
            runner.pool().stop();
        }
        let quiet = || self.runners.values().all(|runner| runner.pool().in_flight() == 0);
        wait_until(self.stop_grace, quiet).await;
        let _ = self.stop.send(true);
        // A killed process is gone in milliseconds; a second is for a machine out of breath.
        wait_until(Duration::from_secs(1), || self.counters().environments == 0).await;
    }
}

pub(crate) async fn wait_until(at_most: Duration, done: impl Fn() -> bool) {
    let until = Instant::now() + at_most;
    while !done() && Instant::now() < until {
        tokio::time::sleep(QUIET_CHECK).await;
    }
}

async fn flush_logs(runners: Arc<HashMap<String, Arc<Runner>>>, mut stopped: watch::Receiver<bool>) {
    loop {
        for runner in runners.values() {
            runner.log.flush();
        }
        tokio::select! {
            _ = stopped.wait_for(|stopped| *stopped) => return,
            () = tokio::time::sleep(FLUSH_EVERY) => {}
        }
    }
}

async fn stop_idle(
    runners: Arc<HashMap<String, Arc<Runner>>>,
    idle_after: Duration,
    mut stopped: watch::Receiver<bool>,
) {
    loop {
        tokio::select! {
            _ = stopped.wait_for(|stopped| *stopped) => return,
            () = tokio::time::sleep(IDLE_CHECK.min(idle_after)) => {}
        }
        for runner in runners.values() {
            runner.pool().stop_idle(idle_after, Instant::now());
        }
    }
}

fn counters(runner: &Runner) -> Counters {
    let environments = u64::try_from(runner.pool().size()).unwrap_or(u64::MAX);
    Counters { environments, ..runner.counts.read() }
}

pub(crate) fn unknown_function(function: &str) -> Outcome {
    Outcome::Failed(FunctionError {
        error_type: "ResourceNotFoundException".into(),
        message: format!("Function not found: {function}"),
    })
}

/// A function's environment variables: its own, then those that Lambda reserves. Of the host's own only PATH.
fn variables(function: &Function, config: &HostConfig) -> BTreeMap<String, String> {
    let key = config.access_keys.get(&function.name).cloned().unwrap_or_else(|| AccessKey {
        id: function.name.clone(),
        secret: "local".into(),
        session_token: "local".into(),
    });
    let root = config.binaries_dir.display().to_string();
    let of_processes = [
        ("AWS_ACCESS_KEY_ID", key.id),
        ("AWS_SECRET_ACCESS_KEY", key.secret),
        ("AWS_SESSION_TOKEN", key.session_token),
        ("AWS_ENDPOINT_URL", config.endpoint_url.clone()),
        ("LAMBDA_TASK_ROOT", root.clone()),
        ("LAMBDA_RUNTIME_DIR", root),
        ("_HANDLER", "bootstrap".into()),
        ("TZ", ":UTC".into()),
    ];
    let mut variables = variables_of(function, &config.endpoint_url);
    variables.extend(of_processes.map(|(name, value)| (name.to_owned(), value)));
    if let Ok(path) = std::env::var("PATH") {
        variables.insert("PATH".into(), path);
    }
    variables
}

/// The variables that a function has wherever it runs: its own, and what Lambda says about it.
pub(crate) fn variables_of(function: &Function, endpoint_url: &str) -> BTreeMap<String, String> {
    let reserved = [
        ("AWS_LAMBDA_FUNCTION_NAME", function.name.clone()),
        ("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST".into()),
        ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", function.memory_mb.to_string()),
        ("AWS_LAMBDA_LOG_GROUP_NAME", format!("/aws/lambda/{}", function.name)),
        ("AWS_LAMBDA_INITIALIZATION_TYPE", "on-demand".into()),
        ("AWS_EXECUTION_ENV", "AWS_Lambda_provided.al2023".into()),
        ("AWS_REGION", REGION.into()),
        ("AWS_DEFAULT_REGION", REGION.into()),
    ];
    let mut variables = function.environment.clone();
    // Where the template says that one service is, with that service's own path, it is here too.
    for (name, value) in &mut variables {
        if name.starts_with("AWS_ENDPOINT_URL_") {
            let path = value.split_once("://").and_then(|(_, rest)| rest.split_once('/')).map_or("", |(_, path)| path);
            *value = format!("{endpoint_url}/{path}").trim_end_matches('/').to_owned();
        }
    }
    variables.extend(reserved.map(|(name, value)| (name.to_owned(), value)));
    variables
}
