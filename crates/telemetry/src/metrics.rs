//! Metrics in CloudWatch's embedded metric format: a line of log that CloudWatch turns into metrics, without a call.
//!
//! A line names its metrics and their dimensions under `_aws`, and carries their values and any other fields beside it.
//! One line has one value for each name, so several values of one dimension are several lines; everything without a
//! dimension goes with the first.

use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

/// The namespace, unless the environment names one.
const NAMESPACE: &str = "Seckill";
/// The one that was named: stages in one account must not be summed up with each other.
static NAMED: OnceLock<String> = OnceLock::new();

/// Names the namespace, once and for all.
pub(crate) fn name(namespace: String) {
    let _ = NAMED.set(namespace);
}

/// The namespace of every metric.
pub fn namespace() -> &'static str {
    NAMED.get().map_or(NAMESPACE, String::as_str)
}

/// CloudWatch takes at most so many values of a metric in one line.
const VALUES_PER_LINE: usize = 100;

/// Everything that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// Presses.
    PurchaseRequests,
    /// Presses answered with an order id.
    PurchaseAccepted,
    /// Presses refused, by code.
    PurchaseRefused,
    /// Accepted presses whose message could not be sent at once: reconcile sends it.
    PurchaseUnsent,
    /// How long a hold took, over all buckets tried.
    StockDecrementTime,
    /// Orders made.
    OrdersPlaced,
    /// From the press to the order.
    OrderLag,
    /// Purchases that could not become an order, by reason.
    OrdersFailed,
    /// Orders closed, by reason.
    OrdersClosed,
    /// Orders closed at their payment deadline.
    Timeouts,
    /// Payments that paid for an order, by provider (or points).
    PaymentsSettled,
    /// From a genuine notice's arrival to its answer.
    PaymentTime,
    /// Notices that changed nothing because they could not be believed, or fit nothing here, by kind.
    NoticesRefused,
    /// Notices about orders of the shop's own, handed on to it.
    NoticesForwarded,
    /// Refunds done.
    Refunds,
    /// Refunds that were decided and are not done yet.
    RefundsOpen,
    /// Messages that cannot be handled, kept for a person.
    DeadLetters,
    /// Units too few or too many. Must be 0.
    Drift,
    /// What reconcile put right, by kind.
    ReconcileRepairs,
    /// Steps of reconcile that did not work.
    ReconcileErrors,
}

impl Metric {
    /// Its name in CloudWatch.
    pub fn name(self) -> &'static str {
        match self {
            Self::PurchaseRequests => "PurchaseRequests",
            Self::PurchaseAccepted => "PurchaseAccepted",
            Self::PurchaseRefused => "PurchaseRefused",
            Self::PurchaseUnsent => "PurchaseUnsent",
            Self::StockDecrementTime => "StockDecrementTime",
            Self::OrdersPlaced => "OrdersPlaced",
            Self::OrderLag => "OrderLag",
            Self::OrdersFailed => "OrdersFailed",
            Self::OrdersClosed => "OrdersClosed",
            Self::Timeouts => "Timeouts",
            Self::PaymentsSettled => "PaymentsSettled",
            Self::PaymentTime => "PaymentTime",
            Self::NoticesRefused => "NoticesRefused",
            Self::NoticesForwarded => "NoticesForwarded",
            Self::Refunds => "Refunds",
            Self::RefundsOpen => "RefundsOpen",
            Self::DeadLetters => "DeadLetters",
            Self::Drift => "Drift",
            Self::ReconcileRepairs => "ReconcileRepairs",
            Self::ReconcileErrors => "ReconcileErrors",
        }
    }

    /// Its unit.
    pub fn unit(self) -> &'static str {
        match self {
            Self::StockDecrementTime | Self::OrderLag | Self::PaymentTime => "Milliseconds",
            Self::PurchaseRequests
            | Self::PurchaseAccepted
            | Self::PurchaseRefused
            | Self::PurchaseUnsent
            | Self::OrdersPlaced
            | Self::OrdersFailed
            | Self::OrdersClosed
            | Self::Timeouts
            | Self::PaymentsSettled
            | Self::NoticesRefused
            | Self::NoticesForwarded
            | Self::Refunds
            | Self::RefundsOpen
            | Self::DeadLetters
            | Self::Drift
            | Self::ReconcileRepairs
            | Self::ReconcileErrors => "Count",
        }
    }

    /// Whether CloudWatch keeps it by the second, not by the minute: what an operator's console shows while a sale runs.
    pub fn is_live(self) -> bool {
        matches!(self, Self::PurchaseRequests | Self::PurchaseAccepted | Self::PurchaseRefused | Self::OrderLag)
    }

    /// What it is told apart by. Such a metric is there in total as well.
    pub fn dimension(self) -> Option<&'static str> {
        match self {
            Self::PurchaseRefused => Some("Code"),
            Self::OrdersFailed | Self::OrdersClosed => Some("Reason"),
            Self::PaymentsSettled => Some("Provider"),
            Self::NoticesRefused | Self::ReconcileRepairs => Some("Kind"),
            Self::PurchaseRequests
            | Self::PurchaseAccepted
            | Self::PurchaseUnsent
            | Self::StockDecrementTime
            | Self::OrdersPlaced
            | Self::OrderLag
            | Self::Timeouts
            | Self::PaymentTime
            | Self::NoticesForwarded
            | Self::Refunds
            | Self::RefundsOpen
            | Self::DeadLetters
            | Self::Drift
            | Self::ReconcileErrors => None,
        }
    }
}

