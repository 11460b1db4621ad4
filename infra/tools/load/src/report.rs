//! The table, the chart and the figures of a run.

use std::fmt::Write as _;
use std::time::Duration;

use figures::{Chart, Series, Table, float, number};
use testkit::check::Check;
use serde_json::{Value, json};

use crate::Options;
use crate::tally::{Counts, Route, Second};

const PERCENTILES: [(&str, f64); 5] = [("p50", 50.0), ("p90", 90.0), ("p99", 99.0), ("p99.9", 99.9), ("max", 100.0)];

/// When units went, for people.
pub(crate) fn sold_out_after(counts: &Counts) -> Option<Duration> {
    counts.first_sold_out.and(counts.last_accepted)
}

pub(crate) fn text(counts: &Counts, checks: &[Check], options: &Options, seed: u64, took: Duration) -> String {
    let mut text = String::new();
    // Writing into a string cannot fail.
    let _ = writeln!(
        text,
        "\n{} buyers within {} s at {}; {} presses in {} s, seed {seed}\n",
        number(f64::from(options.buyers)),
        options.seconds,
        options.base_url,
        number(float(counts.presses())),
        number(took.as_secs_f64()),
    );
    let mut answers = Table::new(["presses answered", ""]);
    for (answer, count) in &counts.answers {
        answers.row([answer.clone(), number(float(*count))]);
    }
    let _ = writeln!(text, "{}", answers.text());
    let head = ["milliseconds", "count"].into_iter().chain(PERCENTILES.map(|(name, _)| name));
    let mut times = Table::new(head);
    let mut row = |name: &str, latency: &figures::Latency| {
        let figures = PERCENTILES.map(|(_, percentile)| number(latency.percentile_ms(percentile)));
        times.row([name.to_owned(), number(float(latency.count()))].into_iter().chain(figures));
    };
    for route in Route::ALL {
        if let Some(latency) = counts.times.get(&route) {
            row(route.name(), latency);
        }
    }
    row("press → order, by the server's clock", &counts.lag);
    let _ = writeln!(text, "{}", times.text());
    if let Some(after) = sold_out_after(counts) {
        let _ = writeln!(text, "  sold out after {} s", number(after.as_secs_f64()));
    }
    if counts.late > 0 {
        let _ = writeln!(
            text,
            "  {} buyers had to wait for others to leave before they could begin (--at-once): it is in their times",
            number(float(counts.late))
        );
    }
    if counts.unclear > 0 {
        let _ = writeln!(text, "  {} buyers never got a clear answer", number(float(counts.unclear)));
    }
    if counts.unclear_payments > 0 {
        let _ = writeln!(text, "  {} payments were not answered", number(float(counts.unclear_payments)));
    }
    let _ = writeln!(text);
    for check in checks {
        let _ = writeln!(text, "{}", check.line());
    }
    text
}

pub(crate) fn charts(counts: &Counts) -> Vec<Chart> {
    let series = |name: &str, figure: &dyn Fn(&Second) -> f64| Series {
        name: name.to_owned(),
        points: counts.seconds.iter().zip(0_u32..).map(|(second, n)| (f64::from(n), figure(second))).collect(),
    };
    vec![
        Chart {
            title: "Presses answered".into(),
            x: "seconds".into(),
            y: "a second".into(),
            series: vec![
                series("accepted", &|second| f64::from(second.accepted)),
                series("sold out", &|second| f64::from(second.sold_out)),
                series("other", &|second| f64::from(second.other)),
            ],
        },
        Chart {
            title: "From the press to its answer".into(),
            x: "seconds".into(),
            y: "ms".into(),
            series: vec![
                series("p50", &|second| second.press.percentile_ms(50.0)),
                series("p99", &|second| second.press.percentile_ms(99.0)),
            ],
        },
    ]
}

/// The same for a program.
pub(crate) fn json(counts: &Counts, checks: &[Check], options: &Options, seed: u64, took: Duration) -> Value {
    let latency = |latency: &figures::Latency| {
        let mut figures: serde_json::Map<String, Value> =
            PERCENTILES.iter().map(|(name, p)| ((*name).to_owned(), json!(latency.percentile_ms(*p)))).collect();
        figures.insert("count".into(), json!(latency.count()));
        Value::Object(figures)
    };
    let times: serde_json::Map<String, Value> =
        counts.times.iter().map(|(route, times)| (route.name().to_owned(), latency(times))).collect();
    let checks: Vec<Value> = checks.iter().map(|check| json!({ "says": check.says, "wrong": check.wrong })).collect();
    json!({
        "baseUrl": options.base_url, "buyers": options.buyers, "seconds": options.seconds, "seed": seed,
        "tookSeconds": took.as_secs_f64(), "answers": counts.answers, "milliseconds": times, "orderLagMilliseconds": latency(&counts.lag),
        "soldOutAfterSeconds": sold_out_after(counts).map(|after| after.as_secs_f64()),
        "secondPresses": counts.second_presses, "paid": counts.paid.len(), "late": counts.late, "unclear": counts.unclear,
        "unclearPayments": counts.unclear_payments,
        "checks": checks,
    })
}
