//! From a function's own process to the providers' sandbox and back: its settings from the secret, a payment
//! started, paid on the sandbox, and the notice delivered and verified.
//!
//! This test binary is its own bootstrap, as for the host's tests: a script starts it again with [`bootstrap`].

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use base64::Engine as _;
use bytes::Bytes;
use domain::ids::PaymentNumber;
use domain::money::Currency;
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use jiff::{SignedDuration, Timestamp};
use lambda_runtime::{Error, LambdaEvent, service_fn};
use local_cloud::clock::Clock;
use payments::{Headers, HttpAnswer, HttpCall, Nonce, PaymentRequest, Provider, ProviderKind, Start};
use seckill_local::{HostKind, Options, SeckillLocal};
use serde_json::{Value, json};

const TEMPLATE: &str = include_str!("../templates/paying.yaml");

/// Not a test of its own: the process that the host starts. Without the variable there is nothing to do.
#[test]
fn bootstrap() {
    if std::env::var_os("PAYING_PUBLIC_URL").is_none() {
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let done = runtime.block_on(lambda_runtime::run(service_fn(handle)));
    std::process::exit(i32::from(done.is_err()));
}

fn now() -> Timestamp {
    Timestamp::from_millisecond(Clock::wall().now_ms()).unwrap()
}

async fn handle(event: LambdaEvent<Value>) -> Result<Value, Error> {
    let event = event.payload;
    let name = event["pathParameters"]["provider"].as_str().unwrap_or_default();
    let kind = ProviderKind::parse(name).ok_or("no such provider")?;
    let config = aws_config::load_defaults(aws_config::BehaviorVersion::v2026_01_12()).await;
    let secrets = aws_sdk_secretsmanager::Client::new(&config);
    let secret = secrets.get_secret_value().secret_id(std::env::var("PAYMENT_SECRET")?).send().await?;
    let settings: Value = serde_json::from_str(secret.secret_string().unwrap_or_default())?;
    let provider = Provider::from_json(kind, &settings[name].to_string())?;
    if event["requestContext"]["routeKey"] == "POST /payments/{provider}/notify" {
        let answer = take(&*provider, &event)?;
        let text = String::from_utf8(answer.body)?;
        return Ok(json!({"statusCode": answer.status, "body": text, "headers": {"content-type": "text/plain"}}));
    }
    let created = buy(&*provider, kind).await?;
    Ok(json!({"statusCode": 201, "body": created.to_string()}))
}

fn take(provider: &Provider, event: &Value) -> Result<HttpAnswer, Error> {
    let text = event["body"].as_str().unwrap_or_default();
    let body = match event["isBase64Encoded"].as_bool() {
        Some(true) => base64::engine::general_purpose::STANDARD.decode(text)?,
        _ => text.as_bytes().to_vec(),
    };
    let headers = event["headers"].as_object().into_iter().flatten();
    let headers: Headers = headers.filter_map(|(name, value)| Some((name.as_str(), value.as_str()?))).collect();
    Ok(match provider.notice(&headers, &body, now()) {
        Ok(notice) => {
            println!("told {} {:?}", notice.provider, notice.outcome);
            provider.success_answer()
        }
        Err(error) => {
            println!("refused: {error}");
            provider.failure_answer(&error)
        }
    })
}

async fn buy(provider: &Provider, kind: ProviderKind) -> Result<Value, Error> {
    let public_url = std::env::var("PAYING_PUBLIC_URL")?;
    let at = ProviderKind::ALL.iter().position(|known| *known == kind).unwrap_or(0);
    let number = format!("01K9PZ0000ABCDEFGHJKMNPQRS0000{at}0");
    let request = PaymentRequest {
        number: PaymentNumber::parse(&number)?,
        title: "Mug".to_owned(),
        amount: 100,
        currency: Currency::parse(if kind == ProviderKind::Stripe { "USD" } else { "CNY" })?,
        expires_at: now() + SignedDuration::from_mins(15),
        notify_url: format!("{public_url}/payments/{kind}/notify"),
        return_url: format!("{public_url}/payments/{kind}/return"),
        client_ip: "127.0.0.1".to_owned(),
        way: None,
        shop_data: Default::default(),
    };
    let created = match provider.create(&request, now(), &Nonce::new([3; 16]))? {
        Start::Ready(created) => created,
        Start::Call(call) => provider.interpret_create(&send(&call).await?, now())?,
    };
    Ok(json!({"paymentId": number, "link": created.pay_url.or(created.qr_code)}))
}

async fn send(call: &HttpCall) -> Result<HttpAnswer, Error> {
    let mut request = http::Request::builder().method(call.method.as_str()).uri(&call.url);
    for (name, value) in call.headers.iter() {
        request = request.header(name, value);
    }
    let client = Client::builder(TokioExecutor::new()).build_http();
    let answer = client.request(request.body(Full::new(Bytes::from(call.body.clone())))?).await?;
    let (parts, body) = answer.into_parts();
    let headers = parts.headers.iter().filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
    Ok(HttpAnswer {
        status: parts.status.as_u16(),
        headers: headers.collect(),
        body: body.collect().await?.to_bytes().to_vec(),
    })
}

/// A call from outside: status, `location`, body.
async fn call(method: &str, url: &str, body: &str) -> (u16, Option<String>, String) {
    let request = http::Request::builder().method(method).uri(url);
    let client = Client::builder(TokioExecutor::new()).build_http();
    let answer = client.request(request.body(Full::new(Bytes::from(body.to_owned()))).unwrap()).await.unwrap();
    let location = answer.headers().get("location").map(|value| value.to_str().unwrap().to_owned());
    let status = answer.status().as_u16();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    (status, location, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payment_goes_from_a_function_to_the_provider_and_its_notice_comes_back() {
    let site = tempfile::tempdir().unwrap();
    let path = |name: &str| site.path().join(name);
    fs::write(path("template.yaml"), TEMPLATE).unwrap();
    let this = std::env::current_exe().unwrap();
    fs::create_dir(path("bin")).unwrap();
    let script = format!("#!/bin/sh\nexec '{}' --exact paying::bootstrap --nocapture\n", this.display());
    fs::write(path("bin/shop"), script).unwrap();
    fs::set_permissions(path("bin/shop"), fs::Permissions::from_mode(0o755)).unwrap();
    let options = Options {
        template: path("template.yaml"),
        port: 0,
        data_dir: path("data"),
        binaries: path("bin"),
        no_demo: true,
        host: HostKind::Processes,
        ..Options::default()
    };
    let cloud = SeckillLocal::start(&options).await.unwrap();
    let url = cloud.base_url();
    assert!(cloud.summary(&options, None, false).contains(&format!("{url}/_sandbox")));
    assert_eq!(cloud.stack().functions[0].environment["PAYING_PUBLIC_URL"], url);
    for kind in ProviderKind::ALL {
        let (status, _, body) = call("POST", &format!("{url}/buy/{kind}"), "").await;
        assert_eq!(status, 201, "{kind}: {body}");
        let started: Value = serde_json::from_str(&body).unwrap();
        let (status, page, _) = call("GET", started["link"].as_str().unwrap(), "").await;
        assert_eq!(
            (status, page.is_some()),
            if kind == ProviderKind::Alipay { (302, true) } else { (200, false) },
            "{kind}"
        );
        let id = started["paymentId"].as_str().unwrap();
        let (status, _, body) = call("POST", &format!("{url}/_sandbox/payments/{id}"), r#"{"action": "pay"}"#).await;
        assert_eq!(status, 200, "{kind}: {body}");
        accepted(&cloud, id).await;
    }
    // A line reaches the file shortly after the answer.
    let told = |log: &str| ProviderKind::ALL.into_iter().all(|kind| log.contains(&format!("told {kind} Paid")));
    let mut log = String::new();
    for _ in 0..100 {
        log = fs::read_to_string(path("data/logs/seckill-ShopFunction.log")).unwrap();
        if told(&log) {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    assert!(told(&log), "{log}");
    let (_, _, books) = call("GET", &format!("{url}/_sandbox/money"), "").await;
    cloud.stop().await;

    let cloud = SeckillLocal::start(&options).await.unwrap();
    assert_eq!(call("GET", &format!("{}/_sandbox/money", cloud.base_url()), "").await.2, books);
    cloud.stop().await;
}

async fn accepted(cloud: &SeckillLocal, id: &str) {
    for _ in 0..600 {
        let seen = cloud.sandbox().unwrap().payment(id).await.unwrap();
        if seen.notices.iter().any(|notice| notice.accepted_at.is_some()) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    panic!("the notice about {id} was not accepted: {:?}", cloud.sandbox().unwrap().payment(id).await);
}
