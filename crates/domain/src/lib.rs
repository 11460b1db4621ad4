//! The rules of a flash sale as pure functions: no AWS, no clock, no randomness, no I/O.
//!
//! This crate decides; `flows` carries the decisions out. Time and random numbers are arguments, so every rule
//! gives the same answer for the same input.
//!
//! Start with [`order::step`], the life of an order, and [`repair::holder_verdict`], which repairs what a crash leaves
//! behind.
//!
//! | module | what it decides |
//! |---|---|
//! | [`sale`] | when a sale is open, and what an operator may do to it |
//! | [`bucket`] | how the units of an item are split into buckets, and what one change of a bucket means |
//! | [`availability`] | which buckets still have free units |
//! | [`claim`] | whether a buyer may start a purchase, resumes one, or already has a live order |
//! | [`mod@line`] | whose turn it is in the waiting line of a sale, and how far the line moves |
//! | [`order`] | the life of an order |
//! | [`payment`] | whether money that arrived pays for its order or goes back |
//! | [`repair`] | what to do about units that are held for longer than they should be |
//! | [`retention`] | when the records of an order may be removed |
//! | [`shop_data`] | what a shop attaches to a purchase |
//! | [`ids`], [`money`] | identifiers and amounts that are valid once parsed |
//! | [`message`], [`ticket`] | what travels between functions, and what opens a WebSocket |

pub mod availability;
pub mod bucket;
pub mod claim;
pub mod ids;
pub mod line;
pub mod message;
pub mod money;
pub mod order;
pub mod payment;
pub mod repair;
pub mod retention;
pub mod sale;
pub mod shop_data;
pub mod ticket;

pub use jiff::Timestamp;
