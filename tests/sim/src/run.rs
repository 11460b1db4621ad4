//! One seed: a stormy part in which anything may happen, then a calm in which everything must come right.

mod acts;

use std::collections::BTreeMap;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use aws_config::retry::RetryConfig;
use domain::claim::{Claim, ClaimState};
use domain::ids::{Offer, OrderId};
use domain::order::{Order, Status};
use domain::sale::SaleChange;
use flows::purchase::Seckill;
use flows::start_payment::Started;
use futures::task::noop_waker;
use local_cloud::engine::dynamodb::SequenceNumber;
use local_cloud::engine::sqs::Sqs;
use local_cloud::wire::{Fault, Loss, Wire};
use seckill_tests::turns::{Turns, act};
use seckill_tests::world::{World, form, names};
use store::Store;

use crate::actors::{Actor, Outcome};
use crate::check::Seen;
use crate::dice::Dice;

const BUYERS: usize = 20;
const ENVIRONMENTS: usize = 4;
const STEPS: usize = 600;
/// Every second buyer has so many points; the item costs 100.
const POINTS: i64 = 150;
/// Everybody who is at it at the same time.
const ACTORS: usize = 6;
/// Lines of history shown for a seed that failed.
const SHOWN: usize = 80;

/// What can befall a call. Which of them do, and how often, is drawn for each seed.
const FAULTS: [Fault; 7] = [
    Fault::NotApplied(Loss::Io),
    Fault::AppliedButLost(Loss::Io),
    Fault::AppliedButServerError,
    Fault::Throttled,
    Fault::ServerError,
    Fault::TransactionConflict,
    Fault::Late,
];

/// What a seed did, for the totals.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    pub calls: usize,
    pub accepted: usize,
    pub crashes: usize,
    pub faults: BTreeMap<String, usize>,
    /// What buyers did in the sandbox.
    pub money: BTreeMap<&'static str, usize>,
    /// How orders ended.
    pub ends: BTreeMap<&'static str, usize>,
}

struct Sim {
    dice: Dice,
    world: Rc<World>,
    observer: World,
    turns: Turns,
    offer: Offer,
    actors: Vec<Actor>,
    environments: Vec<Rc<Seckill>>,
    next_actor: u64,
    faults: Vec<(Fault, u32)>,
    position: Option<SequenceNumber>,
    reading: Option<SequenceNumber>,
    answers: BTreeMap<(usize, String), OrderId>,
    last_key: BTreeMap<usize, String>,
    accepted: BTreeMap<OrderId, usize>,
    started: Vec<Started>,
    restocks: u32,
    seen: Seen,
    history: Vec<String>,
    tally: Tally,
}

/// Runs a seed. An error is what was violated, with the end of the history.
pub async fn run(seed: u64) -> Result<Tally, String> {
    let mut sim = Sim::new(seed).await;
    let result = match sim.storm().await {
        Ok(()) => sim.calm().await,
        violated => violated,
    };
    result.map(|()| sim.tally).map_err(|violation| {
        let from = sim.history.len().saturating_sub(SHOWN);
        format!("seed {seed}: {violation}\n  {}", sim.history[from..].join("\n  "))
    })
}

