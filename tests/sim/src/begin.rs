//! Somebody begins to act: buyers, what they do at their providers, what arrives at the functions, the operator, and reconcile.

use domain::availability::{PageNo, pages};
use local_cloud::engine::sqs::{Receive, Sqs};
use local_cloud::sources::events::{queue_event, stream_event};
use testkit::world::names;

use crate::actors::{self, Press};
use crate::check;
use crate::choice::{Act, Back, Delivery, Firing, Paying};
use crate::functions::{ENVIRONMENTS, Function};
use crate::run::Sim;

/// How much too early a schedule may fire here, in milliseconds.
const EARLY_MS: i64 = 30_000;

/// The second of two runs has a name of its own.
const SECOND: u64 = 1_000_000;

impl Sim {
    pub(crate) async fn begin(&mut self, id: u64, act: &Act) -> Result<(), String> {
        let environment = id as usize % ENVIRONMENTS;
        if matches!(act, Act::Press { .. } | Act::Pay { .. } | Act::Cancel { .. } | Act::Refund { .. }) {
            self.asked.insert(id, act.clone());
        }
        match act {
            Act::Press { buyer, key, quantity, environment, informed } => {
                let began_ms = self.observer.clock.now_ms();
                let seen_version = if *informed { Some(self.shown_version().await) } else { None };
                let press = Press { buyer: *buyer, key: key.clone(), quantity: *quantity, seen_version, began_ms };
                self.uses(&press);
                let life = actors::press(self.functions.seckill(*environment), &self.offer, press);
                self.start(id, (Function::Seckill, *environment), life)
            }
            Act::Look { buyer, back } => {
                let Some(order) = latest(self.orders.get(buyer), *back) else { return Ok(()) };
                let life = actors::look(self.functions.shop(environment), *buyer, order);
                self.start(id, (Function::Shop, environment), life)
            }
            Act::Pay { buyer, back, method, points } => {
                let Some(order) = latest(self.orders.get(buyer), *back) else { return Ok(()) };
                let life = actors::pay(self.functions.shop(environment), *buyer, &order, *method, *points);
                self.start(id, (Function::Shop, environment), life)
            }
            Act::Cancel { buyer, back } => self.ask(id, *buyer, *back, "cancel"),
            Act::Refund { buyer, back } => self.ask(id, *buyer, *back, "refund"),
            Act::AtTheProvider { buyer, back, what } => self.at_the_provider(*buyer, *back, *what).await,
            Act::Notice { which, twice } => self.a_notice_comes(id, *which, *twice).await,
            Act::Messages { most, fate, newer } => self.messages_arrive(id, *most, *fate, *newer).await,
            Act::Stream { most } => self.the_stream_goes_on(id, *most).await,
            Act::Deadline { which, fate } => self.a_deadline_comes(id, *which, *fate).await,
            Act::Reconcile => {
                let life = actors::reconcile(self.functions.reconcile(environment));
                self.start(id, (Function::Reconcile, environment), life)
            }
            Act::Restock { quantity, key } => {
                self.restocks.insert(key.clone());
                let path = format!("/admin/sales/{}/items/{}/restock", self.offer.sale, self.offer.item);
                let life = actors::restock(self.functions.admin(environment), &path, key, *quantity);
                self.start(id, (Function::Admin, environment), life)
            }
            Act::Pause => {
                self.paused = true;
                self.operate(id, "pause")
            }
            Act::Resume => self.operate(id, "resume"),
        }
    }

    fn ask(&mut self, id: u64, buyer: usize, back: Back, what: &'static str) -> Result<(), String> {
        let Some(order) = latest(self.orders.get(&buyer), back) else { return Ok(()) };
        let environment = id as usize % ENVIRONMENTS;
        let life = actors::ask(self.functions.shop(environment), buyer, &order, what);
        self.start(id, (Function::Shop, environment), life)
    }

    fn operate(&mut self, id: u64, what: &'static str) -> Result<(), String> {
        let environment = id as usize % ENVIRONMENTS;
        let path = format!("/admin/sales/{}/{what}", self.offer.sale);
        let life = actors::operate(self.functions.admin(environment), what, &path);
        self.start(id, (Function::Admin, environment), life)
    }

    /// In the sandbox: it takes the money, if it can, and has a notice for the shop.
    async fn at_the_provider(&mut self, buyer: usize, back: Back, what: Paying) -> Result<(), String> {
        let Some(payment) = latest(self.payments.get(&buyer), back) else { return Ok(()) };
        let sandbox = &self.observer.cloud.sandbox;
        if let Some(link) = &payment.link {
            let _ = sandbox.open(link).await;
        }
        let done = match what {
            Paying::Paid => sandbox.pay(&payment.number).await,
            Paying::PaidLate => sandbox.pay_late(&payment.number).await,
            Paying::Failed => sandbox.fail(&payment.number).await,
            Paying::ToldAgain => sandbox.notify_again(&payment.number).await,
        };
        if done.is_ok() {
            self.mark(format!("payment {what:?}"));
            self.note(format!("{} {what:?}", payment.number));
        }
        check::money(&self.observer).await
    }

