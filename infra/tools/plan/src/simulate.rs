//! A sale, played in steps of ten milliseconds: who comes, what the gateway, Lambda and the tables take, and what is answered.
//!
//! The same sale is always played the same. A function here does not remember which buckets it found empty, as the real one does for a
//! second: what is written in vain around the last unit is the most that it can be. Partitions and hot keys are played call by call; how long a call takes is drawn from what
//! `facts` says.

use std::time::Duration;

use domain::bucket::Segment;
use figures::Latency;
use flows::buy::purchase::{BUCKETS_TRIED, READ_BUCKETS_AFTER};
use testkit::dice::Dice;

use crate::design::{Design, Writes};
use crate::facts::{
    COLD_START, DOOR, HOT_TRANSACTIONS, LAMBDA_BURST, LAMBDA_BURST_SECONDS, LAMBDA_REQUESTS_PER_ENVIRONMENT,
    PAGE_BEHIND_MS, REFUSAL_BILLED_MS, SDK_FIRST_WAIT_MS, SDK_TRIES, SEND, Takes, WRITE,
};
use crate::partitions::{Table, hash};
use crate::sale::Sale;
use crate::shelf::Shelf;

/// Seconds of one step.
const STEP_S: f64 = 0.01;
const STEPS_PER_SECOND: usize = 100;
/// A buyer who was told "later" comes back after so long.
const COME_BACK_STEPS: usize = 100;

/// What the sale is given to run on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Capacity {
    /// Write units a second that each of the tables takes at once.
    pub warm_writes: u32,
    /// Environments that are there before the first press.
    pub provisioned: u32,
    /// Environments that the account may have.
    pub concurrency: u32,
    /// Requests a second that the gateway lets through.
    pub gateway: f64,
}

/// One second of it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Second {
    /// Presses, with those of buyers who came back.
    pub presses: u32,
    /// Accepted.
    pub accepted: u32,
    /// Told that everything is sold.
    pub refused: u32,
    /// Told to come later.
    pub later: u32,
    /// Environments at the end of it.
    pub environments: f64,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Second by second.
    pub seconds: Vec<Second>,
    /// When the last unit went; `None`: some are left.
    pub sold_out_after_s: Option<f64>,
    /// Buyers who were told "later" until they gave up.
    pub gave_up: u32,
    /// Presses answered "later" before the last unit was gone, of all presses until then.
    pub later_while_selling: (u64, u64),
    /// Write units of presses.
    pub writes: f64,
    /// Calls that were throttled or in conflict.
    pub throttled: u64,
    /// From the press to the 202.
    pub accepted_in: Latency,
    /// From the press to "sold out".
    pub refused_in: Latency,
    /// Milliseconds of the function that are billed.
    pub billed_ms: f64,
}

impl Outcome {
    /// A figure of all seconds together.
    pub fn all(&self, figure: impl Fn(&Second) -> u32) -> u64 {
        self.seconds.iter().map(|second| u64::from(figure(second))).sum()
    }
}

/// A press under way.
#[derive(Clone, Copy, Debug)]
struct Press {
    buyer: u64,
    began_step: usize,
    /// How often the buyer may come back.
    returns: u32,
    doing: Doing,
    /// Tries of the call that is under way.
    tries: u32,
    /// Milliseconds of work so far, without waits.
    worked_ms: f64,
    is_cold: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    Arrives,
    Claims,
    /// With the bucket, and how many were tried.
    Holds(u32, u32),
}

/// A sale being played.
pub struct Simulation<'a> {
    sale: &'a Sale,
    design: Design,
    writes: Writes,
    capacity: Capacity,
    dice: Dice,
    /// Presses that do something at a step.
    due: Vec<Vec<Press>>,
    claims: Table,
    stock: Table,
    shelf: Shelf,
    /// Transactions that the hot item still takes.
    transactions: f64,
    /// Requests that the gateway, and the environments, still take in this step.
    gateway: f64,
    requests: f64,
    environments: f64,
    /// Environments that may still be added.
    burst: f64,
    outcome: Outcome,
}

impl<'a> Simulation<'a> {
    /// Before the first press.
    pub fn new(sale: &'a Sale, design: Design, writes: Writes, capacity: Capacity) -> Self {
        let buckets = match design {
            Design::Buckets => Segment::new(sale.units, 1, None).buckets(),
            Design::Counter | Design::Transaction => 1,
        };
        Self {
            sale,
            design,
            writes,
            capacity,
            dice: Dice::new(1),
            due: Vec::new(),
            claims: Table::warm(capacity.warm_writes),
            stock: Table::warm(capacity.warm_writes),
            shelf: Shelf::new(sale.units, buckets),
            transactions: 0.0,
            gateway: 0.0,
            requests: 0.0,
            environments: f64::from(capacity.provisioned),
            burst: LAMBDA_BURST,
            outcome: Outcome::default(),
        }
    }

