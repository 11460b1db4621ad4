//! API Gateway's HTTP API and WebSocket API on one loopback port, and the few things beside them that only
//! exist locally (`/_local`, the issuer's documents, the web pages, the services outside AWS).
//!
//! Functions are reached through [`Invoker`] alone, so what stands behind it, processes or closures, plays no part
//! here.

mod answer;
mod cors;
mod event;
mod http_api;
mod issuer;
mod jwt;
mod local;
mod request;
mod routes;
mod text;
mod throttle;
mod websocket;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, State};
use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub use issuer::{Issuer, IssuerError, TokenRequest};
pub use websocket::Connections;

use local_cloud_engines::{clock, data, engine};
use local_cloud_host::invoke;
use local_cloud_iam as iam;
use local_cloud_template as template;

use crate::clock::Clock;
use crate::engine::OutsideService;
use crate::invoke::{Invoker, Requests};
use crate::template::model::{HttpApi, Stack};
use http_api::HttpGateway;
use text::Ids;
use websocket::WebSocketGateway;

/// How long requests in flight may take to end when the gateway stops.
const STOP_GRACE: Duration = Duration::from_secs(3);

/// Figures of the moment for `/_local/stack`: queue depths, environments.
pub type LiveReport = Arc<dyn Fn() -> BoxFuture<'static, serde_json::Value> + Send + Sync>;

/// What a gateway needs.
pub struct GatewayConfig {
    /// Where it listens. The caller binds it, to a loopback address, and so learns first that a port is taken.
    pub listener: TcpListener,
    /// What the template deploys.
    pub stack: Arc<Stack>,
    /// Runs functions.
    pub invoker: Invoker,
    /// Functions of the HTTP API that take a request as it is; the others are given an event.
    pub requests: Option<Arc<dyn Requests>>,
    pub clock: Clock,
    /// Open WebSockets; shared with the endpoint that serves `@connections` to the functions.
    pub connections: Connections,
    /// Signs and checks tokens.
    pub issuer: Arc<Issuer>,
    /// The web pages' directory, if there is one.
    pub web: Option<PathBuf>,
    /// Figures for `/_local/stack`.
    pub live: LiveReport,
    /// What was put on event buses, for `/_local/events`.
    pub events: LiveReport,
    /// Services outside AWS, each served below its path to callers on this machine.
    pub outside: Vec<Arc<dyn OutsideService>>,
}

impl std::fmt::Debug for GatewayConfig {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("GatewayConfig").field("listener", &self.listener).finish_non_exhaustive()
    }
}

