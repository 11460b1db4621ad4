//! Lambda functions, as SAM writes them.

use std::collections::BTreeMap;
use std::time::Duration;

use super::error::{Read, wrong};
use super::events::{self, HttpEvent};
use super::fields::{Fields, Shape, entries, text};
use super::known::{FunctionName, Known};
use super::mappings;
use super::model::{AsyncConfig, Function, Statement};
use super::policy;
use super::scope::{Resource, Scope};
use super::yaml::{Node, Value};

const FUNCTION: Shape = Shape::new(
    "AWS::Serverless::Function",
    &[
        "FunctionName",
        "Runtime",
        "Handler",
        "CodeUri",
        "PackageType",
        "Timeout",
        "MemorySize",
        "Architectures",
        "ReservedConcurrentExecutions",
        "Environment",
        "Policies",
        "Role",
        "Events",
        "EventInvokeConfig",
        "DeadLetterQueue",
        "Tracing",
        "LoggingConfig",
    ],
)
// What describes, files or encrypts a function, how it is rolled out, and how it is kept warm: here there is one
// version of it, and its environments start when they are needed.
.without_effect(&[
    "Description",
    "Tags",
    "PropagateTags",
    "EphemeralStorage",
    "KmsKeyArn",
    "RolePath",
    "AssumeRolePolicyDocument",
    "RuntimeManagementConfig",
    "RecursiveLoop",
])
.refused(&[
    ("AutoPublishAlias", "there is one version of a function here: leave it out, or put it behind a condition"),
    ("DeploymentPreference", "there is one version of a function here: leave it out, or put it behind a condition"),
    (
        "ProvisionedConcurrencyConfig",
        "there is one version of a function here: leave it out, or put it behind a condition",
    ),
    ("PermissionsBoundary", "write out only what is needed in Policies"),
    ("InlineCode", "functions here are bootstrap binaries: give CodeUri"),
    ("ImageUri", "functions here are bootstrap binaries: give CodeUri"),
    ("ImageConfig", "functions here are bootstrap binaries: give CodeUri"),
    ("Layers", "a bootstrap binary carries what it needs"),
    ("VpcConfig", "functions here have no network of their own"),
    ("FileSystemConfigs", "functions here have no file system of their own"),
    ("FunctionUrlConfig", "use an HttpApi event"),
    ("SnapStart", "it is for managed runtimes"),
]);

const BUILD: Shape = Shape::new("BuildProperties", &["Binary"]);
const ENVIRONMENT: Shape = Shape::new("Environment", &["Variables"]);
const INVOKE: Shape =
    Shape::new("EventInvokeConfig", &["MaximumEventAgeInSeconds", "MaximumRetryAttempts", "DestinationConfig"]);
const DEAD_LETTER: Shape = Shape::new("DeadLetterQueue", &["Type", "TargetArn"]);
const LOGGING: Shape = Shape::new("LoggingConfig", &["LogFormat", "ApplicationLogLevel", "SystemLogLevel", "LogGroup"]);

/// Lambda refuses more than this for all variables together.
const MOST_ENVIRONMENT_BYTES: usize = 4_096;
/// Lambda sets these itself and refuses a template that does.
const RESERVED: &[&str] = &[
    "_HANDLER",
    "_X_AMZN_TRACE_ID",
    "AWS_DEFAULT_REGION",
    "AWS_REGION",
    "AWS_EXECUTION_ENV",
    "AWS_LAMBDA_FUNCTION_NAME",
    "AWS_LAMBDA_FUNCTION_MEMORY_SIZE",
    "AWS_LAMBDA_FUNCTION_VERSION",
    "AWS_LAMBDA_INITIALIZATION_TYPE",
    "AWS_LAMBDA_LOG_GROUP_NAME",
    "AWS_LAMBDA_LOG_STREAM_NAME",
    "AWS_ACCESS_KEY",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_LAMBDA_RUNTIME_API",
    "LAMBDA_TASK_ROOT",
    "LAMBDA_RUNTIME_DIR",
];

