//! From the 202 to the order: Lambda processes the queue in batches, a few at a time at first and more each second.

use std::time::Duration;

use figures::Latency;

use crate::facts::{
    QUEUE_POLLERS, QUEUE_POLLERS_MOST, QUEUE_POLLERS_PER_SECOND, SCHEDULE, SCHEDULES_CREATED_QUOTA, WRITE,
};
use crate::simulate::Second;

/// Messages in a batch, as in the template. They are processed concurrently.
pub const BATCH: f64 = 10.0;
/// What the queue and the invocation add to the two writes and the schedule of an order.
const OVERHEAD_MS: f64 = 15.0;
const STEPS_PER_SECOND: u32 = 20;
/// Longer than it takes to process the queue of any sale.
const MOST_SECONDS: u32 = 24 * 3_600;

/// How long it takes to create the orders.
#[derive(Clone, Debug, Default)]
pub struct Lag {
    /// From the 202 to the order with its deadline.
    pub lag: Latency,
    /// The time from the first request to the last order.
    pub done_after_s: f64,
    /// The most concurrent batches.
    pub pollers: f64,
}

/// The time of a batch, which is that of its slowest message.
fn batch_ms() -> f64 {
    2.0 * WRITE.p50_ms + SCHEDULE.p50_ms + (WRITE.p99_ms + SCHEDULE.p99_ms) / 4.0 + OVERHEAD_MS
}

/// Simulates the queue as a fluid: the messages of each twentieth of a second are processed in their order.
pub fn lag(seconds: &[Second]) -> Lag {
    let mut result = Lag::default();
    let per_step = |rate: f64| rate / f64::from(STEPS_PER_SECOND);
    let (mut waiting, mut cohorts) = (0.0, std::collections::VecDeque::new());
    let mut pollers = QUEUE_POLLERS;
    for step in 0..MOST_SECONDS * STEPS_PER_SECOND {
        let now_s = f64::from(step) / f64::from(STEPS_PER_SECOND);
        let second = usize::try_from(step / STEPS_PER_SECOND).ok().and_then(|second| seconds.get(second));
        let come = second.map_or(0.0, |second| per_step(f64::from(second.accepted)));
        if come > 0.0 {
            cohorts.push_back((now_s, come));
            waiting += come;
        }
        if waiting <= 0.0 && second.is_none() {
            break;
        }
        let rate = (pollers * BATCH / (batch_ms() / 1_000.0)).min(f64::from(SCHEDULES_CREATED_QUOTA));
        let mut can = per_step(rate);
        while let Some((came_s, left)) = cohorts.front_mut() {
            let done = left.min(can);
            (*left, can, waiting) = (*left - done, can - done, waiting - done);
            let took = Duration::from_secs_f64(now_s - *came_s + batch_ms() / 1_000.0);
            result.done_after_s = now_s + batch_ms() / 1_000.0;
            // Rounded to whole messages, because a cohort has tens or hundreds of them.
            for _ in 0..whole(done) {
                result.lag.record(took);
            }
            if *left > 1e-9 {
                break;
            }
            cohorts.pop_front();
        }
        if waiting > 1e-6 {
            pollers = (pollers + per_step(QUEUE_POLLERS_PER_SECOND)).min(QUEUE_POLLERS_MOST);
        } else {
            waiting = 0.0;
        }
        result.pollers = result.pollers.max(pollers);
    }
    result
}

/// The nearest whole number, at least one, so that a low rate is not lost.
fn whole(count: f64) -> u32 {
    let mut whole = 1_u32;
    while f64::from(whole) + 0.5 < count {
        whole += 1;
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepted(counts: &[u32]) -> Vec<Second> {
        counts.iter().map(|accepted| Second { accepted: *accepted, ..Second::default() }).collect()
    }

    #[test]
    fn a_low_rate_does_not_wait() {
        let lag = lag(&accepted(&[20; 30]));
        assert!((lag.lag.percentile_ms(99.0) - batch_ms()).abs() < 2.0, "{:?}", lag.lag.percentile_ms(99.0));
        assert_eq!(lag.pollers, QUEUE_POLLERS);
    }

    #[test]
    fn a_burst_waits_and_adds_concurrent_batches() {
        let lag = lag(&accepted(&[10_000]));
        let at_first = QUEUE_POLLERS * BATCH / (batch_ms() / 1_000.0);
        assert!(lag.done_after_s > 1.0 && lag.done_after_s < 10_000.0 / at_first, "{}", lag.done_after_s);
        assert!(lag.pollers > 2.0 * QUEUE_POLLERS && lag.lag.count() >= 9_900);
        assert!(lag.lag.percentile_ms(99.0) > lag.lag.percentile_ms(50.0));
    }
}
