//! order-consumer.
fn main() {}
