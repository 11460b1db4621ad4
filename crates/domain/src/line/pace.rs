//! How far the line moves.
//!
//! The units that people in turn will still buy must not be many more than the units that are free. How many that will
//! be is learned from the steps of the last turn: which share of turns is used, and how quickly. At first everybody is
//! expected to buy; a few seconds later the line knows better.

use jiff::{SignedDuration, Timestamp};

use super::place::{Place, to_f64};
use super::state::{Line, LinePhase, Step};

/// Times between a step and the first purchases that follow from it, which are considered: the page has to hear of it,
/// and its reader to press. In seconds.
const REACTIONS_S: [f64; 3] = [0.5, 1.5, 3.0];
/// Mean times from then to the purchase that are considered, in seconds.
const DELAYS_S: [f64; 7] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0];
/// The units that everybody is expected to buy before anything was learned, and the share of the latest turns that this
/// counts for: no explanation may be drawn from the first few seconds of slow buyers.
const PRIOR_UNITS: f64 = 1.0;
const PRIOR_SHARE: f64 = 0.1;
const LEAST_PRIOR_TURNS: f64 = 10.0;
const LATEST_S: f64 = 10.0;
/// Explanations that are less likely than the best one by more than this (in log likelihood) are not considered. The
/// share of the units taken allows for people who do not behave exactly as any of the explanations says.
const CREDIBLE: f64 = 3.0;
const CREDIBLE_SHARE: f64 = 0.06;
/// Which share of all units may be wanted in excess of the free ones: those who come too late. It lets the last units
/// be sold at the pace of the first.
const EXCESS: f64 = 0.05;
/// A line that nobody looked at for longer does not make up for it at once.
const LONGEST_PAUSE_S: f64 = 5.0;
/// The least units that a turn is expected to buy: the line does not open for everybody because of a quiet minute.
const LEAST_UNITS: f64 = 0.02;

/// The units of a sale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stock {
    pub total: u64,
    pub free: u64,
    /// Held for orders that are not paid: they may come back.
    pub held: u64,
}

/// What was learned about those who get their turn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Demand {
    /// Units that one turn buys.
    pub units_per_turn: f64,
    /// Units that those who are in turn now are still expected to buy.
    pub expected: f64,
}

/// What is expected of those in turn. Of all explanations that the steps allow, the one with the most purchases still
/// to come is taken: a line that moves too slowly for a second is better than one that disappoints.
pub fn demand(line: &Line, turn: SignedDuration, now: Timestamp) -> Demand {
    let history = History::of(line, turn, now);
    let fits: Vec<Fit> =
        REACTIONS_S.iter().flat_map(|reaction| DELAYS_S.map(|delay| history.fit(*reaction, delay))).collect();
    let best = fits.iter().map(|fit| fit.log_likelihood).fold(f64::NEG_INFINITY, f64::max);
    let tolerance = CREDIBLE + CREDIBLE_SHARE * history.taken;
    let credible = fits.iter().filter(|fit| fit.log_likelihood >= best - tolerance);
    credible.fold(Demand { units_per_turn: LEAST_UNITS, expected: 0.0 }, |most, fit| Demand {
        units_per_turn: most.units_per_turn.max(fit.units_per_turn),
        expected: most.expected.max(fit.expected),
    })
}

/// What the steps tell. Times are seconds before now, as negative numbers.
struct History {
    /// When people got their turn, and how many.
    admitted: Vec<(f64, f64)>,
    /// When each interval between two steps ended, and the units that were taken in it.
    intervals: Vec<(f64, f64)>,
    began: f64,
    taken: f64,
    turn: f64,
}

/// One explanation of a history: people buy after a reaction time and an exponentially distributed delay, or not at
/// all.
struct Fit {
    units_per_turn: f64,
    expected: f64,
    log_likelihood: f64,
}

impl History {
    fn of(line: &Line, turn: SignedDuration, now: Timestamp) -> Self {
        let ago = |at: Timestamp| at.duration_since(now).as_secs_f64();
        let mut before = line.rank(line.lapsed);
        let mut admitted = Vec::with_capacity(line.steps.len());
        for step in &line.steps {
            let rank = line.rank(step.through);
            admitted.push((ago(step.at), (rank - before).max(0.0)));
            before = rank;
        }
        let pairs = line.steps.iter().zip(line.steps.iter().skip(1));
        let intervals: Vec<_> = pairs.map(|(a, b)| (ago(b.at), to_f64(b.taken.saturating_sub(a.taken)))).collect();
        let taken = intervals.iter().map(|(_, taken)| taken).sum();
        let began = line.steps.first().map_or(0.0, |first| ago(first.at));
        Self { admitted, intervals, began, taken, turn: turn.as_secs_f64() }
    }

