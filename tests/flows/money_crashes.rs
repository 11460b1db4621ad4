//! Every flow about money can be interrupted: run twice, stopped before and after each call and run again, or with a
//! transient fault at each call, it ends in the same state.

use domain::ids::{Offer, OrderId};
use domain::payment::{Arrived, Method};
use flows::pay::close::{Cause, close};
use flows::pay::refund::refund;
use flows::pay::settle::settle;
use flows::pay::start_payment::Started;
use testkit::paying::arrived;
use testkit::stepping::holds_everywhere;
use testkit::world::World;

/// Calls to providers are not retried by the SDK, so the caller of a flow retries it: a provider with its next
/// notice, Lambda, or a buyer.
macro_rules! until_done {
    ($flow:expr) => {
        for round in 0..5 {
            match $flow.await {
                Ok(_) => break,
                Err(error) => assert!(round < 4, "{error:?}"),
            }
        }
    };
}

async fn waiting(world: &World) -> (Offer, OrderId) {
    let offer = world.sale_of(30, |item| item.points_price = Some(1_000)).await;
    world.give_points("ann", 1_500).await;
    let order = world.unpaid_order(&offer, "ann").await;
    (offer, order)
}

/// An order with an open payment. The provider's settings are already cached.
async fn open(world: &World, points: i64) -> (OrderId, Started) {
    let (_, order) = waiting(world).await;
    let started = world.start_payment(&order, Method::Wechat, points).await;
    (order, started)
}

/// The buyer's payment, as a notice reports it.
async fn money(world: &World, started: &Started) -> Arrived {
    if world.cloud.sandbox.pay(&started.number.to_string()).await.is_err() {
        world.pay_late(started).await;
    }
    let due = world.cloud.sandbox.due_notices().await.unwrap().remove(0);
    world.cloud.sandbox.delivered(due.id, true).await.unwrap();
    let provider = world.providers.get(due.kind, world.now()).await.unwrap();
    arrived(&provider.notice(&due.call.headers, &due.call.body, world.now()).unwrap())
}

#[tokio::test]
async fn starting_a_payment_holds_everywhere() {
    for (method, points) in [(Method::Wechat, 0), (Method::Stripe, 400), (Method::Alipay, 0)] {
        holds_everywhere(waiting, async |world, (_, order)| {
            until_done!(world.try_start_payment(order, method, points));
        })
        .await;
    }
}

#[tokio::test]
async fn changing_the_method_holds_everywhere() {
    let given = async |world: &World| open(world, 400).await.0;
    holds_everywhere(given, async |world, order| {
        until_done!(world.try_start_payment(order, Method::Alipay, 0));
        let order = world.order(order).await.unwrap();
        assert_eq!(order.attempts.len(), 2, "{order:?}");
        assert_eq!(world.points_of("ann").await, (1_500, 0));
    })
    .await;
}

#[tokio::test]
async fn paying_with_points_holds_everywhere() {
    holds_everywhere(waiting, async |world, (_, order)| {
        // A second attempt fails because the order is already paid.
        let _ = world.try_start_payment(order, Method::Points, 0).await;
        confirm(world, order).await;
        assert_eq!(world.points_of("ann").await, (500, 0));
    })
    .await;
}

#[tokio::test]
async fn settling_a_payment_holds_everywhere() {
    for points in [0, 400] {
        let given = async |world: &World| {
            let (_, started) = open(world, points).await;
            money(world, &started).await
        };
        holds_everywhere(given, async |world, arrived| {
            until_done!(settle(world.context(), arrived));
        })
        .await;
    }
}

#[tokio::test]
async fn closing_an_order_with_an_open_payment_holds_everywhere() {
    for points in [0, 400] {
        let given = async |world: &World| open(world, points).await.0;
        holds_everywhere(given, async |world, order| {
            until_done!(close(world.context(), order, Cause::Buyer));
        })
        .await;
    }
}

#[tokio::test]
async fn closing_an_order_that_turns_out_to_be_paid_holds_everywhere() {
    let given = async |world: &World| {
        let (order, started) = open(world, 0).await;
        money(world, &started).await;
        order
    };
    holds_everywhere(given, async |world, order| {
        until_done!(close(world.context(), order, Cause::Buyer));
        confirm(world, order).await;
    })
    .await;
}

/// Does what reconcile does later about a paid order whose units are not counted as sold.
async fn confirm(world: &World, order: &OrderId) {
    let order = world.order(order).await.unwrap();
    assert_eq!(order.status, domain::order::Status::Paid);
    flows::finish::paid(&world.store, &order, world.now()).await.unwrap();
}

#[tokio::test]
async fn reviving_an_order_holds_everywhere() {
    let given = async |world: &World| {
        let (order, started) = open(world, 0).await;
        close(world.context(), &order, Cause::Buyer).await.unwrap();
        money(world, &started).await
    };
    holds_everywhere(given, async |world, arrived| {
        until_done!(settle(world.context(), arrived));
    })
    .await;
}

#[tokio::test]
async fn refunding_a_late_payment_holds_everywhere() {
    let given = async |world: &World| {
        let (order, started) = open(world, 0).await;
        close(world.context(), &order, Cause::Buyer).await.unwrap();
        let offer = world.order(&order).await.unwrap().offer();
        world.unpaid_order(&offer, "ann").await;
        money(world, &started).await
    };
    holds_everywhere(given, async |world, arrived| {
        until_done!(settle(world.context(), arrived));
        finish_refunds(world).await;
    })
    .await;
}

#[tokio::test]
async fn refunding_an_order_holds_everywhere() {
    for points in [0, 400] {
        let given = async |world: &World| {
            let (order, started) = open(world, points).await;
            let arrived = money(world, &started).await;
            settle(world.context(), &arrived).await.unwrap();
            order
        };
        holds_everywhere(given, async |world, order| {
            until_done!(refund(world.context(), order));
            finish_refunds(world).await;
        })
        .await;
    }
}

/// Does what reconcile does later about unfinished refunds.
async fn finish_refunds(world: &World) {
    for _ in 0..5 {
        for entry in world.store.open_entries().await.unwrap().entries.read {
            let domain::payment::OpenEntry::Refund(entry) = entry else { panic!("{entry:?}") };
            let _ = flows::pay::refund::resume(world.context(), &entry).await;
        }
    }
}
