//! Points: alone, and beside money. They never go below zero, and each order takes and gives them once.

use domain::order::Status;
use domain::payment::Method;
use flows::pay::close::{Cause, close};
use flows::pay::refund::refund;
use flows::pay::start_payment::NotStarted;
use testkit::world::World;

/// A sale of a phone that costs 69,900 or 1,000 points.
async fn world() -> (World, domain::ids::Offer) {
    let world = World::new().await;
    let offer = world.sale_of(5, |item| item.points_price = Some(1_000)).await;
    world.points("ann", 1_500).await;
    (world, offer)
}

#[tokio::test]
async fn points_alone_pay_at_once_and_come_back_once() {
    let (world, offer) = world().await;
    let order = world.waiting(&offer, "ann").await;
    let started = world.starts(&order, Method::Points, 0).await;
    assert!(started.paid && started.points == 1_000 && started.amount == 0);
    assert_eq!(world.order(&order).await.unwrap().status, Status::Paid);
    assert_eq!(world.points_of("ann").await, (500, 0));
    assert_eq!(world.figures(&offer).await, (4, 0, 1));
    let again = world.asks_to_pay(&order, Method::Points, 0).await;
    assert!(matches!(again, Err(NotStarted::WrongStatus(Status::Paid))));
    for _ in 0..2 {
        refund(world.context(), &order).await.unwrap();
    }
    assert_eq!(world.order(&order).await.unwrap().status, Status::Refunded);
    assert_eq!(world.points_of("ann").await, (1_500, 0));
    world.quiet_down().await;
    world.books_agree(&offer, &[order]).await.unwrap();
}

#[tokio::test]
async fn a_balance_never_goes_below_zero() {
    let (world, offer) = world().await;
    let order = world.waiting(&offer, "ann").await;
    world.starts(&order, Method::Points, 0).await;
    refund(world.context(), &order).await.unwrap();
    let next = world.waiting(&offer, "ann").await;
    let mixed = world.starts(&next, Method::Wechat, 900).await;
    assert_eq!((mixed.amount, mixed.points), (6_990, 900));
    assert_eq!(world.points_of("ann").await, (600, 900));
    // Points alone would need more than is left; the change of method gives the frozen ones back first.
    let all = world.starts(&next, Method::Points, 0).await;
    assert!(all.paid);
    assert_eq!(world.points_of("ann").await, (500, 0));
    world.points("poor", 10).await;
    let poor = world.waiting(&offer, "poor").await;
    assert!(matches!(world.asks_to_pay(&poor, Method::Points, 0).await, Err(NotStarted::PointsShort)));
    assert!(matches!(world.asks_to_pay(&poor, Method::Alipay, 11).await, Err(NotStarted::PointsShort)));
    assert!(matches!(world.asks_to_pay(&poor, Method::Alipay, 1_000).await, Err(NotStarted::WrongPoints)));
    assert!(matches!(world.asks_to_pay(&poor, Method::Alipay, -1).await, Err(NotStarted::WrongPoints)));
    assert_eq!(world.points_of("poor").await, (10, 0));
    let none = world.waiting(&offer, "none").await;
    assert!(matches!(world.asks_to_pay(&none, Method::Points, 0).await, Err(NotStarted::PointsShort)));
}

#[tokio::test]
async fn an_item_without_a_points_price_takes_none() {
    let world = World::new().await;
    let offer = world.sale(5, 1).await;
    world.points("ann", 1_500).await;
    let order = world.waiting(&offer, "ann").await;
    assert!(matches!(world.asks_to_pay(&order, Method::Points, 0).await, Err(NotStarted::WrongPoints)));
    assert!(matches!(world.asks_to_pay(&order, Method::Alipay, 5).await, Err(NotStarted::WrongPoints)));
}

#[tokio::test]
async fn points_beside_money_are_frozen_then_spent() {
    let (world, offer) = world().await;
    let order = world.waiting(&offer, "ann").await;
    let started = world.starts(&order, Method::Stripe, 400).await;
    assert_eq!(started.amount, 41_940);
    assert_eq!(world.points_of("ann").await, (1_100, 400));
    assert_eq!(world.starts(&order, Method::Stripe, 400).await, started, "asked twice");
    assert_eq!(world.points_of("ann").await, (1_100, 400));
    world.pays(&started).await;
    world.notices().await;
    assert_eq!(world.order(&order).await.unwrap().status, Status::Paid);
    assert_eq!(world.points_of("ann").await, (1_100, 0));
    refund(world.context(), &order).await.unwrap();
    world.quiet_down().await;
    assert_eq!(world.points_of("ann").await, (1_500, 0), "points and money come back");
    world.books_agree(&offer, &[order]).await.unwrap();
}

#[tokio::test]
async fn frozen_points_thaw_on_timeout_cancel_failure_and_change_of_method() {
    for how in 0..4 {
        let (world, offer) = world().await;
        let order = world.waiting(&offer, "ann").await;
        let started = world.starts(&order, Method::Stripe, 400).await;
        match how {
            0 => drop(close(world.context(), &order, Cause::Buyer).await.unwrap()),
            1 => {
                world.pass(901);
                assert_eq!(world.deadlines().await, 1);
            }
            2 => {
                world.cloud.sandbox.fail(&started.number.to_string()).await.unwrap();
                world.notices().await;
            }
            _ => drop(world.starts(&order, Method::Alipay, 0).await),
        }
        assert_eq!(world.points_of("ann").await, (1_500, 0), "{how}");
    }
}

#[tokio::test]
async fn late_money_without_its_points_goes_back() {
    let (world, offer) = world().await;
    let order = world.waiting(&offer, "ann").await;
    let started = world.starts(&order, Method::Wechat, 400).await;
    close(world.context(), &order, Cause::Buyer).await.unwrap();
    world.pays_late(&started).await;
    world.notices().await;
    assert_eq!(world.order(&order).await.unwrap().status, Status::Closed);
    world.quiet_down().await;
    world.books_agree(&offer, &[order]).await.unwrap();
    assert_eq!(world.points_of("ann").await, (1_500, 0));
}

#[tokio::test]
async fn a_gift_is_given_once() {
    let (world, _) = world().await;
    world.points("ann", 1_500).await;
    assert_eq!(world.points_of("ann").await, (1_500, 0));
}
