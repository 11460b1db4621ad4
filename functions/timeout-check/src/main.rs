//! timeout-check.
fn main() {}
