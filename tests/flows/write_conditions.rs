//! Every conditional write on its own: a write that is late, duplicated, or for another order changes nothing.

use domain::availability::PageChange;
use domain::bucket::{Movement, MovementKind};
use domain::claim::{Claim, ClaimState};
use domain::ids::{BuyerKey, Offer, OrderId};
use domain::message::{OrderMessage, VERSION};
use domain::order::{Reason, Status};
use domain::payment::{Method, PaidWith, PayEntry};
use domain::sale::Sale;
use flows::buy::place_order::{Placement, fail};
use flows::buy::purchase::Refusal;
use flows::sale::sales::Sales;
use flows::view::orders::OrderView;
use local_cloud::wire::Fault;
use store::{ClaimWrite, Closed, Hold, Moved, Revival, SaleWrite, StockEntry};
use testkit::world::{World, form};

fn some_order(world: &World, offer: &Offer, buyer: &str) -> OrderId {
    let asked = world.asks(offer, buyer, 1, None);
    OrderId::new(asked.now, &asked.buyer_key, asked.random)
}

async fn claim_of(world: &World, offer: &Offer, order: &OrderId) -> Option<Claim> {
    world.store.claims(&order.buyer(), &offer.sale).await.unwrap().0.claims.remove(&offer.item)
}

fn refused(written: &ClaimWrite) -> bool {
    matches!(written, ClaimWrite::Refused(_))
}

#[tokio::test]
async fn units_are_held_confirmed_and_released_once_and_only_by_their_own_order() {
    let world = World::new().await;
    let offer = world.sale(24, 5).await;
    let (order, other) = (some_order(&world, &offer, "a"), some_order(&world, &offer, "b"));
    for _ in 0..2 {
        assert_eq!(world.store.hold(&offer, 0, &order, 3).await.unwrap(), Hold::Held);
    }
    assert_eq!(world.figures(&offer).await, (21, 3, 0));
    assert_eq!(world.store.hold(&offer, 0, &other, 22).await.unwrap(), Hold::Full { free: 21 });
    // Neither another order nor another quantity can confirm or release them.
    for (order, quantity) in [(&other, 3), (&order, 2)] {
        assert_eq!(world.store.confirm(&offer, 0, order, quantity).await.unwrap(), Moved::NotHeld);
        assert_eq!(world.store.release(&offer, 0, order, quantity).await.unwrap(), Moved::NotHeld);
    }
    assert_eq!(world.store.confirm(&offer, 0, &order, 3).await.unwrap(), Moved::Now);
    assert_eq!(world.store.confirm(&offer, 0, &order, 3).await.unwrap(), Moved::NotHeld);
    assert_eq!(world.store.release(&offer, 0, &order, 3).await.unwrap(), Moved::NotHeld);
    assert_eq!(world.figures(&offer).await, (21, 0, 3));
    // A delayed hold that arrives after the payment finds its units sold, and holds no others.
    assert_eq!(world.store.hold(&offer, 0, &order, 3).await.unwrap(), Hold::Held);
    assert_eq!(world.figures(&offer).await, (21, 0, 3));
}

/// A hold must not create the bucket.
#[tokio::test]
async fn a_hold_in_a_bucket_that_does_not_exist_finds_it_full() {
    let world = World::new().await;
    let offer = world.sale(24, 1).await;
    let order = some_order(&world, &offer, "a");
    assert_eq!(world.store.hold(&offer, 7, &order, 1).await.unwrap(), Hold::Full { free: 0 });
    assert_eq!(world.store.buckets(&offer, [7]).await.unwrap(), []);
}

