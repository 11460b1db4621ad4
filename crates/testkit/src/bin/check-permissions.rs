//! `check-permissions`: after the tests, whether every permission that the template grants a function was used by it. (That nothing else was asked for is
//! checked while they run: it is refused.) The template is read with its own defaults, so grants behind a condition are left out, and so are the roles of
//! services.
#![allow(missing_docs, clippy::expect_used, clippy::unwrap_used)]

use std::process::ExitCode;

use testkit::permissions::{POLICIES, kept};

fn main() -> ExitCode {
    let (runs, used) = kept();
    if runs == 0 {
        eprintln!(
            "check-permissions: no test has kept anything: run them with PERMISSIONS_SEEN set, as `make test` does"
        );
        return ExitCode::FAILURE;
    }
    let unused = POLICIES.unused(&used);
    for grant in &unused {
        eprintln!("{grant}");
    }
    if !unused.is_empty() {
        eprintln!("{} grants are used by nothing: remove them, or add the test that needs them", unused.len());
        return ExitCode::FAILURE;
    }
    println!(
        "permissions: {} grants seen in {runs} runs; every unconditional grant of a function is used, and nothing else was allowed",
        used.len()
    );
    ExitCode::SUCCESS
}
