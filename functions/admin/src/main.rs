//! admin.
fn main() {}
