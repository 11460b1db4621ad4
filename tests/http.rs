//! A small HTTP client for the tests.

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::{Method, Request};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};

/// An answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: hyper::HeaderMap,
    pub body: Value,
}

impl Answer {
    /// The problem's code.
    pub fn code(&self) -> &str {
        self.body["code"].as_str().unwrap_or("")
    }
}

/// A client of the API at one base URL.
#[derive(Clone, Debug)]
pub struct Api {
    client: Client<HttpConnector, Full<Bytes>>,
    pub base_url: String,
}

impl Api {
    pub fn new(base_url: String) -> Self {
        Self { client: Client::builder(TokioExecutor::new()).build_http(), base_url }
    }

    /// Sends a request as it is.
    pub async fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: impl Into<Bytes>) -> Answer {
        let mut request = Request::builder()
            .method(method.parse::<Method>().unwrap())
            .uri(format!("{}{path}", self.base_url))
            .header("content-type", "application/json");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = self.client.request(request.body(Full::new(body.into())).unwrap()).await.unwrap();
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        let body = serde_json::from_slice(&bytes)
            .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&bytes).into_owned()));
        Answer { status: parts.status.as_u16(), headers: parts.headers, body }
    }

    /// A token of the local issuer.
    pub async fn token(&self, sub: &str, scope: &str) -> String {
        let asked = json!({ "sub": sub, "scope": scope });
        let answer = self.send("POST", "/_local/token", &[], asked.to_string()).await;
        answer.body["token"].as_str().unwrap().to_owned()
    }

    /// Somebody who sends requests with their token.
    pub async fn user(&self, sub: &str, scope: &str) -> User {
        User { authorization: format!("Bearer {}", self.token(sub, scope).await), api: self.clone() }
    }
}

/// Somebody with a token.
#[derive(Clone, Debug)]
pub struct User {
    pub api: Api,
    authorization: String,
}

impl User {
    pub async fn get(&self, path: &str) -> Answer {
        self.api.send("GET", path, &[("authorization", &self.authorization)], "").await
    }

    pub async fn post(&self, path: &str, body: &Value) -> Answer {
        self.api.send("POST", path, &[("authorization", &self.authorization)], body.to_string()).await
    }

    pub async fn put(&self, path: &str, body: &Value) -> Answer {
        self.api.send("PUT", path, &[("authorization", &self.authorization)], body.to_string()).await
    }

    pub async fn with(&self, method: &str, path: &str, headers: &[(&str, &str)], body: impl Into<Bytes>) -> Answer {
        let mut all = vec![("authorization", self.authorization.as_str())];
        all.extend(headers);
        self.api.send(method, path, &all, body).await
    }
}
