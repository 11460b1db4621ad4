//! One run: a stormy part in which anything may happen, then a calm in which everything must come right.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use domain::ids::{Offer, OrderId};
use futures::task::noop_waker;
use local_cloud::clock::Clock;
use local_cloud::engine::Service;
use local_cloud::engine::dynamodb::SequenceNumber;
use local_cloud::wire::{Fault, Replica, Wire};
use store::Store;
use testkit::scheduler::{Turns, act};
use testkit::world::{START_MS, World, engines, form, names};

use crate::actors::{Actor, Life, Payment, name};
use crate::check::{self, Watch};
use crate::choice::{Act, Choice, Step};
use crate::coverage::Coverage;
use crate::dice::Dice;
use crate::functions::{Environment, Function, Functions};
use crate::weather::Weather;

/// Every second buyer has so many points; the item costs 100.
pub const POINTS: i64 = 150;

/// What a run came to.
pub struct Run {
    /// Everything that happened, as it was drawn.
    pub steps: Vec<Step>,
    /// The same in words.
    pub history: Vec<String>,
    /// What was violated, if anything was.
    pub violation: Option<String>,
    /// What was reached.
    pub coverage: Coverage,
}

pub struct Sim {
    pub(crate) seed: u64,
    pub(crate) dice: Dice,
    pub(crate) weather: Weather,
    /// Watches, and does what nobody else does: its calls happen at once and without faults.
    pub(crate) observer: World,
    pub(crate) wire: Wire,
    pub(crate) replica: Option<Replica>,
    pub(crate) turns: Turns,
    pub(crate) offer: Offer,
    pub(crate) functions: Functions,
    pub(crate) actors: Vec<Actor>,
    /// Where the stream was read to, and where the reading that is under way will have come to.
    pub(crate) position: Option<SequenceNumber>,
    pub(crate) reading: Option<SequenceNumber>,
    /// Until when the pages were as old as what: the stream's oldest record that had not been read.
    pub(crate) pages: Vec<(i64, i64)>,
    /// Accepted orders by buyer, and the buyers in the order of their acceptance.
    pub(crate) orders: BTreeMap<usize, Vec<OrderId>>,
    pub(crate) payments: BTreeMap<usize, Vec<Payment>>,
    pub(crate) lately: Vec<usize>,
    pub(crate) answers: BTreeMap<(usize, String), OrderId>,
    /// What buyers have asked for, by who acts for them.
    pub(crate) asked: BTreeMap<u64, Act>,
    /// Actors who are slow, and who has just been refused something.
    pub(crate) slow: BTreeSet<u64>,
    pub(crate) refused: Option<u64>,
    /// Presses that got no clear answer: who, with which key, for how many.
    pub(crate) unsure: Vec<(usize, Option<String>, u32)>,
    /// Restocks that were asked for, by their keys, and those that were answered as done: each is one unit.
    pub(crate) restocks: BTreeSet<String>,
    pub(crate) restocked: BTreeSet<String>,
    /// Whether the sale was ever told to pause, and what each buyer's keys were used for.
    pub(crate) paused: bool,
    pub(crate) used: BTreeMap<(usize, String), BTreeSet<u32>>,
    pub(crate) watch: Watch,
    history: Vec<String>,
    pub(crate) coverage: Arc<Mutex<Coverage>>,
}

/// Runs a seed.
pub async fn run(seed: u64) -> Run {
    let mut sim = Sim::new(seed).await;
    let mut steps = Vec::new();
    let mut violation = None;
    for id in 1..=sim.weather.steps {
        let step = Step { id, choice: sim.draw().await };
        steps.push(step.clone());
        if let Err(violated) = sim.apply(&step).await {
            violation = Some(violated);
            break;
        }
    }
    sim.end(steps, violation).await
}

/// Runs what is left of a seed's steps.
pub async fn replay(seed: u64, steps: &[Step]) -> Run {
    let mut sim = Sim::new(seed).await;
    let mut violation = None;
    for step in steps {
        if let Err(violated) = sim.apply(step).await {
            violation = Some(violated);
            break;
        }
    }
    sim.end(steps.to_vec(), violation).await
}

impl Sim {
    async fn new(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let weather = Weather::of(&mut dice);
        Self::in_weather(seed, dice, weather).await
    }

    /// A world in which nothing happens by itself.
    pub(crate) async fn quiet() -> Self {
        Self::in_weather(0, Dice::new(0), Weather::quiet()).await
    }

