//! Payment deadlines: one schedule per order. It deletes itself when it fires, and is deleted when the order ends
//! earlier.

use aws_sdk_scheduler::types::{
    ActionAfterCompletion, DeadLetterConfig, FlexibleTimeWindow, FlexibleTimeWindowMode, RetryPolicy, Target,
};
use domain::Timestamp;
use domain::ids::OrderId;
use domain::message::{DeadlineInput, VERSION};

use crate::{Store, StoreError};

impl Store {
    /// Schedules the check of an order at its deadline. The schedule is named after the order: one that exists is
    /// this one.
    pub async fn schedule_deadline(
        &self,
        order: &OrderId,
        at: Timestamp,
        trace: Option<&str>,
    ) -> Result<(), StoreError> {
        const OPERATION: &str = "schedule a deadline";
        let deadlines = self.names.deadlines.as_ref();
        let deadlines = deadlines.ok_or_else(|| StoreError::unreadable(OPERATION, "SCHEDULE_GROUP is not set"))?;
        let invalid = |error: aws_sdk_scheduler::error::BuildError| StoreError::unreadable(OPERATION, error);
        let input = DeadlineInput { version: VERSION, order_id: order.clone(), trace: trace.map(str::to_owned) };
        let input = serde_json::to_string(&input).map_err(|error| StoreError::unreadable(OPERATION, error))?;
        let target = Target::builder()
            .arn(&deadlines.function_arn)
            .role_arn(&deadlines.role_arn)
            .input(input)
            .dead_letter_config(DeadLetterConfig::builder().arn(&deadlines.timeout_dead_letters_arn).build())
            .retry_policy(
                RetryPolicy::builder().maximum_retry_attempts(20).maximum_event_age_in_seconds(21_600).build(),
            )
            .build()
            .map_err(invalid)?;
        let window = FlexibleTimeWindow::builder().mode(FlexibleTimeWindowMode::Off).build().map_err(invalid)?;
        let result = self
            .scheduler
            .create_schedule()
            .name(order.as_str())
            .group_name(&deadlines.group)
            .schedule_expression(at_expression(at))
            .flexible_time_window(window)
            .action_after_completion(ActionAfterCompletion::Delete)
            .target(target)
            .send()
            .await;
        match result {
            Ok(_) => Ok(()),
            Err(error) if error.as_service_error().is_some_and(|error| error.is_conflict_exception()) => Ok(()),
            Err(error) => Err(StoreError::of(OPERATION, &error)),
        }
    }
}

impl Store {
    /// Deletes the schedule of an order's deadline, if it is there.
    pub async fn delete_deadline(&self, order: &OrderId) -> Result<(), StoreError> {
        let Some(group) = self.names.schedule_group.as_ref() else { return Ok(()) };
        match self.scheduler.delete_schedule().name(order.as_str()).group_name(group).send().await {
            Ok(_) => Ok(()),
            Err(error) if error.as_service_error().is_some_and(|error| error.is_resource_not_found_exception()) => {
                Ok(())
            }
            Err(error) => Err(StoreError::of("delete a deadline", &error)),
        }
    }
}

/// The first whole second that is not before `at`: a schedule has no fractions of a second, and must not fire early.
fn at_expression(at: Timestamp) -> String {
    let second = at.as_millisecond().div_euclid(1_000) + i64::from(at.as_millisecond().rem_euclid(1_000) > 0);
    let whole = Timestamp::from_second(second).unwrap_or(at);
    format!("at({})", whole.strftime("%Y-%m-%dT%H:%M:%S"))
}

#[cfg(test)]
mod tests {
    use super::at_expression;

    #[test]
    fn a_deadline_is_never_early() {
        assert_eq!(at_expression("2026-11-11T00:15:00Z".parse().unwrap()), "at(2026-11-11T00:15:00)");
        assert_eq!(at_expression("2026-11-11T00:15:00.001Z".parse().unwrap()), "at(2026-11-11T00:15:01)");
    }
}