    /// Plays it until the last press is answered.
    pub fn play(mut self) -> Outcome {
        let (mut step, mut come) = (0_usize, 0_u32);
        let last = usize::try_from(self.sale.seconds).unwrap_or(0) * STEPS_PER_SECOND;
        while step < last || step < self.due.len() {
            self.begin(step);
            let by = self.sale.come_by(seconds(step + 1));
            while f64::from(come) + 0.5 < by {
                let press = Press {
                    buyer: u64::from(come),
                    began_step: step,
                    returns: self.sale.comes_back,
                    doing: Doing::Arrives,
                    tries: 0,
                    worked_ms: 0.0,
                    is_cold: false,
                };
                come += 1;
                self.act(press, step);
            }
            let due = self.due.get_mut(step).map(std::mem::take).unwrap_or_default();
            for press in due {
                self.act(press, step);
            }
            step += 1;
        }
        self.outcome
    }

    fn begin(&mut self, step: usize) {
        self.claims.tick(STEP_S);
        self.stock.tick(STEP_S);
        self.shelf.forget(step.saturating_sub(steps(PAGE_BEHIND_MS)));
        // No more than one is saved up, and no fraction of it is lost.
        self.transactions = (self.transactions + HOT_TRANSACTIONS * STEP_S).min(1.0 + HOT_TRANSACTIONS * STEP_S);
        // A burst of half a second's worth, as the template has it.
        self.gateway = (self.gateway + self.capacity.gateway * STEP_S).min(self.capacity.gateway / 2.0);
        self.burst = (self.burst + LAMBDA_BURST / LAMBDA_BURST_SECONDS * STEP_S).min(LAMBDA_BURST);
        self.requests = self.requests.min(1.0) + self.environments * LAMBDA_REQUESTS_PER_ENVIRONMENT * STEP_S;
        let now = step / STEPS_PER_SECOND;
        if self.outcome.seconds.len() <= now {
            self.outcome.seconds.resize(now + 1, Second::default());
        }
        let environments = self.environments;
        self.count(step, |second| second.environments = environments);
    }

    fn count(&mut self, step: usize, change: impl FnOnce(&mut Second)) {
        if let Some(second) = self.outcome.seconds.get_mut(step / STEPS_PER_SECOND) {
            change(second);
        }
    }

    fn act(&mut self, mut press: Press, step: usize) {
        match press.doing {
            Doing::Arrives => {
                self.count(step, |second| second.presses += 1);
                if self.outcome.sold_out_after_s.is_none() {
                    self.outcome.later_while_selling.1 += 1;
                }
                press.began_step = step;
                (press.tries, press.worked_ms) = (0, 0.0);
                if !self.is_let_in(&mut press) {
                    return self.later(press, step);
                }
                if self.writes.has_gate && !self.shelf.seems_open() {
                    return self.refuse(press, step, REFUSAL_BILLED_MS);
                }
                press.doing = if self.writes.claim > 0.0 { Doing::Claims } else { self.first_hold() };
                self.act(press, step);
            }
            Doing::Claims => {
                if !self.call(&mut press, step, |tables, press| {
                    tables.claims.take(hash(press.buyer << 32), tables.writes.claim)
                }) {
                    return;
                }
                self.outcome.writes += self.writes.claim;
                press.doing = self.first_hold();
                self.act(press, step);
            }
            Doing::Holds(bucket, tried) => self.hold(press, bucket, tried, step),
        }
    }

    /// Gateway and Lambda: whether a request gets to a function.
    fn is_let_in(&mut self, press: &mut Press) -> bool {
        if self.gateway < 1.0 {
            return false;
        }
        self.gateway -= 1.0;
        if self.requests < 1.0 {
            // One more environment, for as many requests as it takes in this step.
            if self.burst < 1.0 || self.environments + 1.0 > f64::from(self.capacity.concurrency) {
                return false;
            }
            self.burst -= 1.0;
            self.environments += 1.0;
            self.requests += (LAMBDA_REQUESTS_PER_ENVIRONMENT * STEP_S).max(1.0);
            press.is_cold = true;
        }
        self.requests -= 1.0;
        true
    }

    /// A write that may be throttled: then it is tried again, by the SDK, after a while. False: not now.
    fn call(&mut self, press: &mut Press, step: usize, take: impl Fn(&mut Self, &Press) -> bool) -> bool {
        press.worked_ms += self.draw(WRITE);
        if take(self, press) {
            press.tries = 0;
            return true;
        }
        self.outcome.throttled += 1;
        press.tries += 1;
        if press.tries >= SDK_TRIES {
            self.later(*press, step);
        } else {
            let longest = SDK_FIRST_WAIT_MS * f64::from(1_u32 << (press.tries - 1));
            let wait = steps(longest * self.chance()).max(1);
            self.at(step + wait, *press);
        }
        false
    }

    fn first_hold(&mut self) -> Doing {
        let roll = self.dice.roll();
        Doing::Holds(self.shelf.guess(roll), 1)
    }

