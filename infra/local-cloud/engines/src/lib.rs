//! The services of the local cloud, as engines in this process: DynamoDB with streams, SQS, EventBridge Scheduler and
//! Secrets Manager, on a clock that a test can drive, in memory or in a data directory.
//!
//! [`wire`] is an HTTP client for the AWS SDK that answers from the engines and injects faults.

pub mod clock;
pub mod data;
pub mod engine;
pub mod wire;

use local_cloud_iam as iam;
use local_cloud_template as template;
use local_cloud_template::{ACCOUNT, REGION};
