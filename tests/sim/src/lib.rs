//! A deterministic simulation of whole sales. Each seed is one sale: the deployed handlers run through the real AWS
//! SDK on in-process engines, on one thread and with a driven clock. The seed decides everything else: who acts
//! next, which call proceeds next, and which fault it meets.
//!
//! After every write the safety properties are checked ([`check`]). At the end faults stop, time passes and queues
//! drain ([`settling`]). Then every accepted purchase has an order, no units are held without one, all records agree
//! with the providers, and every unit can still be sold.
//!
//! `README.md` explains how to read, replay and extend it.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::as_conversions,
    clippy::panic
)]

pub mod actions;
pub mod actors;
pub mod answers;
pub mod check;
pub mod choice;
pub mod conditions;
pub mod coverage;
pub mod draw;
pub mod functions;
pub mod planted_bugs;
pub mod run;
pub mod scenarios;
pub mod settling;
pub mod shrink;

pub use testkit::rng;

/// A thread for runs. An unoptimised build keeps the futures of a whole run on the stack, which exceeds the usual 2 MB.
pub fn thread() -> std::thread::Builder {
    std::thread::Builder::new().stack_size(8 << 20)
}

/// Runs a future to its end on a runtime of its own. It is unconstrained because a run is one long poll, which
/// tokio's cooperative scheduling would otherwise interrupt.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(tokio::task::unconstrained(future))
}
