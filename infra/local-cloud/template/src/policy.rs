//! Policy documents, written out as statements.

use super::error::{Read, wrong};
use super::fields::{Fields, Shape, entries, text};
use super::model::{Effect, Origin, Statement};
use super::yaml::{Node, Value};

/// Condition operators that the permission check carries out.
pub(crate) const OPERATORS: &[&str] = &["StringEquals", "StringLike", "ArnEquals", "ArnLike"];
/// Condition keys that the permission check knows the value of.
pub(crate) const CONDITION_KEYS: &[&str] =
    &["iam:PassedToService", "aws:RequestedRegion", "aws:PrincipalAccount", "aws:ResourceAccount"];

const DOCUMENT: Shape = Shape::new("a policy document", &["Version", "Statement"]).without_effect(&["Id"]);

const WRITE_OUT: &str = "write out what is meant in Action and Resource";
const STATEMENT: Shape = Shape::new("a policy statement", &["Sid", "Effect", "Action", "Resource", "Condition"])
    .refused(&[
        ("NotAction", WRITE_OUT),
        ("NotResource", WRITE_OUT),
        ("Principal", "an identity's policy has none: remove it"),
        ("NotPrincipal", "an identity's policy has none: remove it"),
    ]);

const TRUST: Shape = Shape::new("a trust statement", &["Effect", "Principal", "Action"])
    // Who may assume a role from where: there is one account here.
    .without_effect(&["Sid", "Condition"]);

/// Logging and tracing policies that SAM and templates attach by name.
const MANAGED: &[(&str, &[&str])] = &[
    ("service-role/AWSLambdaBasicExecutionRole", &["logs:CreateLogGroup", "logs:CreateLogStream", "logs:PutLogEvents"]),
    (
        "AWSXRayDaemonWriteAccess",
        &[
            "xray:PutTraceSegments",
            "xray:PutTelemetryRecords",
            "xray:GetSamplingRules",
            "xray:GetSamplingTargets",
            "xray:GetSamplingStatisticSummaries",
        ],
    ),
    (
        "CloudWatchLambdaInsightsExecutionRolePolicy",
        &["logs:CreateLogGroup", "logs:CreateLogStream", "logs:PutLogEvents"],
    ),
];

/// The statements of a policy document.
pub(super) fn statements(document: &Node) -> Read<Vec<Statement>> {
    let fields = Fields::read(document, &DOCUMENT)?;
    if fields.text("Version")?.is_some_and(|version| version != "2012-10-17") {
        return wrong(fields.line_of("Version"), "this policy language is outdated; write Version: '2012-10-17'");
    }
    one_or_more(fields.need("Statement")?).iter().map(statement).collect()
}

fn statement(node: &Node) -> Read<Statement> {
    let fields = Fields::read(node, &STATEMENT)?;
    let effect = match fields.one_of("Effect", &["Allow", "Deny"])? {
        Some("Allow") => Effect::Allow,
        Some(_) => Effect::Deny,
        None => return wrong(node.line, "a policy statement needs Effect; write Allow or Deny"),
    };
    let actions = texts(fields.need("Action")?, "Action")?;
    for (action, line) in &actions {
        let well_formed = action == "*"
            || action.split_once(':').is_some_and(|(service, name)| !service.is_empty() && !name.is_empty());
        if !well_formed {
            return wrong(*line, format!("{action} is no action; write service:Action, such as sqs:SendMessage"));
        }
    }
    let resources = texts(fields.need("Resource")?, "Resource")?;
    for (resource, line) in &resources {
        if resource.contains("${") {
            return wrong(
                *line,
                format!("policy variables ({resource}) are not supported here; write the resource out"),
            );
        }
        if resource != "*" && !resource.starts_with("arn:") {
            return wrong(*line, format!("{resource} is no resource; give an ARN, such as !GetAtt Table.Arn, or '*'"));
        }
    }
    let first = |list: Vec<(String, usize)>| list.into_iter().map(|(text, _)| text).collect();
    Ok(Statement {
        effect,
        actions: first(actions),
        resources: first(resources),
        conditions: fields.get("Condition").map_or(Ok(Vec::new()), conditions)?,
        origin: Origin::Written(node.line),
    })
}

