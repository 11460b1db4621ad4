//! Limits and prices of AWS in us-east-1, from its documentation. Nothing here was measured.

/// Write units per second of one partition. A single row cannot be split, so this is also the limit of one row.
pub const PARTITION_WRITES: f64 = 1_000.0;
/// Read units per second of one partition.
pub const PARTITION_READS: f64 = 3_000.0;
/// Write units per second that a new on-demand table accepts from the start.
pub const NEW_TABLE_WRITES: u32 = 4_000;
/// Read units per second that a new on-demand table accepts from the start.
pub const NEW_TABLE_READS: u32 = 12_000;
/// The default quota of a table, in write units per second.
pub const TABLE_WRITES_QUOTA: u32 = 40_000;
/// Transactions per second on one hot row. Concurrent ones are rejected, not queued. AWS documents no figure; 50 to 100
/// are commonly reported.
pub const HOT_TRANSACTIONS: f64 = 75.0;
/// A transaction costs twice its writes.
pub const TRANSACTION_FACTOR: f64 = 2.0;

/// How many environments a function can add at once. The allowance refills continuously and does not accumulate.
pub const LAMBDA_BURST: f64 = 1_000.0;
/// The time in which the allowance refills.
pub const LAMBDA_BURST_SECONDS: f64 = 10.0;
/// Requests per second that Lambda sends to one environment at most.
pub const LAMBDA_REQUESTS_PER_ENVIRONMENT: f64 = 10.0;
/// The default quota of an account, in environments of all functions.
pub const LAMBDA_CONCURRENCY_QUOTA: u32 = 1_000;
/// The default quota of an account, in requests per second to all HTTP APIs.
pub const HTTP_API_QUOTA: u32 = 10_000;

/// How many batches of a queue Lambda processes concurrently at first.
pub const QUEUE_POLLERS: f64 = 5.0;
/// By how many that number grows per second (300 a minute).
pub const QUEUE_POLLERS_PER_SECOND: f64 = 5.0;
/// The most batches that Lambda processes concurrently.
pub const QUEUE_POLLERS_MOST: f64 = 1_250.0;

/// The default quota of schedules created per second.
pub const SCHEDULES_CREATED_QUOTA: u32 = 5_000;
/// The default quota of schedules started per second.
pub const SCHEDULES_FIRED_QUOTA: u32 = 1_000;
/// A schedule starts its target within this many seconds of its time.
pub const SCHEDULE_PRECISION_SECONDS: u32 = 60;

/// Dollars for a million write units.
pub const WRITES: f64 = 0.625;
/// Dollars for a million read units.
pub const READS: f64 = 0.125;
/// Dollars for a million requests to an HTTP API.
pub const HTTP_REQUESTS: f64 = 1.00;
/// Dollars for a million invocations.
pub const INVOCATIONS: f64 = 0.20;
/// Dollars for a gigabyte-second of a function on arm64.
pub const GB_SECOND: f64 = 0.000_013_333_4;
/// Dollars for a million requests to SQS (not confirmed).
pub const QUEUE_REQUESTS: f64 = 0.40;
/// Dollars for a million started schedules.
pub const SCHEDULES: f64 = 1.00;
/// Dollars for ingesting a gigabyte of logs (not confirmed).
pub const LOG_GB: f64 = 0.50;
/// Dollars for a million traces (not confirmed).
pub const TRACES: f64 = 5.00;
/// The percentage of invocations that are traced, beyond one per second.
pub const TRACED_PERCENT: f64 = 5.0;
/// Dollars, once, for each write unit per second by which a table is warmed: the price of a provisioned unit for an
/// hour (not confirmed).
pub const WARM_WRITE: f64 = 0.000_65;
/// Dollars for a gigabyte-second of provisioned concurrency on arm64 (not confirmed).
pub const PROVISIONED_GB_SECOND: f64 = 0.000_003_333_4;

/// An assumed distribution of times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Takes {
    pub p50_ms: f64,
    pub p99_ms: f64,
}

// AWS documents only "single-digit milliseconds". The following figures are assumptions, and the plan prints them.

/// From the edge of AWS through API Gateway to a running function and back.
pub const GATEWAY_ROUND_TRIP: Takes = Takes { p50_ms: 10.0, p99_ms: 35.0 };
/// A conditional write.
pub const WRITE: Takes = Takes { p50_ms: 4.0, p99_ms: 12.0 };
/// Sending a message.
pub const SEND: Takes = Takes { p50_ms: 8.0, p99_ms: 40.0 };
/// Creating a schedule.
pub const SCHEDULE: Takes = Takes { p50_ms: 20.0, p99_ms: 80.0 };
/// Starting an environment, before its first request.
pub const COLD_START: Takes = Takes { p50_ms: 120.0, p99_ms: 350.0 };
/// How stale a function's knowledge of open buckets is: the stream, the function that writes the page, and the cache.
pub const PAGE_BEHIND_MS: f64 = 600.0;
/// How often the SDK attempts a call that is throttled.
pub const SDK_TRIES: u32 = 3;
/// The longest wait before the SDK's first retry. It doubles with each retry.
pub const SDK_FIRST_WAIT_MS: f64 = 1_000.0;
/// DynamoDB splits a partition that has been throttled for this long.
pub const SPLIT_AFTER_SECONDS: f64 = 300.0;
/// The billed time of a refusal from memory: the minimum.
pub const REFUSAL_BILLED_MS: f64 = 1.0;
/// Bytes of log per purchase request: its metrics and the three lines that Lambda writes about an invocation.
pub const LOG_BYTES_PER_PRESS: f64 = 850.0;