    async fn in_weather(seed: u64, mut dice: Dice, weather: Weather) -> Self {
        act(0);
        let clock = Clock::driven(START_MS - 3_600_000);
        let mut plain = Wire::new(engines(&clock).await);
        let mut replica = None;
        if weather.is_stale() {
            let copy = Replica::new(engines(&clock).await);
            plain = plain.with_replica(copy.clone());
            replica = Some(copy);
        }
        let store = Store::new(&plain.sdk_config(), names());
        let observer = World::over(plain.clone(), store);
        let offer = set_up(&observer, &weather).await;
        if let Some(replica) = &replica {
            replica.catch_up(usize::MAX).await;
        }

        let turns = Turns::default();
        let wire = turns.on(plain);
        let coverage: Arc<Mutex<Coverage>> = Arc::default();
        let functions = Functions::new(clock, wire.clone(), coverage.clone(), weather.apart_ms, &mut dice);
        let watch = Watch::new(&observer, &offer).await.unwrap();
        Self {
            seed,
            dice,
            weather,
            observer,
            wire,
            replica,
            turns,
            offer,
            functions,
            actors: Vec::new(),
            position: None,
            reading: None,
            pages: Vec::new(),
            orders: BTreeMap::new(),
            payments: BTreeMap::new(),
            lately: Vec::new(),
            answers: BTreeMap::new(),
            asked: BTreeMap::new(),
            slow: BTreeSet::new(),
            refused: None,
            unsure: Vec::new(),
            restocks: BTreeSet::new(),
            restocked: BTreeSet::new(),
            paused: false,
            used: BTreeMap::new(),
            watch,
            history: Vec::new(),
            coverage,
        }
    }

    async fn end(mut self, steps: Vec<Step>, mut violation: Option<String>) -> Run {
        if violation.is_none() {
            violation = self.calm().await.err();
        }
        let coverage = self.coverage.lock().unwrap().clone();
        Run { steps, history: self.history, violation, coverage }
    }

    /// Lets one thing happen. What is said of somebody who is not there any more means nothing.
    async fn apply(&mut self, step: &Step) -> Result<(), String> {
        act(0);
        let applied = match &step.choice {
            Choice::Begin(deed) => {
                self.note(step.to_string());
                self.begin(step.id, deed).await
            }
            Choice::Call { actor, nth, fault } => self.call(*actor, *nth, *fault).await,
            Choice::Dies { actor } => {
                self.dies(*actor, "dies");
                Ok(())
            }
            Choice::Arrives { which } => self.arrives(*which).await,
            Choice::CatchesUp { writes } => {
                if let Some(replica) = &self.replica {
                    replica.catch_up(*writes).await;
                    self.note(step.to_string());
                }
                Ok(())
            }
            Choice::Passes { ms } => {
                self.note(step.to_string());
                self.pass(*ms);
                Ok(())
            }
        };
        applied?;
        self.poll_all()
    }

    /// Carries out one of the calls that an actor waits with.
    pub(crate) async fn call(&mut self, actor: u64, nth: usize, fault: Fault) -> Result<(), String> {
        let Some(waiting) = self.turns.take_one_of(actor, nth) else { return Ok(()) };
        let call = waiting.call.clone();
        self.note(format!("{actor} {} {}: {fault:?}", call.operation, call.resource().unwrap_or_default()));
        self.mark("calls");
        waiting.grant(fault);
        self.poll(actor)?;
        act(0);
        let last = self.wire.last_call();
        // Not every fault can befall every call.
        if let Some(carried) = last.as_ref().filter(|last| last.number == call.number) {
            self.mark(format!("fault {:?}", carried.fault));
        }
        self.refused = last.filter(|last| last.status == Some(400)).map(|_| actor);
        let is_read = ["Get", "Query", "Scan", "BatchGet"].iter().any(|read| call.operation.starts_with(read));
        match call.service {
            Service::DynamoDb if !is_read => self.watch.check(&self.observer, &call.tables()).await,
            Service::Provider if call.operation == "Refund" => check::money(&self.observer).await,
            _ => Ok(()),
        }
    }

    pub(crate) async fn arrives(&mut self, which: usize) -> Result<(), String> {
        let Some(call) = self.wire.arrive(which).await else { return Ok(()) };
        self.note(format!("a late {} {} arrives", call.operation, call.resource().unwrap_or_default()));
        self.watch.check(&self.observer, &call.tables()).await?;
        check::money(&self.observer).await
    }

