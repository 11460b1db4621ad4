//! The plan for people: text and charts.

use std::fmt::Write as _;

use bench::costs::Costs;
use figures::{Chart, Series, Table, dollars, float, number};

use crate::facts::{
    COLD_START, DOOR, HTTP_API_QUOTA, LAMBDA_CONCURRENCY_QUOTA, NEW_TABLE_READS, PARTITION_READS, SCHEDULE,
    SCHEDULE_PRECISION_SECONDS, SEND, TABLE_WRITES_QUOTA, Takes, WRITE,
};
use crate::plan::{Needs, Plan, Way};
use crate::sale::Shape;

/// Everything in words and figures.
pub fn text(plan: &Plan, costs: &Costs) -> String {
    let mut text = String::new();
    // Writing into a string cannot fail.
    let sale = &plan.sale;
    let come = match sale.shape {
        Shape::Front => "most of them at the start",
        Shape::Even => "evenly",
    };
    let _ = writeln!(
        text,
        "{} units, {} buyers within {} s, {come}; {} % of orders are paid\n",
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
        "A press is {} calls and {} write units, a refusal {} calls; an order is {} write units and {} more in the ledger: counted in \
         this code.",
        costs.press.all_calls(),
        number(costs.press.write_units),
        costs.refusal.all_calls(),
        number(costs.order.write_units),
        number(costs.movement.write_units),
    );
    let said = |name: &str, takes: Takes| format!("{name} {} / {} ms", takes.p50_ms, takes.p99_ms);
    let _ = writeln!(
        text,
        "Taken for granted, half / 99 % within: {}, {}, {}, {}, {}.\nNothing of this was tried in an AWS account. Prices are of us-east-1.",
        said("to the function and back", DOOR),
        said("a write", WRITE),
        said("a message", SEND),
        said("a schedule", SCHEDULE),
        said("a new environment", COLD_START),
    );
    text
}

fn needs(needs: &Needs) -> String {
    let mut text = String::new();
    let mut line = |what: String| {
        let _ = writeln!(text, "  - {what}");
    };
    line(format!("the busiest second has {} presses", number(f64::from(needs.peak_presses))));
    if needs.gateway > HTTP_API_QUOTA {
        line(format!(
            "ask API Gateway for {} requests a second (an account has {}), and deploy with SeckillRateLimit={} SeckillBurstLimit={}",
            number(f64::from(needs.gateway)),
            number(f64::from(HTTP_API_QUOTA)),
            needs.gateway,
            needs.gateway / 2,
        ));
    } else {
        line(format!("API Gateway's {HTTP_API_QUOTA} requests a second are enough"));
    }
    if needs.concurrency > LAMBDA_CONCURRENCY_QUOTA {
        line(format!(
            "ask Lambda for {} concurrent executions (an account has {})",
            number(f64::from(needs.concurrency)),
            number(f64::from(LAMBDA_CONCURRENCY_QUOTA)),
        ));
    } else {
        line(format!("Lambda's {LAMBDA_CONCURRENCY_QUOTA} concurrent executions are enough"));
    }
    if needs.provisioned > 0 {
        line(format!(
            "have {} environments of the seckill function provisioned, because Lambda adds only 1,000 in ten seconds; the template does \
             not provide this: give the function an alias with provisioned concurrency, and the API that alias",
            number(f64::from(needs.provisioned)),
        ));
    }
    match needs.warm_writes {
        Some(writes) => {
            // The template takes both figures or neither: as many reads as a new table takes anyway.
            line(format!(
                "warm the tables of stock, claims and orders, a day ahead: deploy with WarmReadUnits={NEW_TABLE_READS} WarmWriteUnits={writes}"
            ));
            if writes >= TABLE_WRITES_QUOTA {
                line(format!(
                    "{TABLE_WRITES_QUOTA} writes a second are the quota of a table: ask for more, or spread the start over more seconds"
                ));
            }
        }
        None => line("the tables need no warming".to_owned()),
    }
    if needs.page_reads > PARTITION_READS {
        line(format!(
            "if every environment is in use at once, the page of open buckets is read with {} units a second, and one item takes {}: beyond \
             that some presses are told \"later\"; fewer environments, or more units (a page is 12,288 of them), keep below it",
            number(needs.page_reads.round()),
            number(PARTITION_READS),
        ));
    }
    line(format!(
        "if all orders run out together, Scheduler takes {} s to fire, after up to {SCHEDULE_PRECISION_SECONDS} s",
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
    row("presses", &|way| count(way, |second| second.presses));
    row("told \"later\"", &|way| count(way, |second| second.later));
    row("buyers who gave up", &|way| number(f64::from(way.outcome.gave_up)));
    row("calls throttled or in conflict", &|way| number(float(way.outcome.throttled)));
    row("press → 202, half within", &|way| ms(&way.outcome.accepted_in, 50.0));
    row("press → 202, 99 % within", &|way| ms(&way.outcome.accepted_in, 99.0));
    row("press → sold out, 99 % within", &|way| ms(&way.outcome.refused_in, 99.0));
    row("202 → order, 99 % within", &|way| ms(&way.lag.lag, 99.0));
    row("last order after", &|way| format!("{} s", number(way.lag.done_after_s)));
    row("write units of presses", &|way| number(way.outcome.writes.round()));
    row("$ for selling", &|way| dollars(way.bill.for_selling()));
    row("$ in all", &|way| dollars(way.bill.total()));
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
    let mut table = Table::new(["", "how much", "$"]);
    for (title, lines) in
        [("selling", &way.bill.selling), ("watching", &way.bill.watching), ("being ready", &way.bill.readiness)]
    {
        for line in lines {
            table.row([format!("{title}: {}", line.what), number(line.quantity), dollars(line.dollars)]);
        }
    }
    table.row(["in all".to_owned(), String::new(), dollars(way.bill.total())]);
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
            title: "Presses, as planned".into(),
            x: "seconds".into(),
            y: "a second".into(),
            series: vec![
                series("accepted", &|second| second.accepted),
                series("sold out", &|second| second.refused),
                series("later", &|second| second.later),
            ],
        });
    }
    charts
}
