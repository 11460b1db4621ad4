//! Simulates a sale in steps of ten milliseconds: arrivals, the limits of the gateway, Lambda and the tables, answers.
//!
//! The simulation is deterministic. Partitions and hot keys are simulated call by call; the time of a call is drawn
//! from the distributions in `facts`. Unlike the real function, a simulated one does not remember which buckets it
//! found empty, so the writes without effect around the last unit are an upper bound.

use std::time::Duration;

use domain::bucket::Segment;
use figures::Latency;
use flows::buy::purchase::{BUCKETS_TRIED, READ_BUCKETS_AFTER};
use testkit::rng::Rng;

use crate::design::{Design, Writes};
use crate::facts::{
    COLD_START, GATEWAY_ROUND_TRIP, HOT_TRANSACTIONS, LAMBDA_BURST, LAMBDA_BURST_SECONDS,
    LAMBDA_REQUESTS_PER_ENVIRONMENT, PAGE_BEHIND_MS, REFUSAL_BILLED_MS, SDK_FIRST_WAIT_MS, SDK_TRIES, SEND, Takes,
    WRITE,
};
use crate::partitions::{Table, hash};
use crate::sale::Sale;
use crate::stock::Stock;

/// The length of one step in seconds.
const STEP_S: f64 = 0.01;
const STEPS_PER_SECOND: usize = 100;
/// How long a buyer waits before a retry.
const RETRY_STEPS: usize = 100;

/// The capacity that the sale runs on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Capacity {
    /// Write units per second that each table accepts from the start.
    pub warm_writes: u32,
    /// Environments that exist before the first request.
    pub provisioned: u32,
    /// The most environments.
    pub concurrency: u32,
    /// Requests per second that the gateway lets through.
    pub gateway: f64,
}

/// One second of the sale.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Second {
    /// Purchase requests, including retries.
    pub presses: u32,
    pub accepted: u32,
    /// Answered with SOLD_OUT.
    pub refused: u32,
    /// Answered with 429 or 503.
    pub later: u32,
    /// Environments at the end of the second.
    pub environments: f64,
}

/// The result of a simulated sale.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    pub seconds: Vec<Second>,
    /// When the last unit was sold. `None` if units are left.
    pub sold_out_after_s: Option<f64>,
    /// Buyers who got no definite answer and have no retry left.
    pub gave_up: u32,
    /// Requests answered with 429 or 503 before everything was sold, and all requests until then.
    pub later_while_selling: (u64, u64),
    /// Write units of purchase requests.
    pub writes: f64,
    /// Calls that were throttled or failed with a conflict.
    pub throttled: u64,
    /// The latency of a 202.
    pub accepted_in: Latency,
    /// The latency of SOLD_OUT.
    pub refused_in: Latency,
    /// The billed time of the function.
    pub billed_ms: f64,
}

impl Outcome {
    /// The sum of a figure over all seconds.
    pub fn all(&self, figure: impl Fn(&Second) -> u32) -> u64 {
        self.seconds.iter().map(|second| u64::from(figure(second))).sum()
    }
}

/// A purchase request in flight.
#[derive(Clone, Copy, Debug)]
struct Request {
    buyer: u64,
    began_step: usize,
    /// How many retries the buyer has left.
    returns: u32,
    doing: Doing,
    /// Attempts of the current call.
    tries: u32,
    /// The time worked so far, without waits.
    worked_ms: f64,
    is_cold: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    Arrives,
    Claims,
    /// The bucket, and how many were tried.
    Holds(u32, u32),
}

/// The state of a simulated sale.
pub struct Simulation<'a> {
    sale: &'a Sale,
    design: Design,
    writes: Writes,
    capacity: Capacity,
    rng: Rng,
    /// The requests that continue at each step.
    due: Vec<Vec<Request>>,
    claims: Table,
    stock: Table,
    units: Stock,
    /// Transactions that the hot row still accepts.
    transactions: f64,
    /// Requests that the gateway and the environments still accept in this step.
    gateway: f64,
    requests: f64,
    environments: f64,
    /// Environments that may still be added.
    burst: f64,
    outcome: Outcome,
}

