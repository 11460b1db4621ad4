//! What a sale will need and cost, before it takes place.
//!
//! The sale is played against a model of DynamoDB's partitions, Lambda's scaling, and the quotas of SQS and Scheduler. What a purchase
//! calls and writes is counted in the code itself ([`bench::costs`]); AWS's limits and prices are in [`facts`].

pub mod bill;
pub mod design;
pub mod facts;
pub mod orders;
pub mod partitions;
pub mod plan;
mod report;
pub mod sale;
mod shelf;
pub mod simulate;
#[cfg(test)]
mod template_tests;

pub use report::{charts, text};
