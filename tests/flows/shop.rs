//! The handlers of shop and admin: paying, refunds, points, and the page to which a provider returns the browser.

use ::payments::ProviderKind;
use domain::claim::{Claim, ClaimState};
use domain::ids::{IdempotencyKey, OrderId};
use domain::order::{Order, Status};
use domain::payment::Method;
use sandbox::Mood;
use serde_json::{Value, json};
use store::{ClaimWrite, NewClaim};
use testkit::lambda_request::Answer;
use testkit::paying::PROVIDERS;
use testkit::world::World;

use crate::handlers::{Handlers, payment_secret, unpaid_order_of_ann};

async fn pay(handlers: &Handlers, order: &str, body: Value) -> Answer {
    handlers.request(Some("ann"), "POST", &format!("/orders/{order}/payments"), Some(body)).await
}

fn is(answer: &Answer, status: u16, code: &str) {
    assert_eq!((answer.status, answer.code().as_str()), (status, code), "{answer:?}");
}

#[tokio::test]
async fn a_payment_is_started_and_shown_and_a_repeated_request_returns_the_same() {
    for method in PROVIDERS {
        let world = World::new().await;
        let offer = world.sale(5, 1).await;
        let handlers = Handlers::of(&world);
        let order = world.unpaid_order(&offer, "ann").await.to_string();
        let started = pay(&handlers, &order, json!({"method": method})).await;
        assert_eq!(started.status, 201, "{method}: {started:?}");
        let body = started.json();
        assert_eq!((&body["amount"], &body["currency"], &body["points"]), (&json!(69_900), &json!("CNY"), &json!(0)));
        assert_eq!((&body["status"], &body["method"]), (&json!("OPEN"), &json!(method)));
        assert!(body["payUrl"].is_string() || body["qrCode"].is_string(), "{method}: {body}");
        assert_eq!(body["qrCode"].is_string(), body["qrSvg"].is_string(), "{method}: {body}");
        assert!(body["paymentId"].as_str().unwrap().starts_with(&order), "{body}");
        assert_eq!(pay(&handlers, &order, json!({"method": method})).await.json(), body, "{method}");
        let seen = handlers.request(Some("ann"), "GET", &format!("/orders/{order}"), None).await.json();
        let open = json!({"paymentId": body["paymentId"], "method": method, "amount": 69_900, "points": 0});
        assert_eq!((&seen["status"], &seen["payment"]), (&json!("PENDING_PAYMENT"), &open), "{method}");
        // Alipay knows a payment only after the buyer opens its link, and Stripe's notice URL is configured at
        // Stripe.
        if matches!(method, Method::Wechat | Method::WechatV2) {
            let at_provider = world.cloud.sandbox.payments().await.unwrap().pop().unwrap();
            assert_eq!(at_provider.notify_url, format!("https://shop.example/payments/{method}/notify"));
        }
    }
}

