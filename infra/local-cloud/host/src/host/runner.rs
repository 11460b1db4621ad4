//! One function in the host: its pool, its log, its counters, and how an event gets its answer.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::{oneshot, watch};

use super::log::FunctionLog;
use super::pool::{Current, Invocation, Pool, Submitted};
use super::{Counters, HostLimits, LARGEST_PAYLOAD_BYTES, environment, ids};
use crate::clock::Clock;
use crate::invoke::{FunctionError, Outcome};
use crate::template::model::Function;

/// A function that the host runs.
#[derive(Debug)]
pub(super) struct Runner {
    pub(super) function: Function,
    pub(super) program: PathBuf,
    /// What every environment of the function gets, without what differs between them.
    pub(super) variables: BTreeMap<String, String>,
    pub(super) limits: HostLimits,
    pub(super) clock: Clock,
    pub(super) log: FunctionLog,
    pub(super) counts: Counts,
    /// True, or its sender gone: every process must end.
    pub(super) stopped: watch::Receiver<bool>,
    pub(super) pool: Mutex<Pool>,
}

/// What has happened since the host started.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) invocations: AtomicU64,
    pub(crate) errors: AtomicU64,
    pub(crate) cold_starts: AtomicU64,
    pub(crate) throttles: AtomicU64,
}

impl Counts {
    /// An invocation ended.
    pub(crate) fn ended(&self, failed: bool) {
        count(&self.invocations);
        if failed {
            count(&self.errors);
        }
    }

    /// The counters, without the environments that there are now.
    pub(crate) fn read(&self) -> Counters {
        Counters {
            invocations: self.invocations.load(Ordering::Relaxed),
            errors: self.errors.load(Ordering::Relaxed),
            cold_starts: self.cold_starts.load(Ordering::Relaxed),
            throttles: self.throttles.load(Ordering::Relaxed),
            environments: 0,
        }
    }
}

/// The lines that Lambda writes at the end of an invocation.
pub(crate) fn report(
    request_id: &str,
    took: Duration,
    init: Option<Duration>,
    memory_mb: u32,
    error: Option<&FunctionError>,
) -> String {
    let status = match error.map(|error| error.error_type.as_str()) {
        None => String::new(),
        Some("Sandbox.Timedout") => "\tStatus: timeout".to_owned(),
        Some(other) => format!("\tStatus: error\tError Type: {other}"),
    };
    let duration_ms = milliseconds(took);
    let init_ms = init.map(milliseconds);
    let billed_ms = (duration_ms + init_ms.unwrap_or(0.0)).ceil();
    let init = init_ms.map(|ms| format!("\tInit Duration: {ms:.2} ms")).unwrap_or_default();
    format!(
        "END RequestId: {request_id}\nREPORT RequestId: {request_id}\tDuration: {duration_ms:.2} ms\t\
         Billed Duration: {billed_ms:.0} ms\tMemory Size: {memory_mb} MB{init}{status}"
    )
}

impl Runner {
    /// The bookkeeping, locked. Never held across an await or a write.
    pub(super) fn pool(&self) -> MutexGuard<'_, Pool> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs the function on an event. The invocation goes on if the caller stops waiting, unless it has not begun.
    pub(super) async fn invoke(self: Arc<Self>, payload: Bytes) -> Outcome {
        if payload.len() > LARGEST_PAYLOAD_BYTES {
            return Outcome::Failed(FunctionError {
                error_type: "RequestEntityTooLargeException".into(),
                message: format!("the event has {} bytes; Lambda takes {LARGEST_PAYLOAD_BYTES}", payload.len()),
            });
        }
        let request_id: Arc<str> = ids::request_id().into();
        let (answer, mut receiver) = oneshot::channel();
        let invocation = Invocation { request_id: Arc::clone(&request_id), payload, answer };
        let submitted = self.pool().submit(invocation, Instant::now());
        match submitted {
            Submitted::Started => {}
            Submitted::Queued { start } => {
                if let Some(id) = start {
                    self.start_environment(id);
                }
                match tokio::time::timeout(self.limits.queue_wait, &mut receiver).await {
                    Ok(outcome) => return outcome.unwrap_or_else(|_| stopped()),
                    Err(_) if self.pool().withdraw(&request_id) => return self.throttled(),
                    Err(_) => {}
                }
            }
            Submitted::Throttled => return self.throttled(),
            Submitted::Broken(error) => {
                count(&self.counts.invocations);
                count(&self.counts.errors);
                return Outcome::Failed(error);
            }
        }
        receiver.await.unwrap_or_else(|_| stopped())
    }

    pub(super) fn start_environment(self: &Arc<Self>, id: u64) {
        count(&self.counts.cold_starts);
        tokio::spawn(environment::run(Arc::clone(self), id));
    }

    fn throttled(&self) -> Outcome {
        count(&self.counts.throttles);
        Outcome::Throttled
    }

    /// Ends an invocation: the log's lines, the counters, the caller's answer.
    pub(super) fn complete(&self, current: Current, outcome: Outcome) {
        let Current { request_id, answer, started, init } = current;
        let error = match &outcome {
            Outcome::Failed(error) => Some(error),
            Outcome::Answered(_) | Outcome::Throttled => None,
        };
        self.counts.ended(error.is_some());
        self.log.write(&report(&request_id, started.elapsed(), init, self.function.memory_mb, error));
        // The caller may have stopped waiting.
        let _ = answer.send(outcome);
    }

    /// Ends an invocation that never began.
    pub(super) fn fail_waiting(&self, invocation: Invocation, error: FunctionError) {
        count(&self.counts.invocations);
        count(&self.counts.errors);
        let _ = invocation.answer.send(Outcome::Failed(error));
    }
}

fn stopped() -> Outcome {
    Outcome::Failed(FunctionError {
        error_type: "ServiceException".into(),
        message: "the local cloud stopped before the function answered".into(),
    })
}

pub(crate) fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
