//! Actors: each is one invocation of a deployed handler, and what its event source or client makes of the answer.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

use domain::ids::{Offer, OrderId};
use domain::payment::Method;
use edge::Request;
use local_cloud::engine::scheduler::Firing;
use sandbox::{DueNotice, is_accepted};
use serde_json::{Value, json};
use testkit::lambda_request::{Answer, request};
use testkit::paying::notice_request;

use crate::choice::Delivery;
use crate::functions::Environment;

/// A buyer's press, to compare with its answer.
#[derive(Clone, Debug)]
pub struct Press {
    pub buyer: usize,
    pub key: Option<String>,
    pub quantity: u32,
    /// The running function that the press reaches.
    pub environment: usize,
    /// The availability version that the buyer saw when pressing.
    pub seen_version: Option<u64>,
    pub began_ms: i64,
}

#[derive(Clone, Debug)]
pub struct Payment {
    pub number: String,
    pub link: Option<String>,
}

/// The outcome of an invocation.
pub enum Outcome {
    /// The answer to a press: 202 with this order and its quantity, or a refusal.
    Pressed(Press, Result<(OrderId, u32), Refused>),
    /// The status of an order, or the code of a refusal.
    OrderViewed(OrderId, Result<String, String>),
    /// A buyer's payment that is open at a provider. `None`: refused, or paid with points.
    PaymentStarted(usize, Option<Payment>),
    /// The status and code of the answer to a buyer's or the operator's request.
    Answered(&'static str, u16, String),
    /// The key of a restock and the status of the answer.
    Restocked(String, u16),
    /// An operator's edit was saved: the version that was read, and the new name.
    Edited(u64, String),
    /// Messages were handled. The `failed` ones are to be delivered again.
    Consumed {
        failed: Vec<String>,
        receipts: Vec<(String, String)>,
        delivery: Delivery,
    },
    /// Whether a deadline was handled.
    DeadlineChecked(Box<Firing>, bool),
    NoticeAnswered {
        notice: i64,
        accepted: bool,
    },
    /// Whether a batch of the stream was handled completely.
    Streamed(bool),
    /// Whether reconcile ran without errors.
    Reconciled(bool),
}

/// Why a press is refused, and the order that the answer names.
#[derive(Debug)]
pub struct Refused {
    pub code: String,
    pub order: Option<OrderId>,
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Outcome::Pressed(press, Ok((order, _))) => write!(f, "buyer {} is accepted: {order}", press.buyer),
            Outcome::Pressed(press, Err(refused)) => write!(f, "buyer {} is refused: {}", press.buyer, refused.code),
            Outcome::OrderViewed(order, Ok(status)) => write!(f, "{order} is {status}"),
            Outcome::OrderViewed(order, Err(code)) => write!(f, "{order} cannot be viewed: {code}"),
            Outcome::PaymentStarted(buyer, Some(payment)) => write!(f, "buyer {buyer} can pay {}", payment.number),
            Outcome::PaymentStarted(buyer, None) => write!(f, "buyer {buyer} has no open payment"),
            Outcome::Answered(what, status, code) => write!(f, "{what}: {status} {code}"),
            Outcome::Restocked(key, status) => write!(f, "{key}: {status}"),
            Outcome::Edited(read, name) => write!(f, "{name} is saved over version {read}"),
            Outcome::Consumed { failed, receipts, .. } => {
                write!(f, "{} of {} messages are handled", receipts.len() - failed.len(), receipts.len())
            }
            Outcome::DeadlineChecked(firing, done) => write!(f, "deadline {}: {}", firing.name, done_or_not(*done)),
            Outcome::NoticeAnswered { notice, accepted } => write!(f, "notice {notice}: {}", done_or_not(*accepted)),
            Outcome::Streamed(done) => write!(f, "stream: {}", done_or_not(*done)),
            Outcome::Reconciled(done) => write!(f, "reconcile: {}", done_or_not(*done)),
        }
    }
}

fn done_or_not(done: bool) -> &'static str {
    if done { "done" } else { "not done" }
}

pub type Invocation = Pin<Box<dyn Future<Output = Outcome>>>;

pub struct Actor {
    pub id: u64,
    pub environment: Environment,
    pub began_ms: i64,
    pub invocation: Invocation,
}

pub fn press(app: Rc<seckill::App>, offer: &Offer, press: Press) -> Invocation {
    let (seen, quantity) = (press.seen_version, press.quantity);
    let body = json!({
        "saleId": offer.sale, "itemId": offer.item, "quantity": quantity, "seenVersion": seen,
        "reference": name(press.buyer),
    });
    let headers: Vec<(&str, &str)> = press.key.iter().map(|key| ("idempotency-key", key.as_str())).collect();
    let asked = request(Some(&name(press.buyer)), "", "POST", "/seckill", &headers, Some(body));
    Box::pin(async move {
        let answer = Answer::of(seckill::handle(&app, asked).await);
        let answered = match answer.status {
            202 => {
                let body = answer.json();
                let quantity = u32::try_from(body["quantity"].as_u64().unwrap()).unwrap();
                Ok((OrderId::parse(body["orderId"].as_str().unwrap()).unwrap(), quantity))
            }
            _ => {
                let order = answer.json()["orderId"].as_str().and_then(|order| OrderId::parse(order).ok());
                Err(Refused { code: answer.code(), order })
            }
        };
        Outcome::Pressed(press, answered)
    })
}

