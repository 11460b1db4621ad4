//! Points, alone and combined with money: a balance is never negative, and each order spends and returns points once.

use domain::order::Status;
use domain::payment::Method;
use flows::pay::close::{Cause, close};
use flows::pay::refund::{Asker, refund};
use flows::pay::start_payment::NotStarted;
use testkit::world::World;

/// A sale of a phone that costs 69,900 or 1,000 points.
async fn world() -> (World, domain::ids::Offer) {
    let world = World::new().await;
    let offer = world.sale_of(5, |item| item.points_price = Some(1_000)).await;
    world.give_points("ann", 1_500).await;
    (world, offer)
}

#[tokio::test]
async fn points_pay_an_order_at_once_and_a_refund_returns_them_once() {
    let (world, offer) = world().await;
    let order = world.unpaid_order(&offer, "ann").await;
    let started = world.start_payment(&order, Method::Points, 0).await;
    assert!(started.paid && started.points == 1_000 && started.amount == 0);
    assert_eq!(world.order(&order).await.unwrap().status, Status::Paid);
    assert_eq!(world.points_of("ann").await, (500, 0));
    assert_eq!(world.figures(&offer).await, (4, 0, 1));
    let again = world.try_start_payment(&order, Method::Points, 0).await;
    assert!(matches!(again, Err(NotStarted::WrongStatus(Status::Paid))));
    for _ in 0..2 {
        refund(world.context(), &order, Asker::Operator).await.unwrap();
    }
    assert_eq!(world.order(&order).await.unwrap().status, Status::Refunded);
    assert_eq!(world.points_of("ann").await, (1_500, 0));
    world.settle_fully().await;
    world.records_agree(&offer, &[order]).await.unwrap();
}

#[tokio::test]
async fn a_balance_never_goes_below_zero() {
    let (world, offer) = world().await;
    let order = world.unpaid_order(&offer, "ann").await;
    world.start_payment(&order, Method::Points, 0).await;
    refund(world.context(), &order, Asker::Operator).await.unwrap();
    let next = world.unpaid_order(&offer, "ann").await;
    let mixed = world.start_payment(&next, Method::Wechat, 900).await;
    assert_eq!((mixed.amount, mixed.points), (6_990, 900));
    assert_eq!(world.points_of("ann").await, (600, 900));
    // Paying with points alone needs more than the balance; the change of method returns the frozen points first.
    let all = world.start_payment(&next, Method::Points, 0).await;
    assert!(all.paid);
    assert_eq!(world.points_of("ann").await, (500, 0));
    world.give_points("poor", 10).await;
    let poor = world.unpaid_order(&offer, "poor").await;
    assert!(matches!(world.try_start_payment(&poor, Method::Points, 0).await, Err(NotStarted::PointsShort)));
    assert!(matches!(world.try_start_payment(&poor, Method::Alipay, 11).await, Err(NotStarted::PointsShort)));
    assert!(matches!(world.try_start_payment(&poor, Method::Alipay, 1_000).await, Err(NotStarted::WrongPoints)));
    assert!(matches!(world.try_start_payment(&poor, Method::Alipay, -1).await, Err(NotStarted::WrongPoints)));
    assert_eq!(world.points_of("poor").await, (10, 0));
    let none = world.unpaid_order(&offer, "none").await;
    assert!(matches!(world.try_start_payment(&none, Method::Points, 0).await, Err(NotStarted::PointsShort)));
}

#[tokio::test]
async fn an_item_without_a_points_price_cannot_be_paid_with_points() {
    let world = World::new().await;
    let offer = world.sale(5, 1).await;
    world.give_points("ann", 1_500).await;
    let order = world.unpaid_order(&offer, "ann").await;
    assert!(matches!(world.try_start_payment(&order, Method::Points, 0).await, Err(NotStarted::WrongPoints)));
    assert!(matches!(world.try_start_payment(&order, Method::Alipay, 5).await, Err(NotStarted::WrongPoints)));
}

#[tokio::test]
async fn points_that_are_combined_with_money_are_frozen_and_then_spent() {
    let (world, offer) = world().await;
    let order = world.unpaid_order(&offer, "ann").await;
    let started = world.start_payment(&order, Method::Stripe, 400).await;
    assert_eq!(started.amount, 41_940);
    assert_eq!(world.points_of("ann").await, (1_100, 400));
    assert_eq!(
        world.start_payment(&order, Method::Stripe, 400).await,
        started,
        "the same request returns the same payment"
    );
    assert_eq!(world.points_of("ann").await, (1_100, 400));
    world.pay(&started).await;
    world.deliver_notices().await;
    assert_eq!(world.order(&order).await.unwrap().status, Status::Paid);
    assert_eq!(world.points_of("ann").await, (1_100, 0));
    refund(world.context(), &order, Asker::Operator).await.unwrap();
    world.settle_fully().await;
    assert_eq!(world.points_of("ann").await, (1_500, 0), "the points are returned with the money");
    world.records_agree(&offer, &[order]).await.unwrap();
}

#[tokio::test]
async fn frozen_points_are_returned_on_timeout_cancel_failure_and_change_of_method() {
    for how in 0..4 {
        let (world, offer) = world().await;
        let order = world.unpaid_order(&offer, "ann").await;
        let started = world.start_payment(&order, Method::Stripe, 400).await;
        match how {
            0 => drop(close(world.context(), &order, Cause::Buyer).await.unwrap()),
            1 => {
                world.pass(901);
                assert_eq!(world.deadlines().await, 1);
            }
            2 => {
                world.cloud.sandbox.fail(&started.number.to_string()).await.unwrap();
                world.deliver_notices().await;
            }
            _ => drop(world.start_payment(&order, Method::Alipay, 0).await),
        }
        assert_eq!(world.points_of("ann").await, (1_500, 0), "{how}");
    }
}

#[tokio::test]
async fn a_late_payment_is_refunded_if_its_points_are_no_longer_frozen() {
    let (world, offer) = world().await;
    let order = world.unpaid_order(&offer, "ann").await;
    let started = world.start_payment(&order, Method::Wechat, 400).await;
    close(world.context(), &order, Cause::Buyer).await.unwrap();
    world.pay_late(&started).await;
    world.deliver_notices().await;
    assert_eq!(world.order(&order).await.unwrap().status, Status::Closed);
    world.settle_fully().await;
    world.records_agree(&offer, &[order]).await.unwrap();
    assert_eq!(world.points_of("ann").await, (1_500, 0));
}

#[tokio::test]
async fn points_are_credited_once_per_key() {
    let (world, _) = world().await;
    world.give_points("ann", 1_500).await;
    assert_eq!(world.points_of("ann").await, (1_500, 0));
}
