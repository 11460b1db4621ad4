//! SAM's `Globals`, and the resources that SAM makes beside those that are written.

use super::error::{Read, wrong};
use super::fields::{Fields, Shape, entries};
use super::scope::{Resource, Scope};
use super::yaml::{Entry, Node, Value};

/// The API that SAM makes when an event names none.
pub(super) const IMPLICIT_API: &str = "ServerlessHttpApi";

const SECTION: Shape = Shape::new("Globals", &["Function", "HttpApi"]);

/// What SAM lets a template set for all functions at once.
const FUNCTION: Shape = Shape::new(
    "Globals.Function",
    &[
        "Handler",
        "Runtime",
        "CodeUri",
        "MemorySize",
        "Timeout",
        "Environment",
        "Tags",
        "Tracing",
        "Architectures",
        "EventInvokeConfig",
        "LoggingConfig",
        "DeadLetterQueue",
        "ReservedConcurrentExecutions",
        "EphemeralStorage",
        "KmsKeyArn",
        "PermissionsBoundary",
        "RolePath",
        "PropagateTags",
        "RuntimeManagementConfig",
        "ProvisionedConcurrencyConfig",
        "AutoPublishAlias",
        "DeploymentPreference",
        "AssumeRolePolicyDocument",
        "Policies",
    ],
)
.refused(&[
    ("Layers", "a bootstrap binary carries what it needs"),
    ("VpcConfig", "functions here have no network of their own"),
]);

const HTTP_API: Shape = Shape::new(
    "Globals.HttpApi",
    &[
        "Auth",
        "AccessLogSettings",
        "CorsConfiguration",
        "DefaultRouteSettings",
        "Domain",
        "RouteSettings",
        "Tags",
        "PropagateTags",
    ],
)
.refused(&[("StageVariables", "give functions environment variables")]);

/// The `Globals` section.
#[derive(Default)]
pub(super) struct Globals {
    function: Option<Node>,
    http_api: Option<Node>,
}

impl Globals {
    pub(super) fn read(section: Option<&Node>) -> Read<Self> {
        let Some(section) = section else { return Ok(Self::default()) };
        let fields = Fields::read(section, &SECTION)?;
        fields.fields("Function", &FUNCTION)?;
        fields.fields("HttpApi", &HTTP_API)?;
        Ok(Self { function: fields.get("Function").cloned(), http_api: fields.get("HttpApi").cloned() })
    }

    /// A resource's properties with the globals of its type under them.
    pub(super) fn applied(&self, kind: &str, properties: &Node) -> Node {
        let globals = match kind {
            "AWS::Serverless::Function" => &self.function,
            "AWS::Serverless::HttpApi" => &self.http_api,
            _ => &None,
        };
        globals.as_ref().map_or_else(|| properties.clone(), |globals| merged(globals, properties))
    }
}

/// SAM's rule: maps are merged, lists are joined, anything else is replaced.
fn merged(global: &Node, local: &Node) -> Node {
    if is_intrinsic(global) || is_intrinsic(local) {
        return local.clone();
    }
    match (&global.value, &local.value) {
        (Value::Map(under), Value::Map(over)) => {
            let mut entries: Vec<Entry> = under.clone();
            for entry in over {
                match entries.iter_mut().find(|known| known.key == entry.key) {
                    Some(known) => *known = Entry { node: merged(&known.node, &entry.node), ..entry.clone() },
                    None => entries.push(entry.clone()),
                }
            }
            Node::map(local.line, entries)
        }
        (Value::List(under), Value::List(over)) => Node::list(local.line, under.iter().chain(over).cloned().collect()),
        _ => local.clone(),
    }
}

fn is_intrinsic(node: &Node) -> bool {
    let long_form = |entries: &[Entry]| matches!(entries, [only] if only.key == "Ref" || only.key.starts_with("Fn::"));
    node.tag.is_some() || node.as_map().is_some_and(long_form)
}

/// Adds what SAM makes by itself and a template may refer to: a role for each function that names none, and the API
/// of events that name none.
pub(super) fn add_generated(scope: &mut Scope, globals: &Globals) {
    let functions = || scope.resources.iter().filter(|resource| resource.kind == "AWS::Serverless::Function");
    let generated = |id: String, kind: &str, properties: Node, of: &Resource| Resource {
        id,
        line: of.line,
        kind: kind.to_owned(),
        properties,
        metadata: None,
        left_out_by: of.left_out_by.clone(),
        generated: true,
    };
    let mut made: Vec<Resource> = functions()
        .filter(|function| function.properties.get("Role").is_none())
        .map(|function| {
            let nothing = Node::map(function.line, Vec::new());
            generated(format!("{}Role", function.id), "AWS::IAM::Role", nothing, function)
        })
        .collect();
    let implicit = functions().find(|function| function.left_out_by.is_none() && has_event_without_api(function));
    if let Some(function) = implicit {
        let properties = globals.applied("AWS::Serverless::HttpApi", &Node::map(function.line, Vec::new()));
        made.push(generated(IMPLICIT_API.to_owned(), "AWS::Serverless::HttpApi", properties, function));
    }
    made.retain(|resource| scope.find(&resource.id).is_none());
    scope.resources.extend(made);
}

fn has_event_without_api(function: &Resource) -> bool {
    let events =
        function.properties.get("Events").and_then(|events| entries(events, "Events").ok()).unwrap_or_default();
    events.iter().any(|event| {
        let is_http = event.node.get("Type").and_then(Node::as_text) == Some("HttpApi");
        is_http && event.node.get("Properties").is_none_or(|properties| properties.get("ApiId").is_none())
    })
}

/// The template must name the transform that makes SAM's resources what they are.
pub(super) fn check_transform(root: &Node, scope: &Scope) -> Read<()> {
    const SAM: &str = "AWS::Serverless-2016-10-31";
    let named = root.get("Transform");
    if let Some(named) = named {
        let all = named.as_list().unwrap_or(std::slice::from_ref(named));
        for transform in all {
            if transform.as_text() != Some(SAM) {
                return wrong(transform.line, format!("this transform is not known; here it is {SAM}"));
            }
        }
    }
    match scope.resources.iter().find(|resource| resource.kind.starts_with("AWS::Serverless::")) {
        Some(resource) if named.is_none() => {
            wrong(resource.line, format!("{} needs SAM; add `Transform: {SAM}` at the top", resource.kind))
        }
        _ => Ok(()),
    }
}
