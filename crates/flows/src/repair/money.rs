//! Payments and refunds that the log marks as open.

use std::time::Instant;

use domain::payment::OpenEntry;
use domain::repair::GRACE;
use store::StoreError;

use super::Report;
use crate::Context;
use crate::pay::refund::{self, Progress};
use crate::pay::settle::{Settled, settle};

/// Settles open payments and resumes open refunds. What is not reached before `until` waits for the next run;
/// what was tried without effect in this run is not due in the next one, so every entry gets its turn.
pub(super) async fn resume_open_entries(
    context: Context<'_>,
    until: Instant,
    report: &mut Report,
) -> Result<(), StoreError> {
    let now = context.now;
    for entry in context.store.open_entries().await? {
        if Instant::now() > until {
            report.errors.push("not all open payments and refunds could be looked at in this run".to_owned());
            break;
        }
        match entry {
            OpenEntry::Pay(entry) if now.duration_since(entry.at) < GRACE => {}
            OpenEntry::Pay(entry) => match settle(context, &entry.arrived()).await {
                Ok(Settled::Wrong(_) | Settled::Unknown) => {
                    let transaction = &entry.with.transaction;
                    report.findings.push(format!("order {}: transaction {transaction} is for nothing", entry.order));
                }
                Ok(_) => report.settled_money += 1,
                Err(error) => report.errors.push(format!("order {}: {error}", entry.order)),
            },
            // A person's work.
            OpenEntry::Matter(matter) => report.count_matter(matter.kind),
            OpenEntry::Refund(entry) if !entry.is_due(now) => {
                report.refunds_open += 1;
                report.refunds_refused += u32::from(entry.refused);
            }
            OpenEntry::Refund(entry) => match refund::resume(context, &entry).await {
                Ok(Progress::Done | Progress::AlreadyDone) => report.refunded += 1,
                Ok(Progress::Open) => report.refunds_open += 1,
                Err(error) => {
                    report.refunds_open += 1;
                    report.errors.push(format!("refund of order {}: {error}", entry.order));
                }
            },
        }
    }
    Ok(())
}
