//! The running API as an operator asks it: over HTTP at the local cloud, over HTTPS at a stage.

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

/// The longest answer that is read: an audit names at most some hundred findings.
const MAX_ANSWER_BYTES: usize = 16 * 1024 * 1024;
/// How long an answer is waited for: twice what API Gateway gives a function.
const PATIENCE: Duration = Duration::from_secs(60);

/// Why there is no answer, or none to work with.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// The system's certificates cannot be read.
    #[error("this machine's root certificates cannot be read: {0}")]
    Certificates(std::io::Error),
    /// Nothing answers.
    #[error("{url} does not answer ({why}): is it running, and is the address right?")]
    NoAnswer {
        /// What was asked.
        url: String,
        /// What happened.
        why: String,
    },
    /// It refused.
    #[error("{url} answered {status}: {said}")]
    Refused {
        /// What was asked.
        url: String,
        /// The status.
        status: u16,
        /// What it said.
        said: String,
    },
    /// Something else answers there: it makes no tokens.
    #[error("what answers at {0} is not the local cloud: give its address with --base-url")]
    NotTheLocalCloud(String),
}

/// An API, and who asks.
pub struct Api {
    base_url: String,
    token: Option<String>,
    patience: Duration,
    client: Client<hyper_rustls::HttpsConnector<HttpConnector>, Full<Bytes>>,
}

impl Api {
    /// The API at an address, asked without a token.
    pub fn at(base_url: &str) -> Result<Self, ApiError> {
        let connector = hyper_rustls::HttpsConnectorBuilder::new()
            .with_tls_config(encryption(base_url).map_err(ApiError::Certificates)?)
            .https_or_http()
            .enable_http1()
            .build();
        let client = Client::builder(TokioExecutor::new()).build(connector);
        Ok(Self { base_url: base_url.trim_end_matches('/').to_owned(), token: None, patience: PATIENCE, client })
    }

    /// The same, asked with an operator's token.
    pub fn with_token(self, token: String) -> Self {
        Self { token: Some(token), ..self }
    }

    /// The same, waiting so long for each answer.
    pub fn with_patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// The local cloud at an address, which makes its operator a token.
    pub async fn of_the_local_cloud(base_url: &str) -> Result<Self, ApiError> {
        let api = Self::at(base_url)?;
        let answer = api.post("/_local/token", &json!({ "sub": "operator", "scope": "seckill/admin" })).await?;
        match answer.get("token").and_then(Value::as_str) {
            Some(token) => Ok(api.with_token(token.to_owned())),
            None => Err(ApiError::NotTheLocalCloud(base_url.to_owned())),
        }
    }

    /// Reads.
    pub async fn get(&self, path: &str) -> Result<Value, ApiError> {
        self.send("GET", path, Bytes::new()).await
    }

    /// Sends something.
    pub async fn post(&self, path: &str, body: &Value) -> Result<Value, ApiError> {
        self.send("POST", path, body.to_string().into()).await
    }

    async fn send(&self, method: &str, path: &str, body: Bytes) -> Result<Value, ApiError> {
        let url = format!("{}{path}", self.base_url);
        let answered = tokio::time::timeout(self.patience, self.send_and_read(method, &url, body)).await;
        let why = || format!("nothing within {:?}", self.patience);
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
        Err(ApiError::Refused { url: url.to_owned(), status: status.as_u16(), said: words })
    }
}

/// Nobody's word counts where nothing is encrypted: the machine's certificates are read only if they are needed.
fn encryption(base_url: &str) -> std::io::Result<ClientConfig> {
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

    /// Where somebody answers one request, and says this.
    pub(crate) async fn answers_once(said: &'static str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move {
            let (mut connection, _) = listener.accept().await.unwrap();
            let mut asked = [0; 4_096];
            assert!(connection.read(&mut asked).await.unwrap() > 0);
            let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{said}", said.len());
            connection.write_all(answer.as_bytes()).await.unwrap();
            // Until the other side has read it and leaves.
            while connection.read(&mut asked).await.is_ok_and(|read| read > 0) {}
        });
        url
    }

    #[tokio::test]
    async fn whoever_does_not_answer_is_not_waited_for_without_end() {
        // The system makes connections, and nobody takes them.
        let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", silent.local_addr().unwrap());
        let api = Api::at(&url).unwrap().with_patience(Duration::from_millis(50));
        let error = api.get("/admin/sales").await.unwrap_err();
        assert!(matches!(&error, ApiError::NoAnswer { why, .. } if why == "nothing within 50ms"), "{error}");
    }

    #[tokio::test]
    async fn a_local_cloud_makes_tokens() {
        let api = Api::of_the_local_cloud(&answers_once(r#"{"token":"t"}"#).await).await.unwrap();
        assert_eq!(api.token.as_deref(), Some("t"));
        let error = Api::of_the_local_cloud(&answers_once("{}").await).await.err().unwrap();
        assert!(error.to_string().contains("not the local cloud"), "{error}");
    }
}
