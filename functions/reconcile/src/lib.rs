//! Every minute: whatever a crash left between two steps is finished, and the totals are proved.
//!
//! A run does all it can before it fails: an error at one order does not keep the others from being looked at.

use std::sync::Arc;

use domain::Timestamp;
use flows::reconcile::{Report, reconcile};
use lambda_runtime::Diagnostic;
use providers::Providers;
use serde_json::{Value, json};
use store::{Store, StoreError};
use telemetry::{Metric, Metrics, Sink};

/// Findings and errors that are told in words; all are counted.
const TOLD: usize = 50;

/// What time it is.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// What a running function needs.
pub struct App {
    /// The store.
    pub store: Store,
    /// The payment providers.
    pub providers: Providers,
    /// What time it is.
    pub clock: Clock,
    /// Where metrics go.
    pub metrics: Sink,
}

impl App {
    /// A function that has just started; its metrics go to stdout.
    pub fn new(store: Store, providers: Providers, clock: Clock) -> Self {
        Self { store, providers, clock, metrics: Sink::stdout() }
    }
}

/// Why a run is counted as failed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The sales to look after could not be listed: nothing was done.
    #[error("nothing was reconciled: {0}")]
    Nothing(StoreError),
    /// Some steps did not work; all others were done. The next run tries them again.
    #[error("{count} steps did not work, the first: {first}")]
    Steps {
        /// How many.
        count: usize,
        /// The first, in words.
        first: String,
    },
}

/// As Lambda reports it.
impl From<Failure> for Diagnostic {
    fn from(failure: Failure) -> Self {
        let error_type = match failure {
            Failure::Nothing(_) => "Reconcile.Nothing",
            Failure::Steps { .. } => "Reconcile.Steps",
        };
        Self { error_type: error_type.to_owned(), error_message: failure.to_string() }
    }
}

/// Runs once.
pub async fn handle(app: &App) -> Result<Value, Failure> {
    let now = (app.clock)();
    let report = reconcile(&app.store, &app.providers, now).await.map_err(Failure::Nothing)?;
    measure(&report, now).flush(&app.metrics);
    let told = tell(&report);
    if report.errors.is_empty() && report.findings.is_empty() {
        tracing::info!(report = %told, "reconciled");
    } else {
        tracing::warn!(report = %told, "reconciled, and not all is as it should be");
    }
    match report.errors.first() {
        None => Ok(told),
        Some(first) => Err(Failure::Steps { count: report.errors.len(), first: first.clone() }),
    }
}

fn measure(report: &Report, now: Timestamp) -> Metrics {
    let mut metrics = Metrics::at(now);
    // Always, also 0: an alarm that hears nothing cannot tell a good state from a dead function.
    metrics.add(Metric::Drift, "", report.drift);
    metrics.add(Metric::RefundsOpen, "", u64::from(report.refunds_open));
    metrics.add(Metric::ReconcileErrors, "", u64::try_from(report.errors.len()).unwrap_or(u64::MAX));
    if report.refunded > 0 {
        metrics.add(Metric::Refunds, "", u64::from(report.refunded));
    }
    for (kind, count) in repairs(report) {
        if count > 0 {
            metrics.add(Metric::ReconcileRepairs, kind, u64::from(count));
        }
    }
    metrics
}

/// What was put right, by kind.
pub fn repairs(report: &Report) -> [(&'static str, u32); 10] {
    [
        ("SENT_AGAIN", report.sent_again),
        ("CLOSED", report.closed),
        ("FINISHED", report.finished),
        ("CONFIRMED", report.confirmed),
        ("FAILED", report.failed),
        ("RELEASED", report.released),
        ("SETTLED", report.settled_money),
        ("REFUNDED", report.refunded),
        ("LAID_OUT", report.laid_out),
        ("PAGES_MENDED", report.pages_mended),
    ]
}

fn tell(report: &Report) -> Value {
    // Every field by its name: a new one does not compile until it is told.
    let Report {
        sales,
        holders,
        sent_again,
        closed,
        finished,
        confirmed,
        failed,
        released,
        settled_money,
        refunded,
        refunds_open,
        laid_out,
        pages_mended,
        settled,
        drift,
        findings,
        errors,
    } = report;
    json!({
        "sales": sales,
        "holders": holders,
        "sentAgain": sent_again,
        "closed": closed,
        "finished": finished,
        "confirmed": confirmed,
        "failed": failed,
        "released": released,
        "settledMoney": settled_money,
        "refunded": refunded,
        "refundsOpen": refunds_open,
        "laidOut": laid_out,
        "pagesMended": pages_mended,
        "settled": settled,
        "drift": drift,
        "findings": first_of(findings),
        "errors": first_of(errors),
    })
}

fn first_of(lines: &[String]) -> Vec<String> {
    let mut told: Vec<String> = lines.iter().take(TOLD).cloned().collect();
    if lines.len() > TOLD {
        told.push(format!("and {} more", lines.len() - TOLD));
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(report: &Report) -> Vec<Value> {
        let metrics = measure(report, Timestamp::UNIX_EPOCH);
        metrics.lines().iter().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn no_drift_is_told_as_well() {
        let quiet = lines(&Report { sales: 3, holders: 12, ..Report::default() });
        assert_eq!(quiet.len(), 1);
        assert_eq!((&quiet[0]["Drift"], &quiet[0]["ReconcileErrors"]), (&json!(0), &json!(0)));
        assert_eq!((&quiet[0]["RefundsOpen"], &quiet[0]["Refunds"]), (&json!(0), &Value::Null));
        assert_eq!(quiet[0]["ReconcileRepairs"], Value::Null);
    }

    #[test]
    fn refunds_are_counted_done_and_open() {
        let refunds = lines(&Report { refunded: 2, refunds_open: 3, ..Report::default() });
        assert_eq!((&refunds[0]["Refunds"], &refunds[0]["RefundsOpen"]), (&json!(2), &json!(3)));
        assert_eq!((&refunds[0]["Kind"], &refunds[0]["ReconcileRepairs"]), (&json!("REFUNDED"), &json!(2)));
    }

    #[test]
    fn repairs_are_counted_by_kind() {
        let busy =
            lines(&Report { sent_again: 2, released: 1, drift: 5, errors: vec!["x".into()], ..Report::default() });
        let kinds: Vec<_> = busy.iter().map(|line| (line["Kind"].clone(), line["ReconcileRepairs"].clone())).collect();
        assert_eq!(kinds, [(json!("SENT_AGAIN"), json!(2)), (json!("RELEASED"), json!(1))]);
        assert_eq!((&busy[0]["Drift"], &busy[0]["ReconcileErrors"]), (&json!(5), &json!(1)));
    }

    #[test]
    fn a_long_list_is_told_in_part() {
        let findings: Vec<String> = (0..60).map(|n| format!("bucket {n} does not add up")).collect();
        let told = tell(&Report { sales: 1, findings, ..Report::default() });
        assert_eq!(told["findings"].as_array().map(Vec::len), Some(51));
        assert_eq!(told["findings"][50], "and 10 more");
        assert_eq!((&told["sales"], &told["errors"]), (&json!(1), &json!([])));
    }
}
