//! The services of the local cloud, as engines in this process: DynamoDB with streams, SQS, EventBridge Scheduler and
//! Secrets Manager, on a clock that a test can drive, in memory or in a data directory.
//!
//! [`wire`] is an HTTP client for the AWS SDK that answers from the engines, records every call and injects faults, for
//! tests. [`connector`] is a plain one, for functions that run in this process.

pub mod clock;
pub mod connector;
pub mod data;
pub mod engine;
pub mod wire;

use local_cloud_iam as iam;
use local_cloud_template as template;
use local_cloud_template::{ACCOUNT, REGION};
