//! Reconcile changes nothing in a healthy sale, and repairs each kind of damage.

use std::time::Instant;

use domain::ids::OrderId;
use domain::message::{OrderMessage, VERSION};
use domain::order::{Reason, Status};
use domain::payment::Method;
use flows::pay::close::{Cause, close};
use flows::view::audit::{OrderCounts, count_orders};
use testkit::world::{World, far};

use crate::handlers::payment_secret;

/// A sale with ten pending orders and a cancelled one.
async fn healthy_sale(world: &World) -> domain::ids::Offer {
    let offer = world.sale(60, 1).await;
    for n in 0..10 {
        world.buys(&offer, &format!("pending {n}")).await;
    }
    let cancelled = world.buys(&offer, "cancelled").await;
    world.settle_down().await;
    close(world.context(), &cancelled, Cause::Buyer).await.unwrap();
    world.settle_down().await;
    offer
}

#[tokio::test]
async fn reconcile_changes_nothing_in_a_healthy_sale() {
    let world = World::new().await;
    healthy_sale(&world).await;
    world.buys(&domain::ids::Offer { sale: "sale".parse().unwrap(), item: "phone".parse().unwrap() }, "young").await;
    for seconds in [0, 30, 29] {
        world.pass(seconds);
        let before = world.state().await;
        let report = world.reconcile().await;
        assert!(report.found_nothing(), "{report:?}");
        assert_eq!(world.state().await, before);
    }
    world.pass(62);
    world.settle_down().await;
    assert_eq!(world.reconcile().await.holders, 11, "all holders were inspected");
}

/// Damages a sale, runs reconcile, and checks that a second run finds nothing. Returns the report of the first run.
async fn repaired(damage: impl AsyncFn(&World, &domain::ids::Offer), seconds: u64) -> (World, flows::repair::Report) {
    let world = World::new().await;
    let offer = healthy_sale(&world).await;
    damage(&world, &offer).await;
    world.pass(seconds);
    let report = world.reconcile().await;
    world.settle_down().await;
    let again = world.reconcile().await;
    assert!(again.found_nothing(), "a second run: {again:?}");
    let (free, held, sold) = world.figures(&offer).await;
    assert_eq!(free + held + sold, 60);
    (world, report)
}

fn ghost(world: &World, offer: &domain::ids::Offer, buyer: &str) -> OrderId {
    let asked = world.asks(offer, buyer, 1, None);
    OrderId::new(asked.now, &asked.buyer_key, asked.random)
}

#[tokio::test]
async fn units_that_are_held_without_a_claim_are_released_and_recorded() {
    // The claim was dropped. Reconcile knows the buyer's name from the claims row, which still exists.
    let (world, report) = repaired(
        async |world, offer| {
            let asked = world.asks(offer, "ghost", 1, None);
            let order = world.environment().purchase(&asked).await.unwrap().order;
            world.store.drop_claim(offer, &order).await.unwrap();
            let queue = local_cloud::engine::sqs::Sqs::name_of(&world.names().orders_queue_url).to_owned();
            world.cloud.sqs.purge(&queue).await.unwrap();
        },
        61,
    )
    .await;
    assert_eq!(report.failed, 1);
    let orders = world.state().await[&world.names().orders].clone();
    assert_eq!(orders.iter().filter(|order| order.contains("CLAIM_LOST")).count(), 1);
}

#[tokio::test]
async fn units_that_are_held_for_an_unknown_buyer_are_released() {
    let (_, report) = repaired(
        async |world, offer| {
            world.store.hold(offer, 0, &ghost(world, offer, "nobody"), 1).await.unwrap();
        },
        61,
    )
    .await;
    assert_eq!((report.failed, report.errors.len()), (1, 0), "{report:?}");
}

