//! Every minute: finishes what a crash left between two steps, and proves the totals.
//!
//! A run does all it can before it fails: an error at one order does not stop the others from being repaired.

use domain::Timestamp;
use flows::repair::{Report, reconcile};
use lambda_runtime::Diagnostic;
use serde_json::{Value, json};
use telemetry::{Metric, Metrics};

/// Findings and errors that the answer lists; all are counted.
const MAX_LISTED: usize = 50;

pub use runtime::App;

/// Why a run is counted as failed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// Some steps failed; all others were done. The next run tries them again.
    #[error("{count} steps did not work, the first: {first}")]
    Steps { count: usize, first: String },
}

/// As Lambda reports it.
impl From<Failure> for Diagnostic {
    fn from(failure: Failure) -> Self {
        let error_type = match failure {
            Failure::Steps { .. } => "Reconcile.Steps",
        };
        Self { error_type: error_type.to_owned(), error_message: failure.to_string() }
    }
}

/// Runs once.
pub async fn handle(app: &App) -> Result<Value, Failure> {
    let now = (app.clock)();
    let report = reconcile(app.context(now)).await;
    measure(&report, now).flush(&app.metrics);
    let summary = summary(&report);
    if report.errors.is_empty() && report.findings.is_empty() && report.unreadable.is_empty() {
        tracing::info!(report = %summary, "reconciled");
    } else {
        tracing::warn!(report = %summary, "reconciled, with findings or errors");
    }
    match report.errors.first() {
        None => Ok(summary),
        Some(first) => Err(Failure::Steps { count: report.errors.len(), first: first.clone() }),
    }
}

fn measure(report: &Report, now: Timestamp) -> Metrics {
    let mut metrics = Metrics::at(now);
    // Even if 0: without data an alarm cannot tell a good state from a dead function. What is not known is not said.
    if let Some(drift) = report.drift {
        metrics.add(Metric::Drift, "", drift);
    }
    if let Some(refunds_open) = report.refunds_open {
        metrics.add(Metric::RefundsOpen, "", u64::from(refunds_open));
    }
    metrics.add(Metric::UnreadableRows, "", u64::try_from(report.unreadable.len()).unwrap_or(u64::MAX));
    metrics.add(Metric::RefundsRefused, "", u64::from(report.refunds_refused));
    for (kind, count) in &report.matters {
        metrics.add(Metric::MoneyMattersOpen, kind.as_str(), u64::from(*count));
    }
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

/// Repairs by kind.
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

fn summary(report: &Report) -> Value {
    // Every field by its name: a new one does not compile until it is reported.
    let Report {
        sales,
        holders,
        sent_again,
        waiting,
        closed,
        finished,
        confirmed,
        failed,
        released,
        settled_money,
        refunded,
        refunds_open,
        refunds_refused,
        matters,
        laid_out,
        pages_mended,
        settled,
        retired,
        drift,
        walk_skipped,
        unreadable,
        findings,
        errors,
    } = report;
    json!({
        "sales": sales,
        "holders": holders,
        "sentAgain": sent_again,
        "waiting": waiting,
        "closed": closed,
        "finished": finished,
        "confirmed": confirmed,
        "failed": failed,
        "released": released,
        "settledMoney": settled_money,
        "refunded": refunded,
        "refundsOpen": refunds_open,
        "refundsRefused": refunds_refused,
        "matters": matters,
        "laidOut": laid_out,
        "pagesMended": pages_mended,
        "settled": settled,
        "retired": retired,
        "drift": drift,
        "walkSkipped": walk_skipped,
        "unreadable": first_of(unreadable),
        "findings": first_of(findings),
        "errors": first_of(errors),
    })
}

fn first_of(lines: &[String]) -> Vec<String> {
    let mut listed: Vec<String> = lines.iter().take(MAX_LISTED).cloned().collect();
    if lines.len() > MAX_LISTED {
        listed.push(format!("and {} more", lines.len() - MAX_LISTED));
    }
    listed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(report: &Report) -> Vec<Value> {
        let metrics = measure(report, Timestamp::UNIX_EPOCH);
        metrics.lines().iter().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn zero_drift_is_reported_too() {
        let quiet =
            lines(&Report { sales: 3, holders: 12, drift: Some(0), refunds_open: Some(0), ..Report::default() });
        assert_eq!(quiet.len(), 1);
        assert_eq!((&quiet[0]["Drift"], &quiet[0]["ReconcileErrors"]), (&json!(0), &json!(0)));
        assert_eq!((&quiet[0]["RefundsOpen"], &quiet[0]["Refunds"]), (&json!(0), &Value::Null));
        assert_eq!(quiet[0]["ReconcileRepairs"], Value::Null);
    }

    #[test]
    fn what_is_not_known_is_not_published() {
        let partial = lines(&Report { unreadable: vec!["order x: version 2".into()], ..Report::default() });
        assert_eq!((&partial[0]["Drift"], &partial[0]["RefundsOpen"]), (&Value::Null, &Value::Null));
        assert_eq!(partial[0]["UnreadableRows"], json!(1));
    }

    #[test]
    fn refunds_are_counted_done_and_open() {
        let refunds = lines(&Report { refunded: 2, refunds_open: Some(3), ..Report::default() });
        assert_eq!((&refunds[0]["Refunds"], &refunds[0]["RefundsOpen"]), (&json!(2), &json!(3)));
        assert_eq!((&refunds[0]["Kind"], &refunds[0]["ReconcileRepairs"]), (&json!("REFUNDED"), &json!(2)));
    }

    #[test]
    fn repairs_are_counted_by_kind() {
        let busy = lines(&Report {
            sent_again: 2,
            released: 1,
            drift: Some(5),
            errors: vec!["x".into()],
            ..Report::default()
        });
        let kinds: Vec<_> = busy.iter().map(|line| (line["Kind"].clone(), line["ReconcileRepairs"].clone())).collect();
        assert_eq!(kinds, [(json!("SENT_AGAIN"), json!(2)), (json!("RELEASED"), json!(1))]);
        assert_eq!((&busy[0]["Drift"], &busy[0]["ReconcileErrors"]), (&json!(5), &json!(1)));
    }

    #[test]
    fn a_long_list_is_shortened() {
        let findings: Vec<String> = (0..60).map(|n| format!("bucket {n} does not add up")).collect();
        let summary = summary(&Report { sales: 1, findings, ..Report::default() });
        assert_eq!(summary["findings"].as_array().map(Vec::len), Some(51));
        assert_eq!(summary["findings"][50], "and 10 more");
        assert_eq!((&summary["sales"], &summary["errors"]), (&json!(1), &json!([])));
    }
}
