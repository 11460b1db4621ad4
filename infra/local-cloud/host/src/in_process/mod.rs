//! Functions that are linked into this program: the same promises as [`crate::host`] makes with processes, without
//! processes and without sockets.
//!
//! A function is started from a [`Registry`] when it is first needed, and its state is shared by the invocations that
//! run at the same time. An invocation that takes too long is dropped where it waits, as a crash would end it, and the
//! state that it may have left half changed is replaced. A panic is an error of its invocation alone. What a process
//! can do and this cannot: end a loop that never waits.

mod logs;
mod registry;
mod running;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use aws_config::SdkConfig;
use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use lambda_http::{Body, Request, Response};
use tokio::sync::broadcast;
use tokio::task::JoinSet;

use crate::host::{Counters, FLUSH_EVERY, HostError, HostLimits, unknown_function, wait_until};
use crate::invoke::{Invoker, Outcome, Requests};
use crate::template::model::Function;

pub use logs::{LogWriter, in_function};
pub use registry::{Linked, Registry, Setup, StartFailed};
use running::Running;

/// Concurrent invocations of a function without a smaller limit of its own: Lambda's default for a whole account.
const CONCURRENCY: u32 = 1000;

/// The SDK configuration of a function, from its name and its environment variables.
pub type SdkConfigOf = Arc<dyn Fn(&str, &Arc<BTreeMap<String, String>>) -> SdkConfig + Send + Sync>;

/// What to run, and how.
#[derive(Clone)]
pub struct InProcessConfig {
    /// The functions, from the template.
    pub functions: Vec<Function>,
    /// How each is started, by its binary's name.
    pub registry: Registry,
    pub sdk_config: SdkConfigOf,
    /// Where the engines are, for what a function sends over a socket.
    pub endpoint_url: String,
    /// Where the logs go; made if it is not there.
    pub logs_dir: PathBuf,
    /// `environments` bounds concurrent invocations here.
    pub limits: HostLimits,
    /// States of one function that take turns: as many as there would be warm environments.
    pub states: usize,
}

/// The running host.
pub struct InProcessHost {
    functions: Arc<HashMap<String, Arc<Running>>>,
    stop_grace: Duration,
    // Ends with the set.
    _flusher: JoinSet<()>,
}

impl std::fmt::Debug for InProcessHost {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("InProcessHost").finish_non_exhaustive()
    }
}

impl InProcessHost {
    /// Checks that everything is there. Functions start when they are needed. Must be called inside a tokio runtime.
    pub fn start(config: InProcessConfig) -> Result<Self, HostError> {
        let logs_error = |error| HostError::Logs { path: config.logs_dir.clone(), error };
        std::fs::create_dir_all(&config.logs_dir).map_err(logs_error)?;
        let mut functions = HashMap::new();
        for function in &config.functions {
            let name = function.name.clone();
            let running = Running::new(function, &config, logs_error)?;
            if functions.insert(name.clone(), Arc::new(running)).is_some() {
                return Err(HostError::SameName(name));
            }
        }
        let functions = Arc::new(functions);
        let mut flusher = JoinSet::new();
        flusher.spawn(flush(Arc::clone(&functions)));
        Ok(Self { functions, stop_grace: config.limits.stop_grace, _flusher: flusher })
    }

    /// Runs functions by name.
    pub fn invoker(&self) -> Invoker {
        let functions = Arc::clone(&self.functions);
        Arc::new(move |function: String, payload: Bytes| match functions.get(&function) {
            Some(running) => Arc::clone(running).invoke(payload).boxed(),
            None => futures::future::ready(unknown_function(&function)).boxed(),
        })
    }

    /// Runs functions of HTTP APIs on requests that never become JSON.
    pub fn requests(&self) -> Arc<dyn Requests> {
        Arc::new(RequestsOf(Arc::clone(&self.functions)))
    }

    /// A function's log lines from now on; `None` if there is no such function.
    pub fn logs(&self, function: &str) -> Option<broadcast::Receiver<Arc<str>>> {
        self.functions.get(function).map(|running| running.log().subscribe())
    }

    /// Counters of one function, by its name; zeros if there is no such function.
    pub fn counters_of(&self, function: &str) -> Counters {
        self.functions.get(function).map(|running| running.counters()).unwrap_or_default()
    }

    /// Counters of all functions together.
    pub fn counters(&self) -> Counters {
        self.functions.values().map(|running| running.counters()).sum()
    }

    /// Takes no more events and gives the running ones a moment. What has not ended then is dropped.
    pub async fn stop(self) {
        for running in self.functions.values() {
            running.close();
        }
        wait_until(self.stop_grace, || self.functions.values().all(|running| running.in_flight() == 0)).await;
    }
}

impl Drop for InProcessHost {
    fn drop(&mut self) {
        for running in self.functions.values() {
            running.end();
        }
    }
}

struct RequestsOf(Arc<HashMap<String, Arc<Running>>>);

impl Requests for RequestsOf {
    fn takes(&self, function: &str) -> bool {
        self.0.get(function).is_some_and(|running| running.takes_requests())
    }

    fn answer(&self, function: &str, request: Request) -> BoxFuture<'static, Result<Response<Body>, Outcome>> {
        match self.0.get(function) {
            Some(running) => Arc::clone(running).answer(request).boxed(),
            None => futures::future::ready(Err(unknown_function(function))).boxed(),
        }
    }
}

async fn flush(functions: Arc<HashMap<String, Arc<Running>>>) {
    loop {
        tokio::time::sleep(FLUSH_EVERY).await;
        for running in functions.values() {
            running.log().flush();
        }
    }
}
