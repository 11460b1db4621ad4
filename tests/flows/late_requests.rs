//! Lost answers, late requests, and two requests that work on one order: every accepted order has its units, and no
//! units are taken twice.

use std::sync::atomic::{AtomicBool, Ordering};

use domain::claim::{Claim, ClaimState};
use domain::ids::{IdempotencyKey, Offer, OrderId};
use domain::message::{OrderMessage, VERSION};
use domain::order::Status;
use domain::payment::Method;
use domain::sale::SaleChange;
use flows::buy::place_order::place_order;
use flows::buy::purchase::{Purchase, Refusal};
use flows::pay::close::{Cause, close};
use flows::pay::refund::{Asker, refund};
use flows::sale::sales::Sales;
use flows::sale::set_up::change;
use local_cloud::wire::{Fault, Loss};
use store::{ClaimWrite, Hold, NewClaim};
use testkit::stepping::at_call;
use testkit::world::World;

/// Without a key, only the order's number shows the retry that the existing claim is its own.
#[tokio::test]
async fn a_press_without_a_key_is_not_its_own_duplicate_after_a_lost_answer() {
    for number in 1..=5 {
        for fault in [Fault::AppliedButLost(Loss::Io), Fault::AppliedButServerError] {
            let world = World::new().await;
            let offer = world.sale(30, 1).await;
            at_call(&world, number, fault);
            let order = world.press(&offer, "alice").await.unwrap().order;
            world.clear_faults();
            assert!(world.wire.calls().iter().any(|call| call.fault == fault), "the press ended before call {number}");
            world.settle_down().await;
            assert_eq!(world.order(&order).await.unwrap().status, Status::PendingPayment, "{fault:?} at call {number}");
            assert_eq!(world.figures(&offer).await, (29, 1, 0), "{fault:?} at call {number}");
        }
    }
}

#[tokio::test]
async fn a_key_that_resumed_an_abandoned_attempt_keeps_its_answer() {
    let world = World::new().await;
    let offer = world.sale(30, 2).await;
    stock_is_down(&world, Fault::ServerError);
    world.press(&offer, "alice").await.unwrap_err();
    world.clear_faults();
    world.pass(121);
    // The abandoned attempt was for one unit and holds none: this request for two takes its place.
    let order = world.environment().purchase(&world.asks(&offer, "alice", 2, Some("k"))).await.unwrap().order;
    let again = world.environment().purchase(&world.asks(&offer, "alice", 2, Some("k"))).await.unwrap().order;
    assert_eq!(again, order);
    let other = world.environment().purchase(&world.asks(&offer, "alice", 1, Some("k"))).await;
    assert!(matches!(other, Err(Refusal::Mismatch)), "{other:?}");
    assert_eq!(world.figures(&offer).await, (28, 2, 0));
}

/// From now on every call to the stock table meets this fault.
fn stock_is_down(world: &World, fault: Fault) {
    let stock = world.names().stock.clone();
    world.fault(move |call| if call.resource().as_deref() == Some(&stock) { fault } else { Fault::None });
}

fn at_bucket(asked: &Purchase, claim: &Claim) -> OrderMessage {
    OrderMessage {
        version: VERSION,
        order_id: claim.order.clone(),
        buyer: asked.buyer.clone(),
        sale_id: asked.offer.sale.clone(),
        item_id: asked.offer.item.clone(),
        quantity: claim.quantity,
        bucket: claim.bucket,
        shop_data: Default::default(),
        trace: None,
    }
}

/// One request has held a unit in bucket `one` and sent its message. Another request for the same order had found
/// that bucket full and has moved the claim to bucket `other`.
async fn claim_moved_after_hold(world: &World) -> (Offer, OrderMessage, OrderMessage) {
    let offer = world.sale(72, 1).await;
    let asked = world.asks(&offer, "alice", 1, Some("k"));
    let order = world.environment().purchase(&asked).await.unwrap().order;
    let (claims, _) = world.store.claims(&asked.buyer_key, &offer.sale).await.unwrap();
    let one = claims.claims[&offer.item].clone();
    assert_eq!(one.order, order);
    let other = Claim { bucket: (one.bucket + 1) % 3, previous_buckets: vec![one.bucket], ..one.clone() };
    world.store.move_claim(&offer, &one, &other).await.unwrap();
    let queue = local_cloud::engine::sqs::Sqs::name_of(&world.names().orders_queue_url).to_owned();
    world.cloud.sqs.purge(&queue).await.unwrap();
    (offer, at_bucket(&asked, &one), at_bucket(&asked, &other))
}

