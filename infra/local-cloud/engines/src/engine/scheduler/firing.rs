//! Which schedules are due, for the loop that calls their targets.

use std::sync::PoisonError;

use rusqlite::{OptionalExtension, params};
use tokio::sync::watch;

use super::{Definition, Scheduler, SchedulerError, Target, arn_of};

/// At most so many firings are handed out at once; the loop asks again when these are done.
const AT_ONCE: usize = 256;

/// Which firing: schedule, version of its definition, time.
pub(super) type Key = (String, String, String, i64);

/// A schedule whose time has come.
#[derive(Clone, Debug, PartialEq)]
pub struct Firing {
    /// The schedule's group.
    pub group: String,
    /// The schedule's name.
    pub name: String,
    /// The time it was due, in milliseconds since 1970.
    pub scheduled_ms: i64,
    /// What to call.
    pub target: Target,
    revision: String,
}

impl Firing {
    /// The schedule's ARN.
    pub fn schedule_arn(&self) -> String {
        arn_of(&self.group, &self.name)
    }

    fn key(&self) -> Key {
        (self.group.clone(), self.name.clone(), self.revision.clone(), self.scheduled_ms)
    }
}

impl Scheduler {
    /// Tells of every change that may move [`Scheduler::next_due`].
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// The schedules due at `now_ms` that have not been handed out yet, earliest first. Each stays due until
    /// [`Scheduler::fired`]: after a crash it is handed out again.
    pub async fn due(&self, now_ms: i64) -> Result<Vec<Firing>, SchedulerError> {
        let found = self.upcoming(Some(now_ms), AT_ONCE).await?;
        let mut handed_out = self.handed_out.lock().unwrap_or_else(PoisonError::into_inner);
        // Checked again under the lock: two loops asking at once must not both get one.
        Ok(found.into_iter().filter(|firing| handed_out.insert(firing.key())).collect())
    }

    /// When the next schedule that is not handed out is due.
    pub async fn next_due(&self) -> Result<Option<i64>, SchedulerError> {
        Ok(self.upcoming(None, 1).await?.first().map(|firing| firing.scheduled_ms))
    }

    /// Marks a firing as done with, delivered or given up: a schedule that is complete goes or stays as its
    /// `ActionAfterCompletion` says, a recurring one gets its next time. A schedule that was changed or deleted
    /// since it was handed out is left alone.
    pub async fn fired(&self, firing: &Firing) -> Result<(), SchedulerError> {
        let (firing_copy, now_ms) = (firing.clone(), self.clock.now_ms());
        let marked = self.database.transaction(move |db| mark_fired(db, &firing_copy, now_ms)).await;
        self.put_back(firing);
        marked
    }

    /// Gives a firing back that was not carried out: it is due again at once.
    pub fn put_back(&self, firing: &Firing) {
        self.handed_out.lock().unwrap_or_else(PoisonError::into_inner).remove(&firing.key());
        self.announce();
    }

    /// Up to `limit` firings that are not handed out, earliest first; only those due by `until_ms` if given.
    async fn upcoming(&self, until_ms: Option<i64>, limit: usize) -> Result<Vec<Firing>, SchedulerError> {
        let handed_out = self.handed_out.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.database
            .transaction(move |db| {
                let mut found = db.prepare_cached(
                    "SELECT grp, name, revision, next_ms, definition FROM schedules
                     WHERE next_ms <= ?1 ORDER BY next_ms LIMIT ?2",
                )?;
                let looked_at = i64::try_from(limit.saturating_add(handed_out.len())).unwrap_or(i64::MAX);
                let mut rows = found.query(params![until_ms.unwrap_or(i64::MAX), looked_at])?;
                let mut firings = Vec::new();
                while let Some(row) = rows.next()? {
                    let key: Key = (row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?);
                    if firings.len() >= limit || handed_out.contains(&key) {
                        continue;
                    }
                    let definition = read_definition(&row.get::<_, String>(4)?, &key.1)?;
                    let (group, name, revision, scheduled_ms) = key;
                    firings.push(Firing { group, name, scheduled_ms, target: definition.target, revision });
                }
                Ok(firings)
            })
            .await
    }
}

fn read_definition(json: &str, name: &str) -> Result<Definition, SchedulerError> {
    serde_json::from_str(json).map_err(|error| SchedulerError::Internal(format!("schedule {name}: {error}")))
}

fn mark_fired(db: &rusqlite::Transaction<'_>, firing: &Firing, now_ms: i64) -> Result<(), SchedulerError> {
    let row: Option<(String, i64)> = db
        .prepare_cached(
            "SELECT definition, anchor_ms FROM schedules WHERE grp = ?1 AND name = ?2 AND revision = ?3 AND next_ms = \
             ?4",
        )?
        .query_row(params![firing.group, firing.name, firing.revision, firing.scheduled_ms], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .optional()?;
    let Some((definition, anchor_ms)) = row else {
        return Ok(());
    };
    let definition = read_definition(&definition, &firing.name)?;
    // Times missed while nothing ran are made up for by this one firing, not by one each.
    let after_ms = now_ms.max(firing.scheduled_ms);
    let next_ms = definition.first_from(&definition.expression()?, anchor_ms, after_ms.saturating_add(1));
    if next_ms.is_none() && definition.deletes_itself() {
        db.prepare_cached("DELETE FROM schedules WHERE grp = ?1 AND name = ?2")?
            .execute([&firing.group, &firing.name])?;
    } else {
        db.prepare_cached("UPDATE schedules SET next_ms = ?3 WHERE grp = ?1 AND name = ?2")?.execute(params![
            firing.group,
            firing.name,
            next_ms
        ])?;
    }
    Ok(())
}
