//! The buyers: they come at their times, press, look after their orders, and pay or do not.

use std::sync::Arc;
use std::time::{Duration, Instant};

use domain::ids::OrderId;
use testkit::dice::Dice;
use testkit::http::{Answer, NoAnswer, User};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::Options;
use crate::tally::{Route, Tally};

/// API Gateway answers within 30 seconds, whatever the function does.
const TIMEOUT: Duration = Duration::from_secs(31);
/// Waits of a buyer who is told "later" without being told when, or is not answered: the first; it doubles up to the longest.
const FIRST_WAIT: Duration = Duration::from_millis(200);
const LONGEST_WAIT: Duration = Duration::from_secs(2);
/// How often an order is looked at: longer than reconcile takes to find a lost message.
const LOOKS: u32 = 70;
/// Ways to pay whose sandbox needs no page to be opened first.
const METHODS: [&str; 3] = ["wechat", "wechat-v2", "stripe"];

/// What is pressed at, and by whom.
#[derive(Debug)]
pub(crate) struct Crowd {
    pub(crate) options: Options,
    pub(crate) seed: u64,
    pub(crate) sale: String,
    pub(crate) buyers: Vec<User>,
    pub(crate) press: String,
    pub(crate) tally: Tally,
}

/// What came of a press.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Pressed {
    Order(String),
    SoldOut,
    Refused,
    Unclear,
}

impl Pressed {
    /// What it says of all presses of a buyer. Presses have no key, so that a refusal is the one that costs nothing: none of them says
    /// what came of a press before it that was not answered clearly, and that may hold the last unit.
    fn after(self, is_clear: bool) -> Self {
        match self {
            Self::SoldOut | Self::Refused if !is_clear => Self::Unclear,
            told => told,
        }
    }
}

impl Crowd {
    /// Lets everybody come. Ends when the last has left.
    pub(crate) async fn come(self: &Arc<Self>) {
        let room = Arc::new(Semaphore::new(usize::try_from(self.options.at_once).unwrap_or(1)));
        let mut lives = JoinSet::new();
        let mut dice = Dice::new(self.seed);
        let all = f64::from(self.options.buyers.max(1));
        for number in 0..self.options.buyers {
            // Somewhere in its place of the line: not in step, and the same in each run of a seed.
            let jitter = f64::from(u32::try_from(dice.below(1_000)).unwrap_or(0)) / 1_000.0;
            let share = self.options.shape.when((f64::from(number) + jitter) / all);
            let planned = self.tally.began + self.options.lasting().mul_f64(share);
            tokio::time::sleep_until(planned.into()).await;
            let Ok(place) = Arc::clone(&room).acquire_owned().await else { return };
            let crowd = Arc::clone(self);
            lives.spawn(async move {
                crowd.live(number, planned).await;
                drop(place);
            });
            while lives.try_join_next().is_some() {}
        }
        while lives.join_next().await.is_some() {}
    }

    /// One buyer, from coming to leaving. What the first request takes is counted from the time that was planned for it.
    async fn live(&self, number: u32, planned: Instant) {
        let mut dice = Dice::new(self.seed ^ (u64::from(number) << 24));
        let Some(user) = usize::try_from(number).ok().and_then(|n| self.buyers.get(n)) else { return };
        {
            let mut counts = self.tally.counts();
            counts.come += 1;
            // Later than any timer is: there was no room.
            counts.late += u64::from(planned.elapsed() > Duration::from_millis(100));
        }
        let mut began = planned;
        if dice.chance(self.options.looks) {
            let answer = ask(user, "GET", &format!("/sales/{}", self.sale), "").await;
            self.tally.time(Route::Sale, began.elapsed());
            self.expect(answer, 200, "looking at the sale");
            began = Instant::now();
        }
        match self.press_until_told(user, number, began).await {
            Pressed::Order(order) => self.look_after(user, number, &order, &mut dice).await,
            Pressed::Unclear => self.tally.counts().unclear += 1,
            Pressed::SoldOut | Pressed::Refused => {}
        }
    }

