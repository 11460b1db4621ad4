//! Figures for people: numbers that can be read, tables that line up, times in a histogram, and charts that any browser shows.

mod chart;
mod latency;
mod number;
mod table;

pub use chart::{Chart, Series, page};
pub use latency::Latency;
pub use number::{dollars, float, number};
pub use table::Table;
