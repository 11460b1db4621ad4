//! The cloud on one machine: what a SAM template deploys to AWS runs here, without an account and without Docker.
//!
//! The same engines are used in two ways:
//! - in process, for tests: [`wire`] is an HTTP client for the real AWS SDK, on a clock that the test drives;
//! - over loopback HTTP ([`run`]): [`endpoint`] serves the engines, [`host`] runs the functions' bootstrap binaries,
//!   [`sources`] invokes them as AWS would, and [`gateway`] answers HTTP requests and WebSockets.
//!
//! A program adds services outside AWS, such as a payment provider, with [`engine::OutsideService`].

pub mod clock;
pub mod data;
pub mod endpoint;
pub mod engine;
pub mod gateway;
pub mod host;
pub mod iam;
pub mod invoke;
pub mod metrics;
mod percent;
pub mod run;
pub mod sources;
pub mod template;
pub mod wire;

/// `AWS::Region` of the local cloud.
pub const REGION: &str = "us-east-1";
/// `AWS::AccountId` of the local cloud.
pub const ACCOUNT: &str = "000000000000";
