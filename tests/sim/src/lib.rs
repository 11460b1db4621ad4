//! Whole lives of a sale, one seed each: the deployed handlers' code through the real SDK on in-process engines, on one thread and a driven
//! clock, where every choice comes from the seed: who acts next, which call is carried out next, and what befalls it.
//!
//! Checked after every write: the safety properties ([`check`]). Then faults stop, time passes and queues drain ([`calm`]): everything accepted
//! is known, nothing is held by nobody, the books agree with the providers', and everything can still be sold.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::as_conversions,
    clippy::panic
)]

pub mod actors;
pub mod answers;
pub mod begin;
pub mod calm;
pub mod check;
pub mod choice;
pub mod coverage;
pub mod draw;
pub mod functions;
pub mod lives;
pub mod model;
pub mod run;
pub mod shrink;
pub mod planted_bugs;
pub mod weather;

pub use testkit::dice;

/// Runs one thing to its end on a runtime of its own. Unconstrained: a run is one long poll, and tokio would stop serving it after a while to be
/// fair to others.
pub fn alone<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(tokio::task::unconstrained(future))
}