/// Where lines go.
#[derive(Clone)]
pub struct Sink(Arc<dyn Fn(&str) + Send + Sync>);

impl Sink {
    /// To stdout, whole lines.
    pub fn stdout() -> Self {
        Self::to(|line| {
            let mut whole = String::with_capacity(line.len() + 1);
            whole.push_str(line);
            whole.push('\n');
            // A line that cannot be written has nowhere else to go.
            let _ = std::io::stdout().lock().write_all(whole.as_bytes());
        })
    }

    /// To a function that takes each line.
    pub fn to(take: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Arc::new(take))
    }
}

impl std::fmt::Debug for Sink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sink")
    }
}

/// What one invocation measured.
#[derive(Clone, Debug)]
pub struct Metrics {
    at: Timestamp,
    entries: Vec<Entry>,
    fields: Vec<(&'static str, String)>,
}

#[derive(Clone, Debug)]
struct Entry {
    metric: Metric,
    /// The value of the metric's dimension; empty without one.
    of: &'static str,
    measured: Measured,
}

#[derive(Clone, Debug)]
enum Measured {
    Count(u64),
    Milliseconds(Vec<f64>),
}

impl Metrics {
    /// Nothing measured yet, at this moment.
    pub fn at(now: Timestamp) -> Self {
        Self { at: now, entries: Vec::new(), fields: Vec::new() }
    }

    /// Counts one.
    pub fn count(&mut self, metric: Metric) {
        self.add(metric, "", 1);
    }

    /// Counts one of a kind: of a code, a reason.
    pub fn count_of(&mut self, metric: Metric, of: &'static str) {
        self.add(metric, of, 1);
    }

    /// Counts many, also none. `of` is empty for a metric without a dimension.
    pub fn add(&mut self, metric: Metric, of: &'static str, count: u64) {
        let of = metric.dimension().map_or("", |_| of);
        for entry in &mut self.entries {
            if let Measured::Count(sum) = &mut entry.measured
                && (entry.metric, entry.of) == (metric, of)
            {
                *sum = sum.saturating_add(count);
                return;
            }
        }
        self.entries.push(Entry { metric, of, measured: Measured::Count(count) });
    }

