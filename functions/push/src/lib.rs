//! Each change of a buyer's order is sent to their open WebSockets, and what is open now to a WebSocket that has just opened.
//!
//! | what arrives | what is done |
//! |---|---|
//! | a WebSocket wants to open | its ticket is taken: it names the buyer, once |
//! | it opened | it is noted for its buyer, with an end by itself |
//! | it was noted (the connections' stream) | it is sent the buyer's orders as they are |
//! | it says anything | the same again: whoever missed something asks |
//! | an order changed (the orders' stream) | its buyer's WebSockets are sent the order |
//! | it closed, or is found gone (410) some seconds after it was noted | it is forgotten |
//!
//! A message is the order as `GET /orders/{orderId}` shows it. Everything here can run twice or stop anywhere: a client may then be told
//! a state twice, or an older one after a newer one, and tells which is which by `version`, which only grows. What cannot be told at all
//! after some tries is given up: nothing depends on it, and a client that asks (`GET /orders`) gets the truth.

mod records;
mod sockets;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use aws_lambda_events::dynamodb::Event;
use aws_lambda_events::streams::{DynamoDbBatchItemFailure, DynamoDbEventResponse};
use domain::Timestamp;
use domain::ids::BuyerKey;
use domain::ticket::Ticket;
use edge::order::OrderJson;
use flows::orders;
use flows::sales::Sales;
use futures::stream::{self, StreamExt as _};
use serde::Deserialize;
use serde_json::{Value, json};
use store::{Store, StoreError};

use crate::records::{Change, Opened, Told};
use crate::sockets::{Post, Sockets};

/// Buyers told at once, of one batch.
const AT_ONCE: usize = 16;
/// Orders that a WebSocket is sent when it opens: the newest.
const SHOWN: usize = 20;
/// A WebSocket is noted a moment before it is open. So long it is waited for: twice as long each time.
const NOT_OPEN_YET: [Duration; 5] = [
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(200),
    Duration::from_millis(400),
    Duration::from_millis(800),
];

/// What time it is.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// What a running function keeps.
pub struct App {
    /// The store.
    pub store: Store,
    /// Sales, as last read: for the names of items in purchases that are not orders yet.
    pub sales: Sales,
    /// What time it is.
    pub clock: Clock,
    sockets: Sockets,
}

impl App {
    /// A function that has just started.
    pub fn new(store: Store, config: &aws_config::SdkConfig, clock: Clock) -> Self {
        Self { store, sales: Sales::default(), clock, sockets: Sockets::new(config) }
    }
}

/// Why an event was not handled: it comes again, or its client does.
#[derive(Debug, thiserror::Error)]
pub enum NotHandled {
    /// The store did not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A WebSocket could not be written to.
    #[error("a WebSocket could not be written to: {0}")]
    Post(String),
    /// No event of ours.
    #[error("the event cannot be read: {0}")]
    Unreadable(String),
}

/// An event of the WebSocket API: its authorizer's question, or something that happened to a connection.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SocketEvent {
    /// The authorizer is asked about this.
    method_arn: Option<String>,
    #[serde(default)]
    query_string_parameters: Option<BTreeMap<String, String>>,
    request_context: Context,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Context {
    connection_id: String,
    event_type: String,
    authorizer: Option<Authorized>,
}

/// What the authorizer said, which API Gateway carries along.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Authorized {
    principal_id: BuyerKey,
}

/// Handles an event.
pub async fn handle(app: &App, event: Value) -> Result<Value, NotHandled> {
    let unreadable = |error: serde_json::Error| NotHandled::Unreadable(error.to_string());
    if event.get("Records").is_some() {
        let event: Event = serde_json::from_value(event).map_err(unreadable)?;
        return serde_json::to_value(told(app, event).await).map_err(unreadable);
    }
    let event: SocketEvent = serde_json::from_value(event).map_err(unreadable)?;
    if let Some(method) = &event.method_arn {
        return authorize(app, &event, method).await;
    }
    let Context { connection_id, event_type, authorizer } = event.request_context;
    // Without the authorizer nobody gets here; should the template lose it, nobody is let in.
    let Some(Authorized { principal_id: buyer }) = authorizer else { return Ok(json!({ "statusCode": 401 })) };
    match event_type.as_str() {
        "CONNECT" => app.store.open_connection(&buyer, &connection_id, (app.clock)()).await?,
        "DISCONNECT" => app.store.forget_connection(&buyer, &connection_id).await?,
        _ => show(app, &buyer, &connection_id, &[]).await?,
    }
    Ok(json!({ "statusCode": 200 }))
}