    fn hold(&mut self, mut press: Press, bucket: u32, tried: u32, step: usize) {
        if self.design == Design::Transaction {
            return self.transact(press, step);
        }
        if !self.call(&mut press, step, |tables, _| tables.stock.take(hash(u64::from(bucket)), tables.writes.hold)) {
            return;
        }
        self.outcome.writes += self.writes.hold;
        if self.shelf.take(bucket, step) {
            return self.accept(press, step);
        }
        // Empty: the next one, which is written into the claim first. After some the function looks into many at once.
        let roll = self.dice.roll();
        let next = if tried < READ_BUCKETS_AFTER { Some(self.shelf.guess(roll)) } else { self.shelf.look(roll) };
        self.outcome.writes += self.writes.claim;
        match next {
            _ if self.design == Design::Counter => self.refuse(press, step, 0.0),
            None => self.refuse(press, step, 0.0),
            Some(_) if tried >= BUCKETS_TRIED => self.later(press, step),
            Some(next) => {
                press.worked_ms += self.draw(WRITE);
                press.doing = Doing::Holds(next, tried + 1);
                self.act(press, step);
            }
        }
    }

    /// All or nothing, and nothing for whoever comes at the same moment. Charged either way.
    fn transact(&mut self, mut press: Press, step: usize) {
        press.worked_ms += self.draw(WRITE) * 2.0;
        self.outcome.writes += self.writes.hold;
        if !self.shelf.has_any() {
            return self.refuse(press, step, 0.0);
        }
        if self.transactions < 1.0 {
            self.outcome.throttled += 1;
            return self.later(press, step);
        }
        self.transactions -= 1.0;
        self.shelf.take(0, step);
        self.accept(press, step);
    }

    fn accept(&mut self, mut press: Press, step: usize) {
        press.worked_ms += self.draw(SEND);
        self.outcome.billed_ms += press.worked_ms;
        self.count(step, |second| second.accepted += 1);
        let took = self.took(&press, step);
        self.outcome.accepted_in.record(took);
        if !self.shelf.has_any() {
            self.outcome.sold_out_after_s.get_or_insert(seconds(step + 1));
        }
    }

    fn refuse(&mut self, mut press: Press, step: usize, worked_ms: f64) {
        press.worked_ms += worked_ms;
        self.outcome.billed_ms += press.worked_ms;
        self.count(step, |second| second.refused += 1);
        let took = self.took(&press, step);
        self.outcome.refused_in.record(took);
    }

    /// The buyer is told "later", and comes back or gives up.
    fn later(&mut self, mut press: Press, step: usize) {
        self.outcome.billed_ms += press.worked_ms;
        self.count(step, |second| second.later += 1);
        if self.outcome.sold_out_after_s.is_none() {
            self.outcome.later_while_selling.0 += 1;
        }
        if press.returns == 0 {
            self.outcome.gave_up += 1;
            return;
        }
        press.returns -= 1;
        press.doing = Doing::Arrives;
        press.is_cold = false;
        self.at(step + COME_BACK_STEPS, press);
    }

    fn at(&mut self, step: usize, press: Press) {
        if self.due.len() <= step {
            self.due.resize(step + 1, Vec::new());
        }
        if let Some(due) = self.due.get_mut(step) {
            due.push(press);
        }
    }

    /// From the buyer's press to the answer. Waits for tries are whole steps; the rest is drawn.
    fn took(&mut self, press: &Press, step: usize) -> Duration {
        let cold_ms = if press.is_cold { self.draw(COLD_START) } else { 0.0 };
        let waited_ms = seconds(step - press.began_step) * 1_000.0;
        Duration::from_secs_f64((self.draw(DOOR) + cold_ms + waited_ms + press.worked_ms) / 1_000.0)
    }

    /// Between 0 and 1.
    fn chance(&mut self) -> f64 {
        figures::float(self.dice.roll() >> 12) / figures::float(1 << 52)
    }

    /// A time: log-normal, through its two figures.
    fn draw(&mut self, takes: Takes) -> f64 {
        // Box and Muller's; the 99th of a hundred is 2.326 deviations out.
        let (one, two) = (self.chance().max(f64::MIN_POSITIVE), self.chance());
        let normal = (-2.0 * one.ln()).sqrt() * (std::f64::consts::TAU * two).cos();
        takes.p50_ms * (normal * (takes.p99_ms / takes.p50_ms).ln() / 2.326).exp()
    }
}

fn seconds(step: usize) -> f64 {
    figures::float(u64::try_from(step).unwrap_or(u64::MAX)) * STEP_S
}

/// Whole steps in so many milliseconds. Never large: a minute is 6,000.
fn steps(ms: f64) -> usize {
    let mut steps = 0;
    while seconds(steps + 1) * 1_000.0 <= ms {
        steps += 1;
    }
    steps
}

#[cfg(test)]
#[path = "simulate_tests.rs"]
mod tests;
