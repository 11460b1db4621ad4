//! Reconcile under damage and backlog: rows that cannot be read, walks that overlap or stop, a queue that is deep.

use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use domain::Timestamp;
use domain::bucket::bucket_key;
use domain::ids::{Offer, OrderId};
use domain::order::Status;
use domain::payment::Method;
use flows::repair::{Report, reconcile_within};
use local_cloud::engine::sqs::{Outgoing, Sqs};
use local_cloud::wire::{Fault, Loss, RecordedCall};
use store::{Cursor, Walk};
use testkit::stepping::stopped;
use testkit::world::World;

/// A sale in which the message of one buyer was lost more than a minute ago, and a late refund is open.
async fn unfinished(world: &World) -> (Offer, OrderId, OrderId) {
    let offer = world.sale(60, 1).await;
    let refunded = world.unpaid_order(&offer, "refunded").await;
    let started = world.start_payment(&refunded, Method::Wechat, 0).await;
    world.pay(&started).await;
    world.deliver_notices().await;
    let order = world.order(&refunded).await.unwrap();
    world.store.start_refund(&order, order.paid.as_ref().unwrap(), world.now()).await.unwrap();
    let damaged = world.unpaid_order(&offer, "damaged").await;
    world.settle_down().await;
    let unlucky = world.buys(&offer, "unlucky").await;
    purge(world).await;
    world.pass(61);
    (offer, damaged, unlucky)
}

async fn purge(world: &World) {
    let queue = Sqs::name_of(&world.names().orders_queue_url).to_owned();
    world.cloud.sqs.purge(&queue).await.unwrap();
}

/// Sets an attribute of a row, as a newer release would.
async fn set(world: &World, table: &str, key: &[(&str, &str)], name: &str, value: AttributeValue) {
    let client = aws_sdk_dynamodb::Client::new(&world.wire.sdk_config());
    let key = key.iter().map(|(name, value)| ((*name).to_owned(), AttributeValue::S((*value).to_owned()))).collect();
    let request = client.update_item().table_name(table).set_key(Some(key)).update_expression("SET #name = :value");
    let request = request.expression_attribute_names("#name", name).expression_attribute_values(":value", value);
    request.send().await.unwrap();
}

fn newer() -> AttributeValue {
    AttributeValue::N("2".into())
}

/// Everything else was repaired, and the one row is listed.
async fn assert_others_are_repaired(world: &World, report: &Report, row: &str, unlucky: &OrderId) {
    assert_eq!(report.unreadable.len(), 1, "{report:?}");
    assert!(report.unreadable[0].starts_with(row), "{report:?}");
    assert_eq!((report.sent_again, report.refunded, report.errors.len()), (1, 1, 0), "{report:?}");
    world.consume().await;
    assert_eq!(world.order(unlucky).await.unwrap().status, Status::PendingPayment);
}

#[tokio::test]
async fn an_order_that_cannot_be_read_does_not_keep_reconcile_from_the_others() {
    for (name, value) in [("status", AttributeValue::S("ON_LOAN".into())), ("rowVersion", newer())] {
        let world = World::new().await;
        let (_, damaged, unlucky) = unfinished(&world).await;
        let key = [("buyer", damaged.buyer().to_string()), ("order", damaged.to_string())];
        let key: Vec<(&str, &str)> = key.iter().map(|(name, value)| (*name, value.as_str())).collect();
        set(&world, &world.names().orders.clone(), &key, name, value).await;
        let report = world.reconcile().await;
        assert_others_are_repaired(&world, &report, &format!("order {damaged}"), &unlucky).await;
        assert_eq!((report.drift, report.refunds_open), (Some(0), Some(0)), "both are known");
    }
}

#[tokio::test]
async fn a_bucket_of_a_newer_version_is_listed_and_its_drift_is_not_published() {
    let world = World::new().await;
    let (offer, _, unlucky) = unfinished(&world).await;
    let buckets = world.store.buckets(&offer, 0..3).await.unwrap();
    let (number, _) = buckets.iter().find(|(_, bucket)| !bucket.holders.contains_key(&unlucky)).unwrap();
    let key = bucket_key(&offer, *number);
    set(&world, &world.names().stock.clone(), &[("bucket", key.as_str())], "rowVersion", newer()).await;
    let report = world.reconcile().await;
    assert_others_are_repaired(&world, &report, &format!("bucket {key}"), &unlucky).await;
    assert_eq!((report.drift, report.settled), (None, 0));
}

