//! The cloud on one machine: what `template.yaml` deploys to AWS runs here, without an account and without Docker.
//!
//! Two faces of the same engines:
//! - in process, for tests: [`wire`] is an HTTP client for the real AWS SDK, on a clock that the test drives;
//! - over loopback HTTP, for `make run`: [`endpoint`] serves the engines, [`host`] runs the real bootstrap binaries,
//!   [`sources`] invokes them as AWS would, and [`gateway`] is the door.
//!
//! Both reach the same payment providers: [`sandbox`].

pub mod clock;
pub mod data;
pub mod endpoint;
pub mod engine;
pub mod gateway;
pub mod host;
mod html;
pub mod iam;
pub mod invoke;
pub mod metrics;
mod percent;
pub mod run;
pub mod sandbox;
pub mod sources;
pub mod template;
pub mod wire;

/// `AWS::Region` of the local cloud.
pub const REGION: &str = "us-east-1";
/// `AWS::AccountId` of the local cloud.
pub const ACCOUNT: &str = "000000000000";
