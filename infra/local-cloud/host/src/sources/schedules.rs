//! Schedules at their time: the template's, and those that functions make at run time.
//!
//! Scheduler invokes a function asynchronously: its part is over once Lambda has accepted the event, and the
//! function's errors are retried by Lambda's rules. The schedule's own retry policy and dead-letter queue are for a
//! target that cannot be called at all. A firing stays due in the engine until it was delivered or given up.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

use super::asynchronous::{AcceptError, Asynchronous, cut, text};
use super::events::{fill_context, schedule_event, seconds_text};
use super::{PAUSE_AFTER_TROUBLE, SHORTEST_WINDOW, is_stopping, or_stop};
use crate::ACCOUNT;
use crate::clock::Clock;
use crate::engine::scheduler::{
    DEFAULT_GROUP, DeadLetterConfig, Definition, Firing, FlexibleTimeWindow, RetryPolicy, Scheduler, SchedulerError,
    Target,
};
use crate::engine::sqs::{Outgoing, Sqs, SqsError};
use crate::host::ids;
use crate::template::model::{EventSource, Function, ScheduleSource};

/// Whether a role (its ARN) may call a target (its ARN).
pub type RoleMay = Arc<dyn Fn(&str, &str) -> bool + Send + Sync>;

/// The wait before a first retry; it doubles with each further one, up to the longest.
const RETRY_FIRST_MS: i64 = 1_000;
const RETRY_LONGEST_MS: i64 = 300_000;
/// Schedules looked at in one call.
const PAGE: usize = 100;

/// Fires what is due.
#[derive(Clone)]
pub struct Schedules {
    scheduler: Scheduler,
    sqs: Sqs,
    clock: Clock,
    asynchronous: Asynchronous,
    may: RoleMay,
    retrying: Arc<Mutex<Vec<Attempt>>>,
}

/// A firing and how often it has been tried.
#[derive(Clone, Debug)]
struct Attempt {
    firing: Firing,
    execution_id: String,
    /// Retries made so far.
    retries: u32,
    not_before_ms: i64,
}

/// Why a target could not be called.
#[derive(Debug)]
struct Refusal {
    code: &'static str,
    message: String,
}

impl Schedules {
    /// Fires the schedules of `scheduler`; functions are invoked through `asynchronous`.
    pub fn new(scheduler: Scheduler, sqs: Sqs, clock: Clock, asynchronous: Asynchronous, may: RoleMay) -> Self {
        Self { scheduler, sqs, clock, asynchronous, may, retrying: Arc::default() }
    }

    /// Makes the template's schedules as it has them now; those that it no longer has are deleted.
    pub async fn register(&self, functions: &[Function]) -> Result<(), SchedulerError> {
        let mut wanted = HashSet::new();
        for function in functions {
            for source in &function.sources {
                if let EventSource::Schedule(schedule) = source {
                    self.register_one(function, schedule).await?;
                    wanted.insert(schedule.name.clone());
                }
            }
        }
        let mut after = String::new();
        loop {
            let page = self.scheduler.list(Some(DEFAULT_GROUP), "", (DEFAULT_GROUP, &after), PAGE).await?;
            let Some(last) = page.last() else { return Ok(()) };
            after.clone_from(&last.name);
            for schedule in page {
                if schedule.definition.target.role_arn == template_role() && !wanted.contains(&schedule.name) {
                    self.scheduler.delete(&schedule.group, &schedule.name).await?;
                }
            }
        }
    }

    async fn register_one(&self, function: &Function, schedule: &ScheduleSource) -> Result<(), SchedulerError> {
        let wanted = definition(function, schedule);
        match self.scheduler.create(DEFAULT_GROUP, &schedule.name, wanted.clone(), None).await {
            Err(SchedulerError::Conflict(_)) => {}
            other => return other.map(|_| ()),
        }
        // One that has not changed keeps its next time.
        if self.scheduler.get(DEFAULT_GROUP, &schedule.name).await?.definition != wanted {
            self.scheduler.update(DEFAULT_GROUP, &schedule.name, wanted).await?;
        }
        Ok(())
    }