/// The order is pending, and its unit is held in its own bucket and in no other.
async fn has_its_unit(world: &World, offer: &Offer, id: &OrderId, when: &str) {
    let order = world.order(id).await.unwrap();
    assert_eq!(order.status, Status::PendingPayment, "{when}");
    let holding: Vec<u32> = world
        .store
        .buckets(offer, 0..3)
        .await
        .unwrap()
        .into_iter()
        .filter_map(|(number, bucket)| bucket.holders.contains_key(id).then_some(number))
        .collect();
    assert_eq!(holding, [order.bucket], "{when}");
    assert_eq!(world.figures(offer).await, (71, 1, 0), "{when}");
}

#[tokio::test]
async fn an_order_has_its_unit_although_its_claim_was_moved_and_its_messages_are_late() {
    // Reconcile runs while the messages are in flight; then they arrive in either order.
    for (other_held, other_first) in [(true, false), (true, true), (false, false)] {
        let when = format!("held at the other: {other_held}, its message first: {other_first}");
        let world = World::new().await;
        let (offer, one, other) = claim_moved_after_hold(&world).await;
        if other_held {
            world.store.hold(&offer, other.bucket, &other.order_id, 1).await.unwrap();
        }
        world.pass(61);
        world.reconcile().await;
        let mut messages = vec![one.clone()];
        if other_held {
            messages.push(other);
        }
        if other_first {
            messages.reverse();
        }
        for message in &messages {
            place_order(&world.store, &Sales::default(), message, world.now()).await.unwrap();
        }
        world.settle_down().await;
        world.reconcile().await;
        world.settle_down().await;
        has_its_unit(&world, &offer, &one.order_id, &when).await;
        assert!(world.reconcile().await.found_nothing(), "{when}");
    }
}

/// order-consumer marked the claim for one message and stopped before it created the order. The other message or
/// reconcile comes next.
#[tokio::test]
async fn an_order_is_created_in_the_bucket_for_which_its_claim_was_marked() {
    for (reconciled, first_taken) in [(false, false), (true, false), (false, true), (true, true)] {
        let world = World::new().await;
        let (offer, one, other) = claim_moved_after_hold(&world).await;
        world.store.hold(&offer, other.bucket, &other.order_id, 1).await.unwrap();
        let (taken, late) = if first_taken { (&one, &other) } else { (&other, &one) };
        world.store.mark_ordered(&offer, &taken.order_id, taken.bucket).await.unwrap();
        if reconciled {
            world.pass(61);
            world.reconcile().await;
        }
        place_order(&world.store, &Sales::default(), late, world.now()).await.unwrap();
        world.settle_down().await;
        world.pass(61);
        world.reconcile().await;
        world.settle_down().await;
        has_its_unit(&world, &offer, &one.order_id, &format!("reconciled: {reconciled}")).await;
        assert_eq!(world.order(&one.order_id).await.unwrap().bucket, taken.bucket);
    }
}

/// A press that found no units leaves nothing behind, so its key is not answered with an order that never existed.
#[tokio::test]
async fn a_key_that_was_refused_as_sold_out_can_be_used_again() {
    let world = World::new().await;
    let offer = world.sale(1, 1).await;
    let first = world.buys(&offer, "first").await;
    world.consume().await;
    // The page is stale and shows an open bucket, so the claim is made and withdrawn.
    let refused = world.environment().purchase(&world.asks(&offer, "alice", 1, Some("k"))).await;
    assert!(matches!(refused, Err(Refusal::SoldOut { available: 0 })), "{refused:?}");
    let (claims, _) = world.store.claims(&world.asks(&offer, "alice", 1, None).buyer_key, &offer.sale).await.unwrap();
    assert_eq!(claims, domain::claim::BuyerClaims::default());
    flows::pay::close::close(world.context(), &first, flows::pay::close::Cause::Buyer).await.unwrap();
    world.stream().await;
    world.pass(1);
    let order = world.environment().purchase(&world.asks(&offer, "alice", 1, Some("k"))).await.unwrap().order;
    world.settle_down().await;
    assert_eq!(world.order(&order).await.unwrap().status, Status::PendingPayment);
}

