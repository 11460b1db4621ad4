//! What the gateway serves beside the API: the issuer's documents, `/_local` for tests and people, and the web pages.

use std::net::SocketAddr;
use std::path::{Component, Path, PathBuf};

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderValue, Method, Response, StatusCode, header};
use serde::Deserialize;
use serde_json::{Value, json};

use super::issuer::TokenRequest;
use super::{Inner, answer, event, issuer};
use crate::invoke::{FunctionError, Outcome};
use crate::template::model::JwtAuthorizer;

/// How long a token is good unless its request says otherwise.
const TOKEN_SECONDS: i64 = 12 * 60 * 60;
/// The longest that may be asked for: 30 days, enough for any trial.
const MAX_TOKEN_SECONDS: i64 = 30 * 24 * 60 * 60;
/// Runs the function whose name follows.
const INVOKE: &str = "/_local/invoke/";
/// What a browser lets the pages do: nothing from elsewhere, and no script that is not a file of theirs.
const PAGES_MAY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src \
    'self'; \
                         base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/// Whether a request comes from this machine and addresses it by a name of its own. The second half stops a web page
/// elsewhere from reaching `/_local` through a name that it points here.
pub(super) fn is_local(request: &Parts, peer: SocketAddr) -> bool {
    let host = event::host(request);
    let name = host.rsplit_once(':').map_or(host.as_str(), |(name, port)| {
        if port.bytes().all(|byte| byte.is_ascii_digit()) { name } else { host.as_str() }
    });
    let is_own_name = name == "localhost"
        || name.ends_with(".localhost")
        || name.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback());
    peer.ip().is_loopback() && is_own_name
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct TokenBody {
    sub: String,
    #[serde(default)]
    scope: String,
    expires_in_seconds: Option<i64>,
    authorizer: Option<String>,
}

impl Inner {
    /// `/_local/…`.
    pub(super) async fn local(&self, request: &Parts, body: &Bytes) -> Response<Bytes> {
        match (request.method.as_str(), request.uri.path()) {
            ("GET", "/_local/health") => answer::json(StatusCode::OK, &json!({ "status": "ok" })),
            ("GET", "/_local/stack") => answer::json(StatusCode::OK, &self.describe().await),
            ("GET", "/_local/events") => answer::json(StatusCode::OK, &(self.events)().await),
            ("POST", "/_local/token") => match self.token(body) {
                Ok(token) => answer::json(StatusCode::OK, &json!({ "token": token })),
                Err(problem) => answer::message(StatusCode::BAD_REQUEST, &problem),
            },
            ("POST", path) if path.starts_with(INVOKE) => {
                self.invoke(path.strip_prefix(INVOKE).unwrap_or_default(), body).await
            }
            _ => answer::message(
                StatusCode::NOT_FOUND,
                "Not Found: there are GET /_local/health, GET /_local/stack, GET /_local/events, POST /_local/token \
                 and POST /_local/invoke/{function}",
            ),
        }
    }

    /// Runs a function on the body, or on an empty event, and answers with its answer: a scheduled function need not
    /// wait for its time.
    async fn invoke(&self, name: &str, body: &Bytes) -> Response<Bytes> {
        let Some(function) = self.stack.functions.iter().find(|function| function.is_called(name)) else {
            let known: Vec<&str> = self.stack.functions.iter().map(|function| function.binary.as_str()).collect();
            let message = format!("there is no function {name}: say one of {}", known.join(", "));
            return answer::message(StatusCode::NOT_FOUND, &message);
        };
        let event = if body.is_empty() { Bytes::from_static(b"{}") } else { body.clone() };
        match (self.invoker)(function.name.clone(), event).await {
            Outcome::Answered(payload) => {
                let mut response = Response::new(payload);
                let json = HeaderValue::from_static("application/json");
                response.headers_mut().insert(header::CONTENT_TYPE, json);
                response
            }
            Outcome::Failed(FunctionError { error_type, message }) => {
                let error = json!({ "errorType": error_type, "errorMessage": message });
                answer::json(StatusCode::BAD_GATEWAY, &error)
            }
            Outcome::Throttled => answer::message(
                StatusCode::TOO_MANY_REQUESTS,
                "every environment of the function is busy: try again in a moment",
            ),
        }
    }

