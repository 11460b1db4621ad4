//! A histogram of latencies.

use std::time::Duration;

use hdrhistogram::Histogram;

use crate::float;

/// A histogram of times from a microsecond to ten minutes, with three digits. Longer times count as ten minutes.
#[derive(Clone, Debug)]
pub struct Latency(Histogram<u64>);

impl Default for Latency {
    fn default() -> Self {
        const TEN_MINUTES_US: u64 = 600_000_000;
        Self(
            Histogram::new_with_bounds(1, TEN_MINUTES_US, 3).unwrap_or_else(|_| unreachable!("these bounds are valid")),
        )
    }
}

impl Latency {
    pub fn record(&mut self, took: Duration) {
        self.0.saturating_record(u64::try_from(took.as_micros()).unwrap_or(u64::MAX).max(1));
    }

    /// Adds all times of another histogram.
    pub fn add(&mut self, other: &Self) {
        // This cannot fail, because both have the same bounds.
        let _ = self.0.add(&other.0);
    }

    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The percentile in milliseconds. 0 if nothing was recorded.
    pub fn percentile_ms(&self, percentile: f64) -> f64 {
        float(self.0.value_at_percentile(percentile)) / 1_000.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_cover_all_recorded_times() {
        let (mut one, mut two) = (Latency::default(), Latency::default());
        for ms in 1..=50 {
            one.record(Duration::from_millis(ms));
            two.record(Duration::from_millis(50 + ms));
        }
        one.add(&two);
        assert_eq!(one.count(), 100);
        assert!((one.percentile_ms(50.0) - 50.0).abs() < 0.1 && (one.percentile_ms(99.0) - 99.0).abs() < 0.1);
        two.record(Duration::from_secs(3_600));
        assert!((two.percentile_ms(100.0) - 600_000.0).abs() < 1_000.0, "longer than ten minutes is ten minutes");
        assert_eq!(Latency::default().percentile_ms(99.0), 0.0);
    }
}
