//! What a request needs permission for: actions and resources, as the services' authorization references have them.

use std::borrow::Cow;

use bytes::Bytes;
use http::{Method, Request};
use serde::Deserialize;
use serde_json::Value as Json;

use crate::template::access::Access;
use crate::template::model::WebSocketApi;
use crate::template::percent_decode;
use crate::{ACCOUNT, REGION};

/// Everything that a request needs permission for; `None` if it is no request that is known here.
pub(super) fn needed(request: &Request<Bytes>, websocket: Option<&WebSocketApi>) -> Option<Vec<Access>> {
    let target = request.headers().get("x-amz-target").and_then(|value| value.to_str().ok());
    let all = match target {
        Some(target) => {
            let (service, operation) = target.rsplit_once('.')?;
            let body: Json = serde_json::from_slice(request.body()).ok()?;
            match service {
                "DynamoDB_20120810" => dynamodb(operation, &body)?,
                "DynamoDBStreams_20120810" => streams(operation, &body)?,
                "AmazonSQS" => sqs(operation, &body)?,
                "secretsmanager" => vec![secrets(operation, &body)?],
                "AWSEvents" => events(operation, &body)?,
                // CloudWatch's figures have no resource of their own.
                "GraniteServiceVersion20100801" => vec![Access::new(format!("cloudwatch:{operation}"), "*")],
                _ => return None,
            }
        }
        None if request.uri().path().contains("/@connections/") => vec![connection(request, websocket?)?],
        None => scheduler(request)?,
    };
    // Whatever a request does, it does to something: nothing to check would mean that everybody may.
    (!all.is_empty()).then_some(all)
}

/// A request for one action on one resource that its body names.
pub(super) struct Plain<'a> {
    /// `x-amz-target`: service and operation.
    pub(super) target: &'a str,
    /// The table or the queue, as the request names it.
    pub(super) resource: Cow<'a, str>,
}

/// The fields of a body that name a resource; the rest is skipped.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Names<'a> {
    #[serde(borrow)]
    table_name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    queue_url: Option<Cow<'a, str>>,
}

/// The request, if it is a plain one: no batch, no transaction, no index.
pub(super) fn plain(request: &Request<Bytes>) -> Option<Plain<'_>> {
    let target = request.headers().get("x-amz-target")?.to_str().ok()?;
    let names = || serde_json::from_slice::<Names<'_>>(request.body()).ok();
    let resource = match target.rsplit_once('.')? {
        ("DynamoDB_20120810", "GetItem" | "PutItem" | "UpdateItem" | "DeleteItem") => names()?.table_name?,
        ("AmazonSQS", "SendMessage" | "DeleteMessage" | "ReceiveMessage") => names()?.queue_url?,
        _ => return None,
    };
    Some(Plain { target, resource })
}

fn dynamodb(operation: &str, body: &Json) -> Option<Vec<Access>> {
    let action = format!("dynamodb:{operation}");
    let on_table = || Some(vec![Access::new(action.clone(), table_arn(text(body, "TableName")?))]);
    match operation {
        "GetItem"
        | "PutItem"
        | "UpdateItem"
        | "DeleteItem"
        | "CreateTable"
        | "DescribeTable"
        | "UpdateTable"
        | "DeleteTable"
        | "DescribeTimeToLive"
        | "UpdateTimeToLive"
        | "DescribeContinuousBackups"
        | "UpdateContinuousBackups" => on_table(),
        "Query" | "Scan" => match text(body, "IndexName") {
            Some(index) => {
                let resource = format!("{}/index/{index}", table_arn(text(body, "TableName")?));
                Some(vec![Access::new(action, resource)])
            }
            None => on_table(),
        },
        "BatchGetItem" | "BatchWriteItem" => {
            let tables = body.get("RequestItems")?.as_object()?.keys();
            Some(tables.map(|table| Access::new(action.clone(), table_arn(table))).collect())
        }
        // A transaction is allowed by what its parts are, not by its own name.
        "TransactGetItems" | "TransactWriteItems" => transaction(body),
        "ListTables" | "DescribeLimits" | "DescribeEndpoints" => Some(vec![Access::new(action, "*")]),
        "TagResource" | "UntagResource" | "ListTagsOfResource" => {
            Some(vec![Access::new(action, text(body, "ResourceArn")?)])
        }
        _ => None,
    }
}

fn transaction(body: &Json) -> Option<Vec<Access>> {
    let mut all = Vec::new();
    for item in body.get("TransactItems")?.as_array()? {
        let (kind, part) = item.as_object()?.iter().find(|(_, part)| !part.is_null())?;
        let action = match kind.as_str() {
            "Get" => "dynamodb:GetItem",
            "Put" => "dynamodb:PutItem",
            "Update" => "dynamodb:UpdateItem",
            "Delete" => "dynamodb:DeleteItem",
            "ConditionCheck" => "dynamodb:ConditionCheckItem",
            _ => return None,
        };
        let access = Access::new(action, table_arn(text(part, "TableName")?));
        if !all.contains(&access) {
            all.push(access);
        }
    }
    Some(all)
}

fn streams(operation: &str, body: &Json) -> Option<Vec<Access>> {
    let resource = match operation {
        "DescribeStream" | "GetShardIterator" => text(body, "StreamArn")?.to_owned(),
        // An iterator begins with its stream's ARN.
        "GetRecords" => {
            text(body, "ShardIterator")?.split('|').find(|part| part.starts_with("arn:")).unwrap_or("*").to_owned()
        }
        "ListStreams" => {
            text(body, "TableName").map_or_else(|| "*".to_owned(), |table| format!("{}/stream/*", table_arn(table)))
        }
        _ => return None,
    };
    Some(vec![Access::new(format!("dynamodb:{operation}"), resource)])
}

