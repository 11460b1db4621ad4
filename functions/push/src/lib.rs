//! Sends each change of an order to its buyer's open WebSockets, and the buyer's current orders to a WebSocket
//! that has just opened.
//!
//! | event | what happens |
//! |---|---|
//! | a WebSocket wants to open | its ticket is redeemed: it names the buyer, once |
//! | it opened | it is recorded for its buyer, with an expiry; before that, the mark that somebody is connected |
//! | it was recorded (the connections' stream) | it is sent the buyer's current orders |
//! | it sends anything | the same again, for a client that missed something |
//! | an order changed (the orders' stream) | its buyer's WebSockets are sent the order, if anybody is connected |
//! | it closed, or is found gone (410) some seconds after it was recorded | it is removed |
//!
//! Without a mark, a batch of changes costs one read, whatever it contains. The mark is read after the orders changed,
//! strongly consistent, and written before a connection is recorded. So a batch misses no connection that was recorded
//! before its orders changed, and one that is recorded later is sent the changed orders when it opens.
//!
//! A message is the order as `GET /orders/{orderId}` shows it. Everything here can run twice or stop anywhere: a
//! client may then receive a state twice, or an older one after a newer one, and tells them apart by `version`,
//! which only grows. A message that cannot be sent after some attempts is given up: nothing depends on it, and
//! `GET /orders` always answers the current state.

mod records;
mod sockets;

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use aws_lambda_events::dynamodb::Event;
use aws_lambda_events::streams::{DynamoDbBatchItemFailure, DynamoDbEventResponse};
use domain::ids::BuyerKey;
use domain::ticket::Ticket;
use edge::order::OrderJson;
use flows::sale::sales::Sales;
use flows::view::orders;
use futures::stream::{self, StreamExt as _};
use runtime::{Clock, Environment};
use serde::Deserialize;
use serde_json::{Value, json};
use store::{Store, StoreError};

use crate::records::{Batch, Change, Opened};
use crate::sockets::{Post, Sockets};

/// Buyers of one batch that are notified at the same time.
const CONCURRENCY: usize = 16;
/// Orders that a WebSocket is sent when it opens, the newest ones.
const ORDERS_SENT: usize = 20;
/// A WebSocket is recorded a moment before it is open: how long to wait before each further attempt.
const NOT_OPEN_YET: [Duration; 5] = [
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(200),
    Duration::from_millis(400),
    Duration::from_millis(800),
];

/// What a running function keeps.
pub struct App {
    pub store: Store,
    /// For the names of items in purchases that are not orders yet.
    pub sales: Sales,
    pub clock: Clock,
    sockets: Sockets,
    /// The mark that somebody is connected, as last read or written: until when, in seconds.
    marked_until: Mutex<Option<i64>>,
}

impl App {
    /// A function that has just started.
    pub fn new(store: Store, config: &aws_config::SdkConfig, clock: Clock) -> Self {
        Self { store, sales: Sales::default(), clock, sockets: Sockets::new(config), marked_until: Mutex::new(None) }
    }

    fn marked_until(&self) -> Option<i64> {
        *self.marked_until.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remember_mark(&self, until: Option<i64>) {
        *self.marked_until.lock().unwrap_or_else(PoisonError::into_inner) = until;
    }

    /// Records a connection, after the mark.
    async fn open(&self, buyer: &BuyerKey, connection: &str) -> Result<(), StoreError> {
        let now = (self.clock)();
        let until = self.store.mark_connections(self.marked_until(), now).await?;
        self.remember_mark(Some(until));
        self.store.open_connection(buyer, connection, now).await
    }

    /// Whether somebody may be connected. Only a mark in the future is remembered: that nobody is connected may change
    /// at any moment.
    async fn is_anybody_connected(&self) -> Result<bool, StoreError> {
        let now = (self.clock)();
        if self.marked_until().is_some_and(|until| until > now.as_second()) {
            return Ok(true);
        }
        let until = self.store.connections_marked(now).await?;
        self.remember_mark(until);
        Ok(until.is_some())
    }

    /// The function as it is deployed.
    pub fn start(environment: &Environment) -> Self {
        Self::new(environment.store(), &environment.config, runtime::system_clock())
    }
}

/// Why an event was not handled. It is delivered again, or its client reconnects.
#[derive(Debug, thiserror::Error)]
pub enum NotHandled {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("a WebSocket could not be written to: {0}")]
    Post(String),
    #[error("the event cannot be read: {0}")]
    Unreadable(String),
}