impl Sim {
    async fn new(seed: u64) -> Self {
        act(0);
        let observer = World::new().await;
        let offer = Offer { sale: "sale".parse().unwrap(), item: "phone".parse().unwrap() };
        let mut set_up = form(3, 2);
        set_up.payment_window_s = 60;
        set_up.ends_at = set_up.starts_at.saturating_add(jiff::SignedDuration::from_hours(24)).unwrap();
        set_up.items[0].points_price = Some(100);
        flows::set_up::create(&observer.store, offer.sale.clone(), set_up, observer.now()).await.unwrap();
        observer.preheat(&offer).await;
        // Three small buckets, so that they run empty and purchases have to move.
        observer.restock(&offer, 2, Some("one")).await;
        observer.restock(&offer, 2, Some("two")).await;
        observer.clock.advance(Duration::from_secs(3_600));
        for buyer in (0..BUYERS).step_by(2) {
            observer.points(&name(buyer), POINTS).await;
        }

        let turns = Turns::default();
        let wire = turns.on(Wire::new(observer.cloud.clone()));
        // Each fault reaches the flow itself: what the SDK's own retries get over is tested call by call elsewhere.
        let config = wire.sdk_config().to_builder().retry_config(RetryConfig::disabled()).build();
        let store = Store::new(&config, names());
        let mut dice = Dice::new(seed);
        let faults = FAULTS.iter().map(|fault| (*fault, [0, 0, 1, 5][dice.below(4)])).collect();
        let environments = (0..ENVIRONMENTS).map(|_| Rc::new(Seckill::new(store.clone()))).collect();
        Self {
            dice,
            world: Rc::new(World::over(wire, store)),
            observer,
            turns,
            offer,
            actors: Vec::new(),
            environments,
            next_actor: 0,
            faults,
            position: None,
            reading: None,
            answers: BTreeMap::new(),
            last_key: BTreeMap::new(),
            accepted: BTreeMap::new(),
            started: Vec::new(),
            restocks: 0,
            seen: Seen::default(),
            history: Vec::new(),
            tally: Tally::default(),
        }
    }

    async fn storm(&mut self) -> Result<(), String> {
        for _ in 0..STEPS {
            match self.dice.below(100) {
                0..70 if !self.turns.is_empty() => self.next_call(true).await?,
                70..75 => self.time_passes(),
                75..77 => self.somebody_dies(),
                77..80 if self.world.wire.late() > 0 => {
                    let which = self.dice.below(100);
                    self.note("a late call arrives".into());
                    self.world.wire.arrive(which).await;
                    self.seen.check(&self.observer, &self.offer).await?;
                }
                _ if self.actors.len() < ACTORS => self.somebody_acts().await,
                _ if !self.turns.is_empty() => self.next_call(true).await?,
                _ => self.time_passes(),
            }
            self.poll_all()?;
        }
        Ok(())
    }

    /// Faults stop, everybody finishes, time passes, queues drain; then everything must be right.
    async fn calm(&mut self) -> Result<(), String> {
        self.note("calm".into());
        let mut left = 10_000;
        while !self.actors.is_empty() {
            self.poll_all()?;
            if self.turns.is_empty() {
                left -= 1;
                assert!(
                    left > 0,
                    "somebody waits for nothing: {:?}",
                    self.actors.iter().map(|a| a.kind).collect::<Vec<_>>()
                );
                continue;
            }
            self.next_call(false).await?;
        }
        while self.world.wire.late() > 0 {
            self.world.wire.arrive(0).await;
            self.seen.check(&self.observer, &self.offer).await?;
        }
        act(0);
        for _ in 0..12 {
            // WeChat Pay v2 closes nothing within five minutes; a refund is tried again after up to an hour.
            self.observer.pass(400);
            self.observer.reconcile().await;
            self.observer.settle_down().await;
            self.observer.notices().await;
            self.seen.check(&self.observer, &self.offer).await?;
            self.everything_accepted_is_known().await?;
        }
        self.everything_came_right().await
    }

    async fn everything_accepted_is_known(&self) -> Result<(), String> {
        for order in self.accepted.keys() {
            if self.observer.order(order).await.is_none() {
                return Err(format!("order {order} was accepted, and there is no such order"));
            }
        }
        Ok(())
    }

