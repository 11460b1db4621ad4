//! Logs and metrics: one JSON object per line on stdout, for CloudWatch Logs.
//!
//! Every function uses the same field names, so that one query finds everything about an order:
//!
//! | field | meaning |
//! |---|---|
//! | `order_id` | the order; present on every line about an order |
//! | `sale_id`, `item_id` | the sale and the item |
//! | `trace` | the trace id of the purchase request, carried along until the order ends |
//! | `code` | the code of a problem that was answered |
//! | `status`, `reason` | the status of an order, and the reason for it |
//! | `error` | the underlying error, which a client never sees |
//! | `message_id` | a message of a queue |
//! | `sequence` | the sequence number of a record of a stream |
//!
//! Tokens and buyers' names are never logged: somebody with access to the tables finds the buyer by the order id. A
//! failure is logged once, where it is answered. A refused purchase writes a single line: its metrics.

pub mod metrics;

pub use metrics::{Metric, Metrics, Sink, namespace, set_namespace};
use tracing::Subscriber;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;

/// Starts logging to stdout and sets the namespace of the metrics. A second call changes nothing.
///
/// - `METRICS_NAMESPACE`: the namespace. The default is `Seckill`.
/// - `RUST_LOG`: what is logged, for example `info,store=debug`.
/// - `AWS_LAMBDA_LOG_LEVEL`: Lambda's own setting, used when `RUST_LOG` is not set. The default is `info`.
pub fn init() {
    if let Some(namespace) = setting("METRICS_NAMESPACE") {
        set_namespace(namespace);
    }
    let subscriber = tracing_subscriber::registry().with(layer(std::io::stdout)).with(filter_from_env());
    // Only the first subscriber of a process takes effect. Tests run several functions in one process.
    let _ = tracing::subscriber::set_global_default(subscriber);
}

/// Writes one JSON object per line.
pub fn layer<S, W>(writer: W) -> impl Layer<S>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
    W: for<'writer> MakeWriter<'writer> + 'static,
{
    tracing_subscriber::fmt::layer()
        .json()
        .with_writer(writer)
        .flatten_event(true)
        .with_ansi(false)
        .with_target(false)
        // The span of an invocation carries Lambda's request id.
        .with_current_span(true)
        .with_span_list(false)
}

/// What is logged, by `RUST_LOG` and `AWS_LAMBDA_LOG_LEVEL`.
pub fn filter_from_env() -> Targets {
    filter(&directives(setting("RUST_LOG"), setting("AWS_LAMBDA_LOG_LEVEL")))
}

fn setting(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.trim().is_empty())
}

fn directives(rust_log: Option<String>, lambda_level: Option<String>) -> String {
    match (rust_log, lambda_level) {
        (Some(directives), _) => directives,
        // tracing has no level above error.
        (None, Some(level)) if level.eq_ignore_ascii_case("fatal") => "error".to_owned(),
        (None, Some(level)) => level.to_ascii_lowercase(),
        (None, None) => "info".to_owned(),
    }
}

/// Parses directives such as `info,store=debug`. Invalid directives mean `info`.
fn filter(directives: &str) -> Targets {
    directives.parse().unwrap_or_else(|_| Targets::new().with_default(LevelFilter::INFO))
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::{directives, filter};

    #[test]
    fn lines_are_filtered_by_module_and_level() {
        let some = filter("info,store=debug");
        assert!(some.would_enable("store::claims", &Level::DEBUG));
        assert!(!some.would_enable("hyper", &Level::DEBUG));
        assert!(some.would_enable("hyper", &Level::INFO));
        assert!(!filter("error").would_enable("store", &Level::WARN));
        let invalid = filter("store=loud");
        assert!(invalid.would_enable("store", &Level::INFO));
        assert!(!invalid.would_enable("store", &Level::DEBUG));
    }

    #[test]
    fn rust_log_takes_precedence_over_the_level_of_lambda() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(directives(None, None), "info");
        assert_eq!(directives(None, some("WARN")), "warn");
        assert_eq!(directives(None, some("FATAL")), "error");
        assert_eq!(directives(some("info,store=debug"), some("WARN")), "info,store=debug");
    }
}
