//! What a run reached: calls, faults, and everything that the functions counted. A run of many seeds that never came somewhere proves nothing
//! about that place, and fails.

use std::collections::BTreeMap;

use serde_json::Value;

/// How often each was reached.
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

    /// What begins with `kind`, and how often.
    pub fn of(&self, kind: &str) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().filter_map(move |(what, times)| Some((what.strip_prefix(kind)?.strip_prefix(' ')?, *times)))
    }

    /// A function's metrics: each that counts something, by its kind.
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
