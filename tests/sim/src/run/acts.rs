//! Who acts next: buyers who press, cancel, pay and want their money back; messages, deadlines, notices and stream records that arrive; the
//! operator; and reconcile.

use domain::Timestamp;
use domain::ids::OrderId;
use domain::payment::Method;
use domain::sale::SaleChange;
use local_cloud::engine::sqs::{Receive, Sqs};
use seckill_tests::turns::act;
use seckill_tests::world::{names, stock_change};

use super::{BUYERS, ENVIRONMENTS, Sim, name};
use crate::actors;

impl Sim {
    pub(super) async fn somebody_acts(&mut self) {
        act(0);
        match self.dice.below(100) {
            0..30 => self.somebody_presses(),
            30..45 => self.a_message_arrives().await,
            45..53 => self.the_stream_goes_on().await,
            53..60 => self.a_deadline_comes().await,
            60..64 => self.somebody_cancels(),
            64..76 => self.somebody_wants_to_pay(),
            76..82 => self.somebody_pays().await,
            82..87 => self.a_notice_comes().await,
            87..91 => self.somebody_wants_a_refund(),
            91..96 => self.start("reconcile", None, actors::reconcile(&self.world)),
            96..98 => {
                self.restocks += 1;
                // The same restock may be asked for twice.
                let key = format!("restock-{}", self.restocks.saturating_sub(self.dice.below(2) as u32));
                self.start("restock", None, actors::restock(&self.world, self.offer.clone(), 1, key));
            }
            _ => {
                let change = if self.dice.chance(30) { SaleChange::Pause } else { SaleChange::Resume };
                self.start("operator", None, actors::change(&self.world, self.offer.clone(), change));
            }
        }
    }

    fn somebody_presses(&mut self) {
        let buyer = self.dice.below(BUYERS);
        let key = match self.dice.below(3) {
            0 => None,
            1 if self.last_key.contains_key(&buyer) => self.last_key.get(&buyer).cloned(),
            _ => Some(format!("k{}", self.dice.below(1_000_000))),
        };
        if let Some(key) = &key {
            self.last_key.insert(buyer, key.clone());
        }
        let mut asked = self.observer.asks(&self.offer, &name(buyer), 1, key.as_deref());
        // Clocks of different machines are apart by up to half a minute.
        let skew_ms = self.dice.below(60_000) as i64 - 30_000;
        if self.dice.chance(20) {
            asked.now = Timestamp::from_millisecond(asked.now.as_millisecond() + skew_ms).unwrap();
        }
        asked.random = self.dice.roll() as u32 >> 2;
        let environment = self.dice.below(ENVIRONMENTS);
        let life = actors::press(&self.world, &self.environments[environment], asked, buyer);
        self.start("press", Some(environment), life);
    }

    async fn a_message_arrives(&mut self) {
        let queue = Sqs::name_of(&names().orders_queue_url).to_owned();
        let receive = Receive { max: 1, wait_s: Some(0), visibility_s: None };
        let received = self.observer.cloud.sqs.receive(&queue, receive).await.unwrap();
        for message in received {
            let twice = self.dice.chance(15);
            self.start("consumer", None, actors::consume(&self.world, message.body.clone(), message.receipt_handle));
            if twice {
                self.start("consumer", None, actors::consume(&self.world, message.body, String::new()));
            }
        }
    }

    async fn the_stream_goes_on(&mut self) {
        if self.reading.is_some() {
            return;
        }
        let stock = names().stock;
        // A batch is sometimes delivered again, from the position before it.
        let records = self.observer.cloud.dynamodb.stream_records(&stock, self.position.as_ref(), 5).await.unwrap();
        let Some(last) = records.last() else { return };
        self.reading = Some(last.sequence_number.clone());
        let changes = records.iter().map(|record| stock_change(&record.event)).collect();
        self.start("stream", None, actors::stream(&self.world, changes));
    }

    async fn a_deadline_comes(&mut self) {
        let now = self.observer.clock.now_ms();
        let Some(firing) = self.observer.cloud.scheduler.due(now).await.unwrap().into_iter().next() else { return };
        self.start("deadline", None, actors::check_deadline(&self.world, firing));
    }

    fn somebody_cancels(&mut self) {
        let Some(order) = self.accepted.keys().nth(self.dice.below(self.accepted.len())).cloned() else { return };
        self.start("cancel", None, actors::cancel(&self.world, order));
    }

    /// One of the latest orders, mostly: they are the ones that still wait. Ids go by time.
    fn some_order(&mut self) -> Option<OrderId> {
        let latest = if self.dice.chance(80) { 6 } else { self.accepted.len() };
        self.accepted.keys().rev().nth(self.dice.below(latest)).cloned()
    }

    fn somebody_wants_to_pay(&mut self) {
        let Some(order) = self.some_order() else { return };
        let method = Method::ALL[self.dice.below(Method::ALL.len())];
        let points = if method != Method::Points && self.dice.chance(25) { 40 } else { 0 };
        self.start("payment", None, actors::start_payment(&self.world, order, method, points));
    }

    /// In the sandbox: it takes the money, if it can, and has a notice for the shop.
    async fn somebody_pays(&mut self) {
        if self.started.is_empty() {
            return;
        }
        let latest = if self.dice.chance(80) { 4 } else { self.started.len() };
        let started = self.started[self.started.len() - 1 - self.dice.below(latest.min(self.started.len()))].clone();
        let (sandbox, number) = (&self.observer.cloud.sandbox, started.number.to_string());
        if let Some(link) = started.link.pay_url.as_ref().or(started.link.qr_code.as_ref()) {
            let _ = sandbox.open(link).await;
        }
        let paid = match self.dice.below(6) {
            0 => sandbox.fail(&number).await.map(|_| "fails"),
            1 => sandbox.pay_late(&number).await.map(|_| "is paid late"),
            2 => sandbox.notify_again(&number).await.map(|_| "is told of again"),
            _ => sandbox.pay(&number).await.map(|_| "is paid"),
        };
        if let Ok(what) = paid {
            self.note(format!("payment {number} {what}"));
            *self.tally.money.entry(what).or_default() += 1;
        }
    }

    async fn a_notice_comes(&mut self) {
        let due = self.observer.cloud.sandbox.due_notices().await.unwrap();
        if due.is_empty() {
            return;
        }
        let notice = due[self.dice.below(due.len())].clone();
        if self.dice.chance(15) {
            self.start("notice", None, actors::notice(&self.world, notice.clone()));
        }
        self.start("notice", None, actors::notice(&self.world, notice));
    }

    fn somebody_wants_a_refund(&mut self) {
        let Some(order) = self.some_order() else { return };
        self.start("refund", None, actors::refund(&self.world, order));
    }
}
