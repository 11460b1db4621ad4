//! Money at its edges: what providers and people really do.

use domain::ids::{Offer, OrderId};
use domain::order::{Reason, Status};
use domain::payment::{MatterKind, Method, OpenEntry, RefundEntry, Resolution};
use flows::FlowError;
use flows::pay::close::{Cause, CloseOutcome, close};
use flows::pay::refund::{Asker, Refund, refund};
use flows::pay::resolve::{Resolve, ResolveOutcome, resolve};
use flows::pay::start_payment::{NotStarted, Started};
use payments::ProviderKind;
use sandbox::{Action, Mood};
use testkit::paying::PROVIDERS;
use testkit::world::World;

fn kind(method: Method) -> ProviderKind {
    ProviderKind::parse(method.as_str()).unwrap()
}

async fn status(world: &World, order: &OrderId) -> Status {
    world.order(order).await.unwrap().status
}

async fn does(world: &World, started: &Started, action: Action) {
    world.cloud.sandbox.act(None, &started.number.to_string(), action).await.unwrap();
}

/// An order that is paid with a method.
async fn paid_order(world: &World, offer: &Offer, method: Method) -> (OrderId, Started) {
    let order = world.unpaid_order(offer, "ann").await;
    let started = world.start_payment(&order, method, 0).await;
    world.pay(&started).await;
    world.deliver_notices().await;
    assert_eq!(status(world, &order).await, Status::Paid, "{method}");
    (order, started)
}

/// What the provider has kept of a payment, by its own books.
async fn kept(world: &World, started: &Started) -> i64 {
    let number = started.number.to_string();
    let money = world.cloud.sandbox.money().await.unwrap();
    let signed = |entry: &sandbox::MoneyEntry| if entry.refund.is_some() { -entry.amount } else { entry.amount };
    money.iter().filter(|entry| entry.number == number).map(signed).sum()
}

async fn open_refund(world: &World) -> RefundEntry {
    let open = world.store.open_entries().await.unwrap().entries.read;
    let refunds: Vec<_> = open
        .into_iter()
        .filter_map(|entry| match entry {
            OpenEntry::Refund(entry) => Some(entry),
            _ => None,
        })
        .collect();
    assert_eq!(refunds.len(), 1, "{refunds:?}");
    refunds[0].clone()
}

async fn matters(world: &World) -> Vec<MatterKind> {
    let open = world.store_of("admin").open_entries().await.unwrap().entries.read;
    open.iter()
        .filter_map(|entry| match entry {
            OpenEntry::Matter(matter) => Some(matter.kind),
            _ => None,
        })
        .collect()
}

/// Lets an hour pass a few times: every refund is due again.
async fn hours(world: &World) {
    for _ in 0..3 {
        world.pass(3_700);
        world.reconcile().await;
        world.deliver_notices().await;
    }
}

async fn resolved(world: &World, order: &OrderId, resolution: Resolution) -> ResolveOutcome {
    let asked = Resolve { order: order.clone(), resolution, reason: "by phone".into(), by: "operator".into() };
    resolve(&world.store_of("admin"), &asked, world.now()).await.unwrap()
}

#[tokio::test]
async fn a_failed_refund_is_asked_for_again_under_a_new_number_and_never_reported_as_done() {
    for method in PROVIDERS {
        let world = World::new().await;
        let offer = world.long_sale(5).await;
        let (order, started) = paid_order(&world, &offer, method).await;
        world.cloud.sandbox.set_mood(kind(method), Mood::RefundsFail, Some(2));
        refund(world.context(), &order, Asker::Buyer).await.unwrap();
        for _ in 0..2 {
            assert_eq!(status(&world, &order).await, Status::Refunding, "{method}: no money went back");
            assert_eq!(world.figures(&offer).await, (4, 0, 1), "{method}: the unit is not resold");
            world.pass(130);
            world.reconcile().await;
        }
        assert!(kept(&world, &started).await > 0 || status(&world, &order).await == Status::Refunded, "{method}");
        hours(&world).await;
        assert_eq!((status(&world, &order).await, kept(&world, &started).await), (Status::Refunded, 0), "{method}");
        assert_eq!(world.figures(&offer).await, (5, 0, 0), "{method}");
        world.records_agree(&offer, &[order]).await.unwrap();
    }
}

