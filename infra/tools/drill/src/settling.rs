//! Settling: nothing is killed any longer, and snapshots are taken until every check holds or time is up.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use domain::order::Order;
use serde_json::{Value, json};
use testkit::check::Check;
use testkit::http::User;
use testkit::progress;
use tokio::sync::Mutex;

use crate::checks::check;
use crate::cloud::Cloud;
use crate::counts::Counts;
use crate::snapshot::{self, Snapshot};
use crate::{Options, Problem};

const LOOK_EVERY: Duration = Duration::from_secs(2);

/// The counters in the report of reconcile that must be 0 when there is nothing left to repair.
const REPAIRS: [&str; 12] = [
    "sentAgain",
    "closed",
    "finished",
    "confirmed",
    "failed",
    "released",
    "settledMoney",
    "refunded",
    "refundsOpen",
    "laidOut",
    "pagesMended",
    "drift",
];

pub(crate) struct Settling<'a> {
    pub(crate) cloud: &'a Arc<Mutex<Cloud>>,
    pub(crate) operator: &'a User,
    pub(crate) sale: &'a str,
    pub(crate) counts: &'a Counts,
    pub(crate) options: &'a Options,
    pub(crate) began: Instant,
}

impl Settling<'_> {
    /// Takes snapshots until every check holds, or no failed check can still settle, or time is up. Returns the checks
    /// of the last snapshot. A check that can never hold again does not end the wait while another may still settle, so
    /// that the report describes the final state.
    pub(crate) async fn settle(&self) -> Result<Vec<Check>, Problem> {
        let until = Instant::now() + Duration::from_secs(self.options.give_up_minutes * 60);
        let (mut shown_at, accepted) = (Instant::now(), self.counts.accepted());
        loop {
            self.cloud.lock().await.is_up()?;
            let reconciled = if self.options.hurry { Some(self.reconcile().await?) } else { None };
            let snapshot = snapshot::read(self.operator, self.sale).await?;
            let mut checks = check(&snapshot, &accepted, self.options.units);
            checks.extend(self.checks_outside_the_snapshot().await?);
            if checks.iter().all(|check| check.wrong.is_empty()) {
                let last = match reconciled {
                    Some(last) => last,
                    None => self.reconcile().await?,
                };
                checks.push(last);
            }
            let waits_for: Vec<&Check> = checks.iter().filter(|check| !check.wrong.is_empty()).collect();
            if !waits_for.iter().any(|check| check.may_settle) || Instant::now() > until {
                return Ok(checks);
            }
            if shown_at.elapsed() >= progress::every() {
                let reasons: Vec<String> =
                    waits_for.iter().map(|check| format!("{} ({} left)", check.says, check.wrong.len())).collect();
                progress::show(&format!(
                    "  {:>3} s  settling, waiting for: {}",
                    self.began.elapsed().as_secs(),
                    reasons.join("; ")
                ));
                shown_at = Instant::now();
            }
            self.notify_again(&snapshot).await?;
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Checks of what the snapshot does not contain: answers, logs and processes.
    async fn checks_outside_the_snapshot(&self) -> Result<[Check; 3], Problem> {
        let cloud = self.cloud.lock().await;
        let orphans: BTreeSet<String> = cloud.orphans().into_iter().collect();
        Ok([
            Check::never("every request got an answer that a client can expect", self.counts.unexpected_events()),
            Check::never("nothing panicked", snapshot::panics(&cloud.log_file(), &cloud.data_dir())?),
            Check::in_the_end(
                "the functions of killed local clouds have ended",
                orphans.into_iter().map(|program| format!("{program} is still running")).collect(),
            ),
        ])
    }

    /// Runs reconcile. A run after the last repair finds nothing to do.
    async fn reconcile(&self) -> Result<Check, Problem> {
        let answer = self.operator.api.try_send("POST", "/_local/invoke/reconcile", &[], "").await?;
        let wrong = match answer.status {
            200 => left_to_do(&answer.body),
            // The scheduled run is in progress.
            429 => vec!["it is already running".to_owned()],
            _ => vec![format!("it failed: {}", answer.body)],
        };
        Ok(Check::in_the_end("reconcile finds nothing to do", wrong))
    }

    /// Asks the providers to repeat notices that were lost in a kill. They would do so by themselves after minutes;
    /// this saves the time. Money for a pending order needs no notice, because its deadline asks the provider.
    async fn notify_again(&self, snapshot: &Snapshot) -> Result<(), Problem> {
        for payment in unknown_payments(snapshot) {
            let path = format!("/_sandbox/payments/{payment}");
            let body = json!({ "action": "notify-again" }).to_string();
            self.operator.api.try_send("POST", &path, &[], body).await?;
        }
        Ok(())
    }
}

fn left_to_do(report: &Value) -> Vec<String> {
    let counted = REPAIRS.into_iter().filter(|name| report.get(name).and_then(Value::as_u64) != Some(0));
    let mut left: Vec<String> =
        counted.map(|name| format!("{name}: {}", report.get(name).unwrap_or(&Value::Null))).collect();
    for name in ["findings", "errors"] {
        let lines = report.get(name).and_then(Value::as_array).into_iter().flatten();
        left.extend(lines.map(|line| format!("{name}: {line}")));
    }
    left
}

/// Payments at the providers that no order refers to yet.
fn unknown_payments(snapshot: &Snapshot) -> BTreeSet<&str> {
    let knows = |order: &Order, transaction: &str| {
        order.returned.contains(transaction)
            || order.paid.as_ref().is_some_and(|paid| paid.transaction == transaction)
            || order.payment.is_some()
    };
    let unknown = |transaction: &str| !snapshot.orders.iter().any(|order| knows(order, transaction));
    let entries = snapshot.money.iter().filter(|entry| !entry.is_refund);
    let unknown_entries = entries.filter(|entry| {
        let order = snapshot.orders.iter().find(|order| order.id.as_str() == entry.order());
        order.map_or_else(|| unknown(&entry.transaction), |order| !knows(order, &entry.transaction))
    });
    unknown_entries.map(|entry| entry.payment.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repairs_and_errors_of_reconcile_are_reported() {
        let mut report: Value =
            REPAIRS.into_iter().map(|name| (name.to_owned(), json!(0))).collect::<serde_json::Map<_, _>>().into();
        report["findings"] = json!([]);
        report["holders"] = json!(7);
        assert!(left_to_do(&report).is_empty());
        report["released"] = json!(2);
        report["errors"] = json!(["no answer"]);
        assert_eq!(left_to_do(&report), ["released: 2", "errors: \"no answer\""]);
        assert_eq!(left_to_do(&json!({})).len(), REPAIRS.len(), "a missing counter is reported");
    }
}
