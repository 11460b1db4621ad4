//! What a function's answer of payload format 2.0 means as an HTTP response, and the gateway's own answers.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Response, StatusCode, header};
use serde_json::{Map, Value, json};

/// An answer that is no HTTP response: the client gets a 500, the reason goes to the log.
#[derive(Debug, PartialEq, thiserror::Error)]
pub(super) enum Malformed {
    #[error("it is not JSON")]
    NotJson,
    #[error("statusCode is not a number from 100 to 599: {0}")]
    Status(Value),
    #[error("{0} must be an object of header names and values")]
    Headers(&'static str),
    #[error("the header {0} cannot be sent")]
    Header(String),
    #[error("cookies must be a list of strings")]
    Cookies,
    #[error("body must be a string")]
    Body,
    #[error("isBase64Encoded is true, but the body is not base64")]
    Base64,
}

/// Reads an answer. JSON without a `statusCode` is a 200 with that JSON as its body.
pub(super) fn read(answer: &[u8]) -> Result<Response<Bytes>, Malformed> {
    let value: Value = serde_json::from_slice(answer).map_err(|_| Malformed::NotJson)?;
    match &value {
        Value::Object(fields) if fields.contains_key("statusCode") => structured(fields),
        Value::String(text) => Ok(inferred(Bytes::from(text.clone()))),
        _ => Ok(inferred(Bytes::copy_from_slice(answer))),
    }
}

fn inferred(body: Bytes) -> Response<Bytes> {
    let mut response = Response::new(body);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn structured(fields: &Map<String, Value>) -> Result<Response<Bytes>, Malformed> {
    let mut response = Response::new(body(fields)?);
    *response.status_mut() = status(fields.get("statusCode").unwrap_or(&Value::Null))?;
    for (name, value) in object(fields, "headers")? {
        let value = scalar(value).ok_or(Malformed::Headers("headers"))?;
        let (name, value) = pair(name, &value)?;
        response.headers_mut().insert(name, value);
    }
    for (name, values) in object(fields, "multiValueHeaders")? {
        let values = values.as_array().ok_or(Malformed::Headers("multiValueHeaders"))?;
        for (nth, value) in values.iter().enumerate() {
            let value = scalar(value).ok_or(Malformed::Headers("multiValueHeaders"))?;
            let (name, value) = pair(name, &value)?;
            // All values of a name are here, so the first one replaces what `headers` had of it.
            if nth == 0 {
                response.headers_mut().insert(name, value);
            } else {
                response.headers_mut().append(name, value);
            }
        }
    }
    for cookie in cookies(fields)? {
        let value = HeaderValue::from_str(&cookie).map_err(|_| Malformed::Header("set-cookie".to_owned()))?;
        response.headers_mut().append(header::SET_COOKIE, value);
    }
    Ok(tidy(response))
}

/// A function's answer as a value, with the limits that an answer as JSON has.
pub(super) fn finish(response: Response<lambda_http::Body>) -> Result<Response<Bytes>, Malformed> {
    if response.status().is_informational() {
        return Err(Malformed::Status(json!(response.status().as_u16())));
    }
    let response = response.map(|body| match body {
        lambda_http::Body::Text(text) => Bytes::from(text),
        lambda_http::Body::Binary(bytes) => Bytes::from(bytes),
        _ => Bytes::new(),
    });
    Ok(tidy(response))
}

fn tidy(mut response: Response<Bytes>) -> Response<Bytes> {
    // The server counts the bytes itself; a wrong count would break the connection.
    response.headers_mut().remove(header::CONTENT_LENGTH);
    response.headers_mut().remove(header::TRANSFER_ENCODING);
    response.headers_mut().remove(header::CONNECTION);
    let text = HeaderValue::from_static("text/plain;charset=UTF-8");
    if !response.body().is_empty() {
        response.headers_mut().entry(header::CONTENT_TYPE).or_insert(text);
    }
    response
}

fn status(value: &Value) -> Result<StatusCode, Malformed> {
    let number = match value {
        Value::Number(number) => number.as_u64(),
        Value::String(text) => text.parse().ok(),
        _ => None,
    };
    let status = number.filter(|number| (100..600).contains(number)).and_then(|number| u16::try_from(number).ok());
    // 1xx cannot be the end of an exchange; 101 would hand the connection over.
    match status.and_then(|number| StatusCode::from_u16(number).ok()) {
        Some(status) if !status.is_informational() => Ok(status),
        _ => Err(Malformed::Status(value.clone())),
    }
}

fn object<'a>(
    fields: &'a Map<String, Value>,
    name: &'static str,
) -> Result<impl Iterator<Item = (&'a String, &'a Value)>, Malformed> {
    match fields.get(name) {
        None | Some(Value::Null) => Ok(None.into_iter().flatten()),
        Some(Value::Object(entries)) => Ok(Some(entries.iter()).into_iter().flatten()),
        Some(_) => Err(Malformed::Headers(name)),
    }
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        _ => None,
    }
}

