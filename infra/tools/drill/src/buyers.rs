//! Those who press: more than there are units, some of them again and again.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use testkit::dice::Dice;
use testkit::http::User;
use serde_json::{Value, json};
use tokio::sync::OnceCell;
use tokio::task::JoinSet;

use crate::Options;
use crate::client::{Ask, Client};
use crate::life;
use crate::tally::Kind;

/// The crowd. Shared by those who press at the same time.
#[derive(Debug)]
pub(crate) struct Crowd {
    pub(crate) client: Client,
    pub(crate) options: Options,
    pub(crate) seed: u64,
    press: String,
    /// Who has pressed so far.
    known: Mutex<Vec<Arc<Buyer>>>,
    /// Of them, those with an order: they are the ones to try for a second.
    lucky: Mutex<Vec<Arc<Buyer>>>,
    /// Orders that somebody looks after.
    followed: Mutex<BTreeSet<String>>,
    /// What becomes of the orders: a task for each, and there are never more live ones than units.
    /// `None`: the crowd has gone.
    lives: Mutex<Option<JoinSet<()>>>,
}

/// A crowd that ends with the drill. Those who look after orders hold the crowd, and it holds them: by themselves
/// they would go on.
#[derive(Debug)]
pub(crate) struct Gathered(pub(crate) Arc<Crowd>);

impl Drop for Gathered {
    fn drop(&mut self) {
        let lives = locked(&self.0.lives).take();
        drop(lives);
    }
}

/// One of them.
#[derive(Debug)]
pub(crate) struct Buyer {
    name: String,
    user: OnceCell<User>,
    last_key: Mutex<Option<String>>,
    /// Orders looked after so far.
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

    /// Choices about the buyer's next order. They follow from the seed, the buyer's name and how many orders came
    /// before; which buyer gets an order, and when, is up to the machine.
    pub(crate) fn dice(&self, seed: u64) -> Dice {
        let mut hasher = DefaultHasher::new();
        (&self.name, self.followed.fetch_add(1, Ordering::Relaxed)).hash(&mut hasher);
        Dice::new(seed ^ hasher.finish())
    }

    /// With the buyer's token, which is got at the first request.
    pub(crate) async fn user(&self, client: &Client) -> Option<&User> {
        let made = async || client.user(&self.name).await.ok_or(());
        self.user.get_or_try_init(made).await.ok()
    }
}

impl Crowd {
    pub(crate) fn new(client: Client, options: &Options, seed: u64, sale: &str) -> Self {
        Self {
            client,
            options: options.clone(),
            seed,
            press: json!({ "saleId": sale, "itemId": "phone", "quantity": 1 }).to_string(),
            known: Mutex::default(),
            lucky: Mutex::default(),
            followed: Mutex::default(),
            lives: Mutex::new(Some(JoinSet::new())),
        }
    }

    /// Presses until all purchases are made, as many at the same time as the options say.
    pub(crate) async fn press_all(self: &Arc<Self>) {
        let began = Instant::now();
        let mut pressing = JoinSet::new();
        for _ in 0..self.options.clients {
            let crowd = Arc::clone(self);
            pressing.spawn(async move {
                loop {
                    let number = crowd.client.tally.begin();
                    if number >= crowd.options.purchases {
                        return;
                    }
                    tokio::time::sleep_until((began + crowd.options.begins_after(number)).into()).await;
                    crowd.purchase(number).await;
                }
            });
        }
        while pressing.join_next().await.is_some() {}
    }

    /// Those who still look after their orders.
    pub(crate) fn lives(&self) -> usize {
        let mut held = locked(&self.lives);
        let Some(lives) = held.as_mut() else { return 0 };
        while lives.try_join_next().is_some() {}
        lives.len()
    }

    /// Makes a purchase. Its dice follow from its number and the seed; whom they point at depends on who has pressed
    /// and bought by then, which is up to the machine.
    async fn purchase(self: &Arc<Self>, number: u32) {
        let mut dice = Dice::new(self.seed ^ (u64::from(number) << 20));
        let buyer = self.who(number, &mut dice);
        let key = match dice.below(10) {
            0..=3 => Some(format!("{number}")),
            4..=5 => locked(&buyer.last_key).clone(),
            _ => None,
        };
        self.press(&buyer, key.as_deref()).await;
    }

    /// Three of four purchases are of somebody new; the others of somebody who has pressed before, or has an order.
    fn who(&self, number: u32, dice: &mut Dice) -> Arc<Buyer> {
        let again = match dice.below(8) {
            0 => pick(&locked(&self.known), dice),
            1 => pick(&locked(&self.lucky), dice),
            _ => None,
        };
        again.unwrap_or_else(|| {
            let buyer = Arc::new(Buyer::new(number));
            locked(&self.known).push(Arc::clone(&buyer));
            buyer
        })
    }

    /// Presses once, and sees to what comes of it.
    pub(crate) async fn press(self: &Arc<Self>, buyer: &Arc<Buyer>, key: Option<&str>) {
        let Some(user) = buyer.user(&self.client).await else { return };
        let header = key.map(|key| ("idempotency-key", key));
        if let Some(key) = key {
            *locked(&buyer.last_key) = Some(key.to_owned());
        }
        let ask =
            Ask { user: Some(user), method: "POST", path: "/seckill", headers: header.as_slice(), body: &self.press };
        let Some(answer) = self.client.ask(ask).await else { return };
        let tally = &self.client.tally;
        let order = answer.body.get("orderId").and_then(Value::as_str);
        match (answer.status, answer.code(), order) {
            (202, _, Some(order)) => {
                tally.count(Kind::Answer, "202");
                if tally.accept(order) {
                    locked(&self.lucky).push(Arc::clone(buyer));
                }
                self.follow(buyer, order);
            }
            // Perhaps the order is of this very press, whose first answer was lost.
            (409, "DUPLICATE_ORDER", Some(order)) => {
                tally.count(Kind::Answer, "DUPLICATE_ORDER");
                self.follow(buyer, order);
            }
            (409, "SOLD_OUT", _) => tally.count(Kind::Answer, "SOLD_OUT"),
            _ => tally.surprise(format!("a press of {} was answered {} {}", buyer.name, answer.status, answer.body)),
        }
    }

    /// From now on somebody looks after an order, unless somebody does already.
    fn follow(self: &Arc<Self>, buyer: &Arc<Buyer>, order: &str) {
        if locked(&self.followed).insert(order.to_owned()) {
            let life = life::live(Arc::clone(self), Arc::clone(buyer), order.to_owned());
            if let Some(lives) = locked(&self.lives).as_mut() {
                lives.spawn(life);
            }
        }
    }
}

fn pick(buyers: &[Arc<Buyer>], dice: &mut Dice) -> Option<Arc<Buyer>> {
    buyers.get(dice.below(buyers.len())).cloned()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::Parser as _;
    use testkit::http::Api;

    use super::*;

    #[tokio::test]
    async fn nobody_looks_after_an_order_when_the_crowd_has_gone() {
        // Nobody listens there: whoever looks after an order asks for longer than this test waits.
        let client = Client { api: Api::new("http://127.0.0.1:1".to_owned()), tally: Arc::default() };
        let options = Options::parse_from(["seckill-drill"]);
        let gathered = Gathered(Arc::new(Crowd::new(client, &options, 1, "s")));
        gathered.0.follow(&Arc::new(Buyer::new(0)), "01X");
        assert_eq!(gathered.0.lives(), 1);
        let crowd = Arc::downgrade(&gathered.0);
        drop(gathered);
        for _ in 0..100 {
            if crowd.strong_count() == 0 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("somebody still looks after an order");
    }
}
