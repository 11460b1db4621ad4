//! Copies of pages: no key is read too often at ten thousand running functions, and what a buyer has seen is in every
//! copy.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use domain::availability::{Page, PageChange};
use domain::ids::Offer;
use domain::sale::{SaleChange, SaleState};
use flows::buy::bucket_picker::{BucketPicker, CHANGING_FRESH_FOR_MS, FRESH_FOR_MS, Pick, Search};
use flows::buy::purchase::{Purchase, Refusal};
use flows::sale::sales::Sales;
use local_cloud::wire::{Call, Fault};
use store::PageRow;
use testkit::stepping::stopped;
use testkit::world::World;

/// What the plan prescribes for ten thousand running functions.
const COPIES: u32 = 12;
const FUNCTIONS: u32 = 10_000;
/// How many of them are simulated, unless `SIMULATED_FUNCTIONS` says otherwise. What they read is counted in
/// proportion.
const SIMULATED: u32 = 2_000;
/// Half of what one partition allows.
const UNITS_PER_KEY: f64 = 1_500.0;

/// Counts the read units of each key of sales and pages.
fn count_reads(world: &World) -> Arc<Mutex<HashMap<String, f64>>> {
    let counts: Arc<Mutex<HashMap<String, f64>>> = Arc::default();
    let counting = counts.clone();
    world.fault(move |call| {
        let mut counts = counting.lock().unwrap();
        for (key, units) in reads(call) {
            *counts.entry(key).or_default() += units;
        }
        Fault::None
    });
    counts
}

fn reads(call: &Call) -> Vec<(String, f64)> {
    let body = call.json();
    let units = |request: &serde_json::Value| if request["ConsistentRead"] == true { 1.0 } else { 0.5 };
    let text = |key: &serde_json::Value| key["S"].as_str().unwrap_or("?").to_owned();
    match call.operation.as_str() {
        "GetItem" if body["Key"]["page"].is_object() => vec![(text(&body["Key"]["page"]), units(&body))],
        "BatchGetItem" => {
            let tables = body["RequestItems"].as_object().into_iter().flat_map(|tables| tables.values());
            let keys = |of: &serde_json::Value| {
                let units = units(of);
                of["Keys"].as_array().into_iter().flatten().map(|key| (text(&key["page"]), units)).collect::<Vec<_>>()
            };
            tables.flat_map(keys).collect()
        }
        "Query" => {
            let values = body["ExpressionAttributeValues"].as_object().into_iter().flat_map(|values| values.values());
            vec![(format!("sale {}", values.map(text).next().unwrap_or_default()), units(&body))]
        }
        _ => Vec::new(),
    }
}

/// Running functions that each take ten presses a second, which is what Lambda sends to one at most.
struct Crowd<'a> {
    world: &'a World,
    offer: &'a Offer,
    functions: Vec<(BucketPicker, Sales)>,
    counts: Arc<Mutex<HashMap<String, f64>>>,
}

impl Crowd<'_> {
    /// One press at each function within a tenth of a second.
    async fn press(&self, store: &store::Store, buckets: u32) -> usize {
        let mut sold_out = 0;
        for (at, (picker, sales)) in self.functions.iter().enumerate() {
            // Spread over a tenth of a second.
            if at % (self.functions.len() / 10) == 0 {
                self.world.clock.advance(Duration::from_millis(10));
            }
            let Purchase { now, random, .. } = self.world.asks(self.offer, "x", 1, None);
            sales.get_for_press(store, &self.offer.sale, now, random).await.unwrap().unwrap();
            let search = Search { offer: self.offer, buckets, quantity: 1, seen_version: None, now, random };
            sold_out += usize::from(picker.pick(store, &search).await.unwrap() == Pick::Nothing { available: 0 });
        }
        sold_out
    }

    /// Checks that no key was read too often since the last time.
    fn check(&self, when: &str, seconds: f64) {
        let counts = std::mem::take(&mut *self.counts.lock().unwrap());
        let each = f64::from(FUNCTIONS) / self.functions.len() as f64;
        let all: f64 = counts.values().sum::<f64>() * each / seconds;
        let (key, units) = counts.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap();
        let units = units * each / seconds;
        println!("{when}: {units:.0} read units per second on {key}, {all:.0} on all keys");
        assert!(units < UNITS_PER_KEY, "{when}, {key}: {units}");
    }
}

