//! The cloud on one machine: what a SAM template deploys to AWS runs here, without an account and without Docker.
//!
//! The same engines are used in two ways:
//! - in process, for tests: [`wire`] is an HTTP client for the real AWS SDK, on a clock that the test drives;
//! - behind a loopback port ([`run`]): [`gateway`] answers HTTP requests and WebSockets, and [`sources`] invokes
//!   functions as AWS would. [`host`] runs the functions' bootstrap binaries, and [`endpoint`] serves the engines to
//!   them; [`in_process`] runs functions that are linked into the program.
//!
//! A program adds services outside AWS, such as a payment provider, with [`engine::OutsideService`].

pub mod endpoint;
mod front;
pub mod metrics;
pub mod run;

pub use local_cloud_engines::{clock, connector, data, engine, wire};
pub use local_cloud_gateway as gateway;
pub use local_cloud_host::{host, in_process, invoke, sources};
pub use local_cloud_iam as iam;
pub use local_cloud_template as template;
pub use local_cloud_template::{ACCOUNT, REGION};
