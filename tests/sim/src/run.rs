//! One run of a seed: first a faulty phase in which anything may happen, then a settling phase without faults, after
//! which everything must be correct.

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
use testkit::scheduler::{CallScheduler, set_actor};
use testkit::world::{START_MS, World, engines, form, names};

use crate::actors::{Actor, Invocation, Payment, name};
use crate::check::{self, SafetyMonitor};
use crate::choice::{Action, Choice, Step};
use crate::conditions::Conditions;
use crate::coverage::Coverage;
use crate::functions::{Environment, Function, Functions};
use crate::rng::Rng;

/// The points that every second buyer starts with. The item costs 100.
pub const POINTS: i64 = 150;

/// The result of a run.
pub struct Run {
    /// The choices that were made; [`replay`] takes them.
    pub steps: Vec<Step>,
    /// What happened, in words.
    pub history: Vec<String>,
    pub violation: Option<String>,
    pub coverage: Coverage,
}

/// A press that was answered SOLD_OUT.
#[derive(Clone, Debug)]
pub(crate) struct SoldOut {
    pub(crate) buyer: usize,
    pub(crate) key: Option<String>,
    pub(crate) quantity: u32,
    /// The running function that refused it.
    pub(crate) environment: usize,
    /// The availability version that a storefront showed at the time.
    pub(crate) version: u64,
}

pub struct Sim {
    pub(crate) seed: u64,
    pub(crate) rng: Rng,
    pub(crate) conditions: Conditions,
    /// Reads the tables and makes the settling phase's deliveries. Its calls happen at once and without faults.
    pub(crate) observer: World,
    pub(crate) wire: Wire,
    pub(crate) replica: Option<Replica>,
    pub(crate) calls: CallScheduler,
    pub(crate) offer: Offer,
    pub(crate) functions: Functions,
    pub(crate) actors: Vec<Actor>,
    /// How far the stream was read, and how far the batch in flight reaches.
    pub(crate) position: Option<SequenceNumber>,
    pub(crate) reading: Option<SequenceNumber>,
    /// For each batch of the stream: when it was handled, and the time of the oldest record that was unread until
    /// then.
    pub(crate) pages: Vec<(i64, i64)>,
    /// Accepted orders by buyer.
    pub(crate) orders: BTreeMap<usize, Vec<OrderId>>,
    pub(crate) payments: BTreeMap<usize, Vec<Payment>>,
    /// Buyers in the order in which they were accepted.
    pub(crate) recent_buyers: Vec<usize>,
    pub(crate) answers: BTreeMap<(usize, String), OrderId>,
    /// Requests of buyers, by the actor that handles them.
    pub(crate) requests: BTreeMap<u64, Action>,
    /// Actors whose calls wait while others proceed.
    pub(crate) slow: BTreeSet<u64>,
    /// The actor whose last call failed its condition.
    pub(crate) refused: Option<u64>,
    /// Presses that were answered UNAVAILABLE: buyer, key and quantity.
    pub(crate) unanswered: Vec<(usize, Option<String>, u32)>,
    /// Presses that were answered SOLD_OUT and may be repeated.
    pub(crate) sold_out: Vec<SoldOut>,
    /// The keys of requested restocks, and of those that were answered with success. Each restock is one unit.
    pub(crate) restocks: BTreeSet<String>,
    pub(crate) restocked: BTreeSet<String>,
    /// Saved edits: the new name, by the version that was read.
    pub(crate) edits: BTreeMap<u64, String>,
    /// The quantities that accepted orders were answered with.
    pub(crate) quantities: BTreeMap<OrderId, u32>,
    /// The row that a newer release has written.
    pub(crate) newer_row: Option<(String, crate::actions::RowKey)>,
    /// Whether the sale was ever paused.
    pub(crate) paused: bool,
    /// The quantities that each buyer's keys were used with.
    pub(crate) key_uses: BTreeMap<(usize, String), BTreeSet<u32>>,
    pub(crate) safety: SafetyMonitor,
    history: Vec<String>,
    pub(crate) coverage: Arc<Mutex<Coverage>>,
}

/// How many copies the pages of open buckets have in a seed: most sales have none.
fn page_copies(seed: u64) -> u32 {
    u32::try_from(seed % 3).unwrap_or(0)
}

/// Runs a seed.
pub async fn run(seed: u64) -> Run {
    let mut sim = Sim::new(seed).await;
    let mut steps = Vec::new();
    let mut violation = None;
    for id in 1..=sim.conditions.steps {
        let step = Step { id, choice: sim.draw().await };
        steps.push(step.clone());
        if let Err(violated) = sim.apply(&step).await {
            violation = Some(violated);
            break;
        }
    }
    sim.end(steps, violation).await
}