#[tokio::test]
async fn a_refund_that_the_provider_is_working_on_is_not_asked_for_twice() {
    for method in [Method::Stripe, Method::Wechat, Method::WechatV2, Method::Alipay] {
        let world = World::new().await;
        let offer = world.long_sale(5).await;
        let (order, started) = paid_order(&world, &offer, method).await;
        world.cloud.sandbox.set_mood(kind(method), Mood::RefundsPend, None);
        refund(world.context(), &order, Asker::Buyer).await.unwrap();
        hours(&world).await;
        assert_eq!(status(&world, &order).await, Status::Refunding, "{method}");
        let money = world.cloud.sandbox.money().await.unwrap();
        assert_eq!(money.iter().filter(|entry| entry.refund.is_some()).count(), 1, "{method}: {money:?}");
        does(&world, &started, Action::FinishRefund).await;
        hours(&world).await;
        assert_eq!(status(&world, &order).await, Status::Refunded, "{method}");
        world.records_agree(&offer, &[order]).await.unwrap();
    }
}

#[tokio::test]
async fn a_pending_refund_that_fails_is_asked_for_again() {
    let world = World::new().await;
    let offer = world.long_sale(5).await;
    let (order, started) = paid_order(&world, &offer, Method::Stripe).await;
    world.cloud.sandbox.set_mood(ProviderKind::Stripe, Mood::RefundsPend, Some(1));
    refund(world.context(), &order, Asker::Buyer).await.unwrap();
    does(&world, &started, Action::FailRefund).await;
    assert_eq!(status(&world, &order).await, Status::Refunding);
    hours(&world).await;
    assert_eq!((status(&world, &order).await, kept(&world, &started).await), (Status::Refunded, 0));
    assert_eq!(open_matters_and_refunds(&world).await, 0);
    world.records_agree(&offer, &[order]).await.unwrap();
}

async fn open_matters_and_refunds(world: &World) -> usize {
    world.store.open_entries().await.unwrap().entries.read.len()
}

#[tokio::test]
async fn a_refund_that_fails_after_it_was_done_is_opened_again_and_made() {
    let world = World::new().await;
    let offer = world.long_sale(5).await;
    let (order, started) = paid_order(&world, &offer, Method::Stripe).await;
    let done = refund(world.context(), &order, Asker::Buyer).await.unwrap();
    assert!(matches!(done, Refund::Done { .. }), "{done:?}");
    world.deliver_notices().await;
    world.pass(86_400);
    does(&world, &started, Action::FailRefund).await;
    assert!(kept(&world, &started).await > 0, "the money is with the shop again");
    world.deliver_notices().await;
    let entry = open_refund(&world).await;
    assert!(entry.done_at.is_none() && entry.rounds == 1, "{entry:?}");
    assert_eq!(matters(&world).await, [MatterKind::LateRefundFailure]);
    assert_eq!(status(&world, &order).await, Status::Refunded, "its unit may be sold to somebody else");
    hours(&world).await;
    assert_eq!(kept(&world, &started).await, 0, "the buyer has the money");
    world.records_agree(&offer, &[order]).await.unwrap();
}

#[tokio::test]
async fn after_a_server_error_at_session_creation_the_next_request_is_a_new_attempt() {
    let world = World::new().await;
    let offer = world.sale(5, 1).await;
    let order = world.unpaid_order(&offer, "ann").await;
    world.cloud.sandbox.set_mood(ProviderKind::Stripe, Mood::Failing, Some(1));
    let failed = world.try_start_payment(&order, Method::Stripe, 0).await.unwrap_err();
    assert!(matches!(failed, NotStarted::FlowError(FlowError::Provider { .. })), "{failed:?}");
    let started = world.start_payment(&order, Method::Stripe, 0).await;
    assert_eq!(started.number.attempt(), 1, "a new number, and with it a new key");
    world.pay(&started).await;
    world.deliver_notices().await;
    assert_eq!(status(&world, &order).await, Status::Paid);
    world.records_agree(&offer, &[order]).await.unwrap();
}