    async fn everything_came_right(&mut self) -> Result<(), String> {
        let again = self.observer.reconcile().await;
        if !again.found_nothing() || again.refunds_open > 0 {
            return Err(format!("reconcile finds something once more: {again:?}"));
        }
        let (orders, _) = self.observer.store.count_orders(&self.offer.sale, None).await.unwrap();
        for order in &orders {
            let entries = self.observer.store.entries(&order.id).await.unwrap();
            let is_revived = entries.iter().any(|entry| entry["entry"].as_s().unwrap() == "STOCK#REVIVE");
            let end = if is_revived { "PAID LATE" } else { order.status.as_str() };
            *self.tally.ends.entry(end).or_default() += 1;
        }
        let ended: Vec<OrderId> =
            orders.iter().filter(|order| order.status != Status::Failed).map(|order| order.id.clone()).collect();
        self.observer.books_agree(&self.offer, &ended).await?;
        self.points_agree(&orders).await?;
        let total = u32::try_from(self.observer.item(&self.offer).await.layout.total()).unwrap();
        let paid = orders.iter().filter(|order| order.status == Status::Paid);
        let sold: u32 = paid.clone().map(|order| order.quantity).sum();
        let figures = self.observer.figures(&self.offer).await;
        if figures != (total - sold, 0, sold) {
            return Err(format!("{sold} of {total} units are paid for: (free, held, sold) = {figures:?}"));
        }
        let live: BTreeMap<&OrderId, ()> = paid.map(|order| (&order.id, ())).collect();
        for buyer in 0..BUYERS {
            let asked = self.observer.asks(&self.offer, &name(buyer), 1, None);
            let (claims, _) = self.observer.store.claims(&asked.buyer_key, &self.offer.sale).await.unwrap();
            // A claim without stock, whose buyer never came back, keeps nobody from anything: the next press goes on with it.
            let stuck = |claim: &&Claim| claim.state != ClaimState::Held && !live.contains_key(&claim.order);
            if let Some(claim) = claims.claims.values().find(stuck) {
                return Err(format!("{} still has a claim: {claim:?}", name(buyer)));
            }
        }
        // Everything can still be sold.
        flows::set_up::change(&self.observer.store, &self.offer.sale, SaleChange::Resume, self.observer.now())
            .await
            .unwrap();
        let seckill = self.observer.environment();
        for unit in 0..total - sold {
            let asked = self.observer.asks(&self.offer, &format!("late buyer {unit}"), 1, None);
            if let Err(refusal) = seckill.purchase(&asked).await {
                return Err(format!("unit {unit} of {total} cannot be sold any more: {refusal:?}"));
            }
        }
        Ok(())
    }

    /// A buyer's points are those given, less those that paid for an order.
    async fn points_agree(&self, orders: &[Order]) -> Result<(), String> {
        for buyer in (0..BUYERS).step_by(2) {
            let paid =
                orders.iter().filter(|order| order.status == Status::Paid && order.buyer_name.as_str() == name(buyer));
            let spent: i64 = paid.filter_map(|order| order.paid.as_ref()).map(|paid| paid.points).sum();
            let has = self.observer.points_of(&name(buyer)).await;
            if has != (POINTS - spent, 0) {
                return Err(format!("{} has spent {spent} of {POINTS} points and has {has:?}", name(buyer)));
            }
        }
        Ok(())
    }

    async fn next_call(&mut self, stormy: bool) -> Result<(), String> {
        let which = self.dice.below(self.turns.len());
        let waiting = self.turns.take(which);
        let fault = if stormy { self.draw_fault() } else { Fault::None };
        let actor = waiting.actor;
        let reads = ["GetItem", "BatchGetItem", "Query", "Scan"].contains(&waiting.call.operation.as_str());
        let kind = self.actors.iter().find(|other| other.id == actor).map_or("?", |found| found.kind);
        let resource = waiting.call.resource().unwrap_or_default();
        self.note(format!("{kind} {actor}: {} {resource}: {fault:?}", waiting.call.operation));
        self.tally.calls += 1;
        *self.tally.faults.entry(format!("{fault:?}")).or_default() += 1;
        waiting.grant(fault);
        self.poll(actor)?;
        act(0);
        if reads {
            return Ok(());
        }
        self.seen.check(&self.observer, &self.offer).await
    }

    fn draw_fault(&mut self) -> Fault {
        for (fault, percent) in self.faults.clone() {
            if self.dice.chance(percent) {
                return fault;
            }
        }
        Fault::None
    }

