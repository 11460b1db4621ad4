//! The exact costs of a purchase in calls and write units, which are the same for a small sale and a large one.

use flows::buy::bucket_picker::FRESH_FOR_MS;
use flows::buy::purchase::Refusal;
use flows::pay::close::{Cause, close};
use std::time::Duration;
use testkit::world::World;

#[tokio::test]
async fn a_purchase_costs_two_writes_and_one_message() {
    let world = World::new().await;
    let offer = world.sale(100, 1).await;
    let seckill = world.environment();
    // The first press reads the sale and the page, which are then cached.
    seckill.purchase(&world.asks(&offer, "first", 1, None)).await.unwrap();

    for key in [None, Some("key")] {
        world.wire.forget_calls();
        seckill.purchase(&world.asks(&offer, &format!("buyer {key:?}"), 1, key)).await.unwrap();
        assert_eq!(world.cost(), (vec!["UpdateItem".into(), "UpdateItem".into(), "SendMessage".into()], 2.0));
    }
}

#[tokio::test]
async fn a_duplicate_press_costs_one_call_and_touches_no_stock() {
    let world = World::new().await;
    let offer = world.sale(100, 1).await;
    let seckill = world.environment();
    let order = seckill.purchase(&world.asks(&offer, "alice", 1, None)).await.unwrap().order;
    let before = world.buckets(&offer).await;

    world.wire.forget_calls();
    let refusal = seckill.purchase(&world.asks(&offer, "alice", 1, None)).await.unwrap_err();
    assert!(matches!(refusal, Refusal::Duplicate(first) if first == order));
    assert_eq!(world.cost().0, ["UpdateItem"]);
    assert_eq!(world.buckets(&offer).await, before);
}

#[tokio::test]
async fn sold_out_is_answered_from_memory_and_concurrent_presses_share_one_read() {
    let world = World::new().await;
    let offer = world.sale(3, 1).await;
    let seckill = world.environment();
    for buyer in ["a", "b", "c"] {
        seckill.purchase(&world.asks(&offer, buyer, 1, None)).await.unwrap();
    }
    world.stream().await;
    world.clock.advance(Duration::from_millis(FRESH_FOR_MS as u64));
    let sold_out = async |buyer: &str| {
        let refusal = seckill.purchase(&world.asks(&offer, buyer, 1, None)).await.unwrap_err();
        assert!(matches!(refusal, Refusal::SoldOut { available: 0 }), "{refusal}");
    };
    sold_out("d").await;

    world.wire.forget_calls();
    sold_out("e").await;
    assert_eq!(world.cost().0, [""; 0], "a fresh page needs no call");

    world.clock.advance(Duration::from_millis(FRESH_FOR_MS as u64));
    let buyers: Vec<String> = (0..50).map(|n| format!("crowd-{n}")).collect();
    futures::future::join_all(buyers.iter().map(|buyer| sold_out(buyer))).await;
    assert_eq!(world.cost().0, ["Query", "GetItem"], "fifty presses share one read of the sale and one of the page");
}

#[tokio::test]
async fn an_order_from_press_to_timeout_costs_eight_write_units() {
    let world = World::new().await;
    let offer = world.sale(100, 1).await;
    world.wire.forget_calls();
    let order = world.buys(&offer, "alice").await;
    world.consume().await;
    world.pass(901);
    assert_eq!(world.deadlines().await, 1);
    assert_eq!(world.order(&order).await.unwrap().status.as_str(), "CLOSED");
    let (calls, units) = world.cost();
    // Claim, hold; claim ORDERED, order, its row in the sale's index; CLOSED, claim dropped, units released.
    assert_eq!(units, 8.0, "{calls:?}");

    world.wire.forget_calls();
    world.stream().await;
    // Two ledger entries: deduct and roll back. The bucket neither opened nor closed, so no page was written.
    assert_eq!(world.cost().1, 2.0, "the stock's stream writes two ledger entries");
    assert_eq!(world.store.entries(&order).await.unwrap().len(), 2);
}