#[tokio::test]
async fn a_refund_that_cannot_be_read_is_counted_as_open() {
    let world = World::new().await;
    let (_, _, unlucky) = unfinished(&world).await;
    let client = aws_sdk_dynamodb::Client::new(&world.wire.sdk_config());
    let mut row = std::collections::HashMap::new();
    for (name, value) in [("order", unlucky.as_str()), ("entry", "REFUND#newer"), ("open", "REFUND")] {
        row.insert(name.to_owned(), AttributeValue::S(value.to_owned()));
    }
    row.insert("at".to_owned(), AttributeValue::N("1".into()));
    client.put_item().table_name(&world.names().ledger).set_item(Some(row)).send().await.unwrap();
    let report = world.reconcile().await;
    assert_others_are_repaired(&world, &report, "entry REFUND#newer", &unlucky).await;
    assert_eq!(report.refunds_open, Some(1));
}

#[tokio::test]
async fn a_claim_and_an_item_of_a_newer_version_are_listed() {
    let world = World::new().await;
    let (offer, _, unlucky) = unfinished(&world).await;
    let buyer = unlucky.buyer().to_string();
    let key = [("buyer", buyer.as_str()), ("sale", offer.sale.as_str())];
    set(&world, &world.names().claims.clone(), &key, "rowVersion", newer()).await;
    let report = world.reconcile().await;
    assert_eq!((report.unreadable.len(), report.failed, report.sent_again), (1, 0, 0), "{report:?}");
    assert!(report.unreadable[0].starts_with(&format!("order {unlucky}")), "{report:?}");

    let key = [("sale", offer.sale.as_str()), ("part", "ITEM#phone")];
    set(&world, &world.names().sales.clone(), &key, "rowVersion", newer()).await;
    let report = world.reconcile().await;
    assert_eq!((report.unreadable.len(), report.drift, report.settled), (1, None, 0), "{report:?}");
    assert!(report.unreadable[0].starts_with("ITEM#phone of sale"), "{report:?}");
}

/// If the open entries cannot be listed, how many refunds are open is not known, and 0 would be a lie.
#[tokio::test]
async fn open_refunds_that_cannot_be_counted_are_not_counted_as_none() {
    let world = World::new().await;
    unfinished(&world).await;
    let ledger = world.names().ledger.clone();
    world.fault(move |call| match call.resource().as_deref() == Some(&ledger) && call.operation == "Query" {
        true => Fault::ServerError,
        false => Fault::None,
    });
    let report = world.reconcile().await;
    assert_eq!((report.refunds_open, report.errors.len()), (None, 1), "{report:?}");
    assert_eq!((report.sent_again, report.drift), (1, Some(0)), "the walk is done all the same");
}

#[tokio::test]
async fn a_lost_message_is_sent_again_at_doubling_ages() {
    let world = World::new().await;
    let offer = world.sale(60, 1).await;
    world.buys(&offer, "unlucky").await;
    purge(&world).await;
    let mut sent = Vec::new();
    for minute in 1..=20 {
        world.pass(60);
        let report = world.reconcile().await;
        if report.sent_again > 0 {
            sent.push(minute);
        }
        assert_eq!(report.sent_again + report.waiting, 1, "{report:?}");
    }
    assert_eq!(sent, [1, 2, 4, 8, 16]);
}

/// What waits in a deep queue is not lost. Once the queue is short, the ages that were passed over count.
#[tokio::test]
async fn no_message_is_sent_again_while_the_queue_is_deep() {
    let world = World::new().await;
    let offer = world.sale(60, 1).await;
    world.buys(&offer, "unlucky").await;
    purge(&world).await;
    let queue = Sqs::name_of(&world.names().orders_queue_url).to_owned();
    for _ in 0..1_000 {
        let waiting = Outgoing { body: "waiting".to_owned(), ..Outgoing::default() };
        world.cloud.sqs.send(&queue, waiting).await.unwrap();
    }
    for _ in 0..3 {
        world.pass(60);
        let report = world.reconcile().await;
        assert_eq!((report.sent_again, report.waiting), (0, 1), "{report:?}");
    }
    purge(&world).await;
    assert_eq!(world.reconcile().await.sent_again, 1);
    assert_eq!(world.reconcile().await.sent_again, 0);
}