#[tokio::test]
async fn a_payment_that_cannot_be_started_is_refused_with_a_reason() {
    let world = World::new().await;
    let offer = world.sale(5, 1).await;
    let handlers = Handlers::of(&world);
    let queued = world.buys(&offer, "ann").await.to_string();
    is(&pay(&handlers, &queued, json!({"method": "alipay"})).await, 409, "WRONG_STATE");
    is(&handlers.request(Some("ann"), "POST", &format!("/orders/{queued}/refund"), None).await, 409, "WRONG_STATE");
    world.consume().await;
    let order = queued;
    let bob = handlers
        .request(Some("bob"), "POST", &format!("/orders/{order}/payments"), Some(json!({"method": "alipay"})))
        .await;
    is(&bob, 404, "UNKNOWN_ORDER");
    is(&handlers.request(Some("bob"), "POST", &format!("/orders/{order}/refund"), None).await, 404, "UNKNOWN_ORDER");
    is(&handlers.request(None, "POST", &format!("/orders/{order}/payments"), None).await, 401, "UNAUTHENTICATED");
    is(&pay(&handlers, &order, json!({"method": "cash"})).await, 400, "INVALID");
    is(&pay(&handlers, &order, json!({"method": "alipay", "amount": 1})).await, 400, "INVALID");
    let points = pay(&handlers, &order, json!({"method": "points"})).await;
    is(&points, 400, "INVALID");
    assert_eq!(points.json()["errors"][0]["field"], "points", "the item has no price in points");
    is(&handlers.request(Some("ann"), "POST", &format!("/orders/{order}/refund"), None).await, 409, "WRONG_STATE");
    world.cloud.sandbox.set_mood(ProviderKind::WechatV3, Mood::Down, Some(1));
    is(&pay(&handlers, &order, json!({"method": "wechat"})).await, 503, "UNAVAILABLE");
    assert_eq!(pay(&handlers, &order, json!({"method": "wechat"})).await.status, 201, "the retry works");

    world.pass(900);
    is(&pay(&handlers, &order, json!({"method": "stripe"})).await, 409, "WRONG_STATE");

    world.cloud.secrets.put(&payment_secret(), r#"{"alipay": {}}"#).await.unwrap();
    let elsewhere = Handlers::of(&World::on(world.cloud.clone()));
    let refused = pay(&elsewhere, &order, json!({"method": "stripe"})).await;
    is(&refused, 400, "INVALID");
    assert_eq!(refused.json()["errors"][0]["field"], "method");
    assert!(refused.text.contains("use one of points"), "{}", refused.text);
}

#[tokio::test]
async fn a_press_that_crashed_before_its_hold_is_not_shown_as_queued_for_ever() {
    let world = World::new().await;
    let offer = world.sale(5, 1).await;
    let handlers = Handlers::of(&world);
    let asked = world.asks(&offer, "ann", 1, None);
    let order = OrderId::new(asked.now, &asked.buyer_key, asked.random);
    let claim = Claim {
        order: order.clone(),
        quantity: 1,
        bucket: 0,
        state: ClaimState::Held,
        previous_buckets: Vec::new(),
        shop_data: Default::default(),
    };
    let key = IdempotencyKey::from(&claim.order);
    let new =
        NewClaim { offer: &offer, buyer: &asked.buyer, claim: &claim, key: &key, expires: asked.now, cooldown: None };
    assert_eq!(world.store.claim(&new).await.unwrap().0, ClaimWrite::Done);
    let shown = async || {
        let one = handlers.request(Some("ann"), "GET", &format!("/orders/{order}"), None).await;
        let listed =
            handlers.request(Some("ann"), "GET", "/orders", None).await.json()["orders"].as_array().unwrap().len();
        (one.status, one.json()["status"].as_str().unwrap_or_default().to_owned(), listed)
    };
    assert_eq!(shown().await, (200, "QUEUED".to_owned(), 1), "the press may still be running");
    world.pass(7);
    assert_eq!(shown().await.2, 0);
    is(&handlers.request(Some("ann"), "GET", &format!("/orders/{order}"), None).await, 404, "UNKNOWN_ORDER");
    // The buyer presses again and the same purchase is resumed. It is shown from then on, however late its message
    // is.
    assert_eq!(world.press(&offer, "ann").await.unwrap().order, order);
    world.pass(600);
    assert_eq!(shown().await, (200, "QUEUED".to_owned(), 1));
    world.consume().await;
    assert_eq!(shown().await, (200, "PENDING_PAYMENT".to_owned(), 1));
}

/// A claim exists as long as its order. A claim whose order is too old for the list is not a queued purchase.
#[tokio::test]
async fn an_order_beyond_the_end_of_the_list_is_not_shown_as_queued() {
    let world = World::new().await;
    let offer = world.sale(5, 1).await;
    let handlers = Handlers::of(&world);
    let first = world.unpaid_order(&offer, "ann").await;
    let first = world.order(&first).await.unwrap();
    world.pass(1);
    for number in 0..100 {
        let newer = Order { id: OrderId::new(world.now(), &first.id.buyer(), number), ..first.clone() };
        world.store.place(&newer).await.unwrap();
    }
    let shown = handlers.request(Some("ann"), "GET", "/orders", None).await.json();
    let listed = shown["orders"].as_array().unwrap();
    assert_eq!(listed.len(), 100);
    assert!(listed.iter().all(|order| order["status"] == "PENDING_PAYMENT"), "{shown}");
    let one = handlers.request(Some("ann"), "GET", &format!("/orders/{}", first.id), None).await.json();
    assert_eq!(one["status"], "PENDING_PAYMENT");
}

#[tokio::test]
async fn a_paid_order_is_refunded_on_request() {
    for method in PROVIDERS {
        let (world, offer, handlers, order) = unpaid_order_of_ann().await;
        let started = world.start_payment(&order, method, 0).await;
        world.pay(&started).await;
        handlers.deliver_notices(&world).await;
        let cancel = handlers.request(Some("ann"), "POST", &format!("/orders/{order}/cancel"), None).await;
        is(&cancel, 409, "WRONG_STATE");
        assert!(cancel.text.contains("ask for a refund"), "{}", cancel.text);
        let path = format!("/orders/{order}/refund");
        world.cloud.sandbox.set_mood(ProviderKind::parse(method.as_str()).unwrap(), Mood::Down, Some(1));
        let first = handlers.request(Some("ann"), "POST", &path, None).await;
        assert_eq!((first.status, &first.json()["status"]), (202, &json!("REFUNDING")), "{method}: {first:?}");
        // WeChat Pay v2 accepts the refund and reports its end only when it is asked again.
        let in_hand = handlers.request(Some("ann"), "POST", &path, None).await;
        assert_eq!(in_hand.status, if method == Method::WechatV2 { 202 } else { 200 }, "{method}: {in_hand:?}");
        for _ in 0..2 {
            world.pass(1);
            let done = handlers.request(Some("ann"), "POST", &path, None).await;
            assert_eq!((done.status, &done.json()["status"]), (200, &json!("REFUNDED")), "{method}: {done:?}");
            assert!(done.json()["refundedAt"].is_string());
        }
        assert_eq!(handlers.metric("Refunds", None), 1, "{method}");
        world.settle_fully().await;
        world.records_agree(&offer, &[order]).await.unwrap();
    }
}

#[tokio::test]
async fn points_are_credited_once_spent_and_shown() {
    let world = World::new().await;
    let offer = world.sale_of(5, |item| item.points_price = Some(1_000)).await;
    let handlers = Handlers::of(&world);
    let give = async |key: Option<&'static str>, points: i64| {
        let headers: Vec<(&str, &str)> = key.iter().map(|key| ("idempotency-key", *key)).collect();
        handlers.operator_request("/admin/points", &headers, json!({"buyer": "ann", "points": points})).await
    };
    is(&give(None, 500).await, 400, "INVALID");
    is(&give(Some("k"), 0).await, 400, "INVALID");
    for _ in 0..2 {
        let given = give(Some("k"), 1_200).await;
        assert_eq!((given.status, given.json()), (200, json!({"buyer": "ann", "points": 1_200, "frozen": 0})));
    }
    is(&give(Some("k"), 1_201).await, 422, "IDEMPOTENCY_MISMATCH");

    let points = async || handlers.request(Some("ann"), "GET", "/points", None).await.json();
    assert_eq!(points().await, json!({"points": 1_200, "frozen": 0}));
    let order = world.unpaid_order(&offer, "ann").await.to_string();
    let mixed = pay(&handlers, &order, json!({"method": "wechat", "points": 500})).await.json();
    assert_eq!((&mixed["amount"], &mixed["points"]), (&json!(34_950), &json!(500)));
    assert_eq!(points().await, json!({"points": 700, "frozen": 500}));
    let alone = pay(&handlers, &order, json!({"method": "points"})).await;
    assert_eq!((alone.status, &alone.json()["status"]), (201, &json!("PAID")), "{alone:?}");
    assert_eq!(points().await, json!({"points": 200, "frozen": 0}));
    assert_eq!(handlers.metric("PaymentsSettled", Some(("Provider", "points"))), 1);
    let again = pay(&handlers, &order, json!({"method": "alipay"})).await;
    is(&again, 409, "WRONG_STATE");
    assert_eq!(handlers.request(Some("bob"), "GET", "/points", None).await.json(), json!({"points": 0, "frozen": 0}));
}