    fn time_passes(&mut self) {
        let ms = [50, 300, 1_000, 5_000, 7_000, 61_000, 200_000][self.dice.below(7)];
        self.note(format!("{ms} ms pass"));
        self.observer.clock.advance(Duration::from_millis(ms));
    }

    /// A process dies: whatever it was doing ends between two calls, and its memory is gone.
    fn somebody_dies(&mut self) {
        if self.actors.is_empty() {
            return;
        }
        let which = self.dice.below(self.actors.len());
        let dead = self.actors.swap_remove(which);
        self.note(format!("{} {} dies", dead.kind, dead.id));
        self.turns.forget(dead.id);
        if dead.kind == "stream" {
            self.reading = None;
        }
        if let Some(environment) = dead.environment {
            self.environments[environment] = Rc::new(Seckill::new(self.world.store.clone()));
        }
        self.tally.crashes += 1;
    }

    fn start(
        &mut self,
        kind: &'static str,
        environment: Option<usize>,
        life: std::pin::Pin<Box<dyn Future<Output = Outcome>>>,
    ) {
        self.next_actor += 1;
        self.actors.push(Actor { id: self.next_actor, kind, environment, life });
    }

    fn poll_all(&mut self) -> Result<(), String> {
        let ids: Vec<u64> = self.actors.iter().map(|actor| actor.id).collect();
        ids.into_iter().try_for_each(|id| self.poll(id))
    }

    /// Lets an actor go on until it waits for a call, or for another actor's, or ends.
    fn poll(&mut self, id: u64) -> Result<(), String> {
        let waker = noop_waker();
        let mut context = Context::from_waker(&waker);
        for _ in 0..16 {
            let Some(place) = self.actors.iter().position(|actor| actor.id == id) else { return Ok(()) };
            if self.turns.is_waiting(id) {
                return Ok(());
            }
            act(id);
            let polled = self.actors[place].life.as_mut().poll(&mut context);
            act(0);
            if let Poll::Ready(outcome) = polled {
                let actor = self.actors.swap_remove(place);
                self.note(format!("{} {id}: {outcome:?}", actor.kind));
                return self.ended(outcome);
            }
        }
        Ok(())
    }

    fn ended(&mut self, outcome: Outcome) -> Result<(), String> {
        match outcome {
            Outcome::Pressed { buyer, key, answer: Ok(order) } => {
                self.tally.accepted += 1;
                if let Some(key) = key
                    && let Some(before) = self.answers.insert((buyer, key.clone()), order.clone())
                    && before != order
                {
                    return Err(format!("{} got {before} and then {order} for the key {key}", name(buyer)));
                }
                self.accepted.insert(order, buyer);
            }
            Outcome::Consumed { receipt, done: true } if !receipt.is_empty() && self.dice.chance(90) => {
                let queue = Sqs::name_of(&names().orders_queue_url).to_owned();
                let deleted = self.observer.cloud.sqs.delete(&queue, &receipt);
                futures::executor::block_on(deleted).unwrap();
            }
            Outcome::Checked { firing, done } => {
                let scheduler = &self.observer.cloud.scheduler;
                match done {
                    true => futures::executor::block_on(scheduler.fired(&firing)).unwrap(),
                    false => scheduler.put_back(&firing),
                }
            }
            Outcome::Started(Some(started)) if !started.paid => self.started.push(started),
            Outcome::Told { notice, accepted } => {
                // Of two deliveries of one notice the second finds it settled.
                let _ = futures::executor::block_on(self.observer.cloud.sandbox.delivered(notice, accepted));
            }
            Outcome::Streamed { done } => {
                let read = self.reading.take();
                if done && self.dice.chance(90) {
                    self.position = read;
                }
            }
            Outcome::Pressed { .. } | Outcome::Consumed { .. } | Outcome::Started(_) | Outcome::Done(_) => {}
        }
        Ok(())
    }

    fn note(&mut self, what: String) {
        self.history.push(what);
    }
}

fn name(buyer: usize) -> String {
    format!("buyer {buyer}")
}
