//! Operator commands for the terminal, for the local cloud or a deployed stage.

pub mod api;
pub mod audit;
pub mod dead_letters;
pub mod target;
