//! A request's way through the HTTP API: preflight, route, throttle, token, body, function, answer.
//!
//! The refusals are the ones HTTP APIs give: 404 for any route that is not there (a wrong method included), 429, 401
//! with a challenge, 403 for a missing scope, 413, 500 for a function that failed or answered nonsense, and 503 for
//! one that is throttled or takes longer than 30 seconds.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http::request::Parts;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::BodyExt as _;

use super::event::Envelope;
use super::issuer::Issuer;
use super::routes::{Matched, Routes};
use super::text::Ids;
use super::throttle::Throttles;
use super::{answer, cors, event, jwt, request};
use crate::clock::Clock;
use crate::invoke::{Invoker, Outcome, Requests};
use crate::template::model::HttpApi;

/// The largest body an HTTP API takes (a quota of the service).
const MAX_BODY_BYTES: usize = 10 * 1024 * 1024;
/// The largest event Lambda takes (a quota of the service); a body above it is too large as well.
const MAX_EVENT_BYTES: usize = 6 * 1024 * 1024;
/// A body that is too large is read on and thrown away up to this, so that its sender gets to read the answer.
const MAX_DRAINED_BYTES: usize = 64 * 1024 * 1024;
/// The longest an HTTP API waits for a function (a quota of the service).
const INTEGRATION_TIMEOUT: Duration = Duration::from_secs(30);
/// The longest it waits for a request's body.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// The HTTP API of a stack, ready to answer.
pub(super) struct HttpGateway {
    pub(super) api: HttpApi,
    pub(super) api_id: String,
    pub(super) account: String,
    pub(super) routes: Routes,
    pub(super) throttles: Throttles,
    pub(super) issuer: Arc<Issuer>,
    pub(super) invoker: Invoker,
    pub(super) requests: Option<Arc<dyn Requests>>,
    pub(super) clock: Clock,
    pub(super) ids: Arc<Ids>,
    pub(super) port: u16,
}

impl HttpGateway {
    /// The route for a request, if there is one.
    pub(super) fn route(&self, request: &Parts) -> Option<Matched<'_>> {
        self.routes.find(request.method.as_str(), self.path_in_stage(request.uri.path()))
    }

    /// A stage other than `$default` is the path's first part in AWS; here it may be left out.
    fn path_in_stage<'a>(&self, path: &'a str) -> &'a str {
        if self.api.stage == "$default" {
            return path;
        }
        match path.strip_prefix('/').and_then(|rest| rest.strip_prefix(self.api.stage.as_str())) {
            Some("") => "/",
            Some(rest) if rest.starts_with('/') => rest,
            _ => path,
        }
    }

    /// Answers a request.
    pub(super) async fn answer(&self, request: Parts, body: Body, peer: SocketAddr) -> Response<Bytes> {
        let request_id = self.ids.next();
        let mut response = match &self.api.cors {
            Some(cors) if cors::is_preflight(&request.method, &request.headers) => {
                cors::preflight(cors, &request.headers)
            }
            configured => {
                let run = self.run(&request, body, peer, &request_id).await;
                let mut response = run.unwrap_or_else(|refused| refused.response());
                if let Some(cors) = configured {
                    cors::apply(cors, &request.headers, response.headers_mut());
                }
                response
            }
        };
        if let Ok(request_id) = HeaderValue::from_str(&request_id) {
            response.headers_mut().insert("apigw-requestid", request_id);
        }
        response
    }

    async fn run(
        &self,
        request: &Parts,
        body: Body,
        peer: SocketAddr,
        request_id: &str,
    ) -> Result<Response<Bytes>, Refused> {
        let matched = self.route(request).ok_or(Refused::NoRoute)?;
        let route_key = matched.route.key();
        if !self.throttles.admit(&route_key, self.clock.now_ms()) {
            return Err(Refused::Throttled);
        }
        let authorizer = self.authorize(&matched, request)?;
        let body = self.read(request, body).await?;
        let now_ms = self.clock.now_ms();
        let envelope = Envelope {
            account: &self.account,
            api_id: &self.api_id,
            stage: &self.api.stage,
            route_key: &route_key,
            path_parameters: &matched.parameters,
            authorizer,
            source_ip: peer.ip(),
            port: self.port,
            request_id,
            trace: &self.ids.trace(now_ms),
            now_ms,
        };
        let function = &matched.route.function;
        if let Some(requests) = self.requests.as_ref().filter(|requests| requests.takes(function)) {
            // An event would be longer than its body.
            if body.len() > MAX_EVENT_BYTES {
                return Err(Refused::TooLarge);
            }
            let request = request::make(request, &body, envelope).map_err(|_| Refused::BrokenBody)?;
            let answered = in_time(function, &self.clock, requests.answer(function, request)).await?;
            return answered
                .map_err(|outcome| failure(function, outcome))
                .and_then(|response| answer::finish(response).map_err(|malformed| nonsense(function, &malformed)));
        }
        let event = event::make(request, &body, &envelope).to_string();
        if event.len() > MAX_EVENT_BYTES {
            return Err(Refused::TooLarge);
        }
        match in_time(function, &self.clock, (self.invoker)(function.clone(), Bytes::from(event))).await? {
            Outcome::Answered(bytes) => answer::read(&bytes).map_err(|malformed| nonsense(function, &malformed)),
            outcome => Err(failure(function, outcome)),
        }
    }

    fn authorize(&self, matched: &Matched<'_>, request: &Parts) -> Result<Option<jwt::Verified>, Refused> {
        let Some(name) = &matched.route.authorizer else { return Ok(None) };
        let Some(authorizer) = self.api.authorizers.get(name) else {
            tracing::error!(authorizer = name.as_str(), "a route names an authorizer that the template does not have");
            return Err(Refused::FunctionFailed);
        };
        jwt::authorize(&self.issuer, authorizer, &matched.route.scopes, &request.headers, self.clock.now_ms())
            .map(Some)
            .map_err(Refused::Token)
    }

    async fn read(&self, request: &Parts, body: Body) -> Result<Bytes, Refused> {
        let declared =
            request.headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        let read = tokio::select! {
            read = read_body(body, declared.unwrap_or(0)) => read,
            () = self.clock.sleep(BODY_TIMEOUT) => return Err(Refused::SlowBody),
        };
        read.map_err(|_| Refused::BrokenBody)?.ok_or(Refused::TooLarge)
    }
}

