//! The walk over the buckets of every watched sale.
//!
//! One walk at a time: it has a lease (`store::Lease`). It has a time budget; where it stops, the next walk goes on.
//! Every row counts on its own: one that cannot be read, or whose repair fails, does not keep it from the others.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use domain::Timestamp;
use domain::availability::{PageNo, buckets_on, page_of, pages as page_count};
use domain::ids::{Offer, SaleId};
use domain::sale::{Item, Phase, Sale};
use jiff::SignedDuration;
use store::{Cursor, Lease, SaleRows, StoreError, Walk};

use super::outages::ProviderOutages;
use super::{Report, holders, pages};
use crate::Context;
use crate::sale::stock;
use crate::view::audit::Totals;

/// A sale that is over and has held nothing for this long is no longer watched. Longer than any request is in flight.
const SETTLED_AFTER: SignedDuration = SignedDuration::from_mins(10);
/// Time in one run for the walk. With the budget for money before it, less than the function's timeout.
pub(super) const BUDGET: Duration = Duration::from_secs(180);
/// Time in one run for laying out buckets that an interrupted preheat or restock left out.
const LAY_OUT_BUDGET: Duration = Duration::from_secs(60);
/// How long a lease lasts. A walk that crashes keeps the next ones waiting for this long: less than the minute
/// between two runs.
const LEASE: SignedDuration = SignedDuration::from_secs(45);
/// A lease is renewed after this time.
const RENEWED_AFTER: Duration = Duration::from_secs(10);
/// While so many order messages wait, a missing order is explained by the queue: no message is sent again.
const DEEP_QUEUE: u64 = 1_000;

/// A lease as a walk keeps it.
pub(super) struct KeptLease {
    lease: Lease,
    began: Instant,
    renewed: Mutex<Instant>,
}

impl KeptLease {
    /// Takes the lease; `None`: another run has it.
    pub(super) async fn take(context: Context<'_>, walk: Walk) -> Result<Option<Self>, StoreError> {
        let until = context.now.saturating_add(LEASE).unwrap_or(context.now);
        let lease = context.store.take_lease(walk, context.now, until).await?;
        let began = Instant::now();
        Ok(lease.map(|lease| Self { lease, began, renewed: Mutex::new(began) }))
    }

    /// Renews the lease if it is time. Returns false if another run has taken it.
    pub(super) async fn keep(&self, context: Context<'_>) -> Result<bool, StoreError> {
        {
            let mut renewed = self.renewed.lock().unwrap_or_else(PoisonError::into_inner);
            if renewed.elapsed() < RENEWED_AFTER {
                return Ok(true);
            }
            *renewed = Instant::now();
        }
        let lasts = LEASE.saturating_add(SignedDuration::try_from(self.began.elapsed()).unwrap_or_default());
        let until = context.now.saturating_add(lasts).unwrap_or(context.now);
        context.store.keep_lease(&self.lease, until).await
    }

    pub(super) async fn end(
        &self,
        context: Context<'_>,
        since: Option<Timestamp>,
        cursor: Option<&Cursor>,
    ) -> Result<bool, StoreError> {
        context.store.end_lease(&self.lease, since, cursor).await
    }
}

/// What one walk carries from step to step.
pub(super) struct Run<'a> {
    pub(super) context: Context<'a>,
    pub(super) outages: &'a ProviderOutages,
    pub(super) lease: KeptLease,
    lay_out_until: Instant,
    until: Instant,
    /// Whether too many order messages wait, once that was asked.
    deep_queue: tokio::sync::OnceCell<bool>,
}

impl Run<'_> {
    /// When the last complete walk began that sent missing messages.
    pub(super) fn since(&self) -> Option<Timestamp> {
        self.lease.lease.since
    }

    /// Whether so many messages wait that none is sent again.
    pub(super) async fn is_queue_deep(&self) -> Result<bool, StoreError> {
        let waiting = async || Ok(self.context.store.orders_waiting().await? >= DEEP_QUEUE);
        self.deep_queue.get_or_try_init(waiting).await.copied()
    }

    /// Whether the walk may go on: there is time, and no other run has taken the lease.
    async fn goes_on(&self) -> Result<bool, StoreError> {
        Ok(Instant::now() < self.until && self.lease.keep(self.context).await?)
    }
}

