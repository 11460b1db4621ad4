//! Paying, refunding and closing, with every provider, and with providers that fail.

use domain::bucket::MovementKind;
use domain::ids::OrderId;
use domain::order::{Reason, Status};
use domain::payment::{Method, OpenEntry};
use flows::FlowError;
use flows::buy::purchase::Refusal;
use flows::pay::close::{Cause, CloseOutcome, close};
use flows::pay::refund::{Asker, Refund, refund};
use flows::pay::settle::{Settled, settle};
use flows::pay::start_payment::NotStarted;
use local_cloud::wire::Fault;
use payments::ProviderKind;
use sandbox::Mood;
use testkit::paying::{PROVIDERS, arrived};
use testkit::world::World;

async fn status(world: &World, order: &OrderId) -> Status {
    world.order(order).await.unwrap().status
}

async fn entries(world: &World, order: &OrderId) -> Vec<String> {
    let entries = world.store.entries(order).await.unwrap();
    entries.iter().map(|entry| entry["entry"].as_s().unwrap().clone()).collect()
}

fn kind(method: Method) -> ProviderKind {
    ProviderKind::parse(method.as_str()).unwrap()
}

#[tokio::test]
async fn an_order_can_be_paid_refunded_and_bought_again_with_every_provider() {
    for method in PROVIDERS {
        let world = World::new().await;
        let offer = world.sale(5, 1).await;
        let order = world.unpaid_order(&offer, "ann").await;
        let started = world.start_payment(&order, method, 0).await;
        assert_eq!((started.amount, started.points, started.paid), (69_900, 0, false));
        assert!(started.link.pay_url.is_some() || started.link.qr_code.is_some(), "{method}");
        world.pay(&started).await;
        assert_eq!(status(&world, &order).await, Status::PendingPayment, "the notice is not delivered yet");
        assert!(world.deliver_notices().await > 0);
        assert_eq!(status(&world, &order).await, Status::Paid, "{method}");
        assert_eq!(world.figures(&offer).await, (4, 0, 1));

        let first = refund(world.context(), &order, Asker::Operator).await.unwrap();
        assert!(matches!(first, Refund::Done { .. } | Refund::UnderWay(_)), "{method}: {first:?}");
        world.settle_fully().await;
        assert_eq!(status(&world, &order).await, Status::Refunded, "{method}");
        assert_eq!(world.figures(&offer).await, (5, 0, 0));
        world.stream().await;
        let log = entries(&world, &order).await;
        for kind in [MovementKind::Deduct, MovementKind::Confirm, MovementKind::Refund] {
            assert_eq!(log.iter().filter(|entry| kind.has_entry(entry)).count(), 1, "{log:?}");
        }
        world.records_agree(&offer, std::slice::from_ref(&order)).await.unwrap();

        let again = world.unpaid_order(&offer, "ann").await;
        assert_ne!(again, order);
        assert_eq!(status(&world, &again).await, Status::PendingPayment);
    }
}

#[tokio::test]
async fn a_repeated_request_returns_the_same_payment() {
    for method in PROVIDERS {
        let world = World::new().await;
        let offer = world.sale(5, 1).await;
        let order = world.unpaid_order(&offer, "ann").await;
        let first = world.start_payment(&order, method, 0).await;
        world.pass(60);
        let second = world.start_payment(&order, method, 0).await;
        assert_eq!(first, second, "{method}");
    }
}

#[tokio::test]
async fn changing_the_method_closes_the_open_payment_and_the_first_method_can_be_used_again() {
    let world = World::new().await;
    let offer = world.sale(5, 1).await;
    let order = world.unpaid_order(&offer, "ann").await;
    let wechat = world.start_payment(&order, Method::Wechat, 0).await;
    let stripe = world.start_payment(&order, Method::Stripe, 0).await;
    assert_ne!(wechat.number, stripe.number);
    assert!(world.cloud.sandbox.pay(&wechat.number.to_string()).await.is_err(), "it is closed");
    let back = world.start_payment(&order, Method::Wechat, 0).await;
    assert!(back.number != wechat.number && back.number != stripe.number);
    world.pay(&back).await;
    world.deliver_notices().await;
    assert_eq!(status(&world, &order).await, Status::Paid);
    world.settle_fully().await;
    world.records_agree(&offer, &[order]).await.unwrap();
}

