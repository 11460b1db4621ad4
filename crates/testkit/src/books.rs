//! The books: whether the shop's own agree with the providers', with the stock and with the claims. Read from the tables as they are.

use std::collections::{BTreeMap, HashMap};

use domain::claim::{Claim, ClaimState};
use domain::ids::{BuyerKey, ItemId, Offer, OrderId};
use domain::order::{Order, Status};
use domain::payment::{OpenEntry, PayEntry};
use sandbox::MoneyEntry;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::world::World;

/// Everything that was written down, at one moment.
pub struct Books {
    pub orders: BTreeMap<OrderId, Order>,
    /// A buyer's claims in the sale.
    pub claims: BTreeMap<BuyerKey, BTreeMap<ItemId, Claim>>,
    /// The names of an order's entries in the ledger.
    pub ledger: BTreeMap<String, Vec<String>>,
    /// Points by buyer: (balance, frozen).
    pub accounts: BTreeMap<BuyerKey, (i64, i64)>,
    /// Amount and currency of the entries that are about money, by order and name.
    moved: BTreeMap<(String, String), (i64, String)>,
    /// The providers' own books.
    pub money: Vec<MoneyEntry>,
    /// Units sold, by order.
    sold: BTreeMap<OrderId, u32>,
    /// Buckets that still hold something, or do not add up.
    loud: Vec<String>,
}

/// A buyer's claims of one sale: an attribute for each item, beside the answers to keys.
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

/// A row as `T`, from DynamoDB's JSON.
pub fn try_row<T: DeserializeOwned>(json: &str) -> Result<T, serde_dynamo::Error> {
    let row: HashMap<String, serde_dynamo::AttributeValue> = serde_json::from_str(json).unwrap();
    serde_dynamo::from_item(row)
}

impl World {
    /// Everything in a table.
    pub async fn rows<T: DeserializeOwned>(&self, table: &str) -> Vec<T> {
        self.cloud.dynamodb.rows(table).await.unwrap().values().map(|json| try_row(json).unwrap()).collect()
    }

    pub async fn books(&self, offer: &Offer) -> Books {
        let names = self.names();
        let mut ledger: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut moved = BTreeMap::new();
        for row in self.rows::<LedgerRow>(&names.ledger).await {
            if let (Some(amount), Some(currency)) = (row.amount, row.currency) {
                moved.insert((row.order.clone(), row.entry.clone()), (amount, currency));
            }
            ledger.entry(row.order).or_default().push(row.entry);
        }
        let mut books = Books {
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
            moved,
            accounts: self
                .rows::<AccountRow>(&names.accounts)
                .await
                .into_iter()
                .map(|row| (row.buyer, (row.balance, row.frozen.values().sum())))
                .collect(),
            money: self.cloud.sandbox.money().await.unwrap(),
            sold: BTreeMap::new(),
            loud: Vec::new(),
        };
        for bucket in self.buckets(offer).await {
            if !bucket.adds_up() || !bucket.holders.is_empty() {
                books.loud.push(format!("{bucket:?}"));
            }
            books.sold.extend(bucket.sold_to);
        }
        books
    }

    /// Whether the shop's books agree with the providers', with the stock and with the claims. To be asked when all is quiet.
    pub async fn books_agree(&self, offer: &Offer, orders: &[OrderId]) -> Result<(), String> {
        let books = self.books(offer).await;
        if let Some(bucket) = books.loud.first() {
            return Err(format!("a bucket is not quiet: {bucket}"));
        }
        orders.iter().try_for_each(|id| books.order_ended_well(offer, id))?;
        if let Some(order) = books.sold.keys().find(|order| !orders.contains(order)) {
            return Err(format!("sold to nobody: {order}"));
        }
        let open: Vec<OpenEntry> = self.store.open_entries().await.map_err(|error| error.to_string())?;
        if !open.is_empty() {
            return Err(format!("something is still to be done: {open:?}"));
        }
        Ok(())
    }
}

impl Books {
    /// Whether all of it agrees about one order.
    pub fn order_ended_well(&self, offer: &Offer, id: &OrderId) -> Result<(), String> {
        let order = self.orders.get(id).ok_or("there is no order")?;
        self.order_agrees(offer, order).map_err(|why| format!("{why}: {order:?}"))
    }

    fn order_agrees(&self, offer: &Offer, order: &Order) -> Result<(), String> {
        let is_paid = order.status == Status::Paid;
        if !matches!(order.status, Status::Paid | Status::Closed | Status::Refunded) {
            return Err("the order has not ended".into());
        }
        let sold = self.sold.get(&order.id).copied();
        if sold != is_paid.then_some(order.quantity) {
            return Err(format!("its bucket says that {sold:?} were sold to it"));
        }
        let claim = self.claims.get(&order.id.buyer()).and_then(|claims| claims.get(&offer.item));
        let claim = claim.filter(|claim| claim.order == order.id);
        if claim.is_some() != is_paid || claim.is_some_and(|claim| claim.state == ClaimState::Held) {
            return Err(format!("its claim is {claim:?}"));
        }
        self.money_agrees(order)
    }

    /// Money taken is money kept or refunded, each payment at most once, and both are in the log.
    fn money_agrees(&self, order: &Order) -> Result<(), String> {
        let log = self.ledger.get(order.id.as_str()).map_or(&[][..], Vec::as_slice);
        let mut kept = 0;
        let mut refunds: BTreeMap<&str, usize> = BTreeMap::new();
        for money in self.money.iter().filter(|money| money.number.starts_with(order.id.as_str())) {
            let kind = if money.refund.is_some() { "REFUND" } else { "PAY" };
            let name = format!("{kind}#{}#{}", money.provider, money.transaction);
            if !log.contains(&name) {
                return Err(format!("{name} is not in the log: {log:?}"));
            }
            let written = self.moved.get(&(order.id.to_string(), name.clone()));
            if written != Some(&(money.amount, money.currency.clone())) {
                return Err(format!("the log says {written:?} of {name}, and the provider {money:?}"));
            }
            match money.refund {
                None => kept += money.amount,
                Some(_) => {
                    kept -= money.amount;
                    *refunds.entry(&money.transaction).or_default() += 1;
                }
            }
        }
        // Points leave no trace at a provider.
        if let Some(paid) = &order.paid {
            let name = PayEntry::name(paid.method, &paid.transaction);
            if !log.contains(&name) {
                return Err(format!("{name} is not in the log: {log:?}"));
            }
        }
        let due = order.paid.as_ref().filter(|_| order.status == Status::Paid).map_or(0, |paid| paid.amount);
        if kept != due {
            return Err(format!("{kept} were kept and {due} are due"));
        }
        match refunds.into_iter().find(|(_, times)| *times > 1) {
            Some((transaction, times)) => Err(format!("{transaction} was refunded {times} times")),
            None => Ok(()),
        }
    }
}
