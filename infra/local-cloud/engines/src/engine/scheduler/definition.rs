//! What a schedule says, in Scheduler's own JSON, and whether Scheduler would take it.

use serde::{Deserialize, Serialize};

use super::SchedulerError;
use super::expression::Expression;

/// A start date may be so far in the past.
const EARLIEST_START_MS: i64 = 300_000;

/// A schedule as `CreateSchedule` and `UpdateSchedule` take it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Definition {
    /// `at(…)` or `rate(…)`.
    pub schedule_expression: String,
    /// An IANA zone; UTC if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule_expression_timezone: Option<String>,
    /// Seconds since 1970: not before this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_date: Option<f64>,
    /// Seconds since 1970: not after this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_date: Option<f64>,
    /// `ENABLED` (if absent) or `DISABLED`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// `NONE` (if absent) or `DELETE`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action_after_completion: Option<String>,
    /// How late it may fire.
    pub flexible_time_window: FlexibleTimeWindow,
    /// What it calls.
    pub target: Target,
    /// A note.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Kept; nothing is encrypted here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kms_key_arn: Option<String>,
}

/// How late a schedule may fire. Here it always fires at the window's start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct FlexibleTimeWindow {
    /// `OFF` or `FLEXIBLE`.
    pub mode: String,
    /// With `FLEXIBLE`, 1 to 1440.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub maximum_window_in_minutes: Option<i64>,
}

/// What a schedule calls.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Target {
    /// A function's or a queue's ARN.
    pub arn: String,
    /// The role that Scheduler assumes.
    pub role_arn: String,
    /// The event, or the message's body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
    /// How often and how long a failed call is tried again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_policy: Option<RetryPolicy>,
    /// Where an event goes that was given up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dead_letter_config: Option<DeadLetterConfig>,
    /// Parameters of other kinds of targets, kept as they came.
    #[serde(flatten)]
    pub others: serde_json::Map<String, serde_json::Value>,
}

impl Target {
    /// Retries after the first try: 185 unless the schedule says otherwise.
    pub fn maximum_retry_attempts(&self) -> u32 {
        self.retry_policy.as_ref().and_then(|policy| policy.maximum_retry_attempts).unwrap_or(185)
    }

    /// An event is given up at this age: a day unless the schedule says otherwise.
    pub fn maximum_event_age_s(&self) -> u32 {
        self.retry_policy.as_ref().and_then(|policy| policy.maximum_event_age_in_seconds).unwrap_or(86_400)
    }

    /// ARN of the queue for events that were given up.
    pub fn dead_letter_arn(&self) -> Option<&str> {
        self.dead_letter_config.as_ref().and_then(|config| config.arn.as_deref())
    }
}

/// How a failed call is tried again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct RetryPolicy {
    /// 60 to 86400.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub maximum_event_age_in_seconds: Option<u32>,
    /// 0 to 185.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub maximum_retry_attempts: Option<u32>,
}

/// Where an event goes that was given up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct DeadLetterConfig {
    /// A queue's ARN.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arn: Option<String>,
}

impl Definition {
    pub(super) fn is_enabled(&self) -> bool {
        self.state.as_deref() != Some("DISABLED")
    }

    pub(super) fn deletes_itself(&self) -> bool {
        self.action_after_completion.as_deref() == Some("DELETE")
    }

    pub(super) fn expression(&self) -> Result<Expression, SchedulerError> {
        Expression::parse(&self.schedule_expression, self.schedule_expression_timezone.as_deref())
    }

    /// What a rate counts from: the start date, or when the schedule was made.
    pub(super) fn anchor_ms(&self, now_ms: i64) -> i64 {
        self.start_date.map_or(now_ms, to_ms)
    }

    /// The first time at or after `from_ms`, within the start and end dates (which a one-time schedule ignores).
    pub(super) fn first_from(&self, expression: &Expression, anchor_ms: i64, from_ms: i64) -> Option<i64> {
        if matches!(expression, Expression::At(_)) {
            return expression.first_from(anchor_ms, from_ms);
        }
        let from_ms = self.start_date.map_or(from_ms, |start| from_ms.max(to_ms(start)));
        let next_ms = expression.first_from(anchor_ms, from_ms)?;
        let over = self.end_date.is_some_and(|end| next_ms > to_ms(end));
        (!over).then_some(next_ms)
    }

