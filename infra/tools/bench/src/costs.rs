//! What each step of a purchase costs in calls and capacity units: counted at the SDK's transport, exact, and checked.
//!
//! `seckill-plan` uses these figures too. It counts them itself, so that they belong to the code it was built with.

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

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cost {
    pub calls: BTreeMap<String, u32>,
    pub write_units: f64,
    /// An eventually consistent read of up to 4 KB is half a unit.
    pub read_units: f64,
}

impl Cost {
    /// The cost of all calls since the last time, and starts counting anew.
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

    /// The number of all calls.
    pub fn all_calls(&self) -> u32 {
        self.calls.values().sum()
    }

    /// The number of calls of one operation.
    pub fn of(&self, operation: &str) -> u32 {
        self.calls.get(operation).copied().unwrap_or(0)
    }
}

/// The cost of each step of a purchase.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Costs {
    /// A purchase request that is accepted.
    pub press: Cost,
    /// A second purchase request while the order is live.
    pub second_press: Cost,
    /// A refusal with SOLD_OUT, from memory.
    pub refusal: Cost,
    /// The first refusal after the cached page has expired, which reads it again.
    pub refresh: Cost,
    /// An accepted purchase becomes an order with its deadline.
    pub order: Cost,
    /// The ledger entry of one movement of units, written from the stock's stream.
    pub movement: Cost,
    /// A payment is started and its notice settles the order.
    pub payment: Cost,
    /// The deadline of an order that was paid.
    pub deadline_of_paid: Cost,
    /// The deadline of an unpaid order: it is closed, and its units become free.
    pub deadline_of_unpaid: Cost,
}

impl Costs {
    /// Write units of an order that is never paid, without its ledger entries.
    fn unpaid_life(&self) -> f64 {
        self.press.write_units + self.order.write_units + self.deadline_of_unpaid.write_units
    }

    /// Write units of an order that is paid. The schedule of its deadline is deleted.
    fn paid_life(&self) -> f64 {
        let sold = self.press.write_units + self.order.write_units + self.payment.write_units;
        sold + self.deadline_of_paid.write_units
    }
}

/// Counts all costs on engines in memory, in about a second.
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
    // The first request reads the sale and the page. They are cached from then on.
    seckill.purchase(&world.asks(&offer, "first", 1, None)).await?;
    world.wire.forget_calls();
    seckill.purchase(&world.asks(&offer, "alice", 1, None)).await?;
    let press = Cost::taken(&world);
    match seckill.purchase(&world.asks(&offer, "alice", 1, None)).await {
        Err(Refusal::Duplicate(_)) => Ok((press, Cost::taken(&world))),
        other => Err(format!("a second purchase must be refused as a duplicate, and got: {other:?}").into()),
    }
}

/// The costs of the refusal that reads the page again, and of the next one.
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
            other => return Err(format!("everything is sold, and a purchase got: {other:?}").into()),
        }
    }
    let second = costs.pop().unwrap_or_default();
    Ok((costs.pop().unwrap_or_default(), second))
}

/// The costs of the order, of a ledger entry, and of the deadline of an order that is not paid.
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

/// The costs of a payment with a provider, and of the deadline afterwards.
async fn paid() -> Result<(Cost, Cost), Problem> {
    let world = World::new().await;
    let offer = world.sale(100, 1).await;
    let order = world.unpaid_order(&offer, "alice").await;
    world.wire.forget_calls();
    let started = world.start_payment(&order, Method::Wechat, 0).await;
    world.pay(&started).await;
    world.deliver_notices().await;
    let payment = Cost::taken(&world);
    world.pass(901);
    world.deadlines().await;
    Ok((payment, Cost::taken(&world)))
}

/// The expected calls and write units. They are checked so that a change is always deliberate.
fn expected(costs: &Costs) -> [(&'static str, &Cost, Option<u32>, f64); 9] {
    [
        ("purchase request → 202", &costs.press, Some(3), 2.0),
        // A failed condition is charged like a write.
        ("second purchase request", &costs.second_press, Some(1), 1.0),
        ("refusal when sold out", &costs.refusal, Some(0), 0.0),
        ("… the first one in 300 ms reads the page", &costs.refresh, Some(1), 0.0),
        // Claim, order and its row in the index of the sale. Includes reading the sale, because the function has just
        // started.
        ("message → order with its deadline", &costs.order, Some(4), 3.0),
        ("ledger entry of a movement, from the stock's stream", &costs.movement, Some(1), 1.0),
        ("payment started → settled", &costs.payment, None, 5.0),
        ("deadline of a paid order: its schedule was deleted", &costs.deadline_of_paid, Some(0), 0.0),
        ("deadline of an unpaid order: closed, units freed", &costs.deadline_of_unpaid, Some(3), 3.0),
    ]
}

/// Counts and checks all costs, also in two sales of very different size.
pub(crate) async fn measure() -> Result<Section, Problem> {
    eprintln!("  costs …");
    let mut section = Section::new("Exact costs: this program fails if one changes");
    let costs = count().await?;
    let mut wrong = Vec::new();
    for (name, cost, calls, write_units) in expected(&costs) {
        add_and_check(&mut section, &mut wrong, name, cost, calls, write_units);
    }
    section.add("an order that times out, in total: written", costs.unpaid_life(), "write units");
    section.add("an order that is paid, in total: written", costs.paid_life(), "write units");
    for units in [1_000, 1_000_000] {
        sized(&mut section, &mut wrong, units).await?;
    }
    if wrong.is_empty() { Ok(section) } else { Err(wrong.join("\n").into()) }
}

/// Adds a cost to the section and compares it with the expected one.
fn add_and_check(
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
            wrong.push(format!("{name}: expected {expected_calls} calls, made {:?}", cost.calls));
        }
    }
    // The sum of no calls is -0.0. Adding 0.0 removes the sign.
    section.add(format!("{name}: written"), cost.write_units + 0.0, "write units");
    if cost.write_units != expected_units {
        wrong.push(format!(
            "{name}: expected {expected_units} write units, used {} in {:?}",
            cost.write_units, cost.calls
        ));
    }
}

/// The cost of a purchase in a sale of this many units, and how long preheating takes.
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
    add_and_check(
        section,
        wrong,
        &format!("purchase request → 202, of {of} units"),
        &Cost::taken(&world),
        Some(3),
        2.0,
    );
    section.add(format!("preheating {of} units ({laid_out} buckets)"), took.as_secs_f64(), "s");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_step_has_its_expected_cost() {
        let costs = count().await.unwrap();
        let (mut section, mut wrong) = (Section::new("Costs"), Vec::new());
        for (name, cost, calls, write_units) in expected(&costs) {
            add_and_check(&mut section, &mut wrong, name, cost, calls, write_units);
        }
        assert_eq!(wrong, [""; 0]);
        assert_eq!((costs.unpaid_life(), costs.paid_life()), (8.0, 10.0));
    }
}