    pub(crate) fn pass(&mut self, ms: u64) {
        self.watch.note_shortage(self.observer.clock.now_ms());
        self.observer.clock.advance(Duration::from_millis(ms));
        let now_ms = self.observer.clock.now_ms();
        let is_over =
            |actor: &&Actor| u128::from(now_ms.abs_diff(actor.began_ms)) > actor.environment.0.timeout().as_millis();
        // That no press lives for minutes is a part of the protocol: a claim that old is nobody's.
        let is_stopped = |actor: &&Actor| self.weather.timeouts || actor.environment.0 == Function::Seckill;
        let over = self.actors.iter().filter(is_over).filter(is_stopped).map(|actor| actor.id);
        over.collect::<Vec<u64>>().into_iter().for_each(|actor| self.dies(actor, "times out"));
    }

    /// A process dies: whatever it was doing ends between two calls, and its memory is gone.
    pub(crate) fn dies(&mut self, actor: u64, how: &str) {
        let Some(which) = self.actors.iter().position(|other| other.id == actor) else { return };
        let dead = self.actors.swap_remove(which);
        self.note(format!("{} {actor} {how}", dead.environment.0.name()));
        self.turns.forget(actor);
        if dead.environment.0 == Function::Availability {
            self.reading = None;
        }
        self.functions.restart(dead.environment);
        self.mark(how);
    }

    pub(crate) fn start(&mut self, id: u64, environment: Environment, life: Life) -> Result<(), String> {
        let random = Dice::new(self.seed ^ id.wrapping_mul(0x9E37_79B9)).roll();
        self.functions.set_random(random);
        self.actors.push(Actor { id, environment, began_ms: self.observer.clock.now_ms(), life });
        // What it does before its first call, with its random bits.
        self.poll(id)
    }

    pub(crate) fn poll_all(&mut self) -> Result<(), String> {
        let idle = |id: &u64| !self.turns.is_waiting(*id);
        let ids: Vec<u64> = self.actors.iter().map(|actor| actor.id).filter(idle).collect();
        ids.into_iter().try_for_each(|id| self.poll(id))
    }

    /// Lets an actor go on until it waits for a call, or for another actor's, or ends.
    fn poll(&mut self, id: u64) -> Result<(), String> {
        let waker = noop_waker();
        let mut context = Context::from_waker(&waker);
        for _ in 0..16 {
            let Some(place) = self.actors.iter().position(|actor| actor.id == id) else { return Ok(()) };
            act(id);
            let polled = self.actors[place].life.as_mut().poll(&mut context);
            act(0);
            if let Poll::Ready(outcome) = polled {
                let actor = self.actors.swap_remove(place);
                self.note(format!("{} {id}: {outcome}", actor.environment.0.name()));
                return self.ended(outcome);
            }
            if self.turns.is_waiting(id) {
                return Ok(());
            }
        }
        Ok(())
    }

    pub(crate) fn is_acting(&self, id: u64) -> bool {
        self.actors.iter().any(|actor| actor.id == id)
    }

    pub(crate) fn history(&self) -> &[String] {
        &self.history
    }

    pub(crate) fn note(&mut self, what: String) {
        self.history.push(what);
    }

    pub(crate) fn mark(&self, what: impl Into<String>) {
        self.coverage.lock().unwrap().mark(what);
    }
}

/// Small buckets, so that they run empty and purchases have to move; and points for every second buyer.
async fn set_up(observer: &World, weather: &Weather) -> Offer {
    let offer = Offer { sale: "sale".parse().unwrap(), item: "phone".parse().unwrap() };
    let mut form = form(weather.stocks[0], 2);
    form.payment_window_s = 60;
    form.ends_at = form.starts_at.saturating_add(jiff::SignedDuration::from_hours(24)).unwrap();
    form.items[0].points_price = Some(100);
    flows::sale::set_up::create(&observer.store, offer.sale.clone(), form, observer.now()).await.unwrap();
    observer.preheat(&offer).await;
    for (more, quantity) in weather.stocks.iter().enumerate().skip(1) {
        observer.restock(&offer, *quantity, Some(&format!("more-{more}"))).await;
    }
    // Whatever clock a function has, the sale has started.
    observer.clock.advance(Duration::from_secs(3_660));
    for buyer in (0..weather.buyers).step_by(2) {
        observer.points(&name(buyer), POINTS).await;
    }
    offer
}
