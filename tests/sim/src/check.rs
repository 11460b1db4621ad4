//! The safety properties, true after every single write. Read from the tables themselves, beside the code that is tested.

use std::collections::BTreeMap;

use domain::bucket::{Bucket, BucketNo, parse_bucket_key};
use domain::ids::{Offer, OrderId};
use domain::order::{Event, Order, Reason, Status, Step, step};
use domain::sale::Item;
use testkit::books::try_row;
use testkit::world::{World, names};
use serde::de::DeserializeOwned;

/// Rows as they were last seen: what has not changed is not read again.
type Rows<K, V> = BTreeMap<K, (String, V)>;

/// What was seen after the last write, to compare with.
pub struct Watch {
    offer: Offer,
    item: Item,
    buckets: Rows<BucketNo, Bucket>,
    orders: Rows<OrderId, Order>,
    /// When, at the latest, each bucket had less than one unit free, and less than two; one that was not there had none.
    short: BTreeMap<BucketNo, [i64; 2]>,
}

impl Watch {
    pub async fn new(observer: &World, offer: &Offer) -> Result<Self, String> {
        let mut watch = Self {
            offer: offer.clone(),
            item: observer.item(offer).await,
            buckets: BTreeMap::new(),
            orders: BTreeMap::new(),
            short: BTreeMap::new(),
        };
        watch.read_buckets(observer).await?;
        Ok(watch)
    }

    pub fn orders(&self) -> impl Iterator<Item = &Order> {
        self.orders.values().map(|(_, order)| order)
    }

    pub fn order(&self, id: &OrderId) -> Option<&Order> {
        self.orders.get(id).map(|(_, order)| order)
    }

    /// A bucket that has had so many units free ever since, if there is one: whoever says that it is sold out has not looked into it.
    pub fn free_ever_since(&self, quantity: u32, since_ms: i64) -> Option<BucketNo> {
        let has_them = |number: &BucketNo| self.buckets[number].1.free >= quantity;
        let place = quantity as usize - 1;
        self.short.iter().find(|(number, short)| has_them(number) && short[place] < since_ms).map(|(number, _)| *number)
    }

    /// Looks at the tables that were written to; a violation is an error in words.
    pub async fn check(&mut self, observer: &World, written: &[String]) -> Result<(), String> {
        let names = names();
        let wrote = |table: &str| written.iter().any(|written| written == table);
        if wrote(&names.sales) {
            self.item = observer.item(&self.offer).await;
        }
        if wrote(&names.stock) || wrote(&names.sales) {
            self.read_buckets(observer).await?;
        }
        if wrote(&names.orders) {
            self.read_orders(observer).await?;
        }
        if wrote(&names.orders) || wrote(&names.stock) {
            self.orders().try_for_each(|order| self.held(order))?;
        }
        if wrote(&names.accounts) {
            accounts(observer).await?;
        }
        Ok(())
    }

    async fn read_buckets(&mut self, observer: &World) -> Result<(), String> {
        #[derive(serde::Deserialize)]
        struct Key {
            bucket: String,
        }
        // What was short was so until now.
        self.note_shortage(observer.clock.now_ms());
        let rows = observer.cloud.dynamodb.rows(&names().stock).await.unwrap();
        if rows.len() < self.buckets.len() {
            return Err(format!("there were {} buckets, and there are {}", self.buckets.len(), rows.len()));
        }
        for json in rows.into_values() {
            if self.buckets.values().any(|(before, _)| *before == json) {
                continue;
            }
            let Key { bucket: key } = read(&json)?;
            let bucket: Bucket = read(&json)?;
            let (_, number) = parse_bucket_key(&key).unwrap();
            if !bucket.adds_up() || Some(bucket.cap) != self.item.layout.cap(number) {
                return Err(format!("bucket {number} does not add up: {bucket:?}"));
            }
            self.buckets.insert(number, (json, bucket));
        }
        self.note_shortage(observer.clock.now_ms());
        Ok(())
    }

    /// Notes what is short now. To be told when time passes, too: what was short until then was short then.
    pub fn note_shortage(&mut self, now_ms: i64) {
        for (number, (_, bucket)) in &self.buckets {
            let short = self.short.entry(*number).or_insert([now_ms; 2]);
            for (quantity, at) in [1, 2].into_iter().zip(short) {
                if bucket.free < quantity {
                    *at = now_ms;
                }
            }
        }
    }

