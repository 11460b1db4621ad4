//! Dead letters: listed, and sent again.
//!
//! Sending a letter again is safe at any time, even twice, because every flow is idempotent. A letter is removed
//! only after it was sent, so stopping in the middle leaves it in one of the two queues or in both.

use std::time::Duration;

use aws_config::timeout::TimeoutConfig;
use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::{Message, MessageSystemAttributeName};
use serde_json::Value;

/// How long a letter that is being handled is invisible to others.
const HIDDEN_FOR_S: i32 = 300;
/// How long SQS waits for letters. Without a wait it asks only some of its machines, and a queue with few letters
/// seems empty.
const WAIT_S: i32 = 1;
/// How long one attempt of a call may take, and the call with its retries. Both include the wait.
const TRY_TIMEOUT: Duration = Duration::from_secs(3);
const CALL_TIMEOUT: Duration = Duration::from_secs(7);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Letter {
    pub kind: LetterKind,
    pub order: Option<String>,
    pub reason: String,
    pub body: String,
    receipt: String,
}

/// What a letter is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LetterKind {
    /// An accepted purchase that did not become an order.
    Order,
    /// A payment deadline whose check failed.
    Deadline,
    /// Changes of stock that could not be processed.
    Stock,
    Push,
    /// A run of reconcile that failed, or was not started.
    Reconcile,
}

/// The URLs of the dead-letter queues, and of the queue that letters are sent to again.
#[derive(Clone, Debug)]
pub struct Queues {
    pub orders_queue: String,
    pub orders_dead_letters: String,
    pub timeout_dead_letters: String,
    /// Changes of stock that could not be processed.
    pub stock_stream_dead_letters: String,
    pub push_dead_letters: String,
    pub reconcile_dead_letters: String,
}

/// The dead letters of a system.
#[derive(Clone, Debug)]
pub struct DeadLetters {
    client: Client,
    queues: Queues,
}

impl LetterKind {
    pub const ALL: [LetterKind; 5] =
        [LetterKind::Order, LetterKind::Deadline, LetterKind::Stock, LetterKind::Push, LetterKind::Reconcile];

    /// Its name in URLs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Order => "orders",
            Self::Deadline => "deadlines",
            Self::Stock => "stock",
            Self::Push => "push",
            Self::Reconcile => "reconcile",
        }
    }

    pub fn words(self) -> &'static str {
        match self {
            Self::Order => "purchases that did not become orders",
            Self::Deadline => "payment deadlines whose check failed",
            Self::Stock => "stock changes that did not reach pages and ledger",
            Self::Push => "changes of orders that could not be pushed",
            Self::Reconcile => "runs of reconcile that failed or did not start",
        }
    }

    /// What sending again does.
    pub fn remedy(self) -> &'static str {
        match self {
            Self::Order => "sent to the orders queue again",
            // Reconcile checks every overdue order each minute, with or without a schedule.
            Self::Deadline => "removed: reconcile closes every overdue order by itself",
            // Reconcile compares every page with its buckets; only the ledger's rows of these changes are missing.
            Self::Stock => {
                "kept: the pages mend themselves, the ledger lacks these rows (see the stream, for 24 hours)"
            }
            // A web page that receives no message asks by itself.
            Self::Push => "removed: buyers see the state when they next look",
            // Another run starts every minute.
            Self::Reconcile => "removed: the next run does what this one did not",
        }
    }

    fn queue(self, queues: &Queues) -> &str {
        match self {
            Self::Order => &queues.orders_dead_letters,
            Self::Deadline => &queues.timeout_dead_letters,
            Self::Stock => &queues.stock_stream_dead_letters,
            Self::Push => &queues.push_dead_letters,
            Self::Reconcile => &queues.reconcile_dead_letters,
        }
    }
}

/// Why the work on dead letters stopped.
#[derive(Debug, thiserror::Error)]
#[error("{doing} did not work: {detail}")]
pub struct QueueError {
    doing: &'static str,
    detail: String,
}

impl QueueError {
    fn of<E: std::error::Error + 'static>(doing: &'static str, error: E) -> Self {
        let detail = aws_sdk_sqs::error::DisplayErrorContext(error).to_string();
        Self { doing, detail }
    }
}

