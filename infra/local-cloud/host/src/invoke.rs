//! How anything in the local cloud runs a function: the host's real processes behind one closure, or, in tests, the
//! handlers' own code.

use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use lambda_http::{Body, Request, Response};

/// Runs a function, by its name, on an event, and waits for its answer.
pub type Invoker = Arc<dyn Fn(String, Bytes) -> BoxFuture<'static, Outcome> + Send + Sync>;

/// What became of an invocation.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// The function answered.
    Answered(Bytes),
    /// The function reported an error, timed out, exited, or could not start.
    Failed(FunctionError),
    /// Every environment is busy and no more may be started (429 in AWS): try again later.
    Throttled,
}

/// Why a function failed, in the words Lambda uses.
#[derive(Clone, Debug, PartialEq)]
pub struct FunctionError {
    /// `Runtime.ExitError`, `Sandbox.Timedout`, or the function's own error type.
    pub error_type: String,
    pub message: String,
}

/// Runs functions of HTTP APIs on requests as values. The host in this process does, which saves making JSON of every
/// request and answer.
pub trait Requests: Send + Sync {
    /// Whether the function can be called so.
    fn takes(&self, function: &str) -> bool;

    /// The function's answer; or why there is none, which is never [`Outcome::Answered`].
    fn answer(&self, function: &str, request: Request) -> BoxFuture<'static, Result<Response<Body>, Outcome>>;
}
