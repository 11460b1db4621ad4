//! Calls to every provider, with the sandbox of the crate `payments` on the other side.

use domain::ids::PaymentNumber;
use domain::money::Currency;
use payments::sandbox::{Asked, Keys, Payment, Reply, Sandbox, State};
use payments::{
    HttpAnswer, HttpCall, Method, Paid, PaymentRef, PaymentRequest, PaymentStatus, ProviderCloseAnswer, ProviderError,
    RefundNumber, RefundRequest, Refunding, Way,
};

use super::*;
use crate::Trouble;

const NUMBER: &str = "01K9PZ0000ABCDEFGHJKMNPQRS000001";
const BASE: &str = "http://127.0.0.1:3000/_sandbox";

fn currency(kind: ProviderKind) -> Currency {
    Currency::parse(if kind == ProviderKind::Stripe { "USD" } else { "CNY" }).unwrap()
}

fn request(kind: ProviderKind) -> PaymentRequest {
    PaymentRequest {
        number: PaymentNumber::parse(NUMBER).unwrap(),
        title: "Phone".to_owned(),
        amount: 6999,
        currency: currency(kind),
        expires_at: at(900),
        notify_url: format!("https://shop.example/payments/{kind}/notify"),
        return_url: format!("https://shop.example/payments/{kind}/return"),
        client_ip: "203.0.113.7".to_owned(),
        way: (kind == ProviderKind::Alipay).then_some(Way::Qr),
        shop_data: Default::default(),
    }
}

fn payment(kind: ProviderKind) -> Payment {
    Payment {
        id: "cs_test_1".to_owned(),
        transaction: if kind == ProviderKind::Stripe { "pi_3" } else { "4200000001" }.to_owned(),
        number: NUMBER.to_owned(),
        order_type: "2".to_owned(),
        title: "Phone".to_owned(),
        amount: 6999,
        currency: currency(kind).to_string(),
        notify_url: String::new(),
        return_url: String::new(),
        state: State::Paid,
        paid_at: Some(at(0)),
        refunded: 0,
    }
}

fn reference() -> PaymentRef {
    PaymentRef {
        number: PaymentNumber::parse(NUMBER).unwrap(),
        payment: Some("cs_test_1".to_owned()),
        transaction: None,
    }
}

fn refund(kind: ProviderKind) -> RefundRequest {
    let number = PaymentNumber::parse(NUMBER).unwrap();
    let transaction = payment(kind).transaction;
    RefundRequest {
        refund: RefundNumber::of(&number, &transaction),
        attempt: 0,
        number,
        transaction,
        amount: 6999,
        total: 6999,
        currency: currency(kind),
        reason: "sold out".to_owned(),
        notify_url: None,
    }
}

/// A sent request, as the crate `payments` represents it.
fn seen(request: &http::Request<Vec<u8>>) -> HttpCall {
    HttpCall {
        method: if request.method() == http::Method::GET { Method::Get } else { Method::Post },
        url: request.uri().to_string(),
        headers: request.headers().iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect(),
        body: request.body().clone(),
        client_certificate: false,
    }
}

fn carried(answer: HttpAnswer) -> Exchange {
    let mut response = http::Response::builder().status(answer.status);
    for (name, value) in answer.headers.iter() {
        response = response.header(name, value);
    }
    Ok(response.body(answer.body).unwrap())
}