#[tokio::test]
async fn a_claim_is_changed_only_by_its_own_order_and_only_if_it_is_unchanged() {
    let world = World::new().await;
    let offer = world.sale(72, 1).await;
    let order = world.buys(&offer, "alice").await;
    let claim = claim_of(&world, &offer, &order).await.unwrap();
    let elsewhere = Claim { bucket: claim.bucket + 1, ..claim.clone() };
    let anothers = Claim { order: some_order(&world, &offer, "alice"), ..claim.clone() };
    for wrong in [&elsewhere, &anothers] {
        let moved = Claim { bucket: 9, ..wrong.clone() };
        assert!(refused(&world.store.move_claim(&offer, wrong, &moved).await.unwrap()));
        assert!(refused(&world.store.withdraw_claim(&offer, wrong, &[]).await.unwrap()));
    }
    assert!(refused(&world.store.mark_ordered(&offer, &anothers.order, 9).await.unwrap()));
    assert!(refused(&world.store.drop_claim(&offer, &anothers.order).await.unwrap()));
    assert_eq!(claim_of(&world, &offer, &order).await, Some(claim.clone()));

    // An ORDERED claim stays in its bucket until its order ends.
    assert_eq!(world.store.mark_ordered(&offer, &order, claim.bucket).await.unwrap(), ClaimWrite::Done);
    assert!(refused(&world.store.mark_ordered(&offer, &order, 9).await.unwrap()));
    let moved = Claim { bucket: 9, ..claim.clone() };
    assert!(refused(&world.store.move_claim(&offer, &claim, &moved).await.unwrap()));
    assert!(refused(&world.store.withdraw_claim(&offer, &claim, &[]).await.unwrap()));
    let ordered = Claim { state: ClaimState::Ordered, ..claim };
    assert_eq!(claim_of(&world, &offer, &order).await, Some(ordered));
}

/// Another request has moved the claim away and back again. Its bucket is the same, but `previous_buckets` is not.
#[tokio::test]
async fn a_claim_that_was_moved_and_moved_back_cannot_be_withdrawn_with_the_old_version() {
    let world = World::new().await;
    let offer = world.sale(72, 1).await;
    let order = world.buys(&offer, "alice").await;
    let claim = claim_of(&world, &offer, &order).await.unwrap();
    let away = Claim { bucket: (claim.bucket + 1) % 3, previous_buckets: vec![claim.bucket], ..claim.clone() };
    let back = Claim { previous_buckets: vec![claim.bucket, away.bucket], ..claim.clone() };
    for (from, to) in [(&claim, &away), (&away, &back)] {
        assert_eq!(world.store.move_claim(&offer, from, to).await.unwrap(), ClaimWrite::Done);
    }
    assert!(refused(&world.store.withdraw_claim(&offer, &claim, &[]).await.unwrap()));
    assert!(refused(&world.store.move_claim(&offer, &claim, &away).await.unwrap()));
    assert_eq!(claim_of(&world, &offer, &order).await.as_ref(), Some(&back));
    assert_eq!(world.store.withdraw_claim(&offer, &back, &[]).await.unwrap(), ClaimWrite::Done);
    assert_eq!(claim_of(&world, &offer, &order).await, None);
}

#[tokio::test]
async fn a_key_cannot_be_reused_for_another_item() {
    let world = World::new().await;
    let phone = Offer { sale: "sale".parse().unwrap(), item: "phone".parse().unwrap() };
    let tablet = Offer { item: "tablet".parse().unwrap(), ..phone.clone() };
    let mut two = form(50, 1);
    two.items.push(domain::sale::Item { id: tablet.item.clone(), ..two.items[0].clone() });
    flows::sale::set_up::create(&world.store, phone.sale.clone(), two, world.now()).await.unwrap();
    world.preheat(&phone).await;
    world.pass(3_600);
    let seckill = world.environment();
    seckill.purchase(&world.asks(&phone, "alice", 1, Some("k"))).await.unwrap();
    let other = seckill.purchase(&world.asks(&tablet, "alice", 1, Some("k"))).await;
    assert!(matches!(other, Err(Refusal::Mismatch)), "{other:?}");
    assert_eq!(world.figures(&tablet).await, (50, 0, 0));
    seckill.purchase(&world.asks(&tablet, "alice", 1, Some("k2"))).await.unwrap();
    assert_eq!((world.figures(&phone).await.1, world.figures(&tablet).await.1), (1, 1));
}

/// The deadline of an order that was cancelled fires after its buyer has bought again.
#[tokio::test]
async fn a_duplicate_close_does_not_touch_the_buyers_next_order() {
    let world = World::new().await;
    let offer = world.sale(10, 1).await;
    let first = world.buys(&offer, "alice").await;
    world.settle_down().await;
    let closed = flows::pay::close::close(world.context(), &first, flows::pay::close::Cause::Buyer).await.unwrap();
    assert!(matches!(closed, flows::pay::close::CloseOutcome::Closed(_)));
    world.pass(1);
    let second = world.buys(&offer, "alice").await;
    world.settle_down().await;
    let again = flows::pay::close::close(world.context(), &first, flows::pay::close::Cause::Deadline).await.unwrap();
    assert!(matches!(again, flows::pay::close::CloseOutcome::AlreadyClosed(_)));
    assert_eq!(claim_of(&world, &offer, &second).await.unwrap().order, second);
    assert_eq!(world.figures(&offer).await, (9, 1, 0));
    assert!(matches!(world.press(&offer, "alice").await, Err(Refusal::Duplicate(live)) if live == second));
}

