//! What a purchase costs in calls and write units, from the record of the wire: exact, and checked.

use std::time::{Duration, Instant};

use domain::ids::Offer;
use flows::gate::FRESH_FOR_MS;
use flows::purchase::Refusal;
use seckill_tests::world::{START_MS, World, form};

use crate::Problem;
use crate::load::float;
use crate::report::Section;

/// The costs as they come, and those that are not what they were.
struct Costs {
    section: Section,
    wrong: Vec<String>,
}

impl Costs {
    /// Notes what was called since the record was begun, and holds it against what it must be.
    fn take(&mut self, world: &World, name: &str, expected_calls: Option<usize>, expected_units: f64) {
        let (calls, units) = world.cost();
        // The sum of no calls is minus zero, which nobody wants to read.
        let units = units + 0.0;
        if let Some(expected_calls) = expected_calls {
            self.section.add(format!("{name}: calls"), count(calls.len()), "calls");
            if calls.len() != expected_calls {
                self.wrong.push(format!("{name}: {expected_calls} calls expected, made were {calls:?}"));
            }
        }
        self.section.add(format!("{name}: written"), units, "write units");
        if units != expected_units {
            self.wrong.push(format!("{name}: {expected_units} write units expected, used were {units} by {calls:?}"));
        }
        world.wire.forget_calls();
    }
}

fn count(number: usize) -> f64 {
    float(u64::try_from(number).unwrap_or(u64::MAX))
}

pub(crate) async fn measure() -> Result<Section, Problem> {
    eprintln!("  costs …");
    let section = Section::new("Costs, exact: a change makes this program fail");
    let mut costs = Costs { section, wrong: Vec::new() };
    presses(&mut costs).await?;
    sold_out(&mut costs).await?;
    life(&mut costs).await;
    for units in [1_000, 1_000_000] {
        sized(&mut costs, units).await?;
    }
    if costs.wrong.is_empty() { Ok(costs.section) } else { Err(costs.wrong.join("\n").into()) }
}

async fn presses(costs: &mut Costs) -> Result<(), Problem> {
    let world = World::new().await;
    let offer = world.sale(100, 1).await;
    let seckill = world.environment();
    // The first press reads the sale and the page; from then on they are in memory.
    seckill.purchase(&world.asks(&offer, "first", 1, None)).await?;
    world.wire.forget_calls();
    seckill.purchase(&world.asks(&offer, "alice", 1, None)).await?;
    costs.take(&world, "press → 202", Some(3), 2.0);
    match seckill.purchase(&world.asks(&offer, "alice", 1, None)).await {
        // A failed condition is charged like a write.
        Err(Refusal::Duplicate(_)) => costs.take(&world, "second press", Some(1), 1.0),
        other => return Err(format!("a second press must be refused as a duplicate, and was: {other:?}").into()),
    }
    Ok(())
}

async fn sold_out(costs: &mut Costs) -> Result<(), Problem> {
    let world = World::new().await;
    let offer = world.sale(1, 1).await;
    let seckill = world.environment();
    seckill.purchase(&world.asks(&offer, "alice", 1, None)).await?;
    world.stream().await;
    world.clock.advance(Duration::from_millis(u64::try_from(FRESH_FOR_MS)?));
    for buyer in ["bob", "carol"] {
        // The first reads the page; while it is fresh the others cost nothing.
        world.wire.forget_calls();
        match seckill.purchase(&world.asks(&offer, buyer, 1, None)).await {
            Err(Refusal::SoldOut { .. }) => {}
            other => return Err(format!("the last unit is gone, and a press got: {other:?}").into()),
        }
    }
    costs.take(&world, "refusal when sold out", Some(0), 0.0);
    Ok(())
}

/// Pressed, ordered, not paid, timed out, returned.
async fn life(costs: &mut Costs) {
    let world = World::new().await;
    let offer = world.sale(100, 1).await;
    world.wire.forget_calls();
    world.buys(&offer, "alice").await;
    world.consume().await;
    world.pass(901);
    world.deadlines().await;
    costs.take(&world, "pressed → ordered → timed out → returned", None, 7.0);
    world.stream().await;
    costs.take(&world, "… its ledger rows, from the stock's stream", None, 2.0);
}

/// A press at a sale of so many units; and how long it took to lay them out.
async fn sized(costs: &mut Costs, units: u32) -> Result<(), Problem> {
    let offer = Offer { sale: "sale".parse()?, item: "phone".parse()? };
    let world = World::new().await;
    flows::set_up::create(&world.store, offer.sale.clone(), form(units, 1), world.now()).await?;
    let began = Instant::now();
    world.preheat(&offer).await;
    let took = began.elapsed();
    world.stream().await;
    let laid_out = world.item(&offer).await.laid_out;
    world.clock.advance(Duration::from_millis(u64::try_from(START_MS - world.clock.now_ms())?));
    let seckill = world.environment();
    seckill.purchase(&world.asks(&offer, "first", 1, None)).await?;
    world.wire.forget_calls();
    seckill.purchase(&world.asks(&offer, "second", 1, None)).await?;
    let of = if units == 1_000 { "1,000" } else { "1,000,000" };
    costs.take(&world, &format!("press → 202, of {of} units"), Some(3), 2.0);
    costs.section.add(format!("preheating {of} units ({laid_out} buckets)"), took.as_secs_f64(), "s");
    Ok(())
}
