//! One open WebSocket: messages in to functions, messages out from them, and the three ways it ends by itself
//! (ten minutes of silence, two hours of life, a frame or message that is too large).

use std::sync::Arc;
use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, WebSocket};
use bytes::Bytes;
use serde_json::json;
use tokio::task::JoinSet;

use super::WebSocketGateway;
use super::connections::{Order, Registration};
use super::events::Session;
use crate::invoke::Outcome;

/// A connection over which nothing passes for so long is closed (a quota of the service).
const IDLE_LIMIT_MS: i64 = 10 * 60 * 1000;
/// A connection is closed after this (a quota of the service).
const LIFE_LIMIT_MS: i64 = 2 * 60 * 60 * 1000;
/// So many messages of one connection may be with functions at once; then reading waits.
const MAX_IN_FLIGHT: usize = 32;
/// A client that does not take a message within this is gone.
const SEND_TIMEOUT: Duration = Duration::from_secs(10);

/// Why a connection ended, as the `$disconnect` event says.
#[derive(Debug)]
struct End {
    code: u16,
    reason: String,
    /// Whether the client is still to be told.
    tell: bool,
}

impl End {
    fn by_gateway(code: u16, reason: &str) -> Self {
        Self { code, reason: reason.to_owned(), tell: true }
    }

    fn lost() -> Self {
        Self { code: 1006, reason: "Connection Closed Abnormally".to_owned(), tell: false }
    }
}

/// Serves a connection to its end.
pub(super) async fn run(
    gateway: Arc<WebSocketGateway>,
    session: Session,
    mut registration: Registration,
    mut socket: WebSocket,
) {
    let session = Arc::new(session);
    let mut replies = JoinSet::new();
    let end = serve(&gateway, &session, &mut registration, &mut socket, &mut replies).await;
    registration.leave();
    if end.tell {
        let frame = CloseFrame { code: end.code, reason: end.reason.clone().into() };
        let _ = tokio::time::timeout(SEND_TIMEOUT, socket.send(Message::Close(Some(frame)))).await;
    }
    // Messages that functions already have are not taken back: they finish before the connection's last event.
    replies.join_all().await;
    if let Some(function) = gateway.api.routes.get("$disconnect") {
        let request_id = gateway.ids.next();
        let moment = gateway.moment("$disconnect", &request_id);
        gateway.invoke(function, &session.disconnect(&gateway.api, end.code, &end.reason, moment)).await;
    }
}

async fn serve(
    gateway: &Arc<WebSocketGateway>,
    session: &Arc<Session>,
    registration: &mut Registration,
    socket: &mut WebSocket,
    replies: &mut JoinSet<Option<String>>,
) -> End {
    let mut stopping = gateway.stopping.clone();
    let life_ends_ms = session.connected_at_ms.saturating_add(LIFE_LIMIT_MS);
    loop {
        let idle_ends_ms = registration.active_at_ms().saturating_add(IDLE_LIMIT_MS);
        let outgoing = tokio::select! {
            incoming = socket.recv(), if replies.len() < MAX_IN_FLIGHT => {
                match incoming {
                    Some(Ok(message)) => {
                        registration.touch(gateway.clock.now_ms());
                        if let Some(end) = take(gateway, session, message, replies) {
                            return end;
                        }
                        continue;
                    }
                    Some(Err(error)) => return broken(&error),
                    None => return End::lost(),
                }
            }
            order = registration.orders.recv() => match order {
                Some(Order::Send(body)) => text(body),
                Some(Order::Close) | None => return End::by_gateway(1000, "Connection closed by the API"),
            },
            Some(reply) = replies.join_next() => match reply {
                Ok(Some(reply)) => Message::text(reply),
                _ => continue,
            },
            () = gateway.clock.sleep_until(idle_ends_ms.min(life_ends_ms)) => {
                let is_old = gateway.clock.now_ms() >= life_ends_ms;
                return End::by_gateway(1001, if is_old { "Going away" } else { "Idle timeout" });
            }
            _ = stopping.wait_for(|stop| *stop) => return End::by_gateway(1001, "Going away"),
        };
        match tokio::time::timeout(SEND_TIMEOUT, socket.send(outgoing)).await {
            Ok(Ok(())) => registration.touch(gateway.clock.now_ms()),
            _ => return End::lost(),
        }
    }
}

/// Hands a message to its function; returns the end if the message is one.
fn take(
    gateway: &Arc<WebSocketGateway>,
    session: &Arc<Session>,
    message: Message,
    replies: &mut JoinSet<Option<String>>,
) -> Option<End> {
    match message {
        Message::Text(body) => {
            replies.spawn(deliver(Arc::clone(gateway), Arc::clone(session), body.as_str().to_owned()));
            None
        }
        Message::Binary(_) => Some(End::by_gateway(1003, "Binary frames are not supported")),
        // Pongs to pings are sent by the protocol itself.
        Message::Ping(_) | Message::Pong(_) => None,
        Message::Close(frame) => Some(match frame {
            Some(frame) => End { code: frame.code, reason: frame.reason.as_str().to_owned(), tell: false },
            None => End { code: 1005, reason: "Client-side close frame status not set".to_owned(), tell: false },
        }),
    }
}

/// Runs the function of a message; what comes back, if anything, goes to the client.
async fn deliver(gateway: Arc<WebSocketGateway>, session: Arc<Session>, body: String) -> Option<String> {
    let request_id = gateway.ids.next();
    let problem = |text: &str| {
        let connection_id = session.connection_id.as_str();
        json!({ "message": text, "connectionId": connection_id, "requestId": request_id }).to_string()
    };
    let Some((route_key, function)) = gateway.select(&body) else { return Some(problem("Forbidden")) };
    let event = session.message(&gateway.api, &body, gateway.moment(route_key, &request_id));
    match gateway.invoke(function, &event).await {
        // An answer is sent only if the route has a route response, and none can be written in a template of ours.
        Outcome::Answered(_) => None,
        Outcome::Failed(_) | Outcome::Throttled => Some(problem("Internal server error")),
    }
}

fn text(body: Bytes) -> Message {
    Message::text(String::from_utf8_lossy(&body).into_owned())
}

fn broken(error: &axum::Error) -> End {
    // The library's error type is hidden behind axum's; only its words can be seen.
    if error.to_string().contains("Space limit") {
        return End::by_gateway(1009, "Message too long");
    }
    End::lost()
}