/// A function, with the routes that its events make.
pub(super) struct FunctionRead {
    pub(super) function: Function,
    pub(super) routes: Vec<HttpEvent>,
}

/// Reads a function.
pub(super) fn read(scope: &Scope, known: &Known, resource: &Resource, names: &FunctionName) -> Read<FunctionRead> {
    let properties = scope.value(&resource.properties)?;
    let fields = Fields::read(&properties, &FUNCTION)?;
    check_runtime(&fields)?;
    let mut asynchronous = AsyncConfig {
        retries: 2,
        maximum_age: Duration::from_secs(MOST_EVENT_AGE_SECONDS),
        on_failure: None,
        dead_letter_queue: None,
    };
    let mut added = vec![policy::managed("service-role/AWSLambdaBasicExecutionRole", resource.line)?];
    if fields.one_of("Tracing", &["Active", "PassThrough", "Disabled"])? == Some("Active") {
        added.push(policy::managed("AWSXRayDaemonWriteAccess", resource.line)?);
    }
    if let Some(invoke) = fields.fields("EventInvokeConfig", &INVOKE)? {
        asynchronous = self::asynchronous(&invoke)?;
        if let Some(destination) = mappings::on_failure(known, &invoke)? {
            added.push(policy::sam("EventInvokeConfig's destination", &["sqs:SendMessage"], &destination.arn));
            asynchronous.on_failure = Some(destination.arn);
        }
    }
    if let Some(dead_letter) = fields.fields("DeadLetterQueue", &DEAD_LETTER)? {
        dead_letter.one_of("Type", &["SQS"])?;
        let queue = known.queue(dead_letter.need_text("TargetArn")?, dead_letter.line_of("TargetArn"))?;
        added.push(policy::sam("DeadLetterQueue", &["sqs:SendMessage"], &queue));
        asynchronous.dead_letter_queue = Some(queue);
    }
    let timeout = Duration::from_secs(fields.number("Timeout", 1..=900)?.unwrap_or(3));
    let events = events::read(known, names, &fields)?;
    added.extend(events.added);
    let function = Function {
        logical_id: resource.id.clone(),
        name: names.name.clone(),
        arn: names.arn.clone(),
        binary: binary(resource, &fields)?,
        timeout,
        memory_mb: fields.number("MemorySize", 128..=10_240)?.unwrap_or(128),
        reserved_concurrency: fields.number("ReservedConcurrentExecutions", 0..=100_000)?,
        environment: environment(&fields)?,
        statements: statements(known, &fields, added)?,
        sources: events.sources,
        asynchronous,
    };
    Ok(FunctionRead { function, routes: events.routes })
}

fn check_runtime(fields: &Fields) -> Read<()> {
    fields.need("Runtime")?;
    fields.one_of("Runtime", &["provided.al2023"])?;
    fields.need("Handler")?;
    fields.one_of("Handler", &["bootstrap"])?;
    fields.one_of("PackageType", &["Zip"])?;
    for node in fields.list("Architectures")? {
        if !matches!(text(node, "Architectures")?, "arm64" | "x86_64") {
            return wrong(node.line, "Architectures is [arm64] or [x86_64]; write one of the two");
        }
    }
    if let Some(logging) = fields.fields("LoggingConfig", &LOGGING)? {
        logging.one_of("LogFormat", &["JSON", "Text"])?;
    }
    Ok(())
}

