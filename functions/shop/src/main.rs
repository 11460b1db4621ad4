//! shop.
fn main() {}
