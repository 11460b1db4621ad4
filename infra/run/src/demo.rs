//! A sale to try things with, made on the first run by the same requests that an operator would send.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The file in the data directory that names the demo sale.
const DEMO_SALE: &str = "demo-sale.json";
/// How long the sale runs.
const RUNS_FOR_MS: i64 = 24 * 60 * 60 * 1000;
/// A function that starts for the first time on a busy machine takes seconds, not minutes.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Answers are a few hundred bytes.
const MAX_ANSWER_BYTES: usize = 1024 * 1024;

/// The sale that a first run made.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DemoSale {
    pub sale_id: String,
    pub item_id: String,
    /// When it ends, in milliseconds since 1970. A note that does not say so is of a sale that has ended.
    #[serde(default)]
    pub ends_ms: i64,
    /// Whether this run made it.
    #[serde(skip)]
    pub is_new: bool,
}

/// Why there is no demo sale.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// A request was not answered.
    #[error("{request}: {reason}")]
    NoAnswer { request: String, reason: String },
    /// A request was answered with an error.
    #[error("{request} answered {status}: {body}")]
    Refused { request: String, status: StatusCode, body: String },
    /// The note in the data directory cannot be written.
    #[error("cannot note it in the data directory: {0}")]
    Note(#[from] io::Error),
}

/// Forgets the sale of earlier runs, whose data is gone.
pub(super) fn forget(data_dir: &Path) -> io::Result<()> {
    match fs::remove_file(data_dir.join(DEMO_SALE)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Makes the sale, or reads which one an earlier run made, while that one runs.
pub(super) async fn make(base_url: &str, data_dir: &Path, now_ms: i64) -> Result<DemoSale, DemoError> {
    let note = data_dir.join(DEMO_SALE);
    if let Some(sale) = noted(&note, now_ms) {
        return Ok(sale);
    }
    let ends_ms = now_ms.saturating_add(RUNS_FOR_MS);
    let api = Api { client: Client::builder(TokioExecutor::new()).build_http(), base_url };
    let token = api.post("/_local/token", None, &json!({ "sub": "demo-operator", "scope": "seckill/admin" })).await?;
    let token = text(&token, "token");
    let sale = api.post("/admin/sales", Some(&token), &set_up(now_ms, ends_ms)).await?;
    let sale_id = text(&sale, "saleId");
    api.post(&format!("/admin/sales/{sale_id}/preheat"), Some(&token), &json!({})).await?;
    let sale = DemoSale { sale_id, item_id: "phone".to_owned(), ends_ms, is_new: true };
    fs::write(&note, json!(sale).to_string())?;
    Ok(sale)
}

/// The sale that an earlier run noted, if it still runs.
fn noted(note: &Path, now_ms: i64) -> Option<DemoSale> {
    let sale: DemoSale = serde_json::from_slice(&fs::read(note).ok()?).ok()?;
    (now_ms < sale.ends_ms).then_some(sale)
}

fn set_up(now_ms: i64, ends_ms: i64) -> Value {
    let at = |ms: i64| jiff::Timestamp::from_millisecond(ms).unwrap_or(jiff::Timestamp::UNIX_EPOCH).to_string();
    json!({
        "name": "Demo sale 秒杀",
        "startsAt": at(now_ms),
        "endsAt": at(ends_ms),
        "paymentWindowSeconds": 900,
        "items": [
            {
                "itemId": "phone", "name": "Phone", "price": 99_900, "originalPrice": 399_900, "currency": "CNY",
                "stock": 100, "limitPerBuyer": 1, "pointsPrice": 10_000,
            },
            {
                "itemId": "mug", "name": "Mug", "price": 100, "originalPrice": 2_900, "currency": "CNY",
                "stock": 1000, "limitPerBuyer": 2, "pointsPrice": 10,
            },
        ],
    })
}

fn text(value: &Value, field: &str) -> String {
    value.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
}

struct Api<'a> {
    client: Client<HttpConnector, Full<Bytes>>,
    base_url: &'a str,
}

impl Api<'_> {
    async fn post(&self, path: &str, token: Option<&str>, body: &Value) -> Result<Value, DemoError> {
        let name = format!("POST {path}");
        let no_answer = |reason: String| DemoError::NoAnswer { request: name.clone(), reason };
        let mut request = Request::builder().method(Method::POST).uri(format!("{}{path}", self.base_url));
        request = request.header("content-type", "application/json");
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let request =
            request.body(Full::new(Bytes::from(body.to_string()))).map_err(|error| no_answer(error.to_string()))?;
        let exchange = async {
            let response = self.client.request(request).await.map_err(|error| no_answer(error.to_string()))?;
            let status = response.status();
            let body = Limited::new(response.into_body(), MAX_ANSWER_BYTES).collect().await;
            Ok::<_, DemoError>((status, body.map_err(|error| no_answer(error.to_string()))?.to_bytes()))
        };
        let answered = tokio::time::timeout(TIMEOUT, exchange).await;
        let (status, body) = answered.map_err(|_| no_answer("no answer in 30 s".to_owned()))??;
        if !status.is_success() {
            let body = String::from_utf8_lossy(&body).into_owned();
            return Err(DemoError::Refused { request: name, status, body });
        }
        serde_json::from_slice(&body).map_err(|error| no_answer(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_good_while_its_sale_runs() {
        let directory = tempfile::tempdir().unwrap();
        let note = directory.path().join(DEMO_SALE);
        assert_eq!(noted(&note, 0), None);
        let sale = DemoSale { sale_id: "s1".to_owned(), item_id: "phone".to_owned(), ends_ms: 1_000, is_new: false };
        fs::write(&note, json!(sale).to_string()).unwrap();
        assert_eq!(noted(&note, 999), Some(sale));
        assert_eq!(noted(&note, 1_000), None);
        fs::write(&note, r#"{"saleId": "s1", "itemId": "phone"}"#).unwrap();
        assert_eq!(noted(&note, 999), None, "it does not say when the sale ends");
    }
}
