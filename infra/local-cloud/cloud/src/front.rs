//! What every call to a service passes, over HTTP or in this process: the permission check, then the service.

use bytes::Bytes;
use http::{Request, Response, StatusCode};

use crate::engine::{Cloud, Service};
use crate::gateway::Connections;
use crate::iam::Authorizer;
use crate::metrics::Metrics;

/// The services. Copies share them.
#[derive(Clone)]
pub(crate) struct Front {
    pub(crate) cloud: Cloud,
    /// `None`: everybody may do everything.
    pub(crate) authorizer: Option<Authorizer>,
    /// The open WebSockets, if functions can post to them (`@connections`).
    pub(crate) connections: Option<Connections>,
    /// What functions have measured.
    pub(crate) metrics: Metrics,
    /// Whether the callers are functions in containers. They do not reach the gateway, so services outside AWS are
    /// served here as well, unsigned as everywhere.
    pub(crate) for_containers: bool,
}

impl Front {
    /// Answers a call of the owner of this access key. A call that must be checked and names no key is refused.
    pub(crate) async fn answer(&self, access_key_id: Option<&str>, request: Request<Bytes>) -> Response<Bytes> {
        if self.for_containers
            && let Some(outside) = self.cloud.outside_at(request.uri().path())
        {
            return outside.call(request).await;
        }
        if let Some(authorizer) = &self.authorizer
            && let Some(refused) = self.check(authorizer, access_key_id, &request)
        {
            return refused;
        }
        if Metrics::are_asked(&request) {
            return self.metrics.answer(&request);
        }
        match &self.connections {
            Some(connections) if Connections::is_management_path(request.uri().path()) => {
                connections.manage(request).await
            }
            _ => self.cloud.call(request).await,
        }
    }

    /// The service that a request is for; DynamoDB, whose errors every client can read, if it is for none.
    pub(crate) fn service<B>(&self, request: &Request<B>) -> Service {
        self.cloud.target_of(request).map_or(Service::DynamoDb, |(service, _)| service)
    }

    /// The refusal, if there is one.
    fn check(
        &self,
        authorizer: &Authorizer,
        access_key_id: Option<&str>,
        request: &Request<Bytes>,
    ) -> Option<Response<Bytes>> {
        let Some(access_key_id) = access_key_id else {
            return Some(self.service(request).error(
                StatusCode::FORBIDDEN,
                "MissingAuthenticationTokenException",
                "Request is missing Authentication Token",
            ));
        };
        let denied = authorizer(access_key_id, request).err()?;
        tracing::warn!(%denied, "access denied: the function's policy in the template does not allow this call");
        let service = self.service(request);
        // DynamoDB, Secrets Manager and EventBridge answer 400, the others 403.
        let status = match service {
            Service::DynamoDb | Service::DynamoDbStreams | Service::SecretsManager | Service::Events => {
                StatusCode::BAD_REQUEST
            }
            Service::Sqs | Service::Scheduler | Service::Outside => StatusCode::FORBIDDEN,
        };
        Some(service.error(status, "AccessDeniedException", &denied.to_string()))
    }
}
