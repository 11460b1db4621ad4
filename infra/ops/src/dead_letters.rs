//! Dead letters: looked at, and sent again.
//!
//! Sending again is safe at any time, and twice: every flow is. A letter is removed only after it has been sent, so stopping in the middle leaves it
//! in one of the two queues or in both.

use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::{Message, MessageSystemAttributeName};
use serde_json::Value;

use crate::target::Target;

/// Letters handled in one run, so that a run ends. More are left for the next.
const MAX_LETTERS: usize = 10_000;
/// While a letter is being handled nobody else gets it.
const HIDDEN_FOR_S: i32 = 300;

/// A letter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Letter {
    /// What it is about.
    pub kind: Kind,
    /// The order, if it names one.
    pub order: Option<String>,
    /// Why it is here.
    pub reason: String,
    /// What it says.
    pub body: String,
    receipt: String,
}

/// What a letter is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An accepted purchase that did not become an order.
    Order,
    /// A payment deadline that could not be kept.
    Deadline,
    /// Changes of stock that could not be told.
    Stock,
    /// A walk of reconcile that failed, or did not get its turn.
    Walk,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 4] = [Kind::Order, Kind::Deadline, Kind::Stock, Kind::Walk];

    /// What it is, in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Order => "purchases that did not become orders",
            Self::Deadline => "payment deadlines that could not be kept",
            Self::Stock => "changes of stock that could not be told",
            Self::Walk => "walks of reconcile that failed or did not get their turn",
        }
    }

    /// What sending again does.
    pub fn remedy(self) -> &'static str {
        match self {
            Self::Order => "sent to the orders queue again",
            // Reconcile looks at every order past its deadline each minute, whatever became of its schedule.
            Self::Deadline => "removed: reconcile closes every overdue order by itself",
            // Another one begins every minute.
            Self::Walk => "removed: the next walk does what this one did not",
            // Reconcile compares every page with its buckets; only the ledger's rows of these changes are missing.
            Self::Stock => {
                "kept: the pages mend themselves, the ledger lacks these rows (see the stream, for 24 hours)"
            }
        }
    }

    fn queue(self, target: &Target) -> &str {
        match self {
            Self::Order => &target.orders_dead,
            Self::Deadline => &target.timeouts_dead,
            Self::Stock => &target.stream_dead,
            Self::Walk => &target.reconcile_dead,
        }
    }
}

/// Why it stopped.
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

/// Takes up to ten letters.
async fn take(client: &Client, target: &Target, kind: Kind) -> Result<Vec<Letter>, QueueError> {
    let output = client
        .receive_message()
        .queue_url(kind.queue(target))
        .max_number_of_messages(10)
        .visibility_timeout(HIDDEN_FOR_S)
        .message_attribute_names("All")
        .message_system_attribute_names(MessageSystemAttributeName::All)
        .send()
        .await
        .map_err(|error| QueueError::of("reading a dead-letter queue", error))?;
    Ok(output.messages.unwrap_or_default().into_iter().map(|message| letter(kind, message)).collect())
}

/// All letters of a kind that are there now, out of everybody else's sight for a while.
async fn take_all(client: &Client, target: &Target, kind: Kind) -> Result<Vec<Letter>, QueueError> {
    let mut letters = Vec::new();
    while letters.len() < MAX_LETTERS {
        let taken = take(client, target, kind).await?;
        if taken.is_empty() {
            break;
        }
        letters.extend(taken);
    }
    Ok(letters)
}

/// All letters of a kind. They are visible again afterwards.
pub async fn list(target: &Target, kind: Kind) -> Result<Vec<Letter>, QueueError> {
    let client = Client::new(&target.config);
    let letters = take_all(&client, target, kind).await?;
    for letter in &letters {
        client
            .change_message_visibility()
            .queue_url(kind.queue(target))
            .receipt_handle(&letter.receipt)
            .visibility_timeout(0)
            .send()
            .await
            .map_err(|error| QueueError::of("putting a dead letter back", error))?;
    }
    Ok(letters)
}

/// Sends letters again, as [`Kind::remedy`] says. Tells each one before it is gone.
pub async fn redrive(target: &Target, kind: Kind, mut tell: impl FnMut(&Letter)) -> Result<usize, QueueError> {
    if kind == Kind::Stock {
        let letters = list(target, kind).await?;
        letters.iter().for_each(tell);
        return Ok(0);
    }
    let client = Client::new(&target.config);
    // All are taken before any is sent: a letter that cannot be handled now either comes back, and must not be sent in a circle.
    let letters = take_all(&client, target, kind).await?;
    for letter in &letters {
        tell(letter);
        if kind == Kind::Order {
            let send = client.send_message().queue_url(&target.orders).message_body(&letter.body);
            send.send().await.map_err(|error| QueueError::of("sending an order message again", error))?;
        }
        let delete = client.delete_message().queue_url(kind.queue(target)).receipt_handle(&letter.receipt);
        delete.send().await.map_err(|error| QueueError::of("removing a dead letter", error))?;
    }
    Ok(letters.len())
}

fn letter(kind: Kind, message: Message) -> Letter {
    let body = message.body.unwrap_or_default();
    let json: Value = serde_json::from_str(&body).unwrap_or_default();
    let text = |pointer: &str| json.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    let attribute = |name: &str| message.message_attributes.as_ref()?.get(name)?.string_value.clone();
    // Ours carries its reason; Lambda's record of a failed event says it in its own words; Scheduler's in attributes.
    let reason = attribute("reason")
        .or_else(|| text("/responsePayload/errorMessage"))
        .or_else(|| text("/requestContext/condition"))
        .or_else(|| attribute("ERROR_MESSAGE"))
        .or_else(|| attribute("ErrorMessage"));
    let received =
        message.attributes.as_ref().and_then(|all| all.get(&MessageSystemAttributeName::ApproximateReceiveCount));
    let reason = reason.unwrap_or_else(|| match received {
        Some(_) if kind == Kind::Order => "it failed every time it was tried: see order-consumer's log".to_owned(),
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
