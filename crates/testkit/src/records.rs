//! Everything that a sale has recorded, and whether it agrees: orders with stock, claims, the ledger, and the money
//! that the providers have on their side. Read directly from the tables, not through the code under test.

use std::collections::{BTreeMap, HashMap};

use domain::claim::{Claim, ClaimState};
use domain::ids::{BuyerKey, ItemId, Offer, OrderId};
use domain::order::{Order, Status};
use domain::payment::{Method, OpenEntry, PayEntry, RefundEntry};
use sandbox::MoneyEntry;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::world::World;

/// A snapshot of all records.
pub struct Records {
    pub orders: BTreeMap<OrderId, Order>,
    pub claims: BTreeMap<BuyerKey, BTreeMap<ItemId, Claim>>,
    /// The names of the ledger entries, by order.
    pub ledger: BTreeMap<String, Vec<String>>,
    /// Points by buyer: (balance, frozen).
    pub accounts: BTreeMap<BuyerKey, (i64, i64)>,
    /// Amount and currency of the ledger entries about money, by order and entry name.
    money_moved: BTreeMap<(String, String), (i64, String)>,
    /// Payments and refunds, as the providers recorded them.
    pub money: Vec<MoneyEntry>,
    /// Units sold, by order, as the buckets say.
    sold: BTreeMap<OrderId, u32>,
    /// Buckets that still have holders, or that do not add up.
    unsettled_buckets: Vec<String>,
}

/// A buyer's row in the claims table: one attribute for each item, next to the answers to idempotency keys.
#[derive(Deserialize)]
struct ClaimsRow {
    buyer: BuyerKey,
    #[serde(flatten)]
    others: BTreeMap<String, serde_json::Value>,
}

impl ClaimsRow {
    fn claims(self) -> BTreeMap<ItemId, Claim> {
        let claim = |(name, value): (String, serde_json::Value)| {
            Some((name.strip_prefix("item#")?.parse().unwrap(), serde_json::from_value(value).unwrap()))
        };
        self.others.into_iter().filter_map(claim).collect()
    }
}

#[derive(Deserialize)]
struct LedgerRow {
    order: String,
    entry: String,
    amount: Option<i64>,
    currency: Option<String>,
}

#[derive(Deserialize)]
struct AccountRow {
    buyer: BuyerKey,
    balance: i64,
    #[serde(default)]
    frozen: BTreeMap<String, i64>,
}

/// Reads a row in DynamoDB's JSON form as a `T`.
pub fn try_row<T: DeserializeOwned>(json: &str) -> Result<T, serde_dynamo::Error> {
    let row: HashMap<String, serde_dynamo::AttributeValue> = serde_json::from_str(json).unwrap();
    serde_dynamo::from_item(row)
}

impl World {
    /// All rows of a table.
    pub async fn rows<T: DeserializeOwned>(&self, table: &str) -> Vec<T> {
        self.cloud.dynamodb.rows(table).await.unwrap().values().map(|json| try_row(json).unwrap()).collect()
    }

    /// A snapshot of all records about an item.
    pub async fn records(&self, offer: &Offer) -> Records {
        let names = self.names();
        let mut ledger: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut money_moved = BTreeMap::new();
        for row in self.rows::<LedgerRow>(&names.ledger).await {
            if let (Some(amount), Some(currency)) = (row.amount, row.currency) {
                money_moved.insert((row.order.clone(), row.entry.clone()), (amount, currency));
            }
            ledger.entry(row.order).or_default().push(row.entry);
        }
        let mut records = Records {
            orders: self
                .rows::<Order>(&names.orders)
                .await
                .into_iter()
                .map(|order| (order.id.clone(), order))
                .collect(),
            claims: self
                .rows::<ClaimsRow>(&names.claims)
                .await
                .into_iter()
                .map(|row| (row.buyer.clone(), row.claims()))
                .collect(),
            ledger,
            money_moved,
            accounts: self
                .rows::<AccountRow>(&names.accounts)
                .await
                .into_iter()
                .map(|row| (row.buyer, (row.balance, row.frozen.values().sum())))
                .collect(),
            money: self.cloud.sandbox.money().await.unwrap(),
            sold: BTreeMap::new(),
            unsettled_buckets: Vec::new(),
        };
        for bucket in self.buckets(offer).await {
            if !bucket.adds_up() || !bucket.holders.is_empty() {
                records.unsettled_buckets.push(format!("{bucket:?}"));
            }
            records.sold.extend(bucket.sold().map(|(order, quantity)| (order.clone(), quantity)));
        }
        records
    }

