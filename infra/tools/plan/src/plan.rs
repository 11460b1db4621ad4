//! The plan: what a sale needs, how it proceeds and what it costs, in each of four ways to run it.

use bench::costs::Costs;
use domain::bucket::Segment;

use crate::bill::{Bill, bill};
use crate::design::Design;
use crate::facts::{
    HTTP_API_QUOTA, LAMBDA_BURST, LAMBDA_BURST_SECONDS, LAMBDA_CONCURRENCY_QUOTA, LAMBDA_REQUESTS_PER_ENVIRONMENT,
    NEW_TABLE_WRITES, SCHEDULES_FIRED_QUOTA, TABLE_WRITES_QUOTA,
};
use crate::orders::{Lag, lag};
use crate::reads::Reads;
use crate::sale::Sale;
use crate::simulate::{Capacity, Outcome, Simulation};

/// Purchase requests per second that the gateway lets through by default, as in the template.
pub(crate) const TEMPLATE_RATE: f64 = 8_000.0;
/// Of a thousand requests before everything is sold, this many may be answered with 429 or 503 in a good plan.
const LATER_PER_MILLE: u64 = 10;
/// Environments of the other functions: orders, pages, payments and queries.
const OTHER_ENVIRONMENTS: u32 = 200;

/// A way to run the sale, and the result.
#[derive(Clone, Debug)]
pub struct Way {
    pub name: &'static str,
    pub design: Design,
    pub capacity: Capacity,
    pub outcome: Outcome,
    pub lag: Lag,
    pub bill: Bill,
}

/// What has to be prepared before the sale.
#[derive(Clone, Debug, PartialEq)]
pub struct Needs {
    /// The most purchase requests in a second.
    pub peak_presses: u32,
    /// The quota of API Gateway to request and to set in the template, in requests per second.
    pub gateway: u32,
    /// The quota of Lambda to request, in environments.
    pub concurrency: u32,
    /// How many of these environments must be provisioned before the sale starts.
    pub provisioned: u32,
    /// Write units per second to which the tables of stock, claims and orders must be warmed. `None` if new tables are
    /// sufficient.
    pub warm_writes: Option<u32>,
    /// What every running function reads repeatedly, and the copies of pages that it takes.
    pub reads: Reads,
    /// How long Scheduler takes if all orders reach their deadline at the same time, in seconds.
    pub deadlines_s: f64,
}

#[derive(Clone, Debug)]
pub struct Plan {
    pub sale: Sale,
    pub needs: Needs,
    /// One counter, one transaction, buckets with default quotas, and buckets as planned.
    pub ways: Vec<Way>,
}

impl Plan {
    /// Buckets as planned.
    pub fn planned(&self) -> Option<&Way> {
        self.ways.last()
    }
}

/// Makes the plan. `say` receives descriptions of the progress.
pub fn plan(sale: &Sale, costs: &Costs, say: impl Fn(&str)) -> Plan {
    let peak = sale.peak();
    let generous = Capacity {
        warm_writes: TABLE_WRITES_QUOTA,
        provisioned: provisioned(sale),
        concurrency: u32::MAX,
        gateway: peak * 4.0 + 1_000.0,
    };
    let warm_writes = warmth(sale, costs, generous, &say);
    let planned = Capacity { warm_writes: warm_writes.unwrap_or(NEW_TABLE_WRITES), ..generous };
    // Warming does not help the other designs: all buyers write to one key, which stays on one partition.
    let cold = Capacity { warm_writes: NEW_TABLE_WRITES, ..generous };
    let default_quotas = Capacity {
        warm_writes: NEW_TABLE_WRITES,
        provisioned: 0,
        concurrency: LAMBDA_CONCURRENCY_QUOTA - OTHER_ENVIRONMENTS,
        gateway: TEMPLATE_RATE,
    };
    let way = |name, design, capacity| {
        say(name);
        run(sale, costs, name, design, capacity)
    };
    let ways = vec![
        way("one counter", Design::Counter, cold),
        way("one transaction", Design::Transaction, cold),
        way("buckets, default quotas", Design::Buckets, default_quotas),
        way("buckets, as planned", Design::Buckets, planned),
    ];
    let busiest =
        ways.last().map_or(0, |way| way.outcome.seconds.iter().map(|second| second.presses).max().unwrap_or(0));
    let environments = ways.last().map_or(0.0, |way| {
        way.outcome.seconds.iter().map(|second| second.environments).fold(0.0, f64::max) + way.lag.pollers
    });
    let needs = Needs {
        reads: Reads::of(environments, pages(sale), costs),
        peak_presses: busiest,
        gateway: rounded(f64::from(busiest) * 1.2).max(HTTP_API_QUOTA),
        concurrency: (rounded(environments) + OTHER_ENVIRONMENTS).max(LAMBDA_CONCURRENCY_QUOTA),
        provisioned: planned.provisioned,
        warm_writes,
        deadlines_s: sale.orders().min(f64::from(sale.units)) / f64::from(SCHEDULES_FIRED_QUOTA),
    };
    Plan { sale: sale.clone(), needs, ways }
}

fn run(sale: &Sale, costs: &Costs, name: &'static str, design: Design, capacity: Capacity) -> Way {
    let writes = design.writes(costs);
    let outcome = Simulation::new(sale, design, writes, capacity).play();
    let bill = bill(sale, design, writes, costs, capacity, &outcome);
    let lag = lag(&outcome.seconds);
    Way { name, design, capacity, outcome, lag, bill }
}

/// Environments that must exist at the start, because Lambda adds at most a thousand in ten seconds.
fn provisioned(sale: &Sale) -> u32 {
    let short = |second: u32| {
        let needed = sale.rate(f64::from(second)) / LAMBDA_REQUESTS_PER_ENVIRONMENT;
        // Only half of the initial allowance is counted on, because other functions may need some of it.
        needed - LAMBDA_BURST / 2.0 - LAMBDA_BURST / LAMBDA_BURST_SECONDS * f64::from(second)
    };
    let most = (0..sale.seconds).map(short).fold(0.0, f64::max);
    if most > 0.0 { rounded(most) } else { 0 }
}

/// The least to which the tables must be warmed so that hardly any request is answered with 429 or 503 before
/// everything is sold. The quota of a table if nothing suffices.
fn warmth(sale: &Sale, costs: &Costs, generous: Capacity, say: &impl Fn(&str)) -> Option<u32> {
    let writes = Design::Buckets.writes(costs);
    for warm_writes in [NEW_TABLE_WRITES, 6_000, 8_000, 12_000, 16_000, 20_000, 30_000, TABLE_WRITES_QUOTA] {
        say(&format!("tables warmed to {warm_writes} writes per second"));
        let capacity = Capacity { warm_writes, ..generous };
        let outcome = Simulation::new(sale, Design::Buckets, writes, capacity).play();
        let (later, all) = outcome.later_while_selling;
        if later * 1_000 <= all * LATER_PER_MILLE {
            return (warm_writes > NEW_TABLE_WRITES).then_some(warm_writes);
        }
    }
    Some(TABLE_WRITES_QUOTA)
}

/// How many pages of open buckets the item has.
pub(crate) fn pages(sale: &Sale) -> u32 {
    domain::availability::pages(Segment::new(sale.units, 1, None).buckets()).max(1)
}

/// Rounds up to the next hundred.
pub(crate) fn rounded(value: f64) -> u32 {
    let mut hundreds = 0_u32;
    while f64::from(hundreds) * 100.0 < value {
        hundreds += 1;
    }
    hundreds * 100
}
