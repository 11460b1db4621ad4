//! Everything that is written down anywhere, read once all is quiet: the shop's tables, the queues, the providers' own books.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use aws_sdk_dynamodb::types::AttributeValue;
use domain::availability::{Page, PageNo, pages};
use domain::bucket::{Bucket, BucketNo};
use domain::ids::{Offer, OrderId, SaleId};
use domain::order::Order;
use ops::target::Target;
use testkit::http::User;
use testkit::world::names;
use serde_json::Value;
use store::Store;

use crate::Problem;

/// Pages of orders, of the ledger and of schedules that are read: more than any drill can make.
const MOST_PAGES: u32 = 10_000;

/// What is written down.
#[derive(Debug, Default)]
pub(crate) struct Books {
    /// What the operator's audit says of the item.
    pub(crate) audit: Value,
    pub(crate) orders: Vec<Order>,
    pub(crate) buckets: Vec<(BucketNo, Bucket)>,
    pub(crate) pages: Vec<(PageNo, Page)>,
    /// Orders with a claim that an order was made for: while it is there, its buyer cannot buy again.
    pub(crate) claimed: BTreeSet<String>,
    pub(crate) ledger: Vec<Entry>,
    /// What the providers say.
    pub(crate) money: Vec<Money>,
    /// Messages in queues and events of functions that are not dealt with, by name.
    pub(crate) waiting: BTreeMap<String, u64>,
    /// Messages that were given up, by queue.
    pub(crate) dead_letters: BTreeMap<String, u64>,
    /// Orders whose payment deadline is still scheduled.
    pub(crate) deadlines: Vec<String>,
}

/// An entry of the ledger.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) order: String,
    pub(crate) name: String,
    /// Something is still to be done about it.
    pub(crate) is_open: bool,
    /// For refunds: it is done.
    pub(crate) is_done: bool,
}

/// A movement of money, by a provider's books.
#[derive(Clone, Debug)]
pub(crate) struct Money {
    /// The shop's number of the payment.
    pub(crate) payment: String,
    pub(crate) transaction: String,
    pub(crate) is_refund: bool,
    pub(crate) amount: i64,
}

impl Money {
    /// The order that it was for: a payment's number is the order's and one more character.
    pub(crate) fn order(&self) -> &str {
        let end = self.payment.char_indices().next_back().map_or(0, |(end, _)| end);
        self.payment.get(..end).unwrap_or_default()
    }
}

/// Reads everything about a sale.
pub(crate) async fn read(operator: &User, sale: &str) -> Result<Books, Problem> {
    let offer = Offer { sale: sale.parse()?, item: "phone".parse()? };
    let target = Target::local(&operator.api.base_url).await?;
    let store = Store::new(&target.config, names());
    let (waiting, dead_letters) = queues(operator).await?;
    let audit = operator.try_with("GET", &format!("/admin/sales/{sale}/audit"), &[], "").await?;
    let audit = audit.body.pointer("/items/0").ok_or_else(|| format!("no audit: {audit:?}"))?.clone();
    let item = store.sale(&offer.sale).await?.and_then(|mut found| found.items.remove(&offer.item));
    let buckets = item.ok_or("the sale is gone")?.layout.buckets();
    let all_pages: Vec<PageNo> = (0..pages(buckets)).collect();
    Ok(Books {
        audit,
        orders: orders(&store, &offer.sale).await?,
        buckets: store.buckets(&offer, 0..buckets).await?,
        pages: store.pages(&offer, &all_pages).await?,
        claimed: claimed(&target, &offer).await?,
        ledger: ledger(&target).await?,
        money: money(operator).await?,
        waiting,
        dead_letters,
        deadlines: deadlines(&target).await?,
    })
}

/// How deep the queues are: those of work, and those of what was given up.
async fn queues(operator: &User) -> Result<(BTreeMap<String, u64>, BTreeMap<String, u64>), Problem> {
    let answer = operator.api.try_send("GET", "/_local/stack", &[], "").await?;
    let (mut waiting, mut dead) = (BTreeMap::new(), BTreeMap::new());
    for (group, is_queue) in [("/live/queues", true), ("/live/asynchronous", false)] {
        let depths = answer.body.pointer(group).and_then(Value::as_object).ok_or("the stack shows no queues")?;
        for (name, depth) in depths {
            let count = |field: &str| depth.get(field).and_then(Value::as_u64).ok_or(format!("{name}: {depth}"));
            let all = count("visible")? + count("inFlight")? + count("delayed")?;
            // reconcile runs every minute: its events are not left over from anything.
            let is_clockwork = !is_queue && name.contains("Reconcile");
            if is_queue && name.contains("DeadLetters") {
                dead.insert(name.clone(), all);
            } else if !is_clockwork {
                waiting.insert(if is_queue { name.clone() } else { format!("events of {name}") }, all);
            }
        }
    }
    Ok((waiting, dead))
}