/// Providers where every payment is paid, none is found when it is to be closed, and every refund succeeds.
fn sandbox(keys: &Keys) -> SharedHttpConnector {
    let sandbox = Sandbox::new(keys).unwrap();
    let made = Mutex::new(None);
    Scripted::shared(move |request| {
        let kind = request.uri().path().split('/').nth(2).and_then(ProviderKind::parse).unwrap();
        let payment = payment(kind);
        let asked = sandbox.read(kind, &seen(&request), at(0)).unwrap_or_else(|answer| panic!("{kind}: {answer:?}"));
        let mut made = made.lock().unwrap();
        if let Asked::Refund(refund) = &asked {
            *made = Some(refund.clone());
        }
        let reply = match &asked {
            Asked::Create { .. } => Reply::Created(&payment, "https://pay.example/x"),
            Asked::Query(_) => Reply::PaymentStatus(&payment),
            Asked::Close(_) => Reply::Missing,
            Asked::Refund(_) | Asked::QueryRefund(_) => Reply::Refunded(&payment, made.as_ref().unwrap(), true),
        };
        carried(sandbox.answer(kind, &asked, reply, at(0), &payments::Nonce::new([1; 16])))
    })
}

#[tokio::test]
async fn every_provider_is_called_and_understood() {
    let keys = Keys::generate().unwrap();
    let secrets = Secrets::holding(secret(ProviderKind::ALL.map(|kind| (kind, keys.settings(kind, BASE)))));
    let providers = secrets.providers(sandbox(&keys));
    assert_eq!(providers.configured(at(0)).await.unwrap(), ProviderKind::ALL);
    for kind in ProviderKind::ALL {
        let created = providers.create(kind, &request(kind), at(0)).await.unwrap();
        let link = Some("https://pay.example/x".to_owned());
        let is_page = kind == ProviderKind::Stripe;
        assert_eq!((created.pay_url.is_some(), created.pay_url.or(created.qr_code)), (is_page, link), "{kind}");
        let paid = Paid {
            transaction: payment(kind).transaction,
            amount: 6999,
            currency: currency(kind),
            paid_at: Some(at(0)),
        };
        assert_eq!(providers.query(kind, &reference(), at(0)).await, Ok(PaymentStatus::Paid(paid)), "{kind}");
        let closing = providers.close(kind, &reference(), at(0)).await.unwrap();
        // Stripe never forgets a session, so a missing one does not count as closed there.
        assert_eq!(
            matches!(closing, ProviderCloseAnswer::Unclear(_)),
            kind == ProviderKind::Stripe,
            "{kind}: {closing:?}"
        );
        assert_eq!(closing == ProviderCloseAnswer::NothingThere, kind != ProviderKind::Stripe, "{kind}: {closing:?}");
        let refunding = if kind == ProviderKind::WechatV2 { Refunding::Processing } else { Refunding::Refunded };
        assert_eq!(providers.refund(kind, &refund(kind), at(0)).await, Ok(refunding), "{kind}");
        assert_eq!(providers.query_refund(kind, &refund(kind), at(0)).await, Ok(Refunding::Refunded), "{kind}");
    }
    assert_eq!(secrets.asked(), 1);
}

#[tokio::test]
async fn alipays_page_needs_no_call() {
    let keys = Keys::generate().unwrap();
    let settings = secret([(ProviderKind::Alipay, keys.settings(ProviderKind::Alipay, BASE))]);
    let providers = Secrets::holding(settings).providers(nowhere());
    let page = PaymentRequest { way: Some(Way::Page), ..request(ProviderKind::Alipay) };
    let created = providers.create(ProviderKind::Alipay, &page, at(0)).await.unwrap();
    assert!(created.pay_url.unwrap().starts_with(&format!("{BASE}/alipay/gateway.do?")));
}

