//! Who acts: one run of a deployed handler each, with what an event source or a client makes of its answer.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

use domain::ids::{Offer, OrderId};
use domain::payment::Method;
use edge::Request;
use local_cloud::engine::scheduler::Firing;
use local_cloud::sandbox::{DueNotice, is_accepted};
use testkit::lambda_request::{Answer, request};
use testkit::paying::notice_request;
use serde_json::{Value, json};

use crate::choice::Delivery;
use crate::functions::Environment;

/// A buyer's press, to be compared with its answer.
#[derive(Clone, Debug)]
pub struct Press {
    pub buyer: usize,
    pub key: Option<String>,
    pub quantity: u32,
    /// The version of the availability that the buyer saw when pressing.
    pub seen_version: Option<u64>,
    pub began_ms: i64,
}

/// A payment that was started.
#[derive(Clone, Debug)]
pub struct Payment {
    pub number: String,
    pub link: Option<String>,
}

/// What a run came to.
pub enum Outcome {
    /// A press was answered: 202 with this order, or this code.
    Pressed(Press, Result<OrderId, Refused>),
    /// An order was looked at: this status, or this code.
    Seen(OrderId, Result<String, String>),
    /// A buyer has a payment to make, or has paid with points.
    Started(usize, Option<Payment>),
    /// A request of a buyer's or the operator's was answered with this.
    Answered(&'static str, u16, String),
    /// A restock with this key was answered with this status.
    Restocked(String, u16),
    /// Messages were handled; those are to come again.
    Consumed { failed: Vec<String>, receipts: Vec<(String, String)>, delivery: Delivery },
    /// A deadline was looked at, or not.
    Checked(Box<Firing>, bool),
    /// A notice was taken, or not.
    Told { notice: i64, accepted: bool },
    /// The stream was read on, or not.
    Streamed(bool),
    /// Reconcile ran, or not all of it.
    Reconciled(bool),
}

/// Why a press is refused, and the order that it is told of.
#[derive(Debug)]
pub struct Refused {
    pub code: String,
    pub order: Option<OrderId>,
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Outcome::Pressed(press, Ok(order)) => write!(f, "buyer {} is accepted: {order}", press.buyer),
            Outcome::Pressed(press, Err(refused)) => write!(f, "buyer {} is refused: {}", press.buyer, refused.code),
            Outcome::Seen(order, Ok(status)) => write!(f, "{order} is {status}"),
            Outcome::Seen(order, Err(code)) => write!(f, "{order} is not shown: {code}"),
            Outcome::Started(buyer, Some(payment)) => write!(f, "buyer {buyer} can pay {}", payment.number),
            Outcome::Started(buyer, None) => write!(f, "buyer {buyer} has no payment to make"),
            Outcome::Answered(what, status, code) => write!(f, "{what}: {status} {code}"),
            Outcome::Restocked(key, status) => write!(f, "{key}: {status}"),
            Outcome::Consumed { failed, receipts, .. } => {
                write!(f, "{} of {} messages are handled", receipts.len() - failed.len(), receipts.len())
            }
            Outcome::Checked(firing, done) => write!(f, "deadline {}: {}", firing.name, said(*done)),
            Outcome::Told { notice, accepted } => write!(f, "notice {notice}: {}", said(*accepted)),
            Outcome::Streamed(done) => write!(f, "stream: {}", said(*done)),
            Outcome::Reconciled(done) => write!(f, "reconcile: {}", said(*done)),
        }
    }
}

fn said(done: bool) -> &'static str {
    if done { "done" } else { "not done" }
}

pub type Life = Pin<Box<dyn Future<Output = Outcome>>>;

/// A run of a function.
pub struct Actor {
    pub id: u64,
    pub environment: Environment,
    pub began_ms: i64,
    pub life: Life,
}

pub fn press(app: Rc<seckill::App>, offer: &Offer, press: Press) -> Life {
    let (seen, quantity) = (press.seen_version, press.quantity);
    let body = json!({"saleId": offer.sale, "itemId": offer.item, "quantity": quantity, "seenVersion": seen});
    let headers: Vec<(&str, &str)> = press.key.iter().map(|key| ("idempotency-key", key.as_str())).collect();
    let asked = request(Some(&name(press.buyer)), "", "POST", "/seckill", &headers, Some(body));
    Box::pin(async move {
        let answer = Answer::of(seckill::handle(&app, asked).await);
        let answered = match answer.status {
            202 => Ok(OrderId::parse(answer.json()["orderId"].as_str().unwrap()).unwrap()),
            _ => {
                let order = answer.json()["orderId"].as_str().and_then(|order| OrderId::parse(order).ok());
                Err(Refused { code: answer.code(), order })
            }
        };
        Outcome::Pressed(press, answered)
    })
}