    fn fit(&self, reaction_s: f64, delay_s: f64) -> Fit {
        // Turns that are still to be used: it falls exponentially, and rises when people get their turn.
        let mut left = 0.0;
        let mut at = self.began;
        let mut pass = |until: f64, left: &mut f64| -> f64 {
            let used = *left * (1.0 - (-(until - at).max(0.0) / delay_s).exp());
            *left -= used;
            at = at.max(until);
            used
        };
        let mut admitted = self.admitted.iter().map(|(at, people)| (at + reaction_s, *people)).peekable();
        // The turns that each interval should have used, if all are.
        let mut turns = Vec::with_capacity(self.intervals.len());
        for (end, _) in &self.intervals {
            let mut used = 0.0;
            while let Some((start, people)) = admitted.next_if(|(start, _)| start <= end) {
                used += pass(start, &mut left);
                left += people;
            }
            used += pass(*end, &mut left);
            turns.push(used);
        }
        let all: f64 = turns.iter().sum();
        let latest: f64 = self.admitted.iter().filter(|(at, _)| *at > -LATEST_S).map(|(_, people)| people).sum();
        let prior = (PRIOR_SHARE * latest).max(LEAST_PRIOR_TURNS);
        let units_per_turn = ((self.taken + PRIOR_UNITS * prior) / (all + prior)).max(LEAST_UNITS);
        let log_likelihood = turns.iter().zip(&self.intervals).fold(0.0, |sum, (turns, (_, taken))| {
            let mean = (units_per_turn * turns).max(0.01);
            sum + taken * mean.ln() - mean
        });
        let in_turn = self.admitted.iter().filter(|(at, _)| *at > -self.turn);
        let still: f64 = in_turn.map(|(at, people)| people * (-(-at - reaction_s).max(0.0) / delay_s).exp()).sum();
        Fit { units_per_turn, expected: units_per_turn * still, log_likelihood }
    }
}

/// The next step of a line, and what it is doing then. The caller has counted who joined.
pub fn next_step(
    line: &Line,
    stock: Stock,
    turn: SignedDuration,
    max_per_second: Option<u32>,
    now: Timestamp,
) -> (LinePhase, Step) {
    let taken = stock.total.saturating_sub(stock.free);
    let stay = Step { at: now, through: line.through(), taken };
    match line.phase {
        LinePhase::Held | LinePhase::Off => return (line.phase, stay),
        LinePhase::Gathering if now < line.opens_at => return (LinePhase::Gathering, stay),
        LinePhase::Gathering | LinePhase::Moving | LinePhase::SoldOut => {}
    }
    if stock.free == 0 {
        let phase = if stock.held == 0 { LinePhase::SoldOut } else { LinePhase::Moving };
        return (phase, stay);
    }
    let demand = demand(line, turn, now);
    let excess = (to_f64(stock.total) * EXCESS).max(1.0);
    let room = to_f64(stock.free) + excess - demand.expected;
    let paused_s = line.steps.last().map_or(1.0, |last| now.duration_since(last.at).as_secs_f64());
    let in_time = max_per_second.map_or(f64::INFINITY, |most| f64::from(most) * paused_s.clamp(0.0, LONGEST_PAUSE_S));
    // Somebody, if what is expected leaves a unit free: one person may buy more than that, or nothing.
    let least = if room > excess { 1.0 } else { 0.0 };
    let least = f64::max(least, few(line, stock.free, turn, now));
    let people = (room / demand.units_per_turn).floor().max(least).min(in_time.ceil());
    let through = if people >= line.waiting() && in_time > line.waiting() {
        // Everybody who has joined so far. Who comes next is let in with the next step.
        line.through().max(Place::late(now, line.opens_at))
    } else {
        line.place_at(line.rank(line.through()) + people)
    };
    (LinePhase::Moving, Step { through: through.max(line.through()), ..stay })
}

/// The people who get a turn in any case, because what is expected may be wrong: as many in the time of a turn as units
/// are free, and somebody when nobody did for an eighth of it.
fn few(line: &Line, free: u64, turn: SignedDuration, now: Timestamp) -> f64 {
    let stood = line.stood_s(now) / turn.as_secs_f64();
    let somebody = if stood >= 0.125 { 1.0 } else { 0.0 };
    f64::max((to_f64(free) * stood).floor(), somebody)
}

/// The number, rounded down. Negative numbers become 0.
#[expect(clippy::as_conversions, reason = "a conversion from a float saturates")]
pub(super) fn to_u64(number: f64) -> u64 {
    number as u64
}