    /// Fires everything that is due now, and retries what is due for it. Gives how many were delivered.
    pub async fn poll_once(&self) -> Result<usize, SchedulerError> {
        let now_ms = self.clock.now_ms();
        let due = self.scheduler.due(now_ms).await?.into_iter().map(|firing| Attempt {
            firing,
            execution_id: ids::request_id(),
            retries: 0,
            not_before_ms: now_ms,
        });
        let mut attempts: Vec<Attempt> = self.retrying().extract_if(.., |one| one.not_before_ms <= now_ms).collect();
        attempts.extend(due);
        let (mut delivered, mut trouble) = (0, None);
        for attempt in attempts {
            // One that the engine cannot mark must not keep the others: it is due again.
            match self.fire(attempt).await {
                Ok(true) => delivered += 1,
                Ok(false) => {}
                Err(error) => trouble = Some(error),
            }
        }
        trouble.map_or(Ok(delivered), Err)
    }

    /// Calls the target; true if it took the event.
    async fn fire(&self, attempt: Attempt) -> Result<bool, SchedulerError> {
        match self.deliver(&attempt).await {
            Ok(()) => self.scheduler.fired(&attempt.firing).await.map(|()| true),
            Err(refusal) => self.retry_or_give_up(attempt, &refusal).await.map(|()| false),
        }
    }

    /// Fires schedules at their second, until `stop` says true.
    pub async fn run(self, mut stop: watch::Receiver<bool>) {
        let mut changes = self.scheduler.changes();
        while !is_stopping(&stop) {
            changes.mark_unchanged();
            let step = match self.poll_once().await {
                Ok(_) => self.next_ms().await,
                Err(error) => Err(error),
            };
            let next_ms = match step {
                Ok(next_ms) => next_ms,
                Err(error) => {
                    // Not by a change: what could not be marked is due again at once, which is one.
                    tracing::warn!(%error, "schedules cannot be read");
                    or_stop(&mut stop, self.clock.sleep(PAUSE_AFTER_TROUBLE)).await;
                    continue;
                }
            };
            let wait = async {
                match next_ms {
                    Some(next_ms) => self.clock.sleep_until(next_ms).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                _ = or_stop(&mut stop, wait) => {}
                changed = changes.changed() => {
                    let pause = if changed.is_ok() { SHORTEST_WINDOW } else { PAUSE_AFTER_TROUBLE };
                    or_stop(&mut stop, self.clock.sleep(pause)).await;
                }
            }
        }
    }

    /// When there is something to do next.
    async fn next_ms(&self) -> Result<Option<i64>, SchedulerError> {
        let due_ms = self.scheduler.next_due().await?;
        let retry_ms = self.retrying().iter().map(|attempt| attempt.not_before_ms).min();
        Ok(due_ms.into_iter().chain(retry_ms).min())
    }

    fn retrying(&self) -> std::sync::MutexGuard<'_, Vec<Attempt>> {
        self.retrying.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn deliver(&self, attempt: &Attempt) -> Result<(), Refusal> {
        let target = &attempt.firing.target;
        if target.role_arn != template_role() && !(self.may)(&target.role_arn, &target.arn) {
            let message = format!("{} may not call {}: its policy does not allow it", target.role_arn, target.arn);
            return Err(Refusal { code: "AccessDeniedException", message });
        }
        let payload = attempt.payload();
        if let Some(function) = function_in(&target.arn) {
            return match self.asynchronous.accept(function, payload.as_bytes()).await {
                Ok(_) => Ok(()),
                Err(error @ AcceptError::UnknownFunction(_)) => Err(refused("ResourceNotFoundException", &error)),
                Err(error @ AcceptError::Queue(_)) => Err(refused("ServiceException", &error)),
                Err(error) => Err(refused("InvalidRequestContentException", &error)),
            };
        }
        if target.arn.starts_with("arn:aws:sqs:") {
            return match self.sqs.send(Sqs::name_of(&target.arn), Outgoing::text(payload)).await {
                Ok(_) => Ok(()),
                Err(error @ SqsError::QueueDoesNotExist(_)) => {
                    Err(refused("AWS.SimpleQueueService.NonExistentQueue", &error))
                }
                Err(error) => Err(refused("InternalError", &error)),
            };
        }
        let message = format!("the local cloud calls functions and queues; {} is neither", target.arn);
        Err(Refusal { code: "ValidationException", message })
    }

    async fn retry_or_give_up(&self, mut attempt: Attempt, refusal: &Refusal) -> Result<(), SchedulerError> {
        let target = &attempt.firing.target;
        let doublings = attempt.retries.min(16);
        let wait_ms = RETRY_FIRST_MS.saturating_mul(1 << doublings).min(RETRY_LONGEST_MS);
        let next_ms = self.clock.now_ms().saturating_add(wait_ms);
        let oldest_ms = attempt.firing.scheduled_ms.saturating_add(i64::from(target.maximum_event_age_s()) * 1000);
        let condition = if attempt.retries >= target.maximum_retry_attempts() {
            "MaximumRetryAttempts"
        } else if next_ms > oldest_ms {
            "MaximumEventAgeInSeconds"
        } else {
            attempt.retries += 1;
            attempt.not_before_ms = next_ms;
            self.retrying().push(attempt);
            return Ok(());
        };
        tracing::warn!(
            schedule = attempt.firing.schedule_arn(),
            code = refusal.code,
            message = refusal.message,
            "schedule given up"
        );
        if let Some(arn) = target.dead_letter_arn() {
            let message = attempt.dead_letter(refusal, condition);
            if let Err(error) = self.sqs.send(Sqs::name_of(arn), message).await {
                tracing::error!(queue_arn = arn, %error, "a schedule that was given up could not be reported");
            }
        }
        self.scheduler.fired(&attempt.firing).await
    }
}

impl Attempt {
    fn payload(&self) -> String {
        let arn = self.firing.schedule_arn();
        let scheduled_ms = self.firing.scheduled_ms;
        match &self.firing.target.input {
            Some(input) => fill_context(input, &arn, scheduled_ms, &self.execution_id, self.retries.saturating_add(1)),
            None => schedule_event(&self.execution_id, &arn, scheduled_ms).to_string(),
        }
    }