#[tokio::test]
async fn a_payment_refunded_in_the_console_before_its_notice_closes_the_order() {
    for method in PROVIDERS {
        let world = World::new().await;
        let offer = world.sale(5, 1).await;
        let order = world.unpaid_order(&offer, "ann").await;
        let started = world.start_payment(&order, method, 0).await;
        world.pay(&started).await;
        does(&world, &started, Action::RefundInConsole).await;
        world.pass(901);
        world.deadlines().await;
        let closed = world.order(&order).await.unwrap();
        assert_eq!((closed.status, closed.reason), (Status::Closed, Some(Reason::TimedOut)), "{method}");
        assert_eq!(world.figures(&offer).await, (5, 0, 0), "{method}");
        // The notice of the payment arrives after all.
        world.deliver_notices().await;
        assert_eq!(status(&world, &order).await, Status::Closed, "{method}");
        assert_eq!(matters(&world).await, [MatterKind::ForeignRefund], "{method}");
        world.settle_fully().await;
        world.records_agree(&offer, &[order]).await.unwrap();
    }
}

#[tokio::test]
async fn a_late_notice_of_a_payment_that_was_refunded_in_the_console_pays_for_nothing() {
    for method in PROVIDERS {
        let world = World::new().await;
        let offer = world.sale(5, 1).await;
        let order = world.unpaid_order(&offer, "ann").await;
        let started = world.start_payment(&order, method, 0).await;
        world.pay(&started).await;
        does(&world, &started, Action::RefundInConsole).await;
        world.pass(300);
        world.deliver_notices().await;
        assert_eq!(status(&world, &order).await, Status::PendingPayment, "{method}: it is not paid");
        let again = world.start_payment(&order, Method::Wechat, 0).await;
        assert_ne!(again.number, started.number, "{method}: the buyer can pay again");
        world.pass(901);
        world.settle_fully().await;
        assert_eq!(status(&world, &order).await, Status::Closed, "{method}");
        world.records_agree(&offer, &[order]).await.unwrap();
    }
}

#[tokio::test]
async fn a_payment_refunded_in_part_before_its_notice_settles_the_order_and_records_what_went_back() {
    for method in [Method::Stripe, Method::Alipay] {
        for late_notice in [false, true] {
            let world = World::new().await;
            let offer = world.long_sale(5).await;
            let order = world.unpaid_order(&offer, "ann").await;
            let started = world.start_payment(&order, method, 0).await;
            world.pay(&started).await;
            does(&world, &started, Action::RefundPartInConsole).await;
            if late_notice {
                world.pass(300);
                world.deliver_notices().await;
            } else {
                world.pass(901);
                world.deadlines().await;
            }
            let paid = world.order(&order).await.unwrap();
            assert_eq!((paid.status, paid.paid.unwrap().refunded), (Status::Paid, 34_950), "{method}");
            assert_eq!(matters(&world).await, [MatterKind::ForeignRefund], "{method}");
            // The order's own refund asks for the rest.
            refund(world.context(), &order, Asker::Operator).await.unwrap();
            world.deliver_notices().await;
            hours(&world).await;
            assert_eq!((status(&world, &order).await, kept(&world, &started).await), (Status::Refunded, 0), "{method}");
        }
    }
}

#[tokio::test]
async fn a_console_refund_after_the_notice_refunds_the_order_or_is_recorded() {
    for method in [Method::Stripe, Method::Alipay] {
        let world = World::new().await;
        let offer = world.long_sale(5).await;
        let (order, started) = paid_order(&world, &offer, method).await;
        does(&world, &started, Action::RefundPartInConsole).await;
        world.deliver_notices().await;
        let paid = world.order(&order).await.unwrap();
        assert_eq!((paid.status, paid.paid.unwrap().refunded), (Status::Paid, 34_950), "{method}");
        assert_eq!(matters(&world).await, [MatterKind::ForeignRefund], "{method}");
        does(&world, &started, Action::RefundInConsole).await;
        world.deliver_notices().await;
        assert_eq!(status(&world, &order).await, Status::Refunded, "{method}: all of it is back");
        assert_eq!(world.figures(&offer).await, (5, 0, 0), "{method}");
    }
}

