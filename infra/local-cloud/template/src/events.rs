//! A function's `Events`: what invokes it, and what SAM lets it do because of that.

use super::error::{Read, did_you_mean, wrong};
use super::fields::{Fields, Shape, entries, text};
use super::known::{FunctionName, Known};
use super::mappings::{self, Mapping};
use super::model::{EventSource, Statement, Throttle};
use super::yaml::{Entry, Node};
use super::{policy, schedules};

const EVENT: Shape = Shape::new("an event", &["Type", "Properties"]);
const TYPES: &[&str] = &["SQS", "DynamoDB", "ScheduleV2", "HttpApi"];

const HTTP: Shape =
    Shape::new("an HttpApi event", &["ApiId", "Method", "Path", "Auth", "PayloadFormatVersion", "RouteSettings"])
        .refused(&[("TimeoutInMillis", "set the function's Timeout: the gateway waits 30 seconds")]);
const AUTH: Shape = Shape::new("Auth of an event", &["Authorizer", "AuthorizationScopes"]);
/// Throttling of a stage or a route.
pub(super) const ROUTE_SETTINGS: Shape = Shape::new("route settings", &["ThrottlingBurstLimit", "ThrottlingRateLimit"])
    // Metrics and logs of the gateway.
    .without_effect(&["DetailedMetricsEnabled", "LoggingLevel", "DataTraceEnabled"]);

/// A route that an event makes.
pub(super) struct HttpEvent {
    pub(super) line: usize,
    /// The API's id; `None` is the one that SAM makes.
    pub(super) api: Option<String>,
    pub(super) method: String,
    pub(super) path: String,
    pub(super) function: String,
    /// `NONE`, or an authorizer's name; `None` is the API's default.
    pub(super) authorizer: Option<String>,
    pub(super) scopes: Option<Vec<String>>,
    pub(super) throttle: Option<Throttle>,
}

/// What a function's events come to.
#[derive(Default)]
pub(super) struct Events {
    pub(super) sources: Vec<EventSource>,
    pub(super) routes: Vec<HttpEvent>,
    pub(super) added: Vec<Statement>,
}

/// Reads a function's events.
pub(super) fn read(known: &Known, function: &FunctionName, fields: &Fields) -> Read<Events> {
    let mut events = Events::default();
    let Some(section) = fields.get("Events") else { return Ok(events) };
    for entry in entries(section, "Events")? {
        events.read_one(known, function, entry)?;
    }
    Ok(events)
}

impl Events {
    fn read_one(&mut self, known: &Known, function: &FunctionName, entry: &Entry) -> Read<()> {
        let event = Fields::read(&entry.node, &EVENT)?;
        let empty = Node::map(entry.line, Vec::new());
        let properties = event.get("Properties").unwrap_or(&empty);
        let made_name = || format!("{}-{}{}", known.stack_name, function.id, entry.key);
        match event.need_text("Type")? {
            "SQS" => {
                let fields = Fields::read(properties, &mappings::QUEUE_EVENT)?;
                self.added.push(policy::sam("an SQS event", SQS_ACTIONS, "*"));
                self.mapping(mappings::queue(known, &fields)?);
            }
            "DynamoDB" => {
                let fields = Fields::read(properties, &mappings::STREAM_EVENT)?;
                self.added.push(policy::sam("a DynamoDB event", STREAM_ACTIONS, "*"));
                if let Some(destination) = mappings::on_failure(known, &fields)?.filter(|destination| destination.typed)
                {
                    self.added.push(policy::sam(
                        "a DynamoDB event's destination",
                        &["sqs:SendMessage"],
                        &destination.arn,
                    ));
                }
                self.mapping(mappings::stream(known, &fields)?);
            }
            "ScheduleV2" => {
                let fields = Fields::read(properties, &schedules::SCHEDULER_EVENT)?;
                self.sources.push(EventSource::Schedule(schedules::event(known, &fields, made_name())?));
            }
            "HttpApi" => self.routes.push(http(properties, entry.line, &function.name)?),
            other => {
                let hint = did_you_mean(other, TYPES.iter().copied());
                let line = event.line_of("Type");
                return wrong(
                    line,
                    format!("events of type {other} are not known here{hint}; use {}", TYPES.join(", ")),
                );
            }
        }
        Ok(())
    }

