//! Message moves: dead letters back to where they came from, or to another queue.

use rusqlite::{Transaction, params};

use super::queue::{self, Queue, name_in_arn};
use super::{Sqs, SqsError};
use crate::engine::random_id;

/// `ListMessageMoveTasks` tells of the latest ten.
const REMEMBERED: i64 = 10;

/// A move that was made.
#[derive(Clone, Debug, PartialEq)]
pub struct MoveTask {
    /// The queue that was emptied.
    pub source_arn: String,
    /// The queue that got the messages; `None`: each went where it came from.
    pub destination_arn: Option<String>,
    /// How many were moved.
    pub moved: i64,
    /// When, in milliseconds since 1970.
    pub started_ms: i64,
}

impl Sqs {
    /// Moves every message of the dead-letter queue `source_arn` to `destination_arn`, or to the queue that each came
    /// from. The move is done when this returns; gives the task's handle.
    pub async fn start_move(&self, source_arn: &str, destination_arn: Option<&str>) -> Result<String, SqsError> {
        let (source, destination) = (source_arn.to_owned(), destination_arn.map(str::to_owned));
        let now_ms = self.clock.now_ms();
        let (handle, arrived_at) = self
            .database
            .transaction(move |db| {
                let from = find_by_arn(db, &source)?;
                check_is_dead_letter_queue(db, &from)?;
                let (moved, arrived_at) = match &destination {
                    Some(arn) => move_all(db, &from, &find_by_arn(db, arn)?, None, now_ms)?,
                    None => move_home(db, &from, now_ms)?,
                };
                let handle = random_id();
                db.execute(
                    "INSERT INTO moves (id, source, destination, moved, started_ms) VALUES (?1, ?2, ?3, ?4, ?5)",
                    params![handle, source, destination, moved, now_ms],
                )?;
                db.execute(
                    "DELETE FROM moves WHERE source = ?1 AND id NOT IN
                     (SELECT id FROM moves WHERE source = ?1 ORDER BY started_ms DESC, rowid DESC LIMIT ?2)",
                    params![source, REMEMBERED],
                )?;
                Ok::<_, SqsError>((handle, arrived_at))
            })
            .await?;
        for queue in arrived_at {
            self.announce(&queue);
        }
        Ok(handle)
    }

    /// The latest moves out of `source_arn`, newest first.
    pub async fn moves(&self, source_arn: &str) -> Result<Vec<MoveTask>, SqsError> {
        let source = source_arn.to_owned();
        self.database
            .transaction(move |db| {
                find_by_arn(db, &source)?;
                let mut found = db.prepare_cached(
                    "SELECT source, destination, moved, started_ms FROM moves WHERE source = ?1
                     ORDER BY started_ms DESC, rowid DESC LIMIT ?2",
                )?;
                let tasks = found.query_map(params![source, REMEMBERED], |row| {
                    Ok(MoveTask {
                        source_arn: row.get(0)?,
                        destination_arn: row.get(1)?,
                        moved: row.get(2)?,
                        started_ms: row.get(3)?,
                    })
                })?;
                Ok(tasks.collect::<Result<_, _>>()?)
            })
            .await
    }
}

fn find_by_arn(db: &Transaction<'_>, arn: &str) -> Result<Queue, SqsError> {
    let missing =
        || SqsError::ResourceNotFound(format!("The resource that you specified for the ARN {arn} doesn't exist."));
    let name = name_in_arn(arn).ok_or_else(missing)?;
    Queue::look_up(db, name)?.ok_or_else(missing)
}

fn check_is_dead_letter_queue(db: &Transaction<'_>, queue: &Queue) -> Result<(), SqsError> {
    let names: Vec<String> =
        db.prepare_cached("SELECT name FROM queues")?.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    for name in names {
        let redrive = Queue::find(db, &name)?.redrive();
        if redrive.is_some_and(|redrive| redrive.target_arn == queue.arn()) {
            return Ok(());
        }
    }
    Err(SqsError::InvalidParameterValue("Source queue must be configured as a Dead Letter Queue.".to_owned()))
}

/// Messages of `from` (those that came from the queue `only_from`, if given) go to `to` as if just sent: SQS gives
/// moved messages a new life, with a new sent time and no receives.
fn move_all(
    db: &Transaction<'_>,
    from: &Queue,
    to: &Queue,
    only_from: Option<&str>,
    now_ms: i64,
) -> Result<(i64, Vec<String>), SqsError> {
    let moved = db
        .prepare_cached(
            "UPDATE messages SET queue = ?2, sent_ms = ?3, visible_ms = ?3, received = 0, first_received_ms = NULL,
             receipt = NULL, dead_from = NULL
             WHERE queue = ?1 AND visible_ms <= ?3 AND (?4 IS NULL OR dead_from = ?4)",
        )?
        .execute(params![from.id, to.id, now_ms, only_from])?;
    Ok((i64::try_from(moved).unwrap_or(i64::MAX), vec![to.name.clone()]))
}

fn move_home(db: &Transaction<'_>, from: &Queue, now_ms: i64) -> Result<(i64, Vec<String>), SqsError> {
    let homes: Vec<String> = db
        .prepare_cached("SELECT DISTINCT dead_from FROM messages WHERE queue = ?1 AND dead_from IS NOT NULL")?
        .query_map([from.id], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    let (mut moved, mut arrived_at) = (0, Vec::new());
    for home in homes {
        let Some(to) = queue::name_in_arn(&home).map(|name| Queue::look_up(db, name)).transpose()?.flatten() else {
            continue;
        };
        let (count, names) = move_all(db, from, &to, Some(&home), now_ms)?;
        moved += count;
        arrived_at.extend(names);
    }
    Ok((moved, arrived_at))
}
