//! The HTTP API from outside: real sockets, closures as functions.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use local_cloud::clock::Clock;
use local_cloud::engine::{OutsideCall, OutsideService};
use local_cloud::gateway::{Connections, Gateway, GatewayConfig, Issuer};
use local_cloud::invoke::{FunctionError, Invoker, Outcome};
use local_cloud::template::model::{Cors, HttpApi, JwtAuthorizer, Route, Stack, Throttle};
use serde_json::{Value, json};
use tokio::net::TcpListener;

const START_MS: i64 = 1_800_000_000_000;

static ISSUER: LazyLock<Arc<Issuer>> =
    LazyLock::new(|| Arc::new(Issuer::open(tempfile::tempdir().unwrap().path()).unwrap()));

/// A gateway on a free port, with a client.
pub(crate) struct Running {
    pub(crate) gateway: Gateway,
    pub(crate) clock: Clock,
    client: Client<HttpConnector, Full<Bytes>>,
}

pub(crate) async fn start(stack: Stack, invoker: Invoker) -> Running {
    start_with(stack, invoker, None).await
}

async fn start_with(stack: Stack, invoker: Invoker, web: Option<std::path::PathBuf>) -> Running {
    start_on(stack, invoker, web, Vec::new()).await
}

async fn start_on(
    stack: Stack,
    invoker: Invoker,
    web: Option<std::path::PathBuf>,
    outside: Vec<Arc<dyn OutsideService>>,
) -> Running {
    let clock = Clock::driven(START_MS);
    let config = GatewayConfig {
        listener: TcpListener::bind("127.0.0.1:0").await.unwrap(),
        stack: Arc::new(stack),
        requests: None,
        invoker,
        clock: clock.clone(),
        connections: Connections::default(),
        issuer: Arc::clone(&ISSUER),
        web,
        live: Arc::new(|| Box::pin(async { json!({"queues": {"orders": 3}}) })),
        events: Arc::new(|| Box::pin(async { json!({"events": []}) })),
        outside,
    };
    let client = Client::builder(TokioExecutor::new()).build_http();
    Running { gateway: Gateway::start(config).unwrap(), clock, client }
}

