//! The deployed binaries on the local cloud, as template.yaml describes them, over HTTP.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::as_conversions,
    clippy::panic
)]

mod bad_input;
mod console;
mod crowd;
mod in_process;
mod logs;
mod operator;
mod payments;
mod push;
mod sale_lifecycle;
mod shop;
