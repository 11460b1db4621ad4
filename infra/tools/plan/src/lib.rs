//! Capacity planning: what a sale will need and cost, before it takes place.
//!
//! The sale is simulated on a model of DynamoDB's partitions, Lambda's scaling, and the quotas of SQS and Scheduler.
//! The calls and writes of a purchase are counted in the code itself ([`bench::costs`]). The limits and prices of AWS
//! are in [`facts`].

pub mod bill;
pub mod design;
pub mod facts;
pub mod orders;
pub mod partitions;
pub mod plan;
pub mod reads;
mod report;
pub mod sale;
pub mod simulate;
mod stock;
#[cfg(test)]
mod template_tests;

pub use report::{charts, text};
