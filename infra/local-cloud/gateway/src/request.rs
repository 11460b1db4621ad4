//! The request that `lambda_http` would make from an event, made without the event: for functions that run in this
//! process. A test holds both ways together.

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use lambda_http::aws_lambda_events::apigw::{
    ApiGatewayRequestAuthorizer, ApiGatewayRequestAuthorizerJwtDescription, ApiGatewayV2httpRequestContext,
};
use lambda_http::aws_lambda_events::query_map::QueryMap;
use lambda_http::request::RequestContext;
use lambda_http::{Body, Request, RequestExt as _};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use super::event::{Envelope, HOP_BY_HOP, cookies, decoded_path, host, is_text, protocol, text};
use super::jwt::Verified;
use super::text::request_time;

const TRACE: HeaderName = HeaderName::from_static("x-amzn-trace-id");
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_PORT: HeaderName = HeaderName::from_static("x-forwarded-port");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// What a path cannot have as it is, by the URL standard.
const NOT_IN_A_PATH: &AsciiSet =
    &CONTROLS.add(b' ').add(b'"').add(b'#').add(b'<').add(b'>').add(b'?').add(b'`').add(b'{').add(b'}').add(b'^');

/// Makes the request. An error is a path or a host that no address can have.
pub(super) fn make(request: &Parts, body: &Bytes, envelope: Envelope<'_>) -> Result<Request, http::Error> {
    let raw_path = decoded_path(request.uri.path());
    let host = host(request);
    let query = request.uri.query().unwrap_or_default();
    let path = utf8_percent_encode(&raw_path, NOT_IN_A_PATH).to_string();
    let stage = Some(envelope.stage).filter(|stage| *stage != "$default").map(|stage| format!("/{stage}"));
    let stage = stage.filter(|stage| !path.starts_with(stage.as_str())).unwrap_or_default();
    let question_mark = if query.is_empty() { "" } else { "?" };
    let uri = format!("http://{host}{stage}{path}{question_mark}{query}");
    let made =
        http::Request::builder().method(request.method.clone()).uri(uri).body(body_of(&request.headers, body))?;
    let parameters = envelope.path_parameters.iter().map(|(name, value)| (name.clone(), vec![value.clone()]));
    let parameters: std::collections::HashMap<String, Vec<String>> = parameters.collect();
    let headers = headers(request, body.len(), &host, &envelope);
    let mut made = made
        .with_query_string_parameters(query.parse::<QueryMap>().unwrap_or_default())
        .with_path_parameters(parameters)
        .with_stage_variables(QueryMap::default())
        .with_request_context(RequestContext::ApiGatewayV2(context(request, &raw_path, host, envelope)))
        .with_raw_http_path(raw_path);
    *made.headers_mut() = headers;
    Ok(made)
}

fn context(request: &Parts, path: &str, domain: String, envelope: Envelope<'_>) -> ApiGatewayV2httpRequestContext {
    // The types are open to more fields, so they cannot be written as literals.
    let mut context = ApiGatewayV2httpRequestContext::default();
    context.route_key = Some(envelope.route_key.to_owned());
    context.account_id = Some(envelope.account.to_owned());
    context.stage = Some(envelope.stage.to_owned());
    context.request_id = Some(envelope.request_id.to_owned());
    context.authorizer = envelope.authorizer.map(authorizer);
    context.apiid = Some(envelope.api_id.to_owned());
    context.domain_prefix = Some(domain.split('.').next().unwrap_or_default().to_owned());
    context.domain_name = Some(domain);
    context.time = Some(request_time(envelope.now_ms));
    context.time_epoch = envelope.now_ms;
    context.http.method = request.method.clone();
    context.http.path = Some(path.to_owned());
    context.http.protocol = Some(protocol(request.version).to_owned());
    context.http.source_ip = Some(envelope.source_ip.to_string());
    context.http.user_agent = Some(text(&request.headers, header::USER_AGENT.as_str()));
    context
}

fn authorizer(verified: Verified) -> ApiGatewayRequestAuthorizer {
    let mut jwt = ApiGatewayRequestAuthorizerJwtDescription::default();
    jwt.claims = verified.claims;
    jwt.scopes = verified.scopes;
    let mut authorizer = ApiGatewayRequestAuthorizer::default();
    authorizer.jwt = Some(jwt);
    authorizer
}

fn headers(request: &Parts, body_bytes: usize, host: &str, envelope: &Envelope<'_>) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(request.headers.keys_len() + 6);
    for name in request.headers.keys().filter(|name| !HOP_BY_HOP.contains(&name.as_str())) {
        let mut values = request.headers.get_all(name).iter();
        match (values.next(), values.next()) {
            (Some(only), None) if only.to_str().is_ok() => _ = headers.insert(name, only.clone()),
            _ => set(&mut headers, name.clone(), &text(&request.headers, name.as_str())),
        }
    }
    let cookies = cookies(&request.headers);
    if !cookies.is_empty() {
        set(&mut headers, header::COOKIE, &cookies.join("; "));
    }
    if !headers.contains_key(header::HOST) {
        set(&mut headers, header::HOST, host);
    }
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(body_bytes));
    if !headers.contains_key(TRACE) {
        set(&mut headers, TRACE, envelope.trace);
    }
    let source_ip = envelope.source_ip.to_string();
    match text(&headers, FORWARDED_FOR.as_str()) {
        already if already.is_empty() => set(&mut headers, FORWARDED_FOR, &source_ip),
        already => set(&mut headers, FORWARDED_FOR, &format!("{already}, {source_ip}")),
    }
    headers.insert(FORWARDED_PORT, HeaderValue::from(envelope.port));
    headers.insert(FORWARDED_PROTO, HeaderValue::from_static("http"));
    headers
}

