//! The providers' endpoints: a call comes in over HTTP, is verified, decided and answered.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, header};
use payments::sandbox::{Asked, Reply};
use payments::{Headers, HttpAnswer, HttpCall, Method, Nonce, ProviderKind, Way};
use rusqlite::Transaction;
use serde_json::json;

use super::answers::Decision;
use super::create::{self, Wanted};
use super::moods::Mood;
use super::{Now, PATH, Sandbox, SandboxError, Side, numbers, refund, rows};

/// The provider and the operation of a request to the sandbox: `Create`, `Query`, `Close`, `Refund`, `QueryRefund`,
/// or `Unknown`. `None` if it is for no provider.
pub fn operation_of(method: &http::Method, uri: &http::Uri) -> Option<(ProviderKind, &'static str)> {
    let rest = uri.path().strip_prefix(PATH)?.strip_prefix('/')?;
    let (provider, path) = rest.split_once('/')?;
    let kind = ProviderKind::parse(provider)?;
    let get = method == http::Method::GET;
    let operation = match kind {
        ProviderKind::Alipay => {
            let asked = uri.query().into_iter().flat_map(|query| query.split('&'));
            match asked.filter_map(|pair| pair.strip_prefix("method=")).next() {
                Some("alipay.trade.page.pay" | "alipay.trade.precreate") => "Create",
                Some("alipay.trade.query") => "Query",
                Some("alipay.trade.close") => "Close",
                Some("alipay.trade.refund") => "Refund",
                Some("alipay.trade.fastpay.refund.query") => "QueryRefund",
                _ => "Unknown",
            }
        }
        ProviderKind::WechatV3 if path.ends_with("/close") => "Close",
        ProviderKind::WechatV3 if path.starts_with("v3/pay/transactions/out-trade-no/") => "Query",
        ProviderKind::WechatV3 if path.starts_with("v3/pay/transactions/") => "Create",
        ProviderKind::WechatV3 if path.starts_with("v3/refund/") => {
            if get {
                "QueryRefund"
            } else {
                "Refund"
            }
        }
        ProviderKind::WechatV2 => match path.rsplit('/').next() {
            Some("unifiedorder") => "Create",
            Some("orderquery") => "Query",
            Some("closeorder") => "Close",
            Some("refund") => "Refund",
            Some("refundquery") => "QueryRefund",
            _ => "Unknown",
        },
        ProviderKind::Stripe if path.ends_with("/expire") => "Close",
        ProviderKind::Stripe if path.starts_with("v1/checkout/sessions") => {
            if get {
                "Query"
            } else {
                "Create"
            }
        }
        ProviderKind::Stripe if path.starts_with("v1/payment_intents/") => "Query",
        ProviderKind::Stripe if path.starts_with("v1/refunds") => {
            if get {
                "QueryRefund"
            } else {
                "Refund"
            }
        }
        ProviderKind::WechatV3 | ProviderKind::Stripe => "Unknown",
    };
    Some((kind, operation))
}

/// A call after its signature was verified.
struct Verified {
    kind: ProviderKind,
    asked: Asked,
    base_url: String,
    /// Stripe's idempotency key with what identifies the request.
    once: Option<(String, String)>,
    mood: Mood,
}

impl Sandbox {
    /// Answers a call to a provider. In a mood of [`Mood::Slow`] it never returns.
    pub async fn call(&self, kind: ProviderKind, request: Request<Bytes>) -> Response<Bytes> {
        let is_refund = matches!(operation_of(request.method(), request.uri()), Some((_, "Refund")));
        let mood = self.moods.next(kind, is_refund);
        match mood {
            Mood::Well
            | Mood::WrongSignature
            | Mood::Failing
            | Mood::RefundsFail
            | Mood::RefundsPend
            | Mood::RefundsStick
            | Mood::RefundsRefused => {}
            Mood::Down => return plain(StatusCode::SERVICE_UNAVAILABLE, "the provider is down"),
            Mood::Slow => return std::future::pending().await,
            Mood::Rubbish => return plain(StatusCode::OK, "<html><body>welcome to the hotel's wireless</body></html>"),
        }
        let answer = self.answer(kind, &request, mood).await;
        let answer = answer.unwrap_or_else(|error| {
            tracing::error!(%error, provider = %kind, "the sandbox failed");
            HttpAnswer::new(500, "text/plain", error.to_string())
        });
        let answer = if mood == Mood::WrongSignature { spoilt(kind, answer) } else { answer };
        respond(answer)
    }

    async fn answer(
        &self,
        kind: ProviderKind,
        request: &Request<Bytes>,
        mood: Mood,
    ) -> Result<HttpAnswer, SandboxError> {
        let Some(call) = read(request) else {
            return Ok(HttpAnswer::new(405, "text/plain", "the providers take GET and POST"));
        };
        let (side, now) = (self.side().await?, self.now());
        let asked = match side.protocols.read(kind, &call, now.at) {
            Ok(asked) => asked,
            Err(refused) => return Ok(refused),
        };
        let key = call.headers.one("Idempotency-Key").filter(|_| kind == ProviderKind::Stripe);
        let once = key.map(|key| (key.to_owned(), numbers::fingerprint(call.path_and_query(), &call.body)));
        let verified = Verified { kind, asked, base_url: base_url(request), once, mood };
        let nonce = Nonce::new(random_bytes());
        let answered = self.database.transaction(move |db| {
            create::expire(db, &side, now)?;
            once_only(db, &side, verified, now, &nonce)
        });
        let answer = answered.await?;
        self.changed();
        Ok(answer)
    }
}

