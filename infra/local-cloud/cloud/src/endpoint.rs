//! The engines over loopback HTTP.
//!
//! Every call is checked by the [`Authorizer`] (if there is one) under the access key id it was signed with, before
//! it reaches an engine. The signature itself is not verified: a caller that reaches the loopback address is on this
//! machine.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::State;
use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::engine::{Cloud, Service};
use crate::gateway::Connections;
pub use crate::iam::Authorizer;
use crate::metrics::Metrics;

/// DynamoDB takes 16 MB in one request, and nothing else here takes more.
const BODY_BYTES: usize = 17 * 1024 * 1024;
/// Calls under way get so long to finish after a stop; long polls do not get their 20 seconds.
const GRACE: Duration = Duration::from_secs(2);

/// A server that is running. Dropping it stops it.
#[derive(Debug)]
pub struct Endpoint {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    server: JoinHandle<()>,
}

#[derive(Clone)]
struct Served {
    cloud: Cloud,
    authorizer: Option<Authorizer>,
    connections: Option<Connections>,
    metrics: Metrics,
    for_containers: bool,
}

impl Endpoint {
    /// Serves `cloud` on a loopback port; 0 is any that is free.
    pub async fn start(cloud: Cloud, port: u16, authorizer: Option<Authorizer>) -> std::io::Result<Self> {
        Self::start_with(cloud, port, authorizer, None, Metrics::default()).await
    }

    /// The same, with the open WebSockets, so that functions can post to them (`@connections`), and what functions
    /// have measured.
    pub async fn start_with(
        cloud: Cloud,
        port: u16,
        authorizer: Option<Authorizer>,
        connections: Option<Connections>,
        metrics: Metrics,
    ) -> std::io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        Self::serve(listener, Served { cloud, authorizer, connections, metrics, for_containers: false })
    }

    /// The same for functions in containers, on an address that they reach. They do not reach the gateway, so services
    /// outside AWS are served here as well, unsigned as everywhere.
    pub fn start_for_containers(
        listener: TcpListener,
        cloud: Cloud,
        authorizer: Authorizer,
        connections: Connections,
        metrics: Metrics,
    ) -> std::io::Result<Self> {
        let (authorizer, connections) = (Some(authorizer), Some(connections));
        Self::serve(listener, Served { cloud, authorizer, connections, metrics, for_containers: true })
    }

    fn serve(listener: TcpListener, served: Served) -> std::io::Result<Self> {
        let address = listener.local_addr()?;
        let router = Router::new().fallback(answer).with_state(served);
        let (stop, stopped) = oneshot::channel::<()>();
        let server = tokio::spawn(async move {
            let until_stopped = async {
                // A dropped sender is a stop too.
                let _ = stopped.await;
            };
            if let Err(error) = axum::serve(listener, router).with_graceful_shutdown(until_stopped).await {
                tracing::error!(%error, "the endpoint of the engines failed");
            }
        });
        Ok(Self { address, stop, server })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What the SDK takes as an endpoint.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Takes no more calls, and returns when those under way are done or have had two seconds.
    pub async fn stop(self) {
        let _ = self.stop.send(());
        let mut server = self.server;
        if tokio::time::timeout(GRACE, &mut server).await.is_err() {
            server.abort();
        }
    }
}

async fn answer(State(served): State<Served>, request: Request<Body>) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let target = served.cloud.target_of(&Request::from_parts(parts.clone(), ()));
    let service = target.map_or(Service::DynamoDb, |(service, _)| service);
    let Ok(body) = to_bytes(body, BODY_BYTES).await else {
        let refused = service.error(
            StatusCode::PAYLOAD_TOO_LARGE,
            "RequestEntityTooLargeException",
            "a request is at most 17 MiB, and must arrive whole",
        );
        return refused.map(Body::from);
    };
    let request = Request::from_parts(parts, body);
    if served.for_containers
        && let Some(outside) = served.cloud.outside_at(request.uri().path())
    {
        return outside.call(request).await.map(Body::from);
    }
    if let Some(authorizer) = &served.authorizer
        && let Some(refused) = check(authorizer, service, &request)
    {
        return refused.map(Body::from);
    }
    if Metrics::are_asked(&request) {
        return served.metrics.answer(&request).map(Body::from);
    }
    match &served.connections {
        Some(connections) if Connections::is_management_path(request.uri().path()) => {
            connections.manage(request).await.map(Body::from)
        }
        _ => served.cloud.call(request).await.map(Body::from),
    }
}

/// The refusal, if there is one.
fn check(authorizer: &Authorizer, service: Service, request: &Request<Bytes>) -> Option<Response<Bytes>> {
    let Some(access_key_id) = access_key_id(request) else {
        return Some(service.error(
            StatusCode::FORBIDDEN,
            "MissingAuthenticationTokenException",
            "Request is missing Authentication Token",
        ));
    };
    let denied = authorizer(access_key_id, request).err()?;
    tracing::warn!(%denied, "access denied: the function's policy in the template does not allow this call");
    // DynamoDB and Secrets Manager answer 400, the others 403.
    let status = match service {
        Service::DynamoDb | Service::DynamoDbStreams | Service::SecretsManager => StatusCode::BAD_REQUEST,
        Service::Sqs | Service::Scheduler | Service::Outside => StatusCode::FORBIDDEN,
    };
    Some(service.error(status, "AccessDeniedException", &denied.to_string()))
}

/// The access key id that a request was signed with.
pub fn access_key_id<B>(request: &Request<B>) -> Option<&str> {
    let authorization = request.headers().get(header::AUTHORIZATION)?.to_str().ok()?;
    let credential = authorization.strip_prefix("AWS4-HMAC-SHA256")?.split("Credential=").nth(1)?;
    credential.split('/').next().filter(|id| !id.is_empty())
}
