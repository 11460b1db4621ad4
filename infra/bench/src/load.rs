//! A closed loop of clients: each asks, waits for its answer, and asks again.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use tokio::task::JoinSet;

use crate::Problem;

/// What a loop did.
pub(crate) struct Loaded {
    /// Rounds a second, of all clients together.
    pub(crate) per_second: f64,
    /// How long a round took, in microseconds.
    pub(crate) latency_us: Histogram<u64>,
}

/// Microseconds up to a minute, three digits.
pub(crate) fn histogram() -> Result<Histogram<u64>, Problem> {
    Ok(Histogram::new_with_bounds(1, 60_000_000, 3)?)
}

/// A percentile in milliseconds.
pub(crate) fn percentile_ms(histogram: &Histogram<u64>, percentile: f64) -> f64 {
    float(histogram.value_at_percentile(percentile)) / 1_000.0
}

pub(crate) fn record(histogram: &mut Histogram<u64>, took: Duration) {
    histogram.saturating_record(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
}

/// Counts here are far below 2^52, where every whole number is exact.
#[expect(clippy::as_conversions, reason = "there is no other conversion")]
pub(crate) fn float(count: u64) -> f64 {
    count as f64
}

/// Runs `act` in `clients` loops for `lasting`, after a quarter of it to warm up. `act` gets a number that no other
/// round has.
pub(crate) async fn closed_loop<A, F>(clients: u32, lasting: Duration, act: A) -> Result<Loaded, Problem>
where
    A: Fn(u64) -> F + Clone + Send + 'static,
    F: Future<Output = Result<(), Problem>> + Send,
{
    let numbers = Arc::new(AtomicU64::new(0));
    rounds(clients, lasting / 4, &numbers, act.clone()).await?;
    let began = Instant::now();
    let latency_us = rounds(clients, lasting, &numbers, act).await?;
    Ok(Loaded { per_second: float(latency_us.len()) / began.elapsed().as_secs_f64(), latency_us })
}

async fn rounds<A, F>(
    clients: u32,
    lasting: Duration,
    numbers: &Arc<AtomicU64>,
    act: A,
) -> Result<Histogram<u64>, Problem>
where
    A: Fn(u64) -> F + Clone + Send + 'static,
    F: Future<Output = Result<(), Problem>> + Send,
{
    let until = Instant::now() + lasting;
    let mut running = JoinSet::new();
    for _ in 0..clients {
        let (numbers, act) = (Arc::clone(numbers), act.clone());
        running.spawn(async move {
            let mut latency_us = histogram()?;
            while Instant::now() < until {
                let began = Instant::now();
                act(numbers.fetch_add(1, Ordering::Relaxed)).await?;
                record(&mut latency_us, began.elapsed());
            }
            Ok::<_, Problem>(latency_us)
        });
    }
    let mut all = histogram()?;
    while let Some(done) = running.join_next().await {
        all.add(done??)?;
    }
    Ok(all)
}