/// An event of the WebSocket API: a request to its authorizer, or an event of a connection.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SocketEvent {
    /// Set if the authorizer is asked.
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

/// The authorizer's answer, which API Gateway passes on.
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
        return serde_json::to_value(send_changes(app, event).await).map_err(unreadable);
    }
    let event: SocketEvent = serde_json::from_value(event).map_err(unreadable)?;
    if let Some(method) = &event.method_arn {
        return authorize(app, &event, method).await;
    }
    let Context { connection_id, event_type, authorizer } = event.request_context;
    // No request arrives here without the authorizer. If the template lost it, every connection would be refused.
    let Some(Authorized { principal_id: buyer }) = authorizer else { return Ok(json!({ "statusCode": 401 })) };
    match event_type.as_str() {
        "CONNECT" => app.open(&buyer, &connection_id).await?,
        "DISCONNECT" => app.store.forget_connection(&buyer, &connection_id).await?,
        _ => show(app, &buyer, &connection_id, &[]).await?,
    }
    Ok(json!({ "statusCode": 200 }))
}

/// The holder of a ticket may connect, as its buyer. A ticket that is used, expired or missing opens nothing.
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

/// Sends a batch of changes, in order for each buyer. The answer names the record from which Lambda delivers the
/// batch again.
async fn send_changes(app: &App, event: Event) -> DynamoDbEventResponse {
    let Batch { changes, opened, unread } = records::read(event);
    // The batch resumes at the first failure in the stream's order. What follows is sent again, which does no harm.
    let mut failed = tell_all(app, changes).await;
    let greeted = stream::iter(opened).map(async |opened| greet(app, opened).await);
    failed
        .extend(greeted.buffer_unordered(CONCURRENCY).filter_map(|failed| async { failed }).collect::<Vec<_>>().await);
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

/// Sends changes to their buyers' connections, if there are any. Returns the changes from which to resume.
async fn tell_all(app: &App, changes: Vec<Change>) -> Vec<String> {
    let Some(first) = changes.first().map(|change| change.sequence.clone()) else { return Vec::new() };
    match app.is_anybody_connected().await {
        Ok(true) => {}
        Ok(false) => return Vec::new(),
        Err(error) => {
            tracing::warn!(%error, "it could not be read whether somebody is connected: the batch will come again");
            return vec![first];
        }
    }
    let mut of_buyers: BTreeMap<BuyerKey, Vec<Change>> = BTreeMap::new();
    for change in changes {
        of_buyers.entry(change.order.id.buyer()).or_default().push(change);
    }
    let changed = stream::iter(of_buyers).map(async |(buyer, changes)| tell(app, &buyer, changes).await);
    changed.buffer_unordered(CONCURRENCY).filter_map(|failed| async { failed }).collect().await
}

/// Sends changes to a buyer's connections. Returns the first change that could not be sent.
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

/// Sends a connection that has just opened its buyer's orders. Returns its record if that failed.
async fn greet(app: &App, Opened { buyer, connection, sequence }: Opened) -> Option<String> {
    let shown = show(app, &buyer, &connection, &NOT_OPEN_YET).await;
    shown.inspect_err(|error| tracing::warn!(%error, "a connection was not sent its state")).err().map(|_| sequence)
}

/// Sends a connection its buyer's current orders, the newest last.
async fn show(app: &App, buyer: &BuyerKey, connection: &str, waits: &[Duration]) -> Result<(), NotHandled> {
    let views = orders::orders(&app.store, &app.sales, buyer, (app.clock)()).await?;
    for view in views.iter().take(ORDERS_SENT).rev() {
        if !post(app, buyer, connection, &OrderJson::of(view), waits).await? {
            break;
        }
    }
    Ok(())
}

/// Sends a message; whether it arrived. A connection that is gone, and does not open in the time that is waited
/// for it, is removed, but not in its first seconds, in which it may be recorded and not open yet.
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
