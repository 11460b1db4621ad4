//! Asynchronous invocation: an event that was accepted is kept until the function has answered it or it is given up.
//!
//! Each function has a queue of its own in the SQS engine, so accepted events survive a crash and a slow function
//! does not hold up another. The event is the message's body; what is known about it travels in the attributes. A
//! try that failed becomes a new, delayed message before the old one goes: a crash between the two runs the event
//! twice, never not at all, which is what Lambda promises as well.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::events::{GivenUp, failure_record};
use super::{PAUSE_AFTER_TROUBLE, is_stopping, or_stop};
use crate::clock::Clock;
use crate::engine::sqs::{MessageAttribute, Outgoing, Receive, Received, Sqs, SqsError};
use crate::host::ids;
use crate::invoke::{FunctionError, Invoker, Outcome};
use crate::template::model::{AsyncConfig, Function};

/// Lambda takes 1 MB; the attributes need a little of what one message can hold.
const LARGEST_EVENT_BYTES: usize = 1_000_000;
/// Events of one function that run at the same time.
const AT_ONCE: usize = 4;
/// An error's text is kept up to this for the record about it.
const LONGEST_ERROR: usize = 8 * 1024;
/// Lambda's waits after a function's first and second error.
const RETRY_AFTER_S: i64 = 60;
/// Lambda's longest wait after being throttled.
const LONGEST_THROTTLE_WAIT_S: i64 = 300;
/// On top of the function's timeout: waiting for an environment, and a margin.
const VISIBILITY_MARGIN_S: u64 = 60;

/// The queues of events, and what becomes of them.
#[derive(Clone)]
pub struct Asynchronous {
    sqs: Sqs,
    clock: Clock,
    invoker: Invoker,
    functions: Arc<HashMap<String, Destination>>,
}

/// What is needed to know of a function.
#[derive(Debug)]
struct Destination {
    arn: String,
    config: AsyncConfig,
}

/// Why an event was not accepted.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum AcceptError {
    /// No such function.
    #[error("Function not found: {0}")]
    UnknownFunction(String),
    /// The event is too large.
    #[error("the event has {bytes} bytes; an asynchronous one may have {LARGEST_EVENT_BYTES}")]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
    /// The event is not text.
    #[error("the event is not UTF-8 text")]
    NotText,
    /// It could not be kept.
    #[error("the event could not be kept: {0}")]
    Queue(#[from] SqsError),
}

/// What is known about an event.
#[derive(Clone, Debug, PartialEq)]
struct Progress {
    request_id: String,
    accepted_ms: i64,
    /// Attempts that ended in a function error.
    errors: u32,
    /// Attempts that were throttled.
    throttles: u32,
    last_error: Option<FunctionError>,
}

impl Asynchronous {
    /// Makes the queues that are not there yet.
    pub async fn open(sqs: Sqs, clock: Clock, invoker: Invoker, functions: &[Function]) -> Result<Self, SqsError> {
        let mut known = HashMap::new();
        for function in functions {
            let visibility_s = function.timeout.as_secs().saturating_add(VISIBILITY_MARGIN_S);
            // Four days: longer than any event may wait.
            let attributes = BTreeMap::from([
                ("VisibilityTimeout".to_owned(), visibility_s.to_string()),
                ("MessageRetentionPeriod".to_owned(), "345600".to_owned()),
            ]);
            let queue = queue_of(&function.name);
            match sqs.create_queue(&queue, attributes.clone()).await {
                Err(SqsError::QueueNameExists(_)) => sqs.set_attributes(&queue, attributes).await?,
                other => drop(other?),
            }
            let destination = Destination { arn: function.arn.clone(), config: function.asynchronous.clone() };
            known.insert(function.name.clone(), destination);
        }
        Ok(Self { sqs, clock, invoker, functions: Arc::new(known) })
    }