/// Walks on from where the previous walk stopped.
pub(super) async fn walk(
    context: Context<'_>,
    outages: &ProviderOutages,
    budget: Duration,
    report: &mut Report,
) -> Result<(), StoreError> {
    let Some(lease) = KeptLease::take(context, Walk::Stock).await? else {
        report.walk_skipped = true;
        return Ok(());
    };
    let now = Instant::now();
    let run = Run {
        context,
        outages,
        lease,
        lay_out_until: now + LAY_OUT_BUDGET,
        until: now + budget,
        deep_queue: tokio::sync::OnceCell::new(),
    };
    let walked = walk_sales(&run, report).await;
    let stopped_at = match &walked {
        Ok(stopped_at) => stopped_at.clone(),
        // The watched sales could not be listed.
        Err(_) => run.lease.lease.cursor.clone(),
    };
    let began_at = run.lease.lease.cursor.as_ref().map_or(context.now, |cursor| cursor.began_at);
    let is_complete = matches!(walked, Ok(None));
    // While the queue is deep nothing is sent, so the next walk must look at the same ages again.
    let is_deep = run.deep_queue.get() == Some(&true);
    let since = (is_complete && !is_deep).then_some(began_at);
    let ended = run.lease.end(context, since, stopped_at.as_ref()).await;
    walked?;
    if !ended? {
        report.errors.push("another run took the lease of this walk: it was slower than a lease lasts".to_owned());
    }
    Ok(())
}

/// Returns where it stopped; `None`: the walk is complete.
async fn walk_sales(run: &Run<'_>, report: &mut Report) -> Result<Option<Cursor>, StoreError> {
    let ids = run.context.store.watched_sales().await?;
    let resumed = run.lease.lease.cursor.clone().filter(|cursor| ids.contains(&cursor.sale));
    let mut drift = Drift { found: resumed.as_ref().map_or(Some(0), |cursor| cursor.drift) };
    let began_at = resumed.as_ref().map_or(run.context.now, |cursor| cursor.began_at);
    let first = resumed.as_ref().and_then(|cursor| ids.iter().position(|id| *id == cursor.sale)).unwrap_or(0);
    let mut resumed = resumed;
    for id in ids.iter().skip(first) {
        report.sales += 1;
        match sale(run, id, resumed.take(), report, &mut drift).await {
            Ok(None) => {}
            Ok(Some(Stopped { item, bucket, quiet })) => {
                let sale = id.clone();
                // What is wrong so far is known, also before the walk is complete.
                report.drift = drift.found.filter(|drift| *drift > 0);
                return Ok(Some(Cursor { sale, item, bucket, began_at, drift: drift.found, quiet }));
            }
            Err(error) => {
                drift.found = None;
                report.errors.push(format!("sale {id}: {error}"));
            }
        }
    }
    report.drift = drift.found;
    Ok(None)
}

/// Units too few or too many; `None`: not known, because something could not be read.
struct Drift {
    found: Option<u64>,
}

/// Where the walk of a sale stopped.
struct Stopped {
    item: domain::ids::ItemId,
    bucket: domain::bucket::BucketNo,
    quiet: bool,
}

async fn sale(
    run: &Run<'_>,
    id: &SaleId,
    resumed: Option<Cursor>,
    report: &mut Report,
    drift: &mut Drift,
) -> Result<Option<Stopped>, StoreError> {
    let Context { store, now, .. } = run.context;
    let SaleRows { sale, items } = store.readable_sale(id).await?;
    let errors_before = report.errors.len() + report.unreadable.len();
    if !items.unreadable.is_empty() {
        drift.found = None;
        report.unreadable.extend(items.unreadable.iter().map(ToString::to_string));
    }
    // A change of the sale may have stopped before its copies were written.
    if let Err(error) = Box::pin(store.publish_sale(id)).await {
        report.errors.push(format!("copies of sale {id}: {error}"));
    }
    let mut quiet = match &resumed {
        Some(cursor) => cursor.quiet,
        None => sale.as_ref().is_some_and(|sale| is_over(sale, now)),
    };
    let is_resumed = |item: &&Item| resumed.as_ref().is_some_and(|cursor| cursor.item == item.id);
    let first = items.read.iter().position(|item| is_resumed(&item)).unwrap_or(0);
    for item in items.read.iter().skip(first) {
        let offer = Offer { sale: id.clone(), item: item.id.clone() };
        let from = resumed.as_ref().filter(|_| is_resumed(&item)).map_or(0, |cursor| cursor.bucket);
        match walk_item(run, &offer, item, page_of(from), report, drift).await {
            Ok(Walked { held, stopped_at }) => {
                quiet &= held == 0;
                if let Some(bucket) = stopped_at {
                    let quiet = quiet && report.errors.len() + report.unreadable.len() == errors_before;
                    return Ok(Some(Stopped { item: item.id.clone(), bucket, quiet }));
                }
            }
            Err(error) => {
                drift.found = None;
                report.errors.push(format!("item {offer}: {error}"));
            }
        }
    }
    if let Some(sale) = sale.filter(|_| quiet && report.errors.len() + report.unreadable.len() == errors_before) {
        store.unwatch_sale(&sale).await?;
        report.settled += 1;
    }
    Ok(None)
}

