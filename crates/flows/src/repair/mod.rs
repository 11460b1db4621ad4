//! Reconcile, every minute: finishes what a crash left between two steps, and proves the totals.
//!
//! | step | what it does |
//! |---|---|
//! | walk the buckets of every watched sale | lays out missing buckets, adds up free, held and sold units |
//! | `holders` | each old holder leads to its order and claim; [`domain::repair::holder_verdict`] says what to do |
//! | `pages` | corrects pages of open buckets that differ from the buckets themselves |
//! | `money` | payments and refunds that the log marks as open: settles the one, resumes the other |
//!
//! Everything it does is a step of another flow, so it can run twice, run at the same time as those flows, or
//! stop anywhere. A second run finds nothing to do.

mod holders;
mod money;
mod outages;
mod pages;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use domain::Timestamp;
use domain::availability::{buckets_on, pages as page_count};
use domain::ids::{Offer, SaleId};
use domain::payment::MatterKind;
use domain::repair::HolderVerdict;
use domain::sale::{Item, Phase, Sale, SaleWithItems};
use jiff::SignedDuration;
use store::StoreError;

use crate::Context;
use crate::sale::stock;
use crate::view::audit::Totals;
use outages::ProviderOutages;

/// A sale that is over and has held nothing for this long is no longer watched. Longer than any request is in flight.
const SETTLED_AFTER: SignedDuration = SignedDuration::from_mins(10);
/// Time in one run for payments and refunds that are marked open.
const MONEY_BUDGET: Duration = Duration::from_secs(90);
/// Time in one run for laying out buckets that an interrupted preheat or restock left out.
const LAY_OUT_BUDGET: Duration = Duration::from_secs(60);

/// What one run did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Sales that were examined.
    pub sales: u32,
    /// Holders that were examined.
    pub holders: u64,
    /// Order messages that were sent again.
    pub sent_again: u32,
    /// Orders closed although their schedule was lost.
    pub closed: u32,
    /// Closed or failed orders whose remaining steps were done.
    pub finished: u32,
    /// Paid orders whose units are counted as sold now.
    pub confirmed: u32,
    /// Purchases that had lost their claim, recorded as FAILED.
    pub failed: u32,
    /// Delayed holds that were returned.
    pub released: u32,
    /// Payments in the log that were settled.
    pub settled_money: u32,
    /// Refunds that were finished.
    pub refunded: u32,
    /// Refunds that are still open.
    pub refunds_open: u32,
    /// Refunds, of those, that the provider refuses for good.
    pub refunds_refused: u32,
    /// Matters of money that wait for an operator, by kind.
    pub matters: BTreeMap<MatterKind, u32>,
    /// Buckets that were laid out.
    pub laid_out: u32,
    /// Buckets whose entry on a page was corrected.
    pub pages_mended: u32,
    /// Sales that are no longer watched.
    pub settled: u32,
    /// Units too few or too many: the sum over all items, without signs.
    pub drift: u64,
    /// Inconsistencies, in words.
    pub findings: Vec<String>,
    /// Steps that failed in this run.
    pub errors: Vec<String>,
}

impl Report {
    /// Whether there was nothing to repair.
    pub fn found_nothing(&self) -> bool {
        let quiet = Report {
            sales: self.sales,
            holders: self.holders,
            settled: self.settled,
            refunds_open: self.refunds_open,
            refunds_refused: self.refunds_refused,
            matters: self.matters.clone(),
            ..Report::default()
        };
        *self == quiet
    }

    fn count_matter(&mut self, kind: MatterKind) {
        let count = self.matters.entry(kind).or_default();
        *count = count.saturating_add(1);
    }

    fn count(&mut self, verdict: HolderVerdict) {
        match verdict {
            HolderVerdict::Leave => {}
            HolderVerdict::SendAgain => self.sent_again += 1,
            HolderVerdict::Close => self.closed += 1,
            HolderVerdict::FinishClose => self.finished += 1,
            HolderVerdict::Confirm => self.confirmed += 1,
            HolderVerdict::Fail => self.failed += 1,
            HolderVerdict::Release => self.released += 1,
        }
    }
}

/// What one run carries from step to step.
struct Run<'a> {
    context: Context<'a>,
    outages: ProviderOutages,
    lay_out_until: Instant,
}

/// Runs once. An error at one holder, item or sale does not stop the others from being examined.
pub async fn reconcile(context: Context<'_>) -> Result<Report, StoreError> {
    let mut report = Report::default();
    let outages = ProviderOutages::default();
    let run = Run { context, outages, lay_out_until: Instant::now() + LAY_OUT_BUDGET };
    for id in context.store.watched_sales().await? {
        report.sales += 1;
        if let Err(error) = sale(&run, &id, &mut report).await {
            report.errors.push(format!("sale {id}: {error}"));
        }
    }
    report.errors.extend(run.outages.postponed_orders());
    // Last, and within a budget: a provider that does not answer does not delay the repair of any sale.
    if let Err(error) = money::resume_open_entries(context, Instant::now() + MONEY_BUDGET, &mut report).await {
        report.errors.push(format!("open payments and refunds: {error}"));
    }
    Ok(report)
}

async fn sale(run: &Run<'_>, id: &SaleId, report: &mut Report) -> Result<(), StoreError> {
    let Context { store, now, .. } = run.context;
    let Some(SaleWithItems { sale, items }) = store.sale(id).await? else { return Ok(()) };
    let errors_before = report.errors.len();
    let mut held = 0;
    for item in items.values() {
        let offer = Offer { sale: id.clone(), item: item.id.clone() };
        match walk_buckets(run, &offer, item, report).await {
            Ok(item_held) => held += item_held,
            Err(error) => report.errors.push(format!("item {offer}: {error}")),
        }
    }
    if held == 0 && report.errors.len() == errors_before && is_over(&sale, now) {
        store.unwatch_sale(&sale).await?;
        report.settled += 1;
    }
    Ok(())
}

fn is_over(sale: &Sale, now: Timestamp) -> bool {
    let since = match sale.phase(now) {
        Phase::Ended => sale.ends_at.max(sale.changed_at),
        Phase::Closed => sale.changed_at,
        Phase::Draft | Phase::Scheduled | Phase::Open | Phase::Paused => return false,
    };
    now.duration_since(since) >= SETTLED_AFTER
}

/// Walks an item's buckets, page by page. Returns how many units are held.
async fn walk_buckets(run: &Run<'_>, offer: &Offer, item: &Item, report: &mut Report) -> Result<u64, StoreError> {
    let store = run.context.store;
    let buckets = item.layout.buckets();
    let laid_out = stock::lay_out_missing(store, offer, item, run.lay_out_until).await?;
    report.laid_out += laid_out - item.laid_out;
    let item = &Item { laid_out, ..item.clone() };
    let mut totals = Totals::default();
    for number in 0..page_count(buckets) {
        let on_page = buckets_on(number, buckets);
        // The page is read before its buckets: a bucket that opens after this changes the page's version, and a
        // correction by what was seen earlier is then refused.
        let page = store.pages(offer, &[number]).await?.pop().map(|(_, page)| page);
        let read = store.buckets(offer, on_page.clone()).await?;
        totals.add(item, on_page.start, on_page.end, &read);
        holders::repair(run, offer, &read, report).await?;
        let seen = pages::Seen { number, on_page, page, buckets: &read };
        report.pages_mended += pages::correct(store, offer, seen).await?;
    }
    let audit = totals.audit(item);
    report.drift += audit.drift.unsigned_abs();
    report.findings.extend(audit.findings.into_iter().map(|finding| format!("{offer}: {finding}")));
    Ok(totals.held())
}
