//! The rules of a sale: its window, idempotency keys, quantities, restocks, rate limits and edits.

use std::time::Duration;

use domain::bucket::Segment;
use domain::ids::{IdempotencyKey, SaleId};
use domain::sale::{SaleChange, SaleWithItems};
use flows::buy::bucket_picker::FRESH_FOR_MS;
use flows::buy::purchase::{Purchase, Refusal};
use flows::sale::set_up::{SaleForm, SetUpError, change, edit};
use local_cloud::wire::{Fault, Loss};
use serde_json::json;
use testkit::stepping::{at_call, stopped};
use testkit::world::{START_MS, World, far, form};

use crate::handlers::Handlers;

/// An operator who has just read the sale edits it.
async fn edit_now(world: &World, sale: &SaleId, form: SaleForm) -> Result<SaleWithItems, SetUpError> {
    let read = world.store.sale(sale).await.unwrap().unwrap().sale.version;
    edit(&world.store, sale, form, Some(read), world.now()).await
}

#[tokio::test]
async fn a_sale_accepts_presses_from_its_start_until_its_end() {
    let world = World::new().await;
    let offer = world.preheated(10, 1).await;
    let at = |ms: i64| world.clock.advance(Duration::from_millis((START_MS + ms - world.clock.now_ms()) as u64));
    at(-1_000);
    assert!(matches!(world.press(&offer, "a").await, Err(Refusal::NotStarted)));
    at(-1);
    assert!(matches!(world.press(&offer, "a").await, Err(Refusal::NotStarted)));
    at(0);
    assert!(world.press(&offer, "a").await.is_ok());
    at(3_599_999);
    assert!(world.press(&offer, "b").await.is_ok());
    at(3_600_000);
    assert!(matches!(world.press(&offer, "c").await, Err(Refusal::Ended)));
}

/// The storefront counts down by the server's clock, because that clock decides when the sale starts.
#[tokio::test]
async fn sales_are_shown_with_the_servers_time() {
    let world = World::new().await;
    let offer = world.preheated(10, 1).await;
    let handlers = Handlers::of(&world);
    for path in ["/sales".to_owned(), format!("/sales/{}", offer.sale)] {
        for _ in 0..2 {
            let shown = handlers.request(None, "GET", &path, None).await.json();
            assert_eq!(shown["now"], json!(world.now().to_string()), "{path}");
            // The sales themselves are still cached.
            world.clock.advance(Duration::from_millis(10));
        }
    }
}

#[tokio::test]
async fn a_running_function_sees_a_pause_within_a_second() {
    let world = World::new().await;
    let offer = world.sale(10, 1).await;
    let seckill = world.environment();
    seckill.purchase(&world.asks(&offer, "a", 1, None)).await.unwrap();
    change(&world.store, &offer.sale, SaleChange::Pause, world.now()).await.unwrap();
    world.pass(1);
    let refused = seckill.purchase(&world.asks(&offer, "b", 1, None)).await;
    assert!(matches!(refused, Err(Refusal::Paused)));
    change(&world.store, &offer.sale, SaleChange::Resume, world.now()).await.unwrap();
    world.pass(1);
    seckill.purchase(&world.asks(&offer, "b", 1, None)).await.unwrap();
    change(&world.store, &offer.sale, SaleChange::Close, world.now()).await.unwrap();
    world.pass(1);
    assert!(matches!(seckill.purchase(&world.asks(&offer, "c", 1, None)).await, Err(Refusal::Ended)));
    let resumed = change(&world.store, &offer.sale, SaleChange::Resume, world.now()).await;
    assert!(matches!(resumed, Err(SetUpError::WrongState(_))));
}

#[tokio::test]
async fn unknown_sales_and_items_are_refused() {
    let world = World::new().await;
    let offer = world.sale(10, 1).await;
    let mut other = offer.clone();
    other.item = "nothing".parse().unwrap();
    assert!(matches!(world.press(&other, "a").await, Err(Refusal::UnknownItem)));
    other.sale = "nowhere".parse().unwrap();
    assert!(matches!(world.press(&other, "a").await, Err(Refusal::UnknownSale)));
}

