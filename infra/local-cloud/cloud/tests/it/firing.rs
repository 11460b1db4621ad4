//! What the firing loop relies on: due, fired, given back, after a crash, and across time.

use std::time::Duration;

use local_cloud::clock::Clock;
use local_cloud::engine::Cloud;
use local_cloud::engine::scheduler::{Definition, SchedulerError};
use serde_json::json;

use crate::target::{START_MS, driven};

fn definition(expression: &str, more: serde_json::Value) -> Definition {
    let mut all = json!({
        "ScheduleExpression": expression,
        "FlexibleTimeWindow": {"Mode": "OFF"},
        "Target": {
            "Arn": "arn:aws:lambda:us-east-1:000000000000:function:timeout-check",
            "RoleArn": "arn:aws:iam::000000000000:role/scheduler",
            "Input": "{}",
        },
    });
    let fields = all.as_object_mut().expect("an object");
    fields.extend(more.as_object().expect("an object").clone());
    serde_json::from_value(all).expect("a definition")
}

async fn names_due(cloud: &Cloud) -> Vec<String> {
    let due = cloud.scheduler.due(cloud.clock.now_ms()).await.expect("due schedules");
    due.into_iter().map(|firing| firing.name).collect()
}

#[tokio::test]
async fn a_crash_before_fired_fires_again_and_after_it_does_not() {
    let dir = tempfile::tempdir().expect("a directory");
    let clock = Clock::driven(START_MS);
    {
        let cloud = Cloud::open(dir.path(), clock.clone()).expect("engines");
        cloud
            .scheduler
            .create("default", "once", definition("at(2026-11-16T12:00:05)", json!({})), None)
            .await
            .expect("one");
        assert_eq!(cloud.scheduler.next_due().await.expect("a look"), Some(START_MS + 5_000));
        assert_eq!(names_due(&cloud).await, [""; 0]);
        clock.advance(Duration::from_secs(5));
        assert_eq!(names_due(&cloud).await, ["once"]);
        assert_eq!(names_due(&cloud).await, [""; 0], "handed out once");
        assert_eq!(cloud.scheduler.next_due().await.expect("a look"), None);
    }
    {
        let cloud = Cloud::open(dir.path(), clock.clone()).expect("engines after a crash");
        let due = cloud.scheduler.due(clock.now_ms()).await.expect("due schedules");
        assert_eq!(due.len(), 1, "fires again rather than never");
        cloud.scheduler.fired(&due[0]).await.expect("a mark");
    }
    let cloud = Cloud::open(dir.path(), clock).expect("engines after another crash");
    assert_eq!(names_due(&cloud).await, [""; 0]);
}

#[tokio::test]
async fn a_firing_given_back_is_due_again() {
    let (cloud, _) = driven();
    cloud
        .scheduler
        .create("default", "once", definition("at(2026-11-16T12:00:05)", json!({})), None)
        .await
        .expect("one");
    cloud.clock.advance(Duration::from_secs(5));
    let due = cloud.scheduler.due(cloud.clock.now_ms()).await.expect("due schedules");
    cloud.scheduler.put_back(&due[0]);
    assert_eq!(names_due(&cloud).await, ["once"]);
}

#[tokio::test]
async fn every_change_of_what_is_next_is_announced() {
    let (cloud, _) = driven();
    let mut changes = cloud.scheduler.changes();
    let mut changed = async || {
        let changed = changes.has_changed().expect("an engine");
        changes.mark_unchanged();
        changed
    };
    let soon = definition("at(2026-11-16T12:00:05)", json!({}));
    cloud.scheduler.create("default", "once", soon.clone(), None).await.expect("one");
    assert!(changed().await);
    cloud
        .scheduler
        .update("default", "once", definition("at(2026-11-16T12:00:09)", json!({})))
        .await
        .expect("an update");
    assert!(changed().await);
    assert_eq!(cloud.scheduler.next_due().await.expect("a look"), Some(START_MS + 9_000));
    cloud.scheduler.delete("default", "once").await.expect("a delete");
    assert!(changed().await);
    assert_eq!(cloud.scheduler.next_due().await.expect("a look"), None);
}

