//! What a template deploys, fully resolved: no parameter, intrinsic function or default is left in it.
//! The reader makes it; the engines, the host, the event sources, the gateway and the permission check use it.

use std::collections::BTreeMap;
use std::time::Duration;

/// Everything that one template deploys.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stack {
    /// `AWS::AccountId`.
    pub account: String,
    /// Lambda functions, in the template's order.
    pub functions: Vec<Function>,
    /// DynamoDB tables.
    pub tables: Vec<Table>,
    /// SQS queues.
    pub queues: Vec<Queue>,
    pub secrets: Vec<Secret>,
    /// EventBridge's buses, by name.
    pub event_buses: Vec<String>,
    /// EventBridge Scheduler groups, by name.
    pub schedule_groups: Vec<String>,
    /// Roles that are not a function's own, such as the one Scheduler assumes.
    pub roles: Vec<Role>,
    pub http_api: Option<HttpApi>,
    pub websocket_api: Option<WebSocketApi>,
    /// The template's outputs.
    pub outputs: BTreeMap<String, String>,
}

/// A Lambda function.
#[derive(Clone, Debug, PartialEq)]
pub struct Function {
    /// Its logical id in the template.
    pub logical_id: String,
    pub name: String,
    pub arn: String,
    /// The name of the bootstrap's cargo binary.
    pub binary: String,
    /// An invocation is killed after this.
    pub timeout: Duration,
    /// `MemorySize`; told to the function, not enforced.
    pub memory_mb: u32,
    /// At most so many environments at once.
    pub reserved_concurrency: Option<u32>,
    /// Environment variables.
    pub environment: BTreeMap<String, String>,
    /// What it may call.
    pub statements: Vec<Statement>,
    /// What invokes it, beside the gateway.
    pub sources: Vec<EventSource>,
    /// How asynchronous invocations (Scheduler's, for one) are retried.
    pub asynchronous: AsyncConfig,
}

impl Function {
    /// Whether `name` is the function's name, its logical id or its binary's name.
    pub fn is_called(&self, name: &str) -> bool {
        [&self.name, &self.logical_id, &self.binary].into_iter().any(|known| known == name)
    }
}

/// `EventInvokeConfig` and `DeadLetterQueue`.
#[derive(Clone, Debug, PartialEq)]
pub struct AsyncConfig {
    /// Retries after the first try: 0, 1 or 2.
    pub retries: u32,
    /// An event older than this is given up.
    pub maximum_age: Duration,
    /// ARN of the queue that gets an event given up: an `OnFailure` destination (a record about the event) …
    pub on_failure: Option<String>,
    /// … or the function's dead-letter queue (the event itself).
    pub dead_letter_queue: Option<String>,
}

/// What invokes a function by itself.
#[derive(Clone, Debug, PartialEq)]
pub enum EventSource {
    /// Messages of a queue.
    Queue(QueueSource),
    /// Changes of a table.
    Stream(StreamSource),
    /// A time.
    Schedule(ScheduleSource),
}

/// An SQS event source mapping.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueSource {
    pub queue_arn: String,
    /// At most so many messages in one invocation.
    pub batch_size: u32,
    /// Wait this long for a batch to fill.
    pub window: Duration,
    /// Whether the answer's `batchItemFailures` says which messages failed.
    pub partial_responses: bool,
    /// At most so many invocations at once.
    pub maximum_concurrency: Option<u32>,
}

/// A DynamoDB stream event source mapping.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamSource {
    /// The table's name.
    pub table: String,
    /// At most so many records in one invocation.
    pub batch_size: u32,
    /// Wait this long for a batch to fill.
    pub window: Duration,
    /// `TRIM_HORIZON` (from the stream's start) or `LATEST`.
    pub from_start: bool,
    /// Filter patterns (EventBridge's pattern language); a record passes if any of them matches. Empty: all pass.
    pub filters: Vec<serde_json::Value>,
    /// Retries of a batch; `None` is until the records expire.
    pub retries: Option<u32>,
    /// Halve a failing batch before the next try.
    pub bisect: bool,
    /// Whether the answer's `batchItemFailures` says where to go on.
    pub partial_responses: bool,
    /// ARN of the queue that receives a record of a batch that was given up.
    pub on_failure: Option<String>,
}

/// A recurring schedule of the template.
#[derive(Clone, Debug, PartialEq)]
pub struct ScheduleSource {
    /// The schedule's name.
    pub name: String,
    /// `rate(…)` or `at(…)`.
    pub expression: String,
    /// The event; `None` is what the service sends by itself.
    pub input: Option<String>,
    /// Retries of an invocation that the function's service refused.
    pub retries: u32,
    /// ARN of the queue for what was given up.
    pub dead_letter_queue: Option<String>,
    /// Whether it fires.
    pub enabled: bool,
}

/// A DynamoDB table.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    pub logical_id: String,
    pub name: String,
    pub arn: String,
    /// The `CreateTable` request as JSON, as the service takes it.
    pub create: serde_json::Value,
    /// The attribute that says when an item may be deleted.
    pub ttl_attribute: Option<String>,
    /// The ARN of its stream, if it has one.
    pub stream_arn: Option<String>,
}

