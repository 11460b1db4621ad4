//! SQS: standard queues, exact where SQS is exact and at least once where it is not.
//!
//! A message that was acknowledged is in the database; a message that was received stays out of sight for its
//! visibility timeout; one received too often goes to the dead-letter queue at the next receive, as in SQS. Every
//! function here is what the JSON protocol offers, for callers in the same process.

mod batch;
mod digest;
mod error;
mod messages;
mod protocol;
mod queue;
mod settings;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

pub use batch::Entry;
pub use error::SqsError;

use super::database::Database;
use crate::clock::Clock;
use messages::Receipt;
use queue::Queue;

/// The engine. Copies share its state.
#[derive(Clone)]
pub struct Sqs {
    database: Database,
    clock: Clock,
    doors: Arc<Mutex<HashMap<String, Door>>>,
    purges: Arc<Mutex<HashMap<String, i64>>>,
}

/// Where those who wait for a queue's messages stand.
#[derive(Clone, Debug, Default)]
struct Door {
    arrivals: watch::Sender<u64>,
    /// Whose it is listens; the others stand in line for it. An arrival wakes one, not all of them to look at one
    /// message.
    turn: Arc<tokio::sync::Mutex<()>>,
}

/// A message to send.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outgoing {
    /// The body; not empty.
    pub body: String,
    /// Out of sight for so many seconds (up to 900); `None` is the queue's own delay.
    pub delay_s: Option<i64>,
    /// Message attributes, at most ten.
    pub attributes: BTreeMap<String, MessageAttribute>,
    /// `AWSTraceHeader`.
    pub trace_header: Option<String>,
}

impl Outgoing {
    /// A message with nothing but a body.
    pub fn text(body: impl Into<String>) -> Self {
        Self { body: body.into(), ..Self::default() }
    }

    /// What counts against the size limit.
    fn size_bytes(&self) -> usize {
        let attributes: usize =
            self.attributes.iter().map(|(name, attribute)| name.len() + attribute.size_bytes()).sum();
        self.body.len() + attributes
    }
}

/// A message attribute, in SQS's own JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MessageAttribute {
    /// `String`, `Number`, `Binary`, or one of these with a label (`Number.int`).
    #[serde(rename = "DataType")]
    pub data_type: String,
    /// The value of a `String` or `Number`.
    #[serde(rename = "StringValue", default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The value of a `Binary`, in base64.
    #[serde(rename = "BinaryValue", default, skip_serializing_if = "Option::is_none")]
    pub binary: Option<String>,
}

impl MessageAttribute {
    fn decoded_binary(&self) -> Option<Vec<u8>> {
        self.binary.as_deref().map(|text| STANDARD.decode(text).unwrap_or_default())
    }

    fn size_bytes(&self) -> usize {
        let value = self.decoded_binary().map(|binary| binary.len()).or(self.text.as_ref().map(String::len));
        self.data_type.len() + value.unwrap_or(0)
    }

    fn check(&self, name: &str) -> Result<(), SqsError> {
        let invalid =
            |reason: &str| Err(SqsError::InvalidParameterValue(format!("The message attribute '{name}' {reason}")));
        let kind = self.data_type.split('.').next().unwrap_or_default();
        match kind {
            "String" | "Number" if self.text.as_deref().is_none_or(str::is_empty) => {
                invalid("must contain a non-empty message attribute value.")
            }
            "Number" if self.text.as_deref().is_some_and(|text| text.parse::<f64>().is_err()) => {
                invalid("has a value that is not a number.")
            }
            "Binary" if self.decoded_binary().is_none_or(|binary| binary.is_empty()) => {
                invalid("must contain a non-empty message attribute value.")
            }
            "String" | "Number" | "Binary" => Ok(()),
            _ => invalid(
                "has an invalid message attribute type, the set of supported type prefixes is Binary, Number, and \
                 String.",
            ),
        }
    }
}

/// What SQS says of a message it took.
#[derive(Clone, Debug, PartialEq)]
pub struct Sent {
    pub message_id: String,
    /// MD5 of its body.
    pub md5_of_body: String,
    /// MD5 of its attributes, if it has any.
    pub md5_of_attributes: Option<String>,
}