    fn dead_letter(&self, refusal: &Refusal, condition: &str) -> Outgoing {
        let target = &self.firing.target;
        let attributes = BTreeMap::from([
            ("ERROR_CODE".to_owned(), text("String", refusal.code)),
            ("ERROR_MESSAGE".to_owned(), text("String", cut(&refusal.message, 1024))),
            ("EXECUTION_ID".to_owned(), text("String", &self.execution_id)),
            ("EXHAUSTED_RETRY_CONDITION".to_owned(), text("String", condition)),
            ("IS_PAYLOAD_TRUNCATED".to_owned(), text("String", "false")),
            ("RETRY_ATTEMPTS".to_owned(), text("String", &self.retries.to_string())),
            ("SCHEDULED_TIME".to_owned(), text("String", &seconds_text(self.firing.scheduled_ms))),
            ("SCHEDULE_ARN".to_owned(), text("String", &self.firing.schedule_arn())),
            ("TARGET_ARN".to_owned(), text("String", &target.arn)),
        ]);
        Outgoing { body: self.payload(), attributes, ..Outgoing::default() }
    }
}

fn refused(code: &'static str, error: &dyn std::error::Error) -> Refusal {
    Refusal { code, message: error.to_string() }
}

/// The role of the template's own schedules. SAM makes one for each that may call its function and nothing else; here
/// it needs no policy. No function can pass it: no statement of a template names it.
fn template_role() -> String {
    format!("arn:aws:iam::{ACCOUNT}:role/service/template-schedules")
}

/// The name in a function's ARN, without a version or alias.
fn function_in(arn: &str) -> Option<&str> {
    let (service, name) = arn.split_once(":function:")?;
    service.starts_with("arn:aws:lambda:").then(|| name.split(':').next().unwrap_or(name))
}

fn definition(function: &Function, schedule: &ScheduleSource) -> Definition {
    Definition {
        schedule_expression: schedule.expression.clone(),
        schedule_expression_timezone: None,
        start_date: None,
        end_date: None,
        state: Some(if schedule.enabled { "ENABLED" } else { "DISABLED" }.to_owned()),
        action_after_completion: None,
        flexible_time_window: FlexibleTimeWindow { mode: "OFF".to_owned(), maximum_window_in_minutes: None },
        target: Target {
            arn: function.arn.clone(),
            role_arn: template_role(),
            input: schedule.input.clone(),
            retry_policy: Some(RetryPolicy {
                maximum_event_age_in_seconds: None,
                maximum_retry_attempts: Some(schedule.retries),
            }),
            dead_letter_config: schedule.dead_letter_queue.clone().map(|arn| DeadLetterConfig { arn: Some(arn) }),
            others: serde_json::Map::new(),
        },
        description: None,
        kms_key_arn: None,
    }
}
