//! Free units that are scattered over buckets: an order takes its units from one, so a buyer may be offered fewer.

use std::time::Duration;

use domain::ids::{Offer, OrderId};
use flows::buy::purchase::Refusal;
use testkit::world::World;

/// Units of a whole sale in [`scattered_units_are_offered_until_the_last_one_is_sold`].
const UNITS: u32 = 1_200;

/// How often buyers were offered fewer units than they asked for.
#[derive(Debug, Default)]
struct Offers {
    presses: u32,
    short: u32,
}

/// A whole sale: each buyer wants as many units as `wanted` says, and takes what is offered instead.
async fn sell(wanted: impl Fn(u32) -> u32) -> Offers {
    let world = World::new().await;
    let offer = world.sale(UNITS, 5).await;
    let mut offers = Offers::default();
    let mut units = 0;
    let seckill = world.environment();
    for buyer in 0..2_000_u32 {
        let wanted = wanted(world.asks(&offer, "dice", 1, None).random);
        let name = format!("buyer {buyer}");
        offers.presses += 1;
        let mut result = seckill.purchase(&world.asks(&offer, &name, wanted, None)).await;
        if let Err(Refusal::SoldOut { available }) = result {
            if available == 0 {
                assert_eq!(units, UNITS, "SOLD_OUT while {} units are free", UNITS - units);
                return offers;
            }
            assert!(available < wanted);
            offers.short += 1;
            world.clock.advance(Duration::from_secs(7));
            result = seckill.purchase(&world.asks(&offer, &name, available, None)).await;
        }
        if let Ok(accepted) = result {
            units += accepted.quantity;
        }
        world.stream().await;
        world.clock.advance(Duration::from_millis(400));
    }
    panic!("{units} of {UNITS} units were sold");
}

/// A buyer is told what can be had, never that everything is sold while units are free. docs/figures.md has what this
/// test prints.
#[tokio::test]
async fn scattered_units_are_offered_until_the_last_one_is_sold() {
    let mixed = sell(|random| 1 + random % 5).await;
    println!("one to five units: {} of {} presses were offered fewer", mixed.short, mixed.presses);
    assert!(mixed.short * 20 < mixed.presses, "{mixed:?}");
    for wanted in 1..=5 {
        let Offers { presses, short } = sell(|_| wanted).await;
        println!("{wanted} units: {short} of {presses} presses were offered fewer");
        // What a bucket of 24 has left over is offered once.
        assert_eq!(short, if 24 % wanted == 0 { 0 } else { UNITS / 24 }, "{wanted}");
    }
}

/// Leaves so many units in each bucket.
async fn leave(world: &World, offer: &Offer, left: impl Fn(u32) -> u32) {
    let buckets = world.item(offer).await.layout.buckets();
    let key = world.asks(offer, "other", 1, None).buyer_key;
    for bucket in 0..buckets {
        let order = OrderId::new(world.now(), &key, bucket);
        world.store.hold(offer, bucket, &order, 24 - left(bucket)).await.unwrap();
    }
    world.stream().await;
}

/// Three pages, and one or two units in each bucket. Whichever page a function begins with, a request for five is
/// answered with two, after hundreds of buckets were looked at.
#[tokio::test]
async fn a_quantity_that_no_page_has_is_answered_with_what_can_be_had() {
    let world = World::new().await;
    let offer = world.sale(3 * 512 * 24, 24).await;
    leave(&world, &offer, |bucket| if bucket % 4 == 0 { 2 } else { 1 }).await;
    for attempt in 0..10 {
        let buyer = format!("five {attempt}");
        let refused = world.environment().purchase(&world.asks(&offer, &buyer, 5, None)).await;
        assert!(matches!(refused, Err(Refusal::SoldOut { available: 2 })), "attempt {attempt}: {refused:?}");
        world.press(&offer, &buyer).await.unwrap();
    }
}

/// The last units are on another page than the one in use, and too few for the quantity.
#[tokio::test]
async fn what_another_page_has_is_offered() {
    let world = World::new().await;
    let offer = world.sale(513 * 24, 24).await;
    leave(&world, &offer, |bucket| if bucket == 512 { 3 } else { 0 }).await;
    for attempt in 0..6 {
        let refused = world.environment().purchase(&world.asks(&offer, &format!("five {attempt}"), 5, None)).await;
        assert!(matches!(refused, Err(Refusal::SoldOut { available: 3 })), "attempt {attempt}: {refused:?}");
    }
}
