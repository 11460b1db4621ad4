//! The flows and handlers on in-process engines, through the real AWS SDK, with a clock that the tests advance.
//!
//! | modules | what they prove |
//! |---|---|
//! | `sale_rules`, `shop`, `payments`, `points`, `notices`, `push`, `live` | what buyers, operators and providers see |
//! | `write_conditions` | every conditional write refuses what is late, duplicated or about another order |
//! | `crashes`, `money_crashes`, `repairs`, `walks` | flows stop anywhere and run twice; reconcile repairs the rest |
//! | `late_requests`, `races`, `interleavings`, `outages`, `crowd` | lost answers, concurrency, outages, load |
//! | `costs`, `contract`, `dependencies` | write units per purchase, the API's description, layers |
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
mod handlers;
mod interleavings;
mod late_requests;
mod live;
mod money_crashes;
mod notices;
mod outages;
mod payments;
mod points;
mod push;
mod races;
mod repairs;
mod sale_rules;
mod shop;
mod walks;
mod write_conditions;
