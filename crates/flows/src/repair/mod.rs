//! Reconcile, every minute: finishes what a crash left between two steps, and proves the totals.
//!
//! | step | what it does |
//! |---|---|
//! | `money` | payments and refunds that the log marks as open: settles the one, resumes the other |
//! | `walk` | the buckets of every watched sale: lays out missing ones, adds up free, held and sold units |
//! | `holders` | each old holder leads to its order and claim; [`domain::repair::holder_verdict`] says what to do |
//! | `retire` | removes orders of past sales that were kept for long enough |
//! | `pages` | corrects pages of open buckets that differ from the buckets themselves |
//!
//! Everything it does is a step of another flow, so it can run twice, run at the same time as those flows, or
//! stop anywhere. A second run finds nothing to do.
//!
//! Money and walk have a lease each: two runs at once would only do the same work twice, but many runs at once
//! would slow each other down. Money comes first, with a budget per provider, so neither a large sale nor another
//! provider delays it. A row that this release cannot read is counted and listed, and the others are repaired.
//!
//! | stopped after | left behind | repaired by |
//! |---|---|---|
//! | a lease was taken | no run does this work for 45 s | the lease runs out |
//! | any step | the cursor of the walk before | the next walk starts there, and repeats what was done |

mod holders;
mod money;
mod outages;
mod pages;
mod retire;
mod walk;

use std::collections::BTreeMap;
use std::time::Duration;

use domain::payment::MatterKind;
use domain::repair::HolderVerdict;
use store::{StoreError, UnreadableRow, Walk};

use crate::{Context, FlowError};
use outages::ProviderOutages;
pub use retire::remove_past_orders;
use walk::KeptLease;

/// What one run did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Sales that were examined.
    pub sales: u32,
    /// Holders that were examined.
    pub holders: u64,
    /// Order messages that were sent again.
    pub sent_again: u32,
    /// Holders without an order whose message is not sent again yet.
    pub waiting: u32,
    /// Orders closed although their schedule was lost.
    pub closed: u32,
    /// Closed, failed or refunded orders whose remaining steps were done.
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
    /// Refunds that are still open; `None`: not known in this run.
    pub refunds_open: Option<u32>,
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
    /// Orders of past sales that were removed, because they are no longer kept.
    pub retired: u32,
    /// Units too few or too many: the sum over all items, without signs. `None`: not known, because the walk goes
    /// on in the next run, or because something could not be read.
    pub drift: Option<u64>,
    /// Another run is walking the buckets.
    pub walk_skipped: bool,
    /// Rows that this release cannot read, with the reason.
    pub unreadable: Vec<String>,
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
            retired: self.retired,
            refunds_open: self.refunds_open,
            refunds_refused: self.refunds_refused,
            matters: self.matters.clone(),
            walk_skipped: self.walk_skipped,
            drift: self.drift.filter(|drift| *drift == 0),
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
            HolderVerdict::FinishClose | HolderVerdict::GiveBack => self.finished += 1,
            HolderVerdict::Confirm => self.confirmed += 1,
            HolderVerdict::Fail => self.failed += 1,
            HolderVerdict::Release => self.released += 1,
        }
    }
}

impl Report {
    /// Notes a step that failed. A row that this release cannot read is listed as such: trying again does not help.
    fn add_failure(&mut self, what: impl std::fmt::Display, error: &StoreError) {
        match error {
            StoreError::Unreadable { .. } => self.unreadable.push(UnreadableRow::new(what, error).to_string()),
            _ => self.errors.push(format!("{what}: {error}")),
        }
    }

    fn add_flow_failure(&mut self, what: impl std::fmt::Display, error: &FlowError) {
        match error {
            FlowError::Store(error) => self.add_failure(what, error),
            _ => self.errors.push(format!("{what}: {error}")),
        }
    }
}

/// Runs once. An error at one row, holder, item or sale does not stop the others from being examined.
pub async fn reconcile(context: Context<'_>) -> Report {
    reconcile_within(context, walk::BUDGET).await
}

/// Runs once, with this much time for the walk.
pub async fn reconcile_within(context: Context<'_>, walk_budget: Duration) -> Report {
    let mut report = Report::default();
    let outages = ProviderOutages::default();
    if let Err(error) = Box::pin(money(context, &outages, &mut report)).await {
        report.add_failure("open payments and refunds", &error);
    }
    if let Err(error) = Box::pin(walk::walk(context, &outages, walk_budget, &mut report)).await {
        report.add_failure("the walk of the sales", &error);
    }
    match Box::pin(remove_past_orders(context)).await {
        Ok(retired) => report.retired = retired,
        Err(error) => report.add_failure("orders of past sales", &error),
    }
    report.errors.extend(outages.postponed_orders());
    report
}

async fn money(context: Context<'_>, outages: &ProviderOutages, report: &mut Report) -> Result<(), StoreError> {
    let Some(lease) = KeptLease::take(context, Walk::Money).await? else { return Ok(()) };
    let done = money::resume_open_entries(context, &lease, outages, report).await;
    lease.end(context, None, None).await?;
    done
}