#[tokio::test]
async fn walks_do_not_overlap_and_a_crashed_one_holds_nobody_up_for_a_minute() {
    let world = World::new().await;
    let (offer, ..) = unfinished(&world).await;
    // The run stops in its walk, after its money was done.
    let calls = calls_of_a_walk().await;
    assert!(stopped(&world, calls - 1, Fault::Stops, world.reconcile()).await);
    world.clear_faults();
    let report = world.reconcile().await;
    assert_eq!(
        (report.walk_skipped, report.holders, report.refunds_open),
        (true, 0, Some(0)),
        "money has its own lease"
    );
    world.pass(46);
    let report = world.reconcile().await;
    assert!(!report.walk_skipped && report.holders > 0, "{report:?}");
    assert_eq!(world.figures(&offer).await.0 + world.figures(&offer).await.1, 60);
}

async fn calls_of_a_walk() -> u64 {
    let world = World::new().await;
    unfinished(&world).await;
    world.wire.forget_calls();
    world.reconcile().await;
    u64::try_from(world.wire.calls().len()).unwrap()
}

#[tokio::test]
async fn a_walk_that_was_slower_than_its_lease_cannot_write_its_cursor() {
    let world = World::new().await;
    let later = |seconds: i64| world.now().saturating_add(jiff::SignedDuration::from_secs(seconds)).unwrap();
    let slow = world.store.take_lease(Walk::Stock, world.now(), later(45)).await.unwrap().unwrap();
    assert_eq!(world.store.take_lease(Walk::Stock, world.now(), later(45)).await.unwrap(), None);
    assert!(world.store.take_lease(Walk::Money, world.now(), later(45)).await.unwrap().is_some());
    world.pass(46);
    let next = world.store.take_lease(Walk::Stock, world.now(), later(45)).await.unwrap().unwrap();
    assert!(!world.store.keep_lease(&slow, later(45)).await.unwrap());
    assert!(!world.store.end_lease(&slow, Some(Timestamp::UNIX_EPOCH), None).await.unwrap());
    assert!(world.store.keep_lease(&next, later(45)).await.unwrap());
    assert!(world.store.end_lease(&next, Some(world.now()), None).await.unwrap());
    let third = world.store.take_lease(Walk::Stock, world.now(), later(45)).await.unwrap().unwrap();
    assert_eq!(third.since, Some(world.now()));
}

/// The answer to the write that took the lease is lost: the run knows its own lease by its name.
#[tokio::test]
async fn a_lease_whose_answer_was_lost_is_not_lost() {
    let world = World::new().await;
    unfinished(&world).await;
    testkit::stepping::at_call(&world, 1, Fault::AppliedButLost(Loss::Io));
    let report = world.reconcile().await;
    assert_eq!(report.refunds_open, Some(0), "{report:?}");
}

/// Six hundred buckets, which are two pages. A walk without time stops at its first page; the next goes on there.
#[tokio::test]
async fn a_walk_goes_on_where_the_previous_one_stopped() {
    let world = World::new().await;
    let offer = world.sale(600 * 24, 1).await;
    let last = |bucket| OrderId::new(world.now(), &world.asks(&offer, "ghost", 1, None).buyer_key, bucket);
    for bucket in [3, 599] {
        world.store.hold(&offer, bucket, &last(bucket), 1).await.unwrap();
    }
    world.pass(61);
    let hurried = reconcile_within(world.context(), Duration::ZERO).await;
    assert_eq!((hurried.holders, hurried.drift, hurried.sales), (0, None, 1), "{hurried:?}");

    let until = world.now().saturating_add(jiff::SignedDuration::from_secs(45)).unwrap();
    let lease = world.store.take_lease(Walk::Stock, world.now(), until).await.unwrap().unwrap();
    let cursor = Cursor { bucket: 512, ..lease.cursor.clone().unwrap() };
    assert_eq!((&cursor.sale, &cursor.item), (&offer.sale, &offer.item));
    world.store.end_lease(&lease, None, Some(&cursor)).await.unwrap();
    let rest = world.reconcile().await;
    assert_eq!((rest.holders, rest.failed, rest.drift), (1, 1, Some(0)), "the second page only: {rest:?}");
    let whole = world.reconcile().await;
    assert_eq!((whole.holders, whole.failed), (1, 1), "and then from the first bucket on: {whole:?}");
}

