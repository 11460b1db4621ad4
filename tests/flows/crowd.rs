//! Many concurrent buyers: every unit is sold, none is sold twice, and no buyer gets two.

use std::collections::BTreeSet;
use std::sync::Arc;

use domain::order::Status;
use flows::buy::purchase::Refusal;
use futures::stream::{self, StreamExt};
use testkit::world::World;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_thousand_buyers_buy_ten_thousand_units_exactly_once() {
    const UNITS: usize = 10_000;
    const BUYERS: usize = 20_000;
    let world = Arc::new(World::new().await);
    let offer = world.sale(UNITS as u32, 1).await;
    let environments: Arc<Vec<_>> = Arc::new((0..64).map(|_| world.environment()).collect());

    // The stream is read and time passes while the buyers press, as in a real sale.
    let streaming = {
        let world = world.clone();
        tokio::spawn(async move {
            loop {
                world.stream().await;
                world.clock.advance(std::time::Duration::from_millis(50));
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        })
    };
    let presses = stream::iter(0..BUYERS).map(|n| {
        let (world, environments, offer) = (world.clone(), environments.clone(), offer.clone());
        tokio::spawn(async move {
            let seckill = &environments[n % environments.len()];
            // A client retries when other buyers were faster at the buckets that it tried.
            for _ in 0..20 {
                match seckill.purchase(&world.asks(&offer, &format!("buyer {n}"), 1, None)).await {
                    Ok(accepted) => return Some(accepted.order),
                    Err(Refusal::SoldOut { .. }) => return None,
                    Err(Refusal::Busy) => {}
                    Err(other) => panic!("buyer {n}: {other}"),
                }
            }
            panic!("buyer {n} got no final answer in 20 attempts");
        })
    });
    let answers: Vec<_> = presses.buffer_unordered(64).map(Result::unwrap).collect().await;
    streaming.abort();
    let _ = streaming.await;

    let accepted: BTreeSet<_> = answers.into_iter().flatten().collect();
    assert_eq!(accepted.len(), UNITS, "every unit is sold exactly once");
    assert_eq!(world.figures(&offer).await, (0, UNITS as u32, 0));

    world.settle_down().await;
    let audit = flows::view::audit::audit(&world.store, &offer.sale, None).await.unwrap().unwrap().items;
    let audit = &audit[&offer.item];
    assert_eq!(audit.orders, [(Status::PendingPayment, UNITS as u64)].into(), "there is one order for each unit");
    assert_eq!((audit.drift, audit.findings.len()), (0, 0));
}
