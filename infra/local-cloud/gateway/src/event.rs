//! The event of payload format 2.0, as API Gateway makes it from a request.
//!
//! What is absent in the request is absent in the event. Three things that surprise and are kept: the path arrives
//! decoded (and ends at a decoded `?`) while the query string stays as it was sent; cookies leave the headers; and a
//! body is text only for `text/*` and three application types. Everything else, forms included, is base64.

use std::collections::BTreeMap;
use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, Version, header};
use serde_json::{Map, Value, json};

use super::jwt::Verified;
use super::text::{query_pairs, request_time};
use crate::template::percent_decode;

/// What the gateway knows beside the request itself.
#[derive(Debug)]
pub(super) struct Envelope<'a> {
    pub(super) account: &'a str,
    pub(super) api_id: &'a str,
    pub(super) stage: &'a str,
    pub(super) route_key: &'a str,
    pub(super) path_parameters: &'a BTreeMap<String, String>,
    /// What a verified token says.
    pub(super) authorizer: Option<Verified>,
    pub(super) source_ip: IpAddr,
    pub(super) port: u16,
    pub(super) request_id: &'a str,
    /// Used if the request has no `x-amzn-trace-id`.
    pub(super) trace: &'a str,
    pub(super) now_ms: i64,
}

/// Headers that concern one connection only and are not passed on (RFC 9110, 7.6.1).
pub(super) const HOP_BY_HOP: [&str; 7] =
    ["connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"];

/// Makes the event.
pub(super) fn make(request: &Parts, body: &Bytes, envelope: &Envelope<'_>) -> Value {
    let raw_path = decoded_path(request.uri.path());
    let query = request.uri.query().unwrap_or_default();
    let mut event = Map::new();
    event.insert("version".to_owned(), json!("2.0"));
    event.insert("routeKey".to_owned(), json!(envelope.route_key));
    event.insert("rawPath".to_owned(), json!(raw_path));
    event.insert("rawQueryString".to_owned(), json!(query));
    let cookies = cookies(&request.headers);
    if !cookies.is_empty() {
        event.insert("cookies".to_owned(), json!(cookies));
    }
    event.insert("headers".to_owned(), json!(headers(request, body.len(), envelope)));
    let query = joined(query_pairs(query));
    if !query.is_empty() {
        event.insert("queryStringParameters".to_owned(), json!(query));
    }
    event.insert("requestContext".to_owned(), context(request, &raw_path, envelope));
    if !envelope.path_parameters.is_empty() {
        event.insert("pathParameters".to_owned(), json!(envelope.path_parameters));
    }
    let (body, is_base64) = body_of(&request.headers, body);
    if let Some(body) = body {
        event.insert("body".to_owned(), json!(body));
    }
    event.insert("isBase64Encoded".to_owned(), json!(is_base64));
    Value::Object(event)
}

pub(super) fn decoded_path(path: &str) -> String {
    let mut path = percent_decode(path);
    if let Some(end) = path.find('?') {
        path.truncate(end);
    }
    path
}

fn context(request: &Parts, path: &str, envelope: &Envelope<'_>) -> Value {
    let domain = host(request);
    let mut context = json!({
        "accountId": envelope.account,
        "apiId": envelope.api_id,
        "domainName": domain,
        "domainPrefix": domain.split('.').next().unwrap_or_default(),
        "http": {
            "method": request.method.as_str(),
            "path": path,
            "protocol": protocol(request.version),
            "sourceIp": envelope.source_ip.to_string(),
            "userAgent": text(&request.headers, header::USER_AGENT.as_str()),
        },
        "requestId": envelope.request_id,
        "routeKey": envelope.route_key,
        "stage": envelope.stage,
        "time": request_time(envelope.now_ms),
        "timeEpoch": envelope.now_ms,
    });
    if let (Some(authorizer), Some(context)) = (&envelope.authorizer, context.as_object_mut()) {
        context.insert("authorizer".to_owned(), authorizer.as_event());
    }
    context
}

/// The name under which the API was reached, with its port, as the client wrote it.
pub(super) fn host(request: &Parts) -> String {
    match request.headers.get(header::HOST).and_then(|host| host.to_str().ok()) {
        Some(host) => host.to_owned(),
        None => request.uri.authority().map_or_else(|| "localhost".to_owned(), ToString::to_string),
    }
}

pub(super) fn protocol(version: Version) -> &'static str {
    match version {
        Version::HTTP_10 => "HTTP/1.0",
        Version::HTTP_2 => "HTTP/2.0",
        _ => "HTTP/1.1",
    }
}

