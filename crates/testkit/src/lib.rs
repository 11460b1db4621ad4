//! What the tests share: a world with the real template's tables and queues on in-process engines, the real SDK in
//! between, and a clock that the test drives.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::as_conversions,
    clippy::panic
)]

pub mod books;
pub mod check;
pub mod contract;
pub mod dice;
pub mod http;
pub mod lambda_request;
pub mod inspection;
pub mod permissions;
pub mod processes;
pub mod progress;
pub mod second_engine;
pub mod stepping;
pub mod paying;
pub mod scheduler;
pub mod world;