#[tokio::test]
async fn a_payment_at_wechat_v2_cannot_be_closed_within_five_minutes() {
    let world = World::new().await;
    let offer = world.sale(5, 1).await;
    let order = world.unpaid_order(&offer, "ann").await;
    let v2 = world.start_payment(&order, Method::WechatV2, 0).await;
    let refused = world.try_start_payment(&order, Method::Alipay, 0).await.unwrap_err();
    assert!(matches!(refused, NotStarted::OtherOpenUntil(_)), "{refused:?}");
    let closing = close(world.context(), &order, Cause::Buyer).await.unwrap();
    assert!(matches!(closing, CloseOutcome::NotBefore(..)), "{closing:?}");
    assert_eq!(world.start_payment(&order, Method::WechatV2, 0).await, v2, "it can still be paid");
    world.pass(301);
    let closing = close(world.context(), &order, Cause::Buyer).await.unwrap();
    assert!(matches!(closing, CloseOutcome::Closed(_)), "{closing:?}");
}

#[tokio::test]
async fn an_order_cannot_be_paid_before_it_exists_after_its_deadline_or_twice() {
    let world = World::new().await;
    let offer = world.sale(5, 1).await;
    let queued = world.buys(&offer, "bob").await;
    assert!(matches!(world.try_start_payment(&queued, Method::Alipay, 0).await, Err(NotStarted::UnknownOrder)));
    world.consume().await;
    let started = world.start_payment(&queued, Method::Alipay, 0).await;
    world.pay(&started).await;
    world.deliver_notices().await;
    let again = world.try_start_payment(&queued, Method::Wechat, 0).await;
    assert!(matches!(again, Err(NotStarted::WrongStatus(Status::Paid))), "{again:?}");
    let order = world.unpaid_order(&offer, "ann").await;
    world.pass(900);
    assert!(matches!(world.try_start_payment(&order, Method::Alipay, 0).await, Err(NotStarted::TooLate)));
}

#[tokio::test]
async fn a_timeout_closes_the_payment_at_the_provider() {
    for method in PROVIDERS {
        let world = World::new().await;
        let offer = world.sale(5, 1).await;
        let order = world.unpaid_order(&offer, "ann").await;
        let started = world.start_payment(&order, method, 0).await;
        world.open_link(&started).await;
        world.pass(901);
        assert_eq!(world.deadlines().await, 1);
        let closed = world.order(&order).await.unwrap();
        assert_eq!((closed.status, closed.reason), (Status::Closed, Some(Reason::TimedOut)), "{method}");
        assert!(
            world.cloud.sandbox.pay(&started.number.to_string()).await.is_err(),
            "{method}: it is closed there too"
        );
        assert_eq!(world.figures(&offer).await, (5, 0, 0));
    }
}

#[tokio::test]
async fn a_close_that_finds_the_payment_made_settles_the_order() {
    for method in PROVIDERS {
        for cause in [Cause::Deadline, Cause::Buyer] {
            let world = World::new().await;
            let offer = world.sale(5, 1).await;
            let order = world.unpaid_order(&offer, "ann").await;
            let started = world.start_payment(&order, method, 0).await;
            world.pay(&started).await;
            // The notice is lost.
            world.pass(899);
            let at = world.order(&order).await.unwrap().pay_by;
            let closing = close(world.context_at(at), &order, cause).await.unwrap();
            assert!(matches!(closing, CloseOutcome::Paid { .. }), "{method} {cause:?}: {closing:?}");
            assert_eq!(status(&world, &order).await, Status::Paid);
            assert_eq!(world.figures(&offer).await, (4, 0, 1));
        }
    }
}

