//! The line of a sale as all functions see it: how far it has come, and what that means for one place.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::pace::ceil_u64;
use super::place::{Place, to_f64};

/// The most steps that are kept. More would make the row of a line larger than a write or two.
pub const MAX_STEPS: usize = 64;
/// The most points of the curve of late arrivals.
const MAX_ARRIVALS: usize = 32;
/// The time over which the speed of the line is measured.
const SPEED_OVER: SignedDuration = SignedDuration::from_secs(30);

/// What the line is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum LinePhase {
    /// Before the opening: buyers join, nobody knows a place.
    Gathering,
    Moving,
    /// An operator has stopped the line. Turns that have begun go on.
    Held,
    /// No unit is free, and none is held by an order that could still be closed.
    SoldOut,
    /// An operator has switched the line off: everybody may press.
    Off,
}

/// How many people have joined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Joined {
    /// Before the opening.
    pub lobby: u64,
    /// Since the opening.
    pub late: u64,
}

/// How far the line had come at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    #[serde(with = "jiff::fmt::serde::timestamp::millisecond::required")]
    pub at: Timestamp,
    /// Everybody up to this place has had, or has, a turn.
    pub through: Place,
    /// The units that were not free.
    pub taken: u64,
}

/// How many people had joined late by one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arrivals {
    pub after_opening_ms: u64,
    pub late: u64,
}

/// The line of a sale.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    pub phase: LinePhase,
    #[serde(with = "jiff::fmt::serde::timestamp::millisecond::required")]
    pub opens_at: Timestamp,
    pub joined: Joined,
    /// Turns up to this place are over, whatever a function's clock says.
    pub lapsed: Place,
    /// The steps of the last turn, oldest first.
    pub steps: Vec<Step>,
    /// The curve of late arrivals, oldest first.
    pub arrivals: Vec<Arrivals>,
}

/// What the line says to one buyer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// The buyer may press.
    Now { ends_at: Timestamp },
    /// The buyer waits, with this many people in front and oneself included.
    NotYet { position: u64 },
    /// The turn has passed. Joining again gives a place at the end.
    Over,
}

impl Line {
    pub fn new(opens_at: Timestamp) -> Self {
        Self {
            phase: LinePhase::Gathering,
            opens_at,
            joined: Joined::default(),
            lapsed: Place::START,
            steps: Vec::new(),
            arrivals: Vec::new(),
        }
    }

    /// How far the line has come.
    pub fn through(&self) -> Place {
        self.steps.last().map_or(self.lapsed, |step| step.through)
    }

    /// How far the line had come at `at`.
    pub fn through_at(&self, at: Timestamp) -> Place {
        self.steps.iter().rev().find(|step| step.at <= at).map_or(self.lapsed, |step| step.through)
    }

    /// Whether it is this place's turn. The newest step counts even if this function's clock is behind the one that
    /// made it: the row shows that it was made.
    pub fn turn(&self, place: Place, turn: SignedDuration, now: Timestamp) -> Turn {
        if place > self.through() {
            return Turn::NotYet { position: self.position(place) };
        }
        let ended = now.checked_sub(turn).map_or(self.lapsed, |began| self.through_at(began));
        let began = self.steps.iter().find(|step| step.through >= place);
        match began {
            Some(step) if place > ended.max(self.lapsed) => {
                Turn::Now { ends_at: step.at.checked_add(turn).unwrap_or(step.at) }
            }
            _ => Turn::Over,
        }
    }

    /// How many people stand at or before a place. Exact to about the square root of their number in the lobby, where
    /// places are uniformly distributed.
    pub fn rank(&self, place: Place) -> f64 {
        let lobby = to_f64(self.joined.lobby);
        match place.late_micros() {
            None => to_f64(place.number()) / to_f64(Place::LOBBY_SIZE) * lobby,
            Some(micros) => lobby + self.late_by(to_f64(micros) / 1_000.0),
        }
    }