pub fn look(app: Rc<shop::App>, buyer: usize, order: OrderId) -> Life {
    let asked = request(Some(&name(buyer)), "", "GET", &format!("/orders/{order}"), &[], None);
    Box::pin(async move {
        let answer = Answer::of(shop::handle(&app, asked).await);
        let status = answer.json()["status"].as_str().map(str::to_owned);
        Outcome::Seen(order, if answer.status == 200 { Ok(status.unwrap()) } else { Err(answer.code()) })
    })
}

pub fn pay(app: Rc<shop::App>, buyer: usize, order: &OrderId, method: Method, points: i64) -> Life {
    let body = if points > 0 { json!({"method": method, "points": points}) } else { json!({"method": method}) };
    let asked = request(Some(&name(buyer)), "", "POST", &format!("/orders/{order}/payments"), &[], Some(body));
    Box::pin(async move {
        let answer = Answer::of(shop::handle(&app, asked).await);
        let payment = answer.json();
        let text = |field: &str| payment[field].as_str().map(str::to_owned);
        let open = answer.status < 300 && payment["status"] == "OPEN";
        let link = text("payUrl").or(text("qrCode"));
        Outcome::Started(buyer, open.then(|| Payment { number: text("paymentId").unwrap(), link }))
    })
}

/// A buyer cancels or wants a refund.
pub fn ask(app: Rc<shop::App>, buyer: usize, order: &OrderId, what: &'static str) -> Life {
    let asked = request(Some(&name(buyer)), "", "POST", &format!("/orders/{order}/{what}"), &[], None);
    Box::pin(async move { answered(what, Answer::of(shop::handle(&app, asked).await)) })
}

pub fn operate(app: admin::App, what: &'static str, path: &str) -> Life {
    let asked = request(Some("operator"), "seckill/admin", "POST", path, &[], None);
    Box::pin(async move { answered(what, Answer::of(admin::handle(&app, asked).await)) })
}

pub fn restock(app: admin::App, path: &str, key: &str, quantity: u32) -> Life {
    let headers = [("idempotency-key", key)];
    let body = json!({"quantity": quantity});
    let asked = request(Some("operator"), "seckill/admin", "POST", path, &headers, Some(body));
    let key = key.to_owned();
    Box::pin(async move { Outcome::Restocked(key, Answer::of(admin::handle(&app, asked).await).status) })
}

fn answered(what: &'static str, answer: Answer) -> Outcome {
    let code = if answer.status < 300 { String::new() } else { answer.code() };
    Outcome::Answered(what, answer.status, code)
}

pub fn consume(
    app: Rc<order_consumer::App>,
    event: Value,
    receipts: Vec<(String, String)>,
    delivery: Delivery,
) -> Life {
    let event = serde_json::from_value(event).unwrap();
    Box::pin(async move {
        let answer = order_consumer::handle(&app, event).await;
        let failed = answer.batch_item_failures.into_iter().map(|failure| failure.item_identifier).collect();
        Outcome::Consumed { failed, receipts, delivery }
    })
}

pub fn check_deadline(app: Rc<timeout_check::App>, firing: Firing) -> Life {
    let input = serde_json::from_str(firing.target.input.as_deref().unwrap()).unwrap();
    Box::pin(async move {
        let done = timeout_check::handle(&app, input).await.is_ok();
        Outcome::Checked(Box::new(firing), done)
    })
}

pub fn notice(app: Rc<payment_notify::App>, due: DueNotice) -> Life {
    let asked: Request = notice_request(&due);
    Box::pin(async move {
        let (parts, body) = payment_notify::handle(&app, asked).await.into_parts();
        Outcome::Told { notice: due.id, accepted: is_accepted(due.kind, parts.status.as_u16(), &body) }
    })
}

pub fn stream(app: availability::App, event: Value) -> Life {
    let event = serde_json::from_value(event).unwrap();
    Box::pin(async move { Outcome::Streamed(availability::handle(&app, event).await.batch_item_failures.is_empty()) })
}

pub fn reconcile(app: Rc<reconcile::App>) -> Life {
    Box::pin(async move { Outcome::Reconciled(reconcile::handle(&app).await.is_ok()) })
}

pub fn name(buyer: usize) -> String {
    format!("buyer {buyer}")
}