fn is_over(sale: &Sale, now: Timestamp) -> bool {
    let since = match sale.phase(now) {
        Phase::Ended => sale.ends_at.max(sale.changed_at),
        Phase::Closed => sale.changed_at,
        Phase::Draft | Phase::Scheduled | Phase::Open | Phase::Paused => return false,
    };
    now.duration_since(since) >= SETTLED_AFTER
}

/// What the walk of an item found.
struct Walked {
    /// Units that are held in what was looked at.
    held: u64,
    /// The first bucket that was not looked at, if the walk had to stop.
    stopped_at: Option<domain::bucket::BucketNo>,
}

/// Walks an item's buckets, page by page, from page `first` on.
async fn walk_item(
    run: &Run<'_>,
    offer: &Offer,
    item: &Item,
    first: PageNo,
    report: &mut Report,
    drift: &mut Drift,
) -> Result<Walked, StoreError> {
    let store = run.context.store;
    let buckets = item.layout.buckets();
    let laid_out = stock::lay_out_missing(store, offer, item, run.lay_out_until).await?;
    report.laid_out += laid_out - item.laid_out;
    let item = &Item { laid_out, ..item.clone() };
    let mut totals = Totals::default();
    let mut stopped_at = None;
    for number in first..page_count(buckets) {
        if !run.goes_on().await? {
            stopped_at = Some(buckets_on(number, buckets).start);
            break;
        }
        if let Err(error) = walk_page(run, offer, item, number, &mut totals, report, drift).await {
            drift.found = None;
            report.errors.push(format!("item {offer}, page {number}: {error}"));
        }
    }
    let audit = totals.audit(item);
    drift.found = drift.found.map(|found| found + audit.drift.unsigned_abs());
    report.findings.extend(audit.findings.into_iter().map(|finding| format!("{offer}: {finding}")));
    Ok(Walked { held: totals.held(), stopped_at })
}

async fn walk_page(
    run: &Run<'_>,
    offer: &Offer,
    item: &Item,
    number: PageNo,
    totals: &mut Totals,
    report: &mut Report,
    drift: &mut Drift,
) -> Result<(), StoreError> {
    let store = run.context.store;
    let on_page = buckets_on(number, item.layout.buckets());
    // The page is read before its buckets: a bucket that opens after this changes the page's version, and a
    // correction by what was seen earlier is then refused.
    let page = store.pages(offer, &[number]).await.map(|mut pages| pages.pop().map(|(_, page)| page));
    let found = store.readable_buckets(offer, on_page.clone()).await?;
    report.unreadable.extend(found.unreadable.iter().map(ToString::to_string));
    let is_whole = found.unreadable.is_empty();
    if is_whole {
        totals.add(item, on_page.start, on_page.end, &found.read);
    } else {
        // The readable buckets are examined one by one: what is missing among them cannot be told.
        drift.found = None;
        for (number, bucket) in &found.read {
            totals.add(item, *number, *number + 1, &[(*number, bucket.clone())]);
        }
    }
    holders::repair(run, offer, &found.read, report).await?;
    match page {
        Ok(page) if is_whole => {
            let seen = pages::Seen { number, on_page, page, buckets: &found.read };
            report.pages_mended += pages::correct(store, offer, seen).await?;
        }
        Ok(_) => {}
        Err(error) => report.add_failure(format!("page {number} of {offer}"), &error),
    }
    Ok(())
}