    /// Accepts an event for a function and gives its request id. It is kept when this returns.
    pub async fn accept(&self, function: &str, payload: &[u8]) -> Result<String, AcceptError> {
        if !self.functions.contains_key(function) {
            return Err(AcceptError::UnknownFunction(function.to_owned()));
        }
        if payload.len() > LARGEST_EVENT_BYTES {
            return Err(AcceptError::TooLarge { bytes: payload.len() });
        }
        let payload = std::str::from_utf8(payload).map_err(|_| AcceptError::NotText)?;
        // A message has a body; an event without one is an empty object, as it is for Lambda.
        let body = if payload.is_empty() { "{}" } else { payload };
        let progress = Progress {
            request_id: ids::request_id(),
            accepted_ms: self.clock.now_ms(),
            errors: 0,
            throttles: 0,
            last_error: None,
        };
        self.sqs.send(&queue_of(function), progress.message(body, 0)).await?;
        Ok(progress.request_id)
    }

    /// Runs every event that can be run now, once. Gives how many there were.
    pub async fn poll_once(&self) -> Result<usize, SqsError> {
        let mut ran = 0;
        let mut names: Vec<&String> = self.functions.keys().collect();
        names.sort();
        for function in names {
            // What fails becomes visible again only later, so this ends.
            loop {
                let messages = self.sqs.receive(&queue_of(function), one(0)).await?;
                if messages.is_empty() {
                    break;
                }
                for message in messages {
                    self.run_event(function, message).await?;
                    ran += 1;
                }
            }
        }
        Ok(ran)
    }

    /// Runs events as they come, until `stop` says true.
    pub async fn run(self, stop: watch::Receiver<bool>) {
        let mut pollers = JoinSet::new();
        for function in self.functions.keys() {
            for _ in 0..AT_ONCE {
                pollers.spawn(self.clone().keep_polling(function.clone(), stop.clone()));
            }
        }
        while pollers.join_next().await.is_some() {}
    }

    async fn keep_polling(self, function: String, mut stop: watch::Receiver<bool>) {
        let queue = queue_of(&function);
        while !is_stopping(&stop) {
            let Some(received) = or_stop(&mut stop, self.sqs.receive(&queue, one(20))).await else { return };
            let result = match received {
                Ok(messages) => self.run_events(&function, messages).await,
                Err(error) => Err(error),
            };
            if let Err(error) = result {
                tracing::warn!(function, %error, "asynchronous events cannot be read");
                or_stop(&mut stop, self.clock.sleep(PAUSE_AFTER_TROUBLE)).await;
            }
        }
    }

    async fn run_events(&self, function: &str, messages: Vec<Received>) -> Result<(), SqsError> {
        for message in messages {
            self.run_event(function, message).await?;
        }
        Ok(())
    }

    async fn run_event(&self, function: &str, message: Received) -> Result<(), SqsError> {
        let Some(destination) = self.functions.get(function) else { return Ok(()) };
        let config = &destination.config;
        let mut progress = Progress::of(&message);
        let age_ms = self.clock.now_ms().saturating_sub(progress.accepted_ms);
        if age_ms > milliseconds(config.maximum_age) {
            self.give_up(destination, &progress, &message.body, GivenUp::TooOld).await?;
            return self.sqs.delete(&queue_of(function), &message.receipt_handle).await;
        }
        let payload = Bytes::from(message.body.clone());
        match (self.invoker)(function.to_owned(), payload).await {
            Outcome::Answered(_) => {}
            Outcome::Failed(error) => {
                progress.errors = progress.errors.saturating_add(1);
                progress.last_error = Some(error);
                if progress.errors > config.retries {
                    self.give_up(destination, &progress, &message.body, GivenUp::RetriesExhausted).await?;
                } else {
                    let wait_s = RETRY_AFTER_S.saturating_mul(i64::from(progress.errors));
                    self.sqs.send(&queue_of(function), progress.message(&message.body, wait_s)).await?;
                }
            }
            Outcome::Throttled => {
                let doublings = progress.throttles.min(16);
                progress.throttles = progress.throttles.saturating_add(1);
                let wait_s = (1_i64 << doublings).min(LONGEST_THROTTLE_WAIT_S);
                self.sqs.send(&queue_of(function), progress.message(&message.body, wait_s)).await?;
            }
        }
        self.sqs.delete(&queue_of(function), &message.receipt_handle).await
    }

