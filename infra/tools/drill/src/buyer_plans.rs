//! What a buyer does with an order: pay in one of several ways, or not pay at all.
//!
//! A buyer acts only on answers of the API, and checks them: an accepted order is always found, and every answer is one
//! that a client can expect.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::http::{Answer, User};
use testkit::rng::Rng;

use crate::buyers::{Buyer, Buyers};
use crate::client::Client;
use crate::counts::{Counted, PAID, REFUNDED};

/// How often a buyer polls an order, and how many times at most. Together this is more than twice as long as reconcile
/// takes to find a lost message.
const LOOK_EVERY: Duration = Duration::from_secs(3);
const MAX_LOOKS: u32 = 80;
/// A request resumes an unfinished purchase after six seconds. A buyer waits a little longer than that.
const PATIENCE: Duration = Duration::from_millis(7_500);
/// How often a buyer repeats the request for a refund that is not confirmed yet.
const MAX_REFUND_REQUESTS: u32 = 50;
const METHODS: [&str; 4] = ["alipay", "wechat", "wechat-v2", "stripe"];
/// This provider closes no payment in its first five minutes: an order whose payment is started there and not made
/// waits at least that long.
const CLOSES_LATE: &str = "wechat-v2";
const CLOSES_LATE_MINUTES: u64 = 5;

/// What a buyer intends to do with an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plan {
    Pay,
    PayAndRefund,
    /// Start a payment with one method, pay with another, and then pay the first one too, although it was closed.
    PayTwice,
    Cancel,
    /// Cancel while a payment is open, and pay it afterwards.
    CancelAndPayLate,
    /// Try to pay, and be refused by the provider.
    Fail,
    /// Start a payment and never make it.
    Hesitate,
    /// Never come back.
    Leave,
}

impl Plan {
    fn draw(rng: &mut Rng) -> Self {
        match rng.below(100) {
            0..50 => Self::Pay,
            50..60 => Self::PayAndRefund,
            60..65 => Self::PayTwice,
            65..75 => Self::Cancel,
            75..80 => Self::CancelAndPayLate,
            80..84 => Self::Fail,
            84..90 => Self::Hesitate,
            _ => Self::Leave,
        }
    }
}

/// Follows one order for its buyer.
struct Follower {
    buyers: Arc<Buyers>,
    buyer: Arc<Buyer>,
    user: User,
    order: String,
    rng: Rng,
}

/// Follows an order until the buyer's plan is carried out.
pub(crate) async fn follow_order(buyers: Arc<Buyers>, buyer: Arc<Buyer>, order: String) {
    let Some(user) = buyer.user(&buyers.client).await.cloned() else { return };
    let rng = buyer.rng(buyers.seed);
    // A plan may end early because the API refuses a step. The final snapshot is checked either way.
    let _ = Follower { buyers, buyer, user, order, rng }.carry_out_plan().await;
}

impl Follower {
    fn client(&self) -> &Client {
        &self.buyers.client
    }

    fn look_every(&self) -> Duration {
        if self.buyers.options.hurry { LOOK_EVERY / 3 } else { LOOK_EVERY }
    }

    fn acted(&self, what: &str) {
        self.client().counts.count(Counted::Action, what);
    }

    /// `None` when the plan ended early.
    async fn carry_out_plan(&mut self) -> Option<()> {
        let plan = Plan::draw(&mut self.rng);
        if plan == Plan::Leave {
            self.acted("left");
            return None;
        }
        if self.wait_until_placed().await? != "PENDING_PAYMENT" {
            return None;
        }
        self.think().await;
        let method = match plan {
            Plan::Pay | Plan::PayAndRefund | Plan::Fail => self.method_except(None),
            _ => self.method_except(Some(CLOSES_LATE)),
        };
        match plan {
            Plan::Pay | Plan::PayAndRefund => {
                let payment = self.start(method).await?;
                self.pay(&payment).await?;
                if self.wait_until_settled().await? == "PAID" && plan == Plan::PayAndRefund {
                    self.refund().await?;
                }
            }
            Plan::PayTwice => {
                let first = self.start(method).await?;
                self.open(&first).await?;
                let other = self.method_except(Some(method));
                let second = self.start(other).await?;
                self.pay(&second).await?;
                self.pay_late(&first).await?;
            }
            Plan::Cancel => self.cancel().await?,
            Plan::CancelAndPayLate => {
                let payment = self.start(method).await?;
                // The other half opens the link only after the cancel. At Alipay this starts the payment at that time.
                if self.rng.chance(50) {
                    self.open(&payment).await?;
                }
                self.cancel().await?;
                self.pay_late(&payment).await?;
            }
            Plan::Fail => {
                let payment = self.start(method).await?;
                self.open(&payment).await?;
                self.act(&payment, "fail").await?;
                self.acted("could not pay");
            }
            Plan::Hesitate => {
                self.start(method).await?;
                self.acted("started to pay and left");
            }
            Plan::Leave => {}
        }
        Some(())
    }

    /// Waits for up to half of the payment window.
    async fn think(&mut self) {
        let window_ms = u64::from(self.buyers.options.payment_window) * 1_000;
        let most_ms = usize::try_from(window_ms / 2).unwrap_or(0);
        let ms = u64::try_from(self.rng.below(most_ms)).unwrap_or(0);
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }

