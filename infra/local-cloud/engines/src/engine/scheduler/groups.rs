//! Schedule groups. `default` is always there.

use rusqlite::{OptionalExtension, Transaction, params};

use super::{DEFAULT_GROUP, Scheduler, SchedulerError, definition};

/// A schedule group.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    pub name: String,
    /// When it was made, in milliseconds since 1970.
    pub created_ms: i64,
}

impl Group {
    /// Its ARN.
    pub fn arn(&self) -> String {
        format!("arn:aws:scheduler:{}:{}:schedule-group/{}", crate::REGION, crate::ACCOUNT, self.name)
    }
}

impl Scheduler {
    /// Makes a group and gives it. The same request again with the same `token` is answered as the first.
    pub async fn create_group(&self, name: &str, token: Option<String>) -> Result<Group, SchedulerError> {
        definition::check_name(name)?;
        let group = Group { name: name.to_owned(), created_ms: self.clock.now_ms() };
        self.database
            .transaction(move |db| {
                let present: Option<(i64, Option<String>)> = db
                    .query_row(
                        "SELECT created_ms, client_token FROM schedule_groups WHERE name = ?1",
                        [&group.name],
                        |row| Ok((row.get(0)?, row.get(1)?)),
                    )
                    .optional()?;
                match present {
                    Some((created_ms, present_token)) if token.is_some() && token == present_token => {
                        Ok(Group { created_ms, ..group })
                    }
                    _ if present.is_some() || group.name == DEFAULT_GROUP => {
                        Err(SchedulerError::Conflict(format!("Schedule group {} already exists.", group.name)))
                    }
                    _ => {
                        db.execute(
                            "INSERT INTO schedule_groups (name, created_ms, client_token) VALUES (?1, ?2, ?3)",
                            params![group.name, group.created_ms, token],
                        )?;
                        Ok(group)
                    }
                }
            })
            .await
    }

    /// A group.
    pub async fn group(&self, name: &str) -> Result<Group, SchedulerError> {
        let name = name.to_owned();
        self.database.transaction(move |db| find(db, &name)?.ok_or_else(|| missing(&name))).await
    }

    /// Deletes a group and the schedules in it.
    pub async fn delete_group(&self, name: &str) -> Result<(), SchedulerError> {
        let name = name.to_owned();
        self.database
            .transaction(move |db| {
                if name == DEFAULT_GROUP {
                    return Err(SchedulerError::Validation("The default schedule group cannot be deleted.".to_owned()));
                }
                find(db, &name)?.ok_or_else(|| missing(&name))?;
                db.execute("DELETE FROM schedules WHERE grp = ?1", [&name])?;
                db.execute("DELETE FROM schedule_groups WHERE name = ?1", [&name])?;
                Ok(())
            })
            .await?;
        self.announce();
        Ok(())
    }

    /// Groups whose names start with `prefix` and come after `after`, in order, up to `limit`.
    pub async fn groups(&self, prefix: &str, after: &str, limit: usize) -> Result<Vec<Group>, SchedulerError> {
        let (prefix, after) = (prefix.to_owned(), after.to_owned());
        self.database
            .transaction(move |db| {
                let mut found = db.prepare_cached("SELECT name, created_ms FROM schedule_groups")?;
                let rows = found.query_map([], |row| Ok(Group { name: row.get(0)?, created_ms: row.get(1)? }))?;
                let mut groups: Vec<Group> = rows.collect::<Result<_, _>>()?;
                groups.push(Group { name: DEFAULT_GROUP.to_owned(), created_ms: 0 });
                groups.retain(|group| group.name.starts_with(&prefix) && group.name > after);
                groups.sort_by(|a, b| a.name.cmp(&b.name));
                groups.truncate(limit);
                Ok(groups)
            })
            .await
    }
}

fn missing(name: &str) -> SchedulerError {
    SchedulerError::NotFound(format!("Schedule group {name} does not exist."))
}

fn find(db: &Transaction<'_>, name: &str) -> Result<Option<Group>, SchedulerError> {
    if name == DEFAULT_GROUP {
        return Ok(Some(Group { name: name.to_owned(), created_ms: 0 }));
    }
    Ok(db
        .prepare_cached("SELECT created_ms FROM schedule_groups WHERE name = ?1")?
        .query_row([name], |row| Ok(Group { name: name.to_owned(), created_ms: row.get(0)? }))
        .optional()?)
}

pub(super) fn check_exists(db: &Transaction<'_>, name: &str) -> Result<(), SchedulerError> {
    find(db, name)?.map(|_| ()).ok_or_else(|| missing(name))
}
