//! Every flow can be interrupted: run twice, stopped before and after each call and run again, or with a transient
//! fault at each call, it ends in the same state. If nobody runs it again after a crash, reconcile finishes it.

use domain::ids::{Offer, OrderId};
use domain::message::{OrderMessage, VERSION};
use domain::order::Status;
use flows::buy::place_order::place_order;
use flows::buy::purchase::Purchase;
use flows::pay::close::{Cause, close};
use flows::sale::sales::Sales;
use local_cloud::wire::Fault;
use testkit::stepping::{holds_everywhere, stopped};
use testkit::world::{World, far, form};

async fn asked(world: &World) -> Purchase {
    let offer = world.sale(30, 1).await;
    world.asks(&offer, "alice", 1, Some("key"))
}

#[tokio::test]
async fn a_purchase_holds_everywhere() {
    holds_everywhere(asked, async |world, asked| {
        world.environment().purchase(asked).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_purchase_of_the_last_unit_holds_everywhere() {
    // Two of three buckets are empty but still open on the page, so the press has to move its claim.
    let given = async |world: &World| {
        let offer = world.sale(72, 24).await;
        let seckill = world.environment();
        for (buyer, quantity) in [("x", 24), ("y", 24), ("z", 23)] {
            seckill.purchase(&world.asks(&offer, buyer, quantity, None)).await.unwrap();
        }
        world.consume().await;
        world.asks(&offer, "alice", 1, Some("key"))
    };
    holds_everywhere(given, async |world, asked| {
        world.environment().purchase(asked).await.unwrap();
    })
    .await;
}

async fn message(world: &World) -> OrderMessage {
    let asked = asked(world).await;
    let order_id = world.environment().purchase(&asked).await.unwrap().order;
    let (claims, _) = world.store.claims(&asked.buyer_key, &asked.offer.sale).await.unwrap();
    OrderMessage {
        version: VERSION,
        order_id,
        buyer: asked.buyer,
        sale_id: asked.offer.sale,
        bucket: claims.claims[&asked.offer.item].bucket,
        item_id: asked.offer.item,
        quantity: 1,
        shop_data: Default::default(),
        trace: None,
    }
}

#[tokio::test]
async fn placing_an_order_holds_everywhere() {
    holds_everywhere(message, async |world, message| {
        place_order(&world.store, &Sales::default(), message, world.now()).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn failing_an_order_without_a_claim_holds_everywhere() {
    let given = async |world: &World| {
        let message = message(world).await;
        world.store.drop_claim(&message.offer(), &message.order_id).await.unwrap();
        message
    };
    holds_everywhere(given, async |world, message| {
        place_order(&world.store, &Sales::default(), message, world.now()).await.unwrap();
        let order = world.order(&message.order_id).await.unwrap();
        assert_eq!(order.status, Status::Failed);
    })
    .await;
}

async fn ordered(world: &World) -> OrderId {
    let message = message(world).await;
    world.consume().await;
    message.order_id
}

#[tokio::test]
async fn a_cancel_holds_everywhere() {
    holds_everywhere(ordered, async |world, order| {
        close(world.context(), order, Cause::Buyer).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_timeout_holds_everywhere() {
    let given = async |world: &World| {
        let order = ordered(world).await;
        world.pass(901);
        order
    };
    holds_everywhere(given, async |world, order| {
        close(world.context(), order, Cause::Deadline).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_preheat_holds_everywhere() {
    let given = async |world: &World| {
        let offer = Offer { sale: "sale".parse().unwrap(), item: "phone".parse().unwrap() };
        flows::sale::set_up::create(&world.store, offer.sale.clone(), form(60, 1), world.now()).await.unwrap();
        offer
    };
    holds_everywhere(given, async |world, offer| {
        world.preheat(offer).await;
    })
    .await;
}

#[tokio::test]
async fn a_restock_holds_everywhere() {
    holds_everywhere(
        async |world| world.sale(30, 1).await,
        async |world, offer| {
            world.restock(offer, 50, Some("delivery-7")).await;
        },
    )
    .await;
}

/// The buyer does not press again and no message is delivered again: reconcile alone finishes the purchase. Wherever
/// it stopped, either nothing is held or there is an order.
#[tokio::test]
async fn a_purchase_that_stops_anywhere_is_finished_by_reconcile() {
    let mut with_order = 0;
    for number in 1..=5 {
        for stop in [Fault::Stops, Fault::AppliedThenStops] {
            let world = World::new().await;
            let asked = asked(&world).await;
            let seckill = world.environment();
            assert!(stopped(&world, number, stop, seckill.purchase(&asked)).await, "it ended before call {number}");
            world.clear_faults();
            world.pass(61);
            world.reconcile().await;
            world.settle_down().await;
            let (_, held, _) = world.figures(&asked.offer).await;
            let id = OrderId::new(asked.now, &asked.buyer_key, asked.random);
            let order = world.order(&id).await;
            assert_eq!(held > 0, order.is_some(), "{stop:?} at call {number}");
            with_order += u32::from(order.is_some());
            assert!(
                world.reconcile().await.found_nothing(),
                "{stop:?} at call {number}: a second reconcile finds something"
            );
        }
    }
    assert_eq!(with_order, 3, "an order exists if it stopped after the hold, or before or after the message");
}

#[tokio::test]
async fn a_close_that_stops_anywhere_is_finished_by_reconcile() {
    for number in 1..=3 {
        let world = World::new().await;
        let order = ordered(&world).await;
        let offer = Offer { sale: "sale".parse().unwrap(), item: "phone".parse().unwrap() };
        let closing = close(world.context(), &order, Cause::Buyer);
        assert!(stopped(&world, number, Fault::AppliedThenStops, closing).await);
        world.clear_faults();
        world.pass(61);
        let report = world.reconcile().await;
        assert_eq!(report.finished, u32::from(number < 3), "stopped after call {number}");
        assert_eq!(world.figures(&offer).await, (30, 0, 0));
        world.stream().await;
        assert!(world.reconcile().await.found_nothing());
        world.buys(&offer, "alice").await;
    }
}

#[tokio::test]
async fn a_preheat_that_stops_in_the_middle_is_finished_by_reconcile() {
    let world = World::new().await;
    let offer = Offer { sale: "sale".parse().unwrap(), item: "phone".parse().unwrap() };
    flows::sale::set_up::create(&world.store, offer.sale.clone(), form(100, 1), world.now()).await.unwrap();
    let preheating = flows::sale::stock::preheat(&world.store, &offer.sale, world.now(), far());
    assert!(stopped(&world, 6, Fault::Stops, preheating).await);
    world.clear_faults();
    assert!(world.buckets(&offer).await.len() < 5);
    assert!(world.reconcile().await.laid_out > 0);
    assert_eq!(world.figures(&offer).await, (100, 0, 0));
    world.stream().await;
    assert!(world.reconcile().await.found_nothing());
}
