//! What a seed is like. Some kinds of fault are absent and some frequent; so are the deeds, and time is slow or fast: what happens only when
//! two rare things meet needs runs in which one of them is not rare.

use local_cloud::wire::{Fault, Loss};

use crate::dice::Dice;

/// What can befall a call.
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

/// What buyers and the others do, and how often, if the weather does not say otherwise.
const DEEDS: [(Deed, u32); 15] = [
    (Deed::Press, 20),
    (Deed::Look, 4),
    (Deed::Cancel, 3),
    (Deed::Pay, 14),
    (Deed::Refund, 4),
    (Deed::AtTheProvider, 14),
    (Deed::Notice, 12),
    (Deed::Messages, 18),
    (Deed::Stream, 8),
    (Deed::Deadline, 6),
    (Deed::Reconcile, 4),
    (Deed::Restock, 2),
    (Deed::Pause, 1),
    (Deed::Resume, 6),
    (Deed::CatchUp, 4),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    Press,
    Look,
    Cancel,
    Pay,
    Refund,
    AtTheProvider,
    Notice,
    Messages,
    Stream,
    Deadline,
    Reconcile,
    Restock,
    Pause,
    Resume,
    CatchUp,
}

#[derive(Clone, Debug)]
pub struct Weather {
    /// How many things happen.
    pub steps: u64,
    /// What befalls calls, and how often of a hundred.
    pub faults: Vec<(Fault, u32)>,
    /// How often of a hundred steps somebody dies.
    pub deaths: u32,
    /// Whether functions are stopped when they have run for as long as the template allows. Otherwise they may hang for ever, other than
    /// presses.
    pub timeouts: bool,
    /// How often each thing is done, of the sum of all.
    deeds: Vec<(Deed, u32)>,
    /// How far time goes in one step, in milliseconds.
    pub times: &'static [u64],
    /// How many of each hundred steps are time passing.
    pub passing: u32,
    /// How much the functions' clocks are apart at the most, in milliseconds.
    pub apart_ms: u64,
    /// The units of each bucket.
    pub stocks: &'static [u32],
    /// How many buyers come: many for the stock, or few who come again and again.
    pub buyers: usize,
    /// How many of them come much more often than the others.
    pub eager: usize,
    /// How often of a hundred deeds a buyer who has no answer yet asks again.
    pub impatience: u32,
    /// How often of a hundred calls whoever made it is slow from then on; five times as often if it was refused.
    pub slowness: u32,
    /// How often of a hundred steps a late call arrives.
    pub arrivals: u32,
    /// How often of a hundred a press is for two.
    pub pairs: u32,
}

impl Weather {
    pub fn of(dice: &mut Dice) -> Self {
        let mut faults: Vec<(Fault, u32)> = FAULTS.iter().map(|fault| (*fault, [0, 0, 1, 3][dice.below(4)])).collect();
        if dice.chance(50) {
            faults[dice.below(FAULTS.len())].1 = 15;
        }
        // A few buyers who fight for the last units, and give them back: requests for one order meet each other at a bucket that is empty and
        // open by turns.
        let scramble = dice.chance(30);
        let favoured = |deed: Deed| match deed {
            Deed::Cancel if scramble => 10,
            Deed::Press | Deed::Messages if scramble => 2,
            _ => 1,
        };
        // Nothing is left out for good: a seed in which nobody pays is a seed in which little can go wrong.
        let often = |(deed, often): &(Deed, u32), dice: &mut Dice| {
            (*deed, often * favoured(*deed) * [2, 3, 3, 6][dice.below(4)])
        };
        let deeds = DEEDS.iter().map(|deed| often(deed, dice)).collect();
        const QUICK: &[u64] = &[50, 300, 1_000, 5_000, 7_000, 61_000, 200_000];
        const SLOW: &[u64] = &[5, 50, 300, 400, 1_000, 2_000, 5_000, 20_000];
        Self {
            steps: [100, 300, 400, 600][dice.below(4)],
            faults,
            deaths: [0, 1, 2, 5][dice.below(4)],
            timeouts: dice.chance(50),
            deeds,
            times: if dice.chance(50) { QUICK } else { SLOW },
            passing: [2, 4, 8][dice.below(3)],
            apart_ms: [0, 2_000, 60_000][dice.below(3)],
            stocks: if scramble { &[1, 1] } else { &[3, 2, 2] },
            buyers: [20, 20, 24, 40][dice.below(4)],
            eager: if scramble { 4 } else { 0 },
            impatience: if scramble { 30 } else { [0, 5, 15][dice.below(3)] },
            slowness: [0, 3, 8, 20][dice.below(4)],
            arrivals: [2, 4, 20][dice.below(3)],
            pairs: if scramble { 0 } else { [5, 10, 40][dice.below(3)] },
        }
    }

    /// No weather at all: few buyers, and nothing happens by itself.
    pub fn quiet() -> Self {
        Self {
            steps: 0,
            faults: Vec::new(),
            deaths: 0,
            timeouts: false,
            deeds: Vec::new(),
            times: &[],
            passing: 0,
            apart_ms: 0,
            stocks: &[2],
            buyers: 2,
            eager: 0,
            impatience: 0,
            slowness: 0,
            arrivals: 0,
            pairs: 0,
        }
    }

    pub fn is_stale(&self) -> bool {
        self.faults.iter().any(|(fault, often)| *fault == Fault::Stale && *often > 0)
    }

    pub fn deed(&self, dice: &mut Dice) -> Deed {
        let sum: u32 = self.deeds.iter().map(|(_, often)| often).sum();
        let mut roll = dice.below(sum as usize) as u32;
        for (deed, often) in &self.deeds {
            if roll < *often {
                return *deed;
            }
            roll -= often;
        }
        Deed::Press
    }

    pub fn fault(&self, dice: &mut Dice) -> Fault {
        for (fault, percent) in &self.faults {
            if dice.chance(*percent) {
                return *fault;
            }
        }
        Fault::None
    }
}
