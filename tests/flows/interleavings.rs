//! Whatever happens to one order, in whatever order, and however the calls of the flows fall between each other: money taken is money
//! kept or refunded, and the stock adds up. Checked against the sandbox's own books.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use domain::ids::{Offer, OrderId};
use domain::order::Status;
use domain::payment::Method;
use flows::pay::close::{Cause, close};
use flows::pay::refund::refund;
use flows::pay::start_payment::Started;
use futures::task::noop_waker;
use local_cloud::wire::{Fault, Wire};
use testkit::scheduler::{Turns, act};
use testkit::world::World;

/// What can happen to an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Notice,
    SecondNotice,
    Timeout,
    Cancel,
    Refund,
    OtherChannel,
    /// The buyer pays although the payment was closed, and the notice of it is still to come.
    PaysLate,
    /// The buyer buys once more.
    BuysAgain,
}

const EVENTS: [Event; 6] =
    [Event::Notice, Event::SecondNotice, Event::Timeout, Event::Cancel, Event::Refund, Event::OtherChannel];

/// When the buyer pays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pays {
    /// Before anything else happens: the notice is under way.
    Before,
    /// With the notice, if the payment is still open.
    WithTheNotice,
    /// With the notice, even if the payment was closed: the money wandered.
    Late,
}

/// A sale in which many such orders are made, one after another.
struct Stage {
    world: World,
    turns: Turns,
    offer: Offer,
    orders: RefCell<Vec<OrderId>>,
}

impl Stage {
    async fn new() -> Rc<Self> {
        let turns = Turns::default();
        let plain = World::new().await;
        let wire = turns.on(Wire::new(plain.cloud.clone()));
        let store = store::Store::new(&wire.sdk_config(), plain.names().clone());
        let world = World::over(wire, store);
        let offer = world.long_sale(200).await;
        Rc::new(Self { world, turns, offer, orders: RefCell::default() })
    }
}

/// An order with a payment open at WeChat Pay, after one at Alipay that was closed.
struct Scene {
    stage: Rc<Stage>,
    buyer: String,
    order: OrderId,
    first: Started,
    open: Started,
    pays: Pays,
}

impl Scene {
    async fn new(stage: &Rc<Stage>, pays: Pays) -> Rc<Self> {
        let world = &stage.world;
        let buyer = format!("buyer {}", stage.orders.borrow().len());
        let order = world.waiting(&stage.offer, &buyer).await;
        stage.orders.borrow_mut().push(order.clone());
        let first = world.starts(&order, Method::Alipay, 0).await;
        world.opens(&first).await;
        let open = world.starts(&order, Method::Wechat, 0).await;
        if pays == Pays::Before {
            world.pays(&open).await;
        }
        // The deadline is near: a timeout whose clock is a little fast finds it passed, and no provider calls its request too old.
        world.pass(700);
        Rc::new(Self { stage: stage.clone(), buyer, order, first, open, pays })
    }

    /// The run of a flow.
    fn life(self: &Rc<Self>, event: Event) -> Pin<Box<dyn Future<Output = ()>>> {
        let scene = self.clone();
        Box::pin(async move {
            let Scene { stage, buyer, order, first, open, pays } = &*scene;
            let world = &stage.world;
            let now = world.now();
            // A flow that gave up is run again by whoever called it: here by `quiet_down`.
            match event {
                Event::Notice => {
                    let number = open.number.to_string();
                    match pays {
                        Pays::Before => {}
                        Pays::WithTheNotice => drop(world.cloud.sandbox.pay(&number).await),
                        Pays::Late => {
                            if world.cloud.sandbox.pay(&number).await.is_err() {
                                let _ = world.cloud.sandbox.pay_late(&number).await;
                            }
                        }
                    }
                    scene.deliver(open).await;
                }
                Event::SecondNotice => {
                    let _ = world.cloud.sandbox.notify_again(&open.number.to_string()).await;
                    scene.deliver(open).await;
                }
                Event::OtherChannel => {
                    let _ = world.cloud.sandbox.pay_late(&first.number.to_string()).await;
                    scene.deliver(first).await;
                }
                Event::PaysLate => drop(world.cloud.sandbox.pay_late(&open.number.to_string()).await),
                Event::BuysAgain => {
                    let bought = world.press(&stage.offer, buyer).await;
                    stage.orders.borrow_mut().extend(bought.map(|bought| bought.order));
                }
                Event::Timeout => {
                    let late = now.saturating_add(jiff::SignedDuration::from_secs(250)).unwrap();
                    let (store, providers) = (world.store_of("timeout-check"), world.providers_of("timeout-check"));
                    let _ = close(flows::Context::new(&store, &providers, late), order, Cause::Deadline).await;
                }
                Event::Cancel => {
                    let (store, providers) = (world.store_of("shop"), world.providers_of("shop"));
                    let _ = close(flows::Context::new(&store, &providers, now), order, Cause::Buyer).await;
                }
                Event::Refund => {
                    let (store, providers) = (world.store_of("shop"), world.providers_of("shop"));
                    let _ = refund(flows::Context::new(&store, &providers, now), order).await;
                }
            }
        })
    }