/// Two requests work on one order: one holds units in a bucket, and the other moves the claim to another bucket and
/// stops. The order is created where the units are held.
#[tokio::test]
async fn an_order_is_created_for_a_hold_in_a_previous_bucket_of_its_claim() {
    let mut order = None;
    let damage = async |world: &World, offer: &domain::ids::Offer| {
        let id = world.buys(offer, "moved").await;
        let queue = local_cloud::engine::sqs::Sqs::name_of(&world.names().orders_queue_url).to_owned();
        world.cloud.sqs.purge(&queue).await.unwrap();
        let (claims, _) = world.store.claims(&id.buyer(), &offer.sale).await.unwrap();
        let claim = &claims.claims[&offer.item];
        let bucket = (claim.bucket + 1) % 3;
        let moved = domain::claim::Claim { bucket, previous_buckets: vec![claim.bucket], ..claim.clone() };
        world.store.move_claim(offer, claim, &moved).await.unwrap();
    };
    let (world, report) = repaired(damage, 61).await;
    assert_eq!((report.sent_again, report.released, report.failed), (1, 0, 0), "{report:?}");
    let offer = domain::ids::Offer { sale: "sale".parse().unwrap(), item: "phone".parse().unwrap() };
    for (number, bucket) in world.store.buckets(&offer, 0..3).await.unwrap() {
        for holder in bucket.holders.keys() {
            let made = world.order(holder).await.unwrap();
            assert_eq!((made.bucket, made.status), (number, Status::PendingPayment));
            order = Some(made).filter(|made| made.buyer_name.as_str() == "moved").or(order);
        }
    }
    assert!(order.is_some());
}

#[tokio::test]
async fn a_second_hold_of_an_order_in_another_bucket_is_released() {
    let (_, report) = repaired(
        async |world, offer| {
            let buckets = world.store.buckets(offer, 0..3).await.unwrap();
            let (bucket, order) =
                buckets.iter().find_map(|(no, bucket)| Some((*no, bucket.holders.keys().next()?.clone()))).unwrap();
            world.store.hold(offer, (bucket + 1) % 3, &order, 1).await.unwrap();
        },
        61,
    )
    .await;
    assert_eq!(report.released, 1);
}

#[tokio::test]
async fn a_lost_message_is_sent_again() {
    let (world, report) = repaired(
        async |world, offer| {
            world.buys(offer, "unlucky").await;
            let queue = local_cloud::engine::sqs::Sqs::name_of(&world.names().orders_queue_url).to_owned();
            world.cloud.sqs.purge(&queue).await.unwrap();
        },
        61,
    )
    .await;
    assert_eq!(report.sent_again, 1);
    let orders = world.state().await[&world.names().orders].clone();
    assert!(orders.iter().any(|order| order.contains("unlucky") && order.contains("PENDING_PAYMENT")));
}

#[tokio::test]
async fn an_order_whose_claim_was_marked_but_that_was_never_created_is_created() {
    let (_, report) = repaired(
        async |world, offer| {
            let order = world.buys(offer, "unlucky").await;
            let (claims, _) = world.store.claims(&order.buyer(), &offer.sale).await.unwrap();
            world.store.mark_ordered(offer, &order, claims.claims[&offer.item].bucket).await.unwrap();
            let queue = local_cloud::engine::sqs::Sqs::name_of(&world.names().orders_queue_url).to_owned();
            world.cloud.sqs.purge(&queue).await.unwrap();
        },
        61,
    )
    .await;
    assert_eq!(report.sent_again, 1);
}

#[tokio::test]
async fn an_order_whose_schedule_is_lost_is_closed_after_its_deadline() {
    let (world, report) = repaired(
        async |world, _| {
            let scheduler = aws_sdk_scheduler::Client::new(&world.wire.sdk_config());
            for schedule in scheduler.list_schedules().send().await.unwrap().schedules {
                let (name, group) = (schedule.name.unwrap(), schedule.group_name.unwrap());
                scheduler.delete_schedule().name(name).group_name(group).send().await.unwrap();
            }
        },
        900 + 90,
    )
    .await;
    assert_eq!(report.closed, 10);
    let orders = world.state().await[&world.names().orders].clone();
    assert_eq!(orders.iter().filter(|order| order.contains("TIMED_OUT")).count(), 10);
}