#[tokio::test]
async fn an_order_that_ends_early_leaves_no_schedule_and_its_deletion_is_one_call() {
    let world = World::new().await;
    let offer = world.sale(100, 1).await;
    for _ in 0..20 {
        let order = world.unpaid_order(&offer, "alice").await;
        world.wire.forget_calls();
        let (store, providers) = (world.store_of("shop"), world.providers_of("shop"));
        close(flows::Context::new(&store, &providers, world.now()), &order, Cause::Buyer).await.unwrap();
        assert_eq!(
            world.cost(),
            (["UpdateItem", "UpdateItem", "UpdateItem", "DeleteSchedule"].map(String::from).into(), 3.0)
        );
        world.pass(7);
    }
    assert_eq!(world.state().await["schedules"], [""; 0]);

    // A scheduler that is down costs the order nothing: the schedule fires without effect.
    let order = world.unpaid_order(&offer, "alice").await;
    world.fault(|call| match call.service == local_cloud::engine::Service::Scheduler {
        true => local_cloud::wire::Fault::ServerError,
        false => local_cloud::wire::Fault::None,
    });
    close(world.context(), &order, Cause::Buyer).await.unwrap();
    world.clear_faults();
    assert_eq!(world.state().await["schedules"], [order.as_str()]);
    world.pass(901);
    assert_eq!(world.deadlines().await, 1);
    assert_eq!(world.figures(&offer).await, (100, 0, 0));
}

#[tokio::test]
async fn a_paid_order_costs_ten_write_units_and_no_deadline() {
    let world = World::new().await;
    let offer = world.sale(100, 1).await;
    world.wire.forget_calls();
    let order = world.unpaid_order(&offer, "alice").await;
    let started = world.start_payment(&order, domain::payment::Method::Wechat, 0).await;
    world.pay(&started).await;
    assert_eq!(world.deliver_notices().await, 1);
    assert_eq!(world.order(&order).await.unwrap().status.as_str(), "PAID");
    let (calls, units) = world.cost();
    // Claim, hold; claim ORDERED, order, its row in the sale's index; payment opened, its link stored; PAID, payment
    // entry, units sold. The index of open entries is not written, and that of the sale only once.
    assert_eq!(units, 10.0, "{calls:?}");
    assert_eq!(calls.iter().filter(|call| *call == "DeleteSchedule").count(), 1, "{calls:?}");
    world.pass(901);
    assert_eq!(world.deadlines().await, 0, "its schedule was deleted");
}

#[tokio::test]
async fn a_write_to_a_full_bucket_costs_one_write_unit() {
    let world = World::new().await;
    let offer = world.sale(24, 1).await;
    assert_eq!(world.buckets(&offer).await.len(), 1);
    let mut orders = Vec::new();
    for n in 0..24 {
        orders.push(world.buys(&offer, &format!("buyer {n}")).await);
    }
    world.consume().await;
    world.wire.forget_calls();
    close(world.context(), orders.last().unwrap(), Cause::Buyer).await.unwrap();
    assert_eq!(world.cost().1, 3.0);
    // A bucket that is sold to twenty-three orders is as large, and a write to it still costs one unit.
    orders.pop();
    world.wire.forget_calls();
    for order in &orders {
        world.store.confirm(&offer, 0, order, 1).await.unwrap();
    }
    assert_eq!(world.cost().1, 23.0);
}

#[tokio::test]
async fn a_purchase_costs_the_same_with_a_thousand_and_with_two_hundred_thousand_units() {
    let mut costs = Vec::new();
    for stock in [1_000, 200_000] {
        let world = World::new().await;
        let offer = world.sale(stock, 1).await;
        assert_eq!(world.item(&offer).await.layout.total(), u64::from(stock));
        assert_eq!(world.item(&offer).await.laid_out, world.item(&offer).await.layout.buckets());
        let seckill = world.environment();
        seckill.purchase(&world.asks(&offer, "first", 1, None)).await.unwrap();
        world.wire.forget_calls();
        seckill.purchase(&world.asks(&offer, "second", 1, None)).await.unwrap();
        costs.push(world.cost());
    }
    assert_eq!(costs[0], costs[1]);
}

