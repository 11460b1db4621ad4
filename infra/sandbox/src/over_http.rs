//! The sandbox over HTTP, below `/_sandbox`: the providers' endpoints, the buyer's page, and what drives it from
//! tests.

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use payments::ProviderKind;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Action, Mood, PATH, Sandbox, SandboxError, operation_of, page};

const KNOWN: &str = "there are GET /_sandbox/payments, GET and POST /_sandbox/payments/{id}, GET /_sandbox/money, \
                     POST /_sandbox/moods/{provider}, and the endpoints of alipay, wechat, wechat-v2 and stripe";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ActionBody {
    action: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MoodBody {
    mood: String,
    calls: Option<u32>,
}

impl Sandbox {
    /// Answers any request below `/_sandbox`.
    pub(crate) async fn serve(&self, request: Request<Bytes>) -> Response<Bytes> {
        if let Some((kind, _)) = operation_of(request.method(), request.uri()) {
            return self.call(kind, request).await;
        }
        let path = request.uri().path().strip_prefix(PATH).unwrap_or_default().trim_matches('/').to_owned();
        let parts: Vec<&str> = path.split('/').collect();
        let get = request.method() == Method::GET;
        let post = request.method() == Method::POST;
        let answered = match parts.as_slice() {
            [""] if get => self.payments().await.map(|all| html(StatusCode::OK, page::overview(&all))),
            ["payments"] if get => self.payments().await.map(|all| json_of(&json!({ "payments": all }))),
            ["money"] if get => self.money().await.map(|all| json_of(&json!({ "money": all }))),
            ["payments", id] if get => return self.show(id, &request).await,
            ["payments", id] if post => return self.drive(id, &request).await,
            ["moods", provider] if post => self.feel(provider, request.body()),
            _ => {
                let message = json!({ "message": format!("Not Found: {KNOWN}") });
                return with_status(StatusCode::NOT_FOUND, json_of(&message));
            }
        };
        answered.unwrap_or_else(|error| refused(&error))
    }

    /// The buyer's page. A client that wants JSON gets the payment, and does not count as the buyer opening it.
    async fn show(&self, id: &str, request: &Request<Bytes>) -> Response<Bytes> {
        if wants_json(request) {
            return self.payment(id).await.map_or_else(|error| refused(&error), |view| json_of(&json!(view)));
        }
        match self.look(id, true).await {
            Ok(view) => html(StatusCode::OK, page::payment(&view)),
            Err(error) => html(error.status(), page::problem(&error.to_string())),
        }
    }

    /// JSON in, JSON out; a form's button leads back to the page.
    async fn drive(&self, id: &str, request: &Request<Bytes>) -> Response<Bytes> {
        let body = request.body();
        let content_type = request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let form = std::str::from_utf8(body).ok().and_then(|text| text.strip_prefix("action="));
        let is_form = content_type.is_some_and(|value| value.starts_with("application/x-www-form-urlencoded"));
        if let (Some(name), true) = (form, is_form) {
            let acted = match action(name) {
                Ok(action) => self.act(None, id, action).await,
                Err(error) => Err(error),
            };
            return match acted {
                Ok(view) => see_other(&format!("{PATH}/payments/{}", view.id)),
                Err(error) => html(error.status(), page::problem(&error.to_string())),
            };
        }
        let read = serde_json::from_slice::<ActionBody>(body)
            .map_err(|error| SandboxError::Invalid(format!(r#"send {{"action": "pay"}}: {error}"#)));
        let acted = match read.and_then(|body| action(&body.action)) {
            Ok(action) => self.act(None, id, action).await,
            Err(error) => Err(error),
        };
        acted.map_or_else(|error| refused(&error), |view| json_of(&json!(view)))
    }

    fn feel(&self, provider: &str, body: &[u8]) -> Result<Response<Bytes>, SandboxError> {
        let invalid = |text: String| SandboxError::Invalid(text);
        let kind = ProviderKind::parse(provider)
            .ok_or_else(|| invalid(format!("{provider} is no provider: say alipay, wechat, wechat-v2 or stripe")))?;
        let body: MoodBody = serde_json::from_slice(body)
            .map_err(|error| invalid(format!(r#"send {{"mood": "down", "calls": 3}}: {error}"#)))?;
        let mood =
            Mood::parse(&body.mood).ok_or_else(|| invalid(format!("{} is no mood: say {}", body.mood, Mood::NAMES)))?;
        self.set_mood(kind, mood, body.calls);
        Ok(json_of(&json!({ "provider": kind.as_str(), "mood": body.mood, "calls": body.calls })))
    }
}

fn action(name: &str) -> Result<Action, SandboxError> {
    Action::parse(name).ok_or_else(|| {
        let known = Action::ALL.map(Action::as_str).join(", ");
        SandboxError::Invalid(format!("{name} is no action: say one of {known}"))
    })
}

fn wants_json(request: &Request<Bytes>) -> bool {
    let accept = request.headers().get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    accept.contains("application/json") && !accept.contains("text/html")
}

fn refused(error: &SandboxError) -> Response<Bytes> {
    with_status(error.status(), json_of(&json!({ "message": error.to_string() })))
}

fn with_status(status: StatusCode, mut response: Response<Bytes>) -> Response<Bytes> {
    *response.status_mut() = status;
    response
}

fn json_of(value: &Value) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from(value.to_string()));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn html(status: StatusCode, text: String) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from(text));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // The page has no script, and must not be framed.
    let policy = "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'";
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
    with_status(status, response)
}

fn see_other(path: &str) -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    *response.status_mut() = StatusCode::SEE_OTHER;
    if let Ok(path) = HeaderValue::from_str(path) {
        response.headers_mut().insert(header::LOCATION, path);
    }
    response
}
