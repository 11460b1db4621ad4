//! What can go wrong between the SDK and a service.

use std::collections::BTreeMap;

use aws_smithy_runtime_api::client::result::ConnectorError;
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use crate::engine::events::event_bus_name;
use crate::engine::sqs::Sqs;
use crate::engine::{OutsideCall, Service};

/// A call, as fault injection sees it.
#[derive(Clone, Debug)]
pub struct Call {
    pub service: Service,
    /// Which operation, such as `UpdateItem`.
    pub operation: String,
    /// Its running number on this wire, from 1; an SDK retry is a call of its own.
    pub number: u64,
    path: String,
    body: Bytes,
    outside_resource: Option<String>,
}

impl Call {
    pub(super) fn new(service: Service, call: OutsideCall, number: u64, request: &Request<Bytes>) -> Self {
        let (path, body) = (request.uri().path().to_owned(), request.body().clone());
        let OutsideCall { operation, resource: outside_resource } = call;
        Self { service, operation, number, path, body, outside_resource }
    }

    /// The request's JSON; null if there is none.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The table, queue, schedule, secret, event bus or outside resource that the call names. A transaction or a
    /// batch gives its first table or bus.
    pub fn resource(&self) -> Option<String> {
        match self.service {
            Service::Scheduler => self.path.rsplit_once('/').map(|(_, name)| name.to_owned()),
            Service::Sqs => {
                let body = self.json();
                let name = body.get("QueueUrl").or_else(|| body.get("QueueName")).or_else(|| body.get("SourceArn"));
                name.and_then(Value::as_str).map(|name| Sqs::name_of(name).to_owned())
            }
            Service::DynamoDb | Service::DynamoDbStreams => self.tables().into_iter().next(),
            Service::SecretsManager => self.json().get("SecretId").and_then(Value::as_str).map(str::to_owned),
            Service::Events => {
                let body = self.json();
                let bus = body.get("Entries").and_then(|entries| entries.get(0)?.get("EventBusName")?.as_str());
                bus.map(|bus| event_bus_name(bus).to_owned())
            }
            Service::Outside => self.outside_resource.clone(),
        }
    }

    /// Every table that a DynamoDB call names, in the request's order.
    pub fn tables(&self) -> Vec<String> {
        let Named { table_name, request_items, transact_items } =
            serde_json::from_slice(&self.body).unwrap_or_default();
        let transacted =
            transact_items.into_iter().flat_map(BTreeMap::into_values).filter_map(|named| named.table_name);
        table_name.into_iter().chain(request_items.into_keys()).chain(transacted).collect()
    }
}

/// Where the tables stand in a DynamoDB request; the rest of it is passed over.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct Named {
    table_name: Option<String>,
    request_items: BTreeMap<String, IgnoredAny>,
    transact_items: Vec<BTreeMap<String, Named>>,
}

/// How an answer gets lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The connection broke.
    Io,
    /// It did not come in time.
    Timeout,
}

impl Loss {
    pub(super) fn error(self) -> ConnectorError {
        match self {
            Loss::Io => ConnectorError::io("the connection broke (injected)".into()),
            Loss::Timeout => ConnectorError::timeout("no answer in time (injected)".into()),
        }
    }
}

/// What can happen to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// The request never arrives; the caller sees a loss.
    NotApplied(Loss),
    /// The service does what was asked; the caller sees a loss.
    AppliedButLost(Loss),
    /// The service does what was asked; the caller sees its internal error.
    AppliedButServerError,
    /// The service refuses for now: `ProvisionedThroughputExceededException`, `RequestThrottled`,
    /// `ThrottlingException`, 429.
    Throttled,
    /// The service fails without doing anything.
    ServerError,
    /// Another transaction has the item: `TransactionCanceledException` with that reason for the first action, or
    /// `TransactionConflictException`. For DynamoDB's writes; any other call is let through.
    TransactionConflict,
    /// A read that is not strong is answered by a copy that is behind ([`crate::wire::Wire::with_replica`]). Any
    /// other call is let through.
    Stale,
    /// Of a batch whose entries have answers of their own (PutEvents, SendMessageBatch) every second entry is refused,
    /// with an error that may pass. Any other call is let through.
    PartlyApplied,
    /// The caller sees a timeout, and the request arrives when [`crate::wire::Wire::arrive`] lets it.
    Late,
    /// Nothing is done and no answer ever comes: the caller is to be dropped, as in a crash before the call.
    Stops,
    /// It is done and no answer ever comes: as in a crash right after the call.
    AppliedThenStops,
}