#[tokio::test]
async fn a_key_gets_the_same_answer_after_the_item_sold_out_and_after_the_sale_ended() {
    let world = World::new().await;
    let offer = world.sale(1, 1).await;
    let order = world.environment().purchase(&world.asks(&offer, "alice", 1, Some("k"))).await.unwrap().order;
    world.settle_down().await;
    world.pass(1);
    let again = async || world.environment().purchase(&world.asks(&offer, "alice", 1, Some("k"))).await.unwrap().order;
    assert_eq!(again().await, order, "the item is sold out");
    assert!(matches!(world.press(&offer, "bob").await, Err(Refusal::SoldOut { .. })));
    world.pass(3_600);
    assert_eq!(again().await, order, "the sale is over");
    world.settle_down().await;
    assert_eq!(again().await, order, "the order has timed out");
    let other = world.environment().purchase(&world.asks(&offer, "bob", 1, Some("k"))).await;
    assert!(matches!(other, Err(Refusal::Ended)), "keys of different buyers are independent");
}

#[tokio::test]
async fn a_key_cannot_be_reused_for_another_quantity() {
    let world = World::new().await;
    let offer = world.sale(50, 2).await;
    let seckill = world.environment();
    seckill.purchase(&world.asks(&offer, "alice", 1, Some("k"))).await.unwrap();
    let mismatch = seckill.purchase(&world.asks(&offer, "alice", 2, Some("k"))).await;
    assert!(matches!(mismatch, Err(Refusal::Mismatch)));
    assert_eq!(world.figures(&offer).await.1, 1);
}

#[tokio::test]
async fn a_buyer_may_buy_again_after_a_cancel_and_after_a_timeout() {
    let world = World::new().await;
    let offer = world.long_sale(1).await;
    for round in 0..20 {
        let key = format!("key-{round}");
        let order = world.environment().purchase(&world.asks(&offer, "alice", 1, Some(&key))).await.unwrap().order;
        world.consume().await;
        if round % 2 == 0 {
            flows::pay::close::close(world.context(), &order, flows::pay::close::Cause::Buyer).await.unwrap();
        } else {
            world.pass(901);
        }
        world.settle_down().await;
        world.pass(1);
    }
    let (claims, _) = world.store.claims(&world.asks(&offer, "alice", 1, None).buyer_key, &offer.sale).await.unwrap();
    assert!(claims.claims.is_empty());
    let is_known = |key: &str| claims.keys.contains_key(&IdempotencyKey::parse(key).unwrap());
    assert!(!is_known("key-0") && is_known("key-19"), "only the latest answers are kept: {:?}", claims.keys.keys());
    assert!(claims.keys.len() <= domain::claim::MAX_KEYS);
    assert_eq!(world.figures(&offer).await, (1, 0, 0));
}

#[tokio::test]
async fn a_quantity_that_no_bucket_has_is_refused_with_the_available_quantity() {
    let world = World::new().await;
    let offer = world.sale(10, 5).await;
    let seckill = world.environment();
    for (buyer, quantity) in [("a", 4), ("b", 4)] {
        seckill.purchase(&world.asks(&offer, buyer, quantity, None)).await.unwrap();
    }
    let refusal = seckill.purchase(&world.asks(&offer, "c", 3, None)).await.unwrap_err();
    assert!(matches!(refusal, Refusal::SoldOut { available: 2 }), "{refusal:?}");
    seckill.purchase(&world.asks(&offer, "c", 2, None)).await.unwrap();
    let over = seckill.purchase(&world.asks(&offer, "d", 6, None)).await;
    assert!(matches!(over, Err(Refusal::LimitExceeded { limit: 5 })));
    assert_eq!(world.figures(&offer).await, (0, 10, 0));
}