    async fn read_orders(&mut self, observer: &World) -> Result<(), String> {
        let mut changed = Vec::new();
        let rows = observer.cloud.dynamodb.rows(&names().orders).await.unwrap();
        if rows.len() < self.orders.len() {
            return Err(format!("there were {} orders, and there are {}", self.orders.len(), rows.len()));
        }
        for json in rows.into_values() {
            if !self.orders.values().any(|(before, _)| *before == json) {
                let order: Order = read(&json)?;
                changed.push(order.id.clone());
                let before = self.orders.insert(order.id.clone(), (json, order));
                let now = &self.orders[&changed[changed.len() - 1]].1;
                moved(before.as_ref().map(|(_, before)| before), now)?;
            }
        }
        let mut live = BTreeMap::new();
        for order in self.orders.values().map(|(_, order)| order).filter(|order| order.status.is_live()) {
            if let Some(other) = live.insert(order.buyer_name.clone(), &order.id) {
                return Err(format!("{} has two live orders: {other} and {}", order.buyer_name, order.id));
            }
        }
        for order in changed.iter().filter_map(|id| self.order(id)).filter(|order| order.status == Status::Paid) {
            charged(observer, order).await?;
        }
        Ok(())
    }

    /// An order that waits for its payment has its units, and one that is paid has them or has had them sold to it: otherwise they can be
    /// sold to somebody else.
    fn held(&self, order: &Order) -> Result<(), String> {
        let bucket = self.buckets.get(&order.bucket).map(|(_, bucket)| bucket);
        let held = bucket.and_then(|bucket| bucket.holders.get(&order.id)).copied();
        let sold = bucket.and_then(|bucket| bucket.sold_to.get(&order.id)).copied();
        let has_them = match order.status {
            Status::PendingPayment => held == Some(order.quantity),
            Status::Paid | Status::Refunding => held.or(sold) == Some(order.quantity),
            Status::Closed | Status::Failed => sold.is_none(),
            Status::Refunded => true,
        };
        if has_them {
            return Ok(());
        }
        let status = order.status.as_str();
        Err(format!("order {} is {status}, and bucket {} has {held:?} held and {sold:?} sold", order.id, order.bucket))
    }
}

fn moved(before: Option<&Order>, now: &Order) -> Result<(), String> {
    if now.reason == Some(Reason::TimedOut) && now.closed_at < Some(now.pay_by) {
        return Err(format!("order {} timed out before its time: {now:?}", now.id));
    }
    let Some(before) = before else { return Ok(()) };
    let events = [Event::Close, Event::Pay, Event::Revive, Event::StartRefund, Event::FinishRefund];
    let allowed = before.status == now.status
        || events.iter().any(|event| step(before.status, *event) == Step::Become(now.status));
    match allowed {
        true => Ok(()),
        false => Err(format!("order {} went from {:?} to {:?}", now.id, before.status, now.status)),
    }
}

/// What an order was paid with was charged, in full.
async fn charged(observer: &World, order: &Order) -> Result<(), String> {
    let paid = order.paid.as_ref().ok_or_else(|| format!("order {} is paid, and with nothing", order.id))?;
    if paid.amount == 0 {
        return Ok(());
    }
    let money = observer.cloud.sandbox.money().await.unwrap();
    let charge = money.iter().find(|entry| entry.refund.is_none() && entry.transaction == paid.transaction);
    match charge {
        Some(charge) if charge.amount == paid.amount => Ok(()),
        charge => Err(format!("order {} is paid with {paid:?}, and the provider has {charge:?}", order.id)),
    }
}

/// No payment goes back twice, and none that was not made.
pub async fn money(observer: &World) -> Result<(), String> {
    let mut kept: BTreeMap<String, i64> = BTreeMap::new();
    for entry in observer.cloud.sandbox.money().await.unwrap() {
        let sign = if entry.refund.is_some() { -1 } else { 1 };
        *kept.entry(entry.transaction).or_default() += sign * entry.amount;
    }
    match kept.into_iter().find(|(_, kept)| *kept < 0) {
        Some((transaction, _)) => Err(format!("transaction {transaction} went back more than once")),
        None => Ok(()),
    }
}

/// Nobody owes points.
async fn accounts(observer: &World) -> Result<(), String> {
    #[derive(Debug, serde::Deserialize)]
    struct Account {
        balance: i64,
    }
    for json in observer.cloud.dynamodb.rows(&names().accounts).await.unwrap().into_values() {
        if read::<Account>(&json)?.balance < 0 {
            return Err(format!("an account owes points: {json}"));
        }
    }
    Ok(())
}

/// A row that cannot be read is a violation as well: fewer than no units, say.
fn read<T: DeserializeOwned>(json: &str) -> Result<T, String> {
    try_row(json).map_err(|error| format!("{error}: {json}"))
}
