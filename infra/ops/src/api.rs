//! The running API as an operator asks it: over HTTP at the local cloud, over HTTPS at a stage.

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};

/// The longest answer that is read: an audit names at most some hundred findings.
const MAX_ANSWER_BYTES: usize = 16 * 1024 * 1024;

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
}

/// An API, and who asks.
pub struct Api {
    base_url: String,
    token: Option<String>,
    client: Client<hyper_rustls::HttpsConnector<HttpConnector>, Full<Bytes>>,
}

impl Api {
    /// The API at an address, asked without a token.
    pub fn at(base_url: &str) -> Result<Self, ApiError> {
        let connector = hyper_rustls::HttpsConnectorBuilder::new()
            .with_provider_and_native_roots(rustls::crypto::aws_lc_rs::default_provider())
            .map_err(ApiError::Certificates)?
            .https_or_http()
            .enable_http1()
            .build();
        let client = Client::builder(TokioExecutor::new()).build(connector);
        Ok(Self { base_url: base_url.trim_end_matches('/').to_owned(), token: None, client })
    }

    /// The same, asked with an operator's token.
    pub fn with_token(self, token: String) -> Self {
        Self { token: Some(token), ..self }
    }

    /// The local cloud at an address, which makes its operator a token.
    pub async fn of_the_local_cloud(base_url: &str) -> Result<Self, ApiError> {
        let api = Self::at(base_url)?;
        let answer = api.post("/_local/token", &json!({ "sub": "operator", "scope": "seckill/admin" })).await?;
        let token = answer.get("token").and_then(Value::as_str).unwrap_or_default().to_owned();
        Ok(api.with_token(token))
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
        let no_answer = |why: String| ApiError::NoAnswer { url: url.clone(), why };
        let mut request = http::Request::builder().method(method).uri(&url).header("content-type", "application/json");
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
        Err(ApiError::Refused { url, status: status.as_u16(), said: words })
    }
}

fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