#[tokio::test]
async fn an_unfinished_attempt_for_two_units_does_not_make_one_unit_sold_out() {
    let world = World::new().await;
    let offer = world.sale(2, 2).await;
    let seckill = world.environment();
    let both = world.asks(&offer, "alice", 2, None);
    assert!(stopped(&world, 4, Fault::Stops, seckill.purchase(&both)).await, "it ended before the hold");
    world.clear_faults();
    world.buys(&offer, "bob").await;
    // On another clock the first request may still be running, so it is not withdrawn for two minutes.
    for _ in 0..2 {
        world.pass(60);
        let refusal = world.press(&offer, "alice").await.unwrap_err();
        assert!(matches!(refusal, Refusal::Busy), "one unit is free, so it is not sold out: {refusal:?}");
    }
    world.pass(1);
    world.buys(&offer, "alice").await;
    assert_eq!(world.figures(&offer).await, (0, 2, 0));
}

#[tokio::test]
async fn preheating_again_never_resets_stock() {
    let world = World::new().await;
    let offer = world.sale(50, 1).await;
    for n in 0..20 {
        world.buys(&offer, &format!("buyer {n}")).await;
    }
    let before = world.buckets(&offer).await;
    world.preheat(&offer).await;
    assert_eq!(world.buckets(&offer).await, before);
}

#[tokio::test]
async fn a_restock_with_the_same_key_happens_once() {
    let world = World::new().await;
    let offer = world.sale(10, 1).await;
    world.restock(&offer, 5, Some("delivery-1")).await;
    world.restock(&offer, 5, Some("delivery-1")).await;
    world.restock(&offer, 5, Some("delivery-2")).await;
    assert_eq!(world.figures(&offer).await, (20, 0, 0));
    assert_eq!(world.item(&offer).await.layout.total(), 20);
    let key = IdempotencyKey::parse("delivery-1").unwrap();
    let other = flows::sale::stock::restock(&world.store, &offer, 6, &key, far()).await;
    assert!(matches!(other, Err(SetUpError::Mismatch)), "{other:?}");
}

/// A unit is returned and the storefront shows it. A buyer's press then reaches a function that still remembers the
/// item as sold out.
#[tokio::test]
async fn a_press_with_a_newer_availability_version_is_not_refused_from_memory() {
    let world = World::new().await;
    let offer = world.sale(1, 1).await;
    let handlers = Handlers::of(&world);
    let seckill = world.environment();
    let order = seckill.purchase(&world.asks(&offer, "a", 1, None)).await.unwrap().order;
    world.consume().await;
    world.stream().await;
    world.pass(1);
    let refused = seckill.purchase(&world.asks(&offer, "b", 1, None)).await;
    assert!(matches!(refused, Err(Refusal::SoldOut { .. })), "{refused:?}");

    // A made-up version costs at most one read per 50 ms.
    world.wire.forget_calls();
    for _ in 0..3 {
        let made_up = Purchase { seen_version: Some(u64::MAX), ..world.asks(&offer, "c", 1, None) };
        assert!(matches!(seckill.purchase(&made_up).await, Err(Refusal::SoldOut { .. })));
    }
    assert_eq!(world.cost().0, ["GetItem"]);

    handlers.request(Some("a"), "POST", &format!("/orders/{order}/cancel"), None).await;
    world.stream().await;
    world.clock.advance(Duration::from_millis(60));
    let shown = handlers.request(None, "GET", &format!("/sales/{}", offer.sale), None).await.json();
    let item = &shown["sales"][0]["items"][0];
    assert_eq!(item["availability"], "IN_STOCK");
    let unaware = seckill.purchase(&world.asks(&offer, "b", 1, None)).await;
    assert!(
        matches!(unaware, Err(Refusal::SoldOut { .. })),
        "without a version the function answers from memory: {unaware:?}"
    );
    let seen_version = item["availabilityVersion"].as_u64();
    seckill.purchase(&Purchase { seen_version, ..world.asks(&offer, "b", 1, None) }).await.unwrap();
}

