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
        Ok(())
    }

    fn moved(&mut self, order: &Order) -> Result<(), String> {
        let Some(before) = self.statuses.insert(order.id.clone(), order.status) else { return Ok(()) };
        let events = [Event::Close, Event::Pay, Event::StartRefund, Event::FinishRefund];
        let allowed =
            before == order.status || events.iter().any(|event| step(before, *event) == Step::Become(order.status));
        if allowed { Ok(()) } else { Err(format!("order {} went from {before:?} to {:?}", order.id, order.status)) }
    }
}

/// An order that waits for its payment has its units: otherwise they can be sold to somebody else.
fn held(order: &Order, buckets: &[(u32, Bucket)]) -> Result<(), String> {
    if order.status != Status::PendingPayment {
        return Ok(());
    }
    let bucket = buckets.iter().find(|(number, _)| *number == order.bucket).map(|(_, bucket)| bucket);
    match bucket.and_then(|bucket| bucket.holders.get(&order.id)) {
        Some(quantity) if *quantity == order.quantity => Ok(()),
        _ => Err(format!("order {} waits for its payment and holds nothing in bucket {}", order.id, order.bucket)),
    }
}
