//! The Lambda Runtime API, as a bootstrap sees it: ask for work, answer it, or report an error.
//!
//! Every environment has a port of its own, because a runtime takes nothing but `host:port` for an address; so a
//! connection says by itself which environment it belongs to.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use tokio::net::TcpStream;

use super::pool::{Delivery, Next};
use super::runner::Runner;
use super::{LARGEST_PAYLOAD_BYTES, ids};
use crate::invoke::{FunctionError, Outcome};

const PREFIX: &str = "/2018-06-01/runtime/";

/// Serves one connection of an environment until either side closes it.
pub(super) async fn serve(stream: TcpStream, runner: Arc<Runner>, environment: u64) {
    // An answer is small, and its caller waits for it.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request| {
        let runner = Arc::clone(&runner);
        async move { Ok::<_, Infallible>(answer(&runner, environment, request).await) }
    });
    // A broken connection needs no word: the environment asks again on a new one, or its process has ended.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

async fn answer(runner: &Runner, environment: u64, request: Request<Incoming>) -> Response<Full<Bytes>> {
    let path = request.uri().path().strip_prefix(PREFIX).unwrap_or_default().to_owned();
    if path == "invocation/next" && request.method() == Method::GET {
        return next(runner, environment).await;
    }
    if request.method() == Method::POST {
        if path == "init/error" {
            return init_error(runner, environment, request).await;
        }
        match path.strip_prefix("invocation/").and_then(|rest| rest.split_once('/')) {
            Some((request_id, "response")) => {
                return response(runner, environment, request_id, request).await;
            }
            Some((request_id, "error")) => {
                return error(runner, environment, request_id, request).await;
            }
            _ => {}
        }
    }
    problem(StatusCode::NOT_FOUND, "InvalidPath", "the Runtime API has no such resource")
}

async fn next(runner: &Runner, environment: u64) -> Response<Full<Bytes>> {
    let (next, unanswered) = runner.pool().next(environment, Instant::now());
    if let Some(current) = unanswered {
        let message = format!("RequestId: {} Error: asked for the next event without answering", current.request_id);
        runner.complete(current, Outcome::Failed(FunctionError { error_type: "Runtime.Unknown".into(), message }));
    }
    let delivery = match next {
        Next::Run(delivery) => Some(delivery),
        Next::Park(receiver) => receiver.await.ok(),
        Next::Gone => None,
    };
    match delivery {
        Some(delivery) => deliver(runner, delivery),
        None => problem(StatusCode::GONE, "Gone", "this environment is being stopped"),
    }
}

fn deliver(runner: &Runner, delivery: Delivery) -> Response<Full<Bytes>> {
    let Delivery { request_id, payload } = delivery;
    runner.log.write(&format!("START RequestId: {request_id} Version: $LATEST"));
    let now_ms = runner.clock.now_ms();
    let timeout_ms = i64::try_from(runner.function.timeout.as_millis()).unwrap_or(i64::MAX);
    let mut response = Response::new(Full::new(payload));
    let headers = response.headers_mut();
    headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert("lambda-runtime-deadline-ms", HeaderValue::from(now_ms.saturating_add(timeout_ms)));
    for (name, value) in [
        ("lambda-runtime-aws-request-id", HeaderValue::from_str(&request_id)),
        ("lambda-runtime-invoked-function-arn", HeaderValue::from_str(&runner.function.arn)),
        ("lambda-runtime-trace-id", HeaderValue::from_str(&ids::trace_id(now_ms))),
    ] {
        // Ids and ARNs are plain ASCII; one that is not could not have been deployed.
        if let Ok(value) = value {
            headers.insert(name, value);
        }
    }
    response
}

async fn response(
    runner: &Runner,
    environment: u64,
    request_id: &str,
    request: Request<Incoming>,
) -> Response<Full<Bytes>> {
    let streaming =
        request.headers().get("lambda-runtime-function-response-mode").is_some_and(|mode| mode == "streaming");
    let outcome = match Limited::new(request.into_body(), LARGEST_PAYLOAD_BYTES).collect().await {
        _ if streaming => Outcome::Failed(FunctionError {
            error_type: "Runtime.InvalidResponseMode".into(),
            message: "the local cloud takes buffered responses only: the function answered with a stream".into(),
        }),
        Ok(body) => Outcome::Answered(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Outcome::Failed(FunctionError {
            error_type: "Function.ResponseSizeTooLarge".into(),
            message: format!(
                "Response payload size exceeded maximum allowed payload size ({LARGEST_PAYLOAD_BYTES} bytes)."
            ),
        }),
        // The process broke off in the middle: its end says why.
        Err(_) => {
            return problem(StatusCode::BAD_REQUEST, "InvalidBody", "the response's body broke off");
        }
    };
    let too_large = matches!(&outcome, Outcome::Failed(error) if error.error_type == "Function.ResponseSizeTooLarge");
    // The pool is let go before the log's write: a guard in the match would be held across it.
    let current = runner.pool().finish(environment, request_id);
    match current {
        Some(current) => runner.complete(current, outcome),
        None => return unknown_request(request_id),
    }
    if too_large {
        return problem(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", "the response is over 6 MB");
    }
    accepted()
}

async fn error(
    runner: &Runner,
    environment: u64,
    request_id: &str,
    request: Request<Incoming>,
) -> Response<Full<Bytes>> {
    let error = reported(request).await;
    // A bound guard would be held across the log's write; take the invocation out first.
    let current = runner.pool().finish(environment, request_id);
    match current {
        Some(current) => runner.complete(current, Outcome::Failed(error)),
        None => return unknown_request(request_id),
    }
    accepted()
}

async fn init_error(runner: &Runner, environment: u64, request: Request<Incoming>) -> Response<Full<Bytes>> {
    let error = reported(request).await;
    runner.pool().init_error(environment, error);
    accepted()
}

/// The error in a request: its body's, or as much as its header says.
async fn reported(request: Request<Incoming>) -> FunctionError {
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct Body {
        error_type: Option<String>,
        error_message: Option<String>,
    }
    let header = request.headers().get("lambda-runtime-function-error-type").and_then(|value| value.to_str().ok());
    let error_type = header.unwrap_or("Runtime.Unknown").to_owned();
    let body = match Limited::new(request.into_body(), LARGEST_PAYLOAD_BYTES).collect().await {
        Ok(body) => serde_json::from_slice::<Body>(&body.to_bytes()).unwrap_or_default(),
        Err(_) => Body::default(),
    };
    FunctionError {
        error_type: body.error_type.unwrap_or(error_type),
        message: body.error_message.unwrap_or_else(|| "the function gave no message".into()),
    }
}

fn accepted() -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from_static(br#"{"status":"OK"}"#)));
    *response.status_mut() = StatusCode::ACCEPTED;
    response
}

fn unknown_request(request_id: &str) -> Response<Full<Bytes>> {
    let message = format!("{request_id} is not the invocation of this environment, or it has timed out");
    problem(StatusCode::BAD_REQUEST, "InvalidRequestID", &message)
}

fn problem(status: StatusCode, error_type: &str, message: &str) -> Response<Full<Bytes>> {
    let body = serde_json::json!({ "errorType": error_type, "errorMessage": message });
    let mut response = Response::new(Full::new(Bytes::from(body.to_string())));
    *response.status_mut() = status;
    response
}
