//! EventBridge Scheduler: schedules and groups, and which of them are due.
//!
//! This engine decides when a schedule fires; calling its target is the firing loop's business. A firing is handed
//! out by [`Scheduler::due`] and stays due in the database until [`Scheduler::fired`]: a crash between the two
//! fires again rather than never.

mod definition;
mod error;
mod expression;
mod firing;
mod groups;
mod protocol;

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use rusqlite::{OptionalExtension, Transaction, params};
use tokio::sync::watch;

pub use definition::{DeadLetterConfig, Definition, FlexibleTimeWindow, RetryPolicy, Target};
pub use error::SchedulerError;
pub use firing::Firing;
pub use groups::Group;
pub(crate) use protocol::operation_of;

use super::database::Database;
use super::random_id;
use crate::clock::Clock;
use expression::Expression;

/// The group of schedules that name none.
pub const DEFAULT_GROUP: &str = "default";

/// The engine. Copies share its state.
#[derive(Clone)]
pub struct Scheduler {
    database: Database,
    clock: Clock,
    changed: watch::Sender<u64>,
    handed_out: Arc<Mutex<HashSet<firing::Key>>>,
}

/// A schedule that is there.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    pub group: String,
    pub name: String,
    /// What it says.
    pub definition: Definition,
    /// When it was made, in milliseconds since 1970.
    pub created_ms: i64,
    /// When it was last changed, in milliseconds since 1970.
    pub changed_ms: i64,
    /// When it fires next; `None`: never (again), or it is disabled.
    pub next_ms: Option<i64>,
}

impl Schedule {
    /// Its ARN.
    pub fn arn(&self) -> String {
        arn_of(&self.group, &self.name)
    }
}

fn arn_of(group: &str, name: &str) -> String {
    format!("arn:aws:scheduler:{}:{}:schedule/{group}/{name}", crate::REGION, crate::ACCOUNT)
}

impl Scheduler {
    pub(super) fn new(database: Database, clock: Clock) -> Self {
        Self { database, clock, changed: watch::Sender::new(0), handed_out: Arc::default() }
    }

