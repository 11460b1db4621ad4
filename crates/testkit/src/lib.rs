//! What the tests, the simulation and the tools share.
//!
//! [`world::World`] is the centre: the template's tables and queues on in-process engines, reached through the real
//! AWS SDK, with a clock that the test advances. The other modules add to it:
//!
//! | module | what it offers |
//! |---|---|
//! | [`paying`] | buyers who pay in the providers' sandbox, and the delivery of its notices |
//! | [`inspection`], [`records`] | reading the tables, and checking that all records agree with each other |
//! | [`stepping`] | runs a flow twice, and stops it before and after each of its calls |
//! | [`scheduler`] | holds back every call of every actor until a test lets it proceed |
//! | [`lambda_request`], [`http`], [`contract`] | requests to handlers and to a running API, and its description |
//! | [`permissions`], [`second_engine`] | which IAM grants were used; a second DynamoDB engine to compare with |
//! | [`rng`], [`check`], [`progress`], [`processes`] | seeded random numbers, reports, and processes, for the tools |
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::as_conversions,
    clippy::panic
)]

pub mod check;
pub mod contract;
pub mod http;
pub mod inspection;
pub mod lambda_request;
pub mod paying;
pub mod permissions;
pub mod processes;
pub mod progress;
pub mod records;
pub mod rng;
pub mod scheduler;
pub mod second_engine;
pub mod stepping;
pub mod world;
