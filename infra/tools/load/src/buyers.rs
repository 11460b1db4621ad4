//! The buyers: they arrive at planned times, buy, follow their orders, and perhaps pay.

use std::sync::Arc;
use std::time::{Duration, Instant};

use domain::ids::OrderId;
use serde_json::{Value, json};
use testkit::http::{Answer, NoAnswer, User};
use testkit::rng::Rng;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::Options;
use crate::counts::{Route, SharedCounts};

/// API Gateway answers within 30 seconds in any case.
const TIMEOUT: Duration = Duration::from_secs(31);
/// The wait before a retry, if the answer has no `Retry-After`. It starts here and doubles up to the longest.
const FIRST_WAIT: Duration = Duration::from_millis(200);
const LONGEST_WAIT: Duration = Duration::from_secs(2);
/// How often a buyer polls an order. Together this takes longer than reconcile needs to find a lost message.
const MAX_LOOKS: u32 = 70;
/// Payment methods for which the sandbox needs no page to be opened first.
const METHODS: [&str; 3] = ["wechat", "wechat-v2", "stripe"];

/// All buyers, and the sale in which they buy.
#[derive(Debug)]
pub(crate) struct Buyers {
    pub(crate) options: Options,
    pub(crate) seed: u64,
    pub(crate) sale: String,
    pub(crate) users: Vec<User>,
    pub(crate) purchase_body: String,
    pub(crate) counts: SharedCounts,
}

/// The result of a buyer's purchase requests.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Purchase {
    Order(String),
    SoldOut,
    Refused,
    Unclear,
}

impl Purchase {
    /// The result of all requests of a buyer, given the last one. Requests have no idempotency key, so that a refusal
    /// is the cheapest one. Without a key, a refusal says nothing about an earlier request that was not answered and
    /// that may hold the last unit.
    fn after(self, is_clear: bool) -> Self {
        match self {
            Self::SoldOut | Self::Refused if !is_clear => Self::Unclear,
            result => result,
        }
    }
}

impl Buyers {
    /// Runs all buyers, and returns when the last one has finished.
    pub(crate) async fn arrive(self: &Arc<Self>) {
        let room = Arc::new(Semaphore::new(usize::try_from(self.options.at_once).unwrap_or(1)));
        let mut tasks = JoinSet::new();
        let mut rng = Rng::new(self.seed);
        let all = f64::from(self.options.buyers.max(1));
        for number in 0..self.options.buyers {
            // Arrivals are not evenly spaced, and are the same in each run with the same seed.
            let jitter = f64::from(u32::try_from(rng.below(1_000)).unwrap_or(0)) / 1_000.0;
            let share = self.options.shape.when((f64::from(number) + jitter) / all);
            let planned = self.counts.began + self.options.duration().mul_f64(share);
            tokio::time::sleep_until(planned.into()).await;
            let Ok(place) = Arc::clone(&room).acquire_owned().await else { return };
            let buyers = Arc::clone(self);
            tasks.spawn(async move {
                buyers.run_buyer(number, planned).await;
                drop(place);
            });
            while tasks.try_join_next().is_some() {}
        }
        while tasks.join_next().await.is_some() {}
    }

    /// Runs one buyer. The latency of the first request counts from its planned time.
    async fn run_buyer(&self, number: u32, planned: Instant) {
        let mut rng = Rng::new(self.seed ^ (u64::from(number) << 24));
        let Some(user) = usize::try_from(number).ok().and_then(|n| self.users.get(n)) else { return };
        {
            let mut counts = self.counts.lock();
            counts.arrived += 1;
            // No timer is this late: the buyer had to wait for a free place.
            counts.late += u64::from(planned.elapsed() > Duration::from_millis(100));
        }
        let mut began = planned;
        if rng.chance(self.options.looks) {
            let answer = send(user, "GET", &format!("/sales/{}", self.sale), "").await;
            self.counts.time(Route::Sale, began.elapsed());
            self.expect(answer, 200, "looking at the sale");
            began = Instant::now();
        }
        match self.buy_until_answered(user, number, began).await {
            Purchase::Order(order) => self.follow_order(user, number, &order, &mut rng).await,
            Purchase::Unclear => self.counts.lock().unclear += 1,
            Purchase::SoldOut | Purchase::Refused => {}
        }
    }