/// Reconcile found neither an order nor a claim, and the order was created before reconcile's write.
#[tokio::test]
async fn an_existing_order_cannot_be_failed() {
    let world = World::new().await;
    let offer = world.sale(10, 1).await;
    let id = world.buys(&offer, "alice").await;
    world.settle_down().await;
    let order = world.order(&id).await.unwrap();
    let message = OrderMessage {
        version: VERSION,
        order_id: id.clone(),
        buyer: order.buyer_name.clone(),
        sale_id: offer.sale.clone(),
        item_id: offer.item.clone(),
        quantity: 1,
        bucket: order.bucket,
        shop_data: Default::default(),
        trace: None,
    };
    let placement = fail(&world.store, &message, Reason::ClaimLost, world.now()).await.unwrap();
    assert!(matches!(placement, Placement::AlreadyPlaced(_)), "{placement:?}");
    assert_eq!(world.order(&id).await.unwrap().status, Status::PendingPayment);
    assert_eq!(world.figures(&offer).await, (9, 1, 0));
}

#[tokio::test]
async fn an_edit_that_is_based_on_an_old_version_changes_nothing() {
    let world = World::new().await;
    let offer = Offer { sale: "sale".parse().unwrap(), item: "phone".parse().unwrap() };
    let created =
        flows::sale::set_up::create(&world.store, offer.sale.clone(), form(50, 1), world.now()).await.unwrap();
    let edited = flows::sale::set_up::edit(&world.store, &offer.sale, form(60, 1), Some(1), world.now()).await.unwrap();
    // Another operator's edit, based on the first version.
    let late = Sale { version: created.sale.version + 1, ..created.sale.clone() };
    let items: Vec<_> = created.items.values().cloned().collect();
    assert_eq!(world.store.put_sale(&late, &items, &[]).await.unwrap(), SaleWrite::Changed);
    assert_eq!(world.store.put_sale_row(&late, true).await.unwrap(), SaleWrite::Changed);
    assert_eq!(world.item(&offer).await.stock, 60);

    // Reconcile read the sale before it was preheated, and wants to stop watching it.
    world.preheat(&offer).await;
    assert_eq!(world.store.unwatch_sale(&edited.sale).await.unwrap(), SaleWrite::Changed);
    assert_eq!(world.store.watched_sales().await.unwrap(), std::slice::from_ref(&offer.sale));
    // A layout that started earlier and ends later does not lower the progress mark.
    let buckets = world.item(&offer).await.laid_out;
    world.store.record_laid_out(&offer, buckets - 1).await.unwrap();
    assert_eq!(world.item(&offer).await.laid_out, buckets);
}

/// A row's key names the stream record that it is made of: a record that is delivered again writes the same row, and
/// another movement never takes its place.
#[tokio::test]
async fn a_ledger_entry_is_written_once_for_each_stream_record() {
    let world = World::new().await;
    let offer = world.sale(24, 1).await;
    let order = some_order(&world, &offer, "a");
    let movement = Movement { order: order.clone(), quantity: 1, kind: MovementKind::Deduct, before: 5, after: 4 };
    let at = world.now();
    let entry = StockEntry { offer: offer.clone(), bucket: 0, movement: movement.clone(), at, sequence: "7".into() };
    world.store.record(std::slice::from_ref(&entry)).await.unwrap();
    let first = world.store.entries(&order).await.unwrap();
    // A batch may carry a record twice.
    world.store.record(&[entry.clone(), entry.clone()]).await.unwrap();
    assert_eq!(world.store.entries(&order).await.unwrap(), first);
    assert_eq!(first.len(), 1);
    // A delayed hold of the same order in the same bucket is another movement.
    let again = StockEntry { movement: Movement { before: 9, after: 8, ..movement }, sequence: "8".into(), ..entry };
    world.store.record(&[again]).await.unwrap();
    let both = world.store.entries(&order).await.unwrap();
    assert_eq!((both.len(), &both[0]), (2, &first[0]));
}

