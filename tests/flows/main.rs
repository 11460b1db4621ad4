//! The flows and handlers on in-process engines, through the real AWS SDK, with a clock that the tests advance.
//!
//! | modules | what they prove |
//! |---|---|
//! | `sale_rules`, `shop`, `payments`, `points`, `notices`, `push`, `live` | what buyers, operators and providers see |
//! | `money_edges` | what providers and people really do: failed refunds, refunds in a console, disputes |
//! | `write_conditions` | every conditional write refuses what is late, duplicated or about another order |
//! | `crashes`, `money_crashes`, `repairs`, `walks` | flows stop anywhere and run twice; reconcile repairs the rest |
//! | `late_requests`, `races`, `interleavings`, `outages`, `crowd` | lost answers, concurrency, outages, load |
//! | `page_copies`, `scattered` | pages at ten thousand running functions; units that no bucket has together |
//! | `retention` | what is removed after its time, and what never is |
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
mod money_edges;
mod notices;
mod outages;
mod page_copies;
mod payments;
mod points;
mod push;
mod races;
mod repairs;
mod retention;
mod sale_rules;
mod scattered;
mod shop;
mod shop_data;
mod walks;
mod write_conditions;
