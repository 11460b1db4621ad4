//! What an operator does from a terminal, against the local cloud or a deployed stage.

pub mod dead_letters;
pub mod target;