/// The requirement: no key above 1,500 read units per second, while the page changes, at the sell-out, and long after
/// it; and the mark of a sold-out item is gone everywhere within `FRESH_FOR_MS` after stock returned.
#[tokio::test]
async fn no_key_is_hot_at_ten_thousand_running_functions() {
    let world = World::new().await.with_page_copies(COPIES);
    let offer = world.sale(240, 1).await;
    let buckets = world.item(&offer).await.layout.buckets();
    let store = world.store_of("seckill");
    let simulated = std::env::var("SIMULATED_FUNCTIONS").map_or(SIMULATED, |count| count.parse().unwrap());
    let functions = (0..simulated).map(|_| Default::default()).collect();
    let crowd = Crowd { world: &world, offer: &offer, functions, counts: count_reads(&world) };

    // While it sells: the page changes all the time. The first presses all come within a tenth of a second.
    let mut open: Vec<u32> = (0..buckets).rev().collect();
    for _ in 0..10 {
        assert_eq!(crowd.press(&store, buckets).await, 0);
        let closed = open.pop().into_iter().collect();
        world.store.update_page(&offer, 0, &PageChange { opened: [].into(), closed }).await.unwrap();
        if open.is_empty() {
            open.push(0);
            world.store.update_page(&offer, 0, &PageChange { opened: [0].into(), closed: [].into() }).await.unwrap();
        }
    }
    crowd.check("while it sells", 1.0);

    // Everything is sold, and stays so.
    let closed = (0..buckets).collect();
    world.store.update_page(&offer, 0, &PageChange { opened: [].into(), closed }).await.unwrap();
    for _ in 0..10 {
        crowd.press(&store, buckets).await;
    }
    crowd.check("at the sell-out", 1.0);
    for _ in 0..10 {
        assert_eq!(crowd.press(&store, buckets).await, crowd.functions.len());
    }
    crowd.check("after the sell-out", 1.0);

    // A unit returns.
    world.store.update_page(&offer, 0, &PageChange { opened: [3].into(), closed: [].into() }).await.unwrap();
    for _ in 0..FRESH_FOR_MS / 100 {
        crowd.press(&store, buckets).await;
    }
    assert_eq!(crowd.press(&store, buckets).await, 0, "every function has seen it");
    crowd.check("when a unit returns", (FRESH_FOR_MS as f64 + 100.0) / 1_000.0);
}

/// What a function reads of a page that has `copies` copies.
async fn versions(world: &World, offer: &Offer, copies: u32) -> (u64, Vec<u64>, u64) {
    let version = async |row| {
        let read = world.store.page_rows(offer, &[0], row, true).await.unwrap().pop();
        read.map_or(0, |(_, page)| page.version)
    };
    let mut of_copies = Vec::new();
    for copy in 1..=copies {
        of_copies.push(version(PageRow::Copy(copy)).await);
    }
    (version(PageRow::Itself).await, of_copies, version(PageRow::Copy(PageRow::SHOWN)).await)
}

/// A change of a page stops before and after each of its calls. What buyers are shown is always in every copy, and
/// the batch that comes again brings all copies up to date.
#[tokio::test]
async fn what_buyers_are_shown_is_in_every_copy_wherever_a_change_stops() {
    for number in 1.. {
        let mut ended = false;
        for stop in [Fault::Stops, Fault::AppliedThenStops] {
            let world = World::new().await.with_page_copies(3);
            let offer = world.sale(72, 1).await;
            let change = PageChange { opened: [0].into(), closed: [1].into() };
            ended |= !stopped(&world, number, stop, world.store.update_page(&offer, 0, &change)).await;
            world.clear_faults();
            let (page, copies, shown) = versions(&world, &offer, 3).await;
            assert!(copies.iter().all(|copy| (shown..=page).contains(copy)), "{page} {copies:?} {shown}");
            world.store.update_page(&offer, 0, &change).await.unwrap();
            let (page, copies, shown) = versions(&world, &offer, 3).await;
            assert!(copies == [page; 3] && shown == page, "{page} {copies:?} {shown}");
        }
        if ended {
            assert!(number > 6, "two writes to the page and four to its copies: {number}");
            return;
        }
    }
}

#[tokio::test]
async fn a_delayed_copy_does_not_replace_a_newer_one() {
    let world = World::new().await.with_page_copies(2);
    let offer = world.sale(72, 1).await;
    let (now, ..) = versions(&world, &offer, 2).await;
    let old = Page { open: [].into(), version: now - 1 };
    world.store.copy_page(&offer, 0, &old).await.unwrap();
    assert_eq!(versions(&world, &offer, 2).await, (now, vec![now; 2], now));
}

/// The number of copies was raised during a sale, and one copy missed a change.
#[tokio::test]
async fn reconcile_brings_copies_up_to_date_and_until_then_the_page_itself_is_read() {
    let mut world = World::new().await;
    let offer = world.sale(24, 1).await;
    let order = world.unpaid_order(&offer, "alice").await;
    world = world.with_page_copies(3);
    world.buys(&offer, "bob").await;
    assert_eq!(versions(&world, &offer, 3).await.1, [0; 3]);
    world.pass(61);
    world.reconcile().await;
    let (page, copies, shown) = versions(&world, &offer, 3).await;
    assert!(copies == [page; 3] && shown == page && page > 0, "{page} {copies:?} {shown}");

    // The page changed, and its copies were not written.
    world.store.open_on_page(&offer, 0, &[0].into()).await.unwrap();
    assert_eq!(versions(&world, &offer, 3).await.1, [page; 3]);
    world.pass(61);
    world.reconcile().await;
    assert_eq!(versions(&world, &offer, 3).await.1, [page + 1; 3]);
    assert!(world.order(&order).await.is_some());
}

