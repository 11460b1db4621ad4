//! A small HTTP client for tests and measurements.

use std::sync::Arc;

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::{Method, Request};
use hyper_rustls::{ConfigBuilderExt as _, HttpsConnector};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::crypto::aws_lc_rs;
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: hyper::HeaderMap,
    pub body: Value,
}

impl Answer {
    /// The `code` of a problem+json answer.
    pub fn code(&self) -> &str {
        self.body["code"].as_str().unwrap_or("")
    }
}

/// Why there is no answer: the connection failed or broke off.
pub type NoAnswer = Box<dyn std::error::Error + Send + Sync>;

/// A client of the API at one base URL.
#[derive(Clone, Debug)]
pub struct Api {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    pub base_url: String,
    /// Whether an answer that does not match `web/openapi.yaml` fails the test.
    held_to_contract: bool,
}

impl Api {
    pub fn new(base_url: String) -> Self {
        Self::try_new(base_url).unwrap()
    }

    /// The same, but returns an error if the URL is https and this machine has no root certificates.
    pub fn try_new(base_url: String) -> Result<Self, NoAnswer> {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        let tls = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
        let tls = tls.with_safe_default_protocol_versions()?;
        // The system's root certificates are read only if they are needed.
        let tls = match base_url.starts_with("https:") {
            true => tls.with_native_roots()?,
            false => tls.with_root_certificates(RootCertStore::empty()),
        };
        let connector = HttpsConnector::from((tcp, tls.with_no_client_auth()));
        Ok(Self { client: Client::builder(TokioExecutor::new()).build(connector), base_url, held_to_contract: false })
    }

    /// The same, and every answer is checked against the description of the API.
    pub fn held_to_contract(base_url: String) -> Self {
        Self { held_to_contract: true, ..Self::new(base_url) }
    }

    /// Sends a request as it is, and panics if there is no answer.
    pub async fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: impl Into<Bytes>) -> Answer {
        self.try_send(method, path, headers, body).await.unwrap()
    }

    /// Sends a request as it is, to a server that may be down.
    pub async fn try_send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Result<Answer, NoAnswer> {
        let mut request = Request::builder()
            .method(method.parse::<Method>().unwrap())
            .uri(format!("{}{path}", self.base_url))
            .header("content-type", "application/json");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = self.client.request(request.body(Full::new(body.into())).unwrap()).await?;
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await?.to_bytes();
        let body = serde_json::from_slice(&bytes)
            .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&bytes).into_owned()));
        if self.held_to_contract {
            let kind = parts.headers.get("content-type").and_then(|kind| kind.to_str().ok()).unwrap_or_default();
            if let Some(fault) = crate::contract::fault(method, path, parts.status.as_u16(), kind, &body) {
                panic!("the answer does not match web/openapi.yaml: {fault}");
            }
        }
        Ok(Answer { status: parts.status.as_u16(), headers: parts.headers, body })
    }

    /// A token from the local cloud's issuer.
    pub async fn token(&self, sub: &str, scope: &str) -> String {
        let asked = json!({ "sub": sub, "scope": scope });
        let answer = self.send("POST", "/_local/token", &[], asked.to_string()).await;
        answer.body["token"].as_str().unwrap().to_owned()
    }

    /// A user with a token of their own.
    pub async fn user(&self, sub: &str, scope: &str) -> User {
        User::new(self, &self.token(sub, scope).await)
    }
}

/// A client that sends its token with every request.
#[derive(Clone, Debug)]
pub struct User {
    pub api: Api,
    authorization: String,
}

impl User {
    pub fn new(api: &Api, token: &str) -> Self {
        Self { authorization: format!("Bearer {token}"), api: api.clone() }
    }

    /// The value of the header with the token.
    pub fn authorization(&self) -> &str {
        &self.authorization
    }

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
        self.try_with(method, path, headers, body).await.unwrap()
    }

    /// The same, to a server that may be down.
    pub async fn try_with(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Result<Answer, NoAnswer> {
        let mut all = vec![("authorization", self.authorization.as_str())];
        all.extend(headers);
        self.api.try_send(method, path, &all, body).await
    }

    /// Creates a sale as an operator and lays out its stock. Returns the sale's id.
    pub async fn open_sale(&self, form: &Value) -> Result<String, String> {
        let created = self.post("/admin/sales", form).await;
        let sale = created.body["saleId"].as_str().ok_or_else(|| format!("the sale was not created: {created:?}"))?;
        let preheated = self.post(&format!("/admin/sales/{sale}/preheat"), &json!({})).await;
        match preheated.body["status"].as_str() {
            Some("OPEN") => Ok(sale.to_owned()),
            _ => Err(format!("the sale did not open: {preheated:?}")),
        }
    }
}

/// A sale of one item, `phone`, that started an hour ago and ends in a day.
pub fn sale_form(now: jiff::Timestamp, stock: u32, limit: u32, payment_window_s: u32) -> Value {
    let hour = jiff::SignedDuration::from_hours(1);
    json!({
        "name": "11.11",
        "startsAt": now.saturating_sub(hour).unwrap().to_string(),
        "endsAt": now.saturating_add(hour * 24).unwrap().to_string(),
        "paymentWindowSeconds": payment_window_s,
        "items": [{
            "itemId": "phone",
            "name": "Phone",
            "price": 69_900,
            "originalPrice": 99_900,
            "currency": "CNY",
            "stock": stock,
            "limitPerBuyer": limit,
        }],
    })
}