/// Answers as before what was asked before under the same key.
fn once_only(
    db: &Transaction<'_>,
    side: &Arc<Side>,
    call: Verified,
    now: Now,
    nonce: &Nonce,
) -> Result<HttpAnswer, SandboxError> {
    let Some((key, request)) = call.once.clone() else { return decide(db, side, call, now, nonce) };
    if let Some((known, answer)) = rows::kept_answer(db, &key, now)? {
        if known != request {
            let message = format!("Keys for idempotent requests can only be used with the same parameters: {key}");
            let error = json!({"error": {"type": "idempotency_error", "message": message}});
            return Ok(HttpAnswer::new(400, "application/json", error.to_string()));
        }
        let mut answer = answer;
        answer.headers.push("Idempotent-Replayed", "true");
        return Ok(answer);
    }
    let answer = decide(db, side, call, now, nonce)?;
    // Stripe keeps the answer of every request that it has begun, whether it was a success or an error.
    rows::keep_answer(db, &key, &request, &answer, now)?;
    Ok(answer)
}

fn decide(
    db: &Transaction<'_>,
    side: &Arc<Side>,
    call: Verified,
    now: Now,
    nonce: &Nonce,
) -> Result<HttpAnswer, SandboxError> {
    let Verified { kind, asked, base_url, mood, .. } = call;
    if mood == Mood::Failing {
        return Ok(side.protocols.answer(kind, &asked, Reply::Trouble, now.at, nonce));
    }
    let decision = match &asked {
        Asked::Create { payment, way, expires_at } => {
            let expires_ms = expires_at.map(|at| at.as_millisecond());
            create::create(db, kind, Wanted { payment: payment.clone(), way: *way, expires_ms, base_url }, now)?
        }
        Asked::Query(id) => create::query(db, kind, id)?,
        Asked::Close(id) => create::close(db, side, kind, id, now)?,
        Asked::Refund(wanted) => refund::refund(db, side, kind, wanted.clone(), mood, now)?,
        Asked::QueryRefund(id) => refund::query(db, kind, id)?,
    };
    // A page's link is opened by the buyer's browser, which is sent on to the page itself.
    if let (ProviderKind::Alipay, Asked::Create { way: Way::Page, .. }, Decision::Created(_, link)) =
        (kind, &asked, &decision)
    {
        let headers: Headers = [("Location", link.as_str())].into();
        return Ok(HttpAnswer { status: 302, headers, body: Vec::new() });
    }
    Ok(decision.answer(side, kind, &asked, now, nonce))
}

/// The request as the protocols read it; none if its method is not one of theirs.
fn read(request: &Request<Bytes>) -> Option<HttpCall> {
    let method = match *request.method() {
        http::Method::GET => Method::Get,
        http::Method::POST => Method::Post,
        _ => return None,
    };
    let path = request.uri().path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
    let headers = request.headers().iter();
    Some(HttpCall {
        method,
        url: format!("{}{path}", origin(request)),
        headers: headers.filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?))).collect(),
        body: request.body().to_vec(),
        client_certificate: false,
    })
}

/// `http://host`, as the caller addressed the sandbox.
fn origin(request: &Request<Bytes>) -> String {
    let host = request.uri().authority().map(http::uri::Authority::as_str);
    let host = host.or_else(|| request.headers().get(header::HOST).and_then(|host| host.to_str().ok()));
    format!("{}://{}", request.uri().scheme_str().unwrap_or("http"), host.unwrap_or("localhost"))
}

fn base_url(request: &Request<Bytes>) -> String {
    format!("{}{PATH}", origin(request))
}

fn respond(answer: HttpAnswer) -> Response<Bytes> {
    let pairs = answer.headers.iter().filter_map(|(name, value)| {
        Some((HeaderName::from_bytes(name.as_bytes()).ok()?, HeaderValue::from_str(value).ok()?))
    });
    let headers: HeaderMap = pairs.collect();
    let mut response = Response::new(Bytes::from(answer.body));
    *response.status_mut() = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    *response.headers_mut() = headers;
    response
}

fn plain(status: StatusCode, text: &'static str) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from_static(text.as_bytes()));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html"));
    response
}

/// The answer with a signature that is wrong in one place.
fn spoilt(kind: ProviderKind, mut answer: HttpAnswer) -> HttpAnswer {
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    match kind {
        ProviderKind::WechatV3 => {
            let swap = |(name, value): (&str, &str)| {
                let value = if name == "Wechatpay-Signature" { other_start(value) } else { value.to_owned() };
                (name.to_owned(), value)
            };
            answer.headers = answer.headers.iter().map(swap).collect();
        }
        ProviderKind::Alipay => answer.body = other_start_after(&text, "\"sign\":\"").into_bytes(),
        ProviderKind::WechatV2 => answer.body = other_start_after(&text, "<sign>").into_bytes(),
        ProviderKind::Stripe => answer.body = b"{".to_vec(),
    }
    answer
}

fn other_start_after(text: &str, mark: &str) -> String {
    match text.split_once(mark) {
        Some((before, after)) => format!("{before}{mark}{}", other_start(after)),
        None => text.to_owned(),
    }
}

fn other_start(text: &str) -> String {
    let mut letters = text.chars();
    let first = if letters.next() == Some('A') { 'B' } else { 'A' };
    std::iter::once(first).chain(letters).collect()
}

/// For the nonces of answers, which decide nothing.
fn random_bytes() -> [u8; 16] {
    let mut bytes = [0; 16];
    // Without the operating system's generator nothing here could run; zeros are at least well-formed.
    let _ = getrandom::fill(&mut bytes);
    bytes
}