impl Running {
    pub(crate) async fn call(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Response<Bytes> {
        let mut request = Request::builder().method(method).uri(format!("http://{}{path}", self.gateway.address()));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = self.client.request(request.body(Full::new(body.into())).unwrap()).await.unwrap();
        let (parts, body) = response.into_parts();
        Response::from_parts(parts, body.collect().await.unwrap().to_bytes())
    }

    async fn get(&self, path: &str) -> Response<Bytes> {
        self.call("GET", path, &[], "").await
    }

    async fn token(&self, request: Value) -> String {
        let response = self.call("POST", "/_local/token", &[], request.to_string()).await;
        assert_eq!(response.status(), 200, "{response:?}");
        json_of(&response)["token"].as_str().unwrap().to_owned()
    }
}

pub(crate) fn json_of(response: &Response<Bytes>) -> Value {
    serde_json::from_slice(response.body()).unwrap()
}

fn is_message(response: &Response<Bytes>, status: u16, message: &str) {
    assert_eq!((response.status().as_u16(), json_of(response)), (status, json!({"message": message})));
}

fn route(method: &str, path: &str, function: &str) -> Route {
    let (method, path, function) = (method.to_owned(), path.to_owned(), function.to_owned());
    Route { method, path, function, authorizer: None, scopes: Vec::new() }
}

/// An API with an open route, one for buyers, one for operators, and some for misbehaving functions.
fn stack() -> Stack {
    let authorizer =
        JwtAuthorizer { issuer: "https://issuer.example/pool".to_owned(), audience: vec!["shop".to_owned()] };
    let with_token = |route: Route| Route { authorizer: Some("Buyers".to_owned()), ..route };
    let api = HttpApi {
        logical_id: "ShopApi".to_owned(),
        stage: "$default".to_owned(),
        routes: vec![
            route("GET", "/sales/{saleId}", "echo"),
            route("POST", "/anything", "echo"),
            with_token(route("POST", "/buy", "echo")),
            with_token(Route { scopes: vec!["shop/admin".to_owned()], ..route("POST", "/admin/sales", "echo") }),
            route("GET", "/limited", "echo"),
            route("GET", "/failed", "failed"),
            route("GET", "/malformed", "malformed"),
            route("GET", "/throttled", "throttled"),
            route("GET", "/slow", "slow"),
        ],
        authorizers: BTreeMap::from([("Buyers".to_owned(), authorizer)]),
        cors: Some(Cors {
            origins: vec!["https://shop.example".to_owned()],
            methods: vec!["GET".to_owned(), "POST".to_owned()],
            headers: vec!["authorization".to_owned()],
            ..Cors::default()
        }),
        throttle: None,
        route_throttles: BTreeMap::from([("GET /limited".to_owned(), Throttle { rate: 2.0, burst: 1 })]),
    };
    Stack { account: "000000000000".to_owned(), http_api: Some(api), ..Stack::default() }
}

fn functions() -> Invoker {
    Arc::new(|name, event| {
        Box::pin(async move {
            match name.as_str() {
                "echo" => {
                    let headers = json!({"content-type": "application/json", "access-control-allow-origin": "*"});
                    let body = String::from_utf8(event.to_vec()).unwrap();
                    let answer = json!({"statusCode": 200, "headers": headers, "cookies": ["a=1"], "body": body});
                    Outcome::Answered(answer.to_string().into())
                }
                "malformed" => Outcome::Answered(json!({"statusCode": "no"}).to_string().into()),
                "throttled" => Outcome::Throttled,
                "slow" => std::future::pending().await,
                _ => Outcome::Failed(FunctionError {
                    error_type: "Runtime.ExitError".to_owned(),
                    message: "exit status 1".to_owned(),
                }),
            }
        })
    })
}

#[tokio::test]
async fn a_request_reaches_its_function_and_the_answer_comes_back() {
    let running = start(stack(), functions()).await;
    let response = running.get("/sales/s%201?a=1").await;
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["set-cookie"], "a=1");
    assert_eq!(response.headers()["apigw-requestid"].len(), 16);
    let event = json_of(&response);
    assert_eq!(event["routeKey"], "GET /sales/{saleId}");
    assert_eq!(event["pathParameters"], json!({"saleId": "s 1"}));
    assert_eq!(event["requestContext"]["apiId"], "shopapi");
    assert_eq!(event["requestContext"]["http"]["sourceIp"], "127.0.0.1");
    assert_eq!(event["requestContext"]["requestId"], response.headers()["apigw-requestid"].to_str().unwrap());
    assert_eq!(event["requestContext"]["timeEpoch"], START_MS);
    assert_eq!(event["headers"]["x-forwarded-port"], running.gateway.address().port().to_string());
    running.gateway.stop().await;
}

#[tokio::test]
async fn refusals_are_the_ones_http_apis_give() {
    let running = start(stack(), functions()).await;
    is_message(&running.get("/nothing").await, 404, "Not Found");
    is_message(&running.get("/buy").await, 404, "Not Found");
    is_message(&running.get("/failed").await, 500, "Internal Server Error");
    is_message(&running.get("/malformed").await, 500, "Internal Server Error");
    is_message(&running.get("/throttled").await, 503, "Service Unavailable");
}