#[tokio::test]
async fn a_late_payment_revives_the_order_if_a_unit_is_free() {
    for method in PROVIDERS {
        let world = World::new().await;
        let offer = world.sale(2, 1).await;
        let order = world.unpaid_order(&offer, "ann").await;
        let started = world.start_payment(&order, method, 0).await;
        world.open_link(&started).await;
        world.pass(901);
        world.settle_down().await;
        assert_eq!(status(&world, &order).await, Status::Closed);
        world.pay_late(&started).await;
        world.deliver_notices().await;
        let revived = world.order(&order).await.unwrap();
        assert_eq!((revived.status, revived.reason), (Status::Paid, None), "{method}");
        assert_eq!(world.figures(&offer).await, (1, 0, 1));
        world.settle_fully().await;
        world.records_agree(&offer, std::slice::from_ref(&order)).await.unwrap();
        assert!(entries(&world, &order).await.iter().any(|entry| MovementKind::Revive.has_entry(entry)));
        // It is the buyer's live order again.
        let again = world.press(&offer, "ann").await;
        assert!(matches!(&again, Err(Refusal::Duplicate(first)) if *first == order), "{method}: {again:?}");
    }
}

#[tokio::test]
async fn a_late_payment_is_refunded_if_no_unit_is_free_or_the_buyer_has_bought_again() {
    for by_another in [true, false] {
        let world = World::new().await;
        let offer = world.sale(if by_another { 1 } else { 5 }, 1).await;
        let order = world.unpaid_order(&offer, "ann").await;
        let started = world.start_payment(&order, Method::Wechat, 0).await;
        close(world.context(), &order, Cause::Buyer).await.unwrap();
        world.stream().await;
        let other = world.unpaid_order(&offer, if by_another { "bob" } else { "ann" }).await;
        world.pay_late(&started).await;
        world.deliver_notices().await;
        assert_eq!(status(&world, &order).await, Status::Closed);
        assert_eq!(status(&world, &other).await, Status::PendingPayment);
        let money = world.cloud.sandbox.money().await.unwrap();
        assert_eq!(money.iter().map(|entry| entry.refund.is_some()).collect::<Vec<_>>(), [false, true]);
        let log = entries(&world, &order).await;
        assert!(log.iter().any(|entry| entry.starts_with("PAY#")), "{log:?}");
        assert!(log.iter().any(|entry| entry.starts_with("REFUND#")), "{log:?}");
    }
}

#[tokio::test]
async fn a_second_payment_is_refunded() {
    let world = World::new().await;
    let offer = world.sale(5, 1).await;
    let order = world.unpaid_order(&offer, "ann").await;
    let alipay = world.start_payment(&order, Method::Alipay, 0).await;
    world.open_link(&alipay).await;
    let stripe = world.start_payment(&order, Method::Stripe, 0).await;
    world.pay(&stripe).await;
    world.pay_late(&alipay).await;
    world.deliver_notices().await;
    assert_eq!(status(&world, &order).await, Status::Paid);
    world.settle_fully().await;
    let refunds = world.cloud.sandbox.money().await.unwrap().into_iter().filter(|entry| entry.refund.is_some()).count();
    assert_eq!(refunds, 1);
    world.records_agree(&offer, &[order]).await.unwrap();
}

#[tokio::test]
async fn a_failed_payment_closes_its_order_unless_another_payment_is_open() {
    for method in [Method::WechatV2, Method::Stripe] {
        let world = World::new().await;
        let offer = world.sale(5, 1).await;
        let order = world.unpaid_order(&offer, "ann").await;
        let started = world.start_payment(&order, method, 0).await;
        world.pass(301);
        world.cloud.sandbox.fail(&started.number.to_string()).await.unwrap();
        let failure = world.cloud.sandbox.due_notices().await.unwrap().remove(0);
        if method == Method::Stripe {
            // The buyer has changed the method before the failure is reported.
            let other = world.unpaid_order(&offer, "bob").await;
            let failed = world.start_payment(&other, method, 0).await;
            let open = world.start_payment(&other, Method::Wechat, 0).await;
            let cause = Cause::PaymentFailed { attempt: failed.number.attempt() };
            let closing = close(world.context(), &other, cause).await.unwrap();
            assert!(matches!(closing, CloseOutcome::NotDue(_)), "{closing:?}");
            assert_eq!(world.start_payment(&other, Method::Wechat, 0).await, open);
        }
        assert!(world.deliver_notice(&failure).await);
        let closed = world.order(&order).await.unwrap();
        assert_eq!((closed.status, closed.reason), (Status::Closed, Some(Reason::PaymentFailed)), "{method}");
        assert!(world.press(&offer, "ann").await.is_ok(), "the buyer may buy again");
    }
}

