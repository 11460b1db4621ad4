//! Whole lives of a sale, one seed each: the real flows through the real SDK on in-process engines, on one thread and a driven clock,
//! where every choice comes from the seed: who acts next, which call is carried out next, and what befalls it.
//!
//! Checked after every write: the safety properties ([`check`]). Then faults stop, time passes and queues drain: everything accepted is known,
//! nothing is held by nobody, and everything can still be sold.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::as_conversions,
    clippy::panic
)]

pub mod actors;
pub mod check;
pub mod dice;
pub mod run;