    /// Presses until there is a clear answer, or patience is at its end.
    async fn press_until_told(&self, user: &User, number: u32, mut began: Instant) -> Pressed {
        let mut wait = FIRST_WAIT;
        let mut is_clear = true;
        for _ in 0..=self.options.tries {
            let answer = ask(user, "POST", "/seckill", &self.press).await;
            let took = began.elapsed();
            let asked_to_wait = match answer {
                Ok(answer) => match self.told(&answer, number, took, is_clear) {
                    Some(pressed) => return pressed.after(is_clear),
                    None => {
                        // A 429 is an answer: nothing was begun.
                        is_clear &= answer.status == 429;
                        retry_after(&answer)
                    }
                },
                Err(_) => {
                    self.tally.press(Route::OtherPress, "no answer", took);
                    is_clear = false;
                    None
                }
            };
            tokio::time::sleep(asked_to_wait.unwrap_or(wait)).await;
            wait = (wait * 2).min(LONGEST_WAIT);
            began = Instant::now();
        }
        Pressed::Refused.after(is_clear)
    }

    /// What an answer says; `None`: later.
    fn told(&self, answer: &Answer, number: u32, took: Duration, is_clear: bool) -> Option<Pressed> {
        let order = answer.body.get("orderId").and_then(Value::as_str);
        match (answer.status, answer.code(), order) {
            (202, _, Some(order)) => {
                self.tally.press(Route::Accepted, "202", took);
                self.tally.has_order(order, number);
                Some(Pressed::Order(order.to_owned()))
            }
            (409, "SOLD_OUT", _) => {
                self.tally.press(Route::SoldOut, "SOLD_OUT", took);
                Some(Pressed::SoldOut)
            }
            (409, "DUPLICATE_ORDER", Some(order)) => {
                self.tally.press(Route::OtherPress, "DUPLICATE_ORDER", took);
                if is_clear {
                    let wrong = format!("buyer {number} pressed once and is told of order {order}");
                    self.tally.surprise(wrong);
                }
                // A press before this one was not answered, and had worked.
                self.tally.has_order(order, number);
                Some(Pressed::Order(order.to_owned()))
            }
            (429 | 503 | 502 | 504, code, _) => {
                let name =
                    if code.is_empty() { answer.status.to_string() } else { format!("{} {code}", answer.status) };
                self.tally.press(Route::OtherPress, &name, took);
                None
            }
            (status, code, _) => {
                self.tally.press(Route::OtherPress, &format!("{status} {code}"), took);
                self.tally.surprise(format!("a press was answered {status} {}", answer.body));
                Some(Pressed::Refused)
            }
        }
    }

    /// A buyer with an order: presses again perhaps, waits until it is made, and pays perhaps.
    async fn look_after(&self, user: &User, number: u32, order: &str, dice: &mut Dice) {
        if dice.chance(self.options.repeats) {
            self.press_again(user, number, order).await;
        }
        let made = self.until(user, order, true, |status| status != "QUEUED").await;
        if made.as_deref() != Some("PENDING_PAYMENT") {
            return;
        }
        if dice.chance(self.options.pays()) {
            let method = METHODS.get(dice.below(METHODS.len())).copied().unwrap_or("wechat");
            self.pay(user, order, method).await;
        }
    }

    /// Must be refused, and told of the first order. When everything is sold the gate refuses everybody, without a look at who is asking.
    async fn press_again(&self, user: &User, number: u32, order: &str) {
        let began = Instant::now();
        let Ok(answer) = ask(user, "POST", "/seckill", &self.press).await else { return };
        let told = answer.body.get("orderId").and_then(Value::as_str);
        let is_right = match (answer.status, answer.code()) {
            (409, "DUPLICATE_ORDER") => told == Some(order),
            (409, "SOLD_OUT") | (429 | 503, _) => true,
            _ => false,
        };
        let mut counts = self.tally.counts();
        counts.second_presses += 1;
        if !is_right {
            let (status, body) = (answer.status, &answer.body);
            counts.wrong_second_presses.push(format!("buyer {number} has order {order} and was told {status} {body}"));
        }
        drop(counts);
        let name = if answer.code().is_empty() { answer.status.to_string() } else { answer.code().to_owned() };
        self.tally.press(Route::OtherPress, &format!("second press: {name}"), began.elapsed());
    }