/// The number, rounded up, except for what is left over by rounding errors.
pub(super) fn ceil_u64(number: f64) -> u64 {
    to_u64((number - 1e-6).ceil())
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;
    use std::collections::BinaryHeap;

    use super::*;
    use crate::line::{Joined, Turn};
    use proptest::prelude::*;

    const TURN: SignedDuration = SignedDuration::from_secs(120);

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millisecond(ms).unwrap()
    }

    /// SplitMix64: numbers from 0 to 1.
    struct Random(u64);

    impl Random {
        fn next(&mut self) -> f64 {
            self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            to_f64((z ^ (z >> 31)) >> 11) / to_f64(1 << 53)
        }
    }

    /// A sale in which everybody waits from the start, and a share of those who get a turn press, a few seconds after
    /// it came.
    struct Sale {
        units: u64,
        waiting: u64,
        share: f64,
        mean_delay_s: f64,
        /// Between the step and the earliest press.
        reaction_s: f64,
        max_per_second: Option<u32>,
        seed: u64,
    }

    #[derive(Debug)]
    struct Outcome {
        sold_out_after_s: i64,
        /// People who pressed in their turn and found nothing.
        disappointed: u64,
    }

    impl Sale {
        fn run(&self, until_s: i64) -> Outcome {
            let mut random = Random(self.seed);
            let mut line = Line::new(at(0));
            line.count(Joined { lobby: self.waiting, late: 0 }, at(0));
            let (mut free, mut disappointed, mut sold_out_after_s) = (self.units, 0, until_s);
            let mut presses: BinaryHeap<Reverse<i64>> = BinaryHeap::new();
            for second in 0..until_s {
                let now_ms = second * 1_000;
                while presses.peek().is_some_and(|Reverse(ms)| *ms <= now_ms) {
                    presses.pop();
                    match free {
                        0 => disappointed += 1,
                        _ => free -= 1,
                    }
                }
                if free == 0 && sold_out_after_s == until_s {
                    sold_out_after_s = second;
                }
                let stock = Stock { total: self.units, free, held: self.units - free };
                let before = line.rank(line.through());
                let (phase, step) = next_step(&line, stock, TURN, self.max_per_second, at(now_ms));
                line.phase = phase;
                line.push(step, TURN);
                let admitted = to_u64((line.rank(line.through()) - before).round());
                if let Some(most) = self.max_per_second {
                    assert!(admitted <= u64::from(most), "{admitted} in a second");
                }
                for _ in 0..admitted {
                    if random.next() < self.share {
                        let delay_s = self.reaction_s - (1.0 - random.next()).ln() * self.mean_delay_s;
                        if delay_s < TURN.as_secs_f64() {
                            presses.push(Reverse(now_ms + i64::try_from(to_u64(delay_s * 1_000.0)).unwrap()));
                        }
                    }
                }
            }
            Outcome { sold_out_after_s, disappointed }
        }
    }

    /// One million wait for 10,000 units, at most 5,000 a second are let in, and presses follow within a few seconds.
    #[test]
    fn a_million_people_and_ten_thousand_units() {
        for (share, within_s) in [(0.3, 150), (0.6, 40), (0.9, 20)] {
            for (seed, reaction_s, mean_delay_s) in [(1, 1.0, 2.0), (2, 1.0, 3.0), (3, 2.0, 2.0), (4, 3.0, 2.0)] {
                let sale = Sale {
                    units: 10_000,
                    waiting: 1_000_000,
                    share,
                    mean_delay_s,
                    reaction_s,
                    max_per_second: Some(5_000),
                    seed,
                };
                let outcome = sale.run(300);
                println!("share {share}, presses after {reaction_s} s + {mean_delay_s} s: {outcome:?}");
                assert!(outcome.sold_out_after_s <= within_s, "share {share}: {outcome:?}");
                assert!(outcome.disappointed < 1_500, "share {share}: {outcome:?}");
            }
        }
    }

    /// Slow and rare buyers: everything is sold in the end, and few are disappointed.
    #[test]
    fn slow_or_rare_buyers_do_not_stop_the_line_or_flood_it() {
        for (share, mean_delay_s) in [(0.05, 3.0), (0.3, 10.0), (0.6, 20.0), (0.9, 30.0), (1.0, 10.0)] {
            let sale = Sale {
                units: 1_000,
                waiting: 1_000_000,
                share,
                mean_delay_s,
                reaction_s: 1.0,
                max_per_second: None,
                seed: 7,
            };
            let outcome = sale.run(1_500);
            println!("share {share}, mean delay {mean_delay_s} s: {outcome:?}");
            assert!(outcome.sold_out_after_s < 900, "share {share}, {mean_delay_s} s: {outcome:?}");
            assert!(outcome.disappointed < 250, "share {share}, {mean_delay_s} s: {outcome:?}");
        }
    }

    #[test]
    fn a_few_units_go_to_the_few_who_wait() {
        let mut line = Line::new(at(0));
        line.count(Joined { lobby: 3, late: 0 }, at(0));
        let stock = Stock { total: 2, free: 2, held: 0 };
        let (phase, step) = next_step(&line, stock, TURN, None, at(0));
        assert_eq!(phase, LinePhase::Moving);
        line.push(step, TURN);
        assert!(step.through > Place::START);
        // Everything is held: nobody else gets a turn. One unit comes back: the next one does.
        let before = line.through();
        let (phase, step) = next_step(&line, Stock { free: 0, held: 2, ..stock }, TURN, None, at(1_000));
        assert_eq!((phase, step.through), (LinePhase::Moving, before));
        line.push(step, TURN);
        let all_sold = next_step(&line, Stock { free: 0, held: 0, ..stock }, TURN, None, at(1_000));
        assert_eq!(all_sold.0, LinePhase::SoldOut);
        let (_, step) = next_step(&line, Stock { free: 1, held: 1, ..stock }, TURN, None, at(60_000));
        assert!(step.through > before);
    }

    #[test]
    fn the_first_in_an_empty_line_is_let_in_with_the_next_step() {
        let mut line = Line::new(at(0));
        line.count(Joined { lobby: 0, late: 0 }, at(0));
        let stock = Stock { total: 100, free: 100, held: 0 };
        line.push(next_step(&line, stock, TURN, Some(10), at(5_000)).1, TURN);
        let place = Place::late(at(5_500), at(0));
        assert!(matches!(line.turn(place, TURN, at(5_500)), Turn::NotYet { position: 1 }));
        line.count(Joined { lobby: 0, late: 1 }, at(6_000));
        line.push(next_step(&line, stock, TURN, Some(10), at(6_000)).1, TURN);
        assert!(matches!(line.turn(place, TURN, at(6_000)), Turn::Now { .. }));
    }

    #[test]
    fn an_operator_holds_the_line_and_switches_it_off() {
        let mut line = Line::new(at(0));
        line.count(Joined { lobby: 1_000, late: 0 }, at(0));
        let stock = Stock { total: 100, free: 100, held: 0 };
        for phase in [LinePhase::Held, LinePhase::Off] {
            line.phase = phase;
            let (after, step) = next_step(&line, stock, TURN, None, at(1_000));
            assert_eq!((after, step.through), (phase, Place::START));
        }
        line.phase = LinePhase::Gathering;
        assert_eq!(next_step(&line, stock, TURN, None, at(-1)).0, LinePhase::Gathering, "before the opening");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// Whatever the clock does: what is expected of those in turn stays below the free units and the excess, and
        /// while units are free and somebody waits, the line moves within a turn.
        #[test]
        fn the_line_moves_and_never_lets_in_too_many(
            lobby in 1_u64..100_000,
            units in 1_u64..5_000,
            seconds in proptest::collection::vec((-30_i64..20, 0_u64..50), 1..80),
        ) {
            let mut line = Line::new(at(0));
            line.count(Joined { lobby, late: 0 }, at(0));
            let mut free = units;
            let mut now_ms = 0_i64;
            for (later_s, bought) in seconds {
                now_ms = (now_ms + later_s * 1_000).max(0);
                free -= bought.min(free);
                let stock = Stock { total: units, free, held: units - free };
                let before = line.through();
                let expected = demand(&line, TURN, at(now_ms));
                let (phase, step) = next_step(&line, stock, TURN, None, at(now_ms));
                let more = (line.rank(step.through) - line.rank(before)) * expected.units_per_turn;
                let excess = (to_f64(units) * EXCESS).max(1.0);
                let all_of_them = line.rank(step.through) >= to_f64(lobby);
                let few = few(&line, free, TURN, at(now_ms)).max(1.0);
                let is_few = line.rank(step.through) - line.rank(before) <= few + 1e-3;
                if !all_of_them && !is_few {
                    prop_assert!(expected.expected + more <= to_f64(free) + excess + 1e-3);
                }
                line.phase = phase;
                line.push(step, TURN);
                prop_assert!(line.through() >= before);
            }
            if free > 0 && line.waiting() >= 1.0 {
                let before = line.through();
                for second in 1..=125 {
                    let stock = Stock { total: units, free, held: units - free };
                    let latest = line.steps.last().map_or(0, |step| step.at.as_millisecond());
                    let now = at(latest.max(now_ms) + second);
                    let now = now.checked_add(SignedDuration::from_secs(1)).unwrap();
                    let (phase, step) = next_step(&line, stock, TURN, None, now);
                    line.phase = phase;
                    line.push(step, TURN);
                }
                prop_assert!(line.through() > before);
            }
        }
    }
}