/// The answer to a key does not change when the sale ends or pauses, but nothing new is sold for it.
#[tokio::test]
async fn an_unfinished_attempt_takes_no_units_after_the_end_or_during_a_pause() {
    for ended in [true, false] {
        for held in [true, false] {
            let world = World::new().await;
            let offer = world.sale(30, 1).await;
            stock_is_down(&world, if held { Fault::AppliedButLost(Loss::Io) } else { Fault::ServerError });
            let first = world.asks(&offer, "alice", 1, Some("k"));
            world.environment().purchase(&first).await.unwrap_err();
            world.clear_faults();
            if ended {
                world.pass(3_600);
            } else {
                change(&world.store, &offer.sale, SaleChange::Pause, world.now()).await.unwrap();
            }
            let again = world.environment().purchase(&world.asks(&offer, "alice", 1, Some("k"))).await;
            let id = OrderId::new(first.now, &first.buyer_key, first.random);
            match again {
                Ok(accepted) => assert_eq!((held, accepted.order), (true, id)),
                Err(Refusal::Ended) => assert_eq!((held, ended), (false, true)),
                Err(Refusal::Paused) => assert_eq!((held, ended), (false, false)),
                Err(other) => panic!("{other}"),
            }
            assert_eq!(world.figures(&offer).await.1, u32::from(held));
        }
    }
}

#[tokio::test]
async fn a_duplicate_press_names_the_live_order_even_if_everything_is_sold() {
    let world = World::new().await;
    let offer = world.sale(1, 1).await;
    let order = world.buys(&offer, "alice").await;
    world.settle_down().await;
    let again = world.environment().purchase(&world.asks(&offer, "alice", 1, Some("new"))).await;
    assert!(matches!(&again, Err(Refusal::Duplicate(first)) if *first == order), "{again:?}");
}

/// The function has cached that the sale does not exist, and then it is created.
#[tokio::test]
async fn an_order_does_not_fail_because_of_a_stale_cache_of_its_sale() {
    let world = World::new().await;
    let sales = Sales::default();
    let id = "sale".parse().unwrap();
    assert!(sales.get(&world.store, &id, world.now()).await.unwrap().is_none());
    let offer = world.preheated(30, 1).await;
    let asked = world.asks(&offer, "alice", 1, None);
    let order = OrderId::new(asked.now, &asked.buyer_key, asked.random);
    let claim = Claim {
        order,
        quantity: 1,
        bucket: 0,
        state: ClaimState::Held,
        previous_buckets: Vec::new(),
        shop_data: Default::default(),
    };
    let key = IdempotencyKey::from(&claim.order);
    let new =
        NewClaim { offer: &offer, buyer: &asked.buyer, claim: &claim, key: &key, expires: asked.now, cooldown: None };
    world.store.claim(&new).await.unwrap();
    world.store.hold(&offer, 0, &claim.order, 1).await.unwrap();
    place_order(&world.store, &sales, &at_bucket(&asked, &claim), world.now()).await.unwrap();
    assert_eq!(world.order(&claim.order).await.unwrap().status, Status::PendingPayment);
}

/// The claim was sent twice. The second write led to the order, and the first one arrives after the order has ended.
/// It must be refused, because nothing would ever drop it.
#[tokio::test]
async fn a_delayed_claim_that_arrives_after_its_order_ended_does_not_block_its_buyer() {
    for key in [None, Some("k")] {
        let world = World::new().await;
        let offer = world.sale(30, 1).await;
        let claims = world.names().claims.clone();
        let was_delayed = AtomicBool::new(false);
        world.fault(move |call| match call.resource().as_deref() == Some(&claims) {
            true if !was_delayed.swap(true, Ordering::SeqCst) => Fault::Late,
            _ => Fault::None,
        });
        let order = world.environment().purchase(&world.asks(&offer, "alice", 1, key)).await.unwrap().order;
        world.settle_down().await;
        close(world.context(), &order, Cause::Buyer).await.unwrap();
        assert!(world.wire.arrive(0).await.is_some(), "the first claim was not delayed");
        // The message is delivered again as well.
        let asked = world.asks(&offer, "alice", 1, key);
        let claim = Claim {
            order,
            quantity: 1,
            bucket: 0,
            state: ClaimState::Held,
            previous_buckets: Vec::new(),
            shop_data: Default::default(),
        };
        place_order(&world.store, &Sales::default(), &at_bucket(&asked, &claim), world.now()).await.unwrap();
        world.pass(7);
        world.press(&offer, "alice").await.unwrap_or_else(|refusal| panic!("with {key:?}: {refusal}"));
    }
}

