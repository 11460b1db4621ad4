//! Writing to open WebSockets, through API Gateway's management API.

use aws_config::SdkConfig;
use aws_sdk_apigatewaymanagement::Client;
use aws_sdk_apigatewaymanagement::error::{DisplayErrorContext, SdkError};
use aws_sdk_apigatewaymanagement::primitives::Blob;

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Post {
    /// The connection has it.
    Sent,
    /// The connection is not there (any more, or yet).
    Gone,
}

/// The open WebSockets.
#[derive(Debug)]
pub(crate) struct Sockets(Client);

impl Sockets {
    /// Where the management API is, the environment says: `AWS_ENDPOINT_URL_APIGATEWAYMANAGEMENTAPI`, the SDK's own name for it.
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
