//! payment-notify: what each kind of notice does, also when it is repeated, and that forged notices do nothing.

use ::payments::sandbox::{Happened, Payment};
use ::payments::{Headers, HttpCall, ProviderKind};
use domain::ids::{OrderId, PaymentNumber};
use domain::order::{Reason, Status};
use domain::payment::{Method, OpenEntry};
use flows::pay::refund::{Asker, Refund, refund};
use local_cloud::engine::sqs::{Receive, Sqs};
use local_cloud::wire::Fault;
use sandbox::Mood;
use serde_json::Value;
use store::Names;
use testkit::paying::PROVIDERS;
use testkit::world::World;

use crate::handlers::{Handlers, payment, payment_secret, signed, unpaid_order_of_ann};

fn kind(method: Method) -> ProviderKind {
    ProviderKind::parse(method.as_str()).unwrap()
}

async fn status(world: &World, order: &OrderId) -> Status {
    world.order(order).await.unwrap().status
}

/// Pays an order at a provider and returns the provider's notice.
async fn paid(world: &World, order: &OrderId, method: Method) -> HttpCall {
    let started = world.start_payment(order, method, 0).await;
    world.pay(&started).await;
    world.cloud.sandbox.due_notices().await.unwrap().pop().unwrap().call
}

#[tokio::test]
async fn a_repeated_notice_settles_once_and_is_acknowledged_each_time() {
    for method in PROVIDERS {
        let (world, offer, handlers, order) = unpaid_order_of_ann().await;
        let notice = paid(&world, &order, method).await;
        for _ in 0..10 {
            let answer = handlers.notify(kind(method), &notice).await;
            assert!(sandbox::is_accepted(kind(method), answer.status, answer.text.as_bytes()), "{answer:?}");
        }
        assert_eq!(status(&world, &order).await, Status::Paid, "{method}");
        assert_eq!(world.figures(&offer).await, (4, 0, 1));
        assert_eq!(handlers.metric("PaymentsSettled", Some(("Provider", method.as_str()))), 1, "{method}");
        assert!(handlers.measured("PaymentTime"), "{method}");
        assert!(!handlers.measured("NoticesRefused"), "{method}");
    }
}

#[tokio::test]
async fn a_notice_that_is_forged_altered_or_stale_changes_nothing_and_is_counted() {
    for method in PROVIDERS {
        let (world, _, handlers, order) = unpaid_order_of_ann().await;
        let notice = paid(&world, &order, method).await;
        let before = world.state().await;
        let text = String::from_utf8(notice.body.clone()).unwrap();
        let turned = text.replacen(order.as_str(), &order.as_str().replace('0', "1"), 1);
        // WeChat Pay v3 encrypts the number, so one character of the ciphertext is changed.
        let altered = if turned == text { text.replacen('A', "B", 1) } else { turned };
        let bodies = [altered.into_bytes(), b"{}".to_vec(), Vec::new(), vec![0xff; 100]];
        for body in &bodies {
            let answer = handlers.notify(kind(method), &HttpCall { body: body.clone(), ..notice.clone() }).await;
            let accepted = sandbox::is_accepted(kind(method), answer.status, answer.text.as_bytes());
            assert!(!accepted, "{method}: {answer:?}");
        }
        let bare = HttpCall { headers: Headers::default(), ..notice.clone() };
        let needs_headers = matches!(method, Method::Wechat | Method::Stripe);
        if needs_headers {
            assert!(handlers.notify(kind(method), &bare).await.status >= 400, "{method}");
            world.pass(301);
            assert!(handlers.notify(kind(method), &notice).await.status >= 400, "{method}");
            assert_eq!(handlers.metric("NoticesRefused", Some(("Kind", "STALE"))), 1, "{method}");
        }
        assert_eq!(world.state().await, before, "{method}");
        let refused = bodies.len() as u64 + if needs_headers { 2 } else { 0 };
        assert_eq!(handlers.metric("NoticesRefused", None), refused, "{method}");
        assert!(!handlers.measured("PaymentTime"), "forged notices are not in the payment times");
    }
}