#[tokio::test]
async fn a_rate_fires_at_once_and_then_at_its_interval() {
    let (cloud, _) = driven();
    cloud.scheduler.create("default", "minutely", definition("rate(1 minute)", json!({})), None).await.expect("one");
    for minute in 0..3 {
        let due = cloud.scheduler.due(cloud.clock.now_ms()).await.expect("due schedules");
        assert_eq!(due.iter().map(|firing| firing.scheduled_ms).collect::<Vec<_>>(), [START_MS + minute * 60_000]);
        cloud.scheduler.fired(&due[0]).await.expect("a mark");
        assert_eq!(names_due(&cloud).await, [""; 0]);
        cloud.clock.advance(Duration::from_secs(60));
    }
    // Times missed are made up for once.
    cloud.clock.advance(Duration::from_secs(600));
    let due = cloud.scheduler.due(cloud.clock.now_ms()).await.expect("due schedules");
    cloud.scheduler.fired(&due[0]).await.expect("a mark");
    assert_eq!(names_due(&cloud).await, [""; 0]);
    assert_eq!(cloud.scheduler.next_due().await.expect("a look"), Some(START_MS + 14 * 60_000));
}

#[tokio::test]
async fn a_recurring_schedule_keeps_to_its_dates_and_goes_when_it_is_over() {
    let (cloud, _) = driven();
    let dates = json!({
        "StartDate": START_MS / 1_000 + 120, "EndDate": START_MS / 1_000 + 200, "ActionAfterCompletion": "DELETE",
    });
    cloud.scheduler.create("default", "minutely", definition("rate(1 minute)", dates), None).await.expect("one");
    assert_eq!(cloud.scheduler.next_due().await.expect("a look"), Some(START_MS + 120_000));
    for _ in 0..2 {
        let next_ms = cloud.scheduler.next_due().await.expect("a look").expect("a time");
        cloud.clock.advance(Duration::from_millis(u64::try_from(next_ms - cloud.clock.now_ms()).expect("later")));
        let due = cloud.scheduler.due(cloud.clock.now_ms()).await.expect("due schedules");
        cloud.scheduler.fired(&due[0]).await.expect("a mark");
    }
    assert!(matches!(cloud.scheduler.get("default", "minutely").await, Err(SchedulerError::NotFound(_))));
}

#[tokio::test]
async fn a_start_date_is_at_most_five_minutes_ago() {
    let (cloud, _) = driven();
    for (ago_s, taken) in [(299, true), (301, false)] {
        let started = definition("rate(1 minute)", json!({"StartDate": START_MS / 1_000 - ago_s}));
        let made = cloud.scheduler.create("default", &format!("s-{ago_s}"), started, None).await;
        assert_eq!(made.is_ok(), taken, "{made:?}");
    }
}

#[tokio::test]
async fn a_schedule_changed_while_it_fires_keeps_its_new_time() {
    let (cloud, _) = driven();
    let soon = definition("at(2026-11-16T12:00:05)", json!({"ActionAfterCompletion": "DELETE"}));
    cloud.scheduler.create("default", "once", soon, None).await.expect("one");
    cloud.clock.advance(Duration::from_secs(5));
    let due = cloud.scheduler.due(cloud.clock.now_ms()).await.expect("due schedules");
    let later = definition("at(2026-11-16T12:01:00)", json!({}));
    cloud.scheduler.update("default", "once", later).await.expect("an update");
    cloud.scheduler.fired(&due[0]).await.expect("a mark");
    assert_eq!(cloud.scheduler.next_due().await.expect("a look"), Some(START_MS + 60_000));
}

#[tokio::test]
async fn a_retry_policy_has_defaults_and_limits() {
    let (cloud, _) = driven();
    let plain = definition("at(2026-11-16T12:00:05)", json!({}));
    assert_eq!((plain.target.maximum_retry_attempts(), plain.target.maximum_event_age_s()), (185, 86_400));
    let mut eager = plain.clone();
    eager.target.retry_policy = serde_json::from_value(json!({"MaximumRetryAttempts": 186})).expect("a policy");
    let refused = cloud.scheduler.create("default", "once", eager, None).await;
    assert!(matches!(refused, Err(SchedulerError::Validation(_))), "{refused:?}");
}