/// A request resumes an attempt while the first request withdraws it, together with the keys that the first knows.
#[tokio::test]
async fn a_key_is_not_answered_with_an_attempt_that_never_held_units() {
    let world = World::new().await;
    let offer = world.sale(30, 1).await;
    let with_a_key = || world.asks(&offer, "alice", 1, Some("k"));
    stock_is_down(&world, Fault::ServerError);
    world.press(&offer, "alice").await.unwrap_err();
    world.pass(7);
    world.environment().purchase(&with_a_key()).await.unwrap_err();
    world.clear_faults();
    let (claims, _) = world.store.claims(&with_a_key().buyer_key, &offer.sale).await.unwrap();
    let claim = &claims.claims[&offer.item];
    let known = [IdempotencyKey::from(&claim.order)];
    assert_eq!(world.store.withdraw_claim(&offer, claim, &known).await.unwrap(), ClaimWrite::Done);

    let order = world.environment().purchase(&with_a_key()).await.unwrap().order;
    world.settle_down().await;
    assert_eq!(world.order(&order).await.map(|order| order.status), Some(Status::PendingPayment));
}

/// The first request is slow. A second one moves its claim and finds nothing. Then a unit is released in the bucket
/// that the first still tries, and the first is accepted. A third request, before the message arrives, gets the same
/// order.
#[tokio::test]
async fn a_hold_in_a_bucket_that_the_claim_was_moved_away_from_is_found() {
    let world = World::new().await;
    let offer = world.sale(1, 1).await;
    world.restock(&offer, 1, None).await;
    world.stream().await;
    world.pass(2);
    let seckill = world.environment();
    for buyer in ["bob", "carol"] {
        seckill.purchase(&world.asks(&offer, buyer, 1, None)).await.unwrap();
    }
    world.consume().await;
    let asked = || world.asks(&offer, "alice", 1, Some("k"));
    let first = asked();
    let order = OrderId::new(first.now, &first.buyer_key, first.random);
    let claim = Claim {
        order: order.clone(),
        quantity: 1,
        bucket: 0,
        state: ClaimState::Held,
        previous_buckets: Vec::new(),
        shop_data: Default::default(),
    };
    let key = first.key.clone().unwrap();
    let expires = world.now().saturating_add(jiff::SignedDuration::from_hours(1)).unwrap();
    world
        .store
        .claim(&NewClaim { offer: &offer, buyer: &first.buyer, claim: &claim, key: &key, expires, cooldown: None })
        .await
        .unwrap();

    let second = world.environment().purchase(&asked()).await;
    assert!(matches!(second, Err(Refusal::SoldOut { .. })), "{second:?}");
    let (claims, _) = world.store.claims(&first.buyer_key, &offer.sale).await.unwrap();
    let moved = &claims.claims[&offer.item];
    assert_eq!((moved.bucket, &moved.previous_buckets[..]), (1, &[0][..]));

    // After it is moved back and away again, both buckets are previous ones.
    let back = Claim { bucket: 0, previous_buckets: vec![0, 1], ..moved.clone() };
    assert_eq!(world.store.move_claim(&offer, moved, &back).await.unwrap(), ClaimWrite::Done);
    let again = Claim { bucket: 1, ..back.clone() };
    assert_eq!(world.store.move_claim(&offer, &back, &again).await.unwrap(), ClaimWrite::Done);

    let buckets = world.store.buckets(&offer, [0]).await.unwrap();
    let holder = buckets[0].1.holders.keys().next().unwrap().clone();
    close(world.context(), &holder, Cause::Buyer).await.unwrap();
    assert_eq!(world.store.hold(&offer, 0, &order, 1).await.unwrap(), Hold::Held);
    world.stream().await;
    world.pass(180);

    let third = world.environment().purchase(&asked()).await.unwrap();
    assert_eq!(third.order, order);
    world.settle_down().await;
    let placed = world.order(&order).await.unwrap();
    assert_eq!((placed.status, placed.bucket), (Status::PendingPayment, 0));
}