fn sqs(operation: &str, body: &Json) -> Option<Vec<Access>> {
    // A batch is allowed by the single action; there is no batch action.
    let single = operation.strip_suffix("Batch").unwrap_or(operation);
    let queue_arn = |name: &str| format!("arn:aws:sqs:{REGION}:{ACCOUNT}:{name}");
    let by_url = || text(body, "QueueUrl").and_then(|url| url.rsplit('/').next()).map(queue_arn);
    let mut all = Vec::new();
    let resource = match single {
        "SendMessage"
        | "ReceiveMessage"
        | "DeleteMessage"
        | "ChangeMessageVisibility"
        | "GetQueueAttributes"
        | "SetQueueAttributes"
        | "PurgeQueue"
        | "DeleteQueue"
        | "TagQueue"
        | "UntagQueue"
        | "ListQueueTags"
        | "ListDeadLetterSourceQueues" => by_url()?,
        "CreateQueue" | "GetQueueUrl" => queue_arn(text(body, "QueueName")?),
        "ListQueues" => "*".to_owned(),
        _ => return None,
    };
    all.insert(0, Access::new(format!("sqs:{single}"), resource));
    Some(all)
}

fn secrets(operation: &str, body: &Json) -> Option<Access> {
    if !matches!(operation, "GetSecretValue" | "DescribeSecret") {
        return None;
    }
    let id = text(body, "SecretId")?;
    // Policies are about the full ARN, by whatever name the caller asks.
    Some(Access::new(format!("secretsmanager:{operation}"), crate::template::secret_arn_of_id(id)))
}

/// Each bus of a call is a resource of its own.
fn events(operation: &str, body: &Json) -> Option<Vec<Access>> {
    if operation != "PutEvents" {
        return None;
    }
    let mut all = Vec::new();
    for entry in body.get("Entries")?.as_array()? {
        let bus = crate::template::event_bus_name(text(entry, "EventBusName").unwrap_or("default"));
        let access = Access::new("events:PutEvents", crate::template::event_bus_arn(bus));
        if !all.contains(&access) {
            all.push(access);
        }
    }
    Some(all)
}

/// `/[stage/]@connections/{id}`.
fn connection(request: &Request<Bytes>, api: &WebSocketApi) -> Option<Access> {
    let method = request.method();
    if ![Method::GET, Method::POST, Method::DELETE].contains(method) {
        return None;
    }
    let (before, id) = request.uri().path().split_once("/@connections/")?;
    let stage = before.trim_start_matches('/');
    let stage = if stage.is_empty() { api.stage.as_str() } else { stage };
    Some(Access::new(
        "execute-api:ManageConnections",
        format!("{}/{stage}/{method}/@connections/{id}", api.execute_arn),
    ))
}

fn scheduler(request: &Request<Bytes>) -> Option<Vec<Access>> {
    let uri = request.uri();
    let mut parts = uri.path().trim_matches('/').splitn(2, '/');
    let (section, name) = (parts.next()?, parts.next().map(percent_decode));
    let verb = match *request.method() {
        Method::POST => "Create",
        Method::GET => "Get",
        Method::PUT => "Update",
        Method::DELETE => "Delete",
        _ => return None,
    };
    let arn = |rest: String| format!("arn:aws:scheduler:{REGION}:{ACCOUNT}:{rest}");
    match (section, name) {
        ("schedules", None) if verb == "Get" => Some(vec![Access::new("scheduler:ListSchedules", "*")]),
        ("schedule-groups", None) if verb == "Get" => Some(vec![Access::new("scheduler:ListScheduleGroups", "*")]),
        ("schedule-groups", Some(name)) if verb != "Update" => {
            Some(vec![Access::new(format!("scheduler:{verb}ScheduleGroup"), arn(format!("schedule-group/{name}")))])
        }
        ("schedules", Some(name)) => {
            let body: Json = serde_json::from_slice(request.body()).unwrap_or_default();
            let in_query = uri
                .query()
                .into_iter()
                .flat_map(|query| query.split('&'))
                .find_map(|pair| pair.strip_prefix("groupName="));
            let group = text(&body, "GroupName")
                .map(str::to_owned)
                .or(in_query.map(percent_decode))
                .unwrap_or_else(|| "default".to_owned());
            let mut all =
                vec![Access::new(format!("scheduler:{verb}Schedule"), arn(format!("schedule/{group}/{name}")))];
            if matches!(verb, "Create" | "Update") {
                // Scheduler will act as this role, so the caller must be allowed to pass it.
                let mut pass = Access::new("iam:PassRole", text(body.get("Target")?, "RoleArn")?);
                pass.context.push(("iam:PassedToService", "scheduler.amazonaws.com".to_owned()));
                all.push(pass);
            }
            Some(all)
        }
        ("tags", Some(resource)) => {
            let action = match verb {
                "Get" => "ListTagsForResource",
                "Create" => "TagResource",
                "Delete" => "UntagResource",
                _ => return None,
            };
            Some(vec![Access::new(format!("scheduler:{action}"), resource)])
        }
        _ => None,
    }
}

/// A table may be given by name or by ARN.
fn table_arn(table: &str) -> String {
    if table.starts_with("arn:") {
        table.to_owned()
    } else {
        format!("arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/{table}")
    }
}

fn text<'a>(body: &'a Json, key: &str) -> Option<&'a str> {
    body.get(key)?.as_str()
}
