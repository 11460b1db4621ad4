//! Event source mappings: queues and streams that invoke a function, from SAM's events.

use std::time::Duration;

use super::error::{Read, wrong};
use super::fields::{Fields, Shape, text};
use super::known::Known;
use super::model::{EventSource, QueueSource, StreamSource};

const NO_FILTER: &str = "filter in the function: a filtered message is deleted unseen";
const NO_POLLER: &str = "leave it out: polling here is not metered";

pub(super) const QUEUE_EVENT: Shape = Shape::new(
    "an SQS event",
    &["Queue", "BatchSize", "MaximumBatchingWindowInSeconds", "FunctionResponseTypes", "ScalingConfig", "Enabled"],
)
.without_effect(&["MetricsConfig"])
.refused(&[("FilterCriteria", NO_FILTER), ("ProvisionedPollerConfig", NO_POLLER)]);

pub(super) const STREAM_EVENT: Shape = Shape::new(
    "a DynamoDB event",
    &[
        "Stream",
        "StartingPosition",
        "BatchSize",
        "MaximumBatchingWindowInSeconds",
        "FilterCriteria",
        "MaximumRetryAttempts",
        "BisectBatchOnFunctionError",
        "FunctionResponseTypes",
        "DestinationConfig",
        "Enabled",
    ],
)
// More invocations at once keep the order within a key: one at a time keeps it too.
.without_effect(&["ParallelizationFactor", "MetricsConfig"])
.refused(&[
    ("MaximumRecordAgeInSeconds", "bound the tries with MaximumRetryAttempts"),
    ("TumblingWindowInSeconds", "sum up in the function"),
    ("StartingPositionTimestamp", "start at TRIM_HORIZON or LATEST"),
    ("ProvisionedPollerConfig", NO_POLLER),
]);

const SCALING: Shape = Shape::new("ScalingConfig", &["MaximumConcurrency"]);
const FILTERS: Shape = Shape::new("FilterCriteria", &["Filters"]);
const FILTER: Shape = Shape::new("a filter", &["Pattern"]);
const DESTINATIONS: Shape =
    Shape::new("DestinationConfig", &["OnFailure"]).refused(&[("OnSuccess", "send the message in the function")]);
const DESTINATION: Shape = Shape::new("OnFailure", &["Type", "Destination"]);

/// A mapping, and whether it is switched on.
pub(super) struct Mapping {
    pub(super) source: EventSource,
    pub(super) enabled: bool,
}

pub(super) fn queue(known: &Known, fields: &Fields) -> Read<Mapping> {
    let queue_arn = known.queue(fields.need_text("Queue")?, fields.line_of("Queue"))?;
    let batch_size = fields.number("BatchSize", 1..=10_000)?.unwrap_or(10);
    let window = seconds(fields, "MaximumBatchingWindowInSeconds", 300)?;
    if batch_size > 10 && window.is_zero() {
        let line = fields.line_of("BatchSize");
        return wrong(line, "a BatchSize above 10 needs MaximumBatchingWindowInSeconds; give at least 1");
    }
    let scaling = fields.fields("ScalingConfig", &SCALING)?;
    let maximum_concurrency =
        scaling.map(|fields| fields.number("MaximumConcurrency", 2..=1_000)).transpose()?.flatten();
    let partial_responses = partial_responses(fields)?;
    let source = QueueSource { queue_arn, batch_size, window, partial_responses, maximum_concurrency };
    Ok(Mapping { source: EventSource::Queue(source), enabled: fields.flag("Enabled")?.unwrap_or(true) })
}

pub(super) fn stream(known: &Known, fields: &Fields) -> Read<Mapping> {
    let table = known.table_of_stream(fields.need_text("Stream")?, fields.line_of("Stream"))?.name.clone();
    fields.need("StartingPosition")?;
    let from_start = fields.one_of("StartingPosition", &["TRIM_HORIZON", "LATEST"])? == Some("TRIM_HORIZON");
    // -1 is AWS's way to say: until the records expire.
    let retries = fields.number("MaximumRetryAttempts", -1..=10_000)?.and_then(|retries| u32::try_from(retries).ok());
    let source = StreamSource {
        table,
        batch_size: fields.number("BatchSize", 1..=10_000)?.unwrap_or(100),
        window: seconds(fields, "MaximumBatchingWindowInSeconds", 300)?,
        from_start,
        filters: filters(fields)?,
        retries,
        bisect: fields.flag("BisectBatchOnFunctionError")?.unwrap_or(false),
        partial_responses: partial_responses(fields)?,
        on_failure: on_failure(known, fields)?.map(|destination| destination.arn),
    };
    Ok(Mapping { source: EventSource::Stream(source), enabled: fields.flag("Enabled")?.unwrap_or(true) })
}

/// Where something given up goes.
pub(super) struct Destination {
    pub(super) arn: String,
    /// Whether `Type` is written: SAM then lets the function send there.
    pub(super) typed: bool,
}

/// The queue of `DestinationConfig`.
pub(super) fn on_failure(known: &Known, fields: &Fields) -> Read<Option<Destination>> {
    let Some(config) = fields.fields("DestinationConfig", &DESTINATIONS)? else { return Ok(None) };
    let Some(failure) = config.fields("OnFailure", &DESTINATION)? else { return Ok(None) };
    let typed = failure.one_of("Type", &["SQS"])?.is_some();
    let arn = known.queue(failure.need_text("Destination")?, failure.line_of("Destination"))?;
    Ok(Some(Destination { arn, typed }))
}

fn partial_responses(fields: &Fields) -> Read<bool> {
    let kinds = fields.list("FunctionResponseTypes")?;
    for kind in kinds {
        if text(kind, "FunctionResponseTypes")? != "ReportBatchItemFailures" {
            return wrong(kind.line, "FunctionResponseTypes knows one word; write [ReportBatchItemFailures]");
        }
    }
    Ok(!kinds.is_empty())
}

fn filters(fields: &Fields) -> Read<Vec<serde_json::Value>> {
    let Some(criteria) = fields.fields("FilterCriteria", &FILTERS)? else { return Ok(Vec::new()) };
    let mut all = Vec::new();
    for node in criteria.list("Filters")? {
        let filter = Fields::read(node, &FILTER)?;
        match serde_json::from_str::<serde_json::Value>(filter.need_text("Pattern")?) {
            Ok(pattern) if pattern.is_object() => all.push(pattern),
            _ => {
                let line = filter.line_of("Pattern");
                return wrong(line, "Pattern is no JSON object; write one, such as '{\"eventName\": [\"MODIFY\"]}'");
            }
        }
    }
    Ok(all)
}

pub(super) fn seconds(fields: &Fields, key: &str, most: u64) -> Read<Duration> {
    fields.number(key, 0..=most).map(|seconds| Duration::from_secs(seconds.unwrap_or(0)))
}