/// Replays some of a seed's steps.
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
        let mut rng = Rng::new(seed);
        let conditions = Conditions::draw(&mut rng);
        Self::with_conditions(seed, rng, conditions).await
    }

    /// A simulation in which nothing happens by itself.
    pub(crate) async fn scripted() -> Self {
        Self::with_conditions(0, Rng::new(0), Conditions::scripted()).await
    }

    async fn with_conditions(seed: u64, mut rng: Rng, conditions: Conditions) -> Self {
        set_actor(0);
        let clock = Clock::driven(START_MS - 3_600_000);
        let mut plain = Wire::new(engines(&clock).await);
        let mut replica = None;
        if conditions.is_stale() {
            let copy = Replica::new(engines(&clock).await);
            plain = plain.with_replica(copy.clone());
            replica = Some(copy);
        }
        let store = Store::new(&plain.sdk_config(), names());
        let observer = World::over(plain.clone(), store).with_page_copies(page_copies(seed));
        let offer = set_up(&observer, &conditions).await;
        if let Some(replica) = &replica {
            replica.catch_up(usize::MAX).await;
        }

        let calls = CallScheduler::default();
        let wire = calls.on(plain);
        let coverage: Arc<Mutex<Coverage>> = Arc::default();
        let functions = Functions::new(&observer, wire.clone(), coverage.clone(), conditions.clock_skew_ms, &mut rng);
        let safety = SafetyMonitor::new(&observer, &offer).await.unwrap();
        Self {
            seed,
            rng,
            conditions,
            observer,
            wire,
            replica,
            calls,
            offer,
            functions,
            actors: Vec::new(),
            position: None,
            reading: None,
            pages: Vec::new(),
            orders: BTreeMap::new(),
            payments: BTreeMap::new(),
            recent_buyers: Vec::new(),
            answers: BTreeMap::new(),
            requests: BTreeMap::new(),
            slow: BTreeSet::new(),
            refused: None,
            unanswered: Vec::new(),
            sold_out: Vec::new(),
            restocks: BTreeSet::new(),
            restocked: BTreeSet::new(),
            edits: BTreeMap::new(),
            quantities: BTreeMap::new(),
            newer_row: None,
            paused: false,
            key_uses: BTreeMap::new(),
            safety,
            history: Vec::new(),
            coverage,
        }
    }

    async fn end(mut self, steps: Vec<Step>, mut violation: Option<String>) -> Run {
        if violation.is_none() {
            violation = self.settle_and_check().await.err();
        }
        let coverage = self.coverage.lock().unwrap().clone();
        Run { steps, history: self.history, violation, coverage }
    }

    /// Applies one step. A step about an actor that no longer exists has no effect.
    async fn apply(&mut self, step: &Step) -> Result<(), String> {
        set_actor(0);
        let applied = match &step.choice {
            Choice::Start(action) => {
                self.note(step.to_string());
                self.begin(step.id, action).await
            }
            Choice::Call { actor, nth, fault } => self.call(*actor, *nth, *fault).await,
            Choice::Crash { actor } => {
                self.crash(*actor, "crashes");
                Ok(())
            }
            Choice::LateCallArrives { which } => self.late_call_arrives(*which).await,
            Choice::ReplicaCatchesUp { writes } => {
                if let Some(replica) = &self.replica {
                    replica.catch_up(*writes).await;
                    self.note(step.to_string());
                }
                Ok(())
            }
            Choice::TimePasses { ms } => {
                self.note(step.to_string());
                self.pass(*ms);
                Ok(())
            }
        };
        applied?;
        self.poll_all()
    }

    /// Lets one of an actor's pending calls proceed, and checks the tables that it wrote to.
    pub(crate) async fn call(&mut self, actor: u64, nth: usize, fault: Fault) -> Result<(), String> {
        let Some(pending) = self.calls.take_nth_of(actor, nth) else { return Ok(()) };
        let call = pending.call.clone();
        self.note(format!("{actor} {} {}: {fault:?}", call.operation, call.resource().unwrap_or_default()));
        self.mark("calls");
        pending.proceed(fault);
        self.poll(actor)?;
        set_actor(0);
        let last = self.wire.last_call();
        // The wire may have ignored the fault: not every call can meet every fault.
        if let Some(carried) = last.as_ref().filter(|last| last.number == call.number) {
            self.mark(format!("fault {:?}", carried.fault));
        }
        self.refused = last.filter(|last| last.status == Some(400)).map(|_| actor);
        let is_read = ["Get", "Query", "Scan", "BatchGet"].iter().any(|read| call.operation.starts_with(read));
        match call.service {
            Service::DynamoDb if !is_read => self.safety.check(&self.observer, &call.tables()).await,
            Service::Outside if call.operation == "Refund" => check::check_refunds(&self.observer).await,
            _ => Ok(()),
        }
    }

    /// A call whose caller has given up reaches its service.
    pub(crate) async fn late_call_arrives(&mut self, which: usize) -> Result<(), String> {
        let Some(call) = self.wire.arrive(which).await else { return Ok(()) };
        self.note(format!("late call {} {} arrives", call.operation, call.resource().unwrap_or_default()));
        self.safety.check(&self.observer, &call.tables()).await?;
        check::check_refunds(&self.observer).await
    }

    pub(crate) fn pass(&mut self, ms: u64) {
        self.safety.note_shortage(self.observer.clock.now_ms());
        self.observer.clock.advance(Duration::from_millis(ms));
        let now_ms = self.observer.clock.now_ms();
        let is_over =
            |actor: &&Actor| u128::from(now_ms.abs_diff(actor.began_ms)) > actor.environment.0.timeout().as_millis();
        // The protocol relies on a press never running for minutes, so `seckill` always times out.
        let is_stopped = |actor: &&Actor| self.conditions.timeouts || actor.environment.0 == Function::Seckill;
        let over = self.actors.iter().filter(is_over).filter(is_stopped).map(|actor| actor.id);
        over.collect::<Vec<u64>>().into_iter().for_each(|actor| self.crash(actor, "times out"));
    }

    /// A process ends between two of its calls, and its memory is lost.
    pub(crate) fn crash(&mut self, actor: u64, how: &str) {
        let Some(which) = self.actors.iter().position(|other| other.id == actor) else { return };
        let dead = self.actors.swap_remove(which);
        self.note(format!("{} {actor} {how}", dead.environment.0.name()));
        self.calls.forget(actor);
        if dead.environment.0 == Function::Availability {
            self.reading = None;
        }
        self.functions.restart(dead.environment);
        self.mark(how);
    }

    pub(crate) fn start(&mut self, id: u64, environment: Environment, invocation: Invocation) -> Result<(), String> {
        let random = Rng::new(self.seed ^ id.wrapping_mul(0x9E37_79B9)).next_u64();
        self.functions.set_random(random);
        self.actors.push(Actor { id, environment, began_ms: self.observer.clock.now_ms(), invocation });
        // Runs to its first call, while the random bits that were just set are its own.
        self.poll(id)
    }

    pub(crate) fn poll_all(&mut self) -> Result<(), String> {
        let idle = |id: &u64| !self.calls.is_waiting(*id);
        let ids: Vec<u64> = self.actors.iter().map(|actor| actor.id).filter(idle).collect();
        ids.into_iter().try_for_each(|id| self.poll(id))
    }

    /// Polls an actor until it waits for a call, or for another actor, or ends.
    fn poll(&mut self, id: u64) -> Result<(), String> {
        let waker = noop_waker();
        let mut context = Context::from_waker(&waker);
        for _ in 0..16 {
            let Some(place) = self.actors.iter().position(|actor| actor.id == id) else { return Ok(()) };
            set_actor(id);
            let polled = self.actors[place].invocation.as_mut().poll(&mut context);
            set_actor(0);
            if let Poll::Ready(outcome) = polled {
                let actor = self.actors.swap_remove(place);
                self.note(format!("{} {id}: {outcome}", actor.environment.0.name()));
                return self.handle_outcome(outcome);
            }
            if self.calls.is_waiting(id) {
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

/// Sets up a sale with small buckets, so that they run empty and purchases have to move, and gives points to every
/// second buyer.
async fn set_up(observer: &World, conditions: &Conditions) -> Offer {
    let offer = Offer { sale: "sale".parse().unwrap(), item: "phone".parse().unwrap() };
    let mut form = form(conditions.stocks[0], 2);
    form.payment_window_s = 60;
    form.ends_at = form.starts_at.saturating_add(jiff::SignedDuration::from_hours(24)).unwrap();
    form.items[0].points_price = Some(100);
    flows::sale::set_up::create(&observer.store, offer.sale.clone(), form, observer.now()).await.unwrap();
    observer.preheat(&offer).await;
    for (more, quantity) in conditions.stocks.iter().enumerate().skip(1) {
        observer.restock(&offer, *quantity, Some(&format!("more-{more}"))).await;
    }
    // The sale has started on every function's clock.
    observer.clock.advance(Duration::from_secs(3_660));
    for buyer in (0..conditions.buyers).step_by(2) {
        observer.give_points(&name(buyer), POINTS).await;
    }
    offer
}
