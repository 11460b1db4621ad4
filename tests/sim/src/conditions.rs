//! The conditions of a run, drawn from its seed: which faults and activities are absent, rare or frequent, how fast
//! time passes, how many buyers there are. Bugs that need two rare events are found in runs in which one of the two
//! is frequent.

use local_cloud::wire::{Fault, Loss};

use crate::rng::Rng;

/// Every fault that a call can meet.
pub const FAULTS: [Fault; 8] = [
    Fault::NotApplied(Loss::Io),
    Fault::AppliedButLost(Loss::Io),
    Fault::AppliedButServerError,
    Fault::Throttled,
    Fault::ServerError,
    Fault::TransactionConflict,
    Fault::Late,
    Fault::Stale,
];

/// Every activity with its base weight. The conditions of a run multiply the weights.
const ACTIVITIES: [(Activity, u32); 17] = [
    (Activity::Press, 20),
    (Activity::ViewOrder, 4),
    (Activity::Cancel, 3),
    (Activity::Pay, 14),
    (Activity::Refund, 4),
    (Activity::AtProvider, 14),
    (Activity::Notice, 12),
    (Activity::Messages, 18),
    (Activity::Stream, 8),
    (Activity::Deadline, 6),
    (Activity::Reconcile, 4),
    (Activity::Restock, 2),
    (Activity::Pause, 1),
    (Activity::Resume, 6),
    (Activity::CatchUp, 4),
    (Activity::Edit, 2),
    (Activity::NewerRow, 2),
];

/// What buyers, providers, the operator and AWS do by themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    Press,
    ViewOrder,
    Cancel,
    Pay,
    Refund,
    AtProvider,
    Notice,
    Messages,
    Stream,
    Deadline,
    Reconcile,
    Restock,
    Pause,
    Resume,
    CatchUp,
    Edit,
    NewerRow,
}

#[derive(Clone, Debug)]
pub struct Conditions {
    /// Steps of the faulty phase.
    pub steps: u64,
    /// Faults, each with its percentage of calls.
    pub faults: Vec<(Fault, u32)>,
    /// The approximate percentage of steps in which a process crashes.
    pub crashes: u32,
    /// Whether functions are stopped at the timeout of the template. Otherwise all but `seckill` may hang for ever.
    pub timeouts: bool,
    /// Activities, each with its weight.
    activities: Vec<(Activity, u32)>,
    /// The possible lengths of a step in which time passes, in milliseconds.
    pub time_step_ms: &'static [u64],
    /// The approximate percentage of steps in which time passes.
    pub time_steps: u32,
    /// The largest difference between two functions' clocks, in milliseconds.
    pub clock_skew_ms: u64,
    /// The units of each bucket at the start.
    pub stocks: &'static [u32],
    pub buyers: usize,
    /// How many of the buyers press much more often than the others.
    pub eager: usize,
    /// The percentage of activities that repeat a request which has no answer yet.
    pub impatience: u32,
    /// The percentage of calls after which the caller becomes slow. It is five times higher after a failed condition.
    pub slowness: u32,
    /// How likely it is, in percent, that a late call arrives in a step in which no pending call proceeds.
    pub late_arrivals: u32,
    /// The percentage of presses for two units.
    pub double_quantity: u32,
}

impl Conditions {
    pub fn draw(rng: &mut Rng) -> Self {
        let mut faults: Vec<(Fault, u32)> = FAULTS.iter().map(|fault| (*fault, [0, 0, 1, 3][rng.below(4)])).collect();
        if rng.chance(50) {
            faults[rng.below(FAULTS.len())].1 = 15;
        }
        // A few buyers compete for the last units and cancel often, so several requests for one order meet at a
        // bucket that runs empty and opens again.
        let scramble = rng.chance(30);
        let factor = |activity: Activity| match activity {
            Activity::Cancel if scramble => 10,
            Activity::Press | Activity::Messages if scramble => 2,
            _ => 1,
        };
        // No activity is left out completely: little can go wrong in a run in which nobody pays.
        let weighted = |(activity, weight): &(Activity, u32), rng: &mut Rng| {
            (*activity, weight * factor(*activity) * [2, 3, 3, 6][rng.below(4)])
        };
        let activities = ACTIVITIES.iter().map(|activity| weighted(activity, rng)).collect();
        const QUICK: &[u64] = &[50, 300, 1_000, 5_000, 7_000, 61_000, 200_000];
        const SLOW: &[u64] = &[5, 50, 300, 400, 1_000, 2_000, 5_000, 20_000];
        Self {
            steps: [100, 300, 400, 600][rng.below(4)],
            faults,
            crashes: [0, 1, 2, 5][rng.below(4)],
            timeouts: rng.chance(50),
            activities,
            time_step_ms: if rng.chance(50) { QUICK } else { SLOW },
            time_steps: [2, 4, 8][rng.below(3)],
            clock_skew_ms: [0, 2_000, 60_000][rng.below(3)],
            stocks: if scramble { &[1, 1] } else { &[3, 2, 2] },
            buyers: [20, 20, 24, 40][rng.below(4)],
            eager: if scramble { 4 } else { 0 },
            impatience: if scramble { 30 } else { [0, 5, 15][rng.below(3)] },
            slowness: [0, 3, 8, 20][rng.below(4)],
            late_arrivals: [2, 4, 20][rng.below(3)],
            double_quantity: if scramble { 0 } else { [5, 10, 40][rng.below(3)] },
        }
    }

    /// For scripted runs: few buyers, and nothing happens by itself.
    pub fn scripted() -> Self {
        Self {
            steps: 0,
            faults: Vec::new(),
            crashes: 0,
            timeouts: false,
            activities: Vec::new(),
            time_step_ms: &[],
            time_steps: 0,
            clock_skew_ms: 0,
            stocks: &[2],
            buyers: 2,
            eager: 0,
            impatience: 0,
            slowness: 0,
            late_arrivals: 0,
            double_quantity: 0,
        }
    }

    pub fn is_stale(&self) -> bool {
        self.faults.iter().any(|(fault, often)| *fault == Fault::Stale && *often > 0)
    }

    pub fn activity(&self, rng: &mut Rng) -> Activity {
        let sum: u32 = self.activities.iter().map(|(_, often)| often).sum();
        let mut roll = rng.below(sum as usize) as u32;
        for (activity, often) in &self.activities {
            if roll < *often {
                return *activity;
            }
            roll -= often;
        }
        Activity::Press
    }

    pub fn fault(&self, rng: &mut Rng) -> Fault {
        for (fault, percent) in &self.faults {
            if rng.chance(*percent) {
                return *fault;
            }
        }
        Fault::None
    }
}
