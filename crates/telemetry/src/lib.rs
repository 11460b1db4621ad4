//! Logs and metrics: one JSON object a line on stdout, which CloudWatch Logs keeps and searches.
//!
//! One vocabulary of fields, so that a query finds everything about an order however it came to be written:
//!
//! | field | what |
//! |---|---|
//! | `order_id` | the order; on every line about an order |
//! | `sale_id`, `item_id` | what is sold |
//! | `trace` | the root of the trace of the press that began it, from the request to the timeout |
//! | `code` | the code of a problem that was answered |
//! | `status`, `reason` | where an order stands, and why |
//! | `error` | what did not work, with the detail that a client is never shown |
//! | `message_id` | a queue's message |
//! | `sequence` | the sequence number of a stream's record |
//!
//! A token and a buyer's name are never written: an order id leads to the buyer, for those who may look. A failure is
//! logged once, where it is answered. A refused press writes one line, its metrics.

pub mod metrics;

pub use metrics::{Metric, Metrics, Sink, namespace};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;

/// Starts logging to stdout, and names the metrics' namespace by `METRICS_NAMESPACE`. `RUST_LOG` says what is written; without it `AWS_LAMBDA_LOG_LEVEL`, Lambda's own setting;
/// without either, `info` and above. A second call changes nothing.
pub fn init() {
    let setting = |name| std::env::var(name).ok().filter(|value: &String| !value.trim().is_empty());
    if let Some(namespace) = setting("METRICS_NAMESPACE") {
        metrics::name(namespace);
    }
    let filter = filter(&directives(setting("RUST_LOG"), setting("AWS_LAMBDA_LOG_LEVEL")));
    let subscriber = tracing_subscriber::fmt()
        .json()
        .with_max_level(LevelFilter::TRACE)
        .flatten_event(true)
        .with_ansi(false)
        .with_target(false)
        // The runtime's span around an invocation carries Lambda's request id.
        .with_current_span(true)
        .with_span_list(false)
        .finish()
        .with(filter);
    // Only the first subscriber of a process counts: tests run several functions in one.
    let _ = tracing::subscriber::set_global_default(subscriber);
}

fn directives(rust_log: Option<String>, lambda_level: Option<String>) -> String {
    match (rust_log, lambda_level) {
        (Some(directives), _) => directives,
        // Lambda knows one level more than tracing.
        (None, Some(level)) if level.eq_ignore_ascii_case("fatal") => "error".to_owned(),
        (None, Some(level)) => level.to_ascii_lowercase(),
        (None, None) => "info".to_owned(),
    }
}

/// Levels by module, as `info,store=debug` says; `info` if it cannot be read.
fn filter(directives: &str) -> Targets {
    directives.parse().unwrap_or_else(|_| Targets::new().with_default(LevelFilter::INFO))
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::{directives, filter};

    #[test]
    fn what_is_written_goes_by_module_and_level() {
        let some = filter("info,store=debug");
        assert!(some.would_enable("store::claims", &Level::DEBUG));
        assert!(!some.would_enable("hyper", &Level::DEBUG));
        assert!(some.would_enable("hyper", &Level::INFO));
        assert!(!filter("error").would_enable("store", &Level::WARN));
        let unreadable = filter("store=loud");
        assert!(unreadable.would_enable("store", &Level::INFO));
        assert!(!unreadable.would_enable("store", &Level::DEBUG));
    }

    #[test]
    fn rust_log_goes_before_lambdas_level() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(directives(None, None), "info");
        assert_eq!(directives(None, some("WARN")), "warn");
        assert_eq!(directives(None, some("FATAL")), "error");
        assert_eq!(directives(some("info,store=debug"), some("WARN")), "info,store=debug");
    }
}
