//! `POST /payments/{provider}/notify`: a payment provider reports a payment or a refund.
//!
//! A notice is trusted only after its signature was verified over the exact bytes that arrived. A notice that is
//! forged, altered, stale or about another amount changes nothing, and is logged and counted. The provider gets
//! the answer "success" only when everything that follows from its notice is done or recorded. Otherwise it is
//! asked to send the notice again; every step is idempotent.

mod act;
mod forward;

use std::sync::Arc;
use std::time::Instant;

use domain::Timestamp;
use edge::{Body, Code, Problem, Request, Response, body, request};
use flows::FlowError;
use lambda_http::http::{HeaderName, HeaderValue, Method, StatusCode};
use payments::{Headers, HttpAnswer, MAX_NOTICE, Notice, NoticeError, Provider, ProviderKind};
use providers::Trouble;
use telemetry::{Metric, Metrics};

pub use runtime::App;

/// What the provider is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NoticeAnswer {
    /// Everything is done: it need not send the notice again.
    Success,
    /// The notice is genuine but matches nothing here, which is logged; it is counted as this kind.
    Refused(&'static str),
    /// It could not be handled now: send it again.
    TryAgain,
}

/// Answers a provider's notice.
pub async fn handle(app: &App, request: Request) -> Response<Body> {
    let began = Instant::now();
    let now = (app.clock)();
    let trace = request::trace(&request);
    let mut metrics = Metrics::at(now);
    let answered = answer(app, &request, now, trace.as_deref(), &mut metrics).await;
    let response = match answered {
        Ok(Answered { answer, genuine }) => {
            if genuine {
                metrics.time(Metric::PaymentTime, began.elapsed());
            }
            respond(answer)
        }
        Err(problem) => problem.respond(trace.as_deref()),
    };
    metrics.flush(&app.metrics);
    response
}

struct Answered {
    answer: HttpAnswer,
    /// Whether the notice was verified. The duration of a forged one says nothing about payments.
    genuine: bool,
}

async fn answer(
    app: &App,
    request: &Request,
    now: Timestamp,
    trace: Option<&str>,
    metrics: &mut Metrics,
) -> Result<Answered, Problem> {
    let kind = provider_named(request)?;
    let raw = body::raw(request, MAX_NOTICE).inspect_err(|_| {
        tracing::warn!(provider = %kind, kind = "TOO_LARGE", trace, "a notice was refused");
        metrics.count_of(Metric::NoticesRefused, "TOO_LARGE");
    })?;
    let provider = app.providers.get(kind, now).await.map_err(|trouble| unreachable(kind, trouble))?;
    let (provider, notice) = read(app, provider, &headers(request), raw, now).await;
    match notice {
        Ok(notice) => {
            let taken = act::act(app, &notice, raw, now, trace, metrics).await;
            let answer = match taken {
                NoticeAnswer::Success => provider.success_answer(),
                NoticeAnswer::Refused(why) => {
                    metrics.count_of(Metric::NoticesRefused, why);
                    provider.failure_answer(&NoticeError::NotUs("what it is about"))
                }
                NoticeAnswer::TryAgain => provider.try_again_answer(),
            };
            Ok(Answered { answer, genuine: true })
        }
        Err(error) => {
            refused(kind, &error, trace, metrics);
            Ok(Answered { answer: provider.failure_answer(&error), genuine: false })
        }
    }
}

fn provider_named(request: &Request) -> Result<ProviderKind, Problem> {
    match (request.method(), request::route(request).1.as_slice()) {
        (&Method::POST, ["payments", provider, "notify"]) => ProviderKind::parse(provider).ok_or_else(|| {
            let known = ProviderKind::ALL.map(ProviderKind::as_str).join(", ");
            Problem::new(Code::NotFound, format!("there is no such payment provider here: use one of {known}"))
        }),
        _ => Err(Problem::not_found()),
    }
}

/// A provider that is not configured sends no notices: the sender gets 404. If the settings cannot be read now,
/// the provider is asked to send the notice again.
fn unreachable(kind: ProviderKind, trouble: Trouble) -> Problem {
    match trouble {
        Trouble::NotConfigured(_) => {
            let detail = format!("{kind} is not configured here: put its settings into the payment secret first");
            Problem::new(Code::NotFound, detail)
        }
        trouble => FlowError::Provider { method: kind.method(), trouble }.into(),
    }
}

/// Reads and verifies a notice. One with an unknown key or a wrong signature may be the first after the provider
/// changed its key: the settings are read again, at most once a minute, and the notice is verified a second time.
async fn read(
    app: &App,
    provider: Arc<Provider>,
    headers: &Headers,
    raw: &[u8],
    now: Timestamp,
) -> (Arc<Provider>, Result<Notice, NoticeError>) {
    let first = provider.notice(headers, raw, now);
    if !matches!(first, Err(NoticeError::UnknownKey(_) | NoticeError::BadSignature)) || !app.providers.renew(now).await
    {
        return (provider, first);
    }
    match app.providers.get(provider.kind(), now).await {
        Ok(renewed) => {
            let second = renewed.notice(headers, raw, now);
            (renewed, second)
        }
        Err(_) => (provider, first),
    }
}

/// Logs and counts a refused notice, once. The body is not logged: its content is chosen by the sender.
fn refused(kind: ProviderKind, error: &NoticeError, trace: Option<&str>, metrics: &mut Metrics) {
    let Some(why) = refusal(error) else {
        tracing::info!(provider = %kind, %error, trace, "a notice about nothing here");
        return;
    };
    tracing::warn!(provider = %kind, kind = why, %error, trace, "a notice was refused");
    metrics.count_of(Metric::NoticesRefused, why);
}

/// The kind that a refusal is counted as. `None`: the notice is genuine, about something else, and answered with
/// success.
fn refusal(error: &NoticeError) -> Option<&'static str> {
    Some(match error {
        NoticeError::TooLarge => "TOO_LARGE",
        NoticeError::Malformed(_) => "MALFORMED",
        NoticeError::Stale(_) => "STALE",
        NoticeError::UnknownKey(_) => "UNKNOWN_KEY",
        NoticeError::Probe => "PROBE",
        NoticeError::BadSignature => "BAD_SIGNATURE",
        NoticeError::NotUs(_) => "NOT_US",
        NoticeError::NotOurs(_) => return None,
    })
}

/// The headers of a request. One that is not text is left out: no provider signs such a header.
fn headers(request: &Request) -> Headers {
    let text = |(name, value): (&HeaderName, &HeaderValue)| Some((name.to_string(), value.to_str().ok()?.to_owned()));
    request.headers().iter().filter_map(text).collect()
}

/// The provider's own answer, unchanged.
fn respond(answer: HttpAnswer) -> Response<Body> {
    let body = match String::from_utf8(answer.body) {
        Ok(text) if text.is_empty() => Body::Empty,
        Ok(text) => Body::Text(text),
        Err(error) => Body::Binary(error.into_bytes()),
    };
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    for (name, value) in answer.headers.iter() {
        if let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), HeaderValue::from_str(value)) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}

#[cfg(test)]
mod tests;
