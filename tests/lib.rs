//! Tests of the flows and of the deployed binaries: `flows/` and `end_to_end/`. What they share is `crates/testkit`.
