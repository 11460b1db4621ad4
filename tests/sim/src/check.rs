//! The safety properties, true after every single write.

use std::collections::BTreeMap;

use domain::bucket::Bucket;
use domain::ids::{Offer, OrderId};
use domain::order::{Event, Order, Status, Step, step};
use seckill_tests::world::World;

/// What was seen after the last write, to compare with.
#[derive(Default)]
pub struct Seen {
    statuses: BTreeMap<OrderId, Status>,
}

impl Seen {
    /// Looks at everything; a violation is an error in words.
    pub async fn check(&mut self, observer: &World, offer: &Offer) -> Result<(), String> {
        let item = observer.item(offer).await;
        let buckets = observer.store.buckets(offer, 0..item.layout.buckets()).await.unwrap();
        for (number, bucket) in &buckets {
            if !bucket.adds_up() || Some(bucket.cap) != item.layout.cap(*number) {
                return Err(format!("bucket {number} does not add up: {bucket:?}"));
            }
        }
        let (orders, more) = observer.store.count_orders(&offer.sale, None).await.unwrap();
        assert!(more.is_none(), "the simulation has few orders");
        let mut live = BTreeMap::new();
        for order in &orders {
            if order.status.is_live() && live.insert(order.buyer_name.clone(), order.id.clone()).is_some() {
                return Err(format!("{} has two live orders", order.buyer_name));
            }
            held(order, &buckets)?;
            self.moved(order)?;
        }
        money(observer).await
    }

    fn moved(&mut self, order: &Order) -> Result<(), String> {
        let Some(before) = self.statuses.insert(order.id.clone(), order.status) else { return Ok(()) };
        let events = [Event::Close, Event::Pay, Event::Revive, Event::StartRefund, Event::FinishRefund];
        let allowed =
            before == order.status || events.iter().any(|event| step(before, *event) == Step::Become(order.status));
        if allowed { Ok(()) } else { Err(format!("order {} went from {before:?} to {:?}", order.id, order.status)) }
    }
}

/// An order that waits for its payment has its units, and one that is paid has them or has had them sold to it: otherwise they can be
/// sold to somebody else.
fn held(order: &Order, buckets: &[(u32, Bucket)]) -> Result<(), String> {
    let bucket = buckets.iter().find(|(number, _)| *number == order.bucket).map(|(_, bucket)| bucket);
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

/// No payment goes back twice, and none that was not made.
async fn money(observer: &World) -> Result<(), String> {
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
