//! Metrics in CloudWatch's embedded metric format: log lines that CloudWatch turns into metrics, without an API call.
//!
//! A line declares its metrics and their dimensions under `_aws`. Their values are fields of the same line. A field has
//! one value, so a dimension with several values takes several lines. Metrics without a dimension go into the first.

use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

const DEFAULT_NAMESPACE: &str = "Seckill";
/// Stages in one account have different namespaces, so that their metrics are not added up.
static NAMESPACE: OnceLock<String> = OnceLock::new();

/// Sets the namespace of this process. Only the first call has an effect.
pub(crate) fn set_namespace(namespace: String) {
    let _ = NAMESPACE.set(namespace);
}

/// The namespace of every metric.
pub fn namespace() -> &'static str {
    NAMESPACE.get().map_or(DEFAULT_NAMESPACE, String::as_str)
}

/// The most values of one metric that CloudWatch accepts in a line.
const VALUES_PER_LINE: usize = 100;

/// Every metric of the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    PurchaseRequests,
    /// Purchase requests that were answered with an order id.
    PurchaseAccepted,
    /// Purchase requests that were refused, by code.
    PurchaseRefused,
    /// Accepted purchases whose message could not be sent at once. `reconcile` sends it later.
    PurchaseUnsent,
    /// The time that a hold took, including buckets that were full.
    StockDecrementTime,
    OrdersPlaced,
    /// The time from the purchase request to the order.
    OrderLag,
    /// Purchases that could not become an order, by reason.
    OrdersFailed,
    /// Orders closed, by reason.
    OrdersClosed,
    /// Orders closed at their payment deadline.
    Timeouts,
    /// Payments that paid for an order, by provider or `points`.
    PaymentsSettled,
    /// The time from the arrival of a verified notice to its answer.
    PaymentTime,
    /// Notices without effect, because they could not be verified or match no order, by kind.
    NoticesRefused,
    /// Notices about orders of the shop's own system, forwarded to it.
    NoticesForwarded,
    /// Refunds that a provider has confirmed.
    Refunds,
    /// Refunds that are started and not confirmed yet.
    RefundsOpen,
    /// Messages that could not be processed and wait for a person.
    DeadLetters,
    /// Units missing or in excess. Must be 0.
    Drift,
    /// Repairs by `reconcile`, by kind.
    ReconcileRepairs,
    /// Steps of `reconcile` that failed.
    ReconcileErrors,
    /// Orders whose payment deadline could not be scheduled. `reconcile` closes them.
    DeadlinesUnscheduled,
    /// Rows that this release cannot read: a newer one wrote them, or they are damaged.
    UnreadableRows,
}

impl Metric {
    /// The name in CloudWatch.
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
            Self::UnreadableRows => "UnreadableRows",
            Self::DeadlinesUnscheduled => "DeadlinesUnscheduled",
        }
    }

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
            | Self::ReconcileErrors
            | Self::UnreadableRows
            | Self::DeadlinesUnscheduled => "Count",
        }
    }

    /// Whether CloudWatch stores the metric by the second instead of by the minute. The operator's console shows these
    /// metrics while a sale is running.
    pub fn is_live(self) -> bool {
        matches!(self, Self::PurchaseRequests | Self::PurchaseAccepted | Self::PurchaseRefused | Self::OrderLag)
    }

    /// The name of the metric's dimension, if it has one. CloudWatch also stores the total over all its values.
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
            | Self::ReconcileErrors
            | Self::UnreadableRows
            | Self::DeadlinesUnscheduled => None,
        }
    }
}

/// Where metric lines are written.
#[derive(Clone)]
pub struct Sink(Arc<dyn Fn(&str) + Send + Sync>);

impl Sink {
    /// Writes each line to stdout in one piece.
    pub fn stdout() -> Self {
        Self::to(|line| {
            let mut whole = String::with_capacity(line.len() + 1);
            whole.push_str(line);
            whole.push('\n');
            // If stdout is gone, there is nowhere to report it.
            let _ = std::io::stdout().lock().write_all(whole.as_bytes());
        })
    }