    /// Sends purchase requests until there is a definite answer, or no retry is left.
    async fn buy_until_answered(&self, user: &User, number: u32, mut began: Instant) -> Purchase {
        let mut wait = FIRST_WAIT;
        let mut is_clear = true;
        for _ in 0..=self.options.tries {
            let answer = send(user, "POST", "/seckill", &self.purchase_body).await;
            let took = began.elapsed();
            let asked_to_wait = match answer {
                Ok(answer) => match self.interpret(&answer, number, took, is_clear) {
                    Some(result) => return result.after(is_clear),
                    None => {
                        // A 429 is definite: the request had no effect.
                        is_clear &= answer.status == 429;
                        retry_after(&answer)
                    }
                },
                Err(_) => {
                    self.counts.purchase(Route::OtherAnswer, "no answer", took);
                    is_clear = false;
                    None
                }
            };
            tokio::time::sleep(asked_to_wait.unwrap_or(wait)).await;
            wait = (wait * 2).min(LONGEST_WAIT);
            began = Instant::now();
        }
        Purchase::Refused.after(is_clear)
    }

    /// The result according to an answer. `None` when the buyer should retry.
    fn interpret(&self, answer: &Answer, number: u32, took: Duration, is_clear: bool) -> Option<Purchase> {
        let order = answer.body.get("orderId").and_then(Value::as_str);
        match (answer.status, answer.code(), order) {
            (202, _, Some(order)) => {
                self.counts.purchase(Route::Accepted, "202", took);
                self.counts.has_order(order, number);
                Some(Purchase::Order(order.to_owned()))
            }
            (409, "SOLD_OUT", _) => {
                self.counts.purchase(Route::SoldOut, "SOLD_OUT", took);
                Some(Purchase::SoldOut)
            }
            (409, "DUPLICATE_ORDER", Some(order)) => {
                self.counts.purchase(Route::OtherAnswer, "DUPLICATE_ORDER", took);
                if is_clear {
                    let wrong = format!("buyer {number} sent one request and got DUPLICATE_ORDER for order {order}");
                    self.counts.unexpected(wrong);
                }
                // An earlier request was not answered and had succeeded.
                self.counts.has_order(order, number);
                Some(Purchase::Order(order.to_owned()))
            }
            (429 | 503 | 502 | 504, code, _) => {
                let name =
                    if code.is_empty() { answer.status.to_string() } else { format!("{} {code}", answer.status) };
                self.counts.purchase(Route::OtherAnswer, &name, took);
                None
            }
            (status, code, _) => {
                self.counts.purchase(Route::OtherAnswer, &format!("{status} {code}"), took);
                self.counts.unexpected(format!("a purchase was answered {status} {}", answer.body));
                Some(Purchase::Refused)
            }
        }
    }

    /// Follows an accepted order: perhaps buys again, waits until the order exists, and perhaps pays.
    async fn follow_order(&self, user: &User, number: u32, order: &str, rng: &mut Rng) {
        if rng.chance(self.options.repeats) {
            self.buy_again(user, number, order).await;
        }
        let made = self.poll_until(user, order, true, |status| status != "QUEUED").await;
        if made.as_deref() != Some("PENDING_PAYMENT") {
            return;
        }
        if rng.chance(self.options.pays()) {
            let method = METHODS.get(rng.below(METHODS.len())).copied().unwrap_or("wechat");
            self.pay(user, order, method).await;
        }
    }

    /// Buys a second time, which must be refused with the first order. When everything is sold, SOLD_OUT is correct
    /// too, because it is answered before the buyer's claims are read.
    async fn buy_again(&self, user: &User, number: u32, order: &str) {
        let began = Instant::now();
        let Ok(answer) = send(user, "POST", "/seckill", &self.purchase_body).await else { return };
        let duplicate_of = answer.body.get("orderId").and_then(Value::as_str);
        let is_right = match (answer.status, answer.code()) {
            (409, "DUPLICATE_ORDER") => duplicate_of == Some(order),
            (409, "SOLD_OUT") | (429 | 503, _) => true,
            _ => false,
        };
        let mut counts = self.counts.lock();
        counts.second_purchases += 1;
        if !is_right {
            let (status, body) = (answer.status, &answer.body);
            counts.wrong_second_purchases.push(format!("buyer {number} has order {order} and got {status} {body}"));
        }
        drop(counts);
        let name = if answer.code().is_empty() { answer.status.to_string() } else { answer.code().to_owned() };
        self.counts.purchase(Route::OtherAnswer, &format!("second purchase: {name}"), began.elapsed());
    }