    /// Notes how long something took.
    pub fn time(&mut self, metric: Metric, took: Duration) {
        // Microseconds are enough, and keep the line short.
        let ms = (took.as_secs_f64() * 1_000_000.0).round() / 1_000.0;
        for entry in &mut self.entries {
            if let Measured::Milliseconds(times) = &mut entry.measured
                && entry.metric == metric
                && times.len() < VALUES_PER_LINE
            {
                times.push(ms);
                return;
            }
        }
        self.entries.push(Entry { metric, of: "", measured: Measured::Milliseconds(vec![ms]) });
    }

    /// Adds a field of the log's vocabulary to the first line, to find the line by.
    pub fn note(&mut self, field: &'static str, value: impl ToString) {
        self.fields.retain(|(other, _)| *other != field);
        self.fields.push((field, value.to_string()));
    }

    /// Writes what was measured; nothing if nothing was.
    pub fn flush(&self, sink: &Sink) {
        for line in self.lines() {
            (sink.0)(&line);
        }
    }

    /// The lines of what was measured.
    pub fn lines(&self) -> Vec<String> {
        let mut lines: Vec<Vec<&Entry>> = Vec::new();
        for entry in &self.entries {
            match lines.iter_mut().find(|line| line.iter().all(|other| fits_with(entry, other))) {
                Some(line) => line.push(entry),
                None => lines.push(vec![entry]),
            }
        }
        let fields = std::iter::once(self.fields.as_slice()).chain(std::iter::repeat(&[][..]));
        lines.iter().zip(fields).map(|(entries, fields)| self.line(entries, fields)).collect()
    }