/// All values of a header, joined by commas; empty if it is absent.
pub(super) fn text(headers: &HeaderMap, name: &str) -> String {
    let values: Vec<_> = headers.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes())).collect();
    values.join(",")
}

fn headers(request: &Parts, body_bytes: usize, envelope: &Envelope<'_>) -> BTreeMap<String, String> {
    let mut headers: BTreeMap<String, String> = request
        .headers
        .keys()
        .map(|name| name.as_str())
        .filter(|name| *name != "cookie" && !HOP_BY_HOP.contains(name))
        .map(|name| (name.to_owned(), text(&request.headers, name)))
        .collect();
    headers.entry("host".to_owned()).or_insert_with(|| host(request));
    headers.insert("content-length".to_owned(), body_bytes.to_string());
    headers.entry("x-amzn-trace-id".to_owned()).or_insert_with(|| envelope.trace.to_owned());
    let source_ip = envelope.source_ip.to_string();
    headers
        .entry("x-forwarded-for".to_owned())
        .and_modify(|already| *already = format!("{already}, {source_ip}"))
        .or_insert(source_ip);
    headers.insert("x-forwarded-port".to_owned(), envelope.port.to_string());
    headers.insert("x-forwarded-proto".to_owned(), "http".to_owned());
    headers
}

pub(super) fn cookies(headers: &HeaderMap) -> Vec<String> {
    let values = headers.get_all(header::COOKIE).iter().map(|value| String::from_utf8_lossy(value.as_bytes()));
    let mut cookies = Vec::new();
    for value in values {
        cookies.extend(value.split(';').map(|cookie| cookie.trim().to_owned()).filter(|cookie| !cookie.is_empty()));
    }
    cookies
}

fn joined(pairs: Vec<(String, String)>) -> BTreeMap<String, String> {
    let mut joined: BTreeMap<String, String> = BTreeMap::new();
    for (name, value) in pairs {
        match joined.get_mut(&name) {
            Some(already) => {
                already.push(',');
                already.push_str(&value);
            }
            None => {
                joined.insert(name, value);
            }
        }
    }
    joined
}

fn body_of(headers: &HeaderMap, body: &Bytes) -> (Option<String>, bool) {
    if body.is_empty() {
        return (None, false);
    }
    match std::str::from_utf8(body) {
        Ok(text) if is_text(headers) => (Some(text.to_owned()), false),
        // Bytes that are not what their type says still arrive whole.
        _ => (Some(STANDARD.encode(body)), true),
    }
}

