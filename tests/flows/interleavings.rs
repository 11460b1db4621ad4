//! Flows about one order, interleaved call by call: payment notices, a timeout, a cancel, a refund and a second
//! payment. In every interleaving all money is kept or refunded and the stock adds up, as the sandbox's records
//! prove.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use domain::ids::{Offer, OrderId};
use domain::order::Status;
use domain::payment::Method;
use flows::pay::close::{Cause, close};
use flows::pay::refund::{Asker, refund};
use flows::pay::start_payment::Started;
use futures::task::noop_waker;
use local_cloud::wire::{Fault, Wire};
use testkit::scheduler::{CallScheduler, set_actor};
use testkit::world::World;

/// What can happen to an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Notice,
    SecondNotice,
    Timeout,
    Cancel,
    Refund,
    /// The buyer also pays the first payment, at another provider, although it was closed.
    OtherChannel,
    /// The buyer pays although the payment was closed, and the notice is not delivered yet.
    PaysLate,
    BuysAgain,
}

const EVENTS: [Event; 6] =
    [Event::Notice, Event::SecondNotice, Event::Timeout, Event::Cancel, Event::Refund, Event::OtherChannel];

/// When the buyer pays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pays {
    /// Before anything else happens: the notice is in flight.
    Before,
    /// Just before the notice, if the payment is still open.
    WithTheNotice,
    /// Just before the notice, even if the payment was closed.
    Late,
}

/// A sale in which many orders are tested, one after another.
struct Stage {
    world: World,
    calls: CallScheduler,
    offer: Offer,
    orders: RefCell<Vec<OrderId>>,
}

impl Stage {
    async fn new() -> Rc<Self> {
        let calls = CallScheduler::default();
        let plain = World::new().await;
        let wire = calls.on(Wire::new(plain.cloud.clone()));
        let store = store::Store::new(&wire.sdk_config(), plain.names().clone());
        let world = World::over(wire, store);
        let offer = world.long_sale(200).await;
        Rc::new(Self { world, calls, offer, orders: RefCell::default() })
    }
}

/// An order with a closed payment at Alipay and an open one at WeChat Pay.
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
        let order = world.unpaid_order(&stage.offer, &buyer).await;
        stage.orders.borrow_mut().push(order.clone());
        let first = world.start_payment(&order, Method::Alipay, 0).await;
        world.open_link(&first).await;
        let open = world.start_payment(&order, Method::Wechat, 0).await;
        if pays == Pays::Before {
            world.pay(&open).await;
        }
        // The deadline is near, so a timeout whose clock is slightly ahead finds it passed, and the providers still
        // accept the time of its requests.
        world.pass(700);
        Rc::new(Self { stage: stage.clone(), buyer, order, first, open, pays })
    }

    /// The flow that handles an event.
    fn flow(self: &Rc<Self>, event: Event) -> Pin<Box<dyn Future<Output = ()>>> {
        let scene = self.clone();
        Box::pin(async move {
            let Scene { stage, buyer, order, first, open, pays } = &*scene;
            let world = &stage.world;
            let now = world.now();
            // A flow that failed is retried later, by `settle_fully`.
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
                    let _ = refund(flows::Context::new(&store, &providers, now), order, Asker::Buyer).await;
                }
            }
        })
    }

    /// Delivers the notices of a payment that are due, once.
    async fn deliver(&self, started: &Started) {
        let number = started.number.to_string();
        for notice in self.stage.world.cloud.sandbox.due_notices().await.unwrap() {
            if notice.number == number {
                let accepted = self.stage.world.deliver_notice(&notice).await;
                // Fails for the second of two deliveries of one notice.
                let _ = self.stage.world.cloud.sandbox.delivered(notice.id, accepted).await;
            }
        }
    }

    /// Runs the flows of `events`. `segments` says which flow makes how many calls next; then each runs to its end.
    /// Returns how many calls each flow made.
    fn play(self: &Rc<Self>, events: &[Event], segments: &[(usize, usize)]) -> Vec<usize> {
        let mut flows: Vec<Option<_>> = events.iter().map(|event| Some(self.flow(*event))).collect();
        let mut made = vec![0; events.len()];
        let to_the_end = (0..events.len()).map(|who| (who, usize::MAX));
        for (who, calls) in segments.iter().copied().chain(to_the_end) {
            for _ in 0..calls {
                self.poll(who, &mut flows[who]);
                let Some(pending) = self.stage.calls.take_of(who as u64 + 1) else { break };
                pending.proceed(Fault::None);
                made[who] += 1;
            }
            // The last call of a segment is carried out before the next flow's calls.
            self.poll(who, &mut flows[who]);
        }
        assert!(flows.iter().all(Option::is_none), "{events:?} {segments:?}: a flow did not end");
        made
    }

    /// Polls a flow until it waits for a call, or ends.
    fn poll(&self, who: usize, flow: &mut Option<Pin<Box<dyn Future<Output = ()>>>>) {
        let actor = who as u64 + 1;
        let waker = noop_waker();
        for _ in 0..1_000 {
            let Some(running) = flow.as_mut() else { return };
            if self.stage.calls.is_waiting(actor) {
                return;
            }
            set_actor(actor);
            let polled = running.as_mut().poll(&mut Context::from_waker(&waker));
            set_actor(0);
            if polled == Poll::Ready(()) {
                *flow = None;
            }
        }
    }

    async fn ends_well(&self, what: impl std::fmt::Debug) {
        let Stage { world, offer, .. } = &*self.stage;
        world.settle_fully().await;
        if let Err(why) = world.records(offer).await.order_agrees_everywhere(offer, &self.order) {
            panic!("{what:?}, pays {:?}: {why}", self.pays);
        }
        let report = world.reconcile().await;
        assert!(report.found_nothing(), "{what:?}, pays {:?}: {report:?}", self.pays);
    }
}

