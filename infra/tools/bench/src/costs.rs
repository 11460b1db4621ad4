//! What a purchase costs in calls and units, from the record of the wire: exact, and checked.
//!
//! The capacity plan takes these very figures: it counts them itself, as they are in the code that it is built with.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use domain::ids::Offer;
use domain::payment::Method;
use figures::float;
use flows::buy::bucket_picker::FRESH_FOR_MS;
use flows::buy::purchase::Refusal;
use serde::Serialize;
use testkit::world::{START_MS, World, form};

use crate::Problem;
use crate::report::Section;

/// What one step costs.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cost {
    /// Calls by operation.
    pub calls: BTreeMap<String, u32>,
    /// Write units of DynamoDB.
    pub write_units: f64,
    /// Read units of DynamoDB; an eventually consistent read of up to 4 KB is half of one.
    pub read_units: f64,
}

impl Cost {
    /// What was called since the record was begun, which begins anew.
    fn taken(world: &World) -> Self {
        let mut cost = Self::default();
        for call in world.wire.calls() {
            *cost.calls.entry(call.operation).or_default() += 1;
            cost.write_units += call.write_units;
            cost.read_units += call.read_units;
        }
        world.wire.forget_calls();
        cost
    }

    /// All calls together.
    pub fn all_calls(&self) -> u32 {
        self.calls.values().sum()
    }

    /// Calls of one operation.
    pub fn of(&self, operation: &str) -> u32 {
        self.calls.get(operation).copied().unwrap_or(0)
    }
}

/// What each step in the life of a purchase costs.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Costs {
    /// A press that is accepted.
    pub press: Cost,
    /// A second press while the order lives.
    pub second_press: Cost,
    /// A refusal when everything is sold, from memory.
    pub refusal: Cost,
    /// The first refusal after a page has aged, which reads it again.
    pub refresh: Cost,
    /// An accepted purchase becomes an order with its deadline.
    pub order: Cost,
    /// The ledger's row about one movement of units, from the stock's stream.
    pub movement: Cost,
    /// A payment is started and its notice settles the order.
    pub payment: Cost,
    /// The deadline of an order that was paid.
    pub deadline_of_paid: Cost,
    /// The deadline of an order that was not: it is closed, and the units return.
    pub deadline_of_unpaid: Cost,
}

impl Costs {
    /// Write units of an order that is not paid, without its rows in the ledger.
    fn unpaid_life(&self) -> f64 {
        self.press.write_units + self.order.write_units + self.deadline_of_unpaid.write_units
    }

    /// Write units of an order that is paid. Its deadline comes all the same, and is refused.
    fn paid_life(&self) -> f64 {
        let sold = self.press.write_units + self.order.write_units + self.payment.write_units;
        sold + self.deadline_of_paid.write_units
    }
}

/// Counts them, on engines in memory. Takes a second or so.
pub async fn count() -> Result<Costs, Problem> {
    let (press, second_press) = presses().await?;
    let (refresh, refusal) = refusals().await?;
    let (order, movement, deadline_of_unpaid) = unpaid().await?;
    let (payment, deadline_of_paid) = paid().await?;
    Ok(Costs { press, second_press, refusal, refresh, order, movement, payment, deadline_of_paid, deadline_of_unpaid })
}

async fn presses() -> Result<(Cost, Cost), Problem> {
    let world = World::new().await;
    let offer = world.sale(100, 1).await;
    let seckill = world.environment();
    // The first press reads the sale and the page; from then on they are in memory.
    seckill.purchase(&world.asks(&offer, "first", 1, None)).await?;
    world.wire.forget_calls();
    seckill.purchase(&world.asks(&offer, "alice", 1, None)).await?;
    let press = Cost::taken(&world);
    match seckill.purchase(&world.asks(&offer, "alice", 1, None)).await {
        Err(Refusal::Duplicate(_)) => Ok((press, Cost::taken(&world))),
        other => Err(format!("a second press must be refused as a duplicate, and was: {other:?}").into()),
    }
}

/// The refusal that reads the page, and the next one.
async fn refusals() -> Result<(Cost, Cost), Problem> {
    let world = World::new().await;
    let offer = world.sale(1, 1).await;
    let seckill = world.environment();
    seckill.purchase(&world.asks(&offer, "alice", 1, None)).await?;
    world.stream().await;
    world.clock.advance(Duration::from_millis(u64::try_from(FRESH_FOR_MS)?));
    let mut costs = Vec::new();
    for buyer in ["bob", "carol"] {
        world.wire.forget_calls();
        match seckill.purchase(&world.asks(&offer, buyer, 1, None)).await {
            Err(Refusal::SoldOut { .. }) => costs.push(Cost::taken(&world)),
            other => return Err(format!("the last unit is gone, and a press got: {other:?}").into()),
        }
    }
    let second = costs.pop().unwrap_or_default();
    Ok((costs.pop().unwrap_or_default(), second))
}

