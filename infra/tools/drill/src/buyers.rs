//! The buyers: more than there are units, some of whom buy again and again.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use serde_json::{Value, json};
use testkit::http::User;
use testkit::rng::Rng;
use tokio::sync::OnceCell;
use tokio::task::JoinSet;

use crate::Options;
use crate::buyer_plans;
use crate::client::{Client, Request};
use crate::counts::Counted;

/// All buyers. Shared by the tasks that send purchases at the same time.
#[derive(Debug)]
pub(crate) struct Buyers {
    pub(crate) client: Client,
    pub(crate) options: Options,
    pub(crate) seed: u64,
    /// The body of a purchase request.
    purchase_body: String,
    /// Buyers who have sent a purchase so far.
    known: Mutex<Vec<Arc<Buyer>>>,
    /// Those of them with an accepted order. They try to buy a second time.
    with_order: Mutex<Vec<Arc<Buyer>>>,
    /// Orders that have a follower.
    followed: Mutex<BTreeSet<String>>,
    /// A task for each order, which carries out the buyer's plan. There are never more live orders than units.
    /// `None` after the drill has ended.
    followers: Mutex<Option<JoinSet<()>>>,
}

/// Ends all follower tasks when the drill ends. The tasks and [`Buyers`] refer to each other, so without this guard
/// neither would be dropped.
#[derive(Debug)]
pub(crate) struct BuyersGuard(pub(crate) Arc<Buyers>);

impl Drop for BuyersGuard {
    fn drop(&mut self) {
        let followers = locked(&self.0.followers).take();
        drop(followers);
    }
}

#[derive(Debug)]
pub(crate) struct Buyer {
    name: String,
    user: OnceCell<User>,
    last_key: Mutex<Option<String>>,
    /// How many orders of this buyer were followed so far.
    followed: AtomicU32,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Buyer {
    fn new(number: u32) -> Self {
        Self {
            name: format!("buyer-{number}"),
            user: OnceCell::new(),
            last_key: Mutex::default(),
            followed: AtomicU32::new(0),
        }
    }

    /// Random choices for the buyer's next order. They depend only on the seed, the buyer's name and the number of
    /// orders before. Which buyer gets an order, and when, depends on the machine.
    pub(crate) fn rng(&self, seed: u64) -> Rng {
        let mut hasher = DefaultHasher::new();
        (&self.name, self.followed.fetch_add(1, Ordering::Relaxed)).hash(&mut hasher);
        Rng::new(seed ^ hasher.finish())
    }

    /// The buyer with a token, which is requested once.
    pub(crate) async fn user(&self, client: &Client) -> Option<&User> {
        let made = async || client.user(&self.name).await.ok_or(());
        self.user.get_or_try_init(made).await.ok()
    }
}

impl Buyers {
    pub(crate) fn new(client: Client, options: &Options, seed: u64, sale: &str) -> Self {
        Self {
            client,
            options: options.clone(),
            seed,
            purchase_body: json!({ "saleId": sale, "itemId": "phone", "quantity": 1 }).to_string(),
            known: Mutex::default(),
            with_order: Mutex::default(),
            followed: Mutex::default(),
            followers: Mutex::new(Some(JoinSet::new())),
        }
    }

    /// Sends all purchases, as many at the same time as the options say.
    pub(crate) async fn purchase_all(self: &Arc<Self>) {
        let began = Instant::now();
        let mut tasks = JoinSet::new();
        for _ in 0..self.options.clients {
            let buyers = Arc::clone(self);
            tasks.spawn(async move {
                loop {
                    let number = buyers.client.counts.begin();
                    if number >= buyers.options.purchases {
                        return;
                    }
                    tokio::time::sleep_until((began + buyers.options.begins_after(number)).into()).await;
                    buyers.purchase(number).await;
                }
            });
        }
        while tasks.join_next().await.is_some() {}
    }

    /// How many orders are still followed.
    pub(crate) fn followers(&self) -> usize {
        let mut held = locked(&self.followers);
        let Some(followers) = held.as_mut() else { return 0 };
        while followers.try_join_next().is_some() {}
        followers.len()
    }

