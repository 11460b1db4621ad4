//! An SQS event source mapping: messages in batches to a function, and away with those that it has dealt with.

use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::answers::{Failures, failures};
use super::events::queue_record;
use super::{LARGEST_EVENT_BYTES, PAUSE_AFTER_TROUBLE, is_stopping, or_stop};
use crate::clock::Clock;
use crate::engine::sqs::{Receive, Received, Sqs, SqsError};
use crate::invoke::{Invoker, Outcome};
use crate::template::model::QueueSource;

/// Invocations at once, if the mapping allows so many. Lambda starts with five as well, and adds more while a queue
/// grows; here more of them would share the same processors, and each would have fewer messages.
const AT_ONCE: u32 = 5;
/// When every environment is busy, messages are back in sight after this.
const THROTTLED_VISIBILITY_S: i64 = 1;
/// SQS gives and takes at most so many at once.
const SQS_BATCH: usize = 10;
/// SQS's longest wait for a first message.
const LONG_POLL_S: i64 = 20;

/// A queue's messages on their way to a function.
#[derive(Clone)]
pub struct QueueConsumer {
    sqs: Sqs,
    clock: Clock,
    invoker: Invoker,
    function: String,
    source: QueueSource,
    queue: String,
}

/// What one step did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Polled {
    /// Messages received.
    pub received: usize,
    /// Of them, those that the function dealt with; the others come back into sight.
    pub succeeded: usize,
    /// Whether the function was throttled.
    pub throttled: bool,
}

impl QueueConsumer {
    /// Takes messages of `source` to `function`.
    pub fn new(sqs: Sqs, clock: Clock, invoker: Invoker, function: &str, source: &QueueSource) -> Self {
        let queue = Sqs::name_of(&source.queue_arn).to_owned();
        Self { sqs, clock, invoker, function: function.to_owned(), source: source.clone(), queue }
    }

    /// Takes one batch of what is in the queue now to the function; waits for nothing but its answer.
    pub async fn poll_once(&self) -> Result<Polled, SqsError> {
        let mut batch = self.receive(self.batch_size(), 0).await?;
        while batch.len() < self.batch_size() {
            let more = self.receive(self.batch_size().saturating_sub(batch.len()), 0).await?;
            if more.is_empty() {
                break;
            }
            batch.extend(more);
        }
        self.deliver(batch).await
    }

    /// Takes batches to the function until `stop` says true, several at a time.
    pub async fn run(self, stop: watch::Receiver<bool>) {
        let at_once = self.source.maximum_concurrency.unwrap_or(AT_ONCE).clamp(1, AT_ONCE);
        let mut pollers = JoinSet::new();
        for _ in 0..at_once {
            pollers.spawn(self.clone().keep_polling(stop.clone()));
        }
        while pollers.join_next().await.is_some() {}
    }

    async fn keep_polling(self, mut stop: watch::Receiver<bool>) {
        while !is_stopping(&stop) {
            let polled = match or_stop(&mut stop, self.gather()).await {
                None => return,
                // Not given up when the stop comes: the function has the batch, its answer counts.
                Some(Ok(batch)) => self.deliver(batch).await,
                Some(Err(error)) => Err(error),
            };
            let trouble = match polled {
                Ok(polled) => polled.throttled,
                Err(error) => {
                    tracing::warn!(queue = self.queue, function = self.function, %error, "messages cannot be read");
                    true
                }
            };
            if trouble {
                or_stop(&mut stop, self.clock.sleep(PAUSE_AFTER_TROUBLE)).await;
            }
        }
    }