#[tokio::test]
async fn a_payment_with_a_wrong_amount_currency_method_or_attempt_changes_nothing() {
    let world = World::new().await;
    let offer = world.sale(5, 1).await;
    let order = world.unpaid_order(&offer, "ann").await;
    let started = world.start_payment(&order, Method::Wechat, 0).await;
    world.pay(&started).await;
    let due = world.cloud.sandbox.due_notices().await.unwrap().remove(0);
    let provider = world.providers.get(due.kind, world.now()).await.unwrap();
    let good = arrived(&provider.notice(&due.call.headers, &due.call.body, world.now()).unwrap());
    let before = world.state().await;
    let mut wrongs = vec![good.clone(); 4];
    wrongs[0].amount -= 1;
    wrongs[1].currency = domain::money::Currency::parse("USD").unwrap();
    wrongs[2].method = Method::Alipay;
    wrongs[3].attempt = 7;
    for wrong in wrongs {
        let settled = settle(world.context(), &wrong).await.unwrap();
        assert!(matches!(settled, Settled::Wrong(_)), "{wrong:?}");
    }
    let mut now = world.state().await;
    let mut before = before;
    now.retain(|table, _| !table.contains("Ledger"));
    before.retain(|table, _| !table.contains("Ledger"));
    assert_eq!(now, before, "an operator finds the matters; nothing else changes");
    let mut unknown = good.clone();
    unknown.order = world.buys(&offer, "nobody-yet").await;
    assert_eq!(settle(world.context(), &unknown).await.unwrap(), Settled::Unknown);
    assert!(matches!(settle(world.context(), &good).await.unwrap(), Settled::Paid(_)));
    assert!(matches!(settle(world.context(), &good).await.unwrap(), Settled::AlreadyPaid(_)));
}

#[tokio::test]
async fn an_order_keeps_its_units_while_its_provider_fails() {
    for mood in [Mood::Down, Mood::Rubbish, Mood::WrongSignature] {
        for method in PROVIDERS {
            let world = World::new().await;
            let offer = world.sale(5, 1).await;
            let order = world.unpaid_order(&offer, "ann").await;
            world.cloud.sandbox.set_mood(kind(method), mood, None);
            let refused = world.try_start_payment(&order, method, 0).await;
            // Alipay's page is a signed link, so no call is made.
            if method != Method::Alipay || refused.is_err() {
                assert!(
                    matches!(refused, Err(NotStarted::FlowError(FlowError::Provider { .. }))),
                    "{mood:?} {refused:?}"
                );
            }
            world.cloud.sandbox.set_mood(kind(method), Mood::Well, None);
            let started = world.start_payment(&order, method, 0).await;
            world.open_link(&started).await;

            world.pass(901);
            world.cloud.sandbox.set_mood(kind(method), mood, None);
            assert_eq!(world.deadlines().await, 0, "{mood:?} {method}");
            world.pass(300);
            let report = world.reconcile().await;
            assert_eq!((report.closed, report.errors.len()), (0, 1), "{mood:?} {method}: {report:?}");
            assert_eq!(status(&world, &order).await, Status::PendingPayment, "{mood:?} {method}");
            assert_eq!(world.figures(&offer).await, (4, 1, 0), "{mood:?} {method}");

            world.cloud.sandbox.set_mood(kind(method), Mood::Well, None);
            assert_eq!(world.reconcile().await.closed, 1, "{mood:?} {method}");
            assert_eq!(world.figures(&offer).await, (5, 0, 0));
        }
    }
}

