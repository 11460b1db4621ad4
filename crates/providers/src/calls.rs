//! Sends one call to a provider: the plain values of the crate `payments` over a connection.

use std::error::Error;

use aws_smithy_runtime_api::client::http::{HttpConnector, SharedHttpConnector};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_types::body::SdkBody;
use http_body_util::{BodyExt, Limited};
use payments::{HttpAnswer, HttpCall, Method, ProviderError};

use crate::connection::MAX_ANSWER_BYTES;

/// Sends a call unchanged. The provider interprets the answer, also if it is a server error.
pub(crate) async fn send(transport: &SharedHttpConnector, call: HttpCall) -> Result<HttpAnswer, ProviderError> {
    let request = request(call)?;
    let answer = transport.call(request).await.map_err(|error| unavailable(&error))?;
    read(answer).await
}

fn request(call: HttpCall) -> Result<HttpRequest, ProviderError> {
    // Only a malformed address or key in the settings leads here. Nothing is sent then.
    let unsendable = || ProviderError::Unsupported("the call is not a valid HTTP request".to_owned());
    let mut request = http::Request::builder().method(call.method.as_str()).uri(&call.url);
    for (name, value) in call.headers.iter() {
        request = request.header(name, value);
    }
    // Some servers refuse a POST without a length (411), even if its body is empty.
    if call.method == Method::Post {
        request = request.header(http::header::CONTENT_LENGTH, call.body.len());
    }
    let request = request.body(SdkBody::from(call.body)).map_err(|_| unsendable())?;
    HttpRequest::try_from(request).map_err(|_| unsendable())
}

async fn read(answer: HttpResponse) -> Result<HttpAnswer, ProviderError> {
    let status = answer.status().as_u16();
    let headers = answer.headers().iter().collect();
    let body = Limited::new(answer.into_body(), MAX_ANSWER_BYTES).collect().await;
    let body = body.map_err(|error| unavailable(error.as_ref()))?.to_bytes().to_vec();
    Ok(HttpAnswer { status, headers, body })
}

fn unavailable(error: &(dyn Error + 'static)) -> ProviderError {
    ProviderError::Unavailable(reasons(error))
}

/// The most causes of an error that its text names.
const MAX_REASONS: usize = 8;

/// An error with its causes: "io error: client error (Connect): … refused". Unlike the `Debug` output of these
/// errors, the text never contains the URL, a header or a body.
pub(crate) fn reasons(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    for _ in 1..MAX_REASONS {
        let Some(reason) = next else { break };
        text = format!("{text}: {reason}");
        next = reason.source();
    }
    text
}
