//! Handles the outcome of an invocation, and checks answers to buyers against what happened and against earlier
//! answers.

use domain::ids::OrderId;
use flows::buy::bucket_picker::{self, OBSERVED_FOR_MS, REREAD_AFTER_MS};
use flows::sale::sales;
use local_cloud::engine::sqs::Sqs;
use testkit::world::names;

use crate::actors::{Outcome, Press, Refused, name};
use crate::choice::Delivery;
use crate::run::{Sim, SoldOut};

/// The same for a press that carries the availability version its buyer saw. The pages may just have been read for
/// another such press.
const REMEMBERED_INFORMED_MS: i64 = REREAD_AFTER_MS;
/// How old a function's cached knowledge that an item is sold out may be: of the sale, the page, and a bucket.
const REMEMBERED_MS: i64 = sales::FRESH_FOR_MS + bucket_picker::FRESH_FOR_MS + OBSERVED_FOR_MS;

impl Sim {
    pub(crate) fn handle_outcome(&mut self, outcome: Outcome) -> Result<(), String> {
        let cloud = &self.observer.cloud;
        match outcome {
            Outcome::Pressed(press, answer) => return self.check_answer(&press, answer),
            Outcome::OrderViewed(order, Err(code)) if code != "UNAVAILABLE" => {
                return Err(format!("order {order} was accepted, but its buyer gets {code}"));
            }
            Outcome::PaymentStarted(buyer, Some(payment)) => self.payments.entry(buyer).or_default().push(payment),
            Outcome::Consumed { failed, receipts, delivery } => {
                let queue = Sqs::name_of(&names().orders_queue_url).to_owned();
                if matches!(delivery, Delivery::Once | Delivery::Twice) {
                    for (_, receipt) in receipts.into_iter().filter(|(id, _)| !failed.contains(id)) {
                        // Fails if the message was delivered again meanwhile, or handled twice.
                        let _ = futures::executor::block_on(cloud.sqs.delete(&queue, &receipt));
                    }
                }
            }
            Outcome::DeadlineChecked(firing, true) => {
                let _ = futures::executor::block_on(cloud.scheduler.fired(&firing));
            }
            Outcome::DeadlineChecked(firing, false) => cloud.scheduler.put_back(&firing),
            Outcome::NoticeAnswered { notice, accepted } => {
                // Fails for the second of two deliveries of one notice.
                let _ = futures::executor::block_on(cloud.sandbox.delivered(notice, accepted));
            }
            Outcome::Streamed(done) => {
                let read = self.reading.take();
                if done {
                    let now_ms = self.observer.clock.now_ms();
                    self.pages.push((now_ms, self.oldest_unread_ms().unwrap_or(now_ms)));
                    self.position = read;
                }
            }
            Outcome::Restocked(key, 200..300) => {
                self.restocked.insert(key);
            }
            Outcome::Edited(read, name) => {
                self.mark("edited");
                if let Some(other) = self.edits.insert(read, name.clone()).filter(|other| *other != name) {
                    return Err(format!("two operators saved over version {read}: {other}, and then {name}"));
                }
            }
            Outcome::Answered("edit", 412, _) => self.mark("edit refused as stale"),
            Outcome::OrderViewed(..)
            | Outcome::PaymentStarted(..)
            | Outcome::Answered(..)
            | Outcome::Restocked(..)
            | Outcome::Reconciled(_) => {}
        }
        Ok(())
    }