#[tokio::test]
async fn a_function_that_takes_too_long_is_unavailable() {
    let running = start(stack(), functions()).await;
    let clock = running.clock.clone();
    let drive = tokio::spawn(async move {
        loop {
            clock.advance(Duration::from_secs(10));
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    is_message(&running.get("/slow").await, 503, "Service Unavailable");
    drive.abort();
}

#[tokio::test]
async fn a_token_is_minted_checked_and_given_to_the_function() {
    let running = start(stack(), functions()).await;
    let post = |path: &'static str, token: String| {
        let running = &running;
        async move { running.call("POST", path, &[("authorization", &format!("Bearer {token}"))], "{}").await }
    };
    let none = running.call("POST", "/buy", &[], "{}").await;
    is_message(&none, 401, "Unauthorized");
    assert_eq!(none.headers()["www-authenticate"], "Bearer");

    let buyer = running.token(json!({"sub": "buyer-1"})).await;
    let response = post("/buy", buyer.clone()).await;
    let jwt = json_of(&response)["requestContext"]["authorizer"]["jwt"].clone();
    assert_eq!((&jwt["claims"]["sub"], &jwt["scopes"]), (&json!("buyer-1"), &Value::Null));
    is_message(&post("/admin/sales", buyer.clone()).await, 403, "Forbidden");
    let operator = running.token(json!({"sub": "me", "scope": "shop/admin"})).await;
    assert_eq!(post("/admin/sales", operator).await.status(), 200);

    let forged = format!("{}AAAA", &buyer[..buyer.len() - 4]);
    is_message(&post("/buy", forged).await, 401, "Unauthorized");
    let short = running.token(json!({"sub": "buyer-1", "expiresInSeconds": 60})).await;
    assert_eq!(post("/buy", short.clone()).await.status(), 200);
    running.clock.advance(Duration::from_secs(60));
    let expired = post("/buy", short).await;
    is_message(&expired, 401, "Unauthorized");
    assert!(expired.headers()["www-authenticate"].to_str().unwrap().contains("the token has expired"));
}

#[tokio::test]
async fn the_issuer_of_the_template_is_played() {
    let running = start(stack(), functions()).await;
    for prefix in ["", "/pool"] {
        let configuration = json_of(&running.get(&format!("{prefix}/.well-known/openid-configuration")).await);
        assert_eq!(configuration["issuer"], "https://issuer.example/pool");
        let uri = configuration["jwks_uri"].as_str().unwrap();
        let path = uri.strip_prefix(&format!("http://{}", running.gateway.address())).unwrap();
        let keys = json_of(&running.get(path).await);
        assert_eq!(keys, ISSUER.jwks());
    }
    assert_eq!(running.get("/other/.well-known/jwks.json").await.status(), 404);
}

#[tokio::test]
async fn cors_is_the_templates() {
    let running = start(stack(), functions()).await;
    let preflight = [("origin", "https://shop.example"), ("access-control-request-method", "POST")];
    let response = running.call("OPTIONS", "/buy", &preflight, "").await;
    assert_eq!(response.status(), 204);
    assert_eq!(response.headers()["access-control-allow-methods"], "GET,POST");
    let response = running.call("GET", "/sales/1", &[("origin", "https://shop.example")], "").await;
    assert_eq!(response.headers()["access-control-allow-origin"], "https://shop.example");
    let response = running.call("GET", "/sales/1", &[("origin", "https://evil.example")], "").await;
    assert_eq!(response.headers().get("access-control-allow-origin"), None, "the function said *");
    let refused = running.call("POST", "/buy", &[("origin", "https://shop.example")], "{}").await;
    assert_eq!(refused.status(), 401);
    assert_eq!(refused.headers()["access-control-allow-origin"], "https://shop.example");
}

#[tokio::test]
async fn too_many_requests_are_refused_until_the_bucket_fills() {
    let running = start(stack(), functions()).await;
    assert_eq!(running.get("/limited").await.status(), 200);
    is_message(&running.get("/limited").await, 429, "Too Many Requests");
    assert_eq!(running.get("/sales/1").await.status(), 200, "another route has its own bucket");
    running.clock.advance(Duration::from_millis(500));
    assert_eq!(running.get("/limited").await.status(), 200);
}

#[tokio::test]
async fn bodies_have_a_limit() {
    let running = start(stack(), functions()).await;
    let text = [("content-type", "text/plain")];
    let megabytes = |count: usize| Bytes::from(vec![b'x'; count * 1024 * 1024]);
    assert_eq!(running.call("POST", "/anything", &text, megabytes(5)).await.status(), 200);
    // Under API Gateway's limit, but no event of Lambda's can hold it.
    let response = running.call("POST", "/anything", &text, megabytes(7)).await;
    is_message(&response, 413, "Request Entity Too Large");
    let response = running.call("POST", "/anything", &text, megabytes(11)).await;
    is_message(&response, 413, "Request Entity Too Large");
}

#[tokio::test]
async fn local_requests_need_a_name_of_this_machine() {
    let running = start(stack(), functions()).await;
    assert_eq!(json_of(&running.get("/_local/health").await), json!({"status": "ok"}));
    for path in ["/_local/health", "/_local/stack", "/@connections/abc"] {
        let response = running.call("GET", path, &[("host", "evil.example")], "").await;
        assert_eq!(response.status(), 403, "{path}");
    }
    let stack = json_of(&running.get("/_local/stack").await);
    assert_eq!(stack["live"]["queues"]["orders"], 3);
    assert_eq!(stack["routes"][2]["route"], "POST /buy");
    assert_eq!(stack["routes"][2]["authorizer"], "Buyers");
}

#[tokio::test]
async fn a_bad_token_request_says_what_to_send() {
    let running = start(stack(), functions()).await;
    for (body, says) in [
        ("", "send {\"sub\""),
        ("{}", "missing field `sub`"),
        (r#"{"sub": ""}"#, "sub must not be empty"),
        (r#"{"sub": "a", "expiresInSeconds": 99999999}"#, "at most 2592000"),
        (r#"{"sub": "a", "scopes": "x"}"#, "unknown field `scopes`"),
        (r#"{"sub": "a", "authorizer": "x"}"#, "no JWT authorizer x"),
    ] {
        let response = running.call("POST", "/_local/token", &[], body).await;
        assert_eq!(response.status(), 400);
        let message = json_of(&response)["message"].as_str().unwrap().to_owned();
        assert!(message.contains(says), "{body}: {message}");
    }
}

#[tokio::test]
async fn pages_come_from_the_web_directory() {
    let running = start(stack(), functions()).await;
    assert_eq!(running.get("/").await.status(), 404);

    let web = tempfile::tempdir().unwrap();
    std::fs::write(web.path().join("index.html"), "shop").unwrap();
    std::fs::write(web.path().join("app.js"), "code").unwrap();
    std::fs::create_dir(web.path().join("console")).unwrap();
    std::fs::write(web.path().join("console/index.html"), "console").unwrap();
    let running = start_with(stack(), functions(), Some(web.path().to_owned())).await;
    for (path, body) in [("/", "shop"), ("/app.js", "code"), ("/console", "console")] {
        assert_eq!(running.get(path).await.body(), body, "{path}");
    }
    assert_eq!(running.get("/..%2Fsecret").await.status(), 404);
}

#[tokio::test]
async fn a_stop_lets_what_is_in_flight_end() {
    let (entered, mut has_entered) = tokio::sync::mpsc::channel(1);
    let (release, released) = tokio::sync::oneshot::channel::<()>();
    let released = Arc::new(Mutex::new(Some(released)));
    let invoker: Invoker = Arc::new(move |_, _| {
        let (entered, released) = (entered.clone(), released.lock().unwrap().take());
        Box::pin(async move {
            entered.send(()).await.unwrap();
            released.unwrap().await.unwrap();
            Outcome::Answered(Bytes::from_static(b"\"done\""))
        })
    });
    let running = start(stack(), invoker).await;
    let address = running.gateway.address();
    let client = running.client.clone();
    let request = tokio::spawn(async move { client.get(format!("http://{address}/sales/1").parse().unwrap()).await });
    has_entered.recv().await.unwrap();
    let stop = tokio::spawn(running.gateway.stop());
    release.send(()).unwrap();
    assert_eq!(request.await.unwrap().unwrap().status(), 200);
    stop.await.unwrap();
    assert!(tokio::net::TcpStream::connect(address).await.is_err(), "the port is closed");
}

/// A weather service that says what it was asked.
struct Weather;

impl OutsideService for Weather {
    fn path(&self) -> &'static str {
        "/_weather"
    }

    fn identify(&self, _: &http::Method, uri: &http::Uri) -> Option<OutsideCall> {
        let city = uri.path().strip_prefix("/_weather/")?;
        Some(OutsideCall { operation: "Forecast".to_owned(), resource: Some(city.to_owned()) })
    }

    fn call(&self, request: Request<Bytes>) -> futures::future::BoxFuture<'_, Response<Bytes>> {
        Box::pin(async move { Response::new(Bytes::from(format!("sun at {}", request.uri().path()))) })
    }
}

#[tokio::test]
async fn an_outside_service_has_routes_of_its_own_for_this_machine_only() {
    let running = start_on(stack(), functions(), None, vec![Arc::new(Weather)]).await;
    let answer = running.get("/_weather/oslo").await;
    assert_eq!((answer.status().as_u16(), &answer.body()[..]), (200, &b"sun at /_weather/oslo"[..]));
    assert_eq!(running.get("/_weather").await.status(), 200);
    assert_ne!(running.get("/_weathered").await.status(), 200);
    let stranger = running.call("GET", "/_weather/oslo", &[("host", "evil.example")], "").await;
    assert_eq!(stranger.status(), 403);
}