async fn in_time<T>(function: &str, clock: &Clock, answer: impl Future<Output = T>) -> Result<T, Refused> {
    tokio::select! {
        answer = answer => Ok(answer),
        () = clock.sleep(INTEGRATION_TIMEOUT) => {
            tracing::warn!(function, "no answer within 30 s");
            Err(Refused::FunctionUnavailable)
        }
    }
}

fn failure(function: &str, outcome: Outcome) -> Refused {
    match outcome {
        Outcome::Throttled => Refused::FunctionUnavailable,
        Outcome::Failed(error) => {
            let (kind, message) = (error.error_type.as_str(), error.message.as_str());
            tracing::warn!(function, kind, message, "the function failed");
            Refused::FunctionFailed
        }
        Outcome::Answered(_) => Refused::FunctionFailed,
    }
}

fn nonsense(function: &str, malformed: &answer::Malformed) -> Refused {
    tracing::warn!(function, %malformed, "the answer is not of payload format 2.0");
    Refused::FunctionFailed
}

/// Why the gateway itself answers.
#[derive(Debug)]
enum Refused {
    NoRoute,
    Throttled,
    Token(jwt::Refusal),
    SlowBody,
    BrokenBody,
    TooLarge,
    FunctionFailed,
    FunctionUnavailable,
}

impl Refused {
    /// The answer, in API Gateway's words.
    fn response(&self) -> Response<Bytes> {
        let (status, text) = match self {
            Self::NoRoute => (StatusCode::NOT_FOUND, "Not Found"),
            Self::Throttled => (StatusCode::TOO_MANY_REQUESTS, "Too Many Requests"),
            Self::Token(jwt::Refusal::Scope(_)) => (StatusCode::FORBIDDEN, "Forbidden"),
            Self::Token(_) => (StatusCode::UNAUTHORIZED, "Unauthorized"),
            Self::SlowBody => (StatusCode::REQUEST_TIMEOUT, "Request Timeout"),
            Self::BrokenBody => (StatusCode::BAD_REQUEST, "Bad Request"),
            Self::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "Request Entity Too Large"),
            Self::FunctionFailed => (StatusCode::INTERNAL_SERVER_ERROR, "Internal Server Error"),
            Self::FunctionUnavailable => (StatusCode::SERVICE_UNAVAILABLE, "Service Unavailable"),
        };
        let mut response = answer::message(status, text);
        if let Self::Token(refusal) = self {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, refusal.challenge());
        }
        response
    }
}

/// The body, or `None` if it is too large.
async fn read_body(mut body: Body, declared_bytes: usize) -> Result<Option<Bytes>, axum::Error> {
    if declared_bytes > MAX_DRAINED_BYTES {
        return Ok(None);
    }
    let (mut kept, mut seen_bytes) = (BytesMut::new(), 0_usize);
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else { continue };
        seen_bytes = seen_bytes.saturating_add(data.len());
        if seen_bytes <= MAX_BODY_BYTES {
            kept.extend_from_slice(&data);
        } else if seen_bytes > MAX_DRAINED_BYTES {
            break;
        }
    }
    Ok((seen_bytes <= MAX_BODY_BYTES).then(|| kept.freeze()))
}