    /// Makes a purchase. Its random choices depend on its number and the seed. The buyer also depends on who has bought
    /// by then, which depends on the machine.
    async fn purchase(self: &Arc<Self>, number: u32) {
        let mut rng = Rng::new(self.seed ^ (u64::from(number) << 20));
        let buyer = self.choose_buyer(number, &mut rng);
        let key = match rng.below(10) {
            0..=3 => Some(format!("{number}")),
            4..=5 => locked(&buyer.last_key).clone(),
            _ => None,
        };
        self.send_purchase(&buyer, key.as_deref()).await;
    }

    /// Three of four purchases come from a new buyer; the others from one who tried before, or has an order.
    fn choose_buyer(&self, number: u32, rng: &mut Rng) -> Arc<Buyer> {
        let again = match rng.below(8) {
            0 => pick(&locked(&self.known), rng),
            1 => pick(&locked(&self.with_order), rng),
            _ => None,
        };
        again.unwrap_or_else(|| {
            let buyer = Arc::new(Buyer::new(number));
            locked(&self.known).push(Arc::clone(&buyer));
            buyer
        })
    }

    /// Sends one purchase request and follows its order.
    pub(crate) async fn send_purchase(self: &Arc<Self>, buyer: &Arc<Buyer>, key: Option<&str>) {
        let Some(user) = buyer.user(&self.client).await else { return };
        let header = key.map(|key| ("idempotency-key", key));
        if let Some(key) = key {
            *locked(&buyer.last_key) = Some(key.to_owned());
        }
        let request = Request {
            user: Some(user),
            method: "POST",
            path: "/seckill",
            headers: header.as_slice(),
            body: &self.purchase_body,
        };
        let Some(answer) = self.client.send(request).await else { return };
        let counts = &self.client.counts;
        let order = answer.body.get("orderId").and_then(Value::as_str);
        match (answer.status, answer.code(), order) {
            (202, _, Some(order)) => {
                counts.count(Counted::Answer, "202");
                if counts.accept(order) {
                    locked(&self.with_order).push(Arc::clone(buyer));
                }
                self.follow(buyer, order);
            }
            // The order may be from this very request, if its first answer was lost.
            (409, "DUPLICATE_ORDER", Some(order)) => {
                counts.count(Counted::Answer, "DUPLICATE_ORDER");
                self.follow(buyer, order);
            }
            (409, "SOLD_OUT", _) => counts.count(Counted::Answer, "SOLD_OUT"),
            _ => counts
                .unexpected(format!("a purchase of {} was answered {} {}", buyer.name, answer.status, answer.body)),
        }
    }

    /// Starts a follower for an order, unless it has one.
    fn follow(self: &Arc<Self>, buyer: &Arc<Buyer>, order: &str) {
        if locked(&self.followed).insert(order.to_owned()) {
            let follower = buyer_plans::follow_order(Arc::clone(self), Arc::clone(buyer), order.to_owned());
            if let Some(followers) = locked(&self.followers).as_mut() {
                followers.spawn(follower);
            }
        }
    }
}

fn pick(buyers: &[Arc<Buyer>], rng: &mut Rng) -> Option<Arc<Buyer>> {
    buyers.get(rng.below(buyers.len())).cloned()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::Parser as _;
    use testkit::http::Api;

    use super::*;

    #[tokio::test]
    async fn no_order_is_followed_after_the_drill_has_ended() {
        // No server listens on this port, and the follower retries for longer than this test waits.
        let client = Client { api: Api::new("http://127.0.0.1:1".to_owned()), counts: Arc::default() };
        let options = Options::parse_from(["seckill-drill"]);
        let guard = BuyersGuard(Arc::new(Buyers::new(client, &options, 1, "s")));
        guard.0.follow(&Arc::new(Buyer::new(0)), "01X");
        assert_eq!(guard.0.followers(), 1);
        let buyers = Arc::downgrade(&guard.0);
        drop(guard);
        for _ in 0..100 {
            if buyers.strong_count() == 0 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("an order still has a follower");
    }
}