/// Who holds the ticket may connect, as its buyer. A ticket that is used up, too old or none at all opens nothing.
async fn authorize(app: &App, event: &SocketEvent, method: &str) -> Result<Value, NotHandled> {
    let token = event.query_string_parameters.as_ref().and_then(|query| query.get("token"));
    let buyer = match token.and_then(|text| Ticket::parse(text)) {
        Some(ticket) => app.store.take_ticket(&ticket, (app.clock)()).await?,
        None => None,
    };
    if buyer.is_none() {
        tracing::info!("a connection was refused: its ticket is unknown, used or too old");
    }
    let effect = if buyer.is_some() { "Allow" } else { "Deny" };
    Ok(json!({
        "principalId": buyer.as_ref().map_or("nobody", BuyerKey::as_str),
        "policyDocument": {
            "Version": "2012-10-17",
            "Statement": [{ "Action": "execute-api:Invoke", "Effect": effect, "Resource": method }],
        },
    }))
}

/// Tells a batch of changes, each buyer's in their order, and says from which record on it is to come again.
async fn told(app: &App, event: Event) -> DynamoDbEventResponse {
    let Told { changes, opened, unread } = records::read(event);
    let mut of_buyers: BTreeMap<BuyerKey, Vec<Change>> = BTreeMap::new();
    for change in changes {
        of_buyers.entry(change.order.id.buyer()).or_default().push(change);
    }
    // Whatever fails first in the stream's order is where it goes on; the rest is told again, which does no harm.
    let changed = stream::iter(of_buyers).map(async |(buyer, changes)| tell(app, &buyer, changes).await);
    let mut failed: Vec<String> =
        changed.buffer_unordered(AT_ONCE).filter_map(|failed| async { failed }).collect().await;
    let greeted = stream::iter(opened).map(async |opened| greet(app, opened).await);
    failed.extend(greeted.buffer_unordered(AT_ONCE).filter_map(|failed| async { failed }).collect::<Vec<_>>().await);
    failed.extend(unread);
    let mut response = DynamoDbEventResponse::default();
    response.batch_item_failures = failed
        .into_iter()
        .map(|sequence| {
            let mut failure = DynamoDbBatchItemFailure::default();
            failure.item_identifier = Some(sequence);
            failure
        })
        .collect();
    response
}

/// Tells a buyer's connections of changes; the first change that could not be told.
async fn tell(app: &App, buyer: &BuyerKey, changes: Vec<Change>) -> Option<String> {
    let first = changes.first().map(|change| change.sequence.clone())?;
    let connections = match app.store.connections_of(buyer).await {
        Ok(connections) => connections,
        Err(error) => {
            tracing::warn!(%error, "connections could not be read: the batch will come again");
            return Some(first);
        }
    };
    for Change { order, sequence } in changes {
        for connection in &connections {
            if let Err(error) = post(app, buyer, connection, &OrderJson::made(&order), &[]).await {
                tracing::warn!(order_id = %order.id, %error, "a change could not be pushed: it will come again");
                return Some(sequence);
            }
        }
    }
    None
}

/// Sends a connection that has just opened the state of things; its record, if that did not work.
async fn greet(app: &App, Opened { buyer, connection, sequence }: Opened) -> Option<String> {
    let shown = show(app, &buyer, &connection, &NOT_OPEN_YET).await;
    shown.inspect_err(|error| tracing::warn!(%error, "a connection was not sent its state")).err().map(|_| sequence)
}

/// Sends a connection its buyer's orders as they are, the newest last.
async fn show(app: &App, buyer: &BuyerKey, connection: &str, waits: &[Duration]) -> Result<(), NotHandled> {
    let views = orders::orders(&app.store, &app.sales, buyer, (app.clock)()).await?;
    for view in views.iter().take(SHOWN).rev() {
        if !post(app, buyer, connection, &OrderJson::of(view), waits).await? {
            break;
        }
    }
    Ok(())
}

/// Whether it arrived. A connection that is gone, and does not open in the time that is waited for it, is forgotten; but not in its first
/// seconds, in which it may be noted and not open yet.
async fn post(
    app: &App,
    buyer: &BuyerKey,
    connection: &str,
    order: &OrderJson<'_>,
    waits: &[Duration],
) -> Result<bool, NotHandled> {
    let message = serde_json::to_vec(order).map_err(|error| NotHandled::Post(error.to_string()))?;
    let mut waits = waits.iter();
    loop {
        match app.sockets.post(connection, message.clone()).await.map_err(NotHandled::Post)? {
            Post::Sent => return Ok(true),
            Post::Gone => match waits.next() {
                Some(wait) => tokio::time::sleep(*wait).await,
                None => {
                    app.store.forget_gone_connection(buyer, connection, (app.clock)()).await?;
                    return Ok(false);
                }
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sample_events_are_read() {
        let connect: SocketEvent =
            serde_json::from_str(include_str!("../../../tests/events/push-connect.json")).unwrap();
        assert_eq!(connect.request_context.event_type, "CONNECT");
        assert!(connect.method_arn.is_none());
        assert_eq!(connect.request_context.authorizer.unwrap().principal_id.as_str().len(), 16);
        let asked: SocketEvent =
            serde_json::from_str(include_str!("../../../tests/events/push-authorize.json")).unwrap();
        assert!(asked.method_arn.is_some());
        let token = &asked.query_string_parameters.unwrap()["token"];
        assert!(Ticket::parse(token).is_some());
    }
}