/// The function remembers the item as sold out. A buyer who has seen that it is back is not refused, and the strong
/// read goes to this function's copy, not to the page that all functions share.
#[tokio::test]
async fn a_function_that_knows_less_than_the_buyer_reads_its_own_copy() {
    let world = World::new().await.with_page_copies(3);
    let offer = world.sale(1, 1).await;
    let seckill = world.environment();
    let order = seckill.purchase(&world.asks(&offer, "a", 1, None)).await.unwrap().order;
    world.consume().await;
    world.stream().await;
    world.pass(2);
    let refused = seckill.purchase(&world.asks(&offer, "b", 1, None)).await;
    assert!(matches!(refused, Err(Refusal::SoldOut { .. })), "{refused:?}");
    flows::pay::close::close(world.context(), &order, flows::pay::close::Cause::Buyer).await.unwrap();
    world.stream().await;
    let seen = world.store.shown_pages(&offer, &[0]).await.unwrap()[0].1.version;
    let counts = count_reads(&world);
    let unaware = seckill.purchase(&world.asks(&offer, "b", 1, None)).await;
    assert!(matches!(unaware, Err(Refusal::SoldOut { .. })), "{unaware:?}");
    let informed = Purchase { seen_version: Some(seen), ..world.asks(&offer, "b", 1, None) };
    seckill.purchase(&informed).await.unwrap();
    let keys: Vec<String> = counts.lock().unwrap().keys().cloned().collect();
    assert!(keys.iter().all(|key| key.contains('/')) && !keys.is_empty(), "{keys:?}");
}

/// A pause and a restock are in every copy of the sale when the operator has the answer. One that stopped before is
/// brought there by reconcile.
#[tokio::test]
async fn a_change_of_a_sale_reaches_every_copy() {
    let world = World::new().await.with_page_copies(3);
    let offer = world.sale(24, 1).await;
    let admin = world.store_of("admin");
    let change = async |to| {
        flows::sale::set_up::change(&admin, &offer.sale, to, world.now()).await.unwrap();
    };
    let seen = async || {
        let mut seen = Vec::new();
        for copy in 1..=3 {
            let sale = world.store_of("seckill").sale_for_press(&offer.sale, copy).await.unwrap().unwrap();
            seen.push((sale.sale.state, sale.items[&offer.item].laid_out));
        }
        seen
    };
    assert_eq!(seen().await, [(SaleState::Ready, 1); 3]);
    change(SaleChange::Pause).await;
    assert_eq!(seen().await, [(SaleState::Paused, 1); 3]);
    let refused = world.press(&offer, "a").await;
    assert!(matches!(refused, Err(Refusal::Paused)), "{refused:?}");
    let key = domain::ids::IdempotencyKey::parse("more").unwrap();
    flows::sale::stock::restock(&admin, &offer, 24, &key, testkit::world::far()).await.unwrap();
    assert_eq!(seen().await, [(SaleState::Paused, 2); 3]);

    // The sale is resumed, and its copies are not written.
    let sale = world.store.sale(&offer.sale).await.unwrap().unwrap().sale;
    let resumed = domain::sale::Sale { state: SaleState::Ready, version: sale.version + 1, ..sale };
    world.store.put_sale_row(&resumed, true).await.unwrap();
    assert_eq!(seen().await, [(SaleState::Paused, 2); 3]);
    world.reconcile().await;
    assert_eq!(seen().await, [(SaleState::Ready, 2); 3]);
    world.buys(&offer, "a").await;

    // A delayed write of an older state changes nothing.
    let newer = world.store.sale(&offer.sale).await.unwrap().unwrap();
    let mut older = newer.clone();
    (older.sale.state, older.sale.version) = (SaleState::Paused, newer.sale.version - 1);
    world.store.correct_sale_copies(&older).await.unwrap();
    assert_eq!(seen().await, [(SaleState::Ready, 2); 3]);
}

/// A function waits longer while nothing changes, and no longer than `FRESH_FOR_MS`.
#[tokio::test]
async fn a_page_that_does_not_change_is_read_less_often() {
    let world = World::new().await;
    let offer = world.sale(240, 1).await;
    let (store, picker) = (world.store_of("seckill"), BucketPicker::default());
    let mut read_at = Vec::new();
    for _ in 0..600 {
        let Purchase { now, random, .. } = world.asks(&offer, "x", 1, None);
        let search = Search { offer: &offer, buckets: 10, quantity: 1, seen_version: None, now, random };
        world.wire.forget_calls();
        picker.pick(&store, &search).await.unwrap();
        if !world.wire.calls().is_empty() {
            read_at.push(world.clock.now_ms());
        }
        world.clock.advance(Duration::from_millis(10));
    }
    let pauses: Vec<i64> = read_at.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(pauses[0] <= CHANGING_FRESH_FOR_MS && pauses[0] >= CHANGING_FRESH_FOR_MS * 3 / 4, "{pauses:?}");
    assert!(pauses.iter().all(|pause| *pause <= FRESH_FOR_MS), "{pauses:?}");
    assert!(pauses[3..].iter().all(|pause| *pause >= FRESH_FOR_MS * 3 / 4), "{pauses:?}");
    assert!(pauses[3..].windows(2).any(|pair| pair[0] != pair[1]), "at random: {pauses:?}");
}
