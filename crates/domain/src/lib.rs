//! The rules of a flash sale, pure: no AWS, no clock, no randomness, no input or output.
//!
//! Everything here decides; `flows` carries out what was decided. Time and random numbers are arguments.

pub mod availability;
pub mod bucket;
pub mod claim;
pub mod ids;
pub mod message;
pub mod money;
pub mod order;
pub mod payment;
pub mod repair;
pub mod sale;
pub mod ticket;

pub use jiff::Timestamp;