    /// Checks that `orders` have ended and that all records agree about them. Call it only when nothing is in flight.
    pub async fn records_agree(&self, offer: &Offer, orders: &[OrderId]) -> Result<(), String> {
        let records = self.records(offer).await;
        if let Some(bucket) = records.unsettled_buckets.first() {
            return Err(format!("a bucket still has holders or does not add up: {bucket}"));
        }
        orders.iter().try_for_each(|id| records.order_agrees_everywhere(offer, id))?;
        if let Some(order) = records.sold.keys().find(|order| !orders.contains(order)) {
            return Err(format!("units are sold to an order that is not in the list: {order}"));
        }
        let open = self.store.open_entries().await.map_err(|error| error.to_string())?;
        let mut open: Vec<OpenEntry> = open.entries.read;
        // Matters wait for a person.
        open.retain(|entry| !matches!(entry, OpenEntry::Matter(_)));
        if !open.is_empty() {
            return Err(format!("ledger entries are still open: {open:?}"));
        }
        Ok(())
    }
}

impl Records {
    /// Checks that one order has ended and that all records agree about it.
    pub fn order_agrees_everywhere(&self, offer: &Offer, id: &OrderId) -> Result<(), String> {
        let order = self.orders.get(id).ok_or_else(|| format!("order {id} does not exist"))?;
        self.order_agrees(offer, order).map_err(|why| format!("{why}: {order:?}"))
    }

    fn order_agrees(&self, offer: &Offer, order: &Order) -> Result<(), String> {
        let is_paid = order.status == Status::Paid;
        if !matches!(order.status, Status::Paid | Status::Closed | Status::Refunded) {
            return Err("the order has not ended".into());
        }
        let sold = self.sold.get(&order.id).copied();
        if sold != is_paid.then_some(order.quantity) {
            return Err(format!("its bucket says that {sold:?} units were sold to it"));
        }
        let claim = self.claims.get(&order.id.buyer()).and_then(|claims| claims.get(&offer.item));
        let claim = claim.filter(|claim| claim.order == order.id);
        if claim.is_some() != is_paid || claim.is_some_and(|claim| claim.state == ClaimState::Held) {
            return Err(format!("its claim is {claim:?}"));
        }
        self.money_agrees(order)
    }

    /// Checks that every payment was kept or refunded, refunded at most once, and that each movement is in the
    /// ledger.
    fn money_agrees(&self, order: &Order) -> Result<(), String> {
        let log = self.ledger.get(order.id.as_str()).map_or(&[][..], Vec::as_slice);
        let mut kept = 0;
        let mut moved: BTreeMap<(&str, &str), (i64, i64)> = BTreeMap::new();
        for money in self.money.iter().filter(|money| money.number.starts_with(order.id.as_str())) {
            let (paid, refunded) = moved.entry((&money.provider, &money.transaction)).or_default();
            match money.refund {
                None => *paid += money.amount,
                Some(_) => *refunded += money.amount,
            }
        }
        for ((provider, transaction), (paid, refunded)) in moved {
            let method = Method::parse(provider).ok_or("a provider that nobody knows")?;
            let logged =
                |name: &str| self.money_moved.get(&(order.id.to_string(), name.to_owned())).map(|(amount, _)| *amount);
            let name = PayEntry::name(method, transaction);
            if logged(&name) != Some(paid) {
                return Err(format!(
                    "the ledger has {:?} for {name}, and the provider has {paid}: {log:?}",
                    logged(&name)
                ));
            }
            if refunded > paid {
                return Err(format!("{transaction} was refunded more than once"));
            }
            // What a person refunded in the provider's console is recorded in the order; all of it, in the refund log.
            let with = order.paid.as_ref().filter(|with| with.transaction == transaction);
            let elsewhere = with.map_or(0, |with| with.refunded);
            let name = RefundEntry::name(method, transaction);
            if refunded > elsewhere && logged(&name) != Some(refunded) {
                return Err(format!(
                    "the ledger has {:?} for {name}, and the provider has {refunded}: {log:?}",
                    logged(&name)
                ));
            }
            kept += paid - refunded;
        }
        // No provider knows about points.
        if let Some(paid) = &order.paid {
            let name = PayEntry::name(paid.method, &paid.transaction);
            if !log.contains(&name) {
                return Err(format!("{name} is not in the ledger: {log:?}"));
            }
        }
        let due =
            order.paid.as_ref().filter(|_| order.status == Status::Paid).map_or(0, |paid| paid.amount - paid.refunded);
        if kept != due {
            return Err(format!("the providers kept {kept}, and the order is worth {due}"));
        }
        Ok(())
    }
}
