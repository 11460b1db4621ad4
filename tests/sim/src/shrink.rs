//! Shortens a failing run: parts of its steps are left out for as long as the rest still violates something.

use crate::choice::Step;
use crate::run::{Run, replay};

/// The most replays that shortening may take.
const MAX_REPLAYS: usize = 600;

/// Returns the shortest failing run that was found.
pub async fn shrink(seed: u64, run: Run) -> Run {
    let mut best = run;
    let (mut replays, mut part) = (0, best.steps.len() / 2);
    while part > 0 && replays < MAX_REPLAYS {
        let mut from = 0;
        let mut shorter = false;
        while from < best.steps.len() && replays < MAX_REPLAYS {
            let rest: Vec<Step> =
                best.steps.iter().take(from).chain(best.steps.iter().skip(from + part)).cloned().collect();
            let again = replay(seed, &rest).await;
            replays += 1;
            if again.violation.is_some() {
                best = again;
                shorter = true;
            } else {
                from += part;
            }
        }
        // Leaving out one step may make another one unnecessary.
        if part > 1 || !shorter {
            part /= 2;
        }
    }
    best
}