#[tokio::test]
async fn a_sale_is_watched_while_units_are_held_or_cannot_be_read() {
    let world = World::new().await;
    let offer = world.sale(10, 1).await;
    world.pass(3_599);
    let order = world.buys(&offer, "last").await;
    world.settle_down().await;
    world.pass(602);
    assert_eq!(world.reconcile().await.settled, 0, "the order may still be paid");
    flows::pay::close::close(world.context(), &order, flows::pay::close::Cause::Buyer).await.unwrap();
    world.settle_down().await;

    let stock = world.names().stock.clone();
    world.fault(move |call| match call.resource() {
        Some(table) if table == stock => Fault::ServerError,
        _ => Fault::None,
    });
    let report = world.reconcile().await;
    assert_eq!((report.settled, report.errors.len()), (0, 1), "the buckets could not be read");
    world.clear_faults();
    assert_eq!(world.reconcile().await.settled, 1);
}

#[tokio::test]
async fn a_buyer_sees_only_their_own_orders() {
    let world = World::new().await;
    let offer = world.sale(10, 1).await;
    let sales = Sales::default();
    let id = world.buys(&offer, "alice").await;
    let key = |name: &str| world.asks(&offer, name, 1, None).buyer_key;
    let seen = async |buyer: BuyerKey| {
        flows::view::orders::order(&world.store, &sales, &buyer, &id, world.now()).await.unwrap()
    };
    let listed =
        async |buyer: BuyerKey| flows::view::orders::orders(&world.store, &sales, &buyer, world.now()).await.unwrap();
    assert!(
        matches!(seen(key("alice")).await, Some(OrderView::Queued(queued)) if queued.id == id && queued.quantity == 1)
    );
    assert!(matches!(listed(key("alice")).await.as_slice(), [OrderView::Queued(_)]));
    world.consume().await;
    assert!(matches!(seen(key("alice")).await, Some(OrderView::Order(order)) if order.id == id));
    assert!(
        matches!(listed(key("alice")).await.as_slice(), [OrderView::Order(_)]),
        "it is listed once although both its claim and its order exist"
    );
    assert_eq!(seen(key("bob")).await, None);
    assert_eq!(listed(key("bob")).await, []);
}

#[tokio::test]
async fn a_page_change_can_be_repeated() {
    let world = World::new().await;
    let offer = world.sale(72, 1).await;
    let open = async || world.store.pages(&offer, &[0]).await.unwrap()[0].1.open.clone();
    for _ in 0..2 {
        world.store.update_page(&offer, 0, &PageChange { opened: [].into(), closed: [1].into() }).await.unwrap();
        assert_eq!(open().await, [0, 2].into());
    }
    for _ in 0..2 {
        world.store.update_page(&offer, 0, &PageChange { opened: [1].into(), closed: [].into() }).await.unwrap();
        assert_eq!(open().await, [0, 1, 2].into());
    }
}

/// A delayed write arrives after its bucket has free units again.
#[tokio::test]
async fn a_bucket_is_closed_only_on_the_page_version_that_was_read() {
    let world = World::new().await;
    let offer = world.sale(72, 1).await;
    let page = async || world.store.pages(&offer, &[0]).await.unwrap().remove(0).1;
    let read = page().await.version;
    let close = async |version| world.store.close_on_page(&offer, 0, &[1].into(), version).await.unwrap();
    assert!(matches!(close(read).await, Closed::Done(now) if now.open == [0, 2].into()));
    world.store.open_on_page(&offer, 0, &[1].into()).await.unwrap();
    for late in [read, 0] {
        assert_eq!(close(late).await, Closed::Changed(page().await), "the answer is the current page");
        assert_eq!(page().await.open, [0, 1, 2].into());
    }
}

/// Several shards of the stream change one page at the same time.
#[tokio::test]
async fn concurrent_changes_of_a_page_are_all_applied() {
    let world = World::new().await;
    let offer = world.sale(24 * 12, 1).await;
    let close = |bucket: u32| {
        let change = PageChange { opened: [].into(), closed: [bucket].into() };
        let (store, offer) = (world.store.clone(), offer.clone());
        async move { store.update_page(&offer, 0, &change).await }
    };
    let closed = futures::future::join_all((0..6).map(close)).await;
    assert!(closed.iter().all(Result::is_ok), "{closed:?}");
    assert_eq!(world.store.pages(&offer, &[0]).await.unwrap()[0].1.open, (6..12).collect());
}

/// A resumed layout reaches buckets that are already on sale.
#[tokio::test]
async fn laying_out_an_existing_bucket_changes_nothing() {
    let world = World::new().await;
    let offer = world.sale(24, 1).await;
    world.buys(&offer, "alice").await;
    let before = world.buckets(&offer).await;
    world.store.lay_out(&offer, 0, 24).await.unwrap();
    assert_eq!(world.buckets(&offer).await, before);
    assert_eq!(world.figures(&offer).await, (23, 1, 0));
}