/// Pressed, ordered, not paid, timed out, returned.
async fn unpaid() -> Result<(Cost, Cost, Cost), Problem> {
    let world = World::new().await;
    let offer = world.sale(100, 1).await;
    world.buys(&offer, "alice").await;
    world.stream().await;
    world.wire.forget_calls();
    world.consume().await;
    let order = Cost::taken(&world);
    world.pass(901);
    world.deadlines().await;
    let deadline = Cost::taken(&world);
    world.stream().await;
    Ok((order, Cost::taken(&world), deadline))
}

/// Pressed, ordered, paid with a provider.
async fn paid() -> Result<(Cost, Cost), Problem> {
    let world = World::new().await;
    let offer = world.sale(100, 1).await;
    let order = world.waiting(&offer, "alice").await;
    world.wire.forget_calls();
    let started = world.starts(&order, Method::Wechat, 0).await;
    world.pays(&started).await;
    world.notices().await;
    let payment = Cost::taken(&world);
    world.pass(901);
    world.deadlines().await;
    Ok((payment, Cost::taken(&world)))
}

/// What the costs must be: a change of one is a decision, not an accident.
fn expected(costs: &Costs) -> [(&'static str, &Cost, Option<u32>, f64); 9] {
    [
        ("press → 202", &costs.press, Some(3), 2.0),
        // A failed condition is charged like a write.
        ("second press", &costs.second_press, Some(1), 1.0),
        ("refusal when sold out", &costs.refusal, Some(0), 0.0),
        ("… of which the first in 300 ms reads the page", &costs.refresh, Some(1), 0.0),
        // The sale is read by a function that has just started.
        ("message → order with its deadline", &costs.order, Some(4), 2.0),
        ("ledger row of a movement, from the stock's stream", &costs.movement, Some(1), 1.0),
        ("payment started → settled", &costs.payment, None, 5.0),
        ("deadline of a paid order", &costs.deadline_of_paid, Some(1), 1.0),
        ("deadline of an unpaid order: closed, returned", &costs.deadline_of_unpaid, Some(3), 3.0),
    ]
}

/// Counts, checks, and lays out two sales of very different size.
pub(crate) async fn measure() -> Result<Section, Problem> {
    eprintln!("  costs …");
    let mut section = Section::new("Costs, exact: a change makes this program fail");
    let costs = count().await?;
    let mut wrong = Vec::new();
    for (name, cost, calls, write_units) in expected(&costs) {
        hold(&mut section, &mut wrong, name, cost, calls, write_units);
    }
    section.add("a whole life, timed out: written", costs.unpaid_life(), "write units");
    section.add("a whole life, paid: written", costs.paid_life(), "write units");
    for units in [1_000, 1_000_000] {
        sized(&mut section, &mut wrong, units).await?;
    }
    if wrong.is_empty() { Ok(section) } else { Err(wrong.join("\n").into()) }
}

/// Notes a cost, and holds it against what it must be.
fn hold(
    section: &mut Section,
    wrong: &mut Vec<String>,
    name: &str,
    cost: &Cost,
    expected_calls: Option<u32>,
    expected_units: f64,
) {
    if let Some(expected_calls) = expected_calls {
        section.add(format!("{name}: calls"), f64::from(cost.all_calls()), "calls");
        if cost.all_calls() != expected_calls {
            wrong.push(format!("{name}: {expected_calls} calls expected, made were {:?}", cost.calls));
        }
    }
    // The sum of no calls is minus zero, which nobody wants to read.
    section.add(format!("{name}: written"), cost.write_units + 0.0, "write units");
    if cost.write_units != expected_units {
        wrong.push(format!(
            "{name}: {expected_units} write units expected, used were {} by {:?}",
            cost.write_units, cost.calls
        ));
    }
}

/// A press at a sale of so many units; and how long it took to lay them out.
async fn sized(section: &mut Section, wrong: &mut Vec<String>, units: u32) -> Result<(), Problem> {
    let offer = Offer { sale: "sale".parse()?, item: "phone".parse()? };
    let world = World::new().await;
    flows::sale::set_up::create(&world.store, offer.sale.clone(), form(units, 1), world.now()).await?;
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
    let of = figures::number(float(u64::from(units)));
    hold(section, wrong, &format!("press → 202, of {of} units"), &Cost::taken(&world), Some(3), 2.0);
    section.add(format!("preheating {of} units ({laid_out} buckets)"), took.as_secs_f64(), "s");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_step_and_a_whole_life_cost_what_they_must() {
        let costs = count().await.unwrap();
        let (mut section, mut wrong) = (Section::new("Costs"), Vec::new());
        for (name, cost, calls, write_units) in expected(&costs) {
            hold(&mut section, &mut wrong, name, cost, calls, write_units);
        }
        assert_eq!(wrong, [""; 0]);
        assert_eq!((costs.unpaid_life(), costs.paid_life()), (7.0, 10.0));
    }
}