#[tokio::test]
async fn a_payment_that_does_not_match_any_request_changes_nothing_and_is_counted() {
    for method in PROVIDERS {
        let (world, _, handlers, order) = unpaid_order_of_ann().await;
        let started = world.start_payment(&order, method, 0).await;
        let before = world.state().await;
        let right = payment(&world, kind(method), &started.number.to_string());
        let never = PaymentNumber::new(order.clone(), 9).unwrap().to_string();
        let cases = [
            (Payment { amount: 69_899, ..right.clone() }, "WRONG_PAYMENT"),
            (Payment { number: never, ..right.clone() }, "WRONG_PAYMENT"),
            (Payment { number: "01M73YF03V69FY4XMCZZ6TJE3WN5Y5Y0".into(), ..right }, "UNKNOWN_ORDER"),
        ];
        for (wrong, counted) in cases {
            let before_it = handlers.metric("NoticesRefused", Some(("Kind", counted)));
            let answer = handlers.notify(kind(method), &signed(&world, kind(method), &wrong, Happened::Paid)).await;
            let accepted = sandbox::is_accepted(kind(method), answer.status, answer.text.as_bytes());
            assert!(!accepted, "{method}: {answer:?}");
            assert_eq!(handlers.metric("NoticesRefused", Some(("Kind", counted))), before_it + 1, "{method}");
        }
        assert_eq!(without_ledger(world.state().await), without_ledger(before), "{method}: but for the matters");
        let open = world.store.open_entries().await.unwrap().entries.read;
        let kinds: Vec<_> = open
            .iter()
            .map(|entry| if let OpenEntry::Matter(matter) = entry { matter.kind } else { panic!("{entry:?}") })
            .collect();
        assert_eq!(kinds.len(), 2, "{method}: {kinds:?}");
    }
}

/// Everything but the ledger.
fn without_ledger<T>(mut state: std::collections::BTreeMap<String, T>) -> std::collections::BTreeMap<String, T> {
    state.retain(|table, _| !table.contains("Ledger"));
    state
}

#[tokio::test]
async fn a_failed_payment_closes_its_order() {
    let (world, offer, handlers, order) = unpaid_order_of_ann().await;
    let started = world.start_payment(&order, Method::Stripe, 0).await;
    world.open_link(&started).await;
    world.cloud.sandbox.fail(&started.number.to_string()).await.unwrap();
    for _ in 0..3 {
        let answers = handlers.deliver_notices(&world).await;
        assert!(!answers.is_empty() && answers.iter().all(|answer| answer.status == 200), "{answers:?}");
        world.cloud.sandbox.notify_again(&started.number.to_string()).await.unwrap();
    }
    let closed = world.order(&order).await.unwrap();
    assert_eq!((closed.status, closed.reason), (Status::Closed, Some(Reason::PaymentFailed)));
    assert_eq!(world.figures(&offer).await, (5, 0, 0));
    assert_eq!(handlers.metric("OrdersClosed", Some(("Reason", "PAYMENT_FAILED"))), 1);
}

/// WeChat Pay v2 closes no payment within five minutes, so its notice must be delivered again later.
#[tokio::test]
async fn a_failure_notice_that_cannot_be_handled_yet_is_answered_with_try_again() {
    let (world, _, handlers, order) = unpaid_order_of_ann().await;
    let started = world.start_payment(&order, Method::WechatV2, 0).await;
    world.open_link(&started).await;
    world.cloud.sandbox.fail(&started.number.to_string()).await.unwrap();
    let answers = handlers.deliver_notices(&world).await;
    assert_eq!(answers.iter().map(|answer| answer.status).collect::<Vec<_>>(), [503]);
    assert_eq!(status(&world, &order).await, Status::PendingPayment);
    for _ in 0..6 {
        world.pass(180);
        handlers.deliver_notices(&world).await;
    }
    let closed = world.order(&order).await.unwrap();
    assert_eq!((closed.status, closed.reason), (Status::Closed, Some(Reason::PaymentFailed)));
}

