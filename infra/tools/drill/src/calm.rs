//! When everything has settled: nothing is killed any more, and the books are read until they are in order, or time is up.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use domain::order::Order;
use testkit::check::Check;
use testkit::http::User;
use testkit::progress;
use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::books::{self, Books};
use crate::checks::check;
use crate::cloud::Cloud;
use crate::tally::Tally;
use crate::{Options, Problem};

const LOOK_EVERY: Duration = Duration::from_secs(2);

/// What reconcile counts when there was something to do.
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

/// What is audited.
pub(crate) struct Calm<'a> {
    pub(crate) cloud: &'a Arc<Mutex<Cloud>>,
    pub(crate) operator: &'a User,
    pub(crate) sale: &'a str,
    pub(crate) tally: &'a Tally,
    pub(crate) options: &'a Options,
    pub(crate) began: Instant,
}

impl Calm<'_> {
    /// Reads the books again and again until every check holds, or time cannot help any that fails, or time is up.
    /// Gives the last reading's checks. What has failed for good does not end the wait while something else may settle:
    /// the report is of books at rest.
    pub(crate) async fn settle(&self) -> Result<Vec<Check>, Problem> {
        let until = Instant::now() + Duration::from_secs(self.options.give_up_minutes * 60);
        let (mut told, accepted) = (Instant::now(), self.tally.accepted());
        loop {
            self.cloud.lock().await.is_up()?;
            let reconciled = if self.options.hurry { Some(self.reconcile().await?) } else { None };
            let books = books::read(self.operator, self.sale).await?;
            let mut checks = check(&books, &accepted, self.options.units);
            checks.extend(self.never().await?);
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
            if told.elapsed() >= progress::every() {
                let reasons: Vec<String> =
                    waits_for.iter().map(|check| format!("{} ({} to go)", check.says, check.wrong.len())).collect();
                progress::show(&format!(
                    "  {:>3} s  settling, until {}",
                    self.began.elapsed().as_secs(),
                    reasons.join("; ")
                ));
                told = Instant::now();
            }
            self.notify_again(&books).await?;
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// What must not have happened outside of the books.
    async fn never(&self) -> Result<[Check; 3], Problem> {
        let cloud = self.cloud.lock().await;
        let orphans: BTreeSet<String> = cloud.orphans().into_iter().collect();
        Ok([
            Check::never("every request got an answer that a client can expect", self.tally.surprises()),
            Check::never("nothing panicked", books::panics(&cloud.log_file(), &cloud.data_dir())?),
            Check::in_the_end(
                "the functions of killed clouds are gone",
                orphans.into_iter().map(|program| format!("{program} still runs")).collect(),
            ),
        ])
    }

    /// Runs reconcile: a run after the last repair finds nothing to do.
    async fn reconcile(&self) -> Result<Check, Problem> {
        let answer = self.operator.api.try_send("POST", "/_local/invoke/reconcile", &[], "").await?;
        let wrong = match answer.status {
            200 => left_to_do(&answer.body),
            // Its minute has come in the same moment.
            429 => vec!["it is running just now".to_owned()],
            _ => vec![format!("it failed: {}", answer.body)],
        };
        Ok(Check::in_the_end("reconcile finds nothing to do", wrong))
    }

    /// A provider whose notice was lost in a kill comes again after minutes. It need not: it may come now as well as then. (Money for an
    /// order that still waits needs no notice: its deadline asks the provider.)
    async fn notify_again(&self, books: &Books) -> Result<(), Problem> {
        for payment in undecided(books) {
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

/// Payments whose money nobody here has heard of.
fn undecided(books: &Books) -> BTreeSet<&str> {
    let knows = |order: &Order, transaction: &str| {
        order.returned.contains(transaction)
            || order.paid.as_ref().is_some_and(|paid| paid.transaction == transaction)
            || order.payment.is_some()
    };
    let unheard = |transaction: &str| !books.orders.iter().any(|order| knows(order, transaction));
    let entries = books.money.iter().filter(|entry| !entry.is_refund);
    let is_unheard = entries.filter(|entry| {
        let order = books.orders.iter().find(|order| order.id.as_str() == entry.order());
        order.map_or_else(|| unheard(&entry.transaction), |order| !knows(order, &entry.transaction))
    });
    is_unheard.map(|entry| entry.payment.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_of_reconcile_that_did_something_is_told() {
        let mut report: Value =
            REPAIRS.into_iter().map(|name| (name.to_owned(), json!(0))).collect::<serde_json::Map<_, _>>().into();
        report["findings"] = json!([]);
        report["holders"] = json!(7);
        assert!(left_to_do(&report).is_empty());
        report["released"] = json!(2);
        report["errors"] = json!(["no answer"]);
        assert_eq!(left_to_do(&report), ["released: 2", "errors: \"no answer\""]);
        assert_eq!(left_to_do(&json!({})).len(), REPAIRS.len(), "a report that says nothing says nothing good");
    }
}
