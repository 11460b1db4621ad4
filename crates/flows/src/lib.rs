//! One file for each thing that happens. Each flow is a list of steps; every step is idempotent and guarded by a condition,
//! and a comment says what a crash after it leaves and who repairs it.
//!
//! Nothing here knows HTTP or Lambda. Time and random numbers are arguments.

pub mod audit;
pub mod availability;
pub mod bucket_picker;
mod cache;
pub mod close;
mod close_at_provider;
pub mod just_now;
pub mod limits;
pub mod live;
pub mod orders;
pub mod payment_closed;
pub mod place_order;
pub mod purchase;
pub mod reconcile;
pub mod refund;
pub mod sales;
pub mod set_up;
pub mod settle;
pub mod start_payment;
pub mod stock;
pub mod stock_moved;
mod undone;

pub use undone::FlowError;
