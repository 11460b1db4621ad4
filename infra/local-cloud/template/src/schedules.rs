//! Recurring schedules: SAM's `ScheduleV2` events.

use super::attributes;
use super::error::{Read, wrong};
use super::fields::{Fields, Shape};
use super::known::Known;
use super::model::ScheduleSource;
use super::scope::{Resource, Scope};

/// What EventBridge and Scheduler do unless told otherwise.
const DEFAULT_RETRIES: u32 = 185;

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
.refused(&[
    ("StartDate", "a schedule here is on or off: use State"),
    ("EndDate", "a schedule here is on or off: use State"),
]);

// How old an event may get is bounded by its retries here.
const RETRY: Shape = Shape::new("RetryPolicy", &["MaximumRetryAttempts"]).without_effect(&["MaximumEventAgeInSeconds"]);
const DEAD_LETTER: Shape = Shape::new("DeadLetterConfig", &["Arn"]).refused(&[
    ("Type", "SAM would make a queue of its own: name one by Arn"),
    ("QueueLogicalId", "name a queue by Arn"),
]);

/// Reads a SAM event. `made_name` is the name that SAM would give it.
pub(super) fn event(known: &Known, fields: &Fields, made_name: String) -> Read<ScheduleSource> {
    if let Some(role) = fields.text("RoleArn")? {
        known.scheduler_role(role, fields.line_of("RoleArn"))?;
    }
    let expression = fields.need_text("ScheduleExpression")?;
    if !is_expression(expression) {
        let line = fields.line_of("ScheduleExpression");
        return wrong(line, format!("{expression} is no schedule; write rate(1 minute) or at(2030-01-01T00:00:00)"));
    }
    if fields.text("ScheduleExpressionTimezone")?.is_some_and(|zone| zone != "UTC") {
        return wrong(
            fields.line_of("ScheduleExpressionTimezone"),
            "a template's schedules go by UTC here; convert the hours",
        );
    }
    let retry = fields.fields("RetryPolicy", &RETRY)?;
    let retries = retry.map(|retry| retry.number("MaximumRetryAttempts", 0..=DEFAULT_RETRIES)).transpose()?.flatten();
    let dead_letter_queue = match fields.fields("DeadLetterConfig", &DEAD_LETTER)? {
        Some(config) => Some(known.queue(config.need_text("Arn")?, config.line_of("Arn"))?),
        None => None,
    };
    Ok(ScheduleSource {
        name: fields.text("Name")?.map_or(made_name, str::to_owned),
        expression: expression.to_owned(),
        input: fields.text("Input")?.map(str::to_owned),
        retries: retries.unwrap_or(DEFAULT_RETRIES),
        dead_letter_queue,
        enabled: fields.one_of("State", &["ENABLED", "DISABLED"])? != Some("DISABLED"),
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