    /// Notifies the destination that the function's configuration names.
    async fn give_up(
        &self,
        destination: &Destination,
        progress: &Progress,
        payload: &str,
        why: GivenUp,
    ) -> Result<(), SqsError> {
        let error = progress.last_error.as_ref();
        let now_ms = self.clock.now_ms();
        if let Some(arn) = &destination.config.on_failure {
            let Destination { arn: function_arn, .. } = destination;
            let record =
                failure_record(now_ms, &progress.request_id, function_arn, why, progress.errors, payload, error);
            self.tell(arn, Outgoing::text(record.to_string())).await?;
        }
        if let Some(arn) = &destination.config.dead_letter_queue {
            let message = error.map_or("the event was not tried in time", |error| &error.message);
            let attributes = BTreeMap::from([
                ("RequestID".to_owned(), text("String", &progress.request_id)),
                ("ErrorCode".to_owned(), text("Number", if error.is_some() { "200" } else { "429" })),
                // Lambda gives the first kilobyte.
                ("ErrorMessage".to_owned(), text("String", cut(message, 1024))),
            ]);
            self.tell(arn, Outgoing { body: payload.to_owned(), attributes, ..Outgoing::default() }).await?;
        }
        tracing::warn!(
            function = destination.arn,
            request_id = progress.request_id,
            ?why,
            "asynchronous event given up"
        );
        Ok(())
    }

    /// A destination that is not there loses the record, as in AWS: it is said, and nothing waits for it.
    async fn tell(&self, queue_arn: &str, message: Outgoing) -> Result<(), SqsError> {
        match self.sqs.send(Sqs::name_of(queue_arn), message).await {
            Err(error @ SqsError::Internal(_)) => Err(error),
            Err(error) => {
                tracing::error!(queue_arn, %error, "a failed event could not be reported");
                Ok(())
            }
            Ok(_) => Ok(()),
        }
    }
}

impl Progress {
    fn message(&self, body: &str, delay_s: i64) -> Outgoing {
        let mut attributes = BTreeMap::from([
            ("RequestId".to_owned(), text("String", &self.request_id)),
            ("AcceptedMs".to_owned(), text("Number", &self.accepted_ms.to_string())),
            ("Errors".to_owned(), text("Number", &self.errors.to_string())),
            ("Throttles".to_owned(), text("Number", &self.throttles.to_string())),
        ]);
        if let Some(error) = &self.last_error {
            // An attribute's value cannot be empty.
            let kept =
                |value: &str| if value.is_empty() { "-".to_owned() } else { cut(value, LONGEST_ERROR).to_owned() };
            attributes.insert("ErrorType".to_owned(), text("String", &kept(&error.error_type)));
            attributes.insert("ErrorMessage".to_owned(), text("String", &kept(&error.message)));
        }
        Outgoing { body: body.to_owned(), delay_s: Some(delay_s), attributes, ..Outgoing::default() }
    }

    /// What [`Progress::message`] wrote. A message from elsewhere counts as accepted when it was sent.
    fn of(message: &Received) -> Self {
        let value = |name: &str| message.attributes.get(name).and_then(|attribute| attribute.text.clone());
        let number = |name: &str| value(name).and_then(|text| text.parse().ok()).unwrap_or(0);
        let last_error = value("ErrorType").zip(value("ErrorMessage"));
        Self {
            request_id: value("RequestId").unwrap_or_else(|| message.message_id.clone()),
            accepted_ms: value("AcceptedMs").and_then(|text| text.parse().ok()).unwrap_or(message.sent_ms),
            errors: number("Errors"),
            throttles: number("Throttles"),
            last_error: last_error.map(|(error_type, message)| FunctionError { error_type, message }),
        }
    }
}

/// The queue that keeps a function's events.
pub fn queue_of(function: &str) -> String {
    format!("_lambda-async-{function}")
}

/// One message at a time: its visibility is for one invocation.
fn one(wait_s: i64) -> Receive {
    Receive { max: 1, wait_s: Some(wait_s), visibility_s: None }
}

/// An attribute. SQS takes no control characters, and a function's error may have any.
pub(super) fn text(data_type: &str, value: &str) -> MessageAttribute {
    let allowed = |c: char| !c.is_control() || matches!(c, '\t' | '\n' | '\r');
    let value = value.chars().map(|c| if allowed(c) { c } else { '?' }).collect();
    MessageAttribute { data_type: data_type.to_owned(), text: Some(value), binary: None }
}

/// As much of `text` as fits into `bytes`, in whole characters.
pub(super) fn cut(text: &str, bytes: usize) -> &str {
    text.get(..text.floor_char_boundary(bytes)).unwrap_or(text)
}

fn milliseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
