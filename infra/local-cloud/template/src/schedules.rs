//! Recurring schedules: SAM's `Schedule` and `ScheduleV2` events and `AWS::Scheduler::Schedule`.

use super::attributes;
use super::error::{Read, wrong};
use super::fields::{Fields, Shape, text};
use super::known::Known;
use super::mappings;
use super::model::ScheduleSource;
use super::scope::{Resource, Scope};
use crate::access;

/// What EventBridge and Scheduler do unless told otherwise.
const DEFAULT_RETRIES: u32 = 185;

const NO_WINDOW: (&str, &str) = ("StartDate", "a schedule here is on or off: use State");
const NO_END: (&str, &str) = ("EndDate", "a schedule here is on or off: use State");

pub(super) const RULE_EVENT: Shape = Shape::new(
    "a Schedule event",
    &["Schedule", "Name", "Input", "Enabled", "State", "RetryPolicy", "DeadLetterConfig"],
)
.without_effect(&["Description"])
.refused(&[("RoleArn", "a rule invokes a function without a role: remove it")]);

pub(super) const SCHEDULER_EVENT: Shape = Shape::new(
    "a ScheduleV2 event",
    &[
        "ScheduleExpression",
        "ScheduleExpressionTimezone",
        "Name",
        "Input",
        "State",
        "RetryPolicy",
        "DeadLetterConfig",
        "RoleArn",
    ],
)
// A schedule that may fire within a window may fire at its start; a template's schedules are not listed by group.
.without_effect(&["Description", "FlexibleTimeWindow", "GroupName", "KmsKeyArn", "PermissionsBoundary", "OmitName"])
.refused(&[NO_WINDOW, NO_END]);

const SCHEDULE: Shape = Shape::new(
    "AWS::Scheduler::Schedule",
    &["ScheduleExpression", "ScheduleExpressionTimezone", "Name", "State", "Target", "FlexibleTimeWindow", "GroupName"],
)
.without_effect(&["Description", "KmsKeyArn"])
.refused(&[NO_WINDOW, NO_END]);

const TARGET: Shape = Shape::new("Target", &["Arn", "RoleArn", "Input", "RetryPolicy", "DeadLetterConfig"]).refused(&[
    ("EcsParameters", "schedules here invoke functions"),
    ("EventBridgeParameters", "schedules here invoke functions"),
    ("KinesisParameters", "schedules here invoke functions"),
    ("SageMakerPipelineParameters", "schedules here invoke functions"),
    ("SqsParameters", "schedules here invoke functions"),
]);

// How old an event may get is bounded by its retries here.
const RETRY: Shape = Shape::new("RetryPolicy", &["MaximumRetryAttempts"]).without_effect(&["MaximumEventAgeInSeconds"]);
const DEAD_LETTER: Shape = Shape::new("DeadLetterConfig", &["Arn"]).refused(&[
    ("Type", "SAM would make a queue of its own: name one by Arn"),
    ("QueueLogicalId", "name a queue by Arn"),
]);

/// Reads a SAM event. `made_name` is the name that SAM would give it.
pub(super) fn event(known: &Known, fields: &Fields, expression: &str, made_name: String) -> Read<ScheduleSource> {
    let enabled = match fields.flag("Enabled")? {
        Some(enabled) => enabled,
        None => fields.one_of("State", &["ENABLED", "DISABLED"])? != Some("DISABLED"),
    };
    if let Some(role) = fields.text("RoleArn")? {
        known.scheduler_role(role, fields.line_of("RoleArn"))?;
    }
    source(known, fields, fields, expression, enabled, made_name)
}

/// Reads `AWS::Scheduler::Schedule`: the function it invokes, and when.
pub(super) fn resource(scope: &Scope, known: &Known, resource: &Resource) -> Read<(String, ScheduleSource)> {
    let properties = scope.value(&resource.properties)?;
    let fields = Fields::read(&properties, &SCHEDULE)?;
    fields.need("FlexibleTimeWindow")?;
    let target = Fields::read(fields.need("Target")?, &TARGET)?;
    let function = known.function(target.need_text("Arn")?, target.line_of("Arn"))?;
    let role = known.scheduler_role(target.need_text("RoleArn")?, target.line_of("RoleArn"))?;
    if !access::allows(&role.statements, "lambda:InvokeFunction", &function.arn) {
        let (line, id) = (target.line_of("RoleArn"), &role.logical_id);
        return wrong(line, format!("{id} may not invoke {}; allow it lambda:InvokeFunction there", function.id));
    }
    let enabled = fields.one_of("State", &["ENABLED", "DISABLED"])? != Some("DISABLED");
    let name = attributes::name(scope, resource)?;
    let source = source(known, &fields, &target, "ScheduleExpression", enabled, name)?;
    if source
        .dead_letter_queue
        .as_ref()
        .is_some_and(|queue| !access::allows(&role.statements, "sqs:SendMessage", queue))
    {
        let (line, id) = (target.line_of("DeadLetterConfig"), &role.logical_id);
        return wrong(line, format!("{id} may not send to the dead-letter queue; allow it sqs:SendMessage there"));
    }
    Ok((function.name.clone(), source))
}

