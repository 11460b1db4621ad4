//! Log lines of this program: those of a function go to its own log, as JSON; the others to standard error.

use local_cloud::in_process::{LogWriter, in_function};
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::{LevelFilter, Targets, dynamic_filter_fn};
use tracing_subscriber::layer::SubscriberExt as _;

/// Starts logging. `RUST_LOG` says what is logged; without it, functions log what they log when they are deployed, and
/// the program itself logs warnings. A second call changes nothing.
pub fn init() {
    let levels = std::env::var("RUST_LOG").ok().and_then(|levels| levels.parse::<Targets>().ok());
    let own = levels.unwrap_or_else(|| Targets::new().with_default(LevelFilter::WARN));
    let own_lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_target(false)
        .with_filter(own)
        .with_filter(dynamic_filter_fn(|_, _| !in_function()));
    let functions = telemetry::layer(|| LogWriter)
        .with_filter(telemetry::filter_from_env())
        .with_filter(dynamic_filter_fn(|_, _| in_function()));
    let subscriber = tracing_subscriber::registry().with(functions).with(own_lines);
    // Only the first subscriber of a process takes effect.
    let _ = tracing::subscriber::set_global_default(subscriber);
}
