//! What a shop attaches to a purchase: it comes back with the order, whatever happens in between.

use domain::order::Status;
use domain::shop_data::{MAX_BYTES, MAX_PAIRS, Metadata, ShopData};
use flows::buy::purchase::{Purchase, Refusal};
use local_cloud::engine::Service;
use local_cloud::wire::Fault;
use testkit::stepping::{holds_everywhere, stopped};
use testkit::world::World;

/// The largest that is accepted.
fn largest() -> ShopData {
    let value = "v".repeat(MAX_BYTES / MAX_PAIRS - 2);
    let pairs = (0..MAX_PAIRS).map(|n| (format!("n{n}"), value.clone())).collect();
    ShopData { reference: Some("r".repeat(64).parse().unwrap()), metadata: Metadata::parse(pairs).unwrap() }
}

fn reference(text: &str) -> ShopData {
    ShopData { reference: Some(text.parse().unwrap()), ..ShopData::default() }
}

#[tokio::test]
async fn the_largest_data_fits_into_the_two_write_units_of_a_press() {
    let world = World::new().await;
    let offer = world.sale(100, 1).await;
    let seckill = world.environment();
    seckill.purchase(&world.asks(&offer, "first", 1, None)).await.unwrap();
    world.wire.forget_calls();
    // The longest name and key that are accepted, too.
    let (buyer, key) = ("b".repeat(128), "k".repeat(64));
    let asked = Purchase { shop_data: largest(), ..world.asks(&offer, &buyer, 1, Some(&key)) };
    let order = seckill.purchase(&asked).await.unwrap().order;
    assert_eq!(world.cost(), (vec!["UpdateItem".into(), "UpdateItem".into(), "SendMessage".into()], 2.0));
    world.consume().await;
    assert_eq!(world.store.order(&order).await.unwrap().unwrap().shop_data, largest());
}

#[tokio::test]
async fn data_survives_a_lost_message() {
    let world = World::new().await;
    let offer = world.sale(30, 1).await;
    let asked = Purchase { shop_data: largest(), ..world.asks(&offer, "alice", 1, None) };
    world.fault(|call| if call.service == Service::Sqs { Fault::ServerError } else { Fault::None });
    let accepted = world.environment().purchase(&asked).await.unwrap();
    assert!(accepted.unsent.is_some(), "the queue is down");
    let order = accepted.order;
    world.clear_faults();
    world.pass(90);
    world.reconcile().await;
    world.consume().await;
    let made = world.store.order(&order).await.unwrap().unwrap();
    assert_eq!((made.status, made.shop_data), (Status::PendingPayment, largest()));
    let found = world.store.order_ids_by_reference(&"r".repeat(64), None, 10).await.unwrap();
    assert_eq!(found, [order]);
}

#[tokio::test]
async fn a_resumed_purchase_keeps_the_data_of_its_first_request() {
    let world = World::new().await;
    let offer = world.sale(30, 1).await;
    let first = Purchase { shop_data: reference("cart-1"), ..world.asks(&offer, "alice", 1, None) };
    let seckill = world.environment();
    let calls = u64::try_from(world.wire.calls().len()).unwrap();
    assert!(stopped(&world, 3, Fault::AppliedThenStops, seckill.purchase(&first)).await, "{calls} calls before");
    world.clear_faults();
    let (claims, _) = world.store.claims(&first.buyer_key, &offer.sale).await.unwrap();
    assert_eq!(claims.claims[&offer.item].shop_data, reference("cart-1"), "stopped after the claim");
    world.pass(7);
    let second = Purchase { shop_data: reference("cart-2"), ..world.asks(&offer, "alice", 1, Some("k")) };
    let order = world.environment().purchase(&second).await.unwrap().order;
    world.consume().await;
    assert_eq!(world.store.order(&order).await.unwrap().unwrap().shop_data, reference("cart-1"));
    // The key answers for what came with it.
    assert_eq!(world.environment().purchase(&second).await.unwrap().order, order);
}

#[tokio::test]
async fn the_same_key_with_other_data_is_a_mismatch() {
    let world = World::new().await;
    let offer = world.sale(30, 1).await;
    let asks = |data: ShopData| Purchase { shop_data: data, ..world.asks(&offer, "alice", 1, Some("k")) };
    let order = world.environment().purchase(&asks(reference("cart-1"))).await.unwrap().order;
    assert_eq!(world.environment().purchase(&asks(reference("cart-1"))).await.unwrap().order, order);
    for other in [reference("cart-2"), ShopData::default()] {
        let refused = world.environment().purchase(&asks(other)).await.unwrap_err();
        assert!(matches!(refused, Refusal::Mismatch), "{refused}");
    }
}

#[tokio::test]
async fn a_purchase_with_data_holds_everywhere() {
    let given = async |world: &World| {
        let offer = world.sale(30, 1).await;
        Purchase { shop_data: largest(), ..world.asks(&offer, "alice", 1, Some("key")) }
    };
    holds_everywhere(given, async |world, asked| {
        world.environment().purchase(asked).await.unwrap();
        let (claims, _) = world.store.claims(&asked.buyer_key, &asked.offer.sale).await.unwrap();
        assert_eq!(claims.claims[&asked.offer.item].shop_data, largest());
    })
    .await;
}
