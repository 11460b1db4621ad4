//! The shortest history that still violates something: parts are left out for as long as the rest still does.

use crate::choice::Step;
use crate::run::{Run, replay};

/// Runs that a shortening may take.
const RUNS: usize = 600;

/// Shortens a run that violates something.
pub async fn shrink(seed: u64, run: Run) -> Run {
    let mut best = run;
    let (mut runs, mut part) = (0, best.steps.len() / 2);
    while part > 0 && runs < RUNS {
        let mut from = 0;
        let mut shorter = false;
        while from < best.steps.len() && runs < RUNS {
            let rest: Vec<Step> =
                best.steps.iter().take(from).chain(best.steps.iter().skip(from + part)).cloned().collect();
            let again = replay(seed, &rest).await;
            runs += 1;
            if again.violation.is_some() {
                best = again;
                shorter = true;
            } else {
                from += part;
            }
        }
        // Leaving out one step may make another superfluous.
        if part > 1 || !shorter {
            part /= 2;
        }
    }
    best
}