#[tokio::test]
async fn a_sold_out_item_opens_again_on_every_running_function() {
    let world = World::new().await;
    let offer = world.sale(1, 1).await;
    let environments: Vec<_> = (0..4).map(|_| world.environment()).collect();
    let order = environments[0].purchase(&world.asks(&offer, "a", 1, None)).await.unwrap().order;
    world.consume().await;
    world.stream().await;
    world.pass(1);
    for seckill in &environments {
        assert!(matches!(seckill.purchase(&world.asks(&offer, "b", 1, None)).await, Err(Refusal::SoldOut { .. })));
    }

    // A restock is seen once the stream was read and the function's caches have expired.
    world.restock(&offer, 3, None).await;
    world.stream().await;
    world.pass(1);
    for (n, seckill) in environments.iter().enumerate().take(3) {
        seckill.purchase(&world.asks(&offer, &format!("r{n}"), 1, None)).await.unwrap();
    }
    world.settle_down().await;

    // So is a cancel.
    flows::pay::close::close(world.context(), &order, flows::pay::close::Cause::Buyer).await.unwrap();
    world.stream().await;
    world.clock.advance(Duration::from_millis(FRESH_FOR_MS as u64));
    environments[3].purchase(&world.asks(&offer, "c", 1, None)).await.unwrap();
    assert_eq!(world.figures(&offer).await, (0, 4, 0));
}

#[tokio::test]
async fn a_sales_rate_limits_are_enforced() {
    let world = World::new().await;
    let offer = world.preheated(50, 1).await;
    let mut limited = form(50, 1);
    (limited.buyer_cooldown_ms, limited.item_rate_per_second) = (2_000, Some(3));
    edit_now(&world, &offer.sale, limited).await.unwrap();
    world.pass(3_600);
    let seckill = world.environment();
    seckill.purchase(&world.asks(&offer, "a", 1, None)).await.unwrap();
    let again = seckill.purchase(&world.asks(&offer, "a", 1, None)).await;
    assert!(matches!(again, Err(Refusal::RateLimited { retry_after_ms: 2_000 })), "{again:?}");
    seckill.purchase(&world.asks(&offer, "b", 1, None)).await.unwrap();
    seckill.purchase(&world.asks(&offer, "c", 1, None)).await.unwrap();
    let fourth = seckill.purchase(&world.asks(&offer, "d", 1, None)).await;
    assert!(matches!(fourth, Err(Refusal::RateLimited { .. })));
    world.pass(1);
    seckill.purchase(&world.asks(&offer, "e", 1, None)).await.unwrap();
}

#[tokio::test]
async fn rate_limits_do_not_apply_to_answers_from_memory() {
    let world = World::new().await;
    let offer = world.preheated(1, 1).await;
    let mut limited = form(1, 1);
    limited.buyer_cooldown_ms = 2_000;
    edit_now(&world, &offer.sale, limited).await.unwrap();
    world.pass(3_600);
    let seckill = world.environment();
    seckill.purchase(&world.asks(&offer, "a", 1, None)).await.unwrap();
    world.stream().await;
    world.clock.advance(Duration::from_millis(FRESH_FOR_MS as u64));
    // SOLD_OUT comes from memory, so it is not limited.
    for _ in 0..3 {
        let refused = seckill.purchase(&world.asks(&offer, "a", 1, None)).await;
        assert!(matches!(refused, Err(Refusal::SoldOut { .. })), "{refused:?}");
    }
    // A press with a key costs a read, so it is limited.
    let asked = seckill.purchase(&world.asks(&offer, "b", 1, Some("one"))).await;
    assert!(matches!(asked, Err(Refusal::SoldOut { .. })), "{asked:?}");
    world.wire.forget_calls();
    let asked = seckill.purchase(&world.asks(&offer, "b", 1, Some("two"))).await;
    assert!(matches!(asked, Err(Refusal::RateLimited { .. })), "{asked:?}");
    assert_eq!(world.cost().0, [""; 0]);
}