/// A press, a look at the order, and a walk of reconcile make as many calls after a thousand sales as in the first.
#[tokio::test]
async fn nothing_in_a_sale_slows_down_with_the_number_of_past_sales() {
    let mut counted = Vec::new();
    for past in [0, 1_000] {
        let world = World::new().await;
        for n in 0..past {
            let id: domain::ids::SaleId = format!("past-{n}").parse().unwrap();
            let form = testkit::world::form(10, 1);
            flows::sale::set_up::create(&world.store, id.clone(), form, world.now()).await.unwrap();
            let closed = domain::sale::SaleChange::Close;
            flows::sale::set_up::change(&world.store, &id, closed, world.now()).await.unwrap();
        }
        let offer = world.sale(100, 1).await;
        world.wire.forget_calls();
        let order = world.buys(&offer, "alice").await;
        let press = world.wire.calls().len();
        world.settle_down().await;
        world.wire.forget_calls();
        world.store.order(&order).await.unwrap();
        let status = world.wire.calls().len();
        world.pass(61);
        world.wire.forget_calls();
        assert_eq!(world.reconcile().await.holders, 1);
        counted.push((press, status, world.wire.calls().len()));
    }
    assert_eq!(counted[0], counted[1], "calls of a press, a status and a walk");
}

/// An audit reads what belongs to its sale, however many orders other sales have.
#[tokio::test]
async fn an_audit_does_not_depend_on_the_orders_of_other_sales() {
    let mut counted = Vec::new();
    for others in [0, 500] {
        let world = World::new().await;
        let offer = world.sale(100, 1).await;
        for buyer in ["ann", "bob"] {
            world.buys(&offer, buyer).await;
        }
        world.settle_down().await;
        let order = world.order(&world.store.order_ids(&offer.sale, None, 9).await.unwrap()[0]).await.unwrap();
        for n in 0..others {
            let buyer: domain::ids::Buyer = format!("other {n}").parse().unwrap();
            let key = domain::ids::BuyerKey::of(&buyer, testkit::world::SALT);
            let id = domain::ids::OrderId::new(world.now(), &key, n);
            let other = domain::order::Order { id, sale: "other".parse().unwrap(), ..order.clone() };
            world.store.place(&other).await.unwrap();
        }
        world.wire.forget_calls();
        let audited = flows::view::audit::audit(&world.store_of("admin"), &offer.sale, None).await.unwrap().unwrap();
        assert_eq!(audited.items[&offer.item].orders.values().sum::<u64>(), 2);
        let read: f64 = world.wire.calls().iter().map(|call| call.read_units).sum();
        counted.push((world.cost().0, read));
    }
    assert_eq!(counted[0], counted[1], "calls and read units of an audit");
    let queries = counted[0].0.iter().filter(|call| *call == "Query").count();
    assert_eq!(queries, 33, "the sale, and its orders in each of 32 shards");
}

/// What one order costs in a crowd, from the press to its deadline, its ledger entry and the push that nobody receives:
/// six calls that an order needs for itself, and its share of those that a batch needs.
#[tokio::test]
async fn an_order_in_a_crowd_costs_six_calls_and_a_share_of_the_batches() {
    const ORDERS: usize = 100;
    let world = World::new().await;
    let offer = world.sale(10_000, 1).await;
    let seckill = world.environment();
    seckill.purchase(&world.asks(&offer, "first", 1, None)).await.unwrap();
    world.settle_down().await;
    let clock = world.clock.clone();
    let now = std::sync::Arc::new(move || domain::Timestamp::from_millisecond(clock.now_ms()).unwrap());
    let push = push::App::new(world.store_of("push"), &world.wire.sdk_config(), now);
    let of_orders = async || world.cloud.dynamodb.stream_records(&world.names().orders, None, 1_000).await.unwrap();
    let before = of_orders().await.len();

    world.wire.forget_calls();
    for n in 0..ORDERS {
        seckill.purchase(&world.asks(&offer, &format!("buyer {n}"), 1, None)).await.unwrap();
    }
    assert_eq!(world.wire.calls().len(), 3 * ORDERS);
    assert_eq!(world.consume().await, ORDERS);
    // The function has just started: it reads the sale once.
    assert_eq!(world.wire.calls().len(), 6 * ORDERS + 1);

    world.wire.forget_calls();
    assert_eq!(world.stream().await, ORDERS);
    assert_eq!(world.cost(), (vec!["BatchWriteItem".to_owned(); ORDERS / 25], ORDERS as f64));

    world.wire.forget_calls();
    let records: Vec<_> = of_orders().await.into_iter().skip(before).map(|record| record.event()).collect();
    assert_eq!(records.len(), ORDERS);
    let answer = push::handle(&push, serde_json::json!({ "Records": records })).await.unwrap();
    assert_eq!(answer["batchItemFailures"], serde_json::json!([]));
    assert_eq!(world.cost().0, ["GetItem"], "nobody is connected");
}