    /// The place up to which `people` people stand: the inverse of [`Line::rank`].
    pub fn place_at(&self, people: f64) -> Place {
        let lobby = to_f64(self.joined.lobby);
        if people < lobby {
            return Place::after_share_of_lobby(people, lobby);
        }
        let late = people - lobby;
        let (mut before_ms, mut before) = (0.0, 0.0);
        for point in &self.arrivals {
            let (ms, count) = (to_f64(point.after_opening_ms), to_f64(point.late));
            if count >= late && count > before {
                return Place::after_micros(
                    1_000.0 * (before_ms + (ms - before_ms) * (late - before) / (count - before)),
                );
            }
            (before_ms, before) = (ms, count);
        }
        Place::after_micros(1_000.0 * before_ms)
    }

    /// How many people had joined late by this many milliseconds after the opening.
    fn late_by(&self, ms: f64) -> f64 {
        let (mut before_ms, mut before) = (0.0, 0.0);
        for point in &self.arrivals {
            let (at_ms, count) = (to_f64(point.after_opening_ms), to_f64(point.late));
            if at_ms >= ms {
                let share = if at_ms > before_ms { (ms - before_ms) / (at_ms - before_ms) } else { 1.0 };
                return before + (count - before) * share;
            }
            (before_ms, before) = (at_ms, count);
        }
        before
    }

    /// The position of a place that is not in turn yet, from 1.
    pub fn position(&self, place: Place) -> u64 {
        ceil_u64(self.rank(place) - self.rank(self.through())).max(1)
    }

    /// How many people have joined and not had a turn.
    pub fn waiting(&self) -> f64 {
        let joined = to_f64(self.joined.lobby.saturating_add(self.joined.late));
        (joined - self.rank(self.through())).max(0.0)
    }

    /// How many people have a turn now.
    pub fn in_turn(&self, turn: SignedDuration, now: Timestamp) -> f64 {
        let began = now.checked_sub(turn).map_or(self.lapsed, |began| self.through_at(began));
        (self.rank(self.through()) - self.rank(began)).max(0.0)
    }

    /// People a second who got their turn recently.
    pub fn speed(&self, now: Timestamp) -> f64 {
        let Some(first) = self.steps.first() else { return 0.0 };
        let since = now.checked_sub(SPEED_OVER).map_or(first.at, |since| since.max(first.at));
        let seconds = now.duration_since(since).as_secs_f64().max(1.0);
        (self.rank(self.through()) - self.rank(self.through_at(since))).max(0.0) / seconds
    }

    /// For how many seconds nobody got a turn.
    pub fn stood_s(&self, now: Timestamp) -> f64 {
        let through = self.through();
        let moved = self.steps.iter().find(|step| step.through == through);
        moved.map_or(0.0, |step| now.duration_since(step.at).as_secs_f64().max(0.0))
    }

    /// How long somebody at this position waits at the present speed. `None` while the line does not move.
    pub fn wait_s(&self, position: u64, now: Timestamp) -> Option<u64> {
        let speed = self.speed(now);
        (self.phase == LinePhase::Moving && speed > 0.0).then(|| ceil_u64(to_f64(position) / speed))
    }

    /// Notes how many people have joined by `now`.
    pub fn count(&mut self, joined: Joined, now: Timestamp) {
        // A count by eventually consistent reads can fall; a line cannot.
        self.joined = Joined { lobby: joined.lobby.max(self.joined.lobby), late: joined.late.max(self.joined.late) };
        let ms = now.as_millisecond().saturating_sub(self.opens_at.as_millisecond());
        let after_opening_ms = u64::try_from(ms).unwrap_or(0);
        if self
            .arrivals
            .last()
            .is_none_or(|last| last.late < self.joined.late && last.after_opening_ms < after_opening_ms)
            && self.joined.late > 0
        {
            self.arrivals.push(Arrivals { after_opening_ms, late: self.joined.late });
        }
        if self.arrivals.len() > MAX_ARRIVALS {
            // Every second point of the older half: the curve stays right at the points that remain.
            let mut n = 0;
            self.arrivals.retain(|_| {
                n += 1;
                n > MAX_ARRIVALS / 2 || n % 2 == 0
            });
        }
    }

