//! The whole template, put together and checked.

use std::collections::BTreeMap;

use super::error::{Read, did_you_mean, wrong};
use super::events::{HttpEvent, SQS_ACTIONS, STREAM_ACTIONS};
use super::fields::{Fields, Shape, entries, text};
use super::function;
use super::gateway::Declared;
use super::globals;
use super::known::Known;
use super::model::{EventSource, Function, Stack};
use super::scope::Scope;
use super::yaml::Node;
use super::{event_bus, http_api, inert, references, schedules, secret, websocket};
use crate::{ACCOUNT, access};

const TEMPLATE: Shape =
    Shape::new("a template", &["Transform", "Globals", "Parameters", "Conditions", "Resources", "Outputs"])
        // Rules keep a deployment into an account from going wrong; this is none.
        .without_effect(&["AWSTemplateFormatVersion", "Description", "Metadata", "Rules"])
        .refused(&[("Hooks", "leave them out")]);

const OUTPUT: Shape = Shape::new("an output", &["Value", "Condition"]).without_effect(&["Description", "Export"]);

/// Resource types that mean something here; [`inert`] has those that knowingly do not.
const TYPES: &[&str] = &[
    "AWS::ApiGatewayV2::Api",
    "AWS::ApiGatewayV2::Authorizer",
    "AWS::ApiGatewayV2::Integration",
    "AWS::ApiGatewayV2::Route",
    "AWS::ApiGatewayV2::Stage",
    "AWS::DynamoDB::Table",
    "AWS::Events::EventBus",
    "AWS::IAM::Role",
    "AWS::Lambda::Permission",
    "AWS::SQS::Queue",
    "AWS::Scheduler::ScheduleGroup",
    "AWS::SecretsManager::Secret",
    "AWS::Serverless::Function",
    "AWS::Serverless::HttpApi",
];

/// Reads a parsed template.
pub(super) fn read(root: &Node, stack_name: &str, parameters: &BTreeMap<String, String>) -> Read<Stack> {
    Fields::read(root, &TEMPLATE)?;
    let scope = Scope::read(root, stack_name, parameters)?;
    globals::check_transform(root, &scope)?;
    check_types(&scope)?;
    references::check(&scope, root)?;
    let known = Known::read(&scope)?;
    let (functions, events) = functions(&scope, &known)?;
    let declared = Declared::read(&scope, &known)?;
    for resource in scope.included() {
        if let Some(inert) = inert::find(&resource.kind) {
            inert.check(&scope.value(&resource.properties)?)?;
        }
    }
    let groups = scope.included().filter(|resource| resource.kind == "AWS::Scheduler::ScheduleGroup");
    let buses = scope.included().filter(|resource| resource.kind == "AWS::Events::EventBus");
    let secrets = scope.included().filter(|resource| resource.kind == "AWS::SecretsManager::Secret");
    let stack = Stack {
        account: ACCOUNT.to_owned(),
        schedule_groups: groups.map(|resource| schedules::group(&scope, resource)).collect::<Read<_>>()?,
        event_buses: buses.map(|resource| event_bus::read(&scope, resource)).collect::<Read<_>>()?,
        secrets: secrets.map(|resource| secret::read(&scope, resource)).collect::<Read<_>>()?,
        http_api: http_api::read(&scope, &declared, events)?,
        websocket_api: websocket::read(&scope, &declared)?,
        outputs: outputs(&scope, root)?,
        functions,
        tables: known.tables,
        queues: known.queues,
        roles: known.roles.roles.into_iter().map(|role| role.role).collect(),
    };
    check_sources(&scope, &stack)?;
    Ok(stack)
}

fn check_types(scope: &Scope) -> Read<()> {
    for resource in &scope.resources {
        let kind = resource.kind.as_str();
        if TYPES.contains(&kind) || inert::find(kind).is_some() {
            continue;
        }
        let all = TYPES.iter().copied().chain(inert::kinds());
        let hint = did_you_mean(kind, all);
        return wrong(
            resource.line,
            format!(
                "{} is a {kind}, which is not known here{hint}; teach the local cloud about it or leave it out",
                resource.id
            ),
        );
    }
    Ok(())
}

fn functions(scope: &Scope, known: &Known) -> Read<(Vec<Function>, Vec<HttpEvent>)> {
    let mut functions = Vec::new();
    let mut events = Vec::new();
    for names in &known.functions {
        let Some(resource) = scope.find(&names.id) else { continue };
        let read = function::read(scope, known, resource, names)?;
        functions.push(read.function);
        events.extend(read.routes);
    }
    Ok((functions, events))
}

fn outputs(scope: &Scope, root: &Node) -> Read<BTreeMap<String, String>> {
    let mut all = BTreeMap::new();
    let Some(section) = root.get("Outputs") else { return Ok(all) };
    for entry in entries(section, "Outputs")? {
        let fields = Fields::read(&entry.node, &OUTPUT)?;
        if let Some(condition) = fields.text("Condition")?
            && !scope.condition(condition, fields.line_of("Condition"))?
        {
            continue;
        }
        let value = scope.value(fields.need("Value")?)?;
        all.insert(entry.key.clone(), text(&value, "Value")?.to_owned());
    }
    Ok(all)
}

/// AWS refuses a mapping whose function may not read it, or whose queue shows a message again while the function may
/// still be at work on it.
fn check_sources(scope: &Scope, stack: &Stack) -> Read<()> {
    for function in &stack.functions {
        let line = scope.find(&function.logical_id).map_or(1, |resource| resource.line);
        let id = &function.logical_id;
        let need = |actions: &[&str], resource: &str, what: &str| match actions
            .iter()
            .find(|action| !access::allows(&function.statements, action, resource))
        {
            Some(action) => wrong(line, format!("{id} may not {action} on {what}; add it to the function's policy")),
            None => Ok(()),
        };
        let sender = &["sqs:SendMessage"];
        for queue in function.asynchronous.on_failure.iter().chain(&function.asynchronous.dead_letter_queue) {
            need(sender, queue, queue)?;
        }
        for source in &function.sources {
            match source {
                EventSource::Queue(source) => {
                    need(SQS_ACTIONS, &source.queue_arn, &source.queue_arn)?;
                    check_visibility(stack, function, &source.queue_arn, line)?;
                }
                EventSource::Stream(source) => {
                    let table = stack.tables.iter().find(|table| table.name == source.table);
                    let stream = table.and_then(|table| table.stream_arn.as_deref()).unwrap_or_default();
                    need(STREAM_ACTIONS, stream, stream)?;
                    if let Some(queue) = &source.on_failure {
                        need(sender, queue, queue)?;
                    }
                }
                EventSource::Schedule(_) => {}
            }
        }
    }
    Ok(())
}

fn check_visibility(stack: &Stack, function: &Function, queue_arn: &str, line: usize) -> Read<()> {
    let Some(queue) = stack.queues.iter().find(|queue| queue.arn == queue_arn) else { return Ok(()) };
    let visible = queue.attributes.get("VisibilityTimeout").and_then(|text| text.parse().ok()).unwrap_or(30_u64);
    let timeout = function.timeout.as_secs();
    if visible >= timeout {
        return Ok(());
    }
    let (id, queue) = (&function.logical_id, &queue.logical_id);
    wrong(
        line,
        format!(
            "{id} may run for {timeout} s but {queue} shows a message again after {visible} s; raise its \
             VisibilityTimeout to {}",
            timeout * 6
        ),
    )
}
