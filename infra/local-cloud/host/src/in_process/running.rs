//! One function in this process: its state, its log, its counters, and how an event gets its answer.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures::FutureExt;
use lambda_http::http::header::SET_COOKIE;
use lambda_http::{Body, Request, Response};
use serde_json::{Map, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tracing::Instrument;

use super::registry::{Linked, Setup, StartFailed, StartOf};
use super::{CONCURRENCY, InProcessConfig, SdkConfigOf, logs};
use crate::host::runner::{Counts, count};
use crate::host::{Counters, FunctionLog, HostError, HostLimits, LARGEST_PAYLOAD_BYTES, ids, variables_of};
use crate::invoke::{FunctionError, Outcome};
use crate::template::model::Function;

/// A function of this process.
pub(super) struct Running {
    function: Function,
    start: StartOf,
    variables: Arc<BTreeMap<String, String>>,
    sdk_config: SdkConfigOf,
    log: Arc<FunctionLog>,
    counts: Counts,
    limits: HostLimits,
    concurrency: usize,
    permits: Arc<Semaphore>,
    waiting: AtomicUsize,
    states: Vec<Mutex<Option<State>>>,
    next_state: AtomicUsize,
    takes_requests: OnceLock<bool>,
    ended: watch::Sender<bool>,
}

/// A started function. Invocations hold it by the number that it was started under.
#[derive(Clone)]
struct State {
    number: u64,
    linked: Linked,
}

/// What an invocation is given.
enum Input {
    Event(Bytes),
    Request(Box<Request>),
}

/// What it answers.
enum Answer {
    Json(Bytes),
    Response(Response<Body>),
}

impl Running {
    pub(super) fn new(
        function: &Function,
        config: &InProcessConfig,
        logs_error: impl Fn(std::io::Error) -> HostError,
    ) -> Result<Self, HostError> {
        let start = config
            .registry
            .get(&function.binary)
            .ok_or_else(|| HostError::NotLinked { function: function.name.clone(), binary: function.binary.clone() })?;
        let most = config.limits.environments.max(CONCURRENCY);
        let limit = function.reserved_concurrency.map_or(most, |reserved| reserved.min(most));
        let concurrency = usize::try_from(limit).unwrap_or(Semaphore::MAX_PERMITS).min(Semaphore::MAX_PERMITS);
        let log = FunctionLog::open(&config.logs_dir, &function.name, config.limits.log_bytes).map_err(logs_error)?;
        Ok(Self {
            function: function.clone(),
            start,
            variables: Arc::new(variables_of(function, &config.endpoint_url)),
            sdk_config: Arc::clone(&config.sdk_config),
            log: Arc::new(log),
            counts: Counts::default(),
            limits: config.limits.clone(),
            concurrency,
            permits: Arc::new(Semaphore::new(concurrency)),
            waiting: AtomicUsize::new(0),
            states: (0..config.states.max(1)).map(|_| Mutex::new(None)).collect(),
            next_state: AtomicUsize::new(0),
            takes_requests: OnceLock::new(),
            ended: watch::channel(false).0,
        })
    }

    pub(super) fn log(&self) -> &FunctionLog {
        &self.log
    }

    pub(super) fn counters(&self) -> Counters {
        let started = self.states.iter().filter(|state| lock(state).is_some()).count();
        Counters { environments: u64::try_from(started).unwrap_or(u64::MAX), ..self.counts.read() }
    }

    /// Takes no more invocations.
    pub(super) fn close(&self) {
        self.permits.close();
    }

    /// Drops the invocations that run.
    pub(super) fn end(&self) {
        self.permits.close();
        self.ended.send_replace(true);
        self.log.flush();
    }

    pub(super) fn in_flight(&self) -> usize {
        self.concurrency.saturating_sub(self.permits.available_permits())
    }

    /// Whether the function answers requests of HTTP APIs. It is started to find out. One that does not start is given
    /// events, which then say why.
    pub(super) fn takes_requests(&self) -> bool {
        let is_requests = |(state, _): (State, _)| matches!(state.linked, Linked::Requests(_));
        *self.takes_requests.get_or_init(|| self.state().is_ok_and(is_requests))
    }

    pub(super) async fn invoke(self: Arc<Self>, payload: Bytes) -> Outcome {
        if payload.len() > LARGEST_PAYLOAD_BYTES {
            return Outcome::Failed(FunctionError {
                error_type: "RequestEntityTooLargeException".into(),
                message: format!("the event has {} bytes; Lambda takes {LARGEST_PAYLOAD_BYTES}", payload.len()),
            });
        }
        match self.run(Input::Event(payload)).await {
            Ok(Answer::Json(bytes)) if bytes.len() > LARGEST_PAYLOAD_BYTES => too_large(),
            Ok(Answer::Json(bytes)) => Outcome::Answered(bytes),
            Ok(Answer::Response(response)) => Outcome::Answered(as_json(response)),
            Err(outcome) => outcome,
        }
    }

    pub(super) async fn answer(self: Arc<Self>, request: Request) -> Result<Response<Body>, Outcome> {
        match self.run(Input::Request(Box::new(request))).await? {
            Answer::Response(response) => Ok(response),
            Answer::Json(_) => Err(failed("Runtime.Unknown", "the function takes events, not requests")),
        }
    }

    /// Runs the function. The invocation goes on if the caller stops waiting, unless it has not begun.
    async fn run(self: Arc<Self>, input: Input) -> Result<Answer, Outcome> {
        let permit = self.permit().await?;
        let (state, init) = self.state().map_err(|error| self.not_started(error))?;
        let invocation = tokio::spawn(Arc::clone(&self).invocation(state, init, input, permit));
        match invocation.await {
            Ok(answer) => answer,
            Err(_) => Err(failed("ServiceException", "the local cloud stopped before the function answered")),
        }
    }

    /// Waits for a free place among the function's concurrent invocations, as long as the queue allows.
    async fn permit(&self) -> Result<OwnedSemaphorePermit, Outcome> {
        if let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() {
            return Ok(permit);
        }
        let throttled = || {
            count(&self.counts.throttles);
            Outcome::Throttled
        };
        if self.concurrency == 0 || self.waiting.fetch_add(1, Ordering::Relaxed) >= self.limits.queue_length {
            self.waiting.fetch_sub(usize::from(self.concurrency != 0), Ordering::Relaxed);
            return Err(throttled());
        }
        let permit = tokio::time::timeout(self.limits.queue_wait, Arc::clone(&self.permits).acquire_owned()).await;
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        permit.ok().and_then(Result::ok).ok_or_else(throttled)
    }

    /// A state of the function and, if it was started for this, how long that took.
    fn state(&self) -> Result<(State, Option<Duration>), StartFailed> {
        let turn = self.next_state.fetch_add(1, Ordering::Relaxed).checked_rem(self.states.len()).unwrap_or(0);
        let Some(state) = self.states.get(turn) else { return Err("there is no state".into()) };
        let mut state = lock(state);
        if let Some(state) = &*state {
            return Ok((state.clone(), None));
        }
        let began = Instant::now();
        let log = Arc::clone(&self.log);
        let setup = Setup {
            variables: Arc::clone(&self.variables),
            config: (self.sdk_config)(&self.function.name, &self.variables),
            log: Arc::new(move |line: &str| log.write(line)),
        };
        count(&self.counts.cold_starts);
        let linked = (self.start)(setup)?;
        let started = State { number: self.counts.cold_starts.load(Ordering::Relaxed), linked };
        Ok((state.insert(started).clone(), Some(began.elapsed())))
    }

    fn not_started(&self, error: StartFailed) -> Outcome {
        let message = error.to_string();
        self.log.write(&format!("INIT_REPORT Status: error\tError Type: Runtime.ExitError\tMessage: {message}"));
        tracing::warn!(function = %self.function.name, message, "the function does not start");
        count(&self.counts.invocations);
        count(&self.counts.errors);
        failed("Runtime.ExitError", &message)
    }

    async fn invocation(
        self: Arc<Self>,
        state: State,
        init: Option<Duration>,
        input: Input,
        permit: OwnedSemaphorePermit,
    ) -> Result<Answer, Outcome> {
        let request_id = ids::request_id();
        let started = Instant::now();
        self.log.write(&format!("START RequestId: {request_id} Version: $LATEST"));
        // The span that lambda_runtime makes around an invocation.
        let span = tracing::info_span!("Lambda runtime invoke", requestId = request_id.as_str());
        let call = AssertUnwindSafe(called(&state.linked, input)).catch_unwind().instrument(span);
        let call = logs::scope(Arc::clone(&self.log), tokio::time::timeout(self.function.timeout, call));
        let mut ended = self.ended.subscribe();
        let called = tokio::select! {
            called = call => called,
            _ = ended.wait_for(|ended| *ended) => {
                return Err(failed("ServiceException", "the local cloud stopped before the function answered"));
            }
        };
        let answer = match called {
            Ok(Ok(answer)) => answer.map_err(Outcome::Failed),
            Ok(Err(panic)) => Err(failed("panic", &format!("Lambda panicked: {}", text_of(&*panic)))),
            Err(_) => Err(self.timed_out(&request_id, &state)),
        };
        self.complete(&request_id, started, init, answer.as_ref().err());
        drop(permit);
        answer
    }

    /// A state that an invocation may have left half changed is not used again.
    fn timed_out(&self, request_id: &str, state: &State) -> Outcome {
        for slot in &self.states {
            lock(slot).take_if(|used| used.number == state.number);
        }
        let seconds = self.function.timeout.as_secs_f64();
        self.log.write(&format!("{request_id} Task timed out after {seconds:.2} seconds"));
        let message = format!("RequestId: {request_id} Error: Task timed out after {seconds:.2} seconds");
        failed("Sandbox.Timedout", &message)
    }

    fn complete(&self, request_id: &str, started: Instant, init: Option<Duration>, failure: Option<&Outcome>) {
        let error = match failure {
            Some(Outcome::Failed(error)) => Some(error),
            _ => None,
        };
        self.counts.ended(error.is_some());
        let memory_mb = self.function.memory_mb;
        self.log.write(&crate::host::runner::report(request_id, started.elapsed(), init, memory_mb, error));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn called(linked: &Linked, input: Input) -> Result<Answer, FunctionError> {
    let not_readable = |error: String| FunctionError { error_type: "Runtime.Unknown".into(), message: error };
    match (linked, input) {
        (Linked::Requests(answer), Input::Request(request)) => Ok(Answer::Response(answer(*request).await)),
        (Linked::Requests(answer), Input::Event(payload)) => {
            let request =
                lambda_http::request::from_reader(&*payload).map_err(|error| not_readable(error.to_string()))?;
            Ok(Answer::Response(answer(request).await))
        }
        (Linked::Events(answer), Input::Event(payload)) => answer(payload).await.map(Answer::Json),
        (Linked::Events(_), Input::Request(_)) => Err(not_readable("the function takes events only".to_owned())),
    }
}

/// A response in payload format 2.0, as lambda_http writes it.
fn as_json(response: Response<Body>) -> Bytes {
    let (parts, body) = response.into_parts();
    let text = |value: &lambda_http::http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let cookies: Vec<String> = parts.headers.get_all(SET_COOKIE).iter().map(text).collect();
    let headers: Map<String, serde_json::Value> = parts
        .headers
        .keys()
        .filter(|name| *name != SET_COOKIE)
        .filter_map(|name| Some((name.to_string(), json!(text(parts.headers.get(name)?)))))
        .collect();
    let (body, is_base64) = match body {
        Body::Text(text) => (Some(text), false),
        Body::Binary(bytes) => (Some(STANDARD.encode(bytes)), true),
        _ => (None, false),
    };
    let answer = json!({
        "statusCode": parts.status.as_u16(),
        "headers": headers,
        "multiValueHeaders": {},
        "body": body,
        "isBase64Encoded": is_base64,
        "cookies": cookies,
    });
    Bytes::from(answer.to_string())
}

fn text_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "without a message".to_owned())
}

fn failed(error_type: &str, message: &str) -> Outcome {
    Outcome::Failed(FunctionError { error_type: error_type.to_owned(), message: message.to_owned() })
}

fn too_large() -> Outcome {
    let message =
        format!("Response payload size exceeded maximum allowed payload size ({LARGEST_PAYLOAD_BYTES} bytes).");
    failed("Function.ResponseSizeTooLarge", &message)
}
