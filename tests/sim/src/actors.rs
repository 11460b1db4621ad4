//! Who acts: buyers, order-consumer, timeout-check, the stock's stream, reconcile and the operator. Each is one run of a real flow.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

use domain::ids::{Offer, OrderId};
use domain::message::{DeadlineInput, OrderMessage};
use domain::payment::Method;
use domain::sale::SaleChange;
use flows::close::{Cause, close};
use flows::place_order::place_order;
use flows::purchase::{Purchase, Refusal, Seckill};
use flows::sales::Sales;
use local_cloud::sandbox::DueNotice;
use seckill_tests::world::{World, far};

/// What a run came to.
#[derive(Debug)]
pub enum Outcome {
    /// A press was answered: 202 with this order, or why not.
    Pressed { buyer: usize, key: Option<String>, answer: Result<OrderId, String> },
    /// A message was handled, or not.
    Consumed { receipt: String, done: bool },
    /// A deadline was looked at, or not.
    Checked { firing: Box<local_cloud::engine::scheduler::Firing>, done: bool },
    /// The stream was read on to here, or not.
    Streamed { done: bool },
    /// A buyer has a link to pay with.
    Started(Option<flows::start_payment::Started>),
    /// A notice was taken, or not.
    Told { notice: i64, accepted: bool },
    /// Something whose answer nobody waits for.
    Done(&'static str),
}

/// A run of a flow.
pub struct Actor {
    pub id: u64,
    pub kind: &'static str,
    /// The running function whose memory it uses.
    pub environment: Option<usize>,
    pub life: Pin<Box<dyn Future<Output = Outcome>>>,
}

pub fn press(
    world: &Rc<World>,
    seckill: &Rc<Seckill>,
    asked: Purchase,
    buyer: usize,
) -> Pin<Box<dyn Future<Output = Outcome>>> {
    let (_world, seckill) = (world.clone(), seckill.clone());
    Box::pin(async move {
        let answer = match seckill.purchase(&asked).await {
            Ok(accepted) => Ok(accepted.order),
            Err(Refusal::Unavailable(_)) => Err("UNAVAILABLE".to_owned()),
            Err(refusal) => Err(format!("{refusal:?}")),
        };
        Outcome::Pressed { buyer, key: asked.key.map(|key| key.to_string()), answer }
    })
}

pub fn consume(world: &Rc<World>, body: String, receipt: String) -> Pin<Box<dyn Future<Output = Outcome>>> {
    let world = world.clone();
    Box::pin(async move {
        let message: OrderMessage = serde_json::from_str(&body).unwrap();
        let done = place_order(&world.store, &Sales::default(), &message, world.now()).await.is_ok();
        Outcome::Consumed { receipt, done }
    })
}

pub fn check_deadline(
    world: &Rc<World>,
    firing: local_cloud::engine::scheduler::Firing,
) -> Pin<Box<dyn Future<Output = Outcome>>> {
    let world = world.clone();
    Box::pin(async move {
        let input: DeadlineInput = serde_json::from_str(firing.target.input.as_deref().unwrap()).unwrap();
        let done = close(&world.store, &world.providers, &input.order_id, Cause::Deadline, world.now()).await.is_ok();
        Outcome::Checked { firing: Box::new(firing), done }
    })
}

pub fn cancel(world: &Rc<World>, order: OrderId) -> Pin<Box<dyn Future<Output = Outcome>>> {
    let world = world.clone();
    Box::pin(async move {
        let _ = close(&world.store, &world.providers, &order, Cause::Buyer, world.now()).await;
        Outcome::Done("cancel")
    })
}

pub fn start_payment(
    world: &Rc<World>,
    order: OrderId,
    method: Method,
    points: i64,
) -> Pin<Box<dyn Future<Output = Outcome>>> {
    let world = world.clone();
    Box::pin(async move { Outcome::Started(world.asks_to_pay(&order, method, points).await.ok()) })
}

pub fn notice(world: &Rc<World>, notice: DueNotice) -> Pin<Box<dyn Future<Output = Outcome>>> {
    let world = world.clone();
    Box::pin(async move {
        let accepted = world.take(&notice).await;
        Outcome::Told { notice: notice.id, accepted }
    })
}

pub fn refund(world: &Rc<World>, order: OrderId) -> Pin<Box<dyn Future<Output = Outcome>>> {
    let world = world.clone();
    Box::pin(async move {
        let _ = flows::refund::refund(&world.store, &world.providers, &order, world.now()).await;
        Outcome::Done("refund")
    })
}

pub fn stream(
    world: &Rc<World>,
    changes: Vec<flows::stock_moved::StockChange>,
) -> Pin<Box<dyn Future<Output = Outcome>>> {
    let world = world.clone();
    Box::pin(
        async move { Outcome::Streamed { done: flows::stock_moved::stock_moved(&world.store, changes).await.is_ok() } },
    )
}

pub fn reconcile(world: &Rc<World>) -> Pin<Box<dyn Future<Output = Outcome>>> {
    let world = world.clone();
    Box::pin(async move {
        let _ = flows::reconcile::reconcile(&world.store, &world.providers, world.now()).await;
        Outcome::Done("reconcile")
    })
}

pub fn restock(world: &Rc<World>, offer: Offer, quantity: u32, key: String) -> Pin<Box<dyn Future<Output = Outcome>>> {
    let world = world.clone();
    Box::pin(async move {
        let key = domain::ids::IdempotencyKey::parse(key).unwrap();
        let _ = flows::stock::restock(&world.store, &offer, quantity, &key, far()).await;
        Outcome::Done("restock")
    })
}

pub fn change(world: &Rc<World>, offer: Offer, change: SaleChange) -> Pin<Box<dyn Future<Output = Outcome>>> {
    let world = world.clone();
    Box::pin(async move {
        let _ = flows::set_up::change(&world.store, &offer.sale, change, world.now()).await;
        Outcome::Done("change")
    })
}
