//! What became of somebody's request: it agrees with what happened, and with the answers before.

use domain::ids::OrderId;
use local_cloud::engine::sqs::Sqs;
use testkit::world::names;

use crate::actors::{Outcome, Press, Refused, name};
use crate::choice::Delivery;
use crate::run::Sim;

/// How old a function's knowledge may be that an item is sold out: of the sale, of the page, and of a bucket.
const REMEMBERED_MS: i64 = 1_000 + 300 + 1_000;
/// The same where the buyer says which version of the availability they saw: the pages may just have been read for another such buyer.
const REMEMBERED_INFORMED_MS: i64 = 50;

impl Sim {
    pub(crate) fn ended(&mut self, outcome: Outcome) -> Result<(), String> {
        let cloud = &self.observer.cloud;
        match outcome {
            Outcome::Pressed(press, answer) => return self.pressed(&press, answer),
            Outcome::Seen(order, Err(code)) if code != "UNAVAILABLE" => {
                return Err(format!("order {order} was accepted, and its buyer is told {code}"));
            }
            Outcome::Started(buyer, Some(payment)) => self.payments.entry(buyer).or_default().push(payment),
            Outcome::Consumed { failed, receipts, delivery } => {
                let queue = Sqs::name_of(&names().orders_queue_url).to_owned();
                if matches!(delivery, Delivery::Once | Delivery::Twice) {
                    for (_, receipt) in receipts.into_iter().filter(|(id, _)| !failed.contains(id)) {
                        // It may have come again meanwhile, or have been handled twice.
                        let _ = futures::executor::block_on(cloud.sqs.delete(&queue, &receipt));
                    }
                }
            }
            Outcome::Checked(firing, true) => {
                let _ = futures::executor::block_on(cloud.scheduler.fired(&firing));
            }
            Outcome::Checked(firing, false) => cloud.scheduler.put_back(&firing),
            Outcome::Told { notice, accepted } => {
                // Of two deliveries of one notice the second finds it settled.
                let _ = futures::executor::block_on(cloud.sandbox.delivered(notice, accepted));
            }
            Outcome::Streamed(done) => {
                let read = self.reading.take();
                if done {
                    let now_ms = self.observer.clock.now_ms();
                    self.pages.push((now_ms, self.pages_are_of().unwrap_or(now_ms)));
                    self.position = read;
                }
            }
            Outcome::Restocked(key, 200..300) => {
                self.restocked.insert(key);
            }
            Outcome::Seen(..)
            | Outcome::Started(..)
            | Outcome::Answered(..)
            | Outcome::Restocked(..)
            | Outcome::Reconciled(_) => {}
        }
        Ok(())
    }

    /// An answer to a press agrees with what happened and with the answers before.
    fn pressed(&mut self, press: &Press, answer: Result<OrderId, Refused>) -> Result<(), String> {
        let Press { buyer, key, quantity, .. } = press;
        let order = match answer {
            Ok(order) => order,
            Err(refused) => {
                return match refused.code.as_str() {
                    "SOLD_OUT" => self.was_sold_out(press),
                    "DUPLICATE_ORDER"
                        if !refused.order.as_ref().is_some_and(|order| self.was_claimed(*buyer, order)) =>
                    {
                        Err(format!("{} is told of an order that is not theirs: {refused:?}", name(*buyer)))
                    }
                    "PAUSED" if !self.paused => Err("it is said to be paused, and never was".to_owned()),
                    "IDEMPOTENCY_MISMATCH" if !self.was_used_otherwise(press) => {
                        Err(format!("{} is told of another use of {key:?}, and there was none", name(*buyer)))
                    }
                    "UNAVAILABLE" => {
                        self.unsure.push((*buyer, key.clone(), *quantity));
                        Ok(())
                    }
                    _ => Ok(()),
                };
            }
        };
        self.mark("accepted");
        if let Some(key) = key
            && let Some(before) = self.answers.insert((*buyer, key.clone()), order.clone())
            && before != order
        {
            return Err(format!("{} got {before} and then {order} for the key {key}", name(*buyer)));
        }
        let orders = self.orders.entry(*buyer).or_default();
        if !orders.contains(&order) {
            orders.push(order);
            self.lately.push(*buyer);
        }
        Ok(())
    }

    /// An order's number has its buyer in it.
    fn was_claimed(&self, buyer: usize, order: &OrderId) -> bool {
        order.buyer() == self.observer.asks(&self.offer, &name(buyer), 1, None).buyer_key
    }

    fn was_used_otherwise(&self, press: &Press) -> bool {
        let used = press.key.as_ref().and_then(|key| self.used.get(&(press.buyer, key.clone())));
        used.is_some_and(|quantities| quantities.iter().any(|quantity| *quantity != press.quantity))
    }

    /// A buyer presses with a key, for so many.
    pub(crate) fn uses(&mut self, press: &Press) {
        if let Some(key) = &press.key {
            self.used.entry((press.buyer, key.clone())).or_default().insert(press.quantity);
        }
    }

    /// Sold out is said only if every bucket was short at some moment of the request, or of what its function still remembered or could read
    /// then.
    fn was_sold_out(&mut self, press: &Press) -> Result<(), String> {
        let Press { quantity, seen_version, began_ms, .. } = *press;
        // Which moment a read was of that is not strong, nobody knows.
        if self.weather.is_stale() {
            return Ok(());
        }
        let remembered_ms = began_ms - seen_version.map_or(REMEMBERED_MS, |_| REMEMBERED_INFORMED_MS);
        let told = self.pages.iter().find(|(until_ms, _)| *until_ms >= remembered_ms).map(|(_, of_ms)| *of_ms);
        let since_ms = told.or_else(|| self.pages_are_of()).map_or(remembered_ms, |of_ms| of_ms.min(remembered_ms));
        match self.watch.free_ever_since(quantity, since_ms) {
            Some(bucket) => Err(format!("sold out is said of {quantity}, and bucket {bucket} had them all the time")),
            None => Ok(()),
        }
    }

    /// The moment of the stream's oldest record that has not been read: the pages do not know of it.
    fn pages_are_of(&self) -> Option<i64> {
        let stock = names().stock;
        let stream = self.observer.cloud.dynamodb.stream_records(&stock, self.position.as_ref(), 1);
        let unread = futures::executor::block_on(stream).unwrap();
        unread.first().map(|record| (record.created_s * 1_000.0) as i64)
    }
}
