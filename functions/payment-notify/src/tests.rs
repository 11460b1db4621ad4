//! A notice on its way from API Gateway's event to the provider's check of it.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use payments::sandbox::{Happened, Keys, Payment, Sandbox, State};
use payments::{HttpCall, Nonce, Outcome, Subject};
use serde_json::{Value, json};

use super::*;

const NUMBER: &str = "01M73YF03V69FY4XMCZZ6TJE3WN5Y5Y0";

/// The providers' keys of the payment crate's own tests.
fn keys() -> Keys {
    serde_json::from_str(include_str!("../../../crates/payments/src/tests/keys.json")).unwrap()
}

fn provider(kind: ProviderKind) -> Box<Provider> {
    Provider::from_json(kind, &keys().settings(kind, "http://127.0.0.1:3000/_sandbox")).unwrap()
}

fn now() -> Timestamp {
    "2026-11-11T00:05:00Z".parse().unwrap()
}

fn notice(kind: ProviderKind) -> HttpCall {
    let payment = Payment {
        id: "cs_test_a1b2".into(),
        transaction: if kind == ProviderKind::Stripe { "pi_3" } else { "4200000001202611110000000001" }.into(),
        number: NUMBER.into(),
        order_type: "2".into(),
        title: "手机".into(),
        amount: 69_900,
        currency: "CNY".into(),
        notify_url: format!("https://shop.example/payments/{kind}/notify"),
        return_url: String::new(),
        state: State::Paid,
        paid_at: Some(now()),
        refunded: 0,
    };
    let nonce = Nonce::new([7; 16]);
    Sandbox::new(&keys()).unwrap().notice(kind, &payment, Happened::Paid, now(), &nonce).unwrap()
}

/// As API Gateway sends a notice: JSON and XML as text, a form in base64.
fn event(kind: ProviderKind, call: &HttpCall, is_base64: bool) -> Value {
    let path = format!("/payments/{kind}/notify");
    let mut headers: serde_json::Map<String, Value> =
        call.headers.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.into())).collect();
    for (name, value) in [
        ("accept", "*/*"),
        ("content-length", call.body.len().to_string().as_str()),
        ("host", "abcdef1234.execute-api.eu-central-1.amazonaws.com"),
        ("user-agent", "Mozilla/4.0"),
        ("x-amzn-trace-id", "Root=1-6912a380-4f3c2b1a0d9e8f7061524334"),
        ("x-forwarded-for", "203.0.113.7"),
        ("x-forwarded-port", "443"),
        ("x-forwarded-proto", "https"),
    ] {
        headers.insert(name.to_owned(), value.into());
    }
    let body = if is_base64 { STANDARD.encode(&call.body) } else { String::from_utf8(call.body.clone()).unwrap() };
    json!({
        "version": "2.0",
        "routeKey": format!("POST {path}"),
        "rawPath": path,
        "rawQueryString": "",
        "headers": headers,
        "requestContext": {
            "accountId": "123456789012",
            "apiId": "abcdef1234",
            "domainName": "abcdef1234.execute-api.eu-central-1.amazonaws.com",
            "domainPrefix": "abcdef1234",
            "http": {
                "method": "POST", "path": path, "protocol": "HTTP/1.1", "sourceIp": "203.0.113.7",
                "userAgent": "Mozilla/4.0",
            },
            "requestId": "JKJaXmPLvHcESHA=",
            "routeKey": format!("POST {path}"),
            "stage": "$default",
            "time": "11/Nov/2026:00:05:00 +0000",
            "timeEpoch": 1_794_355_500_000_i64,
        },
        "body": body,
        "isBase64Encoded": is_base64,
    })
}

fn verified(event: &str) -> Result<Notice, NoticeError> {
    let request = lambda_http::request::from_str(event).unwrap();
    let kind = provider_named(&request).unwrap();
    provider(kind).notice(&headers(&request), body::raw(&request, MAX_NOTICE).unwrap(), now())
}

#[test]
fn a_notice_arrives_byte_for_byte_as_text_and_in_base64() {
    for kind in ProviderKind::ALL {
        for is_base64 in [false, true] {
            let notice = verified(&event(kind, &notice(kind), is_base64).to_string()).unwrap();
            assert!(matches!(&notice.subject, Subject::FlashSale(number) if number.to_string() == NUMBER), "{kind}");
            assert_eq!((notice.provider, &notice.outcome), (kind, &Outcome::Paid));
            assert_eq!(notice.amount, 69_900);
        }
    }
}