    /// Checks everything but the expression.
    pub(super) fn check(&self, now_ms: i64) -> Result<(), SchedulerError> {
        let one_of = |name: &str, value: &Option<String>, allowed: [&str; 2]| match value.as_deref() {
            Some(value) if !allowed.contains(&value) => Err(invalid(format!(
                "Value '{value}' at '{name}' failed to satisfy constraint: Member must satisfy enum value set: [{}, \
                 {}]",
                allowed[0], allowed[1]
            ))),
            _ => Ok(()),
        };
        one_of("state", &self.state, ["ENABLED", "DISABLED"])?;
        one_of("actionAfterCompletion", &self.action_after_completion, ["NONE", "DELETE"])?;
        one_of("flexibleTimeWindow.mode", &Some(self.flexible_time_window.mode.clone()), ["OFF", "FLEXIBLE"])?;
        let window = self.flexible_time_window.maximum_window_in_minutes;
        match self.flexible_time_window.mode.as_str() {
            "OFF" if window.is_some() => {
                return Err(invalid(
                    "MaximumWindowInMinutes must not be set if the flexible time window is OFF.".to_owned(),
                ));
            }
            "FLEXIBLE" if !window.is_some_and(|minutes| (1..=1_440).contains(&minutes)) => {
                return Err(invalid("A flexible time window needs MaximumWindowInMinutes from 1 to 1440.".to_owned()));
            }
            _ => {}
        }
        self.target.check()?;
        if self.start_date.is_some_and(|start| to_ms(start) < now_ms.saturating_sub(EARLIEST_START_MS)) {
            return Err(invalid("The StartDate you specify cannot be earlier than 5 minutes ago.".to_owned()));
        }
        match (self.start_date, self.end_date) {
            (Some(start), Some(end)) if end <= start => {
                Err(invalid("The StartDate must be before the EndDate.".to_owned()))
            }
            (_, Some(end)) if to_ms(end) <= now_ms => Err(invalid("The EndDate must be in the future.".to_owned())),
            _ => Ok(()),
        }
    }
}

impl Target {
    fn check(&self) -> Result<(), SchedulerError> {
        if !self.arn.starts_with("arn:") {
            return Err(invalid(format!("Provided Arn is not in correct format: {}", self.arn)));
        }
        if !self.role_arn.starts_with("arn:aws") || !self.role_arn.contains(":role/") {
            return Err(invalid(format!("Provided RoleArn is not the ARN of a role: {}", self.role_arn)));
        }
        if let Some(policy) = &self.retry_policy {
            if policy.maximum_event_age_in_seconds.is_some_and(|age_s| !(60..=86_400).contains(&age_s)) {
                return Err(invalid("MaximumEventAgeInSeconds must be from 60 to 86400.".to_owned()));
            }
            if policy.maximum_retry_attempts.is_some_and(|attempts| attempts > 185) {
                return Err(invalid("MaximumRetryAttempts must be from 0 to 185.".to_owned()));
            }
        }
        if let Some(arn) = self.dead_letter_arn().filter(|arn| !arn.starts_with("arn:aws:sqs:")) {
            return Err(invalid(format!("DeadLetterConfig.Arn is not the ARN of a queue: {arn}")));
        }
        Ok(())
    }
}

/// Checks the name of a schedule or a group.
pub(super) fn check_name(name: &str) -> Result<(), SchedulerError> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || name.len() > 64 {
        return Err(invalid(format!(
            "1 validation error detected: Value '{name}' at 'name' failed to satisfy constraint: Member must have \
             length from 1 to 64"
        )));
    }
    if !name.chars().all(allowed) {
        return Err(invalid(format!(
            "1 validation error detected: Value '{name}' at 'name' failed to satisfy constraint: Member must satisfy \
             regular expression pattern: ^[0-9a-zA-Z-_.]+$"
        )));
    }
    Ok(())
}

fn invalid(message: String) -> SchedulerError {
    SchedulerError::Validation(message)
}

/// Seconds, as the protocol has them, in milliseconds. What is beyond the calendar is the end of time.
pub(super) fn to_ms(seconds: f64) -> i64 {
    jiff::SignedDuration::try_from_secs_f64(seconds)
        .ok()
        .and_then(|since| jiff::Timestamp::UNIX_EPOCH.checked_add(since).ok())
        .map_or(i64::MAX, |at| at.as_millisecond())
}
