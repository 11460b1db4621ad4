//! Compares the model with figures that are known independently.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

use bench::costs::{Costs, count};
use plan::design::Design;
use plan::facts;
use plan::plan::plan;
use plan::sale::{Sale, Shape};

/// The sale of the known figures: 10,000 units and a million requests without retries.
fn sale() -> Sale {
    Sale { units: 10_000, buyers: 1_000_000, seconds: 60, shape: Shape::Even, comes_back: 0, paid_percent: 100 }
}

async fn costs() -> Costs {
    count().await.unwrap()
}

#[tokio::test]
async fn a_million_requests_cost_the_known_amount() {
    let plan = plan(&sale(), &costs().await, |_| {});
    let selling = |name: &str| plan.ways.iter().find(|way| way.name == name).unwrap().bill.for_selling();
    let within = |found: f64, known: f64| (found - known).abs() / known < 0.1;
    let (buckets, transaction) = (selling("buckets, as planned"), selling("one transaction"));
    assert!(within(buckets, 1.40), "with buckets and a gate about 1.40: {buckets}");
    assert!(within(transaction, 5.06), "with a transaction of three items and no gate 5.06: {transaction}");
}

#[tokio::test]
async fn the_plan_uses_the_writes_of_the_code() {
    let costs = costs().await;
    let ours = Design::Buckets.writes(&costs);
    assert_eq!((ours.claim, ours.hold), (1.0, 1.0));
    assert!(ours.refuses_from_memory);
    // If a purchase wrote one unit more, the plan would include it.
    let mut dearer = costs.clone();
    dearer.press.write_units += 1.0;
    assert_eq!(Design::Buckets.writes(&dearer).claim + Design::Buckets.writes(&dearer).hold, 3.0);
    let more = plan(&sale(), &dearer, |_| {}).planned().unwrap().outcome.writes;
    let less = plan(&sale(), &costs, |_| {}).planned().unwrap().outcome.writes;
    assert!(more > less + 9_000.0, "{more} {less}");
}

#[tokio::test]
async fn a_rush_at_the_start_needs_more_than_the_default_quotas() {
    let costs = costs().await;
    let planned = plan(&Sale { shape: Shape::Front, comes_back: 3, ..sale() }, &costs, |_| {});
    let needs = &planned.needs;
    assert!(needs.gateway > facts::HTTP_API_QUOTA && needs.concurrency > facts::LAMBDA_CONCURRENCY_QUOTA, "{needs:?}");
    assert!(needs.provisioned > 2_000 && needs.warm_writes.is_some(), "{needs:?}");
    let (reads, key_reads) = (&needs.reads, plan::reads::KEY_READS);
    assert!(reads.copies > 2, "thousands of functions read one page: {reads:?}");
    assert!(reads.page_while_selling > reads.page_when_sold_out, "they wait longer when nothing changes: {reads:?}");
    assert!(reads.page_while_selling <= key_reads && reads.sale <= key_reads, "{reads:?}");
    assert_eq!(needs.deadlines_s, 10.0, "10,000 orders that run out together, at 1,000 a second");
    let sold_out = |n: usize| planned.ways[n].outcome.sold_out_after_s;
    let (counter, comes, as_planned) = (sold_out(0).unwrap(), sold_out(2).unwrap(), sold_out(3).unwrap());
    assert!(counter > 9.9, "a counter takes a thousand a second: {counter}");
    assert_eq!(sold_out(1), None, "75 transactions a second sell 4,500 in a minute");
    assert!(as_planned < comes && comes < counter, "{as_planned} {comes} {counter}");
    let gone = planned.planned().unwrap().outcome.later_while_selling;
    assert!(gone.0 * 100 <= gone.1, "hardly anybody is sent away: {gone:?}");

    let small = plan(&Sale { units: 500, buyers: 20_000, ..sale() }, &costs, |_| {});
    assert_eq!((small.needs.warm_writes, small.needs.provisioned), (None, 0));
    assert_eq!(small.needs.gateway, facts::HTTP_API_QUOTA);
    assert_eq!(small.needs.reads.copies, 0, "{:?}", small.needs.reads);
    assert!(plan::text(&small, &costs).contains("the tables need no warming"));
    let text = plan::text(&planned, &costs);
    assert!(text.contains(&format!("deploy with PageCopies={}", reads.copies)), "{text}");
    assert!(text.contains("the template does not provide this"), "{text}");
    let warm = needs.warm_writes.unwrap();
    assert!(text.contains("a day ahead: deploy with WarmReadUnits="), "{text}");
    assert!(text.contains(&format!(" WarmWriteUnits={warm}")), "{text}");
    let warmed = &planned.planned().unwrap().bill.readiness[0];
    assert_eq!(
        warmed.quantity,
        f64::from(warm - facts::NEW_TABLE_WRITES) * 5.0,
        "stock, claims, orders and its indexes"
    );
}
