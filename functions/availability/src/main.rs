//! availability.
fn main() {}