/// A press for three units stops before its hold. The buyer then wants one unit: the unfinished purchase is replaced as
/// soon as its request has certainly ended, and never resumed.
#[tokio::test]
async fn an_unfinished_purchase_of_another_quantity_is_replaced_if_nothing_is_held() {
    let world = World::new().await;
    let offer = world.sale(10, 3).await;
    let stock = world.names().stock.clone();
    world.fault(move |call| if call.resource().as_deref() == Some(&stock) { Fault::ServerError } else { Fault::None });
    let first = world.environment().purchase(&world.asks(&offer, "alice", 3, Some("three"))).await;
    assert!(matches!(first, Err(Refusal::Unavailable(_))), "{first:?}");
    world.clear_faults();
    world.pass(7);
    let early = world.environment().purchase(&world.asks(&offer, "alice", 1, Some("one"))).await;
    assert!(matches!(early, Err(Refusal::Busy)), "the first request may still be running: {early:?}");
    world.pass(120);
    let accepted = world.environment().purchase(&world.asks(&offer, "alice", 1, Some("one"))).await.unwrap();
    assert_eq!(accepted.quantity, 1);
    world.settle_down().await;
    assert_eq!(world.order(&accepted.order).await.unwrap().quantity, 1);
    assert_eq!(world.figures(&offer).await, (9, 1, 0));
    let again = world.environment().purchase(&world.asks(&offer, "alice", 1, Some("one"))).await.unwrap();
    assert_eq!((again.order, again.quantity), (accepted.order, 1));
}

/// The units of the first press are held, so it is resumed, and the answer says how many they are: also after the order
/// has ended.
#[tokio::test]
async fn an_unfinished_purchase_of_another_quantity_that_holds_units_is_resumed_and_says_its_quantity() {
    let world = World::new().await;
    let offer = world.sale(10, 3).await;
    let stock = world.names().stock.clone();
    world.fault(move |call| match call.resource().as_deref() == Some(&stock) {
        true => Fault::AppliedButLost(Loss::Io),
        false => Fault::None,
    });
    world.environment().purchase(&world.asks(&offer, "alice", 3, Some("three"))).await.unwrap_err();
    world.clear_faults();
    world.pass(7);
    let accepted = world.environment().purchase(&world.asks(&offer, "alice", 1, Some("one"))).await.unwrap();
    assert_eq!(accepted.quantity, 3);
    world.settle_down().await;
    assert_eq!(world.figures(&offer).await, (7, 3, 0));
    flows::pay::close::close(world.context(), &accepted.order, flows::pay::close::Cause::Buyer).await.unwrap();
    let again = world.environment().purchase(&world.asks(&offer, "alice", 1, Some("one"))).await.unwrap();
    assert_eq!((again.order, again.quantity), (accepted.order, 3));
}

/// A buyer's cool-down holds over all running functions: it is in the row that a press writes anyway.
#[tokio::test]
async fn a_buyer_cools_down_over_all_running_functions() {
    let world = World::new().await;
    let offer = world.sale(10, 1).await;
    let found = world.store.sale(&offer.sale).await.unwrap().unwrap();
    let slow = flows::sale::set_up::SaleForm { buyer_cooldown_ms: 5_000, ..testkit::world::form(10, 1) };
    flows::sale::set_up::edit(&world.store, &offer.sale, slow, Some(found.sale.version), world.now()).await.unwrap();
    let order = world.buys(&offer, "alice").await;
    world.consume().await;
    flows::pay::close::close(world.context(), &order, flows::pay::close::Cause::Buyer).await.unwrap();
    world.pass(2);
    let early = world.press(&offer, "alice").await;
    assert!(matches!(early, Err(Refusal::RateLimited { retry_after_ms: 3_000 })), "another function: {early:?}");
    assert!(world.press(&offer, "bob").await.is_ok(), "another buyer");
    world.pass(3);
    world.wire.forget_calls();
    let seckill = world.environment();
    assert!(seckill.purchase(&world.asks(&offer, "alice", 1, None)).await.is_ok());
    assert_eq!(world.cost().1, 2.0, "a press with a cool-down costs no more");
}

