//! `check-permissions`: after the tests, whether every permission that the template grants a function was used by it. (That nothing else was asked for is
//! checked while they run: it is refused.)
#![allow(missing_docs, clippy::expect_used, clippy::unwrap_used)]

use std::process::ExitCode;

use local_cloud::iam::Unused;
use seckill_tests::permissions::{POLICIES, kept};

/// Needed in a race that no test brings about yet: another request closes the order between timeout-check's question to the provider and the answer that it was paid, so
/// that timeout-check has to look for units to revive it. A message whose purchase has lost its claim, whose units order-consumer returns. And a WebSocket that
/// opens for a buyer whose press died: push looks whether it holds anything, as `GET /orders` does.
const NOT_PROVOKED: [(&str, &str, &str); 6] = [
    ("PushFunction", "dynamodb:BatchGetItem", "StockTable"),
    ("TimeoutCheckFunction", "dynamodb:BatchGetItem", "StockTable"),
    ("TimeoutCheckFunction", "dynamodb:GetItem", "LedgerTable"),
    ("TimeoutCheckFunction", "dynamodb:Query", "SalesTable"),
    ("TimeoutCheckFunction", "dynamodb:GetItem", "AvailabilityTable"),
    ("OrderConsumerFunction", "dynamodb:UpdateItem", "StockTable"),
];

fn is_known(grant: &Unused) -> bool {
    NOT_PROVOKED.iter().any(|(function, action, table)| {
        grant.function.ends_with(function) && grant.action == *action && grant.resource.ends_with(table)
    })
}

fn main() -> ExitCode {
    let (runs, used) = kept();
    if runs == 0 {
        eprintln!(
            "check-permissions: no test has kept anything: run them with PERMISSIONS_SEEN set, as `make test` does"
        );
        return ExitCode::FAILURE;
    }
    let (known, unused): (Vec<_>, Vec<_>) = POLICIES.unused(&used).into_iter().partition(is_known);
    for grant in &known {
        println!("not provoked by any test yet: {grant}");
    }
    for grant in &unused {
        eprintln!("{grant}");
    }
    if !unused.is_empty() {
        eprintln!("{} grants are used by nothing: remove them, or add the test that needs them", unused.len());
        return ExitCode::FAILURE;
    }
    println!(
        "permissions: {} grants seen in {runs} runs, {} not provoked; every other grant of the template is used, and nothing else was allowed",
        used.len(),
        known.len()
    );
    ExitCode::SUCCESS
}