    /// Adds a step. `through` never falls, and time does not run backwards.
    pub fn push(&mut self, step: Step, turn: SignedDuration) {
        let last = self.steps.last();
        let at = last.map_or(step.at, |last| step.at.max(last.at));
        let through = step.through.max(self.through());
        self.steps.push(Step { at, through, ..step });
        self.forget(turn);
    }

    /// Forgets steps whose turns are over, and merges others so that the row stays small. A merged step counts from its
    /// later moment, so a turn can become longer by it, but never shorter.
    fn forget(&mut self, turn: SignedDuration) {
        let Some(newest) = self.steps.last().map(|step| step.at) else { return };
        let over = |step: &Step| newest.duration_since(step.at) >= turn;
        while let [first, second, ..] = self.steps.as_slice()
            && over(first)
            && over(second)
        {
            self.lapsed = self.lapsed.max(first.through);
            self.steps.remove(0);
        }
        while self.steps.len() > MAX_STEPS {
            // The newest step stays as it is; of the others, the one that is closest to its successor goes.
            let gaps = self.steps.iter().zip(self.steps.iter().skip(1)).take(MAX_STEPS - 1);
            let closest = gaps.enumerate().skip(1).min_by_key(|(_, (a, b))| b.at.duration_since(a.at));
            let Some((n, _)) = closest else { return };
            self.steps.remove(n);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TURN: SignedDuration = SignedDuration::from_secs(120);

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millisecond(ms).unwrap()
    }

    fn place(n: u64) -> Place {
        Place::from_number(n)
    }

    fn step(ms: i64, through: u64) -> Step {
        Step { at: at(ms), through: place(through), taken: 0 }
    }

    fn line(steps: &[(i64, u64)]) -> Line {
        let mut line = Line { phase: LinePhase::Moving, ..Line::new(at(0)) };
        steps.iter().for_each(|(ms, through)| line.push(step(*ms, *through), TURN));
        line
    }

    #[test]
    fn a_turn_begins_with_its_step_and_lasts_as_long_as_set() {
        let line = line(&[(1_000, 100), (2_000, 200)]);
        assert!(matches!(line.turn(place(201), TURN, at(2_000)), Turn::NotYet { .. }));
        assert_eq!(line.turn(place(100), TURN, at(1_000)), Turn::Now { ends_at: at(121_000) });
        assert_eq!(line.turn(place(101), TURN, at(121_999)), Turn::Now { ends_at: at(122_000) });
        assert_eq!(line.turn(place(100), TURN, at(121_000)), Turn::Over);
        assert_eq!(line.turn(place(101), TURN, at(121_000)), Turn::Now { ends_at: at(122_000) });
        assert_eq!(line.turn(place(101), TURN, at(122_000)), Turn::Over);
        assert_eq!(line.turn(place(150), TURN, at(0)), Turn::Now { ends_at: at(122_000) }, "a clock that is behind");
    }

    #[test]
    fn what_has_lapsed_stays_so_for_a_clock_that_is_behind() {
        let line = line(&[(1_000, 100), (2_000, 200), (200_000, 300), (400_000, 400)]);
        assert_eq!(line.turn(place(100), TURN, at(0)), Turn::Over);
        assert_eq!(line.lapsed, place(200));
    }

    #[test]
    fn positions_and_waits_in_the_lobby_and_after_it() {
        let half = Place::LOBBY_SIZE / 2;
        let mut line = line(&[(1_000, 0), (11_000, half / 5)]);
        line.count(Joined { lobby: 1_000_000, late: 0 }, at(1_000));
        line.count(Joined { lobby: 1_000_000, late: 500 }, at(10_000));
        line.count(Joined { lobby: 1_000_000, late: 700 }, at(20_000));
        assert_eq!(line.position(place(half)), 400_000);
        assert_eq!(line.position(Place::late(at(5_000), at(0))), 900_250, "half of the first five hundred");
        assert_eq!(line.position(Place::late(at(15_000), at(0))), 900_600);
        assert_eq!(line.position(Place::late(at(99_000), at(0))), 900_700);
        assert!((line.speed(at(11_000)) - 10_000.0).abs() < 1.0, "{}", line.speed(at(11_000)));
        assert_eq!(line.wait_s(400_000, at(11_000)), Some(40));
        line.phase = LinePhase::Held;
        assert_eq!(line.wait_s(400_000, at(11_000)), None);
    }

    #[test]
    fn the_position_of_one_million_is_right_to_one_percent() {
        // The worst case is the sampling error of the places themselves: everybody's exact rank against the estimate.
        let mut places: Vec<u64> = (0..1_000_000_u64).map(|n| mix(n) >> 1).collect();
        places.sort_unstable();
        let mut line = line(&[(1_000, Place::LOBBY_SIZE / 10)]);
        line.count(Joined { lobby: 1_000_000, late: 0 }, at(0));
        let passed = places.partition_point(|p| *p <= Place::LOBBY_SIZE / 10);
        for rank in (passed..places.len()).step_by(1_000) {
            let position = line.position(place(places[rank]));
            let exact = u64::try_from(rank + 1 - passed).unwrap();
            assert!(position.abs_diff(exact) < 10_000, "{position} instead of {exact}");
        }
    }

    /// SplitMix64.
    fn mix(n: u64) -> u64 {
        let z = n.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    proptest! {
        #[test]
        fn through_never_falls_and_a_turn_is_never_shorter_than_set(
            moves in proptest::collection::vec((-90_000_i64..30_000, 0_u64..1 << 60), 1..200),
            turn_s in 1_i64..600,
        ) {
            let turn = SignedDuration::from_secs(turn_s);
            let mut line = Line::new(at(0));
            let mut now_ms: i64 = 1_000_000;
            // For each place that was passed: when its turn began.
            let mut began: Vec<(Place, i64)> = Vec::new();
            let mut newest = i64::MIN;
            for (later_ms, further) in moves {
                // Movers' clocks differ by up to a minute and a half.
                let at_ms = now_ms + later_ms.min(0);
                now_ms += later_ms.max(0);
                let before = line.through();
                line.push(step(at_ms.max(0), before.number().saturating_add(further)), turn);
                newest = newest.max(at_ms.max(0));
                prop_assert!(line.through() >= before);
                prop_assert!(line.steps.len() <= MAX_STEPS);
                if line.through() > before {
                    began.push((line.through(), newest));
                }
                for (place, since_ms) in &began {
                    // By the line's own clock, the newest step, a turn has not ended before its time.
                    if newest - since_ms < turn_s * 1_000 {
                        let says = line.turn(*place, turn, at(newest));
                        prop_assert!(matches!(says, Turn::Now { .. }), "{:?} {:?} {}", place, says, newest - since_ms);
                    }
                }
            }
        }

        #[test]
        fn a_rank_leads_back_to_its_place(lobby in 1_u64..1_000_000, late in 1_u64..100_000, share in 0.0_f64..1.0) {
            let mut line = Line::new(at(0));
            line.count(Joined { lobby, late: 0 }, at(0));
            line.count(Joined { lobby, late: late / 2 }, at(10_000));
            line.count(Joined { lobby, late }, at(25_000));
            let people = share * to_f64(lobby + late);
            prop_assert!((line.rank(line.place_at(people)) - people).abs() < 0.01 + people * 1e-9);
        }
    }
}