/// Stripe says so in an event without metadata.
#[tokio::test]
async fn a_console_refund_that_fails_later_is_corrected_and_a_matter() {
    let world = World::new().await;
    let offer = world.long_sale(5).await;
    let (order, started) = paid_order(&world, &offer, Method::Stripe).await;
    does(&world, &started, Action::RefundPartInConsole).await;
    world.deliver_notices().await;
    let recorded = async || world.order(&order).await.unwrap().paid.unwrap().refunded;
    assert_eq!(recorded().await, 34_950);
    world.pass(86_400);
    does(&world, &started, Action::FailRefund).await;
    world.deliver_notices().await;
    assert_eq!((status(&world, &order).await, recorded().await), (Status::Paid, 0));
    assert_eq!(matters(&world).await, [MatterKind::ForeignRefund, MatterKind::LateRefundFailure]);
    // The order's own refund sends all of it back.
    refund(world.context(), &order, Asker::Operator).await.unwrap();
    hours(&world).await;
    assert_eq!((status(&world, &order).await, kept(&world, &started).await), (Status::Refunded, 0));
}

#[tokio::test]
async fn a_full_console_refund_that_fails_later_is_sent_again() {
    let world = World::new().await;
    let offer = world.long_sale(5).await;
    let (order, started) = paid_order(&world, &offer, Method::Stripe).await;
    does(&world, &started, Action::RefundInConsole).await;
    world.deliver_notices().await;
    assert_eq!(status(&world, &order).await, Status::Refunded);
    does(&world, &started, Action::FailRefund).await;
    assert_eq!(kept(&world, &started).await, 69_900);
    world.deliver_notices().await;
    assert!(matters(&world).await.contains(&MatterKind::LateRefundFailure));
    hours(&world).await;
    assert_eq!((status(&world, &order).await, kept(&world, &started).await), (Status::Refunded, 0));
}

#[tokio::test]
async fn the_notice_of_a_console_refund_that_overtakes_the_payments_notice_settles_the_payment() {
    for method in [Method::Stripe, Method::Alipay] {
        for (action, expected) in
            [(Action::RefundPartInConsole, Status::Paid), (Action::RefundInConsole, Status::PendingPayment)]
        {
            let world = World::new().await;
            let offer = world.sale(5, 1).await;
            let order = world.unpaid_order(&offer, "ann").await;
            let started = world.start_payment(&order, method, 0).await;
            world.pay(&started).await;
            does(&world, &started, action).await;
            let due = world.cloud.sandbox.due_notices().await.unwrap();
            for notice in due.iter().rev() {
                assert!(world.deliver_notice(notice).await, "{method} {action:?}");
                assert_eq!(status(&world, &order).await, expected, "{method} {action:?}");
            }
            let refunded = world.order(&order).await.unwrap().paid.map(|paid| paid.refunded);
            assert_eq!(refunded, (expected == Status::Paid).then_some(34_950), "{method} {action:?}");
        }
    }
}

#[tokio::test]
async fn a_refund_of_a_payment_that_was_refunded_in_the_console_asks_for_the_rest() {
    for method in [Method::Stripe, Method::Alipay] {
        for action in [Action::RefundPartInConsole, Action::RefundInConsole] {
            let world = World::new().await;
            let offer = world.long_sale(5).await;
            let (order, started) = paid_order(&world, &offer, method).await;
            does(&world, &started, action).await;
            // The notice of the console's refund does not arrive.
            refund(world.context(), &order, Asker::Buyer).await.unwrap();
            world.pass(3_700);
            world.reconcile().await;
            world.pass(3_700);
            world.reconcile().await;
            let now = (status(&world, &order).await, kept(&world, &started).await);
            assert_eq!(now, (Status::Refunded, 0), "{method} {action:?}");
        }
    }
}