/// Text with characters that no header can have is left out, as reading an event leaves it out.
fn set(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

fn body_of(headers: &HeaderMap, body: &Bytes) -> Body {
    if body.is_empty() {
        return Body::Empty;
    }
    match std::str::from_utf8(body) {
        Ok(text) if is_text(headers) => Body::Text(text.to_owned()),
        _ => Body::Binary(body.to_vec()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::event;

    fn envelope<'a>(parameters: &'a BTreeMap<String, String>, authorizer: Option<Verified>) -> Envelope<'a> {
        Envelope {
            account: "000000000000",
            api_id: "shopapi",
            stage: "$default",
            route_key: "POST /buy/{item}",
            path_parameters: parameters,
            authorizer,
            source_ip: "127.0.0.1".parse().unwrap(),
            port: 3000,
            request_id: "JKJaXmPLvHcESHA=",
            trace: "Root=1-5e5ffb9e-000000000000000000000000",
            now_ms: 1_583_348_638_390,
        }
    }

    fn token(scopes: Option<&[&str]>) -> Verified {
        Verified {
            claims: [("sub".to_owned(), "b1".to_owned()), ("scope".to_owned(), "a b".to_owned())].into(),
            scopes: scopes.map(|scopes| scopes.iter().map(|scope| (*scope).to_owned()).collect()),
        }
    }

    #[test]
    fn a_function_sees_the_same_request_as_through_an_event() {
        let plain = || http::Request::post("/buy/x").header("host", "shop.localhost:3000");
        let json = || plain().header("content-type", "application/json");
        let cases: Vec<(&str, http::request::Builder, &'static [u8], Option<Verified>)> = vec![
            ("a press", json().header("authorization", "Bearer t"), b"{\"quantity\":1}", Some(token(None))),
            ("scopes", json(), b"{}", Some(token(Some(&["a", "b"])))),
            ("no body", http::Request::get("/buy/x").header("host", "h"), b"", None),
            ("a form", plain().header("content-type", "application/x-www-form-urlencoded"), b"a=1&b=%20", None),
            ("bytes", plain().header("content-type", "text/plain"), b"\xff\x00", None),
            ("a query", http::Request::get("/buy/x?a=1&b=x%20y&a=2&c").header("host", "h"), b"", None),
            ("an encoded path", http::Request::get("/buy/a%20b%3Fc?q=%20").header("host", "h"), b"", None),
            ("Chinese in a path", http::Request::get("/buy/%E7%A7%92").header("host", "h"), b"", None),
            ("cookies", json().header("cookie", "a=1; b=2").header("cookie", "c=3"), b"{}", None),
            ("a header twice", json().header("x-thing", "one").header("X-Thing", "two"), b"{}", None),
            ("hop by hop", json().header("connection", "keep-alive").header("te", "trailers"), b"{}", None),
            (
                "forwarded",
                json().header("x-forwarded-for", "10.0.0.1").header("x-amzn-trace-id", "Root=1-a-b"),
                b"",
                None,
            ),
            ("a user agent", json().header("user-agent", "curl/8"), b"{}", None),
            ("no host", http::Request::get("/buy/x"), b"", None),
        ];
        for (name, builder, body, authorizer) in cases {
            let (parts, body) = builder.body(body).unwrap().into_parts();
            let body = Bytes::from_static(body);
            let parameters = BTreeMap::from([("item".to_owned(), "x y".to_owned())]);
            let event = event::make(&parts, &body, &envelope(&parameters, authorizer.clone())).to_string();
            let expected = lambda_http::request::from_str(&event).unwrap();
            let made = make(&parts, &body, envelope(&parameters, authorizer)).unwrap();
            assert_eq!(made.method(), expected.method(), "{name}");
            assert_eq!(made.uri(), expected.uri(), "{name}");
            assert_eq!(made.headers(), expected.headers(), "{name}");
            assert_eq!(made.body(), expected.body(), "{name}");
            assert_eq!(made.raw_http_path(), expected.raw_http_path(), "{name}");
            assert_eq!(made.query_string_parameters(), expected.query_string_parameters(), "{name}");
            assert_eq!(made.path_parameters(), expected.path_parameters(), "{name}");
            assert_eq!(made.stage_variables(), expected.stage_variables(), "{name}");
            let context = |request: &Request| match request.request_context() {
                RequestContext::ApiGatewayV2(context) => context,
                other => panic!("{name}: {other:?}"),
            };
            assert_eq!(context(&made), context(&expected), "{name}");
        }
    }
}