#[tokio::test]
async fn only_names_can_be_edited_once_an_item_is_on_sale() {
    let world = World::new().await;
    let offer = world.preheated(50, 1).await;
    let mut cheaper = form(50, 1);
    cheaper.items[0].price = 1;
    assert!(matches!(edit_now(&world, &offer.sale, cheaper).await, Err(SetUpError::WrongState(_))));
    let mut renamed = form(50, 1);
    (renamed.name, renamed.items[0].name) = ("Tonight".into(), "Red phone".into());
    let sale = edit_now(&world, &offer.sale, renamed).await.unwrap();
    assert_eq!((sale.sale.name.as_str(), sale.items[&offer.item].name.as_str()), ("Tonight", "Red phone"));
    assert_eq!(sale.items[&offer.item].layout.total(), 50);
}

#[tokio::test]
async fn a_draft_can_be_replaced_and_concurrent_edits_do_not_overwrite_each_other() {
    let world = World::new().await;
    let id: domain::ids::SaleId = "sale".parse().unwrap();
    flows::sale::set_up::create(&world.store, id.clone(), form(50, 1), world.now()).await.unwrap();
    let again = flows::sale::set_up::create(&world.store, id.clone(), form(50, 1), world.now()).await;
    assert!(matches!(again, Err(SetUpError::Changed)));
    let mut other = form(7, 1);
    other.items[0].id = "tablet".parse().unwrap();
    let edited = edit_now(&world, &id, other).await.unwrap();
    assert_eq!(edited.items.keys().map(|id| id.as_str()).collect::<Vec<_>>(), ["tablet"]);
    let stale = domain::sale::Sale { version: 2, ..edited.sale.clone() };
    assert_eq!(world.store.put_sale_row(&stale, false).await.unwrap(), store::SaleWrite::Changed);
    flows::sale::stock::preheat(&world.store, &id, world.now(), far()).await.unwrap();
}

#[tokio::test]
async fn a_restock_without_a_key_happens_once_when_an_answer_is_lost() {
    let lost = Fault::AppliedButLost(Loss::Io);
    for number in 1..=5 {
        let world = World::new().await;
        let offer = world.sale(30, 1).await;
        at_call(&world, number, lost);
        world.restock(&offer, 5, None).await;
        world.clear_faults();
        assert!(world.wire.calls().iter().any(|call| call.fault == lost), "the restock ended before call {number}");
        assert_eq!(world.figures(&offer).await, (35, 0, 0), "lost at call {number}");
    }
}

/// An operator edits a draft just after another operator's preheat has read it.
#[tokio::test]
async fn a_preheat_lays_out_the_current_draft_and_not_the_one_that_it_read() {
    for changed in [form(50, 1), form(100, 40)] {
        let world = World::new().await;
        let offer = domain::ids::Offer { sale: "sale".parse().unwrap(), item: "phone".parse().unwrap() };
        flows::sale::set_up::create(&world.store, offer.sale.clone(), form(100, 1), world.now()).await.unwrap();
        let read = world.item(&offer).await;
        let (stock, limit) = (changed.items[0].stock, changed.items[0].limit_per_buyer);
        edit_now(&world, &offer.sale, changed).await.unwrap();
        let segment = Segment::new(read.stock, read.limit_per_buyer, None);
        world.store.extend_layout(&offer, &read, &segment).await.unwrap();
        let item = world.preheat(&offer).await.items.remove(&offer.item).unwrap();
        assert_eq!(
            (item.layout.total(), item.layout.0[0].size),
            (u64::from(stock), Segment::new(stock, limit, None).size)
        );
    }
}

/// The bucket never closed on its page, so the page does not show that units were returned to it. That is why a
/// function remembers an observation for only a second.
#[tokio::test]
async fn a_bucket_with_too_few_units_is_tried_again_after_a_second() {
    let world = World::new().await;
    let offer = world.sale(24, 24).await;
    let seckill = world.environment();
    let greedy = seckill.purchase(&world.asks(&offer, "greedy", 23, None)).await.unwrap().order;
    world.settle_down().await;
    let refused = seckill.purchase(&world.asks(&offer, "alice", 2, None)).await;
    assert!(matches!(refused, Err(Refusal::SoldOut { available: 1 })), "{refused:?}");
    flows::pay::close::close(world.context(), &greedy, flows::pay::close::Cause::Buyer).await.unwrap();
    world.stream().await;
    world.pass(1);
    seckill.purchase(&world.asks(&offer, "alice", 2, None)).await.unwrap();
}

