//! The flows on in-process engines, through the real SDK, on a driven clock.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::as_conversions,
    clippy::panic
)]

mod contract;
mod costs;
mod crashes;
mod crowd;
mod dependencies;
mod door;
mod edges;
mod guards;
mod interleavings;
mod late;
mod live;
mod money_crashes;
mod notices;
mod outages;
mod payments;
mod points;
mod push;
mod races;
mod repairs;
mod shop;