#[tokio::test]
async fn a_refund_that_fails_at_the_provider_is_retried() {
    for mood in [Mood::Down, Mood::Rubbish, Mood::WrongSignature] {
        for method in PROVIDERS {
            let world = World::new().await;
            let offer = world.sale(5, 1).await;
            let order = world.unpaid_order(&offer, "ann").await;
            let started = world.start_payment(&order, method, 0).await;
            world.pay(&started).await;
            world.deliver_notices().await;
            world.cloud.sandbox.set_mood(kind(method), mood, None);
            let asked = refund(world.context(), &order, Asker::Operator).await.unwrap();
            assert!(matches!(asked, Refund::UnderWay(_)), "{mood:?} {method}: {asked:?}");
            assert_eq!(world.figures(&offer).await, (4, 0, 1), "the unit stays sold until the money is refunded");
            world.pass(60);
            world.reconcile().await;
            let open = world.store.open_entries().await.unwrap().entries.read;
            assert!(matches!(&open[..], [OpenEntry::Refund(entry)] if entry.tries == 2), "{open:?}");
            world.cloud.sandbox.set_mood(kind(method), Mood::Well, None);
            world.settle_fully().await;
            assert_eq!(status(&world, &order).await, Status::Refunded, "{mood:?} {method}");
            world.records_agree(&offer, &[order]).await.unwrap();
        }
    }
}

#[tokio::test]
async fn only_a_paid_order_can_be_refunded() {
    let world = World::new().await;
    let offer = world.sale(5, 1).await;
    let order = world.unpaid_order(&offer, "ann").await;
    let refused = refund(world.context(), &order, Asker::Operator).await.unwrap();
    assert!(matches!(refused, Refund::Refused(_)));
    close(world.context(), &order, Cause::Buyer).await.unwrap();
    let refused = refund(world.context(), &order, Asker::Operator).await.unwrap();
    assert!(matches!(refused, Refund::Refused(_)));
    let queued = world.buys(&offer, "bob").await;
    assert_eq!(refund(world.context(), &queued, Asker::Operator).await.unwrap(), Refund::Unknown);
}

#[tokio::test]
async fn reconcile_stops_asking_a_provider_that_does_not_answer_and_closes_other_orders() {
    let world = World::new().await;
    let offer = world.sale(60, 1).await;
    for buyer in 0..40 {
        let order = world.unpaid_order(&offer, &format!("buyer {buyer}")).await;
        world.start_payment(&order, Method::Wechat, 0).await;
    }
    let other = world.unpaid_order(&offer, "ann").await;
    // The schedules of the deadlines are lost.
    world.pass(1_000);
    world.cloud.sandbox.set_mood(ProviderKind::WechatV3, Mood::Down, None);
    world.wire.forget_calls();
    let report = world.reconcile().await;
    let asked = world.wire.calls().iter().filter(|call| call.operation == "Close").count();
    assert!((16..32).contains(&asked), "the provider was asked about {asked} of 40 orders");
    assert_eq!((report.errors.len(), report.closed), (asked + 1, 1), "{report:?}: one line for those left out");
    assert_eq!(status(&world, &other).await, Status::Closed);
    world.cloud.sandbox.set_mood(ProviderKind::WechatV3, Mood::Well, None);
    assert_eq!(world.reconcile().await.closed, 40);
    assert_eq!(world.figures(&offer).await, (60, 0, 0));
}

#[tokio::test]
async fn an_order_that_the_provider_calls_paid_is_not_closed_while_its_query_fails() {
    let world = World::new().await;
    let offer = world.sale(5, 1).await;
    let order = world.unpaid_order(&offer, "ann").await;
    let started = world.start_payment(&order, Method::Wechat, 0).await;
    world.pay(&started).await;
    // The provider's query fails, and its close answers that the payment was made.
    world.fault(|call| match call.operation.as_str() {
        "Query" if call.service == local_cloud::engine::Service::Outside => Fault::ServerError,
        _ => Fault::None,
    });
    assert!(close(world.context(), &order, Cause::Buyer).await.is_err());
    assert_eq!(status(&world, &order).await, Status::PendingPayment);
    world.clear_faults();
    let closing = close(world.context(), &order, Cause::Buyer).await.unwrap();
    assert!(matches!(closing, CloseOutcome::Paid { .. }), "{closing:?}");
}
