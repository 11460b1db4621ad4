//! Queues themselves: making, finding, setting, emptying and deleting them.

use std::collections::BTreeMap;
use std::sync::PoisonError;

use rusqlite::{Transaction, params};

use super::queue::{self, Queue};
use super::{Sqs, SqsError, messages};

/// A queue can be purged once in this time.
const PURGE_EVERY_MS: i64 = 60_000;

impl Sqs {
    /// Makes a queue and gives its URL. One that is there with the same attributes is fine; with others it is
    /// [`SqsError::QueueNameExists`].
    pub async fn create_queue(&self, name: &str, attributes: BTreeMap<String, String>) -> Result<String, SqsError> {
        queue::check_name(name)?;
        let (owned, now_ms) = (name.to_owned(), self.clock.now_ms());
        self.database
            .transaction(move |db| {
                queue::check_attributes(db, &attributes)?;
                if let Some(present) = Queue::look_up(db, &owned)? {
                    return same_attributes(&present, &attributes);
                }
                db.execute(
                    "INSERT INTO queues (name, attributes, created_ms, changed_ms) VALUES (?1, ?2, ?3, ?3)",
                    params![owned, to_json(&attributes)?, now_ms],
                )?;
                Ok(())
            })
            .await?;
        Ok(Self::url_of(name))
    }

    /// Sets some of a queue's attributes; the others stay.
    pub async fn set_attributes(&self, name: &str, attributes: BTreeMap<String, String>) -> Result<(), SqsError> {
        let (owned, now_ms) = (name.to_owned(), self.clock.now_ms());
        self.database
            .transaction(move |db| {
                let mut queue = Queue::find(db, &owned)?;
                queue::check_attributes(db, &attributes)?;
                queue.attributes.extend(attributes);
                // An empty policy takes the policy away.
                queue.attributes.retain(|_, value| !value.is_empty());
                db.execute(
                    "UPDATE queues SET attributes = ?2, changed_ms = ?3 WHERE id = ?1",
                    params![queue.id, to_json(&queue.attributes)?, now_ms],
                )?;
                Ok(())
            })
            .await
    }

    /// All attributes of a queue, counts included.
    pub async fn attributes(&self, name: &str) -> Result<BTreeMap<String, String>, SqsError> {
        let (owned, now_ms) = (name.to_owned(), self.clock.now_ms());
        self.database
            .transaction(move |db| {
                let queue = Queue::find(db, &owned)?;
                let counts = messages::count(db, &queue, now_ms)?;
                let mut all = queue.settings();
                for (name, value) in [
                    ("ApproximateNumberOfMessages", counts.visible),
                    ("ApproximateNumberOfMessagesNotVisible", counts.in_flight),
                    ("ApproximateNumberOfMessagesDelayed", counts.delayed),
                    ("CreatedTimestamp", queue.created_ms / 1_000),
                    ("LastModifiedTimestamp", queue.changed_ms / 1_000),
                ] {
                    all.insert(name.to_owned(), value.to_string());
                }
                all.insert("QueueArn".to_owned(), queue.arn());
                Ok(all)
            })
            .await
    }

    /// Whether there is a queue of that name.
    pub async fn exists(&self, name: &str) -> Result<bool, SqsError> {
        let owned = name.to_owned();
        self.database.transaction(move |db| Ok(Queue::look_up(db, &owned)?.is_some())).await
    }

    /// Up to `limit` names of queues that start with `prefix` and come after `after`, in order.
    pub async fn list(&self, prefix: &str, after: &str, limit: i64) -> Result<Vec<String>, SqsError> {
        let (prefix, after) = (prefix.to_owned(), after.to_owned());
        self.database
            .transaction(move |db| {
                let mut found = db.prepare_cached(
                    "SELECT name FROM queues WHERE substr(name, 1, length(?1)) = ?1 AND name > ?2 ORDER BY name LIMIT \
                     ?3",
                )?;
                let names = found.query_map(params![prefix, after, limit], |row| row.get(0))?;
                Ok(names.collect::<Result<_, _>>()?)
            })
            .await
    }

    /// Names of the queues whose dead letters go to `name`.
    pub async fn dead_letter_sources(&self, name: &str) -> Result<Vec<String>, SqsError> {
        let owned = name.to_owned();
        self.database
            .transaction(move |db| {
                Queue::find(db, &owned)?;
                let target = queue::arn_of(&owned);
                let mut sources = all(db)?;
                sources.retain(|queue| queue.redrive().is_some_and(|redrive| redrive.target_arn == target));
                Ok(sources.into_iter().map(|queue| queue.name).collect())
            })
            .await
    }

    /// Deletes every message of a queue; at most once in 60 seconds.
    pub async fn purge(&self, name: &str) -> Result<(), SqsError> {
        let (owned, now_ms) = (name.to_owned(), self.clock.now_ms());
        if !self.exists(name).await? {
            return Err(SqsError::QueueDoesNotExist(owned));
        }
        {
            let mut purges = self.purges.lock().unwrap_or_else(PoisonError::into_inner);
            purges.retain(|_, purged_ms| now_ms.saturating_sub(*purged_ms) < PURGE_EVERY_MS);
            if purges.contains_key(name) {
                return Err(SqsError::PurgeQueueInProgress(owned));
            }
            purges.insert(owned.clone(), now_ms);
        }
        self.database
            .transaction(move |db| {
                let queue = Queue::find(db, &owned)?;
                db.execute("DELETE FROM messages WHERE queue = ?1", [queue.id])?;
                Ok(())
            })
            .await
    }

    /// Deletes a queue and its messages.
    pub async fn delete_queue(&self, name: &str) -> Result<(), SqsError> {
        let owned = name.to_owned();
        self.database
            .transaction(move |db| {
                let queue = Queue::find(db, &owned)?;
                db.execute("DELETE FROM messages WHERE queue = ?1", [queue.id])?;
                db.execute("DELETE FROM queues WHERE id = ?1", [queue.id])?;
                Ok(())
            })
            .await
    }

    /// Drops every message past its queue's retention, received or not.
    pub(crate) async fn sweep_expired(&self) {
        let now_ms = self.clock.now_ms();
        let swept = self
            .database
            .transaction(move |db| {
                for queue in all(db)? {
                    messages::drop_expired(db, &queue, now_ms)?;
                }
                Ok::<_, SqsError>(())
            })
            .await;
        if let Err(error) = swept {
            tracing::error!(%error, "expired messages were not dropped");
        }
    }
}

fn all(db: &Transaction<'_>) -> Result<Vec<Queue>, SqsError> {
    let names: Vec<String> = db
        .prepare_cached("SELECT name FROM queues ORDER BY name")?
        .query_map([], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    names.iter().map(|name| Queue::find(db, name)).collect()
}

fn same_attributes(present: &Queue, wanted: &BTreeMap<String, String>) -> Result<(), SqsError> {
    let settings = present.settings();
    match wanted.iter().find(|(name, value)| settings.get(*name) != Some(value)) {
        Some((name, _)) => Err(SqsError::QueueNameExists(name.clone())),
        None => Ok(()),
    }
}

fn to_json(attributes: &BTreeMap<String, String>) -> Result<String, SqsError> {
    serde_json::to_string(attributes).map_err(|error| SqsError::Internal(format!("queue attributes: {error}")))
}
