//! A client of the API for operators: over HTTP to the local cloud, over HTTPS to a stage.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::ConfigBuilderExt as _;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::crypto::aws_lc_rs;
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};

/// The largest answer that is read. An audit has at most a few hundred findings.
const MAX_ANSWER_BYTES: usize = 16 * 1024 * 1024;
/// How long to wait for an answer: twice the time limit of API Gateway.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    #[error("the root certificates of this machine cannot be read: {0}; install ca-certificates")]
    Certificates(std::io::Error),
    #[error("{url} does not answer ({why}): check that it is running and that the address is right")]
    NoAnswer { url: String, why: String },
    #[error("{url} answered {status}: {message}")]
    Refused { url: String, status: u16, message: String },
    /// The server at this address issues no tokens.
    #[error("the server at {0} is not the local cloud: give the address of the local cloud with --base-url")]
    NotTheLocalCloud(String),
}

/// The API at an address, with the token that is sent.
pub struct Api {
    base_url: String,
    token: Option<String>,
    timeout: Duration,
    client: Client<hyper_rustls::HttpsConnector<HttpConnector>, Full<Bytes>>,
}

impl Api {
    /// Without a token.
    pub fn at(base_url: &str) -> Result<Self, ApiError> {
        let connector = hyper_rustls::HttpsConnectorBuilder::new()
            .with_tls_config(tls_config(base_url).map_err(ApiError::Certificates)?)
            .https_or_http()
            .enable_http1()
            .build();
        let client = Client::builder(TokioExecutor::new()).build(connector);
        Ok(Self { base_url: base_url.trim_end_matches('/').to_owned(), token: None, timeout: TIMEOUT, client })
    }

    pub fn with_token(self, token: String) -> Self {
        Self { token: Some(token), ..self }
    }

    /// Sets how long to wait for each answer.
    pub fn with_timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// The local cloud at an address, with an operator's token that it issues.
    pub async fn local(base_url: &str) -> Result<Self, ApiError> {
        let api = Self::at(base_url)?;
        let answer = api.post("/_local/token", &json!({ "sub": "operator", "scope": "seckill/admin" })).await?;
        match answer.get("token").and_then(Value::as_str) {
            Some(token) => Ok(api.with_token(token.to_owned())),
            None => Err(ApiError::NotTheLocalCloud(base_url.to_owned())),
        }
    }

    pub async fn get(&self, path: &str) -> Result<Value, ApiError> {
        self.send("GET", path, Bytes::new()).await
    }

    pub async fn post(&self, path: &str, body: &Value) -> Result<Value, ApiError> {
        self.send("POST", path, body.to_string().into()).await
    }

    async fn send(&self, method: &str, path: &str, body: Bytes) -> Result<Value, ApiError> {
        let url = format!("{}{path}", self.base_url);
        let answered = tokio::time::timeout(self.timeout, self.send_and_read(method, &url, body)).await;
        let why = || format!("no answer within {:?}", self.timeout);
        answered.unwrap_or_else(|_| Err(ApiError::NoAnswer { url, why: why() }))
    }

    async fn send_and_read(&self, method: &str, url: &str, body: Bytes) -> Result<Value, ApiError> {
        let no_answer = |why: String| ApiError::NoAnswer { url: url.to_owned(), why };
        let mut request = http::Request::builder().method(method).uri(url).header("content-type", "application/json");
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let request = request.body(Full::new(body)).map_err(|error| no_answer(error.to_string()))?;
        let answer = self.client.request(request).await.map_err(|error| no_answer(with_causes(&error)))?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), MAX_ANSWER_BYTES).collect().await;
        let body = body.map_err(|error| no_answer(error.to_string()))?.to_bytes();
        let said: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
        if status.is_success() {
            return Ok(said);
        }
        let words = ["detail", "message", "errorMessage"].iter().find_map(|key| said.get(key)?.as_str());
        let words = words.map_or_else(|| String::from_utf8_lossy(&body).chars().take(300).collect(), str::to_owned);
        Err(ApiError::Refused { url: url.to_owned(), status: status.as_u16(), message: words })
    }
}

/// Reads the root certificates of the machine only for HTTPS. Plain HTTP does not need them.
fn tls_config(base_url: &str) -> std::io::Result<ClientConfig> {
    let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(std::io::Error::other)?;
    let builder = match base_url.starts_with("http:") {
        true => builder.with_root_certificates(RootCertStore::empty()),
        false => builder.with_native_roots()?,
    };
    Ok(builder.with_no_client_auth())
}

fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

#[cfg(test)]
pub(crate) mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    /// The address of a server that gives this answer to one request.
    pub(crate) async fn server_answering(body: &'static str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move {
            let (mut connection, _) = listener.accept().await.unwrap();
            let mut asked = [0; 4_096];
            assert!(connection.read(&mut asked).await.unwrap() > 0);
            let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
            connection.write_all(answer.as_bytes()).await.unwrap();
            // Keep the connection open until the client has read the answer.
            while connection.read(&mut asked).await.is_ok_and(|read| read > 0) {}
        });
        url
    }

    #[tokio::test]
    async fn a_server_that_does_not_answer_is_a_timeout() {
        // The system accepts connections, and no program answers them.
        let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", silent.local_addr().unwrap());
        let api = Api::at(&url).unwrap().with_timeout(Duration::from_millis(50));
        let error = api.get("/admin/sales").await.unwrap_err();
        assert!(matches!(&error, ApiError::NoAnswer { why, .. } if why == "no answer within 50ms"), "{error}");
    }

    #[tokio::test]
    async fn the_local_cloud_issues_the_token() {
        let api = Api::local(&server_answering(r#"{"token":"t"}"#).await).await.unwrap();
        assert_eq!(api.token.as_deref(), Some("t"));
        let error = Api::local(&server_answering("{}").await).await.err().unwrap();
        assert!(error.to_string().contains("not the local cloud"), "{error}");
    }
}