    /// Written straight into the text: every press writes one, also the hundred thousandth that is refused.
    fn line(&self, entries: &[&Entry], fields: &[(&'static str, String)]) -> String {
        let mut line = String::with_capacity(512);
        // Writing into a string cannot fail. Names, units, dimensions and their values are words of this code, the namespace is a stack's name: nothing in them
        // is escaped.
        let _ = write!(line, r#"{{"_aws":{{"Timestamp":{},"CloudWatchMetrics":["#, self.at.as_millisecond());
        let mut dimensions: Vec<Option<&'static str>> = Vec::with_capacity(entries.len());
        for dimension in entries.iter().map(|entry| entry.metric.dimension()) {
            if !dimensions.contains(&dimension) {
                dimensions.push(dimension);
            }
        }
        for (place, dimension) in dimensions.iter().enumerate() {
            let comma = if place == 0 { "" } else { "," };
            let _ = write!(line, r#"{comma}{{"Namespace":"{}","Dimensions":[[]"#, namespace());
            if let Some(dimension) = dimension {
                let _ = write!(line, r#",["{dimension}"]"#);
            }
            line.push_str(r#"],"Metrics":["#);
            let metrics = entries.iter().map(|entry| entry.metric).filter(|metric| metric.dimension() == *dimension);
            for (place, metric) in metrics.enumerate() {
                let comma = if place == 0 { "" } else { "," };
                let _ = write!(line, r#"{comma}{{"Name":"{}","Unit":"{}""#, metric.name(), metric.unit());
                line.push_str(if metric.is_live() { r#","StorageResolution":1}"# } else { "}" });
            }
            line.push_str("]}");
        }
        line.push_str("]}");
        for dimension in dimensions.into_iter().flatten() {
            let of =
                entries.iter().find(|entry| entry.metric.dimension() == Some(dimension)).map_or("", |entry| entry.of);
            let _ = write!(line, r#","{dimension}":"{of}""#);
        }
        for Entry { metric, measured, .. } in entries {
            let _ = write!(line, r#","{}":"#, metric.name());
            let _ = match measured {
                Measured::Count(count) => write!(line, "{count}"),
                Measured::Milliseconds(times) => match times.as_slice() {
                    [time] => write!(line, "{time}"),
                    times => write!(line, "{times:?}"),
                },
            };
        }
        for (field, value) in fields {
            let _ = write!(line, r#","{field}":{}"#, Value::from(value.as_str()));
        }
        line.push('}');
        line
    }
}

/// Whether two entries can be in one line: it has one value for a metric, and one for a dimension.
fn fits_with(one: &Entry, other: &Entry) -> bool {
    let same_dimension = one.metric.dimension().is_some() && one.metric.dimension() == other.metric.dimension();
    one.metric != other.metric && (!same_dimension || one.of == other.of)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn parsed(metrics: &Metrics) -> Vec<Value> {
        metrics.lines().iter().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn a_refusal_is_one_short_line() {
        let mut metrics = Metrics::at(Timestamp::from_millisecond(1_762_819_200_000).unwrap());
        metrics.count(Metric::PurchaseRequests);
        metrics.count_of(Metric::PurchaseRefused, "SOLD_OUT");
        let lines = parsed(&metrics);
        assert_eq!(
            lines,
            [json!({
                "_aws": {
                    "Timestamp": 1_762_819_200_000_i64,
                    "CloudWatchMetrics": [
                        {"Namespace": "Seckill", "Dimensions": [[]],
                         "Metrics": [{"Name": "PurchaseRequests", "Unit": "Count", "StorageResolution": 1}]},
                        {"Namespace": "Seckill", "Dimensions": [[], ["Code"]],
                         "Metrics": [{"Name": "PurchaseRefused", "Unit": "Count", "StorageResolution": 1}]},
                    ],
                },
                "PurchaseRequests": 1,
                "PurchaseRefused": 1,
                "Code": "SOLD_OUT",
            })]
        );
        assert!(metrics.lines().iter().all(|line| line.len() < 400 && !line.contains('\n')));
    }

    #[test]
    fn each_value_of_a_dimension_has_its_line() {
        let mut metrics = Metrics::at(Timestamp::UNIX_EPOCH);
        metrics.note("order_id", "0123");
        metrics.add(Metric::Drift, "", 0);
        metrics.add(Metric::ReconcileRepairs, "CLOSED", 2);
        metrics.add(Metric::ReconcileRepairs, "RELEASED", 1);
        metrics.add(Metric::ReconcileRepairs, "CLOSED", 3);
        let lines = parsed(&metrics);
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[0]["Drift"], 0, "no drift is told as well");
        assert_eq!((&lines[0]["Kind"], &lines[0]["ReconcileRepairs"]), (&json!("CLOSED"), &json!(5)));
        assert_eq!((&lines[1]["Kind"], &lines[1]["ReconcileRepairs"]), (&json!("RELEASED"), &json!(1)));
        assert_eq!((&lines[0]["order_id"], &lines[1]["order_id"]), (&json!("0123"), &Value::Null));
    }

    #[test]
    fn times_go_together_up_to_what_cloudwatch_takes() {
        let mut metrics = Metrics::at(Timestamp::UNIX_EPOCH);
        for _ in 0..101 {
            metrics.time(Metric::OrderLag, Duration::from_micros(1_234_567));
        }
        let lines = parsed(&metrics);
        assert_eq!(lines[0]["OrderLag"].as_array().map(Vec::len), Some(100));
        assert_eq!(lines[1]["OrderLag"], json!(1234.567));
        assert_eq!(lines[0]["_aws"]["CloudWatchMetrics"][0]["Metrics"][0]["Unit"], "Milliseconds");
    }

    #[test]
    fn what_a_field_says_cannot_break_the_line() {
        let mut metrics = Metrics::at(Timestamp::UNIX_EPOCH);
        metrics.count(Metric::PurchaseAccepted);
        metrics.note("trace", "first");
        metrics.note("trace", "a \"quote\", a \\ and a\nline");
        let lines = metrics.lines();
        assert!(!lines[0].contains('\n'));
        let parsed: Value = serde_json::from_str(&lines[0]).unwrap();
        assert_eq!(parsed["trace"], "a \"quote\", a \\ and a\nline");
        assert_eq!(lines[0].matches("trace").count(), 1);
    }

    #[test]
    fn nothing_measured_writes_nothing() {
        let metrics = Metrics::at(Timestamp::UNIX_EPOCH);
        assert!(metrics.lines().is_empty());
        metrics.flush(&Sink::to(|line| panic!("{line}")));
    }
}