async fn orders(store: &Store, sale: &SaleId) -> Result<Vec<Order>, Problem> {
    let (mut all, mut after): (Vec<Order>, Option<OrderId>) = (Vec::new(), None);
    for _ in 0..MOST_PAGES {
        let (page, last) = store.orders_page(sale, after.take()).await?;
        all.extend(page);
        after = last;
        if after.is_none() {
            return Ok(all);
        }
    }
    Err("there are too many orders to read".into())
}

type Row = HashMap<String, AttributeValue>;

/// All rows of a table.
async fn rows(target: &Target, table: String) -> Result<Vec<Row>, Problem> {
    let client = aws_sdk_dynamodb::Client::new(&target.config);
    let mut pages = client.scan().table_name(&table).into_paginator().send();
    let mut all = Vec::new();
    for _ in 0..MOST_PAGES {
        let Some(page) = pages.try_next().await? else { return Ok(all) };
        all.extend(page.items.unwrap_or_default());
    }
    Err(format!("table {table} is too long to read").into())
}

fn text(row: &Row, name: &str) -> String {
    row.get(name).and_then(|value| value.as_s().ok()).cloned().unwrap_or_default()
}

async fn claimed(target: &Target, offer: &Offer) -> Result<BTreeSet<String>, Problem> {
    let item = format!("item#{}", offer.item);
    let claims = rows(target, names().claims).await?;
    let claims = claims.iter().filter_map(|row| row.get(&item)?.as_m().ok());
    // One that is HELD was left by a press that died: the buyer's next press goes on with it.
    Ok(claims.filter(|claim| text(claim, "state") != "HELD").map(|claim| text(claim, "order")).collect())
}

async fn ledger(target: &Target) -> Result<Vec<Entry>, Problem> {
    let entry = |row: &Row| Entry {
        order: text(row, "order"),
        name: text(row, "entry"),
        is_open: row.contains_key("open"),
        is_done: row.contains_key("doneAt"),
    };
    Ok(rows(target, names().ledger).await?.iter().map(entry).collect())
}

async fn money(operator: &User) -> Result<Vec<Money>, Problem> {
    let answer = operator.api.try_send("GET", "/_sandbox/money", &[], "").await?;
    let entries = answer.body.get("money").and_then(Value::as_array).ok_or("the providers show no books")?;
    let read = |entry: &Value| {
        let text = |name: &str| entry.get(name)?.as_str().map(str::to_owned);
        let is_refund = !entry.get("refund")?.is_null();
        let amount = entry.get("amount")?.as_i64()?;
        Some(Money { payment: text("number")?, transaction: text("transaction")?, is_refund, amount })
    };
    entries.iter().map(|entry| read(entry).ok_or_else(|| format!("an entry of no sense: {entry}").into())).collect()
}

async fn deadlines(target: &Target) -> Result<Vec<String>, Problem> {
    let client = aws_sdk_scheduler::Client::new(&target.config);
    let group = names().deadlines.ok_or("the template schedules no payment deadlines")?.group;
    let mut pages = client.list_schedules().group_name(group).into_paginator().send();
    let mut all = Vec::new();
    for _ in 0..MOST_PAGES {
        let Some(page) = pages.try_next().await? else { return Ok(all) };
        all.extend(page.schedules.into_iter().filter_map(|schedule| schedule.name));
    }
    Err("there are too many schedules to read".into())
}

/// Panics in the logs of the local cloud and of its functions. An error if they cannot be read.
pub(crate) fn panics(cloud_log: &Path, data_dir: &Path) -> Result<Vec<String>, Problem> {
    let folder = data_dir.join("logs");
    let unreadable = |path: &Path, error: std::io::Error| format!("{} cannot be read: {error}", path.display());
    let mut logs = Vec::new();
    for entry in std::fs::read_dir(&folder).map_err(|error| unreadable(&folder, error))? {
        logs.push(entry?.path());
    }
    if logs.is_empty() {
        return Err(format!("no function has a log in {}", folder.display()).into());
    }
    logs.push(cloud_log.to_owned());
    let mut found = BTreeSet::new();
    for log in logs {
        let bytes = std::fs::read(&log).map_err(|error| unreadable(&log, error))?;
        // A log may end in the middle of a character where its process was killed.
        let text = String::from_utf8_lossy(&bytes);
        let name = log.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        found.extend(text.lines().filter(|line| line.contains("panicked at")).map(|line| format!("{name}: {line}")));
    }
    Ok(found.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panics_are_found_and_logs_that_are_not_there_are_told() {
        let directory = tempfile::tempdir().unwrap();
        let (cloud_log, data_dir) = (directory.path().join("cloud.log"), directory.path().join("data"));
        let told = |part: &str| {
            let error = panics(&cloud_log, &data_dir).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        };
        told("logs cannot be read");
        std::fs::create_dir_all(data_dir.join("logs")).unwrap();
        told("no function has a log");
        std::fs::write(data_dir.join("logs/shop.log"), b"a line\nthread 'main' panicked at x\ncut off \xe4").unwrap();
        told("cloud.log cannot be read");
        std::fs::write(&cloud_log, "all is well\n").unwrap();
        assert_eq!(panics(&cloud_log, &data_dir).unwrap(), ["shop.log: thread 'main' panicked at x"]);
    }
}