impl DeadLetters {
    pub fn new(config: &aws_config::SdkConfig, queues: Queues) -> Self {
        let timeouts = config.timeout_config().map_or_else(TimeoutConfig::builder, TimeoutConfig::to_builder);
        let timeouts = timeouts.operation_attempt_timeout(TRY_TIMEOUT).operation_timeout(CALL_TIMEOUT).build();
        let config = aws_sdk_sqs::config::Builder::from(config).timeout_config(timeouts).build();
        Self { client: Client::from_conf(config), queues }
    }

    /// Receives up to ten letters.
    async fn take(&self, kind: LetterKind) -> Result<Vec<Letter>, QueueError> {
        let output = self
            .client
            .receive_message()
            .queue_url(kind.queue(&self.queues))
            .max_number_of_messages(10)
            .wait_time_seconds(WAIT_S)
            .visibility_timeout(HIDDEN_FOR_S)
            .message_attribute_names("All")
            .message_system_attribute_names(MessageSystemAttributeName::All)
            .send()
            .await
            .map_err(|error| QueueError::of("reading a dead-letter queue", error))?;
        Ok(output.messages.unwrap_or_default().into_iter().map(|message| letter(kind, message)).collect())
    }

    /// Receives the letters of a kind: `most`, or a few more. They are invisible to others for a while.
    async fn take_all(&self, kind: LetterKind, most: usize) -> Result<Vec<Letter>, QueueError> {
        let mut letters = Vec::new();
        while letters.len() < most {
            let taken = self.take(kind).await?;
            if taken.is_empty() {
                break;
            }
            letters.extend(taken);
        }
        Ok(letters)
    }

    /// Lists letters of a kind: `most`, or a few more. They are visible again afterwards.
    pub async fn list(&self, kind: LetterKind, most: usize) -> Result<Vec<Letter>, QueueError> {
        let letters = self.take_all(kind, most).await?;
        for letter in &letters {
            self.client
                .change_message_visibility()
                .queue_url(kind.queue(&self.queues))
                .receipt_handle(&letter.receipt)
                .visibility_timeout(0)
                .send()
                .await
                .map_err(|error| QueueError::of("putting a dead letter back", error))?;
        }
        Ok(letters)
    }

    /// Sends letters again, as [`LetterKind::remedy`] says: `most`, or a few more. Reports each one before it is
    /// removed.
    pub async fn redrive(
        &self,
        kind: LetterKind,
        most: usize,
        mut tell: impl FnMut(&Letter),
    ) -> Result<usize, QueueError> {
        if kind == LetterKind::Stock {
            let letters = self.list(kind, most).await?;
            letters.iter().for_each(tell);
            return Ok(0);
        }
        // All are received before any is sent: a letter that fails again comes back to this queue, and must not
        // be sent in a loop.
        let letters = self.take_all(kind, most).await?;
        for letter in &letters {
            tell(letter);
            if kind == LetterKind::Order {
                let send = self.client.send_message().queue_url(&self.queues.orders_queue).message_body(&letter.body);
                send.send().await.map_err(|error| QueueError::of("sending an order message again", error))?;
            }
            let delete =
                self.client.delete_message().queue_url(kind.queue(&self.queues)).receipt_handle(&letter.receipt);
            delete.send().await.map_err(|error| QueueError::of("removing a dead letter", error))?;
        }
        Ok(letters.len())
    }
}

fn letter(kind: LetterKind, message: Message) -> Letter {
    let body = message.body.unwrap_or_default();
    let json: Value = serde_json::from_str(&body).unwrap_or_default();
    let text = |pointer: &str| json.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    let attribute = |name: &str| message.message_attributes.as_ref()?.get(name)?.string_value.clone();
    // A letter of this system carries its reason. Lambda's record of a failed event and Scheduler's attributes
    // have their own.
    let reason = attribute("reason")
        .or_else(|| text("/responsePayload/errorMessage"))
        .or_else(|| text("/requestContext/condition"))
        .or_else(|| attribute("ERROR_MESSAGE"))
        .or_else(|| attribute("ErrorMessage"));
    let received =
        message.attributes.as_ref().and_then(|all| all.get(&MessageSystemAttributeName::ApproximateReceiveCount));
    let reason = reason.unwrap_or_else(|| match received {
        Some(_) if kind == LetterKind::Order => {
            "it failed every time it was tried: see order-consumer's log".to_owned()
        }
        _ => "no reason is given".to_owned(),
    });
    Letter {
        kind,
        order: text("/orderId").or_else(|| text("/requestPayload/orderId")),
        reason,
        body,
        receipt: message.receipt_handle.unwrap_or_default(),
    }
}
