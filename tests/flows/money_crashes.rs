//! Every flow about money: run twice, stopped before and after each of its calls and run again, and with each call meeting each fault. It must
//! end as if it had run once.

use domain::ids::{Offer, OrderId};
use domain::payment::{Arrived, Method};
use flows::pay::close::{Cause, close};
use flows::pay::refund::refund;
use flows::pay::settle::settle;
use flows::pay::start_payment::Started;
use testkit::paying::arrived;
use testkit::stepping::holds_everywhere;
use testkit::world::World;

/// A provider's call is not tried again by itself, so whoever runs a flow does: a provider with its next notice, Lambda, a buyer.
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
    world.points("ann", 1_500).await;
    let order = world.waiting(&offer, "ann").await;
    (offer, order)
}

/// An order with a payment open, of which the settings are read already.
async fn open(world: &World, points: i64) -> (OrderId, Started) {
    let (_, order) = waiting(world).await;
    let started = world.starts(&order, Method::Wechat, points).await;
    (order, started)
}

/// Money that has arrived for it.
async fn money(world: &World, started: &Started) -> Arrived {
    if world.cloud.sandbox.pay(&started.number.to_string()).await.is_err() {
        world.pays_late(started).await;
    }
    let due = world.cloud.sandbox.due_notices().await.unwrap().remove(0);
    world.cloud.sandbox.delivered(due.id, true).await.unwrap();
    let provider = world.providers.get(due.kind, world.now()).await.unwrap();
    arrived(&provider.notice(&due.call.headers, &due.call.body, world.now()).unwrap())
}

#[tokio::test]
async fn starting_a_payment() {
    for (method, points) in [(Method::Wechat, 0), (Method::Stripe, 400), (Method::Alipay, 0)] {
        holds_everywhere(waiting, async |world, (_, order)| {
            until_done!(world.asks_to_pay(order, method, points));
        })
        .await;
    }
}

#[tokio::test]
async fn changing_the_method() {
    let given = async |world: &World| open(world, 400).await.0;
    holds_everywhere(given, async |world, order| {
        until_done!(world.asks_to_pay(order, Method::Alipay, 0));
        let order = world.order(order).await.unwrap();
        assert_eq!(order.attempts.len(), 2, "{order:?}");
        assert_eq!(world.points_of("ann").await, (1_500, 0));
    })
    .await;
}

#[tokio::test]
async fn paying_with_points() {
    holds_everywhere(waiting, async |world, (_, order)| {
        // Asked again it is paid, and says so.
        let _ = world.asks_to_pay(order, Method::Points, 0).await;
        confirm(world, order).await;
        assert_eq!(world.points_of("ann").await, (500, 0));
    })
    .await;
}

#[tokio::test]
async fn settling() {
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
async fn closing_at_the_provider_first() {
    for points in [0, 400] {
        let given = async |world: &World| open(world, points).await.0;
        holds_everywhere(given, async |world, order| {
            until_done!(close(world.context(), order, Cause::Buyer));
        })
        .await;
    }
}

#[tokio::test]
async fn a_close_that_finds_the_payment_made() {
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

/// What reconcile does about a paid order whose units are not counted as sold, at once.
async fn confirm(world: &World, order: &OrderId) {
    let order = world.order(order).await.unwrap();
    assert_eq!(order.status, domain::order::Status::Paid);
    flows::finish::paid(&world.store, &order, world.now()).await.unwrap();
}

#[tokio::test]
async fn reviving() {
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
async fn sending_money_back() {
    let given = async |world: &World| {
        let (order, started) = open(world, 0).await;
        close(world.context(), &order, Cause::Buyer).await.unwrap();
        let offer = world.order(&order).await.unwrap().offer();
        world.waiting(&offer, "ann").await;
        money(world, &started).await
    };
    holds_everywhere(given, async |world, arrived| {
        until_done!(settle(world.context(), arrived));
        finish_refunds(world).await;
    })
    .await;
}

#[tokio::test]
async fn refunding() {
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

/// What reconcile does about refunds that are not done, at once.
async fn finish_refunds(world: &World) {
    for _ in 0..5 {
        for entry in world.store.open_entries().await.unwrap() {
            let domain::payment::OpenEntry::Refund(entry) = entry else { panic!("{entry:?}") };
            let _ = flows::pay::refund::resume(world.context(), &entry).await;
        }
    }
}