    fn token(&self, body: &[u8]) -> Result<String, String> {
        let body: TokenBody = serde_json::from_slice(body)
            .map_err(|error| format!(r#"send {{"sub": "…", "scope": "…", "expiresInSeconds": …}}: {error}"#))?;
        if body.sub.is_empty() {
            return Err("sub must not be empty".to_owned());
        }
        let expires_in_seconds = body.expires_in_seconds.unwrap_or(TOKEN_SECONDS);
        // Below zero is allowed: a token that has expired is what a test of that needs.
        if !(-MAX_TOKEN_SECONDS..=MAX_TOKEN_SECONDS).contains(&expires_in_seconds) {
            return Err(format!("expiresInSeconds must be at most {MAX_TOKEN_SECONDS}"));
        }
        let authorizer = self.authorizer(body.authorizer.as_deref())?;
        let request = TokenRequest { subject: body.sub, scope: body.scope, expires_in_seconds };
        self.issuer.mint(authorizer, &request, self.clock.now_ms()).map_err(|error| error.to_string())
    }

    fn authorizer(&self, name: Option<&str>) -> Result<&JwtAuthorizer, String> {
        let authorizers = self.http.as_ref().map(|http| &http.api.authorizers);
        let found = match name {
            Some(name) => authorizers.and_then(|all| all.get(name)),
            None => authorizers.and_then(|all| all.values().next()),
        };
        found.ok_or_else(|| match name {
            Some(name) => format!("the template has no JWT authorizer {name}"),
            None => "the template has no JWT authorizer, so no token is needed".to_owned(),
        })
    }

    /// The issuer's documents, under the issuer's own path or at the root.
    pub(super) fn well_known(&self, request: &Parts) -> Option<Response<Bytes>> {
        if request.method != Method::GET {
            return None;
        }
        let (prefix, document) = request.uri.path().split_once("/.well-known/")?;
        let issuer = self
            .http
            .as_ref()?
            .api
            .authorizers
            .values()
            .map(|authorizer| authorizer.issuer.as_str())
            .find(|issuer| prefix.is_empty() || issuer.trim_end_matches('/').ends_with(prefix))?;
        match document {
            "openid-configuration" => {
                let jwks_uri = format!("http://{}{prefix}/.well-known/jwks.json", event::host(request));
                Some(answer::json(StatusCode::OK, &issuer::configuration(issuer, &jwks_uri)))
            }
            "jwks.json" => Some(answer::json(StatusCode::OK, &self.issuer.jwks())),
            _ => None,
        }
    }

    async fn describe(&self) -> Value {
        let functions: Vec<Value> = self
            .stack
            .functions
            .iter()
            .map(|function| {
                json!({
                    "name": function.name,
                    "binary": function.binary,
                    "environment": function.environment,
                    "accessKeyId": crate::iam::access_key_id(&function.name),
                    "timeoutSeconds": function.timeout.as_secs(),
                    "memoryMb": function.memory_mb,
                })
            })
            .collect();
        let routes: Vec<Value> = self
            .stack
            .http_api
            .iter()
            .flat_map(|api| &api.routes)
            .map(|route| {
                json!({
                    "route": route.key(),
                    "function": route.function,
                    "authorizer": route.authorizer,
                    "scopes": route.scopes,
                })
            })
            .collect();
        let web_socket = self.stack.websocket_api.as_ref().map(|api| json!({ "path": "/ws", "routes": api.routes }));
        json!({
            "functions": functions,
            "routes": routes,
            "webSocket": web_socket,
            "connections": self.connections.count(),
            "live": (self.live)().await,
        })
    }

    /// A page: a file of the web directory.
    pub(super) async fn page(&self, request: &Parts) -> Option<Response<Bytes>> {
        if request.method != Method::GET && request.method != Method::HEAD {
            return None;
        }
        let path = crate::template::percent_decode(request.uri.path());
        file(self.web.as_ref()?, &path).await
    }
}

/// `/console` is `console`, `console.html` or `console/index.html`, whichever is a file.
async fn file(web: &Path, path: &str) -> Option<Response<Bytes>> {
    let wanted = inside(web, path)?;
    // `/` is the directory itself: a page of its name would be beside it.
    let page = (wanted != web).then(|| wanted.with_extension("html"));
    let candidates = [Some(wanted.clone()), page, Some(wanted.join("index.html"))];
    for candidate in candidates.into_iter().flatten() {
        if tokio::fs::metadata(&candidate).await.is_ok_and(|metadata| metadata.is_file()) {
            let bytes = tokio::fs::read(&candidate).await.ok()?;
            let mut response = Response::new(Bytes::from(bytes));
            let headers = response.headers_mut();
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type(&candidate)));
            // Pages change while one works on them.
            headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
            // As CloudFront sends them, for pages that are served from where the API is.
            headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(PAGES_MAY));
            headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
            headers.insert(header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
            headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("same-origin"));
            return Some(response);
        }
    }
    None
}