/// A provider with many refunds does not answer. The other provider's refund is done in the same run.
#[tokio::test]
async fn a_silent_provider_delays_only_its_own_refunds() {
    let world = World::new().await;
    let offer = world.sale(60, 1).await;
    for n in 0..20 {
        refunding(&world, &offer, &format!("alipay {n}"), Method::Alipay).await;
    }
    let order = refunding(&world, &offer, "stripe", Method::Stripe).await;
    world.pass(61);
    world.fault(|call| match call.resource().as_deref() == Some("alipay") {
        true => Fault::NotApplied(Loss::Io),
        false => Fault::None,
    });
    let report = world.reconcile().await;
    assert_eq!((report.refunded, report.refunds_open), (1, Some(20)), "{report:?}");
    assert_eq!(world.order(&order).await.unwrap().status, Status::Refunded);
    let is_unanswered = |call: &&RecordedCall| call.fault != Fault::None;
    let asked = world.wire.calls().iter().filter(is_unanswered).count();
    assert!(asked < 20 * 3, "after sixteen refunds without an answer the provider is left alone: {asked}");
    assert!(
        report.errors.iter().any(|error| error.contains("alipay does not answer: 4 orders and refunds")),
        "{report:?}"
    );
}

async fn refunding(world: &World, offer: &Offer, buyer: &str, method: Method) -> OrderId {
    let id = world.unpaid_order(offer, buyer).await;
    let started = world.start_payment(&id, method, 0).await;
    world.open_link(&started).await;
    world.pay(&started).await;
    world.deliver_notices().await;
    let order = world.order(&id).await.unwrap();
    world.store.start_refund(&order, order.paid.as_ref().unwrap(), world.now()).await.unwrap();
    id
}

/// What a walk costs in calls: one for each hundred buckets and each hundred holders, and a few for each page.
#[tokio::test]
async fn the_calls_of_a_walk_grow_with_its_buckets_and_holders_only() {
    let mut counted = Vec::new();
    for (stock, presses) in [(100, 50), (10_000, 50), (10_000, 400)] {
        let world = World::new().await;
        let offer = world.sale(stock, 1).await;
        for n in 0..presses {
            world.buys(&offer, &format!("buyer {n}")).await;
        }
        world.settle_down().await;
        world.pass(61);
        world.reconcile().await;
        world.wire.forget_calls();
        let report = world.reconcile().await;
        assert!(report.found_nothing() && report.holders == presses, "{report:?}");
        counted.push(world.wire.calls().len());
    }
    // Leases 4, open entries 3, watched sales 1, the sale 1, its page 1; buckets 1 or 5; orders 1 or 4.
    assert_eq!(counted, [12, 16, 19]);
}

/// A walk over a large item without holders. `WALK_UNITS` adds a size: docs/figures.md has what this test prints.
#[tokio::test]
async fn a_walk_of_a_large_item_takes_a_call_for_each_hundred_buckets_and_one_for_each_page() {
    let more = std::env::var("WALK_UNITS").ok().map(|units| units.parse().unwrap());
    for units in [100, 10_000, 100_000].into_iter().chain(more) {
        let world = World::new().await;
        let offer = world.sale(units, 1).await;
        world.reconcile().await;
        world.wire.forget_calls();
        let began = std::time::Instant::now();
        let report = world.reconcile().await;
        let (took, calls) = (began.elapsed(), world.wire.calls().len());
        assert!(report.found_nothing() && report.drift == Some(0), "{report:?}");
        let buckets = world.item(&offer).await.layout.buckets();
        let pages = buckets.div_ceil(512);
        let of_buckets: u32 = (0..pages).map(|page| (buckets - page * 512).min(512).div_ceil(100)).sum();
        println!("{units} units: {calls} calls ({of_buckets} for {buckets} buckets, {pages} for pages), {took:?}");
        // Leases 4, open entries 3, watched sales 1, the sale 1.
        assert_eq!(calls, usize::try_from(9 + pages + of_buckets).unwrap());
    }
}