pub fn view_order(app: Rc<shop::App>, buyer: usize, order: OrderId) -> Invocation {
    let asked = request(Some(&name(buyer)), "", "GET", &format!("/orders/{order}"), &[], None);
    Box::pin(async move {
        let answer = Answer::of(shop::handle(&app, asked).await);
        let status = answer.json()["status"].as_str().map(str::to_owned);
        Outcome::OrderViewed(order, if answer.status == 200 { Ok(status.unwrap()) } else { Err(answer.code()) })
    })
}

pub fn pay(app: Rc<shop::App>, buyer: usize, order: &OrderId, method: Method, points: i64) -> Invocation {
    let body = if points > 0 { json!({"method": method, "points": points}) } else { json!({"method": method}) };
    let asked = request(Some(&name(buyer)), "", "POST", &format!("/orders/{order}/payments"), &[], Some(body));
    Box::pin(async move {
        let answer = Answer::of(shop::handle(&app, asked).await);
        let payment = answer.json();
        let text = |field: &str| payment[field].as_str().map(str::to_owned);
        let open = answer.status < 300 && payment["status"] == "OPEN";
        let link = text("payUrl").or(text("qrCode"));
        Outcome::PaymentStarted(buyer, open.then(|| Payment { number: text("paymentId").unwrap(), link }))
    })
}

/// A buyer cancels an order or asks for a refund.
pub fn change_order(app: Rc<shop::App>, buyer: usize, order: &OrderId, what: &'static str) -> Invocation {
    let asked = request(Some(&name(buyer)), "", "POST", &format!("/orders/{order}/{what}"), &[], None);
    Box::pin(async move { answered(what, Answer::of(shop::handle(&app, asked).await)) })
}

pub fn operate(app: admin::App, what: &'static str, path: &str) -> Invocation {
    let asked = request(Some("operator"), "seckill/admin", "POST", path, &[], None);
    Box::pin(async move { answered(what, Answer::of(admin::handle(&app, asked).await)) })
}

/// An operator opens the sale in the console, and saves it under another name.
pub fn edit(app: admin::App, path: &str, name: &str) -> Invocation {
    let (path, name) = (path.to_owned(), name.to_owned());
    Box::pin(async move {
        let read = request(Some("operator"), "seckill/admin", "GET", &path, &[], None);
        let read = Answer::of(admin::handle(&app, read).await);
        if read.status != 200 {
            return answered("edit", read);
        }
        let sale = read.json();
        let version = sale["version"].as_u64().unwrap();
        let kept = |of: &Value, fields: &[&str]| -> serde_json::Map<String, Value> {
            fields.iter().map(|field| ((*field).to_owned(), of[*field].clone())).collect()
        };
        let mut form = kept(&sale, &["version", "startsAt", "endsAt", "paymentWindowSeconds", "buyerCooldownMs"]);
        let item = ["itemId", "name", "price", "originalPrice", "currency", "stock", "limitPerBuyer", "pointsPrice"];
        let items = sale["items"].as_array().unwrap().iter().map(|one| Value::Object(kept(one, &item))).collect();
        form.insert("name".to_owned(), json!(name));
        form.insert("items".to_owned(), Value::Array(items));
        let saved = request(Some("operator"), "seckill/admin", "PUT", &path, &[], Some(Value::Object(form)));
        match Answer::of(admin::handle(&app, saved).await) {
            saved if saved.status == 200 => Outcome::Edited(version, name),
            refused => answered("edit", refused),
        }
    })
}

pub fn restock(app: admin::App, path: &str, key: &str, quantity: u32) -> Invocation {
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
) -> Invocation {
    let event = serde_json::from_value(event).unwrap();
    Box::pin(async move {
        let answer = order_consumer::handle(&app, event).await;
        let failed = answer.batch_item_failures.into_iter().map(|failure| failure.item_identifier).collect();
        Outcome::Consumed { failed, receipts, delivery }
    })
}

pub fn check_deadline(app: Rc<timeout_check::App>, firing: Firing) -> Invocation {
    let input = serde_json::from_str(firing.target.input.as_deref().unwrap()).unwrap();
    Box::pin(async move {
        let done = timeout_check::handle(&app, input).await.is_ok();
        Outcome::DeadlineChecked(Box::new(firing), done)
    })
}

pub fn notice(app: Rc<payment_notify::App>, due: DueNotice) -> Invocation {
    let asked: Request = notice_request(&due);
    Box::pin(async move {
        let (parts, body) = payment_notify::handle(&app, asked).await.into_parts();
        Outcome::NoticeAnswered { notice: due.id, accepted: is_accepted(due.kind, parts.status.as_u16(), &body) }
    })
}

pub fn stream(app: availability::App, event: Value) -> Invocation {
    let event = serde_json::from_value(event).unwrap();
    Box::pin(async move { Outcome::Streamed(availability::handle(&app, event).await.batch_item_failures.is_empty()) })
}

pub fn reconcile(app: Rc<reconcile::App>) -> Invocation {
    Box::pin(async move { Outcome::Reconciled(reconcile::handle(&app).await.is_ok()) })
}

pub fn name(buyer: usize) -> String {
    format!("buyer {buyer}")
}