fn conditions(node: &Node) -> Read<Vec<(String, String, Vec<String>)>> {
    let mut all = Vec::new();
    for operator in entries(node, "Condition")? {
        if !OPERATORS.contains(&operator.key.as_str()) {
            let known = OPERATORS.join(", ");
            return wrong(
                operator.line,
                format!("the condition {} is not checked here; use one of {known}", operator.key),
            );
        }
        for key in entries(&operator.node, &operator.key)? {
            if !CONDITION_KEYS.iter().any(|known| known.eq_ignore_ascii_case(&key.key)) {
                let known = CONDITION_KEYS.join(", ");
                return wrong(key.line, format!("the condition key {} is not known here; use one of {known}", key.key));
            }
            let values = texts(&key.node, &key.key)?.into_iter().map(|(text, _)| text).collect();
            all.push((operator.key.clone(), key.key.clone(), values));
        }
    }
    Ok(all)
}

/// The services that a trust document lets assume its role.
pub(super) fn trusted_services(document: &Node) -> Read<Vec<String>> {
    let fields = Fields::read(document, &DOCUMENT)?;
    let mut services = Vec::new();
    for node in one_or_more(fields.need("Statement")?) {
        let statement = Fields::read(node, &TRUST)?;
        let allows = statement.one_of("Effect", &["Allow"])?.is_some();
        let assumes = texts(statement.need("Action")?, "Action")?.iter().any(|(action, _)| action == "sts:AssumeRole");
        let principal = statement.need("Principal")?;
        match principal.get("Service") {
            Some(names) if allows && assumes => {
                services.extend(texts(names, "Service")?.into_iter().map(|(service, _)| service));
            }
            _ => {
                return wrong(
                    node.line,
                    "a role is assumed by a service here; write Principal: {Service: …} and Action: sts:AssumeRole",
                );
            }
        }
    }
    Ok(services)
}

/// One of AWS's managed policies, by name or ARN.
pub(super) fn managed(name: &str, line: usize) -> Read<Statement> {
    let short = name.strip_prefix("arn:aws:iam::aws:policy/").unwrap_or(name);
    let found = MANAGED.iter().find(|(known, _)| *known == short || known.strip_prefix("service-role/") == Some(short));
    match found {
        Some((known, actions)) => Ok(Statement {
            effect: Effect::Allow,
            actions: actions.iter().map(|action| (*action).to_owned()).collect(),
            resources: vec!["*".to_owned()],
            conditions: Vec::new(),
            origin: Origin::Managed((*known).to_owned()),
        }),
        None => wrong(
            line,
            format!("the managed policy {name} is not written out; replace it by a Statement with what is needed"),
        ),
    }
}

/// A statement that SAM adds by itself when it deploys.
pub(super) fn sam(why: &'static str, actions: &[&str], resource: &str) -> Statement {
    Statement {
        effect: Effect::Allow,
        actions: actions.iter().map(|action| (*action).to_owned()).collect(),
        resources: vec![resource.to_owned()],
        conditions: Vec::new(),
        origin: Origin::Sam(why),
    }
}

fn one_or_more(node: &Node) -> &[Node] {
    match &node.value {
        Value::List(items) => items,
        _ => std::slice::from_ref(node),
    }
}

/// One text or a list of them, each with its line.
fn texts(node: &Node, key: &str) -> Read<Vec<(String, usize)>> {
    let all: Vec<_> =
        one_or_more(node).iter().map(|item| Ok((text(item, key)?.to_owned(), item.line))).collect::<Read<_>>()?;
    if all.is_empty() {
        return wrong(node.line, format!("{key} is empty; name at least one"));
    }
    Ok(all)
}