/// An SQS queue.
#[derive(Clone, Debug, PartialEq)]
pub struct Queue {
    pub logical_id: String,
    pub name: String,
    pub arn: String,
    /// Its URL, as functions get it.
    pub url: String,
    /// Its attributes as `CreateQueue` takes them (`VisibilityTimeout`, `RedrivePolicy`, …).
    pub attributes: BTreeMap<String, String>,
}

/// A secret of Secrets Manager.
#[derive(Clone, Debug, PartialEq)]
pub struct Secret {
    pub logical_id: String,
    pub name: String,
    /// Its full ARN.
    pub arn: String,
    /// What it holds at first.
    pub value: SecretValue,
}

/// What a secret holds at first.
#[derive(Clone, Debug, PartialEq)]
pub enum SecretValue {
    /// `SecretString`.
    Text(String),
    /// `GenerateSecretString`: random letters and digits.
    Generated {
        length: u32,
        /// A JSON object and the key in it under which they are put.
        into: Option<(String, String)>,
    },
    /// No value yet.
    None,
}

/// A role that some service assumes.
#[derive(Clone, Debug, PartialEq)]
pub struct Role {
    pub logical_id: String,
    pub arn: String,
    /// What it may do.
    pub statements: Vec<Statement>,
}

/// One statement of a policy.
#[derive(Clone, Debug, PartialEq)]
pub struct Statement {
    /// Whether it allows or denies.
    pub effect: Effect,
    /// Action patterns, such as `dynamodb:PutItem` or `sqs:*`.
    pub actions: Vec<String>,
    /// Resource patterns.
    pub resources: Vec<String>,
    /// Conditions: operator, key, values.
    pub conditions: Vec<(String, String, Vec<String>)>,
    /// Where it comes from.
    pub origin: Origin,
}

/// Where a statement comes from.
#[derive(Clone, Debug, PartialEq)]
pub enum Origin {
    /// Written in the template, on this line.
    Written(usize),
    /// Added by SAM for an event source, a destination or a dead-letter queue, as it does when it deploys.
    Sam(&'static str),
    /// One of AWS's own managed policies, by name.
    Managed(String),
}

/// Allow or Deny.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    Allow,
    /// Deny; wins over any Allow.
    Deny,
}

/// The HTTP API.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HttpApi {
    pub logical_id: String,
    /// The stage, `$default` unless the template says otherwise.
    pub stage: String,
    pub routes: Vec<Route>,
    /// JWT authorizers by name.
    pub authorizers: BTreeMap<String, JwtAuthorizer>,
    /// CORS, if configured.
    pub cors: Option<Cors>,
    /// The stage's throttling of every route …
    pub throttle: Option<Throttle>,
    /// … and of single ones, by route key (`POST /buy`).
    pub route_throttles: BTreeMap<String, Throttle>,
}

/// A route of the HTTP API.
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    /// `GET`, …, or `ANY`.
    pub method: String,
    /// `/orders/{orderId}`, or `$default`.
    pub path: String,
    /// The function's name.
    pub function: String,
    /// Which authorizer checks it; `None` is open to everybody.
    pub authorizer: Option<String>,
    /// A token needs one of these scopes, if there are any.
    pub scopes: Vec<String>,
}

impl Route {
    /// `POST /buy`, or `$default`.
    pub fn key(&self) -> String {
        route_key(&self.method, &self.path)
    }
}

/// The key of a route with this method and path.
pub fn route_key(method: &str, path: &str) -> String {
    if path == "$default" { path.to_owned() } else { format!("{method} {path}") }
}

/// A JWT authorizer.
#[derive(Clone, Debug, PartialEq)]
pub struct JwtAuthorizer {
    /// `iss` of a good token.
    pub issuer: String,
    /// `aud` (or `client_id`) of a good token is one of these.
    pub audience: Vec<String>,
}

/// CORS of the HTTP API.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cors {
    /// Origins, or `*`.
    pub origins: Vec<String>,
    /// Methods, or `*`.
    pub methods: Vec<String>,
    /// Request headers, or `*`.
    pub headers: Vec<String>,
    /// Response headers a page may read.
    pub expose_headers: Vec<String>,
    /// Whether credentials may be sent.
    pub credentials: bool,
    /// How long a preflight may be kept.
    pub max_age: Option<Duration>,
}

/// A token bucket.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Throttle {
    /// Requests a second.
    pub rate: f64,
    /// Requests at once.
    pub burst: u32,
}

/// The WebSocket API.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WebSocketApi {
    pub logical_id: String,
    pub stage: String,
    /// The ARN prefix that `execute-api:ManageConnections` names: `arn:aws:execute-api:region:account:api-id`.
    pub execute_arn: String,
    /// Function names by route key (`$connect`, `$disconnect`, `$default`, others).
    pub routes: BTreeMap<String, String>,
    /// The expression that picks a route, such as `$request.body.action`.
    pub route_selection: String,
    /// The function that authorises `$connect` (a REQUEST authorizer), with where the identity is looked for.
    pub connect_authorizer: Option<RequestAuthorizer>,
}

/// A Lambda REQUEST authorizer of the WebSocket API.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestAuthorizer {
    /// The function's name.
    pub function: String,
    /// Identity sources, such as `route.request.querystring.token`.
    pub identity: Vec<String>,
}
