//! Reading a world's state: orders, buckets, costs, and whole tables.

use std::collections::BTreeMap;

use aws_sdk_dynamodb::types::AttributeValue;
use domain::bucket::Bucket;
use domain::ids::{Offer, OrderId};
use domain::order::Order;
use domain::sale::Item;

use crate::world::World;

type Row = std::collections::HashMap<String, AttributeValue>;

impl World {
    pub async fn order(&self, id: &OrderId) -> Option<Order> {
        self.store.order(id).await.unwrap()
    }

    pub async fn item(&self, offer: &Offer) -> Item {
        self.store.sale(&offer.sale).await.unwrap().unwrap().items.remove(&offer.item).unwrap()
    }

    pub async fn buckets(&self, offer: &Offer) -> Vec<Bucket> {
        let count = self.item(offer).await.layout.buckets();
        self.store.buckets(offer, 0..count).await.unwrap().into_iter().map(|(_, bucket)| bucket).collect()
    }

    /// Units as (free, held, sold). Panics if a bucket does not add up.
    pub async fn figures(&self, offer: &Offer) -> (u32, u32, u32) {
        let buckets = self.buckets(offer).await;
        assert!(buckets.iter().all(Bucket::adds_up), "{buckets:?}");
        let sum = |of: fn(&Bucket) -> u32| buckets.iter().map(of).sum();
        (sum(|bucket| bucket.free), sum(Bucket::held), sum(|bucket| bucket.sold))
    }

    /// The content of all tables and the names of all schedules, in a form in which two worlds can be compared.
    pub async fn state(&self) -> BTreeMap<String, Vec<String>> {
        let client = aws_sdk_dynamodb::Client::new(&self.wire.sdk_config());
        let names = self.names();
        let mut state = BTreeMap::new();
        for table in [
            &names.sales,
            &names.stock,
            &names.claims,
            &names.orders,
            &names.ledger,
            &names.accounts,
            &names.availability,
        ] {
            let rows = client.scan().table_name(table).consistent_read(true).send().await.unwrap().items.unwrap();
            // A lease of reconcile counts its runs.
            let is_lease = |row: &Row| row.get("fence").is_some();
            let mut rows: Vec<String> = rows
                .into_iter()
                .filter(|row| !is_lease(row))
                .map(|mut row| {
                    // A page's version counts its writes: it says nothing about which buckets are open.
                    row.remove("version");
                    // Nor do failed attempts at a provider say anything about the result.
                    row.retain(|name, _| !["tries", "triedAt", "trouble"].contains(&name.as_str()));
                    // The name of a stock movement ends with the number of its stream record.
                    if let Some(AttributeValue::S(entry)) = row.get_mut("entry")
                        && entry.starts_with("STOCK#")
                        && let Some(number) = entry.rfind('#')
                    {
                        entry.truncate(number);
                    }
                    shown(&AttributeValue::M(row))
                })
                .collect();
            rows.sort();
            state.insert(table.clone(), rows);
        }
        let schedules = aws_sdk_scheduler::Client::new(&self.wire.sdk_config()).list_schedules().send().await.unwrap();
        let mut schedules: Vec<String> = schedules.schedules.iter().map(|one| one.name().unwrap().to_owned()).collect();
        schedules.sort();
        state.insert("schedules".to_owned(), schedules);
        state
    }

    /// The calls made since `Wire::forget_calls`, and their write units.
    pub fn cost(&self) -> (Vec<String>, f64) {
        let calls = self.wire.calls();
        (calls.iter().map(|call| call.operation.clone()).collect(), calls.iter().map(|call| call.write_units).sum())
    }
}

/// An attribute as text. Maps and sets have no order of their own, so they are sorted.
fn shown(value: &AttributeValue) -> String {
    match value {
        AttributeValue::M(map) => {
            let sorted: BTreeMap<&String, String> = map.iter().map(|(name, value)| (name, shown(value))).collect();
            format!("{sorted:?}")
        }
        AttributeValue::Ns(numbers) => {
            let mut sorted = numbers.clone();
            sorted.sort();
            format!("{sorted:?}")
        }
        AttributeValue::L(list) => format!("{:?}", list.iter().map(shown).collect::<Vec<_>>()),
        AttributeValue::S(text) | AttributeValue::N(text) => text.clone(),
        other => format!("{other:?}"),
    }
}
