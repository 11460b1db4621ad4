//! Writing to open WebSockets, through API Gateway's management API.

use aws_config::SdkConfig;
use aws_sdk_apigatewaymanagement::Client;
use aws_sdk_apigatewaymanagement::error::{DisplayErrorContext, SdkError};
use aws_sdk_apigatewaymanagement::primitives::Blob;

/// The result of a post.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Post {
    Sent,
    /// The connection is closed, or not open yet.
    Gone,
}

#[derive(Debug)]
pub(crate) struct Sockets(Client);

impl Sockets {
    /// The environment names the management API's endpoint: `AWS_ENDPOINT_URL_APIGATEWAYMANAGEMENTAPI`, the SDK's
    /// own variable.
    pub(crate) fn new(config: &SdkConfig) -> Self {
        Self(Client::new(config))
    }

    pub(crate) async fn post(&self, connection: &str, message: Vec<u8>) -> Result<Post, String> {
        match self.0.post_to_connection().connection_id(connection).data(Blob::new(message)).send().await {
            Ok(_) => Ok(Post::Sent),
            Err(SdkError::ServiceError(error)) if error.err().is_gone_exception() => Ok(Post::Gone),
            Err(error) => Err(DisplayErrorContext(error).to_string()),
        }
    }
}
