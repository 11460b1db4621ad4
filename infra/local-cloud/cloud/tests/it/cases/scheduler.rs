//! EventBridge Scheduler, case by case. Schedules deliver to a queue, which is how a case sees them fire.

use std::time::Duration;

use aws_sdk_scheduler::operation::create_schedule::builders::CreateScheduleFluentBuilder;
use aws_sdk_scheduler::types::{
    ActionAfterCompletion, DeadLetterConfig, FlexibleTimeWindow, FlexibleTimeWindowMode, RetryPolicy, ScheduleState,
    Target as ScheduleTarget,
};

use crate::target::Target;

const SECOND: Duration = Duration::from_secs(1);

fn window() -> FlexibleTimeWindow {
    FlexibleTimeWindow::builder().mode(FlexibleTimeWindowMode::Off).build().expect("a window")
}

fn to(queue_arn: &str) -> ScheduleTarget {
    let target = ScheduleTarget::builder().arn(queue_arn).role_arn("arn:aws:iam::000000000000:role/scheduler");
    let target = target.input(r#"{"orderId":"o-1"}"#);
    let target =
        target.retry_policy(RetryPolicy::builder().maximum_retry_attempts(3).maximum_event_age_in_seconds(600).build());
    target.dead_letter_config(DeadLetterConfig::builder().arn(queue_arn).build()).build().expect("a target")
}

impl Target {
    fn schedule(&self, name: &str, expression: impl Into<String>, queue_arn: &str) -> CreateScheduleFluentBuilder {
        let request = self.scheduler.create_schedule().name(name).schedule_expression(expression);
        request.flexible_time_window(window()).target(to(queue_arn))
    }

    /// A queue, with its ARN.
    async fn inbox(&self) -> (String, String) {
        let url = self.queue("inbox", &[("VisibilityTimeout", "300")]).await;
        let arn = self.attribute(&url, "QueueArn").await;
        (url, arn)
    }

    async fn delivered(&self, url: &str) -> Vec<String> {
        let answer = self.sqs.receive_message().queue_url(url).max_number_of_messages(10).send().await;
        answer.expect("a receive").messages().iter().filter_map(|message| message.body.clone()).collect()
    }
}

#[tokio::test]
async fn a_one_time_schedule_fires_once_and_deletes_itself() {
    let target = Target::open();
    let (url, arn) = target.inbox().await;
    let name = target.name("order");
    let request = target.schedule(&name, target.at(3 * SECOND), &arn);
    request.action_after_completion(ActionAfterCompletion::Delete).send().await.expect("a schedule");

    assert_eq!(target.delivered(&url).await, [""; 0]);
    target.pass(4 * SECOND).await;
    target.deliver_schedules().await;
    assert_eq!(target.delivered(&url).await, [r#"{"orderId":"o-1"}"#]);
    let gone = target.scheduler.get_schedule().name(&name).send().await.expect_err("it is gone");
    assert!(gone.into_service_error().is_resource_not_found_exception());

    target.pass(2 * SECOND).await;
    target.deliver_schedules().await;
    assert_eq!(target.delivered(&url).await, [""; 0], "only once");
}

#[tokio::test]
async fn a_one_time_schedule_that_does_not_delete_itself_stays_and_fires_once() {
    let target = Target::open();
    let (url, arn) = target.inbox().await;
    let name = target.name("order");
    target.schedule(&name, target.at(3 * SECOND), &arn).send().await.expect("a schedule");
    target.pass(4 * SECOND).await;
    target.deliver_schedules().await;
    target.pass(2 * SECOND).await;
    target.deliver_schedules().await;
    assert_eq!(target.delivered(&url).await.len(), 1);
    target.scheduler.get_schedule().name(&name).send().await.expect("it is still there");
}

#[tokio::test]
async fn a_schedule_deleted_before_its_time_never_fires() {
    let target = Target::open();
    let (url, arn) = target.inbox().await;
    let name = target.name("order");
    target.schedule(&name, target.at(5 * SECOND), &arn).send().await.expect("a schedule");
    target.scheduler.delete_schedule().name(&name).send().await.expect("a delete");
    target.pass(6 * SECOND).await;
    target.deliver_schedules().await;
    assert_eq!(target.delivered(&url).await, [""; 0]);
}

#[tokio::test]
async fn a_disabled_schedule_does_not_fire() {
    let target = Target::open();
    let (url, arn) = target.inbox().await;
    let name = target.name("order");
    target
        .schedule(&name, target.at(3 * SECOND), &arn)
        .state(ScheduleState::Disabled)
        .send()
        .await
        .expect("a schedule");
    target.pass(4 * SECOND).await;
    target.deliver_schedules().await;
    assert_eq!(target.delivered(&url).await, [""; 0]);
}

#[tokio::test]
async fn an_updated_schedule_fires_by_its_new_time() {
    let target = Target::open();
    let (url, arn) = target.inbox().await;
    let name = target.name("order");
    target.schedule(&name, "at(2199-01-01T00:00:00)", &arn).send().await.expect("a schedule");
    let request = target.scheduler.update_schedule().name(&name).schedule_expression(target.at(3 * SECOND));
    request.flexible_time_window(window()).target(to(&arn)).send().await.expect("an update");
    target.pass(4 * SECOND).await;
    target.deliver_schedules().await;
    assert_eq!(target.delivered(&url).await.len(), 1);
}

#[tokio::test]
async fn a_name_that_is_taken_is_a_conflict() {
    let target = Target::open();
    let (_, arn) = target.inbox().await;
    let name = target.name("order");
    target.schedule(&name, "at(2199-01-01T00:00:00)", &arn).send().await.expect("a schedule");
    let refused = target.schedule(&name, "at(2199-01-02T00:00:00)", &arn).send().await.expect_err("a conflict");
    assert!(refused.into_service_error().is_conflict_exception());
}

#[tokio::test]
async fn a_schedule_that_is_not_there_is_not_found() {
    let target = Target::open();
    let (_, arn) = target.inbox().await;
    let name = target.name("missing");
    let get = target.scheduler.get_schedule().name(&name).send().await.expect_err("no schedule");
    assert!(get.into_service_error().is_resource_not_found_exception());
    let delete = target.scheduler.delete_schedule().name(&name).send().await.expect_err("no schedule");
    assert!(delete.into_service_error().is_resource_not_found_exception());
    let update = target.scheduler.update_schedule().name(&name).schedule_expression("rate(1 day)");
    let update = update.flexible_time_window(window()).target(to(&arn)).send().await.expect_err("no schedule");
    assert!(update.into_service_error().is_resource_not_found_exception());
    let create = target.schedule(&name, "rate(1 day)", &arn).group_name(target.name("no-group"));
    let create = create.send().await.expect_err("no group");
    assert!(create.into_service_error().is_resource_not_found_exception());
}

#[tokio::test]
async fn a_schedule_is_given_back_as_it_was_made() {
    let target = Target::open();
    let (_, arn) = target.inbox().await;
    let name = target.name("order");
    let request = target.schedule(&name, "at(2030-01-01T20:00:00)", &arn).schedule_expression_timezone("Asia/Shanghai");
    let made = request.description("closes an order").send().await.expect("a schedule");
    let found = target.scheduler.get_schedule().name(&name).send().await.expect("the schedule");
    assert_eq!(found.arn(), Some(made.schedule_arn()));
    assert_eq!(found.schedule_expression(), Some("at(2030-01-01T20:00:00)"));
    assert_eq!(found.schedule_expression_timezone(), Some("Asia/Shanghai"));
    assert_eq!((found.group_name(), found.state()), (Some("default"), Some(&ScheduleState::Enabled)));
    assert_eq!(found.description(), Some("closes an order"));
    let back = found.target().expect("a target");
    assert_eq!((back.arn(), back.input()), (arn.as_str(), Some(r#"{"orderId":"o-1"}"#)));
    assert_eq!(back.retry_policy().and_then(|policy| policy.maximum_retry_attempts()), Some(3));
    assert_eq!(back.dead_letter_config().and_then(|config| config.arn()), Some(arn.as_str()));
}

#[tokio::test]
async fn a_group_takes_its_schedules_with_it() {
    let target = Target::open();
    let (_, arn) = target.inbox().await;
    let (group, name) = (target.name("orders"), target.name("order"));
    target.scheduler.create_schedule_group().name(&group).send().await.expect("a group");
    let again = target.scheduler.create_schedule_group().name(&group).send().await.expect_err("a conflict");
    assert!(again.into_service_error().is_conflict_exception());
    target.schedule(&name, "rate(1 day)", &arn).group_name(&group).send().await.expect("a schedule");
    let listed =
        target.scheduler.list_schedules().group_name(&group).name_prefix("order").send().await.expect("a list");
    let names: Vec<_> = listed.schedules().iter().filter_map(|schedule| schedule.name()).collect();
    assert_eq!(names, [name.as_str()]);
    target.scheduler.delete_schedule_group().name(&group).send().await.expect("a delete");
    target.pass(SECOND).await;
    let gone = target.scheduler.get_schedule().name(&name).group_name(&group).send().await.expect_err("it is gone");
    assert!(gone.into_service_error().is_resource_not_found_exception());
}

#[tokio::test]
async fn what_is_no_expression_is_refused() {
    let target = Target::open();
    let (_, arn) = target.inbox().await;
    for expression in ["at(tomorrow)", "rate(5 seconds)", "cron(* * *)", "sometimes"] {
        let refused = target.schedule(&target.name("order"), expression, &arn).send().await.expect_err(expression);
        assert!(refused.into_service_error().is_validation_exception(), "{expression}");
    }
}

#[tokio::test]
async fn a_time_in_the_past_is_refused() {
    let target = Target::open();
    let (_, arn) = target.inbox().await;
    let refused = target.schedule(&target.name("order"), "at(2020-01-01T00:00:00)", &arn).send().await;
    assert!(refused.expect_err("a refusal").into_service_error().is_validation_exception());
}

#[tokio::test]
async fn a_name_is_at_most_64_plain_characters() {
    let target = Target::open();
    let (_, arn) = target.inbox().await;
    let longest = format!("{}{}", target.name("n"), "x".repeat(64 - 14));
    assert_eq!(longest.len(), 64);
    target.schedule(&longest, "rate(1 day)", &arn).send().await.expect("64 characters");
    for name in [format!("{longest}x"), "with space".to_owned(), "snow\u{2603}".to_owned()] {
        let refused = target.schedule(&name, "rate(1 day)", &arn).send().await.expect_err(&name);
        assert!(refused.into_service_error().is_validation_exception(), "{name}");
    }
}

#[tokio::test]
async fn the_same_request_with_the_same_token_is_answered_again() {
    let target = Target::open();
    let (_, arn) = target.inbox().await;
    let (name, token) = (target.name("order"), target.name("token"));
    let create = |expression: &str| target.schedule(&name, expression, &arn).client_token(&token).send();
    let first = create("at(2199-01-01T00:00:00)").await.expect("a schedule");
    let again = create("at(2199-01-01T00:00:00)").await.expect("the same answer");
    assert_eq!(first.schedule_arn(), again.schedule_arn());
    let other = create("at(2199-01-02T00:00:00)").await.expect_err("another request");
    assert!(other.into_service_error().is_conflict_exception());
}
