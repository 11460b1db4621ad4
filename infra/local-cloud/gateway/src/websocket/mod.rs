//! The WebSocket API: who may connect, which function gets a message, and a connection's life until it is closed.
//!
//! A connection is known to functions from the moment its `$connect` has succeeded, not before: posting to it from
//! inside `$connect` answers 410, as in AWS. `$disconnect` runs once for every connection that was opened.

mod authorizer;
mod connections;
mod events;
mod session;

use std::net::SocketAddr;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{FromRequestParts as _, WebSocketUpgrade};
use axum::response::IntoResponse as _;
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderValue, StatusCode, header};
use serde_json::Value;
use tokio::sync::watch;

pub use connections::Connections;

use super::answer;
use super::text::Ids;
use crate::clock::Clock;
use crate::invoke::{Invoker, Outcome};
use crate::template::model::WebSocketApi;
use authorizer::Verdict;
use events::{Moment, Session};

/// The largest message (a quota of the service).
pub(super) const MAX_MESSAGE_BYTES: usize = 128 * 1024;
/// The largest frame (a quota of the service).
const MAX_FRAME_BYTES: usize = 32 * 1024;

/// The WebSocket API of a stack, ready to take connections.
pub(super) struct WebSocketGateway {
    api: WebSocketApi,
    invoker: Invoker,
    connections: Connections,
    clock: Clock,
    ids: Arc<Ids>,
    stopping: watch::Receiver<bool>,
}

/// A `$connect` that passed: what the upgrade response carries.
struct Accepted {
    protocol: Option<HeaderValue>,
}

impl WebSocketGateway {
    pub(super) fn new(
        api: WebSocketApi,
        invoker: Invoker,
        connections: Connections,
        clock: Clock,
        ids: Arc<Ids>,
        stopping: watch::Receiver<bool>,
    ) -> Self {
        Self { api, invoker, connections, clock, ids, stopping }
    }

    /// Answers a request to connect.
    pub(super) async fn connect(self: Arc<Self>, mut request: Parts, peer: SocketAddr) -> axum::response::Response {
        let mut upgrade = match WebSocketUpgrade::from_request_parts(&mut request, &()).await {
            Ok(upgrade) => upgrade,
            Err(rejection) => return rejection.into_response(),
        };
        let mut session = Session::new(self.ids.next(), &request, peer.ip(), self.clock.now_ms());
        let accepted = match self.admit(&mut session, &request).await {
            Ok(accepted) => accepted,
            Err(refusal) => return refusal.map(Body::from),
        };
        if let Some(protocol) = accepted.protocol {
            upgrade.set_selected_protocol(protocol);
        }
        let (id, user_agent) = (session.connection_id.clone(), session.user_agent.clone());
        let Some(registration) = self.connections.enter(id, session.source_ip, user_agent, self.clock.now_ms()) else {
            return answer::message(StatusCode::TOO_MANY_REQUESTS, "Too Many Requests").map(Body::from);
        };
        upgrade
            .max_message_size(MAX_MESSAGE_BYTES)
            .max_frame_size(MAX_FRAME_BYTES)
            .on_upgrade(move |socket| session::run(self, session, registration, socket))
    }

    async fn admit(&self, session: &mut Session, request: &Parts) -> Result<Accepted, http::Response<Bytes>> {
        if let Some(authorizer) = &self.api.connect_authorizer {
            if !authorizer::has_identity(&authorizer.identity, request) {
                return Err(answer::message(StatusCode::UNAUTHORIZED, "Unauthorized"));
            }
            let request_id = self.ids.next();
            let event = session.authorize(&self.api, request, self.moment("$connect", &request_id));
            session.authorizer = Some(self.ask_authorizer(&authorizer.function, &event).await?);
        }
        let Some(function) = self.api.routes.get("$connect") else { return Ok(Accepted { protocol: None }) };
        let request_id = self.ids.next();
        let event = session.connect(&self.api, request, self.moment("$connect", &request_id));
        match self.invoke(function, &event).await {
            Outcome::Answered(bytes) => match answer::read(&bytes) {
                Ok(response) if response.status().is_success() => {
                    Ok(Accepted { protocol: response.headers().get(header::SEC_WEBSOCKET_PROTOCOL).cloned() })
                }
                Ok(response) => Err(response),
                Err(malformed) => {
                    tracing::warn!(function, %malformed, "the answer of $connect is malformed");
                    Err(internal_error(StatusCode::BAD_GATEWAY))
                }
            },
            Outcome::Failed(_) => Err(internal_error(StatusCode::BAD_GATEWAY)),
            Outcome::Throttled => Err(internal_error(StatusCode::INTERNAL_SERVER_ERROR)),
        }
    }