/// A message that was received.
#[derive(Clone, Debug, PartialEq)]
pub struct Received {
    /// Its id, the same at every receive.
    pub message_id: String,
    /// Deletes it; another one at every receive.
    pub receipt_handle: String,
    pub body: String,
    pub attributes: BTreeMap<String, MessageAttribute>,
    /// `AWSTraceHeader`.
    pub trace_header: Option<String>,
    /// When it was sent, in milliseconds since 1970.
    pub sent_ms: i64,
    /// When it was first received, in milliseconds since 1970.
    pub first_received_ms: i64,
    /// How often it was received, this time included.
    pub receive_count: i64,
    /// The queue it came from, if this is a dead-letter queue.
    pub dead_letter_source_arn: Option<String>,
    row: i64,
}

impl Received {
    /// MD5 of its body.
    pub fn md5_of_body(&self) -> String {
        digest::of_text(&self.body)
    }

    /// The attributes that SQS itself gives a message, as an event or a `ReceiveMessage` answer has them.
    pub fn system_attributes(&self) -> BTreeMap<String, String> {
        let mut attributes = BTreeMap::from([
            ("ApproximateFirstReceiveTimestamp".to_owned(), self.first_received_ms.to_string()),
            ("ApproximateReceiveCount".to_owned(), self.receive_count.to_string()),
            ("SenderId".to_owned(), crate::ACCOUNT.to_owned()),
            ("SentTimestamp".to_owned(), self.sent_ms.to_string()),
        ]);
        if let Some(trace) = &self.trace_header {
            attributes.insert("AWSTraceHeader".to_owned(), trace.clone());
        }
        if let Some(arn) = &self.dead_letter_source_arn {
            attributes.insert("DeadLetterQueueSourceArn".to_owned(), arn.clone());
        }
        attributes
    }
}

/// How many messages a queue has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Can be received now.
    pub visible: i64,
    /// Received, neither deleted nor visible again.
    pub in_flight: i64,
    /// Sent with a delay that is not over.
    pub delayed: i64,
}

/// How to receive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Receive {
    /// At most so many messages, 1 to 10.
    pub max: usize,
    /// Wait so many seconds (up to 20) for a first message; `None` is the queue's own wait.
    pub wait_s: Option<i64>,
    /// Out of sight for so many seconds; `None` is the queue's own visibility timeout.
    pub visibility_s: Option<i64>,
}

impl Default for Receive {
    fn default() -> Self {
        Self { max: 10, wait_s: None, visibility_s: None }
    }
}

impl Sqs {
    pub(super) fn new(database: Database, clock: Clock) -> Self {
        Self { database, clock, doors: Arc::default(), purges: Arc::default() }
    }

    /// The URL of a queue, whether or not it exists. Calls may name any host: only the last part counts.
    pub fn url_of(name: &str) -> String {
        format!("https://sqs.{}.amazonaws.com/{}/{name}", crate::REGION, crate::ACCOUNT)
    }

    /// The ARN of a queue, whether or not it exists.
    pub fn arn_of(name: &str) -> String {
        queue::arn_of(name)
    }

    /// The queue's name in an ARN or a URL.
    pub fn name_of(arn_or_url: &str) -> &str {
        queue::name_in_arn(arn_or_url).unwrap_or_else(|| queue::name_in_url(arn_or_url))
    }

    fn door(&self, queue: &str) -> Door {
        let mut doors = self.doors.lock().unwrap_or_else(PoisonError::into_inner);
        doors.entry(queue.to_owned()).or_default().clone()
    }

    fn announce(&self, queue: &str) {
        let doors = self.doors.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(door) = doors.get(queue) {
            door.arrivals.send_modify(|count| *count = count.wrapping_add(1));
        }
    }

    /// Sends one message.
    pub async fn send(&self, queue: &str, message: Outgoing) -> Result<Sent, SqsError> {
        let (name, now_ms) = (queue.to_owned(), self.clock.now_ms());
        let sent =
            self.database.transaction(move |db| messages::send(db, &Queue::find(db, &name)?, &message, now_ms)).await?;
        self.announce(queue);
        Ok(sent)
    }

