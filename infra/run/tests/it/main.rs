//! The whole shop on one machine: its program, the demo sale, and payments through the sandbox.

// `cfg(test)` tells clippy that helpers outside `#[test]` functions are tests too.
#[cfg(test)]
mod paying;
#[cfg(test)]
mod preflight;
#[cfg(test)]
mod run;
#[cfg(test)]
mod template;