/// The schedule fires early, or the clock is ahead of the one that set the deadline.
#[tokio::test]
async fn an_early_deadline_closes_nothing() {
    let world = World::new().await;
    let offer = world.sale(24, 1).await;
    let id = world.buys(&offer, "alice").await;
    world.consume().await;
    let pay_by = world.order(&id).await.unwrap().pay_by;
    let look = async |now| {
        flows::pay::close::close(world.context_at(now), &id, flows::pay::close::Cause::Deadline).await.unwrap()
    };
    let early = pay_by - jiff::SignedDuration::from_millis(1);
    assert!(matches!(look(early).await, flows::pay::close::CloseOutcome::NotDue(_)));
    assert_eq!(world.order(&id).await.unwrap().status, Status::PendingPayment);
    assert_eq!(world.figures(&offer).await, (23, 1, 0));
    assert!(matches!(look(pay_by).await, flows::pay::close::CloseOutcome::Closed(_)));
    assert_eq!(world.figures(&offer).await, (24, 0, 0));
}

/// Another buyer takes the unit after it was found and before it is taken.
#[tokio::test]
async fn an_order_is_revived_only_if_its_units_are_still_free() {
    let world = World::new().await;
    let offer = world.sale(24, 1).await;
    let id = world.buys(&offer, "alice").await;
    world.consume().await;
    let pay_by = world.order(&id).await.unwrap().pay_by;
    flows::pay::close::close(world.context_at(pay_by), &id, flows::pay::close::Cause::Deadline).await.unwrap();
    let closed = world.order(&id).await.unwrap();
    let with = PaidWith::of(Method::Alipay, 0, "t1", 100);
    world.store.log_payment(&PayEntry::new(&closed, &with, pay_by), true).await.unwrap();
    let revive = async || world.store.revive(&closed, 0, &with, pay_by).await.unwrap();

    let other = some_order(&world, &offer, "bob");
    assert_eq!(world.store.hold(&offer, 0, &other, 24).await.unwrap(), Hold::Held);
    assert_eq!(revive().await, Revival::Full);
    assert_eq!(world.figures(&offer).await, (0, 24, 0));
    assert_eq!(world.order(&id).await.unwrap().status, Status::Closed);

    world.store.release(&offer, 0, &other, 24).await.unwrap();
    assert_eq!(revive().await, Revival::Revived);
    assert_eq!(revive().await, Revival::Changed, "it is revived once");
    assert_eq!(world.figures(&offer).await, (23, 0, 1));
}

/// Fills buckets without the stream being read, so their page still says that they are open.
async fn fill(world: &World, offer: &Offer, buckets: impl IntoIterator<Item = u32>) {
    for bucket in buckets {
        let cap = world.item(offer).await.layout.cap(bucket).unwrap();
        let order = some_order(world, offer, "somebody");
        assert_eq!(world.store.hold(offer, bucket, &order, cap).await.unwrap(), Hold::Held);
    }
}

/// The page is stale: after a few full buckets a press reads many at once and finds the one that has units.
#[tokio::test]
async fn the_last_bucket_with_units_is_found_although_the_page_is_stale() {
    let world = World::new().await;
    let offer = world.sale(24 * 24, 1).await;
    fill(&world, &offer, (0..24).filter(|bucket| *bucket != 17)).await;
    for n in 0..10 {
        let order = world.buys(&offer, &format!("buyer {n}")).await;
        assert_eq!(claim_of(&world, &offer, &order).await.unwrap().bucket, 17);
        assert!(world.store.buckets(&offer, [17]).await.unwrap()[0].1.holders.contains_key(&order));
    }
}

/// All buckets that are open on one page are full, so a press goes on to the next page.
#[tokio::test]
async fn a_press_goes_to_the_next_page_if_all_open_buckets_of_one_are_full() {
    let world = World::new().await;
    let offer = world.sale(24 * 513, 1).await;
    fill(&world, &offer, [3, 4]).await;
    let closed = (0..512).filter(|bucket| ![3, 4].contains(bucket)).collect();
    world.store.update_page(&offer, 0, &PageChange { opened: [].into(), closed }).await.unwrap();
    for n in 0..12 {
        let order = world.buys(&offer, &format!("buyer {n}")).await;
        assert_eq!(claim_of(&world, &offer, &order).await.unwrap().bucket, 512);
    }
}