    /// Checks the answer to a press.
    fn check_answer(&mut self, press: &Press, answer: Result<(OrderId, u32), Refused>) -> Result<(), String> {
        let Press { buyer, key, quantity, .. } = press;
        let (order, got) = match answer {
            Ok(accepted) => accepted,
            Err(refused) => {
                return match refused.code.as_str() {
                    "SOLD_OUT" => {
                        self.note_sold_out(press);
                        self.check_sold_out(press)
                    }
                    "DUPLICATE_ORDER"
                        if !refused.order.as_ref().is_some_and(|order| self.belongs_to(*buyer, order)) =>
                    {
                        Err(format!("{} is shown an order of another buyer: {refused:?}", name(*buyer)))
                    }
                    "PAUSED" if !self.paused => Err("the answer is PAUSED, but the sale was never paused".to_owned()),
                    "IDEMPOTENCY_MISMATCH" if !self.was_used_otherwise(press) => {
                        Err(format!("{} gets IDEMPOTENCY_MISMATCH, but {key:?} was never used otherwise", name(*buyer)))
                    }
                    "UNAVAILABLE" => {
                        self.unanswered.push((*buyer, key.clone(), *quantity));
                        Ok(())
                    }
                    _ => Ok(()),
                };
            }
        };
        self.mark("accepted");
        if let Some(before) = self.quantities.insert(order.clone(), got).filter(|before| *before != got) {
            return Err(format!("order {order} was answered with {before} units, and then with {got}"));
        }
        if let Some(key) = key
            && let Some(before) = self.answers.insert((*buyer, key.clone()), order.clone())
            && before != order
        {
            return Err(format!("{} got {before} and then {order} for the key {key}", name(*buyer)));
        }
        let orders = self.orders.entry(*buyer).or_default();
        if !orders.contains(&order) {
            orders.push(order);
            self.recent_buyers.push(*buyer);
        }
        Ok(())
    }

    /// Whether an order is the buyer's: its number contains the buyer.
    fn belongs_to(&self, buyer: usize, order: &OrderId) -> bool {
        order.buyer() == self.observer.asks(&self.offer, &name(buyer), 1, None).buyer_key
    }

    fn was_used_otherwise(&self, press: &Press) -> bool {
        let used = press.key.as_ref().and_then(|key| self.key_uses.get(&(press.buyer, key.clone())));
        used.is_some_and(|quantities| quantities.iter().any(|quantity| *quantity != press.quantity))
    }

    /// Notes the quantity that a key is used with.
    pub(crate) fn note_key_use(&mut self, press: &Press) {
        if let Some(key) = &press.key {
            self.key_uses.entry((press.buyer, key.clone())).or_default().insert(press.quantity);
        }
    }

    /// The buyer comes back when the storefront shows a newer version.
    fn note_sold_out(&mut self, press: &Press) {
        let version = futures::executor::block_on(self.shown_version());
        let Press { buyer, ref key, quantity, environment, .. } = *press;
        self.sold_out.push(SoldOut { buyer, key: key.clone(), quantity, environment, version });
    }

    /// Checks that SOLD_OUT was justified: every bucket was short of units at some moment since the oldest state that
    /// the function may have remembered or read.
    fn check_sold_out(&mut self, press: &Press) -> Result<(), String> {
        let Press { quantity, seen_version, began_ms, .. } = *press;
        // With stale reads it is unknown which moment a function saw.
        if self.conditions.is_stale() {
            return Ok(());
        }
        let remembered_ms = began_ms - seen_version.map_or(REMEMBERED_MS, |_| REMEMBERED_INFORMED_MS);
        let handled = self.pages.iter().find(|(until_ms, _)| *until_ms >= remembered_ms).map(|(_, of_ms)| *of_ms);
        let since_ms =
            handled.or_else(|| self.oldest_unread_ms()).map_or(remembered_ms, |of_ms| of_ms.min(remembered_ms));
        match self.safety.free_ever_since(quantity, since_ms) {
            Some(bucket) => {
                Err(format!("the answer is SOLD_OUT for {quantity}, but bucket {bucket} had them all the time"))
            }
            None => Ok(()),
        }
    }

    /// The time of the stream's oldest unread record, which the pages do not reflect yet.
    fn oldest_unread_ms(&self) -> Option<i64> {
        let stock = names().stock;
        let stream = self.observer.cloud.dynamodb.stream_records(&stock, self.position.as_ref(), 1);
        let unread = futures::executor::block_on(stream).unwrap();
        unread.first().map(|record| (record.created_s * 1_000.0) as i64)
    }
}