#[tokio::test]
async fn the_return_page_shows_the_orders_status_and_changes_nothing() {
    for method in PROVIDERS {
        let (world, _, handlers, order) = unpaid_order_of_ann().await;
        let started = world.start_payment(&order, method, 0).await;
        world.pay(&started).await;
        let back = match method {
            // The sandbox knows the return URL with the parameters that Alipay adds and signs.
            Method::Alipay => {
                let url = world.cloud.sandbox.payment(&started.number.to_string()).await.unwrap().return_url.unwrap();
                url.strip_prefix("https://shop.example").unwrap().to_owned()
            }
            _ => format!("/payments/{method}/return?payment={}&session_id=cs_1", started.number),
        };
        let before = world.state().await;
        let waiting = handlers.request(None, "GET", &back, None).await;
        assert_eq!(waiting.status, 200, "{method}: {waiting:?}");
        assert!(
            waiting.text.contains("being confirmed") && waiting.text.contains("http-equiv=\"refresh\""),
            "{method}"
        );
        assert!(waiting.headers["content-security-policy"].to_str().unwrap().contains("default-src 'none'"));
        assert_eq!(world.state().await, before, "{method}: the return page must not change anything");
        assert_eq!(world.order(&order).await.unwrap().status, Status::PendingPayment);
        handlers.deliver_notices(&world).await;
        let paid = handlers.get_with_header(&back, ("accept-language", "zh-CN")).await;
        assert!(paid.text.contains("付款成功") && !paid.text.contains("refresh"), "{method}: {}", paid.text);

        let other = if method == Method::Stripe { "wechat" } else { "stripe" };
        let elsewhere = format!("/payments/{other}/return?payment={}", started.number);
        assert_eq!(handlers.request(None, "GET", &elsewhere, None).await.status, 404, "{method}");
    }
}

#[tokio::test]
async fn a_return_url_without_a_valid_signature_or_payment_shows_nothing() {
    let (world, _, handlers, order) = unpaid_order_of_ann().await;
    let started = world.start_payment(&order, Method::Alipay, 0).await;
    world.pay(&started).await;
    let signed = world.cloud.sandbox.payment(&started.number.to_string()).await.unwrap().return_url.unwrap();
    let signed = signed.strip_prefix("https://shop.example").unwrap();
    let never = "01M73YF03V69FY4XMCZZ6TJE3WN5Y5Y0";
    for (path, status) in [
        (format!("/payments/alipay/return?payment={}", started.number), 400),
        (signed.replace("total_amount=699.00", "total_amount=1.00"), 400),
        ("/payments/alipay/return".to_owned(), 400),
        ("/payments/stripe/return?payment=x".to_owned(), 400),
        (format!("/payments/stripe/return?payment={never}"), 404),
        ("/payments/paypal/return".to_owned(), 404),
    ] {
        assert_ne!(path, signed);
        let answer = handlers.request(None, "GET", &path, None).await;
        assert_eq!(answer.status, status, "{path}: {answer:?}");
        assert!(answer.text.contains("Nothing to show") && !answer.text.contains("Phone"), "{path}");
    }
}