#[tokio::test]
async fn a_payment_that_its_provider_closed_is_removed_and_the_order_stays_pending() {
    for method in [Method::Alipay, Method::Stripe] {
        let world = World::new().await;
        let offer = world.sale_of(5, |item| item.points_price = Some(1_000)).await;
        let handlers = Handlers::of(&world);
        world.give_points("ann", 1_000).await;
        let order = world.unpaid_order(&offer, "ann").await;
        let started = world.start_payment(&order, method, 100).await;
        assert_eq!(world.points_of("ann").await, (900, 100));
        let closed = payment(&world, kind(method), &started.number.to_string());
        let closed = Payment { amount: started.amount, ..closed };
        let notice = signed(&world, kind(method), &closed, Happened::Closed);
        for _ in 0..3 {
            assert_eq!(handlers.notify(kind(method), &notice).await.status, 200);
        }
        let waiting = world.order(&order).await.unwrap();
        assert_eq!((waiting.status, &waiting.payment), (Status::PendingPayment, &None), "{method}");
        assert_eq!(world.points_of("ann").await, (1_000, 0), "{method}");

        let again = world.start_payment(&order, Method::Wechat, 100).await;
        assert_eq!(handlers.notify(kind(method), &notice).await.status, 200);
        let waiting = world.order(&order).await.unwrap();
        assert!(waiting.payment.is_some(), "an old notice does not touch the new payment");
        world.pay(&again).await;
        handlers.deliver_notices(&world).await;
        assert_eq!(status(&world, &order).await, Status::Paid);
        assert_eq!(world.points_of("ann").await, (900, 0));
    }
}

#[tokio::test]
async fn a_refund_in_flight_ends_with_its_notice() {
    for method in [Method::Alipay, Method::Wechat, Method::Stripe] {
        let (world, offer, handlers, order) = unpaid_order_of_ann().await;
        let started = world.start_payment(&order, method, 0).await;
        world.pay(&started).await;
        handlers.deliver_notices(&world).await;
        world.cloud.sandbox.set_mood(kind(method), Mood::WrongSignature, Some(2));
        let asked = refund(world.context(), &order, Asker::Operator).await.unwrap();
        assert!(matches!(asked, Refund::UnderWay(_)), "{method}: {asked:?}");
        world.cloud.sandbox.set_mood(kind(method), Mood::Well, None);
        let transaction = world.order(&order).await.unwrap().paid.unwrap().transaction;
        let back = Payment { transaction, ..payment(&world, kind(method), &started.number.to_string()) };
        let notice = signed(&world, kind(method), &back, Happened::Refunded);
        for _ in 0..3 {
            let answer = handlers.notify(kind(method), &notice).await;
            assert!(answer.status < 300, "{method}: {answer:?}");
        }
        assert_eq!(status(&world, &order).await, Status::Refunded, "{method}");
        assert_eq!(world.figures(&offer).await, (5, 0, 0));
        assert_eq!(handlers.metric("Refunds", None), 1, "{method}");
        world.settle_fully().await;
        world.records_agree(&offer, std::slice::from_ref(&order)).await.unwrap();
    }
}

#[tokio::test]
async fn a_late_payment_without_a_free_unit_is_refunded_and_counted() {
    let world = World::new().await;
    let offer = world.sale(1, 1).await;
    let handlers = Handlers::of(&world);
    let order = world.unpaid_order(&offer, "ann").await;
    let started = world.start_payment(&order, Method::Wechat, 0).await;
    world.pass(1_000);
    world.settle_down().await;
    assert_eq!(status(&world, &order).await, Status::Closed);
    world.unpaid_order(&offer, "bob").await;
    world.pay_late(&started).await;
    for answer in handlers.deliver_notices(&world).await {
        assert!(answer.status < 300, "{answer:?}");
    }
    assert_eq!(status(&world, &order).await, Status::Closed);
    assert_eq!(handlers.metric("Refunds", None), 1);
    assert_eq!(handlers.metric("PaymentsSettled", None), 0);
}

#[tokio::test]
async fn a_notice_is_answered_with_try_again_while_the_database_is_down() {
    let (world, _, handlers, order) = unpaid_order_of_ann().await;
    let notice = paid(&world, &order, Method::Stripe).await;
    let orders = world.names().orders.clone();
    world.fault(move |call| if call.resource().as_deref() == Some(&orders) { Fault::ServerError } else { Fault::None });
    assert_eq!(handlers.notify(ProviderKind::Stripe, &notice).await.status, 503);
    assert!(!handlers.measured("NoticesRefused"), "a genuine notice is not counted as refused");
    world.clear_faults();
    assert_eq!(handlers.notify(ProviderKind::Stripe, &notice).await.status, 200);
    assert_eq!(status(&world, &order).await, Status::Paid);
}

