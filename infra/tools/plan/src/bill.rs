//! What a sale costs in dollars, line by line.

use bench::costs::Costs;
use figures::float;

use crate::design::{Design, Writes};
use crate::facts::{
    GB_SECOND, HTTP_REQUESTS, INVOCATIONS, LOG_BYTES_PER_PRESS, LOG_GB, NEW_TABLE_WRITES, PROVISIONED_GB_SECOND,
    QUEUE_REQUESTS, READS, SCHEDULE, SCHEDULES, TRACED_PERCENT, TRACES, WARM_WRITE, WRITE, WRITES,
};
use crate::orders::BATCH;
use crate::plan::pages;
use crate::reads::of_one_function;
use crate::sale::Sale;
use crate::simulate::{Capacity, Outcome};

/// The memory of a function in gigabytes, as in the template.
pub(crate) const MEMORY_GB: f64 = 0.25;
/// How many tables and indexes the template warms for writes: stock, claims, orders and the orders' two indexes.
pub(crate) const WARM_TABLES: f64 = 5.0;
/// How long concurrency is provisioned: from shortly before the sale to shortly after it.
const PROVISIONED_SECONDS: f64 = 900.0;

#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    pub what: &'static str,
    pub quantity: f64,
    pub dollars: f64,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bill {
    /// What selling itself costs.
    pub selling: Vec<Line>,
    /// Logs and traces.
    pub watching: Vec<Line>,
    /// What must be provisioned before the first buyers arrive.
    pub readiness: Vec<Line>,
}

impl Bill {
    /// The costs of selling alone.
    pub fn for_selling(&self) -> f64 {
        sum(&self.selling)
    }

    pub fn total(&self) -> f64 {
        sum(&self.selling) + sum(&self.watching) + sum(&self.readiness)
    }
}

fn sum(lines: &[Line]) -> f64 {
    lines.iter().map(|line| line.dollars).sum()
}

/// The bill of a sale with this outcome.
pub fn bill(sale: &Sale, design: Design, writes: Writes, costs: &Costs, capacity: Capacity, outcome: &Outcome) -> Bill {
    const MILLION: f64 = 1e6;
    let presses = float(outcome.all(|second| second.presses));
    let accepted = float(outcome.all(|second| second.accepted));
    // Unpaid units are sold again after the rush, until everything is paid or no buyer is left.
    let (orders, unpaid) = match design {
        Design::Buckets if accepted >= f64::from(sale.units) => (sale.orders(), sale.orders() - f64::from(sale.units)),
        _ => (accepted, 0.0),
    };
    let unpaid = unpaid.max(0.0);
    let paid = orders - unpaid;
    let again = orders - accepted;
    let life = match design {
        // Each movement of units writes a ledger entry: held, then sold or freed.
        Design::Buckets => {
            again * costs.press.write_units
                + orders * writes.order
                + paid * (costs.payment.write_units + costs.deadline_of_paid.write_units + costs.movement.write_units)
                + unpaid * (costs.deadline_of_unpaid.write_units + costs.movement.write_units)
        }
        // One write each for the order, the payment and its end.
        Design::Counter => orders * (writes.order + 2.0),
        Design::Transaction => orders * 2.0,
    };
    let reads: f64 = match design {
        Design::Buckets => {
            let is_sold_out = |second: u32| outcome.sold_out_after_s.is_some_and(|after| f64::from(second) >= after);
            let each = |second: u32| of_one_function(is_sold_out(second), pages(sale), costs);
            let of_seconds = outcome.seconds.iter().zip(0_u32..);
            of_seconds.map(|(second, number)| second.environments * each(number)).sum::<f64>()
                + orders * reads_of_order(costs)
        }
        Design::Counter | Design::Transaction => 0.0,
    };
    // A paid order takes a query, the start of a payment and a notice. Any other order takes a query.
    let other_requests = orders + 2.0 * paid;
    let batches = orders / BATCH;
    let invocations = presses + other_requests + 2.0 * batches + orders;
    let other_ms = other_requests * 3.0 * WRITE.p50_ms
        + batches * (2.0 * WRITE.p50_ms + SCHEDULE.p50_ms)
        + orders * 3.0 * WRITE.p50_ms;
    let gb_seconds = (outcome.billed_ms + other_ms) / 1_000.0 * MEMORY_GB;
    let write_units = outcome.writes + life;
    let per_million = |what, quantity: f64, price: f64| Line { what, quantity, dollars: quantity / MILLION * price };
    let selling = vec![
        per_million("requests to the API", presses + other_requests, HTTP_REQUESTS),
        per_million("invocations", invocations, INVOCATIONS),
        Line { what: "gigabyte-seconds of functions", quantity: gb_seconds, dollars: gb_seconds * GB_SECOND },
        per_million("write units", write_units, WRITES),
        per_million("read units", reads, READS),
        // Messages are sent one by one, and received and deleted in batches.
        per_million("requests to the queue", again + accepted + 2.0 * batches, QUEUE_REQUESTS),
        per_million("schedules", orders, SCHEDULES),
    ];
    let log_gb = presses * LOG_BYTES_PER_PRESS / 1e9;
    let watching = vec![
        Line { what: "gigabytes of logs", quantity: log_gb, dollars: log_gb * LOG_GB },
        per_million("traces", invocations * TRACED_PERCENT / 100.0, TRACES),
    ];
    let warmed = f64::from(capacity.warm_writes.saturating_sub(NEW_TABLE_WRITES)) * WARM_TABLES;
    let provisioned = f64::from(capacity.provisioned) * MEMORY_GB * PROVISIONED_SECONDS;
    let readiness = vec![
        Line { what: "write units per second, warmed (once)", quantity: warmed, dollars: warmed * WARM_WRITE },
        Line {
            what: "gigabyte-seconds provisioned (15 min)",
            quantity: provisioned,
            dollars: provisioned * PROVISIONED_GB_SECOND,
        },
    ];
    Bill { selling, watching, readiness: readiness.into_iter().filter(|line| line.quantity > 0.0).collect() }
}

/// Read units of one order.
fn reads_of_order(costs: &Costs) -> f64 {
    costs.order.read_units + costs.payment.read_units
}