    /// Passes each line to a function.
    pub fn to(write: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Arc::new(write))
    }
}

impl std::fmt::Debug for Sink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sink")
    }
}

/// The metrics of one invocation.
#[derive(Clone, Debug)]
pub struct Metrics {
    at: Timestamp,
    entries: Vec<Entry>,
    fields: Vec<(&'static str, String)>,
}

#[derive(Clone, Debug)]
struct Entry {
    metric: Metric,
    /// The value of the metric's dimension. Empty if it has none.
    of: &'static str,
    measured: Measured,
}

#[derive(Clone, Debug)]
enum Measured {
    Count(u64),
    Milliseconds(Vec<f64>),
}

impl Metrics {
    /// No metrics yet; `now` becomes their timestamp.
    pub fn at(now: Timestamp) -> Self {
        Self { at: now, entries: Vec::new(), fields: Vec::new() }
    }

    /// Counts one.
    pub fn count(&mut self, metric: Metric) {
        self.add(metric, "", 1);
    }

    /// Counts one for a value of the metric's dimension, such as a code or a reason.
    pub fn count_of(&mut self, metric: Metric, of: &'static str) {
        self.add(metric, of, 1);
    }

    /// Counts several, or none: a 0 is reported too. `of` is ignored for a metric without a dimension.
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

    /// Records how long something took.
    pub fn time(&mut self, metric: Metric, took: Duration) {
        // Rounded to microseconds, which keeps the line short.
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

    /// Adds a field, such as `order_id`, to the first line, so that queries find it.
    pub fn note(&mut self, field: &'static str, value: impl ToString) {
        self.fields.retain(|(other, _)| *other != field);
        self.fields.push((field, value.to_string()));
    }

    /// Writes all lines. Without metrics there are none.
    pub fn flush(&self, sink: &Sink) {
        for line in self.lines() {
            (sink.0)(&line);
        }
    }

    /// The lines that [`Metrics::flush`] writes.
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

    /// Formats a line directly, without building a JSON value: every purchase request writes one, and most are refused.
    fn line(&self, entries: &[&Entry], fields: &[(&'static str, String)]) -> String {
        let mut line = String::with_capacity(512);
        // Writing into a string cannot fail. Names, units, dimensions and their values are constants of this code, and
        // the namespace is the name of a stack, so none of them needs escaping.
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

/// Whether two entries fit into one line, which has one value per metric and one value per dimension.
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
    fn each_value_of_a_dimension_has_its_own_line() {
        let mut metrics = Metrics::at(Timestamp::UNIX_EPOCH);
        metrics.note("order_id", "0123");
        metrics.add(Metric::Drift, "", 0);
        metrics.add(Metric::ReconcileRepairs, "CLOSED", 2);
        metrics.add(Metric::ReconcileRepairs, "RELEASED", 1);
        metrics.add(Metric::ReconcileRepairs, "CLOSED", 3);
        let lines = parsed(&metrics);
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[0]["Drift"], 0, "a drift of 0 is reported too");
        assert_eq!((&lines[0]["Kind"], &lines[0]["ReconcileRepairs"]), (&json!("CLOSED"), &json!(5)));
        assert_eq!((&lines[1]["Kind"], &lines[1]["ReconcileRepairs"]), (&json!("RELEASED"), &json!(1)));
        assert_eq!((&lines[0]["order_id"], &lines[1]["order_id"]), (&json!("0123"), &Value::Null));
    }

    #[test]
    fn a_line_has_at_most_as_many_times_as_cloudwatch_accepts() {
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
    fn the_value_of_a_field_is_escaped() {
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
    fn without_metrics_nothing_is_written() {
        let metrics = Metrics::at(Timestamp::UNIX_EPOCH);
        assert!(metrics.lines().is_empty());
        metrics.flush(&Sink::to(|line| panic!("{line}")));
    }
}
