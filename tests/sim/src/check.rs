//! The safety properties, which must hold after every single write. They are checked on the tables themselves, not
//! through the code under test.

use std::collections::BTreeMap;

use domain::bucket::{Bucket, BucketNo, parse_bucket_key};
use domain::ids::{Offer, OrderId};
use domain::order::{Event, Order, Reason, Status, Step, step};
use domain::sale::Item;
use serde::de::DeserializeOwned;
use testkit::records::try_row;
use testkit::world::{World, names};

/// Rows as they were last seen, each with its JSON: a row that has not changed is not parsed again.
type Rows<K, V> = BTreeMap<K, (String, V)>;

/// Compares the tables with their state after the previous write.
pub struct SafetyMonitor {
    offer: Offer,
    item: Item,
    buckets: Rows<BucketNo, Bucket>,
    orders: Rows<OrderId, Order>,
    /// The last moment at which each bucket had less than one free unit, and less than two.
    short_until_ms: BTreeMap<BucketNo, [i64; 2]>,
}

impl SafetyMonitor {
    pub async fn new(observer: &World, offer: &Offer) -> Result<Self, String> {
        let mut watch = Self {
            offer: offer.clone(),
            item: observer.item(offer).await,
            buckets: BTreeMap::new(),
            orders: BTreeMap::new(),
            short_until_ms: BTreeMap::new(),
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

    /// A bucket that has had `quantity` free units ever since that moment, if there is one. SOLD_OUT would be wrong.
    pub fn free_ever_since(&self, quantity: u32, since_ms: i64) -> Option<BucketNo> {
        let has_them = |number: &BucketNo| self.buckets[number].1.free >= quantity;
        let place = quantity as usize - 1;
        self.short_until_ms
            .iter()
            .find(|(number, short)| has_them(number) && short[place] < since_ms)
            .map(|(number, _)| *number)
    }

    /// Checks the tables that were written to. The error describes the violation.
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
            self.orders().try_for_each(|order| self.check_units(order))?;
        }
        if wrote(&names.accounts) {
            check_balances(observer).await?;
        }
        Ok(())
    }