/// The file a path names, if it stays inside the directory and is not hidden.
fn inside(web: &Path, path: &str) -> Option<PathBuf> {
    let relative = Path::new(path.trim_start_matches('/'));
    let is_plain = |component: Component<'_>| match component {
        Component::Normal(name) => !name.to_string_lossy().starts_with('.') && !name.to_string_lossy().contains('\0'),
        _ => false,
    };
    relative.components().all(is_plain).then(|| web.join(relative))
}

fn content_type(path: &Path) -> &'static str {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("html") => "text/html; charset=utf-8",
        Some("js" | "mjs") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("json" | "map") => "application/json",
        Some("yaml" | "yml") => "application/yaml",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("jpg" | "jpeg") => "image/jpeg",
        Some("webp") => "image/webp",
        Some("ico") => "image/x-icon",
        Some("woff2") => "font/woff2",
        Some("txt" | "md") => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_cannot_leave_the_web_directory() {
        let web = Path::new("/srv/web");
        assert_eq!(inside(web, "/app.js"), Some(PathBuf::from("/srv/web/app.js")));
        assert_eq!(inside(web, "/"), Some(PathBuf::from("/srv/web/")));
        for path in ["/../secret", "/a/../../secret", "/.git/config", "/a/.env", "/./../x"] {
            assert_eq!(inside(web, path), None, "{path}");
        }
        assert_eq!(inside(web, "//etc/passwd"), Some(PathBuf::from("/srv/web/etc/passwd")));
    }

    #[tokio::test]
    async fn a_page_beside_the_web_directory_is_none_of_its_pages() {
        let directory = tempfile::tempdir().unwrap();
        let web = directory.path().join("web");
        std::fs::create_dir(&web).unwrap();
        std::fs::write(directory.path().join("web.html"), "elsewhere").unwrap();
        assert!(file(&web, "/").await.is_none());
        std::fs::write(web.join("index.html"), "shop").unwrap();
        assert_eq!(file(&web, "/").await.unwrap().body(), "shop");
    }

    #[test]
    fn only_this_machine_by_its_own_name_is_local() {
        let peer: SocketAddr = "127.0.0.1:5000".parse().unwrap();
        let parts = |host: &str| http::Request::get("/").header("host", host).body(()).unwrap().into_parts().0;
        for host in ["127.0.0.1:3000", "localhost:3000", "localhost", "[::1]:3000", "shop.localhost:3000"] {
            assert!(is_local(&parts(host), peer), "{host}");
        }
        for host in ["evil.example:3000", "10.0.0.1:3000", "localhost.evil.example"] {
            assert!(!is_local(&parts(host), peer), "{host}");
        }
        assert!(!is_local(&parts("localhost"), "10.0.0.1:5000".parse().unwrap()));
    }
}
