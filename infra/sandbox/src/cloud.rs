//! The sandbox beside the engines of a local cloud.

use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Method, Request, Response, Uri};
use local_cloud::clock::Clock;
use local_cloud::engine::{Cloud, OpenError, OutsideCall, OutsideError, OutsideService};
use local_cloud::template::model::{Secret, SecretValue};

use super::tables::TABLES;
use super::{PATH, Sandbox, delivery, operation_of};

/// The secret of the template that the sandbox supplies, by its logical id.
const PAYMENT_SECRET: &str = "PaymentSecret";

/// The engines of a local cloud, with the payment providers beside them. Copies share their state.
#[derive(Clone)]
pub struct CloudWithSandbox {
    pub sandbox: Sandbox,
    cloud: Cloud,
}

impl CloudWithSandbox {
    /// Engines that forget everything when the last copy is dropped.
    pub fn in_memory(clock: Clock) -> Result<Self, OpenError> {
        Ok(Self::add(Cloud::in_memory_with(clock, TABLES)?))
    }

    /// Engines whose state is in `dir`.
    pub fn open(dir: &Path, clock: Clock) -> Result<Self, OpenError> {
        Ok(Self::add(Cloud::open_with(dir, clock, TABLES)?))
    }

    /// The engines and their sandbox; `None` if they have none.
    pub fn of(cloud: Cloud) -> Option<Self> {
        let sandbox = cloud.outside_service::<Sandbox>()?.clone();
        Some(Self { sandbox, cloud })
    }

    fn add(cloud: Cloud) -> Self {
        let sandbox = Sandbox::new(&cloud);
        Self { cloud: cloud.with_outside(Arc::new(sandbox.clone())), sandbox }
    }
}

impl Deref for CloudWithSandbox {
    type Target = Cloud;

    fn deref(&self) -> &Cloud {
        &self.cloud
    }
}

impl From<CloudWithSandbox> for Cloud {
    fn from(with: CloudWithSandbox) -> Self {
        with.cloud
    }
}

impl OutsideService for Sandbox {
    fn path(&self) -> &'static str {
        PATH
    }

    /// The resource of a call is the provider's name.
    fn identify(&self, method: &Method, uri: &Uri) -> Option<OutsideCall> {
        let (kind, operation) = operation_of(method, uri)?;
        Some(OutsideCall { operation: operation.to_owned(), resource: Some(kind.to_string()) })
    }

    fn call(&self, request: Request<Bytes>) -> BoxFuture<'_, Response<Bytes>> {
        Box::pin(self.serve(request))
    }

    /// A `PaymentSecret` that the template leaves as `{}` holds the settings of a merchant of this sandbox.
    fn secret<'a>(&'a self, secret: &'a Secret, url: String) -> BoxFuture<'a, Result<Option<String>, OutsideError>> {
        Box::pin(async move {
            match &secret.value {
                SecretValue::Text(text) if secret.logical_id == PAYMENT_SECRET && text.trim() == "{}" => {
                    self.settings(&url).await.map(Some).map_err(|error| OutsideError(error.to_string()))
                }
                _ => Ok(None),
            }
        })
    }

    fn work(&self) -> BoxFuture<'static, ()> {
        Box::pin(delivery::run(self.clone()))
    }
}
