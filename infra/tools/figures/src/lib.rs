//! Presentation of figures: readable numbers, aligned tables, latency histograms, and charts for any browser.

mod chart;
mod latency;
mod number;
mod table;

pub use chart::{Chart, Series, page};
pub use latency::Latency;
pub use number::{dollars, float, number};
pub use table::Table;