pub(super) fn is_text(headers: &HeaderMap) -> bool {
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    essence.starts_with("text/")
        || matches!(essence.as_str(), "application/json" | "application/xml" | "application/javascript")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(request: http::Request<&'static [u8]>) -> Value {
        event_with(request, &BTreeMap::new(), None)
    }

    fn event_with(
        request: http::Request<&'static [u8]>,
        path_parameters: &BTreeMap<String, String>,
        authorizer: Option<Verified>,
    ) -> Value {
        let (parts, body) = request.into_parts();
        let envelope = Envelope {
            account: "000000000000",
            api_id: "shopapi",
            stage: "$default",
            route_key: "POST /buy",
            path_parameters,
            authorizer,
            source_ip: "127.0.0.1".parse().unwrap(),
            port: 3000,
            request_id: "JKJaXmPLvHcESHA=",
            trace: "Root=1-5e5ffb9e-000000000000000000000000",
            now_ms: 1_583_348_638_390,
        };
        make(&parts, &Bytes::from_static(body), &envelope)
    }

    #[test]
    fn a_whole_event() {
        let request = http::Request::post("/buy?a=1&b=x%20y&a=2")
            .header("Host", "shop.localhost:3000")
            .header("Content-Type", "application/json; charset=utf-8")
            .header("User-Agent", "curl/8")
            .header("X-Thing", "one")
            .header("X-Thing", "two")
            .header("Cookie", "c1=v1; c2=v2")
            .header("Connection", "keep-alive")
            .body(b"{\"quantity\":1}".as_slice())
            .unwrap();
        let claims = Verified { claims: [("sub".to_owned(), "b1".to_owned())].into(), scopes: None };
        let parameters = BTreeMap::from([("saleId".to_owned(), "s1".to_owned())]);
        let expected = json!({
            "version": "2.0",
            "routeKey": "POST /buy",
            "rawPath": "/buy",
            "rawQueryString": "a=1&b=x%20y&a=2",
            "cookies": ["c1=v1", "c2=v2"],
            "headers": {
                "content-length": "14",
                "content-type": "application/json; charset=utf-8",
                "host": "shop.localhost:3000",
                "user-agent": "curl/8",
                "x-amzn-trace-id": "Root=1-5e5ffb9e-000000000000000000000000",
                "x-forwarded-for": "127.0.0.1",
                "x-forwarded-port": "3000",
                "x-forwarded-proto": "http",
                "x-thing": "one,two",
            },
            "queryStringParameters": {"a": "1,2", "b": "x y"},
            "requestContext": {
                "accountId": "000000000000",
                "apiId": "shopapi",
                "authorizer": {"jwt": {"claims": {"sub": "b1"}, "scopes": null}},
                "domainName": "shop.localhost:3000",
                "domainPrefix": "shop",
                "http": {
                    "method": "POST",
                    "path": "/buy",
                    "protocol": "HTTP/1.1",
                    "sourceIp": "127.0.0.1",
                    "userAgent": "curl/8",
                },
                "requestId": "JKJaXmPLvHcESHA=",
                "routeKey": "POST /buy",
                "stage": "$default",
                "time": "04/Mar/2020:19:03:58 +0000",
                "timeEpoch": 1_583_348_638_390_i64,
            },
            "pathParameters": {"saleId": "s1"},
            "body": "{\"quantity\":1}",
            "isBase64Encoded": false,
        });
        assert_eq!(event_with(request, &parameters, Some(claims)), expected);
    }

    #[test]
    fn what_is_absent_in_the_request_is_absent_in_the_event() {
        let event = event(http::Request::get("/sales").header("host", "x").body(b"".as_slice()).unwrap());
        for name in ["cookies", "queryStringParameters", "pathParameters", "stageVariables", "body"] {
            assert_eq!(event.get(name), None, "{name}");
        }
        assert_eq!(event["requestContext"].get("authorizer"), None);
        assert_eq!(event["headers"]["content-length"], "0");
        assert_eq!(event["isBase64Encoded"], false);
    }

    #[test]
    fn only_text_types_stay_text() {
        for (content_type, is_base64) in [
            (Some("text/plain"), false),
            (Some("TEXT/HTML; charset=utf-8"), false),
            (Some("application/json"), false),
            (Some("application/xml"), false),
            (Some("application/javascript"), false),
            (Some("application/x-www-form-urlencoded"), true),
            (Some("application/problem+json"), true),
            (Some("application/octet-stream"), true),
            (None, true),
        ] {
            let mut request = http::Request::post("/");
            if let Some(content_type) = content_type {
                request = request.header("content-type", content_type);
            }
            let event = event(request.body(b"a=1".as_slice()).unwrap());
            assert_eq!(event["isBase64Encoded"], is_base64, "{content_type:?}");
            assert_eq!(event["body"], if is_base64 { "YT0x" } else { "a=1" }, "{content_type:?}");
        }
    }

    #[test]
    fn bytes_that_are_not_utf_8_arrive_whole() {
        let request = http::Request::post("/").header("content-type", "text/plain");
        let event = event(request.body(b"\xff\x00".as_slice()).unwrap());
        assert_eq!((event["body"].as_str(), &event["isBase64Encoded"]), (Some("/wA="), &json!(true)));
    }

    #[test]
    fn the_path_is_decoded_and_ends_at_a_decoded_question_mark() {
        let request = http::Request::get("/orders/a%20b%3Fc?q=%20").body(b"".as_slice()).unwrap();
        let event = event(request);
        assert_eq!(event["rawPath"], "/orders/a b");
        assert_eq!(event["requestContext"]["http"]["path"], "/orders/a b");
        assert_eq!(event["rawQueryString"], "q=%20");
    }

    #[test]
    fn forwarded_headers_and_a_trace_that_came_along_are_kept() {
        let request = http::Request::get("/")
            .header("x-forwarded-for", "10.0.0.1")
            .header("x-amzn-trace-id", "Root=1-aaaaaaaa-bbbbbbbbbbbbbbbbbbbbbbbb");
        let event = event(request.body(b"".as_slice()).unwrap());
        assert_eq!(event["headers"]["x-forwarded-for"], "10.0.0.1, 127.0.0.1");
        assert_eq!(event["headers"]["x-amzn-trace-id"], "Root=1-aaaaaaaa-bbbbbbbbbbbbbbbbbbbbbbbb");
    }
}
