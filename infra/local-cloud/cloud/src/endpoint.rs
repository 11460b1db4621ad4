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
use http::{Request, Response, StatusCode, header};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::engine::Cloud;
use crate::front::Front;
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

impl Endpoint {
    /// Serves `cloud` on a loopback port; 0 is any that is free.
    pub async fn start(cloud: Cloud, port: u16, authorizer: Option<Authorizer>) -> std::io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let front = Front { cloud, authorizer, connections: None, metrics: Metrics::default(), for_containers: false };
        Self::serve(listener, front)
    }

    /// Serves what stands behind `front`.
    pub(crate) fn serve(listener: TcpListener, front: Front) -> std::io::Result<Self> {
        let address = listener.local_addr()?;
        let router = Router::new().fallback(answer).with_state(front);
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

async fn answer(State(front): State<Front>, request: Request<Body>) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let Ok(body) = to_bytes(body, BODY_BYTES).await else {
        let refused = front.service(&Request::from_parts(parts, ())).error(
            StatusCode::PAYLOAD_TOO_LARGE,
            "RequestEntityTooLargeException",
            "a request is at most 17 MiB, and must arrive whole",
        );
        return refused.map(Body::from);
    };
    let request = Request::from_parts(parts, body);
    let access_key_id = access_key_id(&request).map(str::to_owned);
    front.answer(access_key_id.as_deref(), request).await.map(Body::from)
}

/// The access key id that a request was signed with.
pub fn access_key_id<B>(request: &Request<B>) -> Option<&str> {
    let authorization = request.headers().get(header::AUTHORIZATION)?.to_str().ok()?;
    let credential = authorization.strip_prefix("AWS4-HMAC-SHA256")?.split("Credential=").nth(1)?;
    credential.split('/').next().filter(|id| !id.is_empty())
}