    /// Looks at an order until its status is what it is waited for. `is_new`: that it is made was not noted yet.
    async fn until(&self, user: &User, order: &str, is_new: bool, is_there: impl Fn(&str) -> bool) -> Option<String> {
        let mut wait = FIRST_WAIT / 2;
        for _ in 0..LOOKS {
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(LONGEST_WAIT);
            let began = Instant::now();
            let Ok(answer) = ask(user, "GET", &format!("/orders/{order}"), "").await else { continue };
            self.tally.time(Route::Order, began.elapsed());
            let status = answer.body.get("status").and_then(Value::as_str);
            match (answer.status, status) {
                (200, Some(status)) if is_there(status) => {
                    if is_new {
                        self.made(order, &answer);
                    }
                    return Some(status.to_owned());
                }
                (200, Some(_)) | (429 | 503, _) => {}
                _ => {
                    self.tally
                        .surprise(format!("looking at order {order} was answered {} {}", answer.status, answer.body));
                    return None;
                }
            }
        }
        None
    }

    /// The order is there. Its number says when it was pressed for, and it says itself when it was made: both by the server's clock.
    fn made(&self, order: &str, answer: &Answer) {
        let made_at =
            answer.body.get("createdAt").and_then(Value::as_str).and_then(|at| at.parse::<jiff::Timestamp>().ok());
        let pressed_at = OrderId::parse(order).ok().map(|order| order.pressed_at());
        let mut counts = self.tally.counts();
        counts.made.insert(order.to_owned());
        if let (Some(made_at), Some(pressed_at)) = (made_at, pressed_at) {
            counts.lag.record(Duration::try_from(made_at.duration_since(pressed_at)).unwrap_or_default());
        }
    }

    async fn pay(&self, user: &User, order: &str, method: &str) {
        let began = Instant::now();
        let body = json!({ "method": method }).to_string();
        let Ok(answer) = ask(user, "POST", &format!("/orders/{order}/payments"), &body).await else { return };
        self.tally.time(Route::Payment, began.elapsed());
        let payment = answer.body.get("paymentId").and_then(Value::as_str).map(str::to_owned);
        let Some(payment) = self.expect(Ok(answer), 201, "starting to pay").and(payment) else { return };
        let action = json!({ "action": "pay" }).to_string();
        let answer = ask(user, "POST", &format!("/_sandbox/payments/{payment}"), &action).await;
        if self.expect(answer, 200, "paying").is_none() {
            // The provider may have taken the money all the same.
            self.tally.counts().unclear_payments += 1;
            return;
        }
        if self.until(user, order, false, |status| status != "PENDING_PAYMENT").await.as_deref() == Some("PAID") {
            self.tally.counts().paid.insert(order.to_owned());
        }
    }

    /// `None`: no answer, or another than it must be, which is noted unless it is "later".
    fn expect(&self, answer: Result<Answer, NoAnswer>, status: u16, doing: &str) -> Option<()> {
        let answer = answer.ok()?;
        if answer.status == status {
            return Some(());
        }
        if !matches!(answer.status, 429 | 503) {
            self.tally.surprise(format!("{doing} was answered {} {}", answer.status, answer.body));
        }
        None
    }
}

async fn ask(user: &User, method: &str, path: &str, body: &str) -> Result<Answer, NoAnswer> {
    match tokio::time::timeout(TIMEOUT, user.try_with(method, path, &[], body.to_owned())).await {
        Ok(answer) => answer,
        Err(_) => Err("no answer".into()),
    }
}

fn retry_after(answer: &Answer) -> Option<Duration> {
    let seconds = answer.headers.get("retry-after")?.to_str().ok()?.parse().ok()?;
    // Nobody waits for longer than a minute.
    Some(Duration::from_secs(u64::min(seconds, 60)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_after_a_press_that_was_not_answered_says_nothing_of_that_press() {
        for refusal in [Pressed::SoldOut, Pressed::Refused] {
            assert_eq!(refusal.clone().after(true), refusal);
            assert_eq!(refusal.after(false), Pressed::Unclear);
        }
        assert_eq!(Pressed::Order("A".into()).after(false), Pressed::Order("A".into()));
    }
}
