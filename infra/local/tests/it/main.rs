//! The local cloud's integration tests: one binary.

// `cfg(test)` tells clippy that helpers outside `#[test]` functions are tests too.
#[cfg(test)]
mod gateway;
#[cfg(test)]
mod host;
#[cfg(test)]
mod websocket;