    /// A mapping that is switched off invokes nothing.
    fn mapping(&mut self, mapping: Mapping) {
        self.sources.extend(mapping.enabled.then_some(mapping.source));
    }
}

/// What AWS demands of the function's role for a queue, and SAM adds (AWSLambdaSQSQueueExecutionRole).
pub(super) const SQS_ACTIONS: &[&str] = &["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"];
/// What AWS demands of the function's role for a stream, and SAM adds (AWSLambdaDynamoDBExecutionRole).
pub(super) const STREAM_ACTIONS: &[&str] =
    &["dynamodb:DescribeStream", "dynamodb:GetRecords", "dynamodb:GetShardIterator", "dynamodb:ListStreams"];

fn http(properties: &Node, line: usize, function: &str) -> Read<HttpEvent> {
    let fields = Fields::read(properties, &HTTP)?;
    fields.one_of("PayloadFormatVersion", &["2.0"])?;
    let (method, path) = match (fields.text("Method")?, fields.text("Path")?) {
        (Some(method), Some(path)) => (method.to_ascii_uppercase(), path.to_owned()),
        (None, None) => ("ANY".to_owned(), "$default".to_owned()),
        _ => return wrong(fields.line, "an HttpApi event has both Method and Path or neither; add the other"),
    };
    check_route(&method, &path, fields.line_of("Path"))?;
    let auth = fields.fields("Auth", &AUTH)?;
    Ok(HttpEvent {
        line,
        api: fields.text("ApiId")?.map(str::to_owned),
        method,
        path,
        function: function.to_owned(),
        authorizer: auth.map(|auth| auth.text("Authorizer")).transpose()?.flatten().map(str::to_owned),
        scopes: match auth {
            Some(auth) if auth.get("AuthorizationScopes").is_some() => Some(auth.texts("AuthorizationScopes")?),
            _ => None,
        },
        throttle: fields.get("RouteSettings").map(throttle).transpose()?.flatten(),
    })
}

/// Checks a method and a path as API Gateway does.
pub(super) fn check_route(method: &str, path: &str, line: usize) -> Read<()> {
    const METHODS: &[&str] = &["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "ANY"];
    if !METHODS.contains(&method) {
        let hint = did_you_mean(method, METHODS.iter().copied());
        return wrong(line, format!("{method} is no method of a route{hint}; use {}", METHODS.join(", ")));
    }
    let parts = || path.split('/').skip(1);
    let whole = |part: &str| {
        let named = part.strip_prefix('{').and_then(|part| part.strip_suffix('}'));
        named.map_or(!part.contains(['{', '}']), |name| !name.trim_end_matches('+').is_empty())
    };
    if path != "$default" && (!path.starts_with('/') || !parts().all(whole)) {
        return wrong(line, format!("{path} is no path of a route; write /orders/{{orderId}}"));
    }
    let greedy = parts().position(|part| part.ends_with("+}"));
    if greedy.is_some_and(|at| at + 1 != parts().count()) {
        return wrong(line, format!("{path} has a {{name+}} before its end; put it last"));
    }
    Ok(())
}

/// Reads throttling; AWS wants both numbers or neither.
pub(super) fn throttle(node: &Node) -> Read<Option<Throttle>> {
    let fields = Fields::read(node, &ROUTE_SETTINGS)?;
    let rate = fields.number("ThrottlingRateLimit", 0.0..=1_000_000.0)?;
    let burst = fields.number("ThrottlingBurstLimit", 0..=1_000_000)?;
    match (rate, burst) {
        (Some(rate), Some(burst)) => Ok(Some(Throttle { rate, burst })),
        (None, None) => Ok(None),
        _ => wrong(
            fields.line,
            "throttling has a rate and a burst; give both ThrottlingRateLimit and ThrottlingBurstLimit",
        ),
    }
}

/// A list that may be written as one text.
pub(super) fn one_or_more(node: &Node, key: &str) -> Read<Vec<String>> {
    match node.as_list() {
        Some(items) => items.iter().map(|item| text(item, key).map(str::to_owned)).collect(),
        None => text(node, key).map(|text| vec![text.to_owned()]),
    }
}
