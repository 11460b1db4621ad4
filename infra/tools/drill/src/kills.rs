//! Whoever kills: functions all the time, and the local cloud now and then.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use testkit::dice::Dice;
use tokio::sync::Mutex;

use crate::cloud::Cloud;
use crate::tally::{Kind, Tally};
use crate::{Options, Problem};
use testkit::processes::Process;

/// How kills follow each other.
#[derive(Clone, Copy, Debug)]
struct Pace {
    shortest_ms: usize,
    longest_ms: usize,
    /// Kills of functions between two of the local cloud.
    fewest: usize,
    most: usize,
}

const USUAL: Pace = Pace { shortest_ms: 100, longest_ms: 2_000, fewest: 6, most: 18 };
/// A drill of seconds has room for a handful, one of them of the local cloud.
const HURRIED: Pace = Pace { shortest_ms: 100, longest_ms: 800, fewest: 4, most: 6 };

impl Pace {
    fn gap(self, dice: &mut Dice) -> Duration {
        let ms = self.shortest_ms + dice.below(self.longest_ms - self.shortest_ms + 1);
        Duration::from_millis(u64::try_from(ms).unwrap_or(0))
    }

    fn functions_first(self, dice: &mut Dice) -> usize {
        self.fewest + dice.below(self.most - self.fewest + 1)
    }
}

/// Kills until the last stretch of the purchases. An error: the local cloud does not come back.
pub(crate) async fn reign(
    cloud: Arc<Mutex<Cloud>>,
    tally: Arc<Tally>,
    options: Options,
    seed: u64,
) -> Result<(), Problem> {
    let pace = if options.hurry { HURRIED } else { USUAL };
    let mut dice = Dice::new(seed);
    let mut functions_left = pace.functions_first(&mut dice);
    loop {
        tokio::time::sleep(pace.gap(&mut dice)).await;
        if options.is_last_stretch(tally.begun(options.purchases)) {
            return Ok(());
        }
        let mut cloud = cloud.lock().await;
        if functions_left == 0 {
            cloud.kill_and_start_again().await?;
            tally.count(Kind::Kill, "local cloud");
            functions_left = pace.functions_first(&mut dice);
            continue;
        }
        cloud.is_up()?;
        functions_left -= 1;
        if let Some(process) = choose(&cloud.functions(), &mut dice)
            && process.kill()
        {
            tally.count(Kind::Kill, &process.program);
        }
    }
}

/// First a function, then one of its processes: those with few are met as often as those with many.
fn choose(processes: &[Process], dice: &mut Dice) -> Option<Process> {
    let programs: BTreeSet<&str> = processes.iter().map(|process| process.program.as_str()).collect();
    let program = programs.iter().nth(dice.below(programs.len()))?;
    let its: Vec<&Process> = processes.iter().filter(|process| process.program == **program).collect();
    its.get(dice.below(its.len())).map(|process| (*process).clone())
}