    /// Delivers the notices of a payment that are due, once.
    async fn deliver(&self, started: &Started) {
        let number = started.number.to_string();
        for notice in self.stage.world.cloud.sandbox.due_notices().await.unwrap() {
            if notice.number == number {
                let accepted = self.stage.world.take(&notice).await;
                // Of two deliveries of one notice the second finds it settled.
                let _ = self.stage.world.cloud.sandbox.delivered(notice.id, accepted).await;
            }
        }
    }

    /// Lets the flows of `events` make their calls as `segments` says: who, and how many; then each to its end.
    /// Returns how many calls each made.
    fn play(self: &Rc<Self>, events: &[Event], segments: &[(usize, usize)]) -> Vec<usize> {
        let mut lives: Vec<Option<_>> = events.iter().map(|event| Some(self.life(*event))).collect();
        let mut made = vec![0; events.len()];
        let to_the_end = (0..events.len()).map(|who| (who, usize::MAX));
        for (who, calls) in segments.iter().copied().chain(to_the_end) {
            for _ in 0..calls {
                self.poll(who, &mut lives[who]);
                let Some(waiting) = self.stage.turns.take_of(who as u64 + 1) else { break };
                waiting.grant(Fault::None);
                made[who] += 1;
            }
            // The last call that was let through is carried out before anybody else's.
            self.poll(who, &mut lives[who]);
        }
        assert!(lives.iter().all(Option::is_none), "{events:?} {segments:?}: a flow hangs");
        made
    }

    /// Lets a flow go on until it waits for a call, or ends.
    fn poll(&self, who: usize, life: &mut Option<Pin<Box<dyn Future<Output = ()>>>>) {
        let actor = who as u64 + 1;
        let waker = noop_waker();
        for _ in 0..1_000 {
            let Some(running) = life.as_mut() else { return };
            if self.stage.turns.is_waiting(actor) {
                return;
            }
            act(actor);
            let polled = running.as_mut().poll(&mut Context::from_waker(&waker));
            act(0);
            if polled == Poll::Ready(()) {
                *life = None;
            }
        }
    }

    async fn ends_well(&self, what: impl std::fmt::Debug) {
        let Stage { world, offer, .. } = &*self.stage;
        world.quiet_down().await;
        if let Err(why) = world.books(offer).await.order_ended_well(offer, &self.order) {
            panic!("{what:?}, pays {:?}: {why}", self.pays);
        }
        let report = world.reconcile().await;
        assert!(report.found_nothing(), "{what:?}, pays {:?}: {report:?}", self.pays);
    }
}

impl Stage {
    /// All orders together, in the end.
    async fn ends_well(&self) {
        let orders = self.orders.borrow().clone();
        self.world.quiet_down().await;
        self.world.books_agree(&self.offer, &orders).await.unwrap();
    }
}

/// The flows are polled by hand, in one long poll of the test: tokio must not stop serving it to be fair to others.
fn play(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(tokio::task::unconstrained(test));
}

#[test]
fn one_after_another_in_every_order() {
    play(async {
        for pays in [Pays::Before, Pays::WithTheNotice, Pays::Late] {
            for one in EVENTS {
                let stage = Stage::new().await;
                for two in EVENTS {
                    for three in EVENTS {
                        let scene = Scene::new(&stage, pays).await;
                        for event in [one, two, three] {
                            scene.play(&[event], &[]);
                        }
                        scene.ends_well((one, two, three)).await;
                    }
                }
                stage.ends_well().await;
            }
        }
    });
}

