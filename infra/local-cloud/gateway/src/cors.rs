//! CORS as an HTTP API does it: preflights are answered here, and what a function says about CORS is replaced by
//! what the template says.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, header};

use crate::template::model::Cors;

/// Whether this is a preflight: only then are an origin and the method to come both named.
pub(super) fn is_preflight(method: &Method, headers: &HeaderMap) -> bool {
    *method == Method::OPTIONS
        && headers.contains_key(header::ORIGIN)
        && headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

/// The answer to a preflight. An origin that is not allowed gets no headers, which is how a browser learns it.
pub(super) fn preflight(cors: &Cors, request: &HeaderMap) -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    *response.status_mut() = StatusCode::NO_CONTENT;
    if apply(cors, request, response.headers_mut()) {
        let headers = response.headers_mut();
        set_list(headers, header::ACCESS_CONTROL_ALLOW_METHODS, &cors.methods);
        set_list(headers, header::ACCESS_CONTROL_ALLOW_HEADERS, &cors.headers);
        if let Some(max_age) = cors.max_age {
            headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from(max_age.as_secs()));
        }
    }
    response
}

/// Sets the CORS headers of an answer; returns whether the request's origin is allowed.
pub(super) fn apply(cors: &Cors, request: &HeaderMap, answer: &mut HeaderMap) -> bool {
    let told: Vec<HeaderName> =
        answer.keys().filter(|name| name.as_str().starts_with("access-control-")).cloned().collect();
    for name in told {
        answer.remove(name);
    }
    let Some(origin) = request.get(header::ORIGIN) else { return false };
    let Some(allowed) = allowed_origin(cors, origin) else { return false };
    answer.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, allowed);
    answer.append(header::VARY, HeaderValue::from_static("Origin"));
    if cors.credentials {
        answer.insert(header::ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
    }
    set_list(answer, header::ACCESS_CONTROL_EXPOSE_HEADERS, &cors.expose_headers);
    true
}

/// `*`, an origin, or a scheme with `*` (`https://*`).
fn allowed_origin(cors: &Cors, origin: &HeaderValue) -> Option<HeaderValue> {
    let name = origin.to_str().ok()?;
    let matches = |pattern: &String| match pattern.strip_suffix("://*") {
        Some(scheme) => name.split_once("://").is_some_and(|(of_origin, _)| of_origin == scheme),
        None => pattern.eq_ignore_ascii_case(name),
    };
    if cors.origins.iter().any(|pattern| pattern == "*") {
        Some(HeaderValue::from_static("*"))
    } else {
        cors.origins.iter().any(matches).then(|| origin.clone())
    }
}

fn set_list(headers: &mut HeaderMap, name: HeaderName, values: &[String]) {
    // A value that is no header text can only be a mistake in the template: the browser refuses then, as it should.
    if let (false, Ok(value)) = (values.is_empty(), HeaderValue::from_str(&values.join(","))) {
        headers.insert(name, value);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn list(values: &[&str]) -> Vec<String> {
        values.iter().map(|value| (*value).to_owned()).collect()
    }

    fn cors(origins: &[&str]) -> Cors {
        Cors {
            origins: list(origins),
            methods: list(&["GET", "POST"]),
            headers: list(&["authorization", "content-type"]),
            expose_headers: list(&["retry-after"]),
            credentials: true,
            max_age: Some(Duration::from_secs(300)),
        }
    }

    fn from(origin: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(header::ORIGIN, HeaderValue::from_static(origin))])
    }

    #[test]
    fn a_preflight_says_what_the_template_says() {
        let response = preflight(&cors(&["https://shop.example"]), &from("https://shop.example"));
        assert_eq!(response.status(), 204);
        let headers = response.headers();
        assert_eq!(headers["access-control-allow-origin"], "https://shop.example");
        assert_eq!(headers["access-control-allow-methods"], "GET,POST");
        assert_eq!(headers["access-control-allow-headers"], "authorization,content-type");
        assert_eq!(headers["access-control-expose-headers"], "retry-after");
        assert_eq!(headers["access-control-allow-credentials"], "true");
        assert_eq!(headers["access-control-max-age"], "300");
    }

    #[test]
    fn origins_match_whole_or_by_scheme() {
        for (allowed, origin, expected) in [
            (&["*"][..], "http://a.example", Some("*")),
            (&["https://*"], "https://a.example", Some("https://a.example")),
            (&["https://*"], "http://a.example", None),
            (&["http://b.example", "http://a.example"], "http://a.example", Some("http://a.example")),
            (&["http://a.example"], "http://a.example.evil", None),
            (&[], "http://a.example", None),
        ] {
            let response = preflight(&cors(allowed), &from(origin));
            let got = response.headers().get("access-control-allow-origin").map(|value| value.to_str().unwrap());
            assert_eq!(got, expected, "{allowed:?} {origin}");
            assert_eq!(response.headers().contains_key("access-control-allow-methods"), expected.is_some());
        }
    }

    #[test]
    fn what_a_function_says_about_cors_is_replaced() {
        let mut answer = HeaderMap::new();
        answer.insert("access-control-allow-origin", HeaderValue::from_static("*"));
        answer.insert("access-control-allow-methods", HeaderValue::from_static("DELETE"));
        assert!(!apply(&cors(&["https://shop.example"]), &from("https://evil.example"), &mut answer));
        assert!(answer.is_empty(), "{answer:?}");
    }

    #[test]
    fn only_a_request_that_names_origin_and_method_is_a_preflight() {
        let mut headers = from("https://shop.example");
        assert!(!is_preflight(&Method::OPTIONS, &headers));
        headers.insert("access-control-request-method", HeaderValue::from_static("POST"));
        assert!(is_preflight(&Method::OPTIONS, &headers));
        assert!(!is_preflight(&Method::POST, &headers));
    }
}
