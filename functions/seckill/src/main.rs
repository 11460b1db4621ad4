//! seckill.
fn main() {}
