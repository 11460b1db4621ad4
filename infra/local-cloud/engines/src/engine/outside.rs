//! Services outside AWS that functions call over HTTP, such as a payment provider, played in this process.
//!
//! The local cloud knows none of them. A program that needs one implements [`OutsideService`] and adds it with
//! [`Cloud::with_outside`](super::Cloud::with_outside). From then on it is reached in process over the
//! [`Wire`](crate::wire::Wire), where faults can be injected into its calls, and over HTTP below its path on the
//! gateway.

use std::any::Any;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Method, Request, Response, Uri};

use crate::template::model::Secret;

/// A service outside AWS, played in this process.
pub trait OutsideService: Any + Send + Sync {
    /// The path below which the service is reached, such as `/_payments`. It begins with a slash and does not end
    /// with one.
    fn path(&self) -> &'static str;

    /// The call that a function makes with such a request. `None` for everything else below the path: pages for
    /// people, for example.
    fn identify(&self, method: &Method, uri: &Uri) -> Option<OutsideCall>;

    /// Answers any request below the path.
    fn call(&self, request: Request<Bytes>) -> BoxFuture<'_, Response<Bytes>>;

    /// The value of a secret of the template, if this service supplies it: its own address and keys, for example.
    /// `url` is the address under which functions reach the service. Asked at every start, because the port may
    /// have changed.
    fn secret<'a>(&'a self, secret: &'a Secret, url: String) -> BoxFuture<'a, Result<Option<String>, OutsideError>> {
        let _ = (secret, url);
        Box::pin(std::future::ready(Ok(None)))
    }

    /// The service's own work while the local cloud runs: webhooks that fall due, for example. It is stopped by
    /// dropping the future, so it must be safe to abandon at any await.
    fn work(&self) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }
}

/// A call to an outside service, for the record of calls and for fault injection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutsideCall {
    pub operation: String,
    /// What the call is about, if the service says so.
    pub resource: Option<String>,
}

/// Why an outside service cannot supply a secret.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct OutsideError(pub String);
