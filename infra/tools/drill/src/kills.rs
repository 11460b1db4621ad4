//! Kills processes at random: functions all the time, and the local cloud now and then.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use testkit::rng::Rng;
use tokio::sync::Mutex;

use crate::cloud::Cloud;
use crate::counts::{Counted, Counts};
use crate::{Options, Problem};
use testkit::processes::Process;

/// How often processes are killed.
#[derive(Clone, Copy, Debug)]
struct Pace {
    shortest_ms: usize,
    longest_ms: usize,
    /// How many functions are killed between two kills of the local cloud.
    fewest: usize,
    most: usize,
}

const USUAL: Pace = Pace { shortest_ms: 100, longest_ms: 2_000, fewest: 6, most: 18 };
/// A drill of a few seconds has time for a handful of kills, one of them of the local cloud.
const HURRIED: Pace = Pace { shortest_ms: 100, longest_ms: 800, fewest: 4, most: 6 };

impl Pace {
    fn gap(self, rng: &mut Rng) -> Duration {
        let ms = self.shortest_ms + rng.below(self.longest_ms - self.shortest_ms + 1);
        Duration::from_millis(u64::try_from(ms).unwrap_or(0))
    }

    fn functions_first(self, rng: &mut Rng) -> usize {
        self.fewest + rng.below(self.most - self.fewest + 1)
    }
}

/// Kills processes until the last tenth of the purchases. An error means that the local cloud could not be restarted.
pub(crate) async fn kill_until_last_stretch(
    cloud: Arc<Mutex<Cloud>>,
    counts: Arc<Counts>,
    options: Options,
    seed: u64,
) -> Result<(), Problem> {
    let pace = if options.hurry { HURRIED } else { USUAL };
    let mut rng = Rng::new(seed);
    let mut functions_left = pace.functions_first(&mut rng);
    loop {
        tokio::time::sleep(pace.gap(&mut rng)).await;
        if options.is_last_stretch(counts.begun(options.purchases)) {
            return Ok(());
        }
        let mut cloud = cloud.lock().await;
        if functions_left == 0 {
            cloud.kill_and_restart().await?;
            counts.count(Counted::Kill, "local cloud");
            functions_left = pace.functions_first(&mut rng);
            continue;
        }
        cloud.is_up()?;
        functions_left -= 1;
        if let Some(process) = choose(&cloud.functions(), &mut rng)
            && process.kill()
        {
            counts.count(Counted::Kill, &process.program);
        }
    }
}

/// Chooses a function first, and then one of its processes, so that functions with few processes are killed as often as
/// those with many.
fn choose(processes: &[Process], rng: &mut Rng) -> Option<Process> {
    let programs: BTreeSet<&str> = processes.iter().map(|process| process.program.as_str()).collect();
    let program = programs.iter().nth(rng.below(programs.len()))?;
    let its: Vec<&Process> = processes.iter().filter(|process| process.program == **program).collect();
    its.get(rng.below(its.len())).map(|process| (*process).clone())
}
