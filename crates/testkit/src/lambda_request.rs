//! Requests in the form in which API Gateway passes them to a function, and the answers, all in process.

use edge::{Body, Request, Response};
use serde_json::{Value, json};

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub text: String,
    pub headers: hyper::HeaderMap,
}

impl Answer {
    pub fn of(response: Response<Body>) -> Self {
        let (parts, body) = response.into_parts();
        let text = match body {
            Body::Empty => String::new(),
            Body::Text(text) => text,
            other => panic!("{other:?}"),
        };
        Self { status: parts.status.as_u16(), text, headers: parts.headers }
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap()
    }

    /// The `code` of a problem+json answer.
    pub fn code(&self) -> String {
        self.json()["code"].as_str().unwrap_or_default().to_owned()
    }
}

/// A request with a token of this subject and scope. Without a subject there is no token.
pub fn request(
    sub: Option<&str>,
    scope: &str,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: Option<Value>,
) -> Request {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let headers: serde_json::Map<String, Value> =
        headers.iter().map(|(name, value)| ((*name).to_owned(), Value::from(*value))).collect();
    let authorizer = sub.map(|sub| json!({"jwt": {"claims": {"sub": sub, "scope": scope}, "scopes": null}}));
    let event = json!({
        "version": "2.0", "routeKey": "$default", "rawPath": path, "rawQueryString": query, "headers": headers,
        "requestContext": {
            "accountId": "1", "apiId": "a", "stage": "$default", "requestId": "r", "domainName": "api.example",
            "authorizer": authorizer,
            "http": {"method": method, "path": path, "protocol": "HTTP/1.1", "sourceIp": "203.0.113.7"},
        },
        "body": body.map(|body| body.to_string()), "isBase64Encoded": false,
    });
    lambda_http::request::from_str(&event.to_string()).unwrap()
}
