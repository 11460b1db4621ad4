//! Answers in the words of the service: bodies, status codes and errors as the AWS SDK reads them.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode};
use serde_json::{Value, json};

/// What a call cost, in DynamoDB's units. [`super::Cloud::call`] leaves it in the response's extensions.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Consumed {
    pub read_units: f64,
    /// Write units, of the table and its indexes.
    pub write_units: f64,
}

/// A service that the engines play.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Service {
    DynamoDb,
    /// DynamoDB Streams.
    DynamoDbStreams,
    Sqs,
    /// EventBridge Scheduler.
    Scheduler,
    SecretsManager,
    /// EventBridge.
    Events,
    /// A service outside AWS that is called over the same wire ([`super::OutsideService`]).
    Outside,
}

impl Service {
    /// The AWS service and the operation that a request is for; `None` if it is for none of them.
    pub fn of<B>(request: &http::Request<B>) -> Option<(Service, String)> {
        if let Some(target) = request.headers().get("x-amz-target") {
            let (prefix, operation) = target.to_str().ok()?.split_once('.')?;
            let service = match prefix {
                "DynamoDB_20120810" => Service::DynamoDb,
                "DynamoDBStreams_20120810" => Service::DynamoDbStreams,
                "AmazonSQS" => Service::Sqs,
                "secretsmanager" => Service::SecretsManager,
                "AWSEvents" => Service::Events,
                _ => return None,
            };
            return Some((service, operation.to_owned()));
        }
        super::scheduler::operation_of(request.method(), request.uri().path())
            .map(|operation| (Service::Scheduler, operation.to_owned()))
    }

    /// What IAM calls it.
    pub fn prefix(self) -> &'static str {
        match self {
            Service::DynamoDb | Service::DynamoDbStreams => "dynamodb",
            Service::Sqs => "sqs",
            Service::Scheduler => "scheduler",
            Service::SecretsManager => "secretsmanager",
            Service::Events => "events",
            Service::Outside => "outside",
        }
    }

    /// An error in this service's own format.
    pub fn error(self, status: StatusCode, code: &str, message: &str) -> Response<Bytes> {
        match self {
            Service::DynamoDb | Service::DynamoDbStreams => {
                let namespace = match code {
                    "ValidationException" => "com.amazon.coral.validate",
                    "SerializationException"
                    | "UnknownOperationException"
                    | "AccessDeniedException"
                    | "MissingAuthenticationTokenException"
                    | "ThrottlingException" => "com.amazon.coral.service",
                    _ => "com.amazonaws.dynamodb.v20120810",
                };
                let body = json!({"__type": format!("{namespace}#{code}"), "message": message});
                respond(status, "application/x-amz-json-1.0", &body)
            }
            Service::Sqs => {
                let body = json!({"__type": format!("com.amazonaws.sqs#{code}"), "message": message});
                let mut response = respond(status, "application/x-amz-json-1.0", &body);
                let fault = if status.is_server_error() { "Receiver" } else { "Sender" };
                let legacy = legacy_sqs_code(code);
                if let Ok(value) = HeaderValue::from_str(&format!("{legacy};{fault}")) {
                    response.headers_mut().insert("x-amzn-query-error", value);
                }
                response
            }
            Service::Scheduler => {
                let mut response = respond(status, "application/json", &json!({"Message": message}));
                if let Ok(value) = HeaderValue::from_str(code) {
                    response.headers_mut().insert("x-amzn-errortype", value);
                }
                response
            }
            Service::SecretsManager | Service::Events => {
                respond(status, "application/x-amz-json-1.1", &json!({"__type": code, "Message": message}))
            }
            Service::Outside => respond(status, "application/json", &json!({"code": code, "message": message})),
        }
    }
}

/// Codes that SQS had before its JSON protocol, which it still sends along for old clients.
fn legacy_sqs_code(code: &str) -> &str {
    match code {
        "QueueDoesNotExist" => "AWS.SimpleQueueService.NonExistentQueue",
        "QueueNameExists" => "QueueAlreadyExists",
        "EmptyBatchRequest" => "AWS.SimpleQueueService.EmptyBatchRequest",
        "TooManyEntriesInBatchRequest" => "AWS.SimpleQueueService.TooManyEntriesInBatchRequest",
        "BatchEntryIdsNotDistinct" => "AWS.SimpleQueueService.BatchEntryIdsNotDistinct",
        "BatchRequestTooLong" => "AWS.SimpleQueueService.BatchRequestTooLong",
        "InvalidBatchEntryId" => "AWS.SimpleQueueService.InvalidBatchEntryId",
        "MessageNotInflight" => "AWS.SimpleQueueService.MessageNotInflight",
        "PurgeQueueInProgress" => "AWS.SimpleQueueService.PurgeQueueInProgress",
        "UnsupportedOperation" => "AWS.SimpleQueueService.UnsupportedOperation",
        other => other,
    }
}

/// A JSON answer.
pub(crate) fn respond(status: StatusCode, content_type: &'static str, body: &Value) -> Response<Bytes> {
    respond_text(status, content_type, body.to_string())
}

/// An answer whose JSON is already written out.
pub(crate) fn respond_text(status: StatusCode, content_type: &'static str, body: String) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    if let Ok(value) = HeaderValue::from_str(&super::random_id()) {
        headers.insert("x-amzn-requestid", value);
    }
    response
}