#[tokio::test]
async fn a_close_that_stopped_halfway_is_finished() {
    let (_, report) = repaired(
        async |world, offer| {
            let order = world.buys(offer, "half").await;
            world.consume().await;
            world.store.close_order(&order, domain::order::Reason::Cancelled, world.now(), None, None).await.unwrap();
        },
        61,
    )
    .await;
    assert_eq!(report.finished, 1);
}

#[tokio::test]
async fn the_units_of_a_paid_order_are_confirmed() {
    let (world, report) = repaired(
        async |world, offer| {
            let id = world.buys(offer, "payer").await;
            world.consume().await;
            let client = aws_sdk_dynamodb::Client::new(&world.wire.sdk_config());
            let order = world.order(&id).await.unwrap();
            let paid = domain::order::Order { status: Status::Paid, ..order };
            let row = serde_dynamo::to_item(&paid).unwrap();
            let put = client.put_item().table_name(&world.names().orders).set_item(Some(row));
            let buyer = aws_sdk_dynamodb::types::AttributeValue::S(id.buyer().to_string());
            put.item("buyer", buyer).send().await.unwrap();
        },
        61,
    )
    .await;
    assert_eq!(report.confirmed, 1);
    let offer = domain::ids::Offer { sale: "sale".parse().unwrap(), item: "phone".parse().unwrap() };
    assert_eq!(world.figures(&offer).await.2, 1);
}

#[tokio::test]
async fn a_wrong_page_is_corrected() {
    let (world, report) = repaired(
        async |world, offer| {
            let wrong = domain::availability::PageChange { opened: [].into(), closed: [0, 2].into() };
            world.store.update_page(offer, 0, &wrong).await.unwrap();
        },
        0,
    )
    .await;
    assert_eq!(report.pages_mended, 2);
    let offer = domain::ids::Offer { sale: "sale".parse().unwrap(), item: "phone".parse().unwrap() };
    assert_eq!(world.store.pages(&offer, &[0]).await.unwrap()[0].1.open, [0, 1, 2].into());
}

/// A missing bucket may have had sold units: laying it out again, full, would sell them twice.
#[tokio::test]
async fn a_missing_bucket_is_reported_and_not_laid_out_again() {
    let world = World::new().await;
    let offer = healthy_sale(&world).await;
    let client = aws_sdk_dynamodb::Client::new(&world.wire.sdk_config());
    let key = aws_sdk_dynamodb::types::AttributeValue::S(domain::bucket::bucket_key(&offer, 2));
    client.delete_item().table_name(&world.names().stock).key("bucket", key).send().await.unwrap();
    let report = world.reconcile().await;
    assert_eq!((report.drift, report.laid_out), (Some(20), 0), "{report:?}");
    assert!(report.findings.iter().any(|finding| finding.contains("bucket 2 was laid out and has disappeared")));
    world.preheat(&offer).await;
    assert_eq!(world.buckets(&offer).await.len(), 2);
}

#[tokio::test]
async fn drift_is_reported_and_not_corrected() {
    let world = World::new().await;
    let offer = healthy_sale(&world).await;
    let client = aws_sdk_dynamodb::Client::new(&world.wire.sdk_config());
    let key = aws_sdk_dynamodb::types::AttributeValue::S(domain::bucket::bucket_key(&offer, 1));
    let one = aws_sdk_dynamodb::types::AttributeValue::N("-1".into());
    client
        .update_item()
        .table_name(&world.names().stock)
        .key("bucket", key)
        .update_expression("ADD #free :one")
        .expression_attribute_names("#free", "free")
        .expression_attribute_values(":one", one)
        .send()
        .await
        .unwrap();
    let report = world.reconcile().await;
    assert_eq!(report.drift, Some(1));
    assert!(report.findings.iter().any(|finding| finding.contains("bucket 1 does not add up")), "{report:?}");
    let audit = flows::view::audit::audit(&world.store, &offer.sale, None).await.unwrap().unwrap().items;
    assert_eq!(audit[&offer.item].drift, 1);
}

