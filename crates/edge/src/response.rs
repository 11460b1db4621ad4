//! Successful answers as JSON.

use lambda_http::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use lambda_http::http::{HeaderValue, StatusCode};
use lambda_http::{Body, Response};
use serde::Serialize;

/// How long an answer may be cached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheFor {
    /// Not at all: the answer is for one buyer, or may change at any moment.
    Never,
    /// By anybody, for one second: the answer is the same for everybody.
    OneSecond,
}

/// JSON that must not be cached.
pub fn json(status: StatusCode, value: &impl Serialize) -> Response<Body> {
    cached_json(status, CacheFor::Never, value)
}

pub fn cached_json(status: StatusCode, cache_for: CacheFor, value: &impl Serialize) -> Response<Body> {
    let Ok(text) = serde_json::to_string(value) else {
        // No answer type can fail to serialize. If one does, it is a server error and not the client's mistake.
        tracing::error!("an answer could not be serialized as JSON");
        return crate::Problem::new(crate::Code::Unavailable, "the answer could not be serialized").respond(None);
    };
    let mut response = Response::new(Body::Text(text));
    *response.status_mut() = status;
    let cache_control = match cache_for {
        CacheFor::Never => "no-store",
        CacheFor::OneSecond => "public, max-age=1",
    };
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static(cache_control));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_carry_their_content_type_and_cache_control() {
        let mine = json(StatusCode::ACCEPTED, &serde_json::json!({"orderId": "1"}));
        assert_eq!(mine.status(), 202);
        assert_eq!(mine.headers()["content-type"], "application/json");
        assert_eq!(mine.headers()["cache-control"], "no-store");
        assert_eq!(mine.body(), &Body::from(r#"{"orderId":"1"}"#));
        let public = cached_json(StatusCode::OK, CacheFor::OneSecond, &1);
        assert_eq!(public.headers()["cache-control"], "public, max-age=1");
    }
}