#[test]
fn the_sample_events_are_notices() {
    for (kind, event) in [
        (ProviderKind::Alipay, include_str!("../../../tests/events/payment-notify-alipay.json")),
        (ProviderKind::WechatV3, include_str!("../../../tests/events/payment-notify-wechat.json")),
        (ProviderKind::WechatV2, include_str!("../../../tests/events/payment-notify-wechat-v2.json")),
        (ProviderKind::Stripe, include_str!("../../../tests/events/payment-notify-stripe.json")),
    ] {
        let notice = verified(event).unwrap_or_else(|error| panic!("{kind}: {error}"));
        assert_eq!((notice.provider, notice.amount, notice.outcome), (kind, 69_900, Outcome::Paid));
    }
}

#[test]
fn only_the_four_have_notices_and_only_posted_ones() {
    let named = |method: &str, path: &str| {
        let request = lambda_http::http::Request::builder().method(method).uri(path).body(Body::Empty).unwrap();
        provider_named(&request)
    };
    for kind in ProviderKind::ALL {
        assert_eq!(named("POST", &format!("/payments/{kind}/notify")).unwrap(), kind);
    }
    for (method, path) in
        [("POST", "/payments/paypal/notify"), ("GET", "/payments/alipay/notify"), ("POST", "/payments")]
    {
        assert_eq!(named(method, path).unwrap_err().code, Code::NotFound, "{method} {path}");
    }
    assert!(named("POST", "/payments/paypal/notify").unwrap_err().detail.contains("alipay, wechat, wechat-v2, stripe"));
}

#[test]
fn a_body_that_is_too_long_for_a_notice_is_not_looked_at() {
    let long = Body::from("x".repeat(MAX_NOTICE + 1));
    let request = lambda_http::http::Request::post("/payments/stripe/notify").body(long).unwrap();
    assert_eq!(body::raw(&request, MAX_NOTICE).unwrap_err().code, Code::TooLarge);
}

#[test]
fn who_is_not_configured_is_told_so_and_bad_settings_are_not_shown() {
    let problem = unreachable(ProviderKind::Stripe, Trouble::NotConfigured(ProviderKind::Stripe));
    assert_eq!(problem.code, Code::NotFound);
    assert!(problem.detail.contains("stripe is not configured"), "{}", problem.detail);
    let problem = unreachable(ProviderKind::Stripe, Trouble::Settings("the secret arn:… cannot be read".into()));
    assert_eq!(problem.code, Code::Unavailable);
    assert!(!problem.detail.contains("arn"), "{}", problem.detail);
}

#[test]
fn each_refusal_is_counted_as_its_own_kind() {
    let errors = [
        NoticeError::TooLarge,
        NoticeError::Malformed("sign"),
        NoticeError::Stale(301),
        NoticeError::UnknownKey("x".into()),
        NoticeError::Probe,
        NoticeError::BadSignature,
        NoticeError::NotUs("app_id"),
    ];
    let kinds: BTreeSet<_> = errors.iter().filter_map(refusal).collect();
    assert_eq!(kinds.len(), errors.len());
    assert_eq!(refusal(&NoticeError::NotOurs("a transfer".into())), None, "answered as success");
    let mut metrics = Metrics::at(now());
    refused(ProviderKind::Alipay, &NoticeError::BadSignature, None, &mut metrics);
    refused(ProviderKind::Alipay, &NoticeError::NotOurs("a transfer".into()), None, &mut metrics);
    let lines = metrics.lines();
    assert!(lines.len() == 1 && lines[0].contains(r#""Kind":"BAD_SIGNATURE""#), "{lines:?}");
}

#[test]
fn the_providers_read_their_own_words() {
    let text = |answer: HttpAnswer| match respond(answer).into_body() {
        Body::Text(text) => text,
        Body::Empty => String::new(),
        other => panic!("{other:?}"),
    };
    assert_eq!(text(provider(ProviderKind::Alipay).success_answer()), "success");
    assert!(text(provider(ProviderKind::WechatV2).success_answer()).contains("<![CDATA[SUCCESS]]>"));
    for kind in ProviderKind::ALL {
        let provider = provider(kind);
        assert!(respond(provider.success_answer()).status().is_success(), "{kind}");
        assert_eq!(respond(provider.try_again_answer()).status(), 503, "{kind}");
        let failure = provider.failure_answer(&NoticeError::BadSignature);
        assert_ne!(text(failure), text(provider.success_answer()), "{kind}");
    }
}