#[tokio::test]
async fn a_refund_that_is_refused_for_good_is_resolved_by_an_operator() {
    for method in PROVIDERS {
        for resolution in [Resolution::RefundedByHand, Resolution::KeepAsPaid] {
            let world = World::new().await;
            let offer = world.long_sale(5).await;
            let (order, started) = paid_order(&world, &offer, method).await;
            world.cloud.sandbox.set_mood(kind(method), Mood::RefundsRefused, None);
            refund(world.context(), &order, Asker::Buyer).await.unwrap();
            hours(&world).await;
            assert_eq!(status(&world, &order).await, Status::Refunding, "{method}");
            let entry = open_refund(&world).await;
            assert!(entry.refused && entry.trouble.is_some(), "{method}: {entry:?}");
            let before = world.order(&order).await.unwrap().version();
            let done = resolved(&world, &order, resolution).await;
            assert!(matches!(done, ResolveOutcome::Done(_)), "{method}: {done:?}");
            let (expected, figures) = match resolution {
                Resolution::RefundedByHand => (Status::Refunded, (5, 0, 0)),
                _ => (Status::Paid, (4, 0, 1)),
            };
            let after = world.order(&order).await.unwrap();
            assert_eq!((after.status, world.figures(&offer).await), (expected, figures), "{method}");
            assert!(after.version() > before, "a client drops the older state");
            assert_eq!(world.store.open_entries().await.unwrap().entries.read, [], "{method}");
            let log = world.store.entries(&order).await.unwrap();
            let decision = log.iter().find(|row| row["entry"].as_s().unwrap().starts_with("RESOLVED#")).unwrap();
            assert_eq!(decision["reason"].as_s().unwrap(), "by phone");
            assert_eq!(decision["by"].as_s().unwrap(), "operator");
            // Asked again, nothing changes; and an order that is kept can be refunded later.
            let again = resolved(&world, &order, resolution).await;
            assert!(matches!(again, ResolveOutcome::Refused(_)), "{method}: {again:?}");
            if resolution == Resolution::KeepAsPaid {
                world.cloud.sandbox.set_mood(kind(method), Mood::Well, None);
                refund(world.context(), &order, Asker::Operator).await.unwrap();
                hours(&world).await;
                let now = (status(&world, &order).await, kept(&world, &started).await);
                assert_eq!(now, (Status::Refunded, 0), "{method}");
            } else {
                let buys_again = world.unpaid_order(&offer, "ann").await;
                assert_eq!(status(&world, &buys_again).await, Status::PendingPayment, "the buyer is not locked out");
            }
        }
    }
}

#[tokio::test]
async fn a_stuck_refund_ends_when_it_is_completed_at_the_provider() {
    for method in [Method::Wechat, Method::WechatV2] {
        let world = World::new().await;
        let offer = world.long_sale(5).await;
        let (order, started) = paid_order(&world, &offer, method).await;
        world.cloud.sandbox.set_mood(kind(method), Mood::RefundsStick, Some(1));
        refund(world.context(), &order, Asker::Buyer).await.unwrap();
        hours(&world).await;
        assert_eq!(status(&world, &order).await, Status::Refunding, "{method}");
        assert!(open_refund(&world).await.refused, "{method}");
        does(&world, &started, Action::FinishRefund).await;
        hours(&world).await;
        assert_eq!((status(&world, &order).await, kept(&world, &started).await), (Status::Refunded, 0), "{method}");
        world.records_agree(&offer, &[order]).await.unwrap();
    }
}

#[tokio::test]
async fn an_order_whose_provider_never_says_what_happened_is_closed_by_an_operator() {
    let world = World::new().await;
    let offer = world.sale(5, 1).await;
    let order = world.unpaid_order(&offer, "ann").await;
    world.start_payment(&order, Method::Wechat, 0).await;
    world.cloud.sandbox.set_mood(ProviderKind::WechatV3, Mood::Down, None);
    world.pass(4_000);
    world.reconcile().await;
    assert_eq!(status(&world, &order).await, Status::PendingPayment, "nothing is given away");
    let done = resolved(&world, &order, Resolution::CloseWithoutProvider).await;
    assert!(matches!(done, ResolveOutcome::Done(_)), "{done:?}");
    let closed = world.order(&order).await.unwrap();
    assert_eq!((closed.status, closed.reason), (Status::Closed, Some(Reason::Operator)));
    assert_eq!(world.figures(&offer).await, (5, 0, 0));
    world.cloud.sandbox.set_mood(ProviderKind::WechatV3, Mood::Well, None);
    world.records_agree(&offer, &[order]).await.unwrap();
}

