//! A gateway that serves the sandbox and nothing else.

use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use local_cloud::gateway::{Connections, Gateway, GatewayConfig, Issuer};
use local_cloud::invoke::Outcome;
use local_cloud::template::model::Stack;
use sandbox::CloudWithSandbox;
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// Generating the key takes a while, so all tests share it.
static ISSUER: LazyLock<Arc<Issuer>> = LazyLock::new(|| {
    let directory = tempfile::tempdir().expect("a directory");
    Arc::new(Issuer::open(directory.path()).expect("an issuer"))
});

pub(crate) struct Running {
    gateway: Gateway,
    client: Client<HttpConnector, Full<Bytes>>,
}

impl Running {
    pub(crate) async fn start(cloud: &CloudWithSandbox) -> Self {
        let config = GatewayConfig {
            requests: None,
            listener: TcpListener::bind("127.0.0.1:0").await.expect("a port"),
            stack: Arc::new(Stack::default()),
            invoker: Arc::new(|_, _| Box::pin(std::future::ready(Outcome::Throttled))),
            clock: cloud.clock.clone(),
            connections: Connections::default(),
            issuer: Arc::clone(&ISSUER),
            web: None,
            live: Arc::new(|| Box::pin(async { json!({}) })),
            events: Arc::new(|| Box::pin(async { json!({}) })),
            outside: cloud.outside().to_vec(),
        };
        let gateway = Gateway::start(config).expect("a gateway");
        Self { gateway, client: Client::builder(TokioExecutor::new()).build_http() }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.gateway.address()
    }

    pub(crate) async fn call(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Response<Bytes> {
        let mut request = Request::builder().method(method).uri(format!("http://{}{path}", self.address()));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(body.into())).expect("a request");
        let (parts, body) = self.client.request(request).await.expect("an answer").into_parts();
        Response::from_parts(parts, body.collect().await.expect("a body").to_bytes())
    }
}

pub(crate) fn json_of(response: &Response<Bytes>) -> Value {
    serde_json::from_slice(response.body()).expect("JSON")
}