    async fn read_buckets(&mut self, observer: &World) -> Result<(), String> {
        #[derive(serde::Deserialize)]
        struct Key {
            bucket: String,
        }
        // A bucket that was short stayed short until this write.
        self.note_shortage(observer.clock.now_ms());
        let rows = observer.cloud.dynamodb.rows(&names().stock).await.unwrap();
        if rows.len() < self.buckets.len() {
            return Err(format!("there were {} buckets, now there are {}", self.buckets.len(), rows.len()));
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

    /// Notes which buckets are short of units now. Also called before time passes, because they stay short until
    /// then.
    pub fn note_shortage(&mut self, now_ms: i64) {
        for (number, (_, bucket)) in &self.buckets {
            let short = self.short_until_ms.entry(*number).or_insert([now_ms; 2]);
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
            return Err(format!("there were {} orders, now there are {}", self.orders.len(), rows.len()));
        }
        for json in rows.into_values() {
            if !self.orders.values().any(|(before, _)| *before == json) {
                let order: Order = read(&json)?;
                changed.push(order.id.clone());
                let before = self.orders.insert(order.id.clone(), (json, order));
                let now = &self.orders[&changed[changed.len() - 1]].1;
                check_transition(before.as_ref().map(|(_, before)| before), now)?;
                check_reference(now)?;
            }
        }
        let mut live = BTreeMap::new();
        for order in self.orders.values().map(|(_, order)| order).filter(|order| order.status.is_live()) {
            if let Some(other) = live.insert(order.buyer_name.clone(), &order.id) {
                return Err(format!("{} has two live orders: {other} and {}", order.buyer_name, order.id));
            }
        }
        for order in changed.iter().filter_map(|id| self.order(id)).filter(|order| order.status == Status::Paid) {
            check_charge(observer, order).await?;
        }
        Ok(())
    }

    /// A pending order holds its units. A paid one holds them, or they are counted as sold to it. Otherwise they
    /// could be sold to another buyer.
    fn check_units(&self, order: &Order) -> Result<(), String> {
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
        Err(format!(
            "order {} is {status}, but bucket {} has {held:?} held and {sold:?} sold for it",
            order.id, order.bucket
        ))
    }
}

/// An order has what the shop attached to its purchase. The purchases of the simulation carry the buyer's name; a
/// purchase that lost its claim has lost it too.
fn check_reference(order: &Order) -> Result<(), String> {
    let reference = order.shop_data.reference.as_ref().map(|reference| reference.as_str());
    if order.status == Status::Failed || reference == Some(order.buyer_name.as_str()) {
        return Ok(());
    }
    Err(format!("order {} of {} has the reference {reference:?}", order.id, order.buyer_name))
}

/// An order changes only as [`domain::order::step`] allows, and times out only after its deadline.
fn check_transition(before: Option<&Order>, now: &Order) -> Result<(), String> {
    if now.reason == Some(Reason::TimedOut) && now.closed_at < Some(now.pay_by) {
        return Err(format!("order {} timed out before its deadline: {now:?}", now.id));
    }
    let Some(before) = before else { return Ok(()) };
    let events = [Event::Close, Event::Pay, Event::Revive, Event::StartRefund, Event::FinishRefund, Event::KeepPaid];
    // While it settles, one look sees what a whole invocation did: a refund from its start to its end.
    let refunded_at_once = (before.status, now.status) == (Status::Paid, Status::Refunded);
    let allowed = before.status == now.status
        || refunded_at_once
        || events.iter().any(|event| step(before.status, *event) == Step::Become(now.status));
    match allowed {
        true => Ok(()),
        false => Err(format!("order {} went from {:?} to {:?}", now.id, before.status, now.status)),
    }
}

/// The provider has charged the full amount that an order was paid with.
async fn check_charge(observer: &World, order: &Order) -> Result<(), String> {
    let paid = order.paid.as_ref().ok_or_else(|| format!("order {} is paid, but not with anything", order.id))?;
    if paid.amount == 0 {
        return Ok(());
    }
    let money = observer.cloud.sandbox.money().await.unwrap();
    let charge = money.iter().find(|entry| entry.refund.is_none() && entry.transaction == paid.transaction);
    match charge {
        Some(charge) if charge.amount == paid.amount => Ok(()),
        charge => Err(format!("order {} is paid with {paid:?}, but the provider has {charge:?}", order.id)),
    }
}

/// No payment is refunded twice, or without having been made.
pub async fn check_refunds(observer: &World) -> Result<(), String> {
    let mut kept: BTreeMap<String, i64> = BTreeMap::new();
    for entry in observer.cloud.sandbox.money().await.unwrap() {
        let sign = if entry.refund.is_some() { -1 } else { 1 };
        *kept.entry(entry.transaction).or_default() += sign * entry.amount;
    }
    match kept.into_iter().find(|(_, kept)| *kept < 0) {
        Some((transaction, _)) => Err(format!("transaction {transaction} was refunded more than once")),
        None => Ok(()),
    }
}

/// No balance of points is negative.
async fn check_balances(observer: &World) -> Result<(), String> {
    #[derive(Debug, serde::Deserialize)]
    struct Account {
        balance: i64,
    }
    for json in observer.cloud.dynamodb.rows(&names().accounts).await.unwrap().into_values() {
        if read::<Account>(&json)?.balance < 0 {
            return Err(format!("an account has a negative balance: {json}"));
        }
    }
    Ok(())
}

/// A row that cannot be parsed is a violation as well, for example a negative number of units.
fn read<T: DeserializeOwned>(json: &str) -> Result<T, String> {
    try_row(json).map_err(|error| format!("{error}: {json}"))
}
