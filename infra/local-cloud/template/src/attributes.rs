//! What `!Ref` and `!GetAtt` yield: the same kind of value as in AWS, and the same one at every start.
//!
//! A resource without a name of its own is called `STACK-LogicalId` (AWS adds random letters). Ids are made of the
//! logical id, so that a log line can be traced back to the template.

use super::STREAM_LABEL;
use super::error::{Read, did_you_mean, wrong};
use super::fields::text;
use super::inert;
use super::scope::{Resource, Scope};
use crate::{ACCOUNT, REGION};

/// The value of `!Ref` (no attribute) or `!GetAtt`.
pub(super) fn of(
    scope: &Scope,
    resource: &Resource,
    attribute: Option<&str>,
    line: usize,
    depth: usize,
) -> Read<String> {
    let id = resource.id.as_str();
    let kind = resource.kind.as_str();
    let name = || name_at(scope, resource, depth);
    let value = match (kind, attribute) {
        ("AWS::Serverless::Function", None) => name()?,
        ("AWS::Serverless::Function", Some("Arn")) => function_arn(&name()?),
        ("AWS::DynamoDB::Table", None) => name()?,
        ("AWS::DynamoDB::Table", Some("Arn")) => table_arn(&name()?),
        ("AWS::DynamoDB::Table", Some("StreamArn")) if resource.properties.get("StreamSpecification").is_some() => {
            stream_arn(&name()?)
        }
        ("AWS::DynamoDB::Table", Some("StreamArn")) => {
            return wrong(line, format!("{id} has no stream; give it a StreamSpecification"));
        }
        ("AWS::SQS::Queue", None | Some("QueueUrl")) => queue_url(&name()?),
        ("AWS::SQS::Queue", Some("Arn")) => queue_arn(&name()?),
        ("AWS::SQS::Queue", Some("QueueName")) => name()?,
        ("AWS::SecretsManager::Secret", None | Some("Id")) => super::secret_arn(&name()?),
        ("AWS::Events::EventBus", None | Some("Name")) => name()?,
        ("AWS::Events::EventBus", Some("Arn")) => super::event_bus_arn(&name()?),
        ("AWS::IAM::Role", None) => name()?,
        ("AWS::IAM::Role", Some("Arn")) => role_arn(&name()?),
        ("AWS::IAM::Role", Some("RoleId")) => id.to_owned(),
        ("AWS::Scheduler::ScheduleGroup", None) => name()?,
        ("AWS::Scheduler::ScheduleGroup", Some("Arn")) => {
            format!("arn:aws:scheduler:{REGION}:{ACCOUNT}:schedule-group/{}", name()?)
        }
        ("AWS::Serverless::HttpApi" | "AWS::ApiGatewayV2::Api", None | Some("ApiId")) => api_id(id),
        ("AWS::Serverless::HttpApi" | "AWS::ApiGatewayV2::Api", Some("ApiEndpoint")) => {
            let web_socket = property_at(scope, resource, "ProtocolType", depth)?.as_deref() == Some("WEBSOCKET");
            let scheme = if web_socket { "wss" } else { "https" };
            format!("{scheme}://{}.execute-api.{REGION}.amazonaws.com", api_id(id))
        }
        ("AWS::ApiGatewayV2::Stage", None) => name()?,
        ("AWS::ApiGatewayV2::Route" | "AWS::ApiGatewayV2::Integration" | "AWS::ApiGatewayV2::Authorizer", None)
        | ("AWS::ApiGatewayV2::Authorizer", Some("AuthorizerId"))
        | ("AWS::Lambda::Permission", None) => id.to_owned(),
        _ => match inert::find(kind) {
            Some(inert) => match inert.attribute(attribute, &name()?) {
                Some(value) => value,
                None => return unknown(resource, attribute, line),
            },
            None => return unknown(resource, attribute, line),
        },
    };
    Ok(value)
}

fn unknown(resource: &Resource, attribute: Option<&str>, line: usize) -> Read<String> {
    let (id, kind) = (&resource.id, &resource.kind);
    let Some(attribute) = attribute else {
        return wrong(line, format!("!Ref of {id} ({kind}) is not known here; refer to something else"));
    };
    let hint = did_you_mean(attribute, ["Arn", "StreamArn", "QueueName", "QueueUrl", "ApiEndpoint", "ApiId"]);
    wrong(line, format!("{id} ({kind}) has no attribute {attribute}{hint}; correct it"))
}

/// The name of a resource: its own, or made from its logical id.
pub(super) fn name(scope: &Scope, resource: &Resource) -> Read<String> {
    name_at(scope, resource, 0)
}

fn name_at(scope: &Scope, resource: &Resource, depth: usize) -> Read<String> {
    let key = match resource.kind.as_str() {
        "AWS::Serverless::Function" => "FunctionName",
        "AWS::DynamoDB::Table" => "TableName",
        "AWS::SQS::Queue" => "QueueName",
        "AWS::IAM::Role" => "RoleName",
        "AWS::ApiGatewayV2::Stage" => "StageName",
        kind => inert::find(kind).map_or("Name", |inert| inert.name),
    };
    let own = property_at(scope, resource, key, depth)?;
    Ok(own.unwrap_or_else(|| scope.made_name(&resource.id)))
}

fn property_at(scope: &Scope, resource: &Resource, key: &str, depth: usize) -> Read<Option<String>> {
    let Some(node) = resource.properties.get(key) else { return Ok(None) };
    match scope.resolve_at(node, depth + 1)? {
        Some(value) => text(&value, key).map(|text| Some(text.to_owned())),
        None => Ok(None),
    }
}

/// An API's id: the logical id, in the small letters that API Gateway uses.
pub(super) fn api_id(logical_id: &str) -> String {
    logical_id.to_ascii_lowercase()
}

pub(super) fn function_arn(name: &str) -> String {
    format!("arn:aws:lambda:{REGION}:{ACCOUNT}:function:{name}")
}

pub(super) fn table_arn(name: &str) -> String {
    format!("arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/{name}")
}

pub(super) fn stream_arn(table: &str) -> String {
    format!("{}/stream/{STREAM_LABEL}", table_arn(table))
}

pub(super) fn queue_arn(name: &str) -> String {
    format!("arn:aws:sqs:{REGION}:{ACCOUNT}:{name}")
}

pub(super) fn queue_url(name: &str) -> String {
    format!("http://sqs.{REGION}.localhost/{ACCOUNT}/{name}")
}

pub(super) fn role_arn(name: &str) -> String {
    format!("arn:aws:iam::{ACCOUNT}:role/{name}")
}