    /// Receives messages, waiting for a first one as `how` or the queue says. Gives none when the wait is over.
    pub async fn receive(&self, queue: &str, how: Receive) -> Result<Vec<Received>, SqsError> {
        how.check()?;
        let Door { arrivals, turn } = self.door(queue);
        // Listening starts before the first look, so that nothing arrives unnoticed between the two.
        let mut arrivals = arrivals.subscribe();
        let mut listening = None;
        let started_ms = self.clock.now_ms();
        loop {
            arrivals.mark_unchanged();
            let (taken, wait_s, next_ms) = self.receive_now(queue, how).await?;
            let until_ms = started_ms.saturating_add(wait_s.saturating_mul(1_000));
            if !taken.is_empty() || self.clock.now_ms() >= until_ms {
                return Ok(taken);
            }
            if listening.is_none() {
                let Ok(mine) = turn.try_lock() else {
                    // It looks again when its turn comes: the previous listener may have left messages.
                    tokio::select! {
                        mine = turn.lock() => listening = Some(mine),
                        () = self.clock.sleep_until(until_ms) => {}
                    }
                    continue;
                };
                listening = Some(mine);
            }
            let wake_ms = next_ms.map_or(until_ms, |next_ms| next_ms.min(until_ms));
            tokio::select! {
                _ = arrivals.changed() => {}
                () = self.clock.sleep_until(wake_ms) => {}
            }
        }
    }

    async fn receive_now(&self, queue: &str, how: Receive) -> Result<(Vec<Received>, i64, Option<i64>), SqsError> {
        let (name, now_ms) = (queue.to_owned(), self.clock.now_ms());
        let (taken, wait_s, next_ms, moved_to) = self
            .database
            .transaction(move |db| {
                let queue = Queue::find(db, &name)?;
                let visibility_s = how.visibility_s.unwrap_or_else(|| queue.number("VisibilityTimeout"));
                let wait_s = how.wait_s.unwrap_or_else(|| queue.number("ReceiveMessageWaitTimeSeconds"));
                let (taken, moved_to) = messages::receive(db, &queue, how.max, visibility_s, now_ms)?;
                let next_ms = if taken.is_empty() { messages::next_visible_ms(db, &queue, now_ms)? } else { None };
                Ok::<_, SqsError>((taken, wait_s, next_ms, moved_to))
            })
            .await?;
        if let Some(dead_letters) = moved_to {
            self.announce(&dead_letters);
        }
        Ok((taken, wait_s, next_ms))
    }

    /// Deletes a message by the receipt handle of its latest receive. An older handle changes nothing, and is no
    /// error.
    pub async fn delete(&self, queue: &str, receipt_handle: &str) -> Result<(), SqsError> {
        let (name, receipt) = (queue.to_owned(), Receipt::read(receipt_handle)?);
        self.database.transaction(move |db| messages::delete(db, &Queue::find(db, &name)?, &receipt)).await
    }

    /// Makes a message in flight visible `visibility_s` seconds from now.
    pub async fn change_visibility(
        &self,
        queue: &str,
        receipt_handle: &str,
        visibility_s: i64,
    ) -> Result<(), SqsError> {
        let (name, handle, now_ms) = (queue.to_owned(), receipt_handle.to_owned(), self.clock.now_ms());
        self.database
            .transaction(move |db| {
                messages::change_visibility(db, &Queue::find(db, &name)?, &handle, visibility_s, now_ms)
            })
            .await?;
        self.announce(queue);
        Ok(())
    }

    /// How many messages a queue has.
    pub async fn counts(&self, queue: &str) -> Result<Counts, SqsError> {
        let (name, now_ms) = (queue.to_owned(), self.clock.now_ms());
        self.database.transaction(move |db| messages::count(db, &Queue::find(db, &name)?, now_ms)).await
    }
}

impl Receive {
    fn check(self) -> Result<(), SqsError> {
        let out_of = |name: &str, value: i64, range: &str| {
            Err(SqsError::InvalidParameterValue(format!(
                "Value {value} for parameter {name} is invalid. Reason: Must be {range}, if provided."
            )))
        };
        if !(1..=10).contains(&self.max) {
            return out_of("MaxNumberOfMessages", i64::try_from(self.max).unwrap_or(i64::MAX), "between 1 and 10");
        }
        if let Some(wait_s) = self.wait_s.filter(|wait_s| !(0..=20).contains(wait_s)) {
            return out_of("WaitTimeSeconds", wait_s, ">= 0 and <= 20");
        }
        if let Some(visibility_s) = self.visibility_s.filter(|visibility_s| !(0..=43_200).contains(visibility_s)) {
            return out_of("VisibilityTimeout", visibility_s, "between 0 and 43200");
        }
        Ok(())
    }
}