/// Why a gateway does not start.
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    /// The listener is bound to an address that others can reach.
    #[error("the gateway listens on loopback only, not on {0}")]
    NotLoopback(SocketAddr),
    /// The listener cannot be used.
    #[error("cannot listen: {0}")]
    Listen(#[from] io::Error),
    /// The system gives no random numbers.
    #[error("the system gives no random numbers: {0}")]
    Random(#[from] getrandom::Error),
}

/// A running gateway.
#[derive(Debug)]
pub struct Gateway {
    address: SocketAddr,
    connections: Connections,
    stop: watch::Sender<bool>,
    server: JoinHandle<()>,
}

/// What every request sees.
struct Inner {
    stack: Arc<Stack>,
    http: Option<HttpGateway>,
    websocket: Option<Arc<WebSocketGateway>>,
    connections: Connections,
    issuer: Arc<Issuer>,
    clock: Clock,
    web: Option<PathBuf>,
    live: LiveReport,
    events: LiveReport,
    outside: Vec<Arc<dyn OutsideService>>,
    invoker: Invoker,
}

impl Gateway {
    /// Starts to answer.
    pub fn start(config: GatewayConfig) -> Result<Self, GatewayError> {
        let address = config.listener.local_addr()?;
        if !address.ip().is_loopback() {
            return Err(GatewayError::NotLoopback(address));
        }
        let (stop, stopping) = watch::channel(false);
        let connections = config.connections.clone();
        let (listener, inner) = Inner::new(config, address.port(), stopping.clone())?;
        let service = Router::new().fallback(handle).with_state(Arc::new(inner));
        let service = service.into_make_service_with_connect_info::<SocketAddr>();
        let server = tokio::spawn(async move {
            let stopped = async move {
                let mut stopping = stopping;
                let _ = stopping.wait_for(|stop| *stop).await;
            };
            if let Err(error) = axum::serve(listener, service).with_graceful_shutdown(stopped).await {
                tracing::error!(%error, "the gateway's server ended");
            }
        });
        Ok(Self { address, connections, stop, server })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes no more requests, closes the WebSockets, and returns when what was in flight has ended, or soon after.
    pub async fn stop(mut self) {
        self.stop.send_replace(true);
        if tokio::time::timeout(STOP_GRACE, &mut self.server).await.is_err() {
            self.server.abort();
        }
        self.connections.wait_until_empty(STOP_GRACE).await;
    }
}

impl Inner {
    fn new(
        config: GatewayConfig,
        port: u16,
        stopping: watch::Receiver<bool>,
    ) -> Result<(TcpListener, Self), GatewayError> {
        let GatewayConfig {
            listener,
            stack,
            invoker,
            requests,
            clock,
            connections,
            issuer,
            web,
            live,
            events,
            outside,
        } = config;
        let ids = Arc::new(Ids::new()?);
        let http = stack.http_api.clone().map(|api| HttpGateway {
            api_id: api_id(&api),
            account: stack.account.clone(),
            routes: routes::Routes::new(&api.routes),
            throttles: throttle::Throttles::new(&api, clock.now_ms()),
            issuer: Arc::clone(&issuer),
            invoker: Arc::clone(&invoker),
            requests,
            clock: clock.clone(),
            ids: Arc::clone(&ids),
            port,
            api,
        });
        let websocket = stack.websocket_api.clone().map(|api| {
            let invoker = Arc::clone(&invoker);
            Arc::new(WebSocketGateway::new(api, invoker, connections.clone(), clock.clone(), ids, stopping))
        });
        Ok((listener, Self { stack, http, websocket, connections, issuer, clock, web, live, events, outside, invoker }))
    }

    async fn respond(&self, request: Request<Body>, peer: SocketAddr) -> axum::response::Response {
        let (parts, body) = request.into_parts();
        let path = parts.uri.path();
        let is_below =
            |root: &str| path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        if is_below("/_local")
            || self.outside.iter().any(|service| is_below(service.path()))
            || Connections::is_management_path(path)
        {
            return self.respond_locally(parts, body, peer).await.map(Body::from);
        }
        if let (Some(websocket), true) = (&self.websocket, path == "/ws" || path.starts_with("/ws/")) {
            return Arc::clone(websocket).connect(parts, peer).await;
        }
        if let Some(document) = self.well_known(&parts) {
            return document.map(Body::from);
        }
        let has_own_route =
            self.http.as_ref().and_then(|http| http.route(&parts)).is_some_and(|found| found.route.path != "$default");
        if !has_own_route && let Some(page) = self.page(&parts).await {
            return page.map(Body::from);
        }
        match &self.http {
            Some(http) => http.answer(parts, body, peer).await.map(Body::from),
            None => answer::message(StatusCode::NOT_FOUND, "Not Found").map(Body::from),
        }
    }

    async fn respond_locally(&self, parts: http::request::Parts, body: Body, peer: SocketAddr) -> Response<Bytes> {
        if !local::is_local(&parts, peer) {
            return answer::message(StatusCode::FORBIDDEN, "Forbidden: only for this machine, by its own name");
        }
        let Ok(body) = Limited::new(body, websocket::MAX_MESSAGE_BYTES + 1).collect().await else {
            return answer::message(StatusCode::PAYLOAD_TOO_LARGE, "Request Entity Too Large");
        };
        let body = body.to_bytes();
        if Connections::is_management_path(parts.uri.path()) {
            self.connections.manage(Request::from_parts(parts, body)).await
        } else if let Some(service) = self.outside.iter().find(|service| parts.uri.path().starts_with(service.path())) {
            service.call(Request::from_parts(parts, body)).await
        } else {
            self.local(&parts, &body).await
        }
    }
}

async fn handle(
    State(inner): State<Arc<Inner>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: Request<Body>,
) -> axum::response::Response {
    inner.respond(request, peer).await
}

/// An id in the alphabet of API Gateway's, from the API's name in the template.
fn api_id(api: &HttpApi) -> String {
    let id: String = api.logical_id.chars().filter(char::is_ascii_alphanumeric).collect();
    if id.is_empty() { "local".to_owned() } else { id.to_ascii_lowercase() }
}