/// Two flows: the first makes some calls, then the second some, then both go on to their ends.
async fn in_pairs(pays: Pays) {
    let mut cuts = 0;
    for one in EVENTS {
        for two in EVENTS {
            let stage = Stage::new().await;
            let scene = Scene::new(&stage, pays).await;
            let alone = scene.play(&[one], &[])[0];
            // Of a payment that nobody has made there is nothing to tell.
            let has_calls = one != Event::SecondNotice || pays == Pays::Before;
            assert!(alone > 0 || !has_calls, "{one:?}, pays {pays:?}: it makes no call");
            scene.ends_well(one).await;
            for first in 0..=alone {
                let mut second = 0;
                loop {
                    let scene = Scene::new(&stage, pays).await;
                    let segments = [(0, first), (1, second)];
                    let made = scene.play(&[one, two], &segments);
                    scene.ends_well(((one, two), segments)).await;
                    cuts += 1;
                    second += 1;
                    // The first makes none, or all, of its calls before the second: where the second is cut makes no difference.
                    if second > made[1] || first == 0 || first == alone {
                        break;
                    }
                }
            }
            stage.ends_well().await;
        }
    }
    // 36 pairs: cut nowhere but at the ends, they would be 72.
    assert!(cuts > 200, "pays {pays:?}: the flows were cut in {cuts} ways only");
}

#[test]
fn in_pairs_paid_before() {
    play(in_pairs(Pays::Before));
}

#[test]
fn in_pairs_paid_meanwhile() {
    play(in_pairs(Pays::WithTheNotice));
}

#[test]
fn in_pairs_paid_late() {
    play(in_pairs(Pays::Late));
}

/// The order is cancelled, and then paid after all, between a timeout's question to the provider and the answer: it is the timeout that finds the money,
/// and has to find a unit for it; or to send it back, if the buyer has bought again.
#[test]
fn a_timeout_sees_to_what_was_cancelled_meanwhile_and_paid_late() {
    play(async {
        for (then, wanted) in [(Event::PaysLate, Status::Paid), (Event::BuysAgain, Status::Closed)] {
            let stage = Stage::new().await;
            let alone = Scene::new(&stage, Pays::Late).await.play(&[Event::Timeout], &[])[0];
            let mut seen_to = 0;
            for first in 0..=alone {
                let scene = Scene::new(&stage, Pays::Late).await;
                let segments = [(0, first), (1, usize::MAX), (2, usize::MAX), (3, usize::MAX)];
                scene.play(&[Event::Timeout, Event::Cancel, Event::PaysLate, then], &segments);
                let order = stage.world.order(&scene.order).await.unwrap();
                let knows = order.paid.is_some() || !order.returned.is_empty();
                seen_to += usize::from(knows && order.status == wanted);
                scene.ends_well(segments).await;
            }
            assert!(seen_to > 0, "no cut of {alone} calls let the timeout find the money, then {then:?}");
            stage.ends_well().await;
        }
    });
}

/// Three flows, cut at places that are drawn: each pair of cuts is covered above, and this is what a third adds.
#[test]
fn in_triples() {
    play(async {
        let mut seed = 1_u64;
        let mut draw = move |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            usize::try_from((seed >> 33) % below).unwrap()
        };
        for pays in [Pays::Before, Pays::WithTheNotice, Pays::Late] {
            for (at, one) in EVENTS.into_iter().enumerate() {
                let stage = Stage::new().await;
                for (next, two) in EVENTS.into_iter().enumerate().skip(at) {
                    for three in EVENTS.into_iter().skip(next) {
                        for _ in 0..3 {
                            let scene = Scene::new(&stage, pays).await;
                            let events = [one, two, three];
                            let segments: Vec<_> = (0..6).map(|_| (draw(3), draw(5))).collect();
                            scene.play(&events, &segments);
                            scene.ends_well((events, segments)).await;
                        }
                    }
                }
                stage.ends_well().await;
            }
        }
    });
}