    /// Waits for a first message, then until the batch is full or its window is over.
    async fn gather(&self) -> Result<Vec<Received>, SqsError> {
        let mut batch = self.receive(self.batch_size(), LONG_POLL_S).await?;
        if batch.is_empty() || self.source.window == Duration::ZERO {
            return Ok(batch);
        }
        let window_ms = i64::try_from(self.source.window.as_millis()).unwrap_or(i64::MAX);
        let until_ms = self.clock.now_ms().saturating_add(window_ms);
        while batch.len() < self.batch_size() {
            let left_ms = until_ms.saturating_sub(self.clock.now_ms());
            if left_ms <= 0 {
                break;
            }
            let room = self.batch_size().saturating_sub(batch.len());
            // Whole seconds are all that SQS waits; the rest of the window is slept.
            let wait_s = (left_ms / 1000).min(LONG_POLL_S);
            batch.extend(self.receive(room, wait_s).await?);
            if wait_s == 0 {
                self.clock.sleep_until(until_ms).await;
                let room = self.batch_size().saturating_sub(batch.len());
                if room > 0 {
                    batch.extend(self.receive(room, 0).await?);
                }
            }
        }
        Ok(batch)
    }

    async fn receive(&self, room: usize, wait_s: i64) -> Result<Vec<Received>, SqsError> {
        let how = Receive { max: room.clamp(1, SQS_BATCH), wait_s: Some(wait_s), visibility_s: None };
        self.sqs.receive(&self.queue, how).await
    }

    fn batch_size(&self) -> usize {
        usize::try_from(self.source.batch_size).unwrap_or(usize::MAX).max(1)
    }

    /// Invokes the function with the batch, in several pieces if it is too large for one event.
    async fn deliver(&self, batch: Vec<Received>) -> Result<Polled, SqsError> {
        let mut polled = Polled { received: batch.len(), ..Polled::default() };
        let (mut piece, mut records, mut bytes) = (Vec::new(), Vec::new(), 0_usize);
        for message in batch {
            let record = queue_record(&self.source.queue_arn, &message).to_string();
            if bytes.saturating_add(record.len()) > LARGEST_EVENT_BYTES && !piece.is_empty() {
                self.deliver_piece(&piece, &records, &mut polled).await?;
                (piece, records, bytes) = (Vec::new(), Vec::new(), 0);
            }
            bytes = bytes.saturating_add(record.len());
            piece.push(message);
            records.push(record);
        }
        if !piece.is_empty() {
            self.deliver_piece(&piece, &records, &mut polled).await?;
        }
        Ok(polled)
    }

    async fn deliver_piece(&self, piece: &[Received], records: &[String], polled: &mut Polled) -> Result<(), SqsError> {
        let event = format!("{{\"Records\":[{}]}}", records.join(","));
        let done: Vec<&Received> = match (self.invoker)(self.function.clone(), Bytes::from(event)).await {
            Outcome::Answered(answer) if self.source.partial_responses => {
                let ids: Vec<&str> = piece.iter().map(|message| message.message_id.as_str()).collect();
                match failures(&answer, &ids) {
                    Failures::None => piece.iter().collect(),
                    Failures::Some(failed) => {
                        piece.iter().filter(|message| !failed.contains(&message.message_id)).collect()
                    }
                    Failures::All => Vec::new(),
                }
            }
            Outcome::Answered(_) => piece.iter().collect(),
            Outcome::Failed(_) => Vec::new(),
            Outcome::Throttled => {
                polled.throttled = true;
                return self.give_back(piece).await;
            }
        };
        polled.succeeded = polled.succeeded.saturating_add(done.len());
        for chunk in done.chunks(SQS_BATCH) {
            self.sqs.delete_batch(&self.queue, numbered(chunk.iter().copied())).await?;
        }
        Ok(())
    }

    /// These were not processed: they become visible soon, not after the whole visibility timeout.
    async fn give_back(&self, piece: &[Received]) -> Result<(), SqsError> {
        for message in piece {
            match self.sqs.change_visibility(&self.queue, &message.receipt_handle, THROTTLED_VISIBILITY_S).await {
                // Its visibility timeout is over already.
                Ok(()) | Err(SqsError::MessageNotInflight(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Entries of a batch call: an id each, and the receipt handle.
fn numbered<'a>(messages: impl Iterator<Item = &'a Received>) -> Vec<(String, String)> {
    messages.enumerate().map(|(number, message)| (number.to_string(), message.receipt_handle.clone())).collect()
}