    async fn ask_authorizer(&self, function: &str, event: &Value) -> Result<Value, http::Response<Bytes>> {
        match self.invoke(function, event).await {
            Outcome::Answered(bytes) => match authorizer::verdict(&bytes, &events::method_arn(&self.api)) {
                Verdict::Allow(context) => Ok(context),
                Verdict::Deny => Err(answer::message(StatusCode::FORBIDDEN, "Forbidden")),
                Verdict::Malformed => {
                    tracing::warn!(function, "the authorizer's answer is no policy");
                    Err(internal_error(StatusCode::INTERNAL_SERVER_ERROR))
                }
            },
            // An authorizer refuses without a policy by failing with this one message.
            Outcome::Failed(error) if error.message == "Unauthorized" => {
                Err(answer::message(StatusCode::UNAUTHORIZED, "Unauthorized"))
            }
            Outcome::Failed(_) | Outcome::Throttled => Err(internal_error(StatusCode::INTERNAL_SERVER_ERROR)),
        }
    }

    fn moment<'a>(&self, route_key: &'a str, request_id: &'a str) -> Moment<'a> {
        Moment { route_key, request_id, now_ms: self.clock.now_ms() }
    }

    async fn invoke(&self, function: &str, event: &Value) -> Outcome {
        let outcome = (self.invoker)(function.to_owned(), Bytes::from(event.to_string())).await;
        if let Outcome::Failed(error) = &outcome {
            tracing::warn!(
                function,
                kind = error.error_type.as_str(),
                message = error.message.as_str(),
                "the function failed"
            );
        }
        outcome
    }

    /// The route key and the function for a message: by the selection expression, or `$default`.
    fn select(&self, body: &str) -> Option<(&str, &str)> {
        let selected = selection(&self.api.route_selection, body);
        let own = |key: &String| !matches!(key.as_str(), "$connect" | "$disconnect");
        let found = selected.as_ref().filter(|key| own(key)).and_then(|key| self.api.routes.get_key_value(key));
        found
            .or_else(|| self.api.routes.get_key_value("$default"))
            .map(|(key, function)| (key.as_str(), function.as_str()))
    }
}

/// The value of `$request.body.action` (any path of fields) in a JSON message.
fn selection(expression: &str, body: &str) -> Option<String> {
    let expression = expression.trim_start_matches("${").trim_end_matches('}');
    let path = expression.trim_start_matches('$').strip_prefix("request.body.")?;
    let message: Value = serde_json::from_str(body).ok()?;
    let found = path.split('.').try_fold(&message, |value, field| value.get(field))?;
    match found {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(found.to_string()),
        _ => None,
    }
}

fn internal_error(status: StatusCode) -> http::Response<Bytes> {
    answer::message(status, "Internal server error")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_expression_picks_a_field_of_the_message() {
        for (expression, body, expected) in [
            ("$request.body.action", r#"{"action": "ping"}"#, Some("ping")),
            ("${request.body.action}", r#"{"action": "ping"}"#, Some("ping")),
            ("$request.body.a.b", r#"{"a": {"b": 7}}"#, Some("7")),
            ("$request.body.action", r#"{"other": "ping"}"#, None),
            ("$request.body.action", "not json", None),
            ("$request.body.action", r#"{"action": {}}"#, None),
        ] {
            assert_eq!(selection(expression, body).as_deref(), expected, "{expression} {body}");
        }
    }
}