impl Stage {
    /// Checks all orders of the sale together.
    async fn ends_well(&self) {
        let orders = self.orders.borrow().clone();
        self.world.settle_fully().await;
        self.world.records_agree(&self.offer, &orders).await.unwrap();
    }
}

/// The flows are polled by hand in one long poll of the test, which tokio's cooperative scheduling must not
/// interrupt.
fn block_on(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(tokio::task::unconstrained(test));
}

#[test]
fn three_flows_one_after_another_in_every_order() {
    block_on(async {
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

/// Two flows: the first makes some calls, then the second makes some, then both run to their ends.
async fn interleave_pairs(pays: Pays) {
    let mut cuts = 0;
    for one in EVENTS {
        for two in EVENTS {
            let stage = Stage::new().await;
            let scene = Scene::new(&stage, pays).await;
            let alone = scene.play(&[one], &[])[0];
            // A payment that was not made has no second notice.
            let has_calls = one != Event::SecondNotice || pays == Pays::Before;
            assert!(alone > 0 || !has_calls, "{one:?}, pays {pays:?}: the flow makes no calls");
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
                    // If the first flow makes none or all of its calls before the second, cutting the second changes
                    // nothing.
                    if second > made[1] || first == 0 || first == alone {
                        break;
                    }
                }
            }
            stage.ends_well().await;
        }
    }
    // Without any cut inside a flow, the 36 pairs would have 72 interleavings.
    assert!(cuts > 200, "pays {pays:?}: only {cuts} interleavings were tried");
}

#[test]
fn two_flows_interleaved_when_the_payment_was_made_before() {
    block_on(interleave_pairs(Pays::Before));
}

#[test]
fn two_flows_interleaved_when_the_payment_is_made_with_the_notice() {
    block_on(interleave_pairs(Pays::WithTheNotice));
}

#[test]
fn two_flows_interleaved_when_the_payment_is_made_late() {
    block_on(interleave_pairs(Pays::Late));
}

/// While a timeout asks the provider, the order is cancelled and then paid late. So the timeout finds the payment:
/// it has to revive the order, or refund the payment if the buyer has bought again.
#[test]
fn a_timeout_that_finds_a_late_payment_of_a_cancelled_order_revives_or_refunds_it() {
    block_on(async {
        for (then, wanted) in [(Event::PaysLate, Status::Paid), (Event::BuysAgain, Status::Closed)] {
            let stage = Stage::new().await;
            let alone = Scene::new(&stage, Pays::Late).await.play(&[Event::Timeout], &[])[0];
            let mut found = 0;
            for first in 0..=alone {
                let scene = Scene::new(&stage, Pays::Late).await;
                let segments = [(0, first), (1, usize::MAX), (2, usize::MAX), (3, usize::MAX)];
                scene.play(&[Event::Timeout, Event::Cancel, Event::PaysLate, then], &segments);
                let order = stage.world.order(&scene.order).await.unwrap();
                let knows = order.paid.is_some() || !order.returned.is_empty();
                found += usize::from(knows && order.status == wanted);
                scene.ends_well(segments).await;
            }
            assert!(found > 0, "in none of {alone} interleavings did the timeout find the payment, then {then:?}");
            stage.ends_well().await;
        }
    });
}

/// Three flows with randomly drawn cuts. All pairs are covered above; this adds a third flow.
#[test]
fn three_flows_interleaved_at_random() {
    block_on(async {
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
