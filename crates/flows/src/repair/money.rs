//! Payments and refunds that the log marks as open.
//!
//! Each provider has a time budget of its own and is asked beside the others: one that does not answer delays only
//! its own entries. After several unanswered calls the rest of them wait for the next run.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use domain::payment::{Method, OpenEntry};
use domain::repair::GRACE;
use futures::future::join_all;
use store::{OpenEntries, StoreError};

use super::Report;
use super::outages::ProviderOutages;
use super::walk::KeptLease;
use crate::Context;
use crate::pay::refund::{self, Progress};
use crate::pay::settle::{Settled, settle};

/// Time in one run for the open entries of one provider. With the walk's budget after it, less than the function's
/// timeout.
const BUDGET: Duration = Duration::from_secs(60);

/// What was done about one provider's entries.
#[derive(Default)]
struct Done {
    report: Report,
    refunds_open: u32,
}

/// Settles open payments and resumes open refunds. What is not reached within the budget waits for the next run;
/// what was tried without effect in this run is not due in the next one, so every entry gets its turn.
pub(super) async fn resume_open_entries(
    context: Context<'_>,
    lease: &KeptLease,
    outages: &ProviderOutages,
    report: &mut Report,
) -> Result<(), StoreError> {
    let OpenEntries { entries, unreadable_refunds } = context.store.open_entries().await?;
    report.unreadable.extend(entries.unreadable.iter().map(ToString::to_string));
    let mut by_method: BTreeMap<Method, Vec<OpenEntry>> = BTreeMap::new();
    for entry in entries.read {
        let method = match &entry {
            OpenEntry::Pay(entry) => entry.with.method,
            OpenEntry::Refund(entry) => entry.with.method,
        };
        by_method.entry(method).or_default().push(entry);
    }
    let until = Instant::now() + BUDGET;
    let each = by_method.into_iter().map(|(method, entries)| resume(context, lease, outages, method, entries, until));
    let mut refunds_open = unreadable_refunds;
    for done in join_all(each).await {
        refunds_open += done.refunds_open;
        report.settled_money += done.report.settled_money;
        report.refunded += done.report.refunded;
        report.findings.extend(done.report.findings);
        report.errors.extend(done.report.errors);
        report.unreadable.extend(done.report.unreadable);
    }
    report.refunds_open = Some(refunds_open);
    Ok(())
}

/// Works through the open entries of one provider.
async fn resume(
    context: Context<'_>,
    lease: &KeptLease,
    outages: &ProviderOutages,
    method: Method,
    entries: Vec<OpenEntry>,
    until: Instant,
) -> Done {
    let now = context.now;
    let mut done = Done::default();
    let mut is_over = false;
    for entry in entries {
        if !is_over {
            is_over = Instant::now() > until || !lease.keep(context).await.unwrap_or(false);
            if is_over {
                done.report.errors.push(format!("{method}: not all open entries could be looked at in this run"));
            }
        }
        let Done { report, refunds_open } = &mut done;
        match entry {
            // A refund that is not reached in this run is open all the same.
            OpenEntry::Refund(_) if is_over => *refunds_open += 1,
            OpenEntry::Pay(_) if is_over => {}
            OpenEntry::Pay(entry) if now.duration_since(entry.at) < GRACE => {}
            OpenEntry::Refund(entry) if !entry.is_due(now) => *refunds_open += 1,
            entry if !outages.should_ask_method(method) => {
                *refunds_open += u32::from(matches!(entry, OpenEntry::Refund(_)));
            }
            OpenEntry::Pay(entry) => match settle(context, &entry.arrived()).await {
                Ok(Settled::Wrong(_) | Settled::Unknown) => {
                    let transaction = &entry.with.transaction;
                    report.findings.push(format!("order {}: transaction {transaction} is for nothing", entry.order));
                }
                Ok(_) => report.settled_money += 1,
                Err(error) => {
                    outages.record(&error);
                    report.add_flow_failure(format!("order {}", entry.order), &error);
                }
            },
            OpenEntry::Refund(entry) => match refund::resume(context, &entry).await {
                Ok(Progress::Done | Progress::AlreadyDone) => report.refunded += 1,
                Ok(Progress::Open) => *refunds_open += 1,
                Err(error) => {
                    *refunds_open += 1;
                    outages.record(&error);
                    report.add_flow_failure(format!("refund of order {}", entry.order), &error);
                }
            },
        }
    }
    done
}