#[tokio::test]
async fn a_sale_that_is_over_and_settled_is_no_longer_watched() {
    let world = World::new().await;
    healthy_sale(&world).await;
    world.pass(3_600);
    assert_eq!(world.reconcile().await.settled, 0, "orders are still pending");
    world.settle_down().await;
    world.reconcile().await;
    world.pass(601);
    assert_eq!(world.reconcile().await.settled, 1);
    assert_eq!(world.store.watched_sales().await.unwrap(), []);
}

#[tokio::test]
async fn the_audit_counts_units_and_orders() {
    let world = World::new().await;
    let offer = healthy_sale(&world).await;
    let audited = flows::view::audit::audit(&world.store_of("admin"), &offer.sale, None).await.unwrap().unwrap();
    let audit = &audited.items[&offer.item];
    assert_eq!(audited.cursor, None);
    assert_eq!((audit.total, audit.free, audit.held, audit.sold, audit.drift), (60, 50, 10, 0, 0));
    assert_eq!(audit.orders, [(Status::PendingPayment, 10), (Status::Closed, 1)].into());
    assert_eq!(audit.findings, [""; 0]);
}

/// No stream record has been handled yet, so all buckets of the page count as open. Reconcile closes only the empty
/// one.
#[tokio::test]
async fn correcting_a_page_that_does_not_exist_yet_leaves_the_other_buckets_open() {
    let world = World::new().await;
    let offer = domain::ids::Offer { sale: "sale".parse().unwrap(), item: "phone".parse().unwrap() };
    flows::sale::set_up::create(&world.store, offer.sale.clone(), testkit::world::form(72, 24), world.now())
        .await
        .unwrap();
    world.preheat(&offer).await;
    world.pass(3_600);
    world.environment().purchase(&world.asks(&offer, "greedy", 24, None)).await.unwrap();
    assert!(world.reconcile().await.pages_mended > 0);
    assert_eq!(world.store.pages(&offer, &[0]).await.unwrap()[0].1.open.len(), 2);
    world.environment().purchase(&world.asks(&offer, "alice", 24, None)).await.unwrap();
}

/// However little one request counts, the requests together count every order once.
#[tokio::test]
async fn an_audit_that_stops_at_its_time_limit_goes_on_at_its_cursor() {
    let world = World::new().await;
    let offer = healthy_sale(&world).await;
    let of = |status| (offer.item.clone(), status);
    let all = [(of(Status::PendingPayment), 10), (of(Status::Closed), 1)].into();
    let counted = count_orders(&world.store, &offer.sale, None, 1_000, far()).await.unwrap();
    assert_eq!(counted, OrderCounts { orders: all, ..OrderCounts::default() });
    let (mut after, mut sum, mut requests) = (None, std::collections::BTreeMap::new(), 0);
    loop {
        let part = count_orders(&world.store, &offer.sale, after, 3, Instant::now()).await.unwrap();
        for (what, count) in part.orders {
            *sum.entry(what).or_default() += count;
        }
        requests += 1;
        after = part.cursor;
        if after.is_none() {
            break;
        }
    }
    assert_eq!((sum, requests), (counted.orders, 4), "11 orders, three at a time");
}