impl Fault {
    /// The answer that takes the place of the call, for the faults that keep it from the service.
    pub(super) fn instead(self, call: &Call) -> Option<Result<Response<Bytes>, ConnectorError>> {
        match self {
            Fault::NotApplied(loss) => Some(Err(loss.error())),
            Fault::Throttled => Some(Ok(throttled(call))),
            Fault::ServerError => Some(Ok(server_error(call))),
            Fault::TransactionConflict => conflict(call).map(Ok),
            Fault::None
            | Fault::AppliedButLost(_)
            | Fault::AppliedButServerError
            | Fault::Stale
            | Fault::PartlyApplied
            | Fault::Late
            | Fault::Stops
            | Fault::AppliedThenStops => None,
        }
    }
}

fn throttled(call: &Call) -> Response<Bytes> {
    let (status, code) = match call.service {
        Service::DynamoDb | Service::DynamoDbStreams => {
            (StatusCode::BAD_REQUEST, "ProvisionedThroughputExceededException")
        }
        Service::Sqs => (StatusCode::BAD_REQUEST, "RequestThrottled"),
        Service::Scheduler => (StatusCode::TOO_MANY_REQUESTS, "ThrottlingException"),
        Service::SecretsManager | Service::Events => (StatusCode::BAD_REQUEST, "ThrottlingException"),
        Service::Outside => (StatusCode::TOO_MANY_REQUESTS, "FREQUENCY_LIMITED"),
    };
    call.service.error(status, code, "Rate exceeded (injected)")
}

pub(super) fn server_error(call: &Call) -> Response<Bytes> {
    let code = match call.service {
        Service::DynamoDb | Service::DynamoDbStreams => "InternalServerError",
        Service::Sqs => "InternalError",
        Service::Scheduler => "InternalServerException",
        Service::SecretsManager => "InternalServiceError",
        Service::Events => "InternalException",
        Service::Outside => "SYSTEM_ERROR",
    };
    call.service.error(StatusCode::INTERNAL_SERVER_ERROR, code, "Internal failure (injected)")
}

fn conflict(call: &Call) -> Option<Response<Bytes>> {
    const ONGOING: &str = "Transaction is ongoing for the item";
    match (call.service, call.operation.as_str()) {
        (Service::DynamoDb, "TransactWriteItems") => {
            let actions = call.json().get("TransactItems").and_then(Value::as_array).map_or(1, Vec::len);
            let mut reasons = vec![json!({"Code": "TransactionConflict", "Message": ONGOING})];
            reasons.resize_with(actions.max(1), || json!({"Code": "None"}));
            let codes: Vec<&str> = reasons.iter().filter_map(|reason| reason.get("Code")?.as_str()).collect();
            let body = json!({
                "__type": "com.amazonaws.dynamodb.v20120810#TransactionCanceledException",
                "Message": format!(
                    "Transaction cancelled, please refer cancellation reasons for specific reasons [{}]",
                    codes.join(", ")
                ),
                "CancellationReasons": reasons,
            });
            let mut response = Response::new(Bytes::from(body.to_string()));
            *response.status_mut() = StatusCode::BAD_REQUEST;
            Some(response)
        }
        (Service::DynamoDb, "PutItem" | "UpdateItem" | "DeleteItem") => {
            Some(call.service.error(StatusCode::BAD_REQUEST, "TransactionConflictException", ONGOING))
        }
        _ => None,
    }
}