impl<'a> Simulation<'a> {
    /// The state before the first request.
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
            rng: Rng::new(1),
            due: Vec::new(),
            claims: Table::warm(capacity.warm_writes),
            stock: Table::warm(capacity.warm_writes),
            units: Stock::new(sale.units, buckets),
            transactions: 0.0,
            gateway: 0.0,
            requests: 0.0,
            environments: f64::from(capacity.provisioned),
            burst: LAMBDA_BURST,
            outcome: Outcome::default(),
        }
    }

    /// Runs until the last request is answered.
    pub fn play(mut self) -> Outcome {
        let (mut step, mut come) = (0_usize, 0_u32);
        let last = usize::try_from(self.sale.seconds).unwrap_or(0) * STEPS_PER_SECOND;
        while step < last || step < self.due.len() {
            self.begin(step);
            let by = self.sale.come_by(seconds(step + 1));
            while f64::from(come) + 0.5 < by {
                let request = Request {
                    buyer: u64::from(come),
                    began_step: step,
                    returns: self.sale.comes_back,
                    doing: Doing::Arrives,
                    tries: 0,
                    worked_ms: 0.0,
                    is_cold: false,
                };
                come += 1;
                self.act(request, step);
            }
            let due = self.due.get_mut(step).map(std::mem::take).unwrap_or_default();
            for request in due {
                self.act(request, step);
            }
            step += 1;
        }
        self.outcome
    }

    fn begin(&mut self, step: usize) {
        self.claims.tick(STEP_S);
        self.stock.tick(STEP_S);
        self.units.forget(step.saturating_sub(steps(PAGE_BEHIND_MS)));
        // At most one accumulates, and no fraction of it is lost.
        self.transactions = (self.transactions + HOT_TRANSACTIONS * STEP_S).min(1.0 + HOT_TRANSACTIONS * STEP_S);
        // A burst of half a second, as in the template.
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

    fn act(&mut self, mut request: Request, step: usize) {
        match request.doing {
            Doing::Arrives => {
                self.count(step, |second| second.presses += 1);
                if self.outcome.sold_out_after_s.is_none() {
                    self.outcome.later_while_selling.1 += 1;
                }
                request.began_step = step;
                (request.tries, request.worked_ms) = (0, 0.0);
                if !self.is_let_in(&mut request) {
                    return self.later(request, step);
                }
                if self.writes.refuses_from_memory && !self.units.seems_open() {
                    return self.refuse(request, step, REFUSAL_BILLED_MS);
                }
                request.doing = if self.writes.claim > 0.0 { Doing::Claims } else { self.first_hold() };
                self.act(request, step);
            }
            Doing::Claims => {
                if !self.call(&mut request, step, |tables, request| {
                    tables.claims.take(hash(request.buyer << 32), tables.writes.claim)
                }) {
                    return;
                }
                self.outcome.writes += self.writes.claim;
                request.doing = self.first_hold();
                self.act(request, step);
            }
            Doing::Holds(bucket, tried) => self.hold(request, bucket, tried, step),
        }
    }

    /// Whether a request gets through the gateway and Lambda to a function.
    fn is_let_in(&mut self, request: &mut Request) -> bool {
        if self.gateway < 1.0 {
            return false;
        }
        self.gateway -= 1.0;
        if self.requests < 1.0 {
            // Adds an environment, for as many requests as it accepts in this step.
            if self.burst < 1.0 || self.environments + 1.0 > f64::from(self.capacity.concurrency) {
                return false;
            }
            self.burst -= 1.0;
            self.environments += 1.0;
            self.requests += (LAMBDA_REQUESTS_PER_ENVIRONMENT * STEP_S).max(1.0);
            request.is_cold = true;
        }
        self.requests -= 1.0;
        true
    }

    /// A write that may be throttled. The SDK then retries it later, and this returns false.
    fn call(&mut self, request: &mut Request, step: usize, take: impl Fn(&mut Self, &Request) -> bool) -> bool {
        request.worked_ms += self.draw(WRITE);
        if take(self, request) {
            request.tries = 0;
            return true;
        }
        self.outcome.throttled += 1;
        request.tries += 1;
        if request.tries >= SDK_TRIES {
            self.later(*request, step);
        } else {
            let longest = SDK_FIRST_WAIT_MS * f64::from(1_u32 << (request.tries - 1));
            let wait = steps(longest * self.chance()).max(1);
            self.at(step + wait, *request);
        }
        false
    }

    fn first_hold(&mut self) -> Doing {
        let roll = self.rng.next_u64();
        Doing::Holds(self.units.guess(roll), 1)
    }

    fn hold(&mut self, mut request: Request, bucket: u32, tried: u32, step: usize) {
        if self.design == Design::Transaction {
            return self.transact(request, step);
        }
        if !self.call(&mut request, step, |tables, _| tables.stock.take(hash(u64::from(bucket)), tables.writes.hold)) {
            return;
        }
        self.outcome.writes += self.writes.hold;
        if self.units.take(bucket, step) {
            return self.accept(request, step);
        }
        // The bucket is empty. The function writes the next one into the claim first, and after some attempts it reads
        // many buckets at once.
        let roll = self.rng.next_u64();
        let next = if tried < READ_BUCKETS_AFTER { Some(self.units.guess(roll)) } else { self.units.look(roll) };
        self.outcome.writes += self.writes.claim;
        match next {
            _ if self.design == Design::Counter => self.refuse(request, step, 0.0),
            None => self.refuse(request, step, 0.0),
            Some(_) if tried >= BUCKETS_TRIED => self.later(request, step),
            Some(next) => {
                request.worked_ms += self.draw(WRITE);
                request.doing = Doing::Holds(next, tried + 1);
                self.act(request, step);
            }
        }
    }

    /// A transaction fails if another one runs at the same time, and is charged either way.
    fn transact(&mut self, mut request: Request, step: usize) {
        request.worked_ms += self.draw(WRITE) * 2.0;
        self.outcome.writes += self.writes.hold;
        if !self.units.has_any() {
            return self.refuse(request, step, 0.0);
        }
        if self.transactions < 1.0 {
            self.outcome.throttled += 1;
            return self.later(request, step);
        }
        self.transactions -= 1.0;
        self.units.take(0, step);
        self.accept(request, step);
    }

    fn accept(&mut self, mut request: Request, step: usize) {
        request.worked_ms += self.draw(SEND);
        self.outcome.billed_ms += request.worked_ms;
        self.count(step, |second| second.accepted += 1);
        let took = self.took(&request, step);
        self.outcome.accepted_in.record(took);
        if !self.units.has_any() {
            self.outcome.sold_out_after_s.get_or_insert(seconds(step + 1));
        }
    }

    fn refuse(&mut self, mut request: Request, step: usize, worked_ms: f64) {
        request.worked_ms += worked_ms;
        self.outcome.billed_ms += request.worked_ms;
        self.count(step, |second| second.refused += 1);
        let took = self.took(&request, step);
        self.outcome.refused_in.record(took);
    }

    /// The request is answered with 429 or 503, and the buyer retries or gives up.
    fn later(&mut self, mut request: Request, step: usize) {
        self.outcome.billed_ms += request.worked_ms;
        self.count(step, |second| second.later += 1);
        if self.outcome.sold_out_after_s.is_none() {
            self.outcome.later_while_selling.0 += 1;
        }
        if request.returns == 0 {
            self.outcome.gave_up += 1;
            return;
        }
        request.returns -= 1;
        request.doing = Doing::Arrives;
        request.is_cold = false;
        self.at(step + RETRY_STEPS, request);
    }

    fn at(&mut self, step: usize, request: Request) {
        if self.due.len() <= step {
            self.due.resize(step + 1, Vec::new());
        }
        if let Some(due) = self.due.get_mut(step) {
            due.push(request);
        }
    }

    /// The latency of a request. Waits for retries are whole steps; the rest is drawn.
    fn took(&mut self, request: &Request, step: usize) -> Duration {
        let cold_ms = if request.is_cold { self.draw(COLD_START) } else { 0.0 };
        let waited_ms = seconds(step - request.began_step) * 1_000.0;
        Duration::from_secs_f64((self.draw(GATEWAY_ROUND_TRIP) + cold_ms + waited_ms + request.worked_ms) / 1_000.0)
    }

    /// A random number between 0 and 1.
    fn chance(&mut self) -> f64 {
        figures::float(self.rng.next_u64() >> 12) / figures::float(1 << 52)
    }

    /// Draws a time from a log-normal distribution with these percentiles.
    fn draw(&mut self, takes: Takes) -> f64 {
        // The Box-Muller transform. The 99th percentile is 2.326 standard deviations above the median.
        let (one, two) = (self.chance().max(f64::MIN_POSITIVE), self.chance());
        let normal = (-2.0 * one.ln()).sqrt() * (std::f64::consts::TAU * two).cos();
        takes.p50_ms * (normal * (takes.p99_ms / takes.p50_ms).ln() / 2.326).exp()
    }
}

fn seconds(step: usize) -> f64 {
    figures::float(u64::try_from(step).unwrap_or(u64::MAX)) * STEP_S
}

/// Whole steps in this many milliseconds. The result is small: a minute has 6,000 steps.
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
