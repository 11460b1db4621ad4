//! The operator's live figures are correct, and cheap however many consoles are open.

use flows::view::live::{Figures, Live};
use testkit::world::World;

fn reads(world: &World) -> usize {
    world.cost().0.iter().filter(|operation| ["BatchGetItem"].contains(&operation.as_str())).count()
}

#[tokio::test]
async fn figures_are_summed_from_the_buckets_at_most_once_a_second() {
    let world = World::new().await;
    let offer = world.sale(50, 1).await;
    for buyer in ["ann", "bob", "cat"] {
        world.buys(&offer, buyer).await;
    }
    world.settle_down().await;
    let live = Live::default();
    let seen = live.figures(&world.store, &offer.sale, world.now()).await.unwrap().unwrap();
    assert_eq!(seen.items[&offer.item], Figures { total: 50, free: 47, held: 3, sold: 0 });
    assert_eq!(seen.at, world.now());

    world.buys(&offer, "dan").await;
    world.wire.forget_calls();
    let again = live.figures(&world.store, &offer.sale, world.now()).await.unwrap().unwrap();
    assert_eq!(again.items[&offer.item].held, 3);
    assert_eq!(world.cost().0, [""; 0], "a second request within a second costs no call");
    world.pass(1);
    let later = live.figures(&world.store, &offer.sale, world.now()).await.unwrap().unwrap();
    assert_eq!(later.items[&offer.item].held, 4);
    assert!(reads(&world) > 0);
    let unknown = "other".parse().unwrap();
    assert!(live.figures(&world.store, &unknown, world.now()).await.unwrap().is_none());
}

#[tokio::test]
async fn orders_are_counted_by_status_at_most_every_ten_seconds() {
    let world = World::new().await;
    let offer = world.sale(50, 1).await;
    let order = world.buys(&offer, "ann").await;
    world.buys(&offer, "bob").await;
    world.settle_down().await;
    let cause = flows::pay::close::Cause::Buyer;
    flows::pay::close::close(world.context(), &order, cause).await.unwrap();
    let live = Live::default();
    let counted = live.orders(&world.store, &offer.sale, world.now()).await.unwrap().unwrap();
    let by_state: Vec<_> = counted.0.iter().map(|(status, count)| (status.as_str(), *count)).collect();
    assert_eq!(by_state, [("PENDING_PAYMENT", 1), ("CLOSED", 1)]);
    world.wire.forget_calls();
    world.pass(9);
    live.orders(&world.store, &offer.sale, world.now()).await.unwrap();
    assert_eq!(world.cost().0, [""; 0]);
    world.pass(1);
    live.orders(&world.store, &offer.sale, world.now()).await.unwrap();
    assert_eq!(reads(&world), 1);
}
