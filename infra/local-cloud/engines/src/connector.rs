//! An HTTP client for the AWS SDK that is answered in this process, without a socket.

use std::fmt;
use std::sync::Arc;

use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::body::SdkBody;
use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response};

/// Answers a request of the SDK.
type Answer = Arc<dyn Fn(Request<Bytes>) -> BoxFuture<'static, Response<Bytes>> + Send + Sync>;

/// The client of one caller. What answers knows who that is, so a request needs no signature to tell.
#[derive(Clone)]
pub struct Connector(Answer);

impl Connector {
    /// A client whose requests `answer` answers.
    pub fn new(answer: impl Fn(Request<Bytes>) -> BoxFuture<'static, Response<Bytes>> + Send + Sync + 'static) -> Self {
        Self(Arc::new(answer))
    }
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connector")
    }
}

impl HttpClient for Connector {
    fn http_connector(&self, _: &HttpConnectorSettings, _: &RuntimeComponents) -> SharedHttpConnector {
        SharedHttpConnector::new(self.clone())
    }
}

impl HttpConnector for Connector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let answer = Arc::clone(&self.0);
        HttpConnectorFuture::new(async move {
            let request = from_sdk(request)?;
            to_sdk(answer(request).await)
        })
    }
}

/// A request of the SDK, with its whole body.
pub(crate) fn from_sdk(request: HttpRequest) -> Result<Request<Bytes>, ConnectorError> {
    let request = request.try_into_http1x().map_err(|error| ConnectorError::user(error.into()))?;
    let (parts, body) = request.into_parts();
    let body = body
        .bytes()
        .map(Bytes::copy_from_slice)
        .ok_or_else(|| ConnectorError::user("a streamed body cannot be sent without a socket".into()))?;
    Ok(Request::from_parts(parts, body))
}

/// An answer, as the SDK reads it.
pub(crate) fn to_sdk(response: Response<Bytes>) -> Result<HttpResponse, ConnectorError> {
    let response = response.map(SdkBody::from);
    HttpResponse::try_from(response).map_err(|error| ConnectorError::other(error.into(), None))
}
