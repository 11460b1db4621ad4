//! What AWS says of its limits and prices: us-east-1, as its documentation has it. Nothing here was measured.

/// Write units a second that one partition takes. One item cannot be split, so one item takes no more than this either.
pub const PARTITION_WRITES: f64 = 1_000.0;
/// Read units a second that one partition takes.
pub const PARTITION_READS: f64 = 3_000.0;
/// Write units a second that a new on-demand table takes at once.
pub const NEW_TABLE_WRITES: u32 = 4_000;
/// Read units a second that it takes at once.
pub const NEW_TABLE_READS: u32 = 12_000;
/// Write units a second that one table may use unless AWS is asked for more.
pub const TABLE_WRITES_QUOTA: u32 = 40_000;
/// Transactions a second that one hot item takes: others at the same moment are rejected, not queued. AWS gives no figure; 50 to 100 are
/// seen.
pub const HOT_TRANSACTIONS: f64 = 75.0;
/// A transaction costs twice its writes.
pub const TRANSACTION_FACTOR: f64 = 2.0;

/// Environments that one function can have more after ten seconds; the allowance refills continuously and does not add up.
pub const LAMBDA_BURST: f64 = 1_000.0;
/// Seconds in which it refills.
pub const LAMBDA_BURST_SECONDS: f64 = 10.0;
/// Requests a second that one environment may take, by Lambda's count.
pub const LAMBDA_REQUESTS_PER_ENVIRONMENT: f64 = 10.0;
/// Environments of all functions of an account, unless AWS is asked for more.
pub const LAMBDA_CONCURRENCY_QUOTA: u32 = 1_000;
/// Requests a second to all HTTP APIs of an account, unless AWS is asked for more.
pub const HTTP_API_QUOTA: u32 = 10_000;

/// Batches of a queue that Lambda works on at once when it begins …
pub const QUEUE_POLLERS: f64 = 5.0;
/// … and so many more each second (300 a minute) …
pub const QUEUE_POLLERS_PER_SECOND: f64 = 5.0;
/// … up to so many.
pub const QUEUE_POLLERS_MOST: f64 = 1_250.0;

/// Schedules made a second, unless AWS is asked for more.
pub const SCHEDULES_CREATED_QUOTA: u32 = 5_000;
/// Schedules fired a second, unless AWS is asked for more.
pub const SCHEDULES_FIRED_QUOTA: u32 = 1_000;
/// A schedule fires within so many seconds of its time.
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
/// Dollars for a million schedules that fired.
pub const SCHEDULES: f64 = 1.00;
/// Dollars for a gigabyte of logs taken in (not confirmed).
pub const LOG_GB: f64 = 0.50;
/// Dollars for a million traces (not confirmed).
pub const TRACES: f64 = 5.00;
/// Of a hundred invocations beyond one a second, so many are traced.
pub const TRACED_PERCENT: f64 = 5.0;
/// Dollars, once, for each write unit a second that a table is warmed by beyond what it has: the price of a provisioned unit for an hour (not
/// confirmed).
pub const WARM_WRITE: f64 = 0.000_65;
/// Dollars for a gigabyte-second of provisioned concurrency on arm64 (not confirmed).
pub const PROVISIONED_GB_SECOND: f64 = 0.000_003_333_4;

/// Something that takes time: half of the times are within the first figure, 99 of 100 within the second; in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Takes {
    /// Half are within this.
    pub p50_ms: f64,
    /// 99 of 100 are within this.
    pub p99_ms: f64,
}

// AWS promises "single-digit milliseconds" and no more; these are taken, not promised and not measured. The plan prints them.

/// From the internet's edge through API Gateway into a running function, and back.
pub const DOOR: Takes = Takes { p50_ms: 10.0, p99_ms: 35.0 };
/// A conditional write.
pub const WRITE: Takes = Takes { p50_ms: 4.0, p99_ms: 12.0 };
/// A message sent.
pub const SEND: Takes = Takes { p50_ms: 8.0, p99_ms: 40.0 };
/// A schedule made.
pub const SCHEDULE: Takes = Takes { p50_ms: 20.0, p99_ms: 80.0 };
/// A new environment, before it takes its first request.
pub const COLD_START: Takes = Takes { p50_ms: 120.0, p99_ms: 350.0 };
/// From a change of stock to its page: the stream, the function behind it, and the age of what a running function has read.
pub const PAGE_BEHIND_MS: f64 = 600.0;
/// The SDK's tries of a call that is throttled, and the longest first wait between two of them; it doubles.
pub const SDK_TRIES: u32 = 3;
/// See [`SDK_TRIES`].
pub const SDK_FIRST_WAIT_MS: f64 = 1_000.0;
/// A partition that has been asked for more than it gives for so long is split in two.
pub const SPLIT_AFTER_SECONDS: f64 = 300.0;
/// Milliseconds of a function that are billed for a refusal from memory: the least there is.
pub const REFUSAL_BILLED_MS: f64 = 1.0;
/// Bytes of log that a press leaves: its line of metrics, and the three lines that Lambda writes about an invocation.
pub const LOG_BYTES_PER_PRESS: f64 = 850.0;