    fn announce(&self) {
        self.changed.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Makes a schedule and gives its ARN. The same request again with the same `token` is answered as the first.
    pub async fn create(
        &self,
        group: &str,
        name: &str,
        definition: Definition,
        token: Option<String>,
    ) -> Result<String, SchedulerError> {
        definition::check_name(name)?;
        let now_ms = self.clock.now_ms();
        definition.check(now_ms)?;
        let expression = definition.expression()?;
        let (group, name) = (group.to_owned(), name.to_owned());
        let arn = arn_of(&group, &name);
        self.database
            .transaction(move |db| {
                groups::check_exists(db, &group)?;
                if let Some((present, present_token)) = find_with_token(db, &group, &name)? {
                    let repeated = token.is_some() && token == present_token && present.definition == definition;
                    return if repeated {
                        Ok(())
                    } else {
                        Err(SchedulerError::Conflict(format!("Schedule {name} already exists.")))
                    };
                }
                check_not_past(&definition, &expression, now_ms)?;
                write(db, &group, &name, &definition, &expression, token, now_ms, now_ms)
            })
            .await?;
        self.announce();
        Ok(arn)
    }

    /// Replaces what a schedule says and gives its ARN.
    pub async fn update(&self, group: &str, name: &str, definition: Definition) -> Result<String, SchedulerError> {
        definition::check_name(name)?;
        let now_ms = self.clock.now_ms();
        definition.check(now_ms)?;
        let expression = definition.expression()?;
        let (group, name) = (group.to_owned(), name.to_owned());
        let arn = arn_of(&group, &name);
        self.database
            .transaction(move |db| {
                let (present, token) = find_with_token(db, &group, &name)?.ok_or_else(|| missing(&name))?;
                check_not_past(&definition, &expression, now_ms)?;
                write(db, &group, &name, &definition, &expression, token, present.created_ms, now_ms)
            })
            .await?;
        self.announce();
        Ok(arn)
    }

    /// A schedule.
    pub async fn get(&self, group: &str, name: &str) -> Result<Schedule, SchedulerError> {
        definition::check_name(name)?;
        let (group, name) = (group.to_owned(), name.to_owned());
        self.database
            .transaction(move |db| {
                find_with_token(db, &group, &name)?.map(|(schedule, _)| schedule).ok_or_else(|| missing(&name))
            })
            .await
    }

    /// Deletes a schedule.
    pub async fn delete(&self, group: &str, name: &str) -> Result<(), SchedulerError> {
        definition::check_name(name)?;
        let (group, name) = (group.to_owned(), name.to_owned());
        self.database
            .transaction(move |db| {
                let deleted = db
                    .prepare_cached("DELETE FROM schedules WHERE grp = ?1 AND name = ?2")?
                    .execute([&group, &name])?;
                if deleted == 0 { Err(missing(&name)) } else { Ok(()) }
            })
            .await?;
        self.announce();
        Ok(())
    }

    /// Up to `limit` schedules after `after` (group and name), in order, of a group or of all, whose names start with
    /// `prefix`.
    pub async fn list(
        &self,
        group: Option<&str>,
        prefix: &str,
        after: (&str, &str),
        limit: usize,
    ) -> Result<Vec<Schedule>, SchedulerError> {
        let (group, prefix) = (group.map(str::to_owned), prefix.to_owned());
        let after = (after.0.to_owned(), after.1.to_owned());
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.database
            .transaction(move |db| {
                if let Some(group) = &group {
                    groups::check_exists(db, group)?;
                }
                let mut found = db.prepare_cached(
                    "SELECT grp, name, definition, created_ms, changed_ms, next_ms FROM schedules
                     WHERE (?1 IS NULL OR grp = ?1) AND substr(name, 1, length(?2)) = ?2 AND (grp, name) > (?3, ?4)
                     ORDER BY grp, name LIMIT ?5",
                )?;
                let mut rows = found.query(params![group, prefix, after.0, after.1, limit])?;
                let mut schedules = Vec::new();
                while let Some(row) = rows.next()? {
                    schedules.push(read_row(row)?);
                }
                Ok(schedules)
            })
            .await
    }
}

/// AWS refuses a one-time schedule whose time has passed. (A schedule that is due while this engine is down is
/// another matter: it fires late.)
fn check_not_past(definition: &Definition, expression: &Expression, now_ms: i64) -> Result<(), SchedulerError> {
    match expression {
        Expression::At(at_ms) if *at_ms < now_ms => Err(SchedulerError::Validation(format!(
            "Invalid Schedule Expression {}: the time is in the past.",
            definition.schedule_expression
        ))),
        _ => Ok(()),
    }
}

fn missing(name: &str) -> SchedulerError {
    SchedulerError::NotFound(format!("Schedule {name} does not exist."))
}

#[expect(clippy::too_many_arguments, reason = "one row, column by column")]
fn write(
    db: &Transaction<'_>,
    group: &str,
    name: &str,
    definition: &Definition,
    expression: &Expression,
    token: Option<String>,
    created_ms: i64,
    now_ms: i64,
) -> Result<(), SchedulerError> {
    let anchor_ms = definition.anchor_ms(now_ms);
    let next_ms = if definition.is_enabled() { definition.first_from(expression, anchor_ms, now_ms) } else { None };
    let json = serde_json::to_string(definition)
        .map_err(|error| SchedulerError::Internal(format!("schedule {name}: {error}")))?;
    db.prepare_cached(
        "INSERT OR REPLACE INTO schedules
         (grp, name, definition, revision, client_token, created_ms, changed_ms, anchor_ms, next_ms)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
    )?
    .execute(params![group, name, json, random_id(), token, created_ms, now_ms, anchor_ms, next_ms])?;
    Ok(())
}

fn find_with_token(
    db: &Transaction<'_>,
    group: &str,
    name: &str,
) -> Result<Option<(Schedule, Option<String>)>, SchedulerError> {
    db.prepare_cached(
        "SELECT grp, name, definition, created_ms, changed_ms, next_ms, client_token FROM schedules
         WHERE grp = ?1 AND name = ?2",
    )?
    .query_row([group, name], |row| Ok((read_row(row), row.get(6)?)))
    .optional()?
    .map(|(schedule, token)| Ok((schedule?, token)))
    .transpose()
}

fn read_row(row: &rusqlite::Row<'_>) -> Result<Schedule, SchedulerError> {
    let name: String = row.get(1)?;
    let definition: String = row.get(2)?;
    let definition = serde_json::from_str(&definition)
        .map_err(|error| SchedulerError::Internal(format!("schedule {name}: {error}")))?;
    Ok(Schedule {
        group: row.get(0)?,
        name,
        definition,
        created_ms: row.get(3)?,
        changed_ms: row.get(4)?,
        next_ms: row.get(5)?,
    })
}
