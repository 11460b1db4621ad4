//! The plan as text and charts.

use std::fmt::Write as _;

use bench::costs::Costs;
use figures::{Chart, Series, Table, dollars, float, number};

use crate::facts::{
    COLD_START, GATEWAY_ROUND_TRIP, HTTP_API_QUOTA, LAMBDA_CONCURRENCY_QUOTA, NEW_TABLE_READS, PARTITION_READS,
    SCHEDULE, SCHEDULE_PRECISION_SECONDS, SEND, TABLE_WRITES_QUOTA, Takes, WRITE,
};
use crate::plan::{Needs, Plan, Way, rounded};
use crate::reads::KEY_READS;
use crate::sale::Shape;

/// The whole plan as text.
pub fn text(plan: &Plan, costs: &Costs) -> String {
    let mut text = String::new();
    // Writing into a string cannot fail.
    let sale = &plan.sale;
    let arrivals = match sale.shape {
        Shape::Front => "most of them at the start",
        Shape::Even => "evenly",
    };
    let _ = writeln!(
        text,
        "{} units, {} buyers within {} s, {arrivals}; {} % of orders are paid\n",
        number(f64::from(sale.units)),
        number(f64::from(sale.buyers)),
        sale.seconds,
        sale.paid_percent,
    );
    let _ = writeln!(text, "Before the sale\n{}", needs(&plan.needs));
    let _ = writeln!(text, "Side by side\n{}", side_by_side(&plan.ways).text());
    if let Some(planned) = plan.planned() {
        let _ = writeln!(text, "What it costs, as planned\n{}", costs_of(planned).text());
    }
    let _ = writeln!(
        text,
        "A purchase request takes {} calls and {} write units, and a refusal {} calls. An order takes {} write units, \
         and {} more in the ledger. All of these are counted in the code.",
        costs.press.all_calls(),
        number(costs.press.write_units),
        costs.refusal.all_calls(),
        number(costs.order.write_units),
        number(costs.movement.write_units),
    );
    let assumed = |name: &str, takes: Takes| format!("{name} {} / {} ms", takes.p50_ms, takes.p99_ms);
    let _ = writeln!(
        text,
        "Assumed times (p50 / p99): {}, {}, {}, {}, {}.\nNone of this was measured in an AWS account. Prices are those \
         of us-east-1.",
        assumed("to the function and back", GATEWAY_ROUND_TRIP),
        assumed("a write", WRITE),
        assumed("a message", SEND),
        assumed("a schedule", SCHEDULE),
        assumed("a new environment", COLD_START),
    );
    text
}

fn needs(needs: &Needs) -> String {
    let mut text = String::new();
    let mut line = |what: String| {
        let _ = writeln!(text, "  - {what}");
    };
    line(format!("the busiest second has {} purchase requests", number(f64::from(needs.peak_presses))));
    if needs.gateway > HTTP_API_QUOTA {
        line(format!(
            "request a quota of {} requests per second for API Gateway (the default is {}), and deploy with \
             SeckillRateLimit={} SeckillBurstLimit={}",
            number(f64::from(needs.gateway)),
            number(f64::from(HTTP_API_QUOTA)),
            needs.gateway,
            needs.gateway / 2,
        ));
    } else {
        line(format!("the default {HTTP_API_QUOTA} requests per second of API Gateway are enough"));
    }
    if needs.concurrency > LAMBDA_CONCURRENCY_QUOTA {
        line(format!(
            "request a quota of {} concurrent executions for Lambda (the default is {})",
            number(f64::from(needs.concurrency)),
            number(f64::from(LAMBDA_CONCURRENCY_QUOTA)),
        ));
    } else {
        line(format!("the default {LAMBDA_CONCURRENCY_QUOTA} concurrent executions of Lambda are enough"));
    }
    if needs.provisioned > 0 {
        line(format!(
            "provision {} environments of the seckill function, because Lambda adds only 1,000 in ten seconds; the \
             template does not provide this: give the function an alias with provisioned concurrency, and the API that \
             alias",
            number(f64::from(needs.provisioned)),
        ));
    }
    match needs.warm_writes {
        Some(writes) => {
            // The template needs both figures or neither. A new table accepts NEW_TABLE_READS anyway.
            let reads = rounded(needs.reads.table * 1.2).max(NEW_TABLE_READS);
            line(format!(
                "warm the tables of stock, claims, orders and pages, a day ahead: deploy with \
                 WarmReadUnits={reads} WarmWriteUnits={writes}"
            ));
            if writes >= TABLE_WRITES_QUOTA {
                line(format!(
                    "{TABLE_WRITES_QUOTA} writes per second are the default quota of a table: request more, or spread \
                     the start over more seconds"
                ));
            }
        }
        None => line("the tables need no warming".to_owned()),
    }
    let reads = &needs.reads;
    let advice = match reads.copies {
        0 => "pages of open buckets need no copies".to_owned(),
        copies => format!("deploy with PageCopies={copies}, so that functions do not all read the same key"),
    };
    line(format!(
        "{advice}: the busiest key of a page is read with {} units per second while it sells and with {} when it is \
         sold out, the key of the sale with {} (one key allows {})",
        number(reads.page_while_selling.round()),
        number(reads.page_when_sold_out.round()),
        number(reads.sale.round()),
        number(PARTITION_READS),
    ));
    if reads.busiest_key() > KEY_READS {
        line(format!(
            "this many functions read a key with more than {} units per second even so: limit them by \
             SeckillConcurrency",
            number(KEY_READS)
        ));
    }
    line(format!(
        "if all orders reach their deadline together, Scheduler takes {} s, after up to {SCHEDULE_PRECISION_SECONDS} s",
        number(needs.deadlines_s)
    ));
    text
}

