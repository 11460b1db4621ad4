//! The names of tables and queues, from the environment that the template gives each function; and how AWS is called.

use std::time::Duration;

use aws_config::stalled_stream_protection::StalledStreamProtectionConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, SdkConfig};
use aws_smithy_http_client::tls;

/// A setting that the environment lacks.
#[derive(Debug, thiserror::Error)]
#[error("the environment variable {0} is not set: template.yaml gives it to every function that needs it")]
pub struct MissingSetting(pub &'static str);

/// The names of tables and queues.
#[derive(Clone, Debug)]
pub struct Names {
    pub sales: String,
    pub stock: String,
    pub availability: String,
    pub claims: String,
    pub orders: String,
    pub ledger: String,
    pub accounts: String,
    pub connections: String,
    pub orders_queue_url: String,
    /// The queue for messages that can never be handled; only order-consumer has it.
    pub orders_dead_letters_url: Option<String>,
    /// The shop's own queue, for notices about its ordinary orders; only payment-notify has it, if the shop gave one.
    pub shop_queue_url: Option<String>,
    /// The group of the payment deadlines' schedules: functions that end orders have it, and delete what is not needed.
    pub schedule_group: Option<String>,
    /// How payment deadlines are scheduled; only order-consumer has it.
    pub deadlines: Option<Deadlines>,
    /// For how many days the orders of a sale are kept; `None`: for good. Only reconcile has it.
    pub retention_days: Option<u32>,
    /// How many copies each page of open buckets has, so that thousands of running functions do not read one key.
    pub page_copies: u32,
}

/// How payment deadlines are scheduled.
#[derive(Clone, Debug)]
pub struct Deadlines {
    pub group: String,
    /// The role that Scheduler assumes.
    pub role_arn: String,
    /// The function that checks the order.
    pub function_arn: String,
    /// The queue for deadlines that could not be delivered.
    pub timeout_dead_letters_arn: String,
}

impl Names {
    /// Reads them through `variable`, such as `|name| std::env::var(name).ok()`.
    pub fn from_env(variable: impl Fn(&str) -> Option<String>) -> Result<Self, MissingSetting> {
        let required =
            |name: &'static str| variable(name).filter(|value| !value.is_empty()).ok_or(MissingSetting(name));
        let deadlines = match variable("SCHEDULE_ROLE_ARN") {
            None => None,
            Some(role_arn) => Some(Deadlines {
                group: required("SCHEDULE_GROUP")?,
                role_arn,
                function_arn: required("TIMEOUT_FUNCTION_ARN")?,
                timeout_dead_letters_arn: required("TIMEOUT_DEAD_LETTERS_ARN")?,
            }),
        };
        Ok(Self {
            sales: required("SALES_TABLE")?,
            stock: required("STOCK_TABLE")?,
            availability: required("AVAILABILITY_TABLE")?,
            claims: required("CLAIMS_TABLE")?,
            orders: required("ORDERS_TABLE")?,
            ledger: required("LEDGER_TABLE")?,
            accounts: required("ACCOUNTS_TABLE")?,
            connections: required("CONNECTIONS_TABLE")?,
            orders_queue_url: required("ORDERS_QUEUE_URL")?,
            orders_dead_letters_url: variable("ORDERS_DEAD_LETTERS_URL"),
            shop_queue_url: variable("SHOP_QUEUE_URL").filter(|url| !url.is_empty()),
            schedule_group: variable("SCHEDULE_GROUP").filter(|group| !group.is_empty()),
            deadlines,
            retention_days: variable("RETENTION_DAYS").and_then(|days| days.parse().ok()).filter(|days| *days > 0),
            page_copies: variable("PAGE_COPIES").and_then(|copies| copies.parse().ok()).unwrap_or(0),
        })
    }
}

/// How long a deployed function waits for AWS. One attempt may take a second, and a call with its retries three. A
/// press makes several calls; the `seckill` function bounds their total time itself and answers after 4.5 of its five
/// seconds.
pub fn timeouts() -> TimeoutConfig {
    TimeoutConfig::builder()
        .connect_timeout(Duration::from_millis(800))
        .operation_attempt_timeout(Duration::from_secs(1))
        .operation_timeout(Duration::from_secs(3))
        .build()
}

/// How a deployed function calls AWS.
pub async fn sdk_config() -> SdkConfig {
    // One HTTP client for all SDK clients: separate ones would each read the system's root certificates, during
    // the first press.
    let http = aws_smithy_http_client::Builder::new()
        .tls_provider(tls::Provider::Rustls(tls::rustls_provider::CryptoMode::AwsLc))
        .build_https();
    aws_config::defaults(BehaviorVersion::v2026_01_12())
        .http_client(http)
        .timeout_config(timeouts())
        // It watches how fast a body arrives, which takes processor time. Answers are small, and an attempt's timeout
        // includes reading them.
        .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
        .load()
        .await
}