fn pair(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), Malformed> {
    let bad = |_| Malformed::Header(name.to_owned());
    let value = HeaderValue::from_str(value).map_err(|_| Malformed::Header(name.to_owned()))?;
    Ok((HeaderName::from_bytes(name.as_bytes()).map_err(bad)?, value))
}

fn cookies(fields: &Map<String, Value>) -> Result<Vec<String>, Malformed> {
    match fields.get("cookies") {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(cookies)) => {
            cookies.iter().map(|cookie| cookie.as_str().map(str::to_owned).ok_or(Malformed::Cookies)).collect()
        }
        Some(_) => Err(Malformed::Cookies),
    }
}

fn body(fields: &Map<String, Value>) -> Result<Bytes, Malformed> {
    let text = match fields.get("body") {
        None | Some(Value::Null) => return Ok(Bytes::new()),
        Some(Value::String(text)) => text,
        Some(_) => return Err(Malformed::Body),
    };
    if fields.get("isBase64Encoded").and_then(Value::as_bool).unwrap_or(false) {
        STANDARD.decode(text).map(Bytes::from).map_err(|_| Malformed::Base64)
    } else {
        Ok(Bytes::from(text.clone()))
    }
}

/// An answer of the gateway itself: `{"message": "Not Found"}`.
pub(super) fn message(status: StatusCode, text: &str) -> Response<Bytes> {
    json(status, &json!({ "message": text }))
}

/// A JSON answer of the gateway itself.
pub(super) fn json(status: StatusCode, value: &Value) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from(value.to_string()));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good(answer: &Value) -> Response<Bytes> {
        read(answer.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn a_structured_answer_is_the_response() {
        let response = good(&json!({
            "statusCode": 201,
            "headers": {"Content-Type": "application/json", "x-count": 3, "content-length": "999"},
            "multiValueHeaders": {"x-many": ["a", "b"], "content-type": ["application/json"]},
            "cookies": ["a=1; HttpOnly", "b=2"],
            "body": "{}",
        }));
        assert_eq!(response.status(), 201);
        assert_eq!(response.headers()["content-type"], "application/json");
        assert_eq!(response.headers()["x-count"], "3");
        assert_eq!(response.headers().get("content-length"), None);
        let all = |name: &str| response.headers().get_all(name).iter().cloned().collect::<Vec<_>>();
        assert_eq!(all("x-many"), ["a", "b"]);
        assert_eq!(all("content-type").len(), 1);
        assert_eq!(all("set-cookie"), ["a=1; HttpOnly", "b=2"]);
        assert_eq!(response.body(), "{}");
    }

    #[test]
    fn base64_is_decoded_and_text_is_the_default_type() {
        let response = good(&json!({"statusCode": "200", "body": "aGk=", "isBase64Encoded": true}));
        assert_eq!((response.status(), response.body().as_ref()), (StatusCode::OK, b"hi".as_slice()));
        assert_eq!(response.headers()["content-type"], "text/plain;charset=UTF-8");
        assert_eq!(good(&json!({"statusCode": 204})).headers().get("content-type"), None);
    }

    #[test]
    fn json_without_a_status_is_the_body() {
        for (answer, body) in [
            (json!({"message": "hi"}), r#"{"message":"hi"}"#),
            (json!("Hello from Lambda!"), "Hello from Lambda!"),
            (json!([1]), "[1]"),
        ] {
            let response = good(&answer);
            assert_eq!(response.status(), 200);
            assert_eq!(response.headers()["content-type"], "application/json");
            assert_eq!(response.body(), body);
        }
    }

    #[test]
    fn malformed_answers_say_what_is_wrong() {
        assert_eq!(read(b"oops").unwrap_err(), Malformed::NotJson);
        for (answer, expected) in [
            (json!({"statusCode": "abc"}), Malformed::Status(json!("abc"))),
            (json!({"statusCode": 700}), Malformed::Status(json!(700))),
            (json!({"statusCode": 101}), Malformed::Status(json!(101))),
            (json!({"statusCode": null}), Malformed::Status(Value::Null)),
            (json!({"statusCode": 200, "headers": ["a"]}), Malformed::Headers("headers")),
            (json!({"statusCode": 200, "headers": {"a": {}}}), Malformed::Headers("headers")),
            (json!({"statusCode": 200, "headers": {"a b": "c"}}), Malformed::Header("a b".to_owned())),
            (json!({"statusCode": 200, "headers": {"a": "b\nc"}}), Malformed::Header("a".to_owned())),
            (json!({"statusCode": 200, "cookies": "a=1"}), Malformed::Cookies),
            (json!({"statusCode": 200, "body": {"a": 1}}), Malformed::Body),
            (json!({"statusCode": 200, "body": "%", "isBase64Encoded": true}), Malformed::Base64),
        ] {
            assert_eq!(read(answer.to_string().as_bytes()).unwrap_err(), expected);
        }
    }
}
