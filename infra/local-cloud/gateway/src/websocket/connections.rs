//! The open WebSockets, and the API Gateway Management API over them: post to one, look at it, close it.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use serde_json::json;
use tokio::sync::{mpsc, watch};

use super::MAX_MESSAGE_BYTES;
use crate::answer;
use crate::template::percent_decode;
use crate::text::rfc3339;

/// So many WebSockets at once: far above a trial on one machine, below what would use up its sockets.
const MAX_CONNECTIONS: usize = 10_000;
/// Messages that wait for a slow client; a sender waits when there are more.
const OUTBOX: usize = 64;

/// What the gateway does to a connection on behalf of a function.
#[derive(Debug)]
pub(super) enum Order {
    Send(Bytes),
    Close,
}

/// The open WebSockets. Copies share them.
#[derive(Clone, Debug)]
pub struct Connections {
    open: Arc<Mutex<HashMap<String, Open>>>,
    count: Arc<watch::Sender<usize>>,
}

#[derive(Clone, Debug)]
struct Open {
    orders: mpsc::Sender<Order>,
    connected_at_ms: i64,
    active_at_ms: Arc<AtomicI64>,
    source_ip: IpAddr,
    user_agent: String,
}

/// A connection's place in the table; it leaves when this is dropped.
#[derive(Debug)]
pub(super) struct Registration {
    connections: Connections,
    id: String,
    pub(super) orders: mpsc::Receiver<Order>,
    active_at_ms: Arc<AtomicI64>,
}

impl Registration {
    /// Notes that something passed over the connection.
    pub(super) fn touch(&self, now_ms: i64) {
        self.active_at_ms.store(now_ms, Ordering::Relaxed);
    }

    /// When something last passed.
    pub(super) fn active_at_ms(&self) -> i64 {
        self.active_at_ms.load(Ordering::Relaxed)
    }

    /// From now on the connection is gone, for functions too; what its client still does is not heard.
    pub(super) fn leave(&self) {
        self.connections.lock().remove(&self.id);
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.leave();
        self.connections.count.send_modify(|count| *count = count.saturating_sub(1));
    }
}

impl Default for Connections {
    fn default() -> Self {
        Self { open: Arc::default(), count: Arc::new(watch::Sender::new(0)) }
    }
}

impl Connections {
    /// How many are open.
    pub fn count(&self) -> usize {
        self.lock().len()
    }

    /// Returns when every session has ended, its `$disconnect` included, or after `at_most`.
    pub(crate) async fn wait_until_empty(&self, at_most: Duration) {
        let mut count = self.count.subscribe();
        let _ = tokio::time::timeout(at_most, count.wait_for(|count| *count == 0)).await;
    }

    /// Enters a connection, unless there are too many.
    pub(super) fn enter(&self, id: String, source_ip: IpAddr, user_agent: String, now_ms: i64) -> Option<Registration> {
        let (sender, orders) = mpsc::channel(OUTBOX);
        let active_at_ms = Arc::new(AtomicI64::new(now_ms));
        let connection = Open {
            orders: sender,
            connected_at_ms: now_ms,
            active_at_ms: Arc::clone(&active_at_ms),
            source_ip,
            user_agent,
        };
        let mut open = self.lock();
        if open.len() >= MAX_CONNECTIONS {
            return None;
        }
        open.insert(id.clone(), connection);
        self.count.send_modify(|count| *count = count.saturating_add(1));
        Some(Registration { connections: self.clone(), id, orders, active_at_ms })
    }

    /// Whether a path is of the Management API: `/@connections/{id}`, with or without a stage before it.
    pub fn is_management_path(path: &str) -> bool {
        connection_id(path).is_some()
    }

