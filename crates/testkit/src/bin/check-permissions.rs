//! `check-permissions`: checks, after the tests, that every permission that the template grants to a function was
//! used by it. (While the tests run, every call without a permission is refused.) The template is read with its
//! default parameters, so grants behind a condition are left out, and so are the roles of services.
#![allow(missing_docs, clippy::expect_used, clippy::unwrap_used)]

use std::process::ExitCode;

use testkit::permissions::{POLICIES, kept};

fn main() -> ExitCode {
    let (runs, used) = kept();
    if runs == 0 {
        eprintln!(
            "check-permissions: no test wrote down its permissions: run the tests with PERMISSIONS_SEEN set, \
             as `make test` does"
        );
        return ExitCode::FAILURE;
    }
    let unused = POLICIES.unused(&used);
    for grant in &unused {
        eprintln!("{grant}");
    }
    if !unused.is_empty() {
        eprintln!("{} grants were not used by any test: remove them, or add a test that needs them", unused.len());
        return ExitCode::FAILURE;
    }
    println!(
        "permissions: {} grants used in {runs} runs; every unconditional grant of a function was used, \
         and nothing else was allowed",
        used.len()
    );
    ExitCode::SUCCESS
}
