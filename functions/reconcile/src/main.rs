//! reconcile.
fn main() {}
