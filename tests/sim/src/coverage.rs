//! What a run reached: faults, deliveries, and everything that the functions count in metrics. Many seeds that never
//! reach a place prove nothing about it, so `tests/seeds.rs` fails if a place is missed.

use std::collections::BTreeMap;

use serde_json::Value;

/// How often each place was reached.
#[derive(Clone, Debug, Default)]
pub struct Coverage(BTreeMap<String, u64>);

impl Coverage {
    pub fn mark(&mut self, what: impl Into<String>) {
        *self.0.entry(what.into()).or_default() += 1;
    }

    pub fn count(&self, what: &str) -> u64 {
        self.0.get(what).copied().unwrap_or(0)
    }

    pub fn add(&mut self, other: &Self) {
        for (what, times) in &other.0 {
            *self.0.entry(what.clone()).or_default() += times;
        }
    }

    /// The places of one kind, such as `fault`, and how often each was reached.
    pub fn of(&self, kind: &str) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().filter_map(move |(what, times)| Some((what.strip_prefix(kind)?.strip_prefix(' ')?, *times)))
    }

    /// Marks every metric in a log line that counts something, with the value of its dimension.
    pub fn metrics(&mut self, line: &str) {
        let line: Value = serde_json::from_str(line).unwrap();
        for directive in line["_aws"]["CloudWatchMetrics"].as_array().unwrap() {
            let dimension = directive["Dimensions"][1][0].as_str();
            let of = dimension.and_then(|dimension| line[dimension].as_str()).unwrap_or_default();
            for metric in directive["Metrics"].as_array().unwrap() {
                let name = metric["Name"].as_str().unwrap();
                if line[name].as_u64().is_some_and(|count| count > 0) {
                    self.mark(format!("metric {name} {of}").trim_end());
                }
            }
        }
    }
}
