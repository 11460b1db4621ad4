//! What every deployed function shares: the clock, random bits, settings from the environment, and the clients
//! made from them.
//!
//! Handlers take time and randomness from here, so tests and the simulation can replace both.

mod app;
mod environment;
mod salt;

use std::sync::Arc;

use domain::Timestamp;

pub use app::App;
pub use environment::{Environment, StartError, start};
pub use salt::Salt;

/// Tells the time.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Makes random bits.
pub type Random = Arc<dyn Fn() -> u32 + Send + Sync>;

/// The machine's clock.
#[expect(clippy::disallowed_methods, reason = "the one place where a deployed function reads the machine's clock")]
pub fn system_clock() -> Clock {
    Arc::new(jiff::Timestamp::now)
}

/// The machine's random bits.
///
/// A machine always has them. Without them `seckill` would try one bucket for all buyers, and `admin` would give
/// two sales of one millisecond the same id, of which the second is refused: slower, and still correct.
pub fn system_random() -> Random {
    Arc::new(|| getrandom::u32().unwrap_or_default())
}
