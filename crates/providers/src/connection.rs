//! The connections of the deployed functions: HTTPS with the system's root certificates, or plain HTTP to the local
//! sandbox.
//!
//! Everything is created at the first call, so a function that never calls a provider has no cost.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use aws_smithy_runtime_api::client::http::{HttpConnector, HttpConnectorFuture, SharedHttpConnector};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_types::body::SdkBody;
use http::Response;
use http_body_util::{BodyExt, Limited};
use hyper_rustls::{ConfigBuilderExt, HttpsConnector};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector as Tcp;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::ClientConfig;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::{CertifiedKey, SingleCertAndKey};

/// The longest answer that is read. The longest expected one, 100 refunds of one payment at Stripe, has about 100 KB.
pub(crate) const MAX_ANSWER_BYTES: usize = 256 * 1024;

/// How long connecting may take: several round trips to the other side of the world.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a whole call may take, from connecting to the end of the answer. A buyer waits for it, and API Gateway
/// waits 30 s for a function that may make three calls (it closes and queries another payment, and creates this one).
/// A provider that takes longer is called again later.
const CALL_TIMEOUT: Duration = Duration::from_secs(6);

/// How long an idle connection is kept. Providers and the routers in between close idle connections after about a
/// minute, and a frozen environment does not notice.
const IDLE_TIMEOUT: Duration = Duration::from_secs(20);

/// How many idle connections to one provider are kept. An environment handles one request at a time, but a batch may
/// close several payments at once.
const IDLE_CONNECTIONS: usize = 4;

/// The connection of the deployed functions to the providers.
pub fn https() -> SharedHttpConnector {
    SharedHttpConnector::new(Connection::new(Roots::System, None, Limits::DEPLOYED))
}

/// A connection that presents this client certificate.
pub(crate) fn certified(identity: CertifiedKey) -> SharedHttpConnector {
    SharedHttpConnector::new(Connection::new(Roots::System, Some(identity), Limits::DEPLOYED))
}

/// Reads the certificate and the private key of a client, in PEM. An error never contains any of their content.
pub(crate) fn identity(certificate: &str, key: &str) -> Result<CertifiedKey, &'static str> {
    let chain: Vec<_> = CertificateDer::pem_slice_iter(certificate.as_bytes())
        .collect::<Result<_, _>>()
        .map_err(|_| "clientCertificate must be certificates in PEM")?;
    if chain.is_empty() {
        return Err("clientCertificate must be certificates in PEM");
    }
    let key =
        PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|_| "clientKey must be an unencrypted key in PEM")?;
    CertifiedKey::from_der(chain, key, &crypto()).map_err(|_| "clientKey must be the key of clientCertificate")
}

fn crypto() -> CryptoProvider {
    aws_lc_rs::default_provider()
}

/// Which certificate authorities are trusted.
pub(crate) enum Roots {
    System,
    #[cfg(test)]
    These(rustls::RootCertStore),
}

/// The time limits of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) connect: Duration,
    pub(crate) call: Duration,
}

impl Limits {
    const DEPLOYED: Self = Self { connect: CONNECT_TIMEOUT, call: CALL_TIMEOUT };
}

/// Connections that are created on demand and reused.
#[derive(Clone)]
pub(crate) struct Connection(Arc<Parts>);

struct Parts {
    roots: Roots,
    identity: Option<Arc<SingleCertAndKey>>,
    limits: Limits,
    /// A separate client, so that calls to the local sandbox need no root certificates.
    plain: OnceLock<Client<Tcp, SdkBody>>,
    tls: OnceLock<Result<Client<HttpsConnector<Tcp>, SdkBody>, String>>,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("certified", &self.0.identity.is_some()).finish_non_exhaustive()
    }
}

impl HttpConnector for Connection {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let connection = self.clone();
        HttpConnectorFuture::new(async move {
            let limit = connection.0.limits.call;
            match tokio::time::timeout(limit, connection.exchange(request)).await {
                Ok(answer) => answer,
                Err(_) => Err(ConnectorError::timeout(format!("no complete answer within {limit:?}").into())),
            }
        })
    }
}

impl Connection {
    pub(crate) fn new(roots: Roots, identity: Option<CertifiedKey>, limits: Limits) -> Self {
        let identity = identity.map(|identity| Arc::new(SingleCertAndKey::from(identity)));
        Self(Arc::new(Parts { roots, identity, limits, plain: OnceLock::new(), tls: OnceLock::new() }))
    }

    #[cfg(test)]
    pub(crate) fn is_created(&self) -> bool {
        self.0.plain.get().is_some() || self.0.tls.get().is_some()
    }

    async fn exchange(&self, request: HttpRequest) -> Result<HttpResponse, ConnectorError> {
        let request = request.try_into_http1x().map_err(|error| ConnectorError::user(error.into()))?;
        // Yielding lets the runtime poll its sockets. It then notices a connection that was closed while the
        // environment was frozen, and does not reuse it.
        tokio::task::yield_now().await;
        let answer = if request.uri().scheme_str() == Some("http") {
            self.0.plain.get_or_init(|| client(self.0.tcp())).request(request).await
        } else {
            let tls = self.0.tls.get_or_init(|| self.0.tls().map(client)).as_ref();
            tls.map_err(|error| ConnectorError::other(error.as_str().into(), None))?.request(request).await
        };
        let (parts, body) = answer.map_err(|error| ConnectorError::io(error.into()))?.into_parts();
        let body = Limited::new(body, MAX_ANSWER_BYTES).collect().await;
        let body = body.map_err(|error| ConnectorError::other(error, None))?.to_bytes();
        HttpResponse::try_from(Response::from_parts(parts, SdkBody::from(body)))
            .map_err(|error| ConnectorError::other(error.into(), None))
    }
}

impl Parts {
    fn tcp(&self) -> Tcp {
        let mut tcp = Tcp::new();
        tcp.set_connect_timeout(Some(self.limits.connect));
        tcp.set_nodelay(true);
        tcp
    }

    fn tls(&self) -> Result<HttpsConnector<Tcp>, String> {
        let unusable = |error: &dyn fmt::Display| format!("TLS cannot be set up: {error}");
        let builder = ClientConfig::builder_with_provider(Arc::new(crypto()))
            .with_safe_default_protocol_versions()
            .map_err(|error| unusable(&error))?;
        let builder = match &self.roots {
            Roots::System => builder.with_native_roots().map_err(|error| unusable(&error))?,
            #[cfg(test)]
            Roots::These(roots) => builder.with_root_certificates(roots.clone()),
        };
        let config = match &self.identity {
            Some(identity) => builder.with_client_cert_resolver(identity.clone()),
            None => builder.with_no_client_auth(),
        };
        let mut tcp = self.tcp();
        // The inner connector would refuse https URLs; the outer one accepts nothing else.
        tcp.enforce_http(false);
        let https = hyper_rustls::HttpsConnectorBuilder::new().with_tls_config(config).https_only();
        Ok(https.enable_http1().wrap_connector(tcp))
    }
}

fn client<C>(connector: C) -> Client<C, SdkBody>
where
    C: hyper_util::client::legacy::connect::Connect + Clone,
{
    Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE_TIMEOUT)
        .pool_max_idle_per_host(IDLE_CONNECTIONS)
        .build(connector)
}