#[tokio::test]
async fn a_buyer_refunds_until_the_time_that_the_sale_sets_and_an_operator_later() {
    let world = World::new().await;
    let offer = world.sale(5, 1).await;
    let (order, _) = paid_order(&world, &offer, Method::Alipay).await;
    world.pass(3_599);
    let ends = world.store.sale(&offer.sale).await.unwrap().unwrap().sale.ends_at;
    assert!(world.now() < ends);
    world.pass(1);
    let late = refund(world.context(), &order, Asker::Buyer).await.unwrap();
    assert!(matches!(late, Refund::TooLate(_)), "{late:?}");
    assert_eq!(status(&world, &order).await, Status::Paid);
    let done = refund(world.context(), &order, Asker::Operator).await.unwrap();
    assert!(matches!(done, Refund::Done { .. }), "{done:?}");
}

#[tokio::test]
async fn a_delayed_method_holds_a_unit_for_a_bounded_time() {
    for money_comes in [true, false] {
        let world = World::new().await;
        let offer = world.long_sale(1).await;
        let order = world.unpaid_order(&offer, "ann").await;
        let started = world.start_payment(&order, Method::Stripe, 0).await;
        world.open_link(&started).await;
        does(&world, &started, Action::Confirm).await;
        world.deliver_notices().await;
        world.pass(901);
        world.deadlines().await;
        world.reconcile().await;
        assert_eq!(status(&world, &order).await, Status::PendingPayment, "the bank is given some time");
        let early = close(world.context(), &order, Cause::Deadline).await.unwrap();
        assert!(matches!(early, CloseOutcome::NotBefore(..)), "{early:?}");
        world.pass(900);
        world.reconcile().await;
        assert_eq!(status(&world, &order).await, Status::Closed, "and no more");
        assert_eq!(world.figures(&offer).await, (1, 0, 0));
        world.stream().await;
        let other = world.unpaid_order(&offer, "bob").await;
        world.pass(86_400 * 3);
        does(&world, &started, if money_comes { Action::Pay } else { Action::Fail }).await;
        world.deliver_notices().await;
        world.settle_fully().await;
        let ended = status(&world, &order).await;
        assert_ne!(ended, Status::PendingPayment);
        assert_eq!(kept(&world, &started).await > 0, ended == Status::Paid, "revived, or the money went back");
        assert_ne!(status(&world, &other).await, Status::Paid);
        world.records_agree(&offer, &[order, other]).await.unwrap();
    }
}

#[tokio::test]
async fn wechat_v2_takes_a_payment_that_is_started_just_before_the_deadline() {
    let world = World::new().await;
    let offer = world.sale(5, 1).await;
    let order = world.unpaid_order(&offer, "ann").await;
    world.pass(840);
    let started = world.start_payment(&order, Method::WechatV2, 0).await;
    assert_eq!(started.number.attempt(), 0, "no attempt is lost");
    world.pass(61);
    world.deadlines().await;
    world.pass(300);
    world.reconcile().await;
    assert_eq!(status(&world, &order).await, Status::Closed, "the order ends at its deadline all the same");
}

#[tokio::test]
async fn a_dispute_is_recorded_on_its_order() {
    let world = World::new().await;
    let offer = world.long_sale(5).await;
    let (order, started) = paid_order(&world, &offer, Method::Stripe).await;
    does(&world, &started, Action::Dispute).await;
    world.deliver_notices().await;
    let log = world.store.entries(&order).await.unwrap();
    assert!(log.iter().any(|row| row["entry"].as_s().unwrap().starts_with("MATTER#DISPUTE#stripe#")), "{log:?}");
    assert_eq!(matters(&world).await, [MatterKind::Dispute]);
    assert_eq!(status(&world, &order).await, Status::Paid);
    resolved(&world, &order, Resolution::KeepAsPaid).await;
    assert_eq!(matters(&world).await, []);
}