#[tokio::test]
async fn each_call_has_its_own_nonce() {
    let settings = serde_json::json!({
        "appId": "a", "mchId": "1", "key": "0123456789abcdef0123456789abcdef", "signType": "MD5", "baseUrl": BASE,
    });
    let bodies: Arc<Mutex<Vec<String>>> = Arc::default();
    let kept = bodies.clone();
    let transport = Scripted::shared(move |request| {
        kept.lock().unwrap().push(String::from_utf8_lossy(request.body()).into_owned());
        Err(ConnectorError::io("gone".into()))
    });
    let drawn = Mutex::new(0);
    let random: Random = Arc::new(move || {
        let mut drawn = drawn.lock().unwrap();
        *drawn += 1;
        [*drawn; 16]
    });
    let secrets = Secrets::holding(secret([(ProviderKind::WechatV2, settings.to_string())]));
    let providers = Providers::new(&secrets.config(), Some("the-secret".to_owned()), transport, random);
    for _ in 0..2 {
        let lost = providers.query(ProviderKind::WechatV2, &reference(), at(0)).await;
        assert_eq!(lost, Err(ProviderError::Unavailable("io error: gone".to_owned()).into()));
    }
    let bodies = bodies.lock().unwrap();
    for (body, nonce) in bodies.iter().zip(["01".repeat(16), "02".repeat(16)]) {
        assert!(body.contains(&format!("<nonce_str>{nonce}</nonce_str>")), "{body}");
    }
    assert_eq!(bodies.len(), 2, "there are no retries");
}

/// The results of the five calls at each provider, all with this answer.
async fn verdicts(
    keys: &Keys,
    answer: impl Fn() -> Exchange + Send + Sync + 'static,
) -> Vec<(ProviderKind, Result<&'static str, Trouble>)> {
    let settings = secret(ProviderKind::ALL.map(|kind| (kind, keys.settings(kind, BASE))));
    let providers = Secrets::holding(settings).providers(Scripted::shared(move |_| answer()));
    let mut verdicts = Vec::new();
    for kind in ProviderKind::ALL {
        verdicts.extend([
            (kind, providers.create(kind, &request(kind), at(0)).await.map(|_| "created")),
            (kind, providers.query(kind, &reference(), at(0)).await.map(|_| "queried")),
            (kind, providers.close(kind, &reference(), at(0)).await.map(|_| "closed")),
            (kind, providers.refund(kind, &refund(kind), at(0)).await.map(|_| "refunded")),
            (kind, providers.query_refund(kind, &refund(kind), at(0)).await.map(|_| "query refunded")),
        ]);
    }
    verdicts
}

fn plain(status: u16, body: &str) -> impl Fn() -> Exchange + use<> {
    let body = body.as_bytes().to_vec();
    move || Ok(http::Response::builder().status(status).body(body.clone()).unwrap())
}

#[tokio::test]
async fn a_missing_answer_is_never_a_refusal() {
    let keys = Keys::generate().unwrap();
    let no = r#"{"error": {"type": "card_error", "message": "no"}, "code": "PARAM_ERROR"}"#;
    let long = "x".repeat(256 * 1024 + 1);
    for (what, verdicts) in [
        ("500", verdicts(&keys, plain(500, no)).await),
        ("503", verdicts(&keys, plain(503, "<html>")).await),
        ("long", verdicts(&keys, plain(200, &long)).await),
        ("a long refusal", verdicts(&keys, plain(402, &long)).await),
        ("slow", verdicts(&keys, || Err(ConnectorError::timeout("slow".into()))).await),
        ("unreachable", verdicts(&keys, || Err(ConnectorError::io("refused".into()))).await),
        ("strange", verdicts(&keys, || Err(ConnectorError::other("TLS".into(), None))).await),
    ] {
        assert_eq!(verdicts.len(), 20);
        for (kind, verdict) in verdicts {
            // Stripe repeats a server error under the same key.
            let unavailable =
                matches!(verdict, Err(Trouble::Provider(ProviderError::Unavailable(_) | ProviderError::Spent(_))));
            assert!(unavailable, "{what} {kind}: {verdict:?}");
        }
    }
    for (kind, verdict) in verdicts(&keys, plain(302, "")).await {
        assert!(verdict.clone().is_err_and(|trouble| trouble.may_pass()), "a redirect {kind}: {verdict:?}");
    }
    let mut refusals =
        verdicts(&keys, plain(402, no)).await.into_iter().filter(|(kind, _)| *kind == ProviderKind::Stripe);
    assert!(refusals.all(|(_, verdict)| matches!(verdict, Err(Trouble::Provider(ProviderError::Refused { .. })))));
}