#[tokio::test]
async fn a_rotated_key_is_read_again() {
    let (world, _, handlers, order) = unpaid_order_of_ann().await;
    let notice = paid(&world, &order, Method::Stripe).await;
    let secret = payment_secret();
    let right = world.cloud.secrets.get(&secret).await.unwrap().unwrap().value;
    let mut wrong: Value = serde_json::from_str(&right).unwrap();
    wrong["stripe"]["webhookSecrets"] = serde_json::json!(["whsec_another_one"]);
    world.cloud.secrets.put(&secret, wrong.to_string()).await.unwrap();
    world.pass(10);
    // Settings are cached for five minutes, so another world reads the wrong ones.
    let fresh = World::on(world.cloud.clone());
    let fresh_handlers = Handlers::of(&fresh);
    assert_eq!(fresh_handlers.notify(ProviderKind::Stripe, &notice).await.status, 400);
    world.cloud.secrets.put(&secret, right).await.unwrap();
    fresh.pass(61);
    assert_eq!(fresh_handlers.notify(ProviderKind::Stripe, &notice).await.status, 200);
    assert_eq!(status(&world, &order).await, Status::Paid);
    drop(handlers);
}

#[tokio::test]
async fn notices_of_unknown_or_unconfigured_providers_are_refused() {
    let world = World::new().await;
    let handlers = Handlers::of(&world);
    let notice = signed(&world, ProviderKind::Alipay, &payment(&world, ProviderKind::Alipay, "A-17"), Happened::Paid);
    let answer = handlers.notify_as("paypal", &notice).await;
    assert_eq!((answer.status, answer.code().as_str()), (404, "NOT_FOUND"));
    let long = HttpCall { body: vec![b'x'; ::payments::MAX_NOTICE + 1], ..notice.clone() };
    let answer = handlers.notify(ProviderKind::Alipay, &long).await;
    assert_eq!((answer.status, answer.code().as_str()), (413, "TOO_LARGE"));
    assert_eq!(handlers.metric("NoticesRefused", Some(("Kind", "TOO_LARGE"))), 1);

    world.cloud.secrets.put(&payment_secret(), "{}").await.unwrap();
    let answer = Handlers::of(&World::on(world.cloud.clone())).notify(ProviderKind::Alipay, &notice).await;
    assert_eq!((answer.status, answer.code().as_str()), (404, "NOT_FOUND"));
    assert!(answer.text.contains("alipay is not configured"), "{}", answer.text);
}

#[tokio::test]
async fn a_notice_about_an_order_of_the_shop_itself_is_forwarded_to_its_queue() {
    for kind in ProviderKind::ALL {
        let world = World::new().await;
        let order = Payment { order_type: "1".into(), ..payment(&world, kind, "A-17") };
        let notice = signed(&world, kind, &order, Happened::Paid);
        let nowhere = Handlers::of(&world);
        assert_eq!(nowhere.notify(kind, &notice).await.status, 503, "{kind}");
        assert_eq!(nowhere.metric("NoticesRefused", Some(("Kind", "NO_SHOP_QUEUE"))), 1, "{kind}");

        // Any queue can stand for the shop's.
        let queue = world.names().orders_dead_letters_url.clone().unwrap();
        let handlers = Handlers::with(&world, Names { shop_queue_url: Some(queue.clone()), ..world.names().clone() });
        let answer = handlers.notify(kind, &notice).await;
        assert!(sandbox::is_accepted(kind, answer.status, answer.text.as_bytes()), "{kind}: {answer:?}");
        let messages = world.cloud.sqs.receive(Sqs::name_of(&queue), Receive::default()).await.unwrap();
        let message: Value = serde_json::from_str(&messages[0].body).unwrap();
        assert_eq!((&message["number"], &message["outcome"]), (&"A-17".into(), &"PAID".into()), "{kind}: {message}");
        assert_eq!((&message["provider"], &message["amount"]), (&kind.as_str().into(), &69_900.into()), "{kind}");
        assert_eq!(
            message["notice"].as_str().unwrap().as_bytes(),
            notice.body,
            "{kind}: the notice must be forwarded unchanged"
        );
        assert_eq!(handlers.metric("NoticesForwarded", None), 1);
    }
}