    /// Answers a request of the Management API. Who may make it is the caller's to check.
    pub async fn manage(&self, request: Request<Bytes>) -> Response<Bytes> {
        let Some(id) = connection_id(request.uri().path()) else {
            return error(StatusCode::NOT_FOUND, "NotFoundException", "the path is /@connections/{connectionId}");
        };
        let Some(connection) = self.lock().get(&id).cloned() else { return gone() };
        match *request.method() {
            Method::GET => answer::json(
                StatusCode::OK,
                &json!({
                    "connectedAt": rfc3339(connection.connected_at_ms),
                    "lastActiveAt": rfc3339(connection.active_at_ms.load(Ordering::Relaxed)),
                    "identity": {"sourceIp": connection.source_ip.to_string(), "userAgent": connection.user_agent},
                }),
            ),
            Method::POST if request.body().len() > MAX_MESSAGE_BYTES => {
                error(StatusCode::PAYLOAD_TOO_LARGE, "PayloadTooLargeException", "a message is 128 KB at most")
            }
            Method::POST => match connection.orders.send(Order::Send(request.into_body())).await {
                Ok(()) => Response::new(Bytes::new()),
                Err(_) => gone(),
            },
            Method::DELETE => match connection.orders.send(Order::Close).await {
                Ok(()) => {
                    let mut response = Response::new(Bytes::new());
                    *response.status_mut() = StatusCode::NO_CONTENT;
                    response
                }
                Err(_) => gone(),
            },
            _ => error(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowedException", "use POST, GET or DELETE"),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Open>> {
        // The table is whole between any two statements, so a panic elsewhere cannot have broken it.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn connection_id(path: &str) -> Option<String> {
    let path = percent_decode(path);
    let rest = path.strip_prefix('/')?;
    let id = match rest.strip_prefix("@connections/") {
        Some(id) => id,
        None => rest.split_once('/')?.1.strip_prefix("@connections/")?,
    };
    (!id.is_empty()).then(|| id.to_owned())
}

fn gone() -> Response<Bytes> {
    error(StatusCode::GONE, "GoneException", "the connection is gone")
}

/// An error as the AWS SDK reads it: its kind is in a header.
fn error(status: StatusCode, kind: &'static str, text: &str) -> Response<Bytes> {
    let mut response = answer::message(status, text);
    response.headers_mut().insert("x-amzn-errortype", HeaderValue::from_static(kind));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn call(connections: &Connections, method: &str, path: &str, body: &'static [u8]) -> Response<Bytes> {
        let request = Request::builder().method(method).uri(path).body(Bytes::from_static(body)).unwrap();
        connections.manage(request).await
    }

    fn enter(connections: &Connections) -> Registration {
        connections.enter("abc=".to_owned(), "127.0.0.1".parse().unwrap(), "test".to_owned(), 0).unwrap()
    }

    #[tokio::test]
    async fn a_post_reaches_the_connection_with_or_without_a_stage() {
        let connections = Connections::default();
        let mut registration = enter(&connections);
        for path in ["/@connections/abc%3D", "/prod/@connections/abc=", "/%40connections/abc%3D"] {
            assert_eq!(call(&connections, "POST", path, b"hi").await.status(), 200, "{path}");
            assert!(matches!(registration.orders.recv().await, Some(Order::Send(body)) if body == "hi"));
        }
        assert_eq!(call(&connections, "DELETE", "/@connections/abc%3D", b"").await.status(), 204);
        assert!(matches!(registration.orders.recv().await, Some(Order::Close)));
    }

    #[tokio::test]
    async fn a_connection_that_left_is_gone() {
        let connections = Connections::default();
        drop(enter(&connections));
        for method in ["POST", "GET", "DELETE"] {
            let response = call(&connections, method, "/@connections/abc%3D", b"hi").await;
            assert_eq!(response.status(), 410);
            assert_eq!(response.headers()["x-amzn-errortype"], "GoneException");
        }
        assert_eq!(connections.count(), 0);
    }

    #[tokio::test]
    async fn a_connection_can_be_looked_at() {
        let connections = Connections::default();
        let registration = enter(&connections);
        registration.touch(1500);
        let response = call(&connections, "GET", "/@connections/abc%3D", b"").await;
        let seen: serde_json::Value = serde_json::from_slice(response.body()).unwrap();
        let identity = json!({"sourceIp": "127.0.0.1", "userAgent": "test"});
        let expected = json!({
            "connectedAt": "1970-01-01T00:00:00.000Z", "lastActiveAt": "1970-01-01T00:00:01.500Z", "identity": identity,
        });
        assert_eq!(seen, expected);
    }

    #[tokio::test]
    async fn too_large_a_message_is_refused() {
        let connections = Connections::default();
        let _registration = enter(&connections);
        let request =
            Request::post("/@connections/abc%3D").body(Bytes::from(vec![b'x'; MAX_MESSAGE_BYTES + 1])).unwrap();
        assert_eq!(connections.manage(request).await.status(), 413);
    }
}