/// The write of the sale's row decides whether an edit is made; the items' names are written after it. An edit that
/// stopped in between is finished by saving it again.
#[tokio::test]
async fn an_edit_that_fails_renames_nothing() {
    let world = World::new().await;
    let offer = world.preheated(50, 1).await;
    let mut renamed = form(50, 1);
    (renamed.name, renamed.items[0].name) = ("Tonight".into(), "Red phone".into());
    let names = async || {
        let found = world.store.sale(&offer.sale).await.unwrap().unwrap();
        (found.sale.name, found.items[&offer.item].name.clone())
    };
    let save = || edit_now(&world, &offer.sale, renamed.clone());
    world.fault(|call| if call.operation == "PutItem" { Fault::ServerError } else { Fault::None });
    assert!(save().await.is_err());
    world.clear_faults();
    assert_eq!(names().await, ("11.11".to_owned(), "Phone".to_owned()));

    let read = world.store.sale(&offer.sale).await.unwrap().unwrap().sale.version;
    let save = || edit(&world.store, &offer.sale, renamed.clone(), Some(read), world.now());
    assert!(stopped(&world, 2, Fault::AppliedThenStops, save()).await);
    world.clear_faults();
    assert_eq!(names().await, ("Tonight".to_owned(), "Phone".to_owned()));
    // The same form again, with the version that was read before: it finishes the change.
    save().await.unwrap();
    assert_eq!(names().await, ("Tonight".to_owned(), "Red phone".to_owned()));
}

#[tokio::test]
async fn the_whole_limit_can_be_bought_from_untouched_stock() {
    for (stock, limit) in [(30, 20), (100, 60), (50, 20), (7, 5)] {
        let world = World::new().await;
        let offer = world.sale(stock, limit).await;
        let bought = world.environment().purchase(&world.asks(&offer, "greedy", limit, None)).await;
        assert!(bought.is_ok(), "{limit} of {stock} untouched units: {bought:?}");
    }
}

/// Two pages. Sixty buckets of the first have one unit each; the bucket of the second has all of its units.
#[tokio::test]
async fn a_page_without_enough_units_in_any_bucket_is_left_for_another_one() {
    let world = World::new().await;
    let offer = world.sale(513 * 24, 24).await;
    let buyer = |n: u32| domain::ids::OrderId::new(world.now(), &world.asks(&offer, "other", 1, None).buyer_key, n);
    for bucket in 0..512 {
        let quantity = if bucket < 60 { 23 } else { 24 };
        world.store.hold(&offer, bucket, &buyer(bucket), quantity).await.unwrap();
    }
    world.stream().await;
    for attempt in 0..10 {
        let order = world.environment().purchase(&world.asks(&offer, &format!("pair {attempt}"), 2, None)).await;
        assert!(order.is_ok(), "attempt {attempt}: {order:?}");
    }
}

#[tokio::test]
async fn the_second_of_two_operators_does_not_undo_the_first() {
    let world = World::new().await;
    let offer = world.preheated(10, 1).await;
    let read = world.store.sale(&offer.sale).await.unwrap().unwrap().sale.version;
    let edit = async |name: &str, read: Option<u64>| {
        let form = SaleForm { name: name.to_owned(), ..form(10, 1) };
        flows::sale::set_up::edit(&world.store, &offer.sale, form, read, world.now()).await
    };
    let first = edit("first", Some(read)).await.unwrap();
    let second = edit("second", Some(read)).await;
    assert!(matches!(second, Err(SetUpError::Stale { version }) if version == first.sale.version), "{second:?}");
    assert!(matches!(edit("third", None).await, Err(SetUpError::Stale { .. })), "an edit without a version");
    assert_eq!(edit("first", Some(read)).await.unwrap().sale, first.sale, "the same edit again");
    let seen = edit("second", Some(first.sale.version)).await.unwrap();
    assert_eq!(seen.sale.name, "second");
}