    /// Polls an order until its status is the one to wait for. `is_new` means that its creation is not recorded yet.
    async fn poll_until(
        &self,
        user: &User,
        order: &str,
        is_new: bool,
        is_there: impl Fn(&str) -> bool,
    ) -> Option<String> {
        let mut wait = FIRST_WAIT / 2;
        for _ in 0..MAX_LOOKS {
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(LONGEST_WAIT);
            let began = Instant::now();
            let Ok(answer) = send(user, "GET", &format!("/orders/{order}"), "").await else { continue };
            self.counts.time(Route::Order, began.elapsed());
            let status = answer.body.get("status").and_then(Value::as_str);
            match (answer.status, status) {
                (200, Some(status)) if is_there(status) => {
                    if is_new {
                        self.record_order(order, &answer);
                    }
                    return Some(status.to_owned());
                }
                (200, Some(_)) | (429 | 503, _) => {}
                _ => {
                    self.counts
                        .unexpected(format!("looking at order {order} was answered {} {}", answer.status, answer.body));
                    return None;
                }
            }
        }
        None
    }

    /// Records that the order exists, and its lag. The order id has the time of the request and the order its time of
    /// creation, both by the server's clock.
    fn record_order(&self, order: &str, answer: &Answer) {
        let made_at =
            answer.body.get("createdAt").and_then(Value::as_str).and_then(|at| at.parse::<jiff::Timestamp>().ok());
        let pressed_at = OrderId::parse(order).ok().map(|order| order.pressed_at());
        let mut counts = self.counts.lock();
        counts.made.insert(order.to_owned());
        if let (Some(made_at), Some(pressed_at)) = (made_at, pressed_at) {
            counts.lag.record(Duration::try_from(made_at.duration_since(pressed_at)).unwrap_or_default());
        }
    }

    async fn pay(&self, user: &User, order: &str, method: &str) {
        let began = Instant::now();
        let body = json!({ "method": method }).to_string();
        let Ok(answer) = send(user, "POST", &format!("/orders/{order}/payments"), &body).await else { return };
        self.counts.time(Route::Payment, began.elapsed());
        let payment = answer.body.get("paymentId").and_then(Value::as_str).map(str::to_owned);
        let Some(payment) = self.expect(Ok(answer), 201, "starting to pay").and(payment) else { return };
        let action = json!({ "action": "pay" }).to_string();
        let answer = send(user, "POST", &format!("/_sandbox/payments/{payment}"), &action).await;
        if self.expect(answer, 200, "paying").is_none() {
            // The provider may have taken the money nevertheless.
            self.counts.lock().unclear_payments += 1;
            return;
        }
        if self.poll_until(user, order, false, |status| status != "PENDING_PAYMENT").await.as_deref() == Some("PAID") {
            self.counts.lock().paid.insert(order.to_owned());
        }
    }

    /// `None` without the expected answer. Any answer but 429 and 503 is then recorded as unexpected.
    fn expect(&self, answer: Result<Answer, NoAnswer>, status: u16, doing: &str) -> Option<()> {
        let answer = answer.ok()?;
        if answer.status == status {
            return Some(());
        }
        if !matches!(answer.status, 429 | 503) {
            self.counts.unexpected(format!("{doing} was answered {} {}", answer.status, answer.body));
        }
        None
    }
}

async fn send(user: &User, method: &str, path: &str, body: &str) -> Result<Answer, NoAnswer> {
    match tokio::time::timeout(TIMEOUT, user.try_with(method, path, &[], body.to_owned())).await {
        Ok(answer) => answer,
        Err(_) => Err("no answer".into()),
    }
}

fn retry_after(answer: &Answer) -> Option<Duration> {
    let seconds = answer.headers.get("retry-after")?.to_str().ok()?.parse().ok()?;
    // A buyer never waits for longer than a minute.
    Some(Duration::from_secs(u64::min(seconds, 60)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_does_not_settle_an_earlier_request_without_an_answer() {
        for refusal in [Purchase::SoldOut, Purchase::Refused] {
            assert_eq!(refusal.clone().after(true), refusal);
            assert_eq!(refusal.after(false), Purchase::Unclear);
        }
        assert_eq!(Purchase::Order("A".into()).after(false), Purchase::Order("A".into()));
    }
}