    async fn a_notice_comes(&mut self, id: u64, which: usize, twice: bool) -> Result<(), String> {
        let due = self.observer.cloud.sandbox.due_notices().await.unwrap();
        let Some(notice) = which.checked_rem(due.len()).and_then(|which| due.get(which)) else { return Ok(()) };
        let environment = id as usize % ENVIRONMENTS;
        if twice {
            let life = actors::notice(self.functions.notify(environment), notice.clone());
            self.start(id + SECOND, (Function::PaymentNotify, environment), life)?;
        }
        let life = actors::notice(self.functions.notify(environment), notice.clone());
        self.start(id, (Function::PaymentNotify, environment), life)
    }

    async fn messages_arrive(&mut self, id: u64, most: usize, fate: Delivery, newer: bool) -> Result<(), String> {
        let queue = Sqs::name_of(&names().orders_queue_url).to_owned();
        let receive = Receive { max: most, wait_s: Some(0), visibility_s: None };
        let mut messages = self.observer.cloud.sqs.receive(&queue, receive).await.unwrap();
        if messages.is_empty() {
            return Ok(());
        }
        self.mark(format!("delivery {fate:?}"));
        if fate == Delivery::Lost {
            return Ok(());
        }
        if newer {
            // As a function of the next version would write it.
            self.mark("delivery of a newer version");
            let message = &mut messages[0];
            message.body = message.body.replace("\"version\":1", "\"version\":2");
        }
        let receipts: Vec<(String, String)> =
            messages.iter().map(|message| (message.message_id.clone(), message.receipt_handle.clone())).collect();
        let event = queue_event(&Sqs::arn_of(&queue), &messages);
        let environment = id as usize % ENVIRONMENTS;
        if fate == Delivery::Twice {
            let second = (environment + 1) % ENVIRONMENTS;
            let app = self.functions.consumer(second);
            let life = actors::consume(app, event.clone(), receipts.clone(), fate);
            self.start(id + SECOND, (Function::OrderConsumer, second), life)?;
        }
        let life = actors::consume(self.functions.consumer(environment), event, receipts, fate);
        self.start(id, (Function::OrderConsumer, environment), life)
    }

    /// A stream has one reader; a batch that failed, or whose reader died, comes again.
    async fn the_stream_goes_on(&mut self, id: u64, most: usize) -> Result<(), String> {
        if self.reading.is_some() {
            return Ok(());
        }
        let stock = names().stock;
        let records = self.observer.cloud.dynamodb.stream_records(&stock, self.position.as_ref(), most).await.unwrap();
        let Some(last) = records.last() else { return Ok(()) };
        self.reading = Some(last.sequence_number.clone());
        let event = stream_event(
            "arn:aws:dynamodb:eu-central-1:000000000000:table/stock/stream/1",
            records.iter().map(|record| &record.event),
        );
        self.start(id, (Function::Availability, 0), actors::stream(self.functions.availability(), event))
    }

    async fn a_deadline_comes(&mut self, id: u64, which: usize, fate: Firing) -> Result<(), String> {
        let early_ms = if fate == Firing::Early { EARLY_MS } else { 0 };
        let scheduler = &self.observer.cloud.scheduler;
        let due = scheduler.due(self.observer.clock.now_ms() + early_ms).await.unwrap();
        let deadlines: Vec<_> = due
            .into_iter()
            .filter(|due| due.target.input.as_deref().is_some_and(|input| input.contains("orderId")))
            .collect();
        let Some(chosen) = which.checked_rem(deadlines.len()) else { return Ok(()) };
        deadlines
            .iter()
            .enumerate()
            .filter(|(place, _)| *place != chosen)
            .for_each(|(_, firing)| scheduler.put_back(firing));
        let firing = deadlines[chosen].clone();
        self.mark(format!("deadline {fate:?}"));
        if fate == Firing::Never {
            scheduler.fired(&firing).await.unwrap();
            return Ok(());
        }
        let environment = id as usize % ENVIRONMENTS;
        if fate == Firing::Twice {
            let life = actors::check_deadline(self.functions.timeout_check(environment), firing.clone());
            self.start(id + SECOND, (Function::TimeoutCheck, environment), life)?;
        }
        let life = actors::check_deadline(self.functions.timeout_check(environment), firing);
        self.start(id, (Function::TimeoutCheck, environment), life)
    }
}

impl Sim {
    /// The version of the availability that a storefront could show at this moment.
    async fn shown_version(&self) -> u64 {
        let pages = pages(self.observer.item(&self.offer).await.layout.buckets());
        let numbers: Vec<PageNo> = (0..pages).collect();
        let pages = self.observer.store.pages_consistently(&self.offer, &numbers).await.unwrap();
        pages.iter().map(|(_, page)| page.version).sum()
    }
}

fn latest<T: Clone>(of: Option<&Vec<T>>, back: Back) -> Option<T> {
    of?.iter().rev().nth(back).cloned()
}