/// The cargo binary that is the function's bootstrap.
fn binary(resource: &Resource, fields: &Fields) -> Read<String> {
    let metadata = resource.metadata.as_ref();
    if let Some(method) = metadata.and_then(|metadata| metadata.get("BuildMethod"))
        && text(method, "BuildMethod")? != "rust-cargolambda"
    {
        return wrong(method.line, "functions here are built by cargo; write BuildMethod: rust-cargolambda");
    }
    if let Some(build) = metadata.and_then(|metadata| metadata.get("BuildProperties"))
        && let Some(binary) = Fields::read(build, &BUILD)?.text("Binary")?
    {
        return Ok(binary.to_owned());
    }
    let folder = fields.need_text("CodeUri")?;
    match folder.trim_end_matches('/').rsplit('/').next() {
        Some(last) if !matches!(last, "" | "." | "..") => Ok(last.to_owned()),
        _ => {
            let line = fields.line_of("CodeUri");
            wrong(
                line,
                format!(
                    "{} does not say which binary it is; add Metadata: BuildProperties: {{Binary: name}}",
                    resource.id
                ),
            )
        }
    }
}

fn environment(fields: &Fields) -> Read<BTreeMap<String, String>> {
    let Some(environment) = fields.fields("Environment", &ENVIRONMENT)? else { return Ok(BTreeMap::new()) };
    let variables = entries(environment.need("Variables")?, "Variables")?;
    let mut all = BTreeMap::new();
    for entry in variables {
        let key = entry.key.as_str();
        if RESERVED.contains(&key) {
            return wrong(entry.line, format!("Lambda sets {key} itself; give the variable another name"));
        }
        let named_well = key.starts_with(|c: char| c.is_ascii_alphabetic())
            && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if !named_well {
            return wrong(
                entry.line,
                format!("{key} is no variable name; begin with a letter, then letters, digits and _"),
            );
        }
        let value = text(&entry.node, key)?;
        if value.contains("{{resolve:") {
            return wrong(
                entry.line,
                format!("{key} asks for a secret to be put in; pass its name and read it in the function"),
            );
        }
        all.insert(key.to_owned(), value.to_owned());
    }
    let bytes: usize = all.iter().map(|(key, value)| key.len() + value.len()).sum();
    if bytes > MOST_ENVIRONMENT_BYTES {
        return wrong(
            environment.line,
            format!("the environment has {bytes} bytes; Lambda takes {MOST_ENVIRONMENT_BYTES}: shorten it"),
        );
    }
    Ok(all)
}

const MOST_EVENT_AGE_SECONDS: u64 = 21_600;

/// Retries and age of asynchronous invocations.
pub(super) fn asynchronous(fields: &Fields) -> Read<AsyncConfig> {
    let age = fields.number("MaximumEventAgeInSeconds", 60..=MOST_EVENT_AGE_SECONDS)?;
    Ok(AsyncConfig {
        retries: fields.number("MaximumRetryAttempts", 0..=2)?.unwrap_or(2),
        maximum_age: Duration::from_secs(age.unwrap_or(MOST_EVENT_AGE_SECONDS)),
        on_failure: None,
        dead_letter_queue: None,
    })
}

/// What a function may do: its role's statements if it names a role, else what it is given and what SAM adds.
fn statements(known: &Known, fields: &Fields, added: Vec<Statement>) -> Read<Vec<Statement>> {
    if let Some(role) = fields.text("Role")? {
        if fields.get("Policies").is_some() {
            return wrong(fields.line_of("Policies"), "SAM ignores Policies beside a Role; put them into the role");
        }
        let role = known.roles.assumed_by("lambda.amazonaws.com", role, fields.line_of("Role"))?;
        return Ok(role.statements.clone());
    }
    let mut all = Vec::new();
    if let Some(policies) = fields.get("Policies") {
        let list = match &policies.value {
            Value::List(items) => items.as_slice(),
            _ => std::slice::from_ref(policies),
        };
        for policy in list {
            all.extend(one_policy(policy)?);
        }
    }
    all.extend(added);
    Ok(all)
}

fn one_policy(policy: &Node) -> Read<Vec<Statement>> {
    if let Some(name) = policy.as_text() {
        return policy::managed(name, policy.line).map(|statement| vec![statement]);
    }
    match policy.as_map() {
        Some([only]) if only.key.ends_with("Policy") => wrong(
            only.line,
            format!("the SAM policy template {} hides what it allows; write its Statement out", only.key),
        ),
        _ => policy::statements(policy),
    }
}