/// The index names every order of the sale once, whatever happened to it, and none of another sale.
#[tokio::test]
async fn the_index_of_a_sale_names_each_of_its_orders_once() {
    let world = World::new().await;
    let offer = world.sale(60, 1).await;
    let mut known = std::collections::BTreeSet::new();
    for buyer in 0..40 {
        known.insert(world.unpaid_order(&offer, &format!("buyer {buyer}")).await);
    }
    for id in known.iter().step_by(2) {
        flows::pay::close::close(world.context(), id, Cause::Buyer).await.unwrap();
    }
    for page in [1, 7, 40, 41] {
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let ids = world.store.order_ids(&offer.sale, after.as_ref(), page).await.unwrap();
            after = ids.last().cloned();
            found.extend(ids);
            if after.is_none() {
                break;
            }
        }
        assert_eq!(found.len(), 40, "no order twice, in pages of {page}");
        assert_eq!(found.into_iter().collect::<std::collections::BTreeSet<_>>(), known, "in pages of {page}");
    }
    let newest = world.store.newest_order_ids(&offer.sale, None, 15).await.unwrap();
    assert_eq!(newest, known.iter().rev().take(15).cloned().collect::<Vec<_>>());
    let older = world.store.newest_order_ids(&offer.sale, newest.last(), 100).await.unwrap();
    assert_eq!(older, known.iter().rev().skip(15).cloned().collect::<Vec<_>>());
    let other = "other".parse().unwrap();
    assert_eq!(world.store.order_ids(&other, None, 9).await.unwrap(), []);
    assert_eq!(world.store.newest_order_ids(&other, None, 9).await.unwrap(), []);
}

/// A refusal is a quick answer that says nothing about other orders, so all of them are tried.
#[tokio::test]
async fn a_provider_that_refuses_orders_is_still_asked_about_the_others() {
    let world = World::new().await;
    let offer = world.sale(60, 1).await;
    for buyer in 0..40 {
        let order = world.unpaid_order(&offer, &format!("buyer {buyer}")).await;
        world.start_payment(&order, Method::Wechat, 0).await;
    }
    // The schedules of the deadlines are lost.
    world.pass(1_000);
    world.cloud.secrets.put(&payment_secret(), "{}").await.unwrap();
    let report = world.reconcile().await;
    assert_eq!(report.errors.len(), 40, "{report:?}");
    assert!(report.errors.iter().all(|error| error.contains("is not configured")), "{report:?}");
}

/// The schedule and the provider's notice are both lost. Closing the order finds the payment.
#[tokio::test]
async fn an_order_that_turns_out_to_be_paid_is_not_counted_as_closed() {
    let world = World::new().await;
    let offer = world.sale(5, 1).await;
    let order = world.unpaid_order(&offer, "ann").await;
    let started = world.start_payment(&order, Method::Wechat, 0).await;
    world.pay(&started).await;
    world.pass(1_000);
    let report = world.reconcile().await;
    assert_eq!((report.closed, report.confirmed), (0, 1), "{report:?}");
    assert_eq!(world.order(&order).await.unwrap().status, Status::Paid);
    assert_eq!(world.figures(&offer).await, (4, 0, 1));
}

/// The order was closed, but the steps after that were not done. A duplicate message finishes them without reconcile.
#[tokio::test]
async fn a_duplicate_message_finishes_a_close_that_stopped_halfway() {
    let world = World::new().await;
    let offer = world.sale(5, 1).await;
    let id = world.unpaid_order(&offer, "ann").await;
    world.store.close_order(&id, Reason::Cancelled, world.now(), None, None).await.unwrap();
    let order = world.order(&id).await.unwrap();
    assert_eq!((order.status, world.figures(&offer).await), (Status::Closed, (4, 1, 0)));
    let message = OrderMessage {
        version: VERSION,
        order_id: id.clone(),
        buyer: order.buyer_name.clone(),
        sale_id: offer.sale.clone(),
        item_id: offer.item.clone(),
        quantity: order.quantity,
        bucket: order.bucket,
        shop_data: Default::default(),
        trace: None,
    };
    world.store.send_order(&message).await.unwrap();
    assert_eq!(world.consume().await, 1);
    assert_eq!(world.figures(&offer).await, (5, 0, 0));
    let (claims, _) = world.store.claims(&id.buyer(), &offer.sale).await.unwrap();
    assert!(claims.claims.is_empty(), "{claims:?}");
    assert_eq!(world.order(&id).await.unwrap(), order, "the order itself does not change");
}