/// Moving a sale later must not let a buyer with a live order buy again: the claim outlives any sale.
#[tokio::test]
async fn the_claim_of_a_live_order_does_not_expire() {
    let world = World::new().await;
    let offer = world.sale(10, 1).await;
    let order = world.buys(&offer, "alice").await;
    let expires = async || {
        let client = aws_sdk_dynamodb::Client::new(&world.wire.sdk_config());
        let rows = client.scan().table_name(&world.names().claims).send().await.unwrap().items.unwrap();
        rows[0]["expires"].as_n().unwrap().parse::<i64>().unwrap()
    };
    assert!(expires().await < world.now().as_second() + 40 * 24 * 3_600, "no order yet");
    world.consume().await;
    assert_eq!(world.order(&order).await.unwrap().status.as_str(), "PENDING_PAYMENT");
    assert!(expires().await > world.now().as_second() + 50 * 365 * 24 * 3_600);
    // A press for something else in the same sale does not bring the end nearer.
    world.press(&offer, "alice").await.unwrap_err();
    assert!(expires().await > world.now().as_second() + 50 * 365 * 24 * 3_600);
}

/// The press sent its hold twice, and one of the two is delayed. Meanwhile the order is paid and refunded. A run that
/// still believes the order to be paid, or that finishes the same refund, must not sell the delayed hold's units to it.
#[tokio::test]
async fn a_delayed_hold_of_a_refunded_order_is_refused_and_cannot_be_sold_to_it() {
    let world = World::new().await;
    let offer = world.long_sale(30).await;
    let id = world.unpaid_order(&offer, "alice").await;
    let started = world.start_payment(&id, Method::Stripe, 0).await;
    world.pay(&started).await;
    world.deliver_notices().await;
    let paid = world.order(&id).await.unwrap();
    assert_eq!((paid.status, world.figures(&offer).await), (Status::Paid, (29, 0, 1)));
    refund(world.context(), &id, Asker::Buyer).await.unwrap();
    assert_eq!(world.order(&id).await.unwrap().status, Status::Refunded);
    // The delayed hold arrives. Its sender is told that it has its units, as for any repeated hold.
    assert_eq!(world.store.hold(&offer, paid.bucket, &id, 1).await.unwrap(), Hold::Held);
    assert_eq!(world.figures(&offer).await, (30, 0, 0));
    // A run that read the order while it was PAID.
    flows::finish::paid(&world.store, &paid, world.now()).await.unwrap();
    // Another run that finishes the same refund, and crashes before its last step.
    let order = world.order(&id).await.unwrap();
    world.store.confirm(&offer, order.bucket, &id, 1).await.unwrap();
    world.settle_fully().await;
    assert_eq!(world.figures(&offer).await, (30, 0, 0));
    world.records_agree(&offer, std::slice::from_ref(&id)).await.unwrap();
}

#[tokio::test]
async fn a_refunded_order_is_forgotten_by_its_bucket_once_no_request_of_it_can_arrive() {
    let world = World::new().await;
    let offer = world.long_sale(30).await;
    let id = world.unpaid_order(&offer, "alice").await;
    let started = world.start_payment(&id, Method::Stripe, 0).await;
    world.pay(&started).await;
    world.deliver_notices().await;
    refund(world.context(), &id, Asker::Buyer).await.unwrap();
    let remembered = async || world.buckets(&offer).await.iter().flat_map(|bucket| bucket.sold_to.keys()).count();
    world.pass(9 * 60);
    world.reconcile().await;
    assert_eq!(remembered().await, 1);
    world.pass(60);
    let report = world.reconcile().await;
    assert!(report.found_nothing(), "{report:?}");
    assert_eq!(remembered().await, 0);
}