    /// A method of payment. A kill may end any plan between the start of a payment and its end, so a drill that waits
    /// less than [`CLOSES_LATE_MINUTES`] for the last orders does not use [`CLOSES_LATE`] at all.
    fn method_except(&mut self, method: Option<&str>) -> &'static str {
        let waits_for_all = self.buyers.options.give_up_minutes > CLOSES_LATE_MINUTES;
        let usable = |other: &&str| Some(*other) != method && (waits_for_all || *other != CLOSES_LATE);
        let others: Vec<&str> = METHODS.into_iter().filter(usable).collect();
        others.get(self.rng.below(others.len())).copied().unwrap_or("stripe")
    }

    /// The status of the order. `None` if the API does not find it, which is unexpected once it was accepted.
    async fn look(&self) -> Option<String> {
        let answer = self.client().get(Some(&self.user), &format!("/orders/{}", self.order)).await?;
        match (answer.status, answer.body.get("status").and_then(Value::as_str)) {
            (200, Some(status)) => Some(status.to_owned()),
            (404, _) if !self.client().counts.is_accepted(&self.order) => None,
            _ => self.unexpected("looking at", &answer),
        }
    }

    fn unexpected<T>(&self, doing: &str, answer: &Answer) -> Option<T> {
        let (order, status, body) = (&self.order, answer.status, &answer.body);
        self.client().counts.unexpected(format!("{doing} order {order} was answered {status} {body}"));
        None
    }

    /// Waits until the purchase has become an order. Half of the buyers buy again if that takes long.
    async fn wait_until_placed(&mut self) -> Option<String> {
        let impatient = self.buyers.options.hurry || self.rng.chance(50);
        let mut since = Instant::now();
        for _ in 0..MAX_LOOKS {
            let status = self.look().await?;
            if status != "QUEUED" {
                return Some(status);
            }
            if impatient && since.elapsed() > PATIENCE {
                self.acted("bought again after waiting");
                Box::pin(self.buyers.send_purchase(&self.buyer, None)).await;
                since = Instant::now();
            }
            tokio::time::sleep(self.look_every()).await;
        }
        None
    }

    /// Waits until the order is no longer pending.
    async fn wait_until_settled(&self) -> Option<String> {
        for _ in 0..MAX_LOOKS {
            // The provider's notice is in flight.
            tokio::time::sleep(self.look_every()).await;
            let status = self.look().await?;
            if status != "PENDING_PAYMENT" {
                return Some(status);
            }
        }
        None
    }

    async fn start(&self, method: &str) -> Option<Value> {
        let path = format!("/orders/{}/payments", self.order);
        let answer = self.client().post(Some(&self.user), &path, &json!({ "method": method })).await?;
        match (answer.status, answer.code()) {
            (201, _) => Some(answer.body),
            // The deadline has passed, the order is paid or closed, or its first payment cannot be closed yet.
            (409, "WRONG_STATE") => {
                self.acted("was too late to pay");
                None
            }
            _ => self.unexpected("paying for", &answer),
        }
    }

    /// Opens the link to the provider. Alipay's starts the payment and redirects to it, or says that it has expired.
    async fn open(&self, payment: &Value) -> Option<()> {
        let link = ["payUrl", "qrCode"].into_iter().find_map(|name| payment.get(name).and_then(Value::as_str));
        let path = link.and_then(|link| link.strip_prefix(&self.client().api.base_url));
        let answer = self.client().get(None, path.unwrap_or("/no-link")).await?;
        let starts_payment = path.is_some_and(|path| path.starts_with("/_sandbox/alipay/"));
        match answer.status {
            302 | 303 if starts_payment => Some(()),
            200 if starts_payment => {
                self.acted("opened the link too late");
                None
            }
            200 => Some(()),
            _ => self.unexpected("opening the payment of", &answer),
        }
    }

    /// Carries out an action on a payment in the sandbox. `None` if the state of the payment does not allow it.
    async fn act(&self, payment: &Value, action: &str) -> Option<()> {
        let id = payment.get("paymentId").and_then(Value::as_str).unwrap_or_default();
        let answer =
            self.client().post(None, &format!("/_sandbox/payments/{id}"), &json!({ "action": action })).await?;
        let message = answer.body.get("message").and_then(Value::as_str).unwrap_or_default();
        match answer.status {
            200 => Some(()),
            // The first attempt succeeded, and its answer was lost.
            409 if action != "fail" && message.contains("was paid before") => Some(()),
            409 => None,
            _ => self.unexpected("the sandbox action on", &answer),
        }
    }

    /// Pays. If it is too late, half of the buyers send the money anyway.
    async fn pay(&mut self, payment: &Value) -> Option<()> {
        self.open(payment).await?;
        if self.act(payment, "pay").await.is_some() {
            self.acted(PAID);
            return Some(());
        }
        if self.rng.chance(50) {
            self.pay_late(payment).await?;
        }
        None
    }

    /// Pays a payment that was closed, or that its order no longer needs.
    async fn pay_late(&self, payment: &Value) -> Option<()> {
        self.open(payment).await?;
        if self.act(payment, "pay-late").await.is_none() {
            self.act(payment, "pay").await?;
        }
        self.acted("paid late");
        Some(())
    }

    async fn cancel(&self) -> Option<()> {
        let answer =
            self.client().post(Some(&self.user), &format!("/orders/{}/cancel", self.order), &json!({})).await?;
        match (answer.status, answer.code()) {
            (200, _) => {
                self.acted("cancelled");
                Some(())
            }
            // The order was paid or has ended in the meantime, or its payment cannot be closed yet.
            (409, "WRONG_STATE") => {
                self.acted("could not cancel");
                None
            }
            _ => self.unexpected("cancelling", &answer),
        }
    }

    async fn refund(&self) -> Option<()> {
        for _ in 0..MAX_REFUND_REQUESTS {
            let path = format!("/orders/{}/refund", self.order);
            let answer = self.client().post(Some(&self.user), &path, &json!({})).await?;
            match answer.status {
                200 => {
                    self.acted(REFUNDED);
                    return Some(());
                }
                202 => tokio::time::sleep(self.look_every()).await,
                _ => return self.unexpected("the refund of", &answer),
            }
        }
        None
    }
}
