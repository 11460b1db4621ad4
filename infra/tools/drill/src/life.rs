//! What a buyer does with an order: pays, in one of several ways, or does not.
//!
//! A buyer acts on what the API says and on nothing else. What the API says must make sense: an accepted order is known from then
//! on, and no answer is one that no client could expect.

use std::sync::Arc;
use std::time::{Duration, Instant};

use testkit::dice::Dice;
use testkit::http::{Answer, User};
use serde_json::{Value, json};

use crate::buyers::{Buyer, Crowd};
use crate::client::Client;
use crate::tally::{Kind, PAID, REFUNDED};

/// How often an order is looked at, and how many times at the most: longer than reconcile takes to find a lost message, twice.
const LOOK_EVERY: Duration = Duration::from_secs(3);
const LOOKS: u32 = 80;
/// An unfinished purchase is gone on with by a press after six seconds; a buyer waits a little longer.
const PATIENCE: Duration = Duration::from_millis(7_500);
/// How often somebody asks for a refund that is under way.
const REFUND_ASKS: u32 = 50;
const METHODS: [&str; 4] = ["alipay", "wechat", "wechat-v2", "stripe"];

/// What a buyer is up to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plan {
    /// Pays, and keeps it.
    Pay,
    /// Pays, and wants the money back.
    PayAndRefund,
    /// Starts to pay in one way, then pays in another; the first is paid as well, when it should not be any more.
    PayTwice,
    /// Cancels.
    Cancel,
    /// Cancels while a payment is open, which is paid all the same.
    CancelAndPayLate,
    /// Cannot pay.
    Fail,
    /// Starts to pay and does not.
    Hesitate,
    /// Walks away.
    Leave,
}

