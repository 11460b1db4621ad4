//! The flows: what happens to a purchase, an order, a payment, a sale and its stock.
//!
//! | module | what it holds |
//! |---|---|
//! | [`buy`] | from the press of the button to the order: limits, choice of a bucket, claim, hold, order |
//! | [`pay`] | from the order to its end: start a payment, settle money that arrived, close, refund |
//! | [`finish`] | the steps that follow once an order is closed, paid or refunded |
//! | [`sale`] | what an operator sets up: sales, their stock and restocks; the stream of stock changes |
//! | [`view`] | what buyers and operators see: availability, orders, live figures, the audit |
//! | [`repair`] | reconcile: finishes what a crash left between two steps, and proves the totals |
//!
//! One file holds one flow. A flow is a list of steps; each step is idempotent and guarded by a condition, and
//! the module's documentation says what a crash after each step leaves behind and what repairs it. Flows call
//! [`finish`]; `finish` calls no flow.
//!
//! Nothing here knows HTTP or Lambda. Time and random numbers are arguments. A flow that may talk to a payment
//! provider takes a [`Context`]; every other flow takes the store and, if it needs it, the time.

pub mod buy;
mod cache;
mod context;
mod error;
pub mod finish;
pub mod pay;
pub mod repair;
pub mod sale;
pub mod view;

pub use context::Context;
pub use error::FlowError;

/// How often a flow re-reads a row and tries again because another request changed it in between.
pub(crate) const CAS_ATTEMPTS: u32 = 5;