fn source(known: &Known, when: &Fields, what: &Fields, key: &str, enabled: bool, name: String) -> Read<ScheduleSource> {
    let expression = when.need_text(key)?;
    if !is_expression(expression) {
        let line = when.line_of(key);
        return wrong(line, format!("{expression} is no schedule; write rate(1 minute) or at(2030-01-01T00:00:00)"));
    }
    if when.text("ScheduleExpressionTimezone")?.is_some_and(|zone| zone != "UTC") {
        return wrong(
            when.line_of("ScheduleExpressionTimezone"),
            "a template's schedules go by UTC here; convert the hours",
        );
    }
    let retry = what.fields("RetryPolicy", &RETRY)?;
    let retries = retry.map(|retry| retry.number("MaximumRetryAttempts", 0..=DEFAULT_RETRIES)).transpose()?.flatten();
    let dead_letter_queue = match what.fields("DeadLetterConfig", &DEAD_LETTER)? {
        Some(config) => Some(known.queue(config.need_text("Arn")?, config.line_of("Arn"))?),
        None => None,
    };
    Ok(ScheduleSource {
        name: when.text("Name")?.map_or(name, str::to_owned),
        expression: expression.to_owned(),
        input: what.text("Input")?.map(str::to_owned),
        retries: retries.unwrap_or(DEFAULT_RETRIES),
        dead_letter_queue,
        enabled,
    })
}

/// Whether it has the form of a schedule.
fn is_expression(expression: &str) -> bool {
    let Some((kind, rest)) = expression.split_once('(') else { return false };
    let Some(inner) = rest.strip_suffix(')') else { return false };
    let words: Vec<&str> = inner.split_whitespace().collect();
    match (kind, words.as_slice()) {
        ("rate", [number, unit]) => {
            let unit = unit.strip_suffix('s').unwrap_or(unit);
            number.parse::<u32>().is_ok_and(|number| number > 0) && ["minute", "hour", "day"].contains(&unit)
        }
        ("at", [time]) => time.parse::<jiff::civil::DateTime>().is_ok(),
        _ => false,
    }
}

const GROUP: Shape = Shape::new("AWS::Scheduler::ScheduleGroup", &["Name"]).without_effect(&["Tags"]);

/// The name of a schedule group.
pub(super) fn group(scope: &Scope, resource: &Resource) -> Read<String> {
    let properties = scope.value(&resource.properties)?;
    Fields::read(&properties, &GROUP)?;
    attributes::name(scope, resource)
}

const INVOKE_CONFIG: Shape = Shape::new(
    "AWS::Lambda::EventInvokeConfig",
    &["FunctionName", "Qualifier", "MaximumEventAgeInSeconds", "MaximumRetryAttempts", "DestinationConfig"],
);

/// Reads `AWS::Lambda::EventInvokeConfig`: the function, and how its asynchronous invocations are retried.
pub(super) fn invoke_config(
    scope: &Scope,
    known: &Known,
    resource: &Resource,
) -> Read<(String, super::model::AsyncConfig)> {
    let properties = scope.value(&resource.properties)?;
    let fields = Fields::read(&properties, &INVOKE_CONFIG)?;
    let function = known.function(fields.need_text("FunctionName")?, fields.line_of("FunctionName"))?;
    if text(fields.need("Qualifier")?, "Qualifier")? != "$LATEST" {
        return wrong(fields.line_of("Qualifier"), "there is one version of a function here; write Qualifier: $LATEST");
    }
    let mut config = super::function::asynchronous(&fields)?;
    config.on_failure = mappings::on_failure(known, &fields)?.map(|destination| destination.arn);
    Ok((function.name.clone(), config))
}