impl Plan {
    fn draw(dice: &mut Dice) -> Self {
        match dice.below(100) {
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

struct Life {
    crowd: Arc<Crowd>,
    buyer: Arc<Buyer>,
    user: User,
    order: String,
    dice: Dice,
}

/// Looks after an order until the buyer has done all that there is to do.
pub(crate) async fn live(crowd: Arc<Crowd>, buyer: Arc<Buyer>, order: String) {
    let Some(user) = buyer.user(&crowd.client).await.cloned() else { return };
    let dice = buyer.dice(crowd.seed);
    // A buyer who is turned away half-way has nothing more to do: what the books say then is checked in the end.
    let _ = Life { crowd, buyer, user, order, dice }.lead().await;
}

impl Life {
    fn client(&self) -> &Client {
        &self.crowd.client
    }

    fn look_every(&self) -> Duration {
        if self.crowd.options.hurry { LOOK_EVERY / 3 } else { LOOK_EVERY }
    }

    fn did(&self, what: &str) {
        self.client().tally.count(Kind::Deed, what);
    }

    /// `None`: there is nothing more to be done, or to be learnt.
    async fn lead(&mut self) -> Option<()> {
        let plan = Plan::draw(&mut self.dice);
        if plan == Plan::Leave {
            self.did("left");
            return None;
        }
        if self.until_made().await? != "PENDING_PAYMENT" {
            return None;
        }
        self.think().await;
        let method = self.method();
        match plan {
            Plan::Pay | Plan::PayAndRefund => {
                let payment = self.start(method).await?;
                self.pay(&payment).await?;
                if self.until_settled().await? == "PAID" && plan == Plan::PayAndRefund {
                    self.refund().await?;
                }
            }
            Plan::PayTwice => {
                let first = self.start(method).await?;
                self.open(&first).await?;
                let other = self.method_other_than(method);
                let second = self.start(other).await?;
                self.pay(&second).await?;
                self.pay_late(&first).await?;
            }
            Plan::Cancel => self.cancel().await?,
            Plan::CancelAndPayLate => {
                let payment = self.start(method).await?;
                // The other half comes by the link after the cancel only, which at Alipay begins a payment then.
                if self.dice.chance(50) {
                    self.open(&payment).await?;
                }
                self.cancel().await?;
                self.pay_late(&payment).await?;
            }
            Plan::Fail => {
                let payment = self.start(method).await?;
                self.open(&payment).await?;
                self.act(&payment, "fail").await?;
                self.did("could not pay");
            }
            Plan::Hesitate => {
                self.start(method).await?;
                self.did("started to pay and left");
            }
            Plan::Leave => {}
        }
        Some(())
    }

    /// Up to half of the time that there is.
    async fn think(&mut self) {
        let window_ms = u64::from(self.crowd.options.payment_window) * 1_000;
        let most_ms = usize::try_from(window_ms / 2).unwrap_or(0);
        let ms = u64::try_from(self.dice.below(most_ms)).unwrap_or(0);
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }

    fn method(&mut self) -> &'static str {
        METHODS.get(self.dice.below(METHODS.len())).copied().unwrap_or("wechat")
    }

    fn method_other_than(&mut self, method: &str) -> &'static str {
        let others: Vec<&str> = METHODS.into_iter().filter(|other| *other != method).collect();
        others.get(self.dice.below(others.len())).copied().unwrap_or("stripe")
    }

    /// The order as the API shows it. `None`: it shows none, which is right only if nobody was told that it is accepted.
    async fn look(&self) -> Option<String> {
        let answer = self.client().get(Some(&self.user), &format!("/orders/{}", self.order)).await?;
        match (answer.status, answer.body.get("status").and_then(Value::as_str)) {
            (200, Some(status)) => Some(status.to_owned()),
            (404, _) if !self.client().tally.is_accepted(&self.order) => None,
            _ => self.surprise("looking at", &answer),
        }
    }

    fn surprise<T>(&self, doing: &str, answer: &Answer) -> Option<T> {
        let (order, status, body) = (&self.order, answer.status, &answer.body);
        self.client().tally.surprise(format!("{doing} order {order} was answered {status} {body}"));
        None
    }

    /// Waits until the purchase has become an order. Half of the buyers press again if that takes long.
    async fn until_made(&mut self) -> Option<String> {
        let impatient = self.crowd.options.hurry || self.dice.chance(50);
        let mut since = Instant::now();
        for _ in 0..LOOKS {
            let status = self.look().await?;
            if status != "QUEUED" {
                return Some(status);
            }
            if impatient && since.elapsed() > PATIENCE {
                self.did("pressed again, out of patience");
                Box::pin(self.crowd.press(&self.buyer, None)).await;
                since = Instant::now();
            }
            tokio::time::sleep(self.look_every()).await;
        }
        None
    }

    /// Waits until the order is neither waiting nor changing.
    async fn until_settled(&self) -> Option<String> {
        for _ in 0..LOOKS {
            // The provider's notice is on its way.
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
            // Its time is over, it is paid or closed, or the first payment cannot be closed yet.
            (409, "WRONG_STATE") => {
                self.did("was too late to pay");
                None
            }
            _ => self.surprise("paying for", &answer),
        }
    }

    /// Follows the link to the provider. Alipay's begins the payment and leads on to it, or says that its time is over.
    async fn open(&self, payment: &Value) -> Option<()> {
        let link = ["payUrl", "qrCode"].into_iter().find_map(|name| payment.get(name).and_then(Value::as_str));
        let path = link.and_then(|link| link.strip_prefix(&self.client().api.base_url));
        let answer = self.client().get(None, path.unwrap_or("/no-link")).await?;
        let begins = path.is_some_and(|path| path.starts_with("/_sandbox/alipay/"));
        match answer.status {
            302 | 303 if begins => Some(()),
            200 if begins => {
                self.did("came too late by the link");
                None
            }
            200 => Some(()),
            _ => self.surprise("opening the payment of", &answer),
        }
    }

    /// Does something to a payment in the sandbox. `None`: the provider does not do it, because of what the payment is.
    async fn act(&self, payment: &Value, action: &str) -> Option<()> {
        let id = payment.get("paymentId").and_then(Value::as_str).unwrap_or_default();
        let answer =
            self.client().post(None, &format!("/_sandbox/payments/{id}"), &json!({ "action": action })).await?;
        let message = answer.body.get("message").and_then(Value::as_str).unwrap_or_default();
        match answer.status {
            200 => Some(()),
            // The first try had worked, and its answer was lost.
            409 if action != "fail" && message.contains("was paid before") => Some(()),
            409 => None,
            _ => self.surprise("the provider's part in", &answer),
        }
    }

    /// Pays; if it is too late for that, money arrives all the same for some.
    async fn pay(&mut self, payment: &Value) -> Option<()> {
        self.open(payment).await?;
        if self.act(payment, "pay").await.is_some() {
            self.did(PAID);
            return Some(());
        }
        if self.dice.chance(50) {
            self.pay_late(payment).await?;
        }
        None
    }

    /// Money arrives for a payment that was closed, or that its order has no use for any more.
    async fn pay_late(&self, payment: &Value) -> Option<()> {
        self.open(payment).await?;
        if self.act(payment, "pay-late").await.is_none() {
            self.act(payment, "pay").await?;
        }
        self.did("paid late");
        Some(())
    }

    async fn cancel(&self) -> Option<()> {
        let answer =
            self.client().post(Some(&self.user), &format!("/orders/{}/cancel", self.order), &json!({})).await?;
        match (answer.status, answer.code()) {
            (200, _) => {
                self.did("cancelled");
                Some(())
            }
            // It was paid or has ended meanwhile, or its payment cannot be closed yet.
            (409, "WRONG_STATE") => {
                self.did("could not cancel");
                None
            }
            _ => self.surprise("cancelling", &answer),
        }
    }

    async fn refund(&self) -> Option<()> {
        for _ in 0..REFUND_ASKS {
            let path = format!("/orders/{}/refund", self.order);
            let answer = self.client().post(Some(&self.user), &path, &json!({})).await?;
            match answer.status {
                200 => {
                    self.did(REFUNDED);
                    return Some(());
                }
                202 => tokio::time::sleep(self.look_every()).await,
                _ => return self.surprise("the refund of", &answer),
            }
        }
        None
    }
}
