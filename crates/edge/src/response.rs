//! Answers that are no problem.

use lambda_http::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use lambda_http::http::{HeaderValue, StatusCode};
use lambda_http::{Body, Response};
use serde::Serialize;

/// Who may keep an answer, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Nobody: it is one buyer's, or changes at any moment.
    Never,
    /// Anybody, for a second: the same for all, and read by all.
    OneSecond,
}

/// JSON that nobody keeps.
pub fn json(status: StatusCode, value: &impl Serialize) -> Response<Body> {
    kept_json(status, Keep::Never, value)
}

/// JSON.
pub fn kept_json(status: StatusCode, keep: Keep, value: &impl Serialize) -> Response<Body> {
    let Ok(text) = serde_json::to_string(value) else {
        // Our own answers are all writable; should one not be, it is our fault and not the client's.
        tracing::error!("an answer could not be written as JSON");
        return crate::Problem::new(crate::Code::Unavailable, "the answer could not be written").respond(None);
    };
    let mut response = Response::new(Body::Text(text));
    *response.status_mut() = status;
    let keep = match keep {
        Keep::Never => "no-store",
        Keep::OneSecond => "public, max-age=1",
    };
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static(keep));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_say_what_they_are_and_who_may_keep_them() {
        let mine = json(StatusCode::ACCEPTED, &serde_json::json!({"orderId": "1"}));
        assert_eq!(mine.status(), 202);
        assert_eq!(mine.headers()["content-type"], "application/json");
        assert_eq!(mine.headers()["cache-control"], "no-store");
        assert_eq!(mine.body(), &Body::from(r#"{"orderId":"1"}"#));
        let everybodys = kept_json(StatusCode::OK, Keep::OneSecond, &1);
        assert_eq!(everybodys.headers()["cache-control"], "public, max-age=1");
    }
}
