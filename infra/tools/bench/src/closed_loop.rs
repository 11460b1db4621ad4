//! A closed loop of clients: each sends a request, waits for the answer, and sends the next one.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use figures::{Latency, float};
use tokio::task::JoinSet;

use crate::Problem;

/// What a closed loop achieved.
pub(crate) struct Throughput {
    /// Rounds per second of all clients together.
    pub(crate) per_second: f64,
    /// The time of one round.
    pub(crate) latency: Latency,
}

/// Runs `act` in `clients` loops for `lasting`, after a warm-up of a quarter of that time. `act` gets a number that is
/// unique to its round.
pub(crate) async fn closed_loop<A, F>(clients: u32, lasting: Duration, act: A) -> Result<Throughput, Problem>
where
    A: Fn(u64) -> F + Clone + Send + 'static,
    F: Future<Output = Result<(), Problem>> + Send,
{
    let numbers = Arc::new(AtomicU64::new(0));
    rounds(clients, lasting / 4, &numbers, act.clone()).await?;
    let began = Instant::now();
    let latency = rounds(clients, lasting, &numbers, act).await?;
    Ok(Throughput { per_second: float(latency.count()) / began.elapsed().as_secs_f64(), latency })
}

async fn rounds<A, F>(clients: u32, lasting: Duration, numbers: &Arc<AtomicU64>, act: A) -> Result<Latency, Problem>
where
    A: Fn(u64) -> F + Clone + Send + 'static,
    F: Future<Output = Result<(), Problem>> + Send,
{
    let until = Instant::now() + lasting;
    let mut running = JoinSet::new();
    for _ in 0..clients {
        let (numbers, act) = (Arc::clone(numbers), act.clone());
        running.spawn(async move {
            let mut latency = Latency::default();
            while Instant::now() < until {
                let began = Instant::now();
                act(numbers.fetch_add(1, Ordering::Relaxed)).await?;
                latency.record(began.elapsed());
            }
            Ok::<_, Problem>(latency)
        });
    }
    let mut all = Latency::default();
    while let Some(done) = running.join_next().await {
        all.add(&done??);
    }
    Ok(all)
}