fn side_by_side(ways: &[Way]) -> Table {
    let mut head = vec![String::new()];
    head.extend(ways.iter().map(|way| way.name.to_owned()));
    let mut table = Table::new(head);
    let mut row = |name: &str, cell: &dyn Fn(&Way) -> String| {
        table.row(std::iter::once(name.to_owned()).chain(ways.iter().map(cell)));
    };
    row("units sold", &|way| count(way, |second| second.accepted));
    row("sold out after", &|way| {
        way.outcome.sold_out_after_s.map_or("not sold out".to_owned(), |s| format!("{} s", number(s)))
    });
    row("purchase requests", &|way| count(way, |second| second.presses));
    row("answered with 429 or 503", &|way| count(way, |second| second.later));
    row("buyers who gave up", &|way| number(f64::from(way.outcome.gave_up)));
    row("calls throttled or in conflict", &|way| number(float(way.outcome.throttled)));
    row("request → 202, p50", &|way| ms(&way.outcome.accepted_in, 50.0));
    row("request → 202, p99", &|way| ms(&way.outcome.accepted_in, 99.0));
    row("request → sold out, p99", &|way| ms(&way.outcome.refused_in, 99.0));
    row("202 → order, p99", &|way| ms(&way.lag.lag, 99.0));
    row("last order after", &|way| format!("{} s", number(way.lag.done_after_s)));
    row("write units of requests", &|way| number(way.outcome.writes.round()));
    row("$ for selling", &|way| dollars(way.bill.for_selling()));
    row("$ in total", &|way| dollars(way.bill.total()));
    table
}

fn count(way: &Way, figure: impl Fn(&crate::simulate::Second) -> u32) -> String {
    number(float(way.outcome.all(figure)))
}

fn ms(latency: &figures::Latency, percentile: f64) -> String {
    match latency.count() {
        0 => "–".to_owned(),
        _ => format!("{} ms", number(latency.percentile_ms(percentile).round())),
    }
}

fn costs_of(way: &Way) -> Table {
    let mut table = Table::new(["", "quantity", "$"]);
    for (title, lines) in
        [("selling", &way.bill.selling), ("logs and traces", &way.bill.watching), ("preparation", &way.bill.readiness)]
    {
        for line in lines {
            table.row([format!("{title}: {}", line.what), number(line.quantity), dollars(line.dollars)]);
        }
    }
    table.row(["total".to_owned(), String::new(), dollars(way.bill.total())]);
    table
}

/// Units sold over time in each way, and the load of the planned one.
pub fn charts(plan: &Plan) -> Vec<Chart> {
    let sold = |way: &Way| {
        let mut sum = 0.0;
        let mut points = vec![(0.0, 0.0)];
        for (second, n) in way.outcome.seconds.iter().zip(1_u32..) {
            sum += f64::from(second.accepted);
            points.push((f64::from(n), sum));
        }
        Series { name: way.name.to_owned(), points }
    };
    let mut charts = vec![Chart {
        title: "Units sold".into(),
        x: "seconds".into(),
        y: "units".into(),
        series: plan.ways.iter().map(sold).collect(),
    }];
    if let Some(way) = plan.planned() {
        let series = |name: &str, figure: &dyn Fn(&crate::simulate::Second) -> u32| Series {
            name: name.to_owned(),
            points: way
                .outcome
                .seconds
                .iter()
                .zip(0_u32..)
                .map(|(second, n)| (f64::from(n), f64::from(figure(second))))
                .collect(),
        };
        charts.push(Chart {
            title: "Purchase requests, as planned".into(),
            x: "seconds".into(),
            y: "per second".into(),
            series: vec![
                series("accepted", &|second| second.accepted),
                series("sold out", &|second| second.refused),
                series("429 or 503", &|second| second.later),
            ],
        });
    }
    charts
}
