//! Pairs of concurrent operations on real threads, repeated many times.

use std::sync::Arc;

use domain::order::{Reason, Status};
use flows::buy::purchase::Refusal;
use flows::pay::close::{Cause, CloseOutcome, close};
use testkit::world::{World, far, form};

const ROUNDS: usize = 25;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancel_and_a_timeout_at_once_close_the_order_once() {
    let world = Arc::new(World::new().await);
    let offer = world.sale(1, 1).await;
    for round in 0..ROUNDS {
        world.pass(1);
        let id = world.buys(&offer, &format!("buyer {round}")).await;
        world.consume().await;
        // Both run at a time after the deadline.
        let closing = |cause| {
            let (world, id) = (world.clone(), id.clone());
            let now = world.now().saturating_add(jiff::SignedDuration::from_secs(901)).unwrap();
            tokio::spawn(async move { close(world.context_at(now), &id, cause).await.unwrap() })
        };
        let (one, other) = tokio::join!(closing(Cause::Buyer), closing(Cause::Deadline));
        let closed =
            [one.unwrap(), other.unwrap()].into_iter().filter(|closing| matches!(closing, CloseOutcome::Closed(_)));
        assert_eq!(closed.count(), 1, "exactly one of the two closes the order");
        assert_eq!(world.figures(&offer).await, (1, 0, 0), "the unit is returned once");
        world.stream().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_timeout_and_a_press_at_once_leave_at_most_one_live_order() {
    let world = Arc::new(World::new().await);
    let offer = world.sale(2, 1).await;
    for _ in 0..ROUNDS {
        world.pass(1);
        let id = world.buys(&offer, "alice").await;
        world.consume().await;
        let now = world.now().saturating_add(jiff::SignedDuration::from_secs(901)).unwrap();
        let (closer, presser) = (world.clone(), world.clone());
        let (to_close, wanted) = (id.clone(), offer.clone());
        let closing =
            tokio::spawn(async move { close(closer.context_at(now), &to_close, Cause::Deadline).await.unwrap() });
        let pressing = tokio::spawn(async move { presser.press(&wanted, "alice").await });
        let (closed, pressed) = (closing.await.unwrap(), pressing.await.unwrap());
        assert!(matches!(closed, CloseOutcome::Closed(_)));
        let second = match pressed {
            Ok(accepted) => Some(accepted.order),
            Err(Refusal::Duplicate(first)) => {
                assert_eq!(first, id);
                None
            }
            Err(other) => panic!("{other}"),
        };
        world.settle_down().await;
        let live = u32::from(second.is_some());
        assert_eq!(world.figures(&offer).await, (2 - live, live, 0));
        if let Some(second) = second {
            assert_ne!(second, id);
            let order = world.order(&second).await.unwrap();
            assert_eq!(order.status, Status::PendingPayment);
            close(world.context(), &order.id, Cause::Buyer).await.unwrap();
            world.stream().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_unit_of_a_restock_during_presses_is_sold() {
    let world = Arc::new(World::new().await);
    let offer = world.sale(1, 1).await;
    let seckill = Arc::new(world.environment());
    let mut bought = u32::from(seckill.purchase(&world.asks(&offer, "first", 1, None)).await.is_ok());
    for round in 0..ROUNDS {
        let (restocker, to_restock) = (world.clone(), offer.clone());
        let restocking = tokio::spawn(async move {
            restocker.restock(&to_restock, 1, None).await;
            restocker.stream().await;
        });
        let pressing: Vec<_> = (0..4)
            .map(|n| {
                let (seckill, asked) = (seckill.clone(), world.asks(&offer, &format!("{round} {n}"), 1, None));
                tokio::spawn(async move { seckill.purchase(&asked).await })
            })
            .collect();
        restocking.await.unwrap();
        for press in pressing {
            match press.await.unwrap() {
                Ok(_) => bought += 1,
                Err(Refusal::SoldOut { .. }) => {}
                Err(other) => panic!("{other}"),
            }
        }
        world.pass(1);
        // If no press of the race got the restocked unit, this one does.
        world.stream().await;
        let asked = world.asks(&offer, &format!("{round} late"), 1, None);
        bought += u32::from(seckill.purchase(&asked).await.is_ok());
        let (free, held, _) = world.figures(&offer).await;
        assert_eq!((free, held), (0, bought), "round {round}: not every restocked unit was sold");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_requests_with_one_key_at_once_get_one_order() {
    for stock in [1, 100] {
        let world = Arc::new(World::new().await);
        let offer = world.sale(stock, 1).await;
        for round in 0..ROUNDS.min(stock as usize) {
            let pressing: Vec<_> = (0..8)
                .map(|_| {
                    let (seckill, asked) =
                        (world.environment(), world.asks(&offer, "alice", 1, Some(&format!("k{round}"))));
                    tokio::spawn(async move { seckill.purchase(&asked).await.unwrap().order })
                })
                .collect();
            let mut orders = Vec::new();
            for press in pressing {
                orders.push(press.await.unwrap());
            }
            orders.dedup();
            assert_eq!(orders.len(), 1, "the answers differ");
            world.settle_down().await;
            assert_eq!(world.figures(&offer).await.1, 1, "exactly one unit must be held");
            let order = world.order(&orders[0]).await.unwrap();
            assert_eq!(order.status, Status::PendingPayment);
            close(world.context(), &order.id, Cause::Buyer).await.unwrap();
            world.stream().await;
            world.pass(1);
        }
    }
}

/// No request withdraws the claim of an accepted purchase. If a claim is missing all the same when its message
/// arrives, the order is recorded as FAILED, its unit is released, and the buyer may buy again.
#[tokio::test]
async fn a_message_without_a_claim_creates_a_failed_order() {
    let world = World::new().await;
    let offer = world.sale(10, 1).await;
    let asked = world.asks(&offer, "alice", 1, Some("k"));
    let order = world.environment().purchase(&asked).await.unwrap().order;
    let (claims, _) = world.store.claims(&asked.buyer_key, &offer.sale).await.unwrap();
    let claim = &claims.claims[&offer.item];
    world.store.withdraw_claim(&offer, claim, &[asked.key.clone().unwrap()]).await.unwrap();
    world.settle_down().await;
    let failed = world.order(&order).await.unwrap();
    assert_eq!((failed.status, failed.reason), (Status::Failed, Some(Reason::ClaimLost)));
    assert_eq!(world.figures(&offer).await, (10, 0, 0));
    world.buys(&offer, "alice").await;
}

/// One operator edits a draft while another preheats it. Whichever is first, the buckets match the sale.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_edit_and_a_preheat_at_once_leave_buckets_that_match_the_sale() {
    let world = Arc::new(World::new().await);
    for round in 0..2 * ROUNDS {
        let sale: domain::ids::SaleId = format!("sale-{round}").parse().unwrap();
        flows::sale::set_up::create(&world.store, sale.clone(), form(100, 1), world.now()).await.unwrap();
        let (preheater, editor) = (world.clone(), world.clone());
        let (to_preheat, to_edit) = (sale.clone(), sale.clone());
        let preheating = tokio::spawn(async move {
            flows::sale::stock::preheat(&preheater.store, &to_preheat, preheater.now(), far()).await
        });
        let editing = tokio::spawn(async move {
            for _ in 0..round % 5 {
                tokio::task::yield_now().await;
            }
            flows::sale::set_up::edit(&editor.store, &to_edit, form(50, 1), Some(1), editor.now()).await
        });
        let (preheated, edited) = (preheating.await.unwrap(), editing.await.unwrap());
        assert!(preheated.is_ok(), "round {round}: {preheated:?}");
        let expected = if edited.is_ok() { 50 } else { 100 };
        let audit = flows::view::audit::audit(&world.store, &sale, None).await.unwrap().unwrap().items;
        let audit = audit.values().next().unwrap();
        assert_eq!((audit.total, audit.free, audit.drift), (expected, expected, 0), "round {round}: {edited:?}");
    }
}
