//! `cloud.db`: queues, messages, schedules, checkpoints, secrets and the tables of outside services, in one SQLite
//! file.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::{Connection, Transaction, TransactionBehavior};
use tokio::sync::{mpsc, oneshot};

use super::OpenError;
use super::worker::Stopped;
use crate::clock::Clock;

/// Its name in the data directory.
pub(crate) const FILE: &str = "cloud.db";

const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS queues (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    attributes TEXT NOT NULL,
    created_ms INTEGER NOT NULL,
    changed_ms INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS messages (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    queue INTEGER NOT NULL,
    message_id TEXT NOT NULL,
    body TEXT NOT NULL,
    attributes TEXT NOT NULL,
    trace TEXT,
    sent_ms INTEGER NOT NULL,
    visible_ms INTEGER NOT NULL,
    received INTEGER NOT NULL DEFAULT 0,
    first_received_ms INTEGER,
    received_ms INTEGER,
    receipt TEXT,
    dead_from TEXT
);
CREATE INDEX IF NOT EXISTS messages_by_visibility ON messages (queue, visible_ms, id);
CREATE TABLE IF NOT EXISTS schedule_groups (
    name TEXT PRIMARY KEY,
    created_ms INTEGER NOT NULL,
    client_token TEXT
);
CREATE TABLE IF NOT EXISTS schedules (
    grp TEXT NOT NULL,
    name TEXT NOT NULL,
    definition TEXT NOT NULL,
    revision TEXT NOT NULL,
    client_token TEXT,
    created_ms INTEGER NOT NULL,
    changed_ms INTEGER NOT NULL,
    anchor_ms INTEGER NOT NULL,
    next_ms INTEGER,
    PRIMARY KEY (grp, name)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS schedules_by_time ON schedules (next_ms);
CREATE TABLE IF NOT EXISTS checkpoints (
    consumer TEXT NOT NULL,
    stream TEXT NOT NULL,
    sequence TEXT NOT NULL,
    PRIMARY KEY (consumer, stream)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS secrets (
    arn TEXT PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    version TEXT NOT NULL,
    value TEXT NOT NULL,
    changed_ms INTEGER NOT NULL
) WITHOUT ROWID;
";

/// Calls that are committed together at the most: those that were waiting when the first of them began.
const TOGETHER: usize = 64;
/// Callers past this many wait their turn outside the queue.
const WAITING: usize = 1024;

/// A handle to the file. Copies share it.
///
/// On the wall's clock the file has a thread of its own, which commits the calls that wait at a moment together, and
/// answers them only then. A call that fails takes back its own changes alone. If the commit itself fails, or a call
/// panics, none of its group has happened, and all are told so. On a driven clock every call runs and is committed
/// where it is awaited (see `worker.rs`).
#[derive(Clone)]
pub struct Database(Place);

#[derive(Clone)]
enum Place {
    Thread(mpsc::Sender<Call>),
    Here(Arc<Mutex<Connection>>),
}

/// Makes its changes in the transaction, and gives what tells its caller about them, once they are committed or not.
type Call = Box<dyn FnOnce(&Transaction<'_>) -> Answer + Send>;
type Answer = Box<dyn FnOnce(Committed) + Send>;

/// Whether the transaction of a call was committed.
#[derive(Clone, Copy, PartialEq)]
enum Committed {
    Yes,
    No,
}

impl Database {
    pub(crate) fn open(dir: Option<&Path>, clock: &Clock, tables: &str) -> Result<Self, OpenError> {
        let sqlite = |error| OpenError::from_sqlite(FILE, &error);
        let connection = match dir {
            Some(dir) => Connection::open(dir.join(FILE)).map_err(sqlite)?,
            None => Connection::open_in_memory().map_err(sqlite)?,
        };
        if dir.is_some() {
            make_durable(&connection, FILE)?;
        }
        connection.set_prepared_statement_cache_capacity(64);
        connection.execute_batch(SCHEMA).map_err(sqlite)?;
        connection.execute_batch(tables).map_err(sqlite)?;
        if clock.is_driven() {
            return Ok(Self(Place::Here(Arc::new(Mutex::new(connection)))));
        }
        let (calls, waiting) = mpsc::channel(WAITING);
        std::thread::Builder::new()
            .name("cloud-db".to_owned())
            .spawn(move || work(connection, waiting))
            .map_err(|error| OpenError::Unavailable { file: FILE.to_owned(), reason: error.to_string() })?;
        Ok(Self(Place::Thread(calls)))
    }

    /// Runs `change`, whose changes are kept only if it returns `Ok`. What it returns has been committed.
    pub async fn transaction<T, E>(
        &self,
        change: impl FnOnce(&Transaction<'_>) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<rusqlite::Error> + From<Stopped> + Send + 'static,
    {
        match &self.0 {
            Place::Here(connection) => {
                let mut connection = connection.lock().unwrap_or_else(PoisonError::into_inner);
                let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
                let answer = change(&transaction)?;
                transaction.commit()?;
                Ok(answer)
            }
            Place::Thread(calls) => {
                let (answer, answered) = oneshot::channel();
                let call: Call = Box::new(move |transaction| {
                    let changed = in_savepoint(transaction, change);
                    Box::new(move |committed| {
                        // Without an answer the caller is told that the engine stopped. It may have gone away.
                        if committed == Committed::Yes {
                            let _ = answer.send(changed);
                        }
                    })
                });
                calls.send(call).await.map_err(|_| Stopped)?;
                answered.await.map_err(|_| Stopped)?
            }
        }
    }
}

/// Keeps the changes of one call of a group only if it returns `Ok`.
fn in_savepoint<T, E: From<rusqlite::Error>>(
    transaction: &Transaction<'_>,
    change: impl FnOnce(&Transaction<'_>) -> Result<T, E>,
) -> Result<T, E> {
    let run = |statement: &str| transaction.prepare_cached(statement)?.execute([]).map(|_| ());
    run("SAVEPOINT call")?;
    let changed = change(transaction);
    if changed.is_err() {
        run("ROLLBACK TO call")?;
    }
    run("RELEASE call")?;
    changed
}

fn work(mut connection: Connection, mut waiting: mpsc::Receiver<Call>) {
    while let Some(first) = waiting.blocking_recv() {
        let mut group = vec![first];
        while group.len() < TOGETHER
            && let Ok(next) = waiting.try_recv()
        {
            group.push(next);
        }
        let mut answers = Vec::with_capacity(group.len());
        // A panic drops the calls that are left, which tells their callers; the next ones must still be served.
        let committed = catch_unwind(AssertUnwindSafe(|| commit(&mut connection, group, &mut answers)));
        let committed = match committed {
            Ok(Ok(())) => Committed::Yes,
            Ok(Err(error)) => {
                tracing::error!(%error, "calls to queues and schedules could not be committed");
                Committed::No
            }
            Err(_) => Committed::No,
        };
        if !connection.is_autocommit() {
            let _ = connection.execute_batch("ROLLBACK");
        }
        for answer in answers {
            answer(committed);
        }
    }
}

fn commit(connection: &mut Connection, group: Vec<Call>, answers: &mut Vec<Answer>) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for call in group {
        answers.push(call(&transaction));
    }
    transaction.commit()
}

/// Write-ahead log with `synchronous = NORMAL`: every commit is handed to the operating system before it is answered,
/// so the end of the process loses nothing; only the machine losing power may. The data directory is one process's
/// (`data.rs`), so the file is locked once and not again for each call, which would be half of the system calls.
pub(crate) fn make_durable(connection: &Connection, file: &str) -> Result<(), OpenError> {
    let sqlite = |error| OpenError::from_sqlite(file, &error);
    let locking: String =
        connection.query_row("PRAGMA locking_mode = EXCLUSIVE", [], |row| row.get(0)).map_err(sqlite)?;
    let mode: String = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0)).map_err(sqlite)?;
    connection.execute_batch("PRAGMA synchronous = NORMAL").map_err(sqlite)?;
    let synchronous: i64 = connection.query_row("PRAGMA synchronous", [], |row| row.get(0)).map_err(sqlite)?;
    if mode != "wal" || synchronous != 1 || locking != "exclusive" {
        return Err(OpenError::NotDurable {
            file: file.to_owned(),
            mode: format!("{mode}, synchronous {synchronous}, {locking} locking"),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use futures::future::join_all;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    enum Trouble {
        #[error(transparent)]
        Sqlite(#[from] rusqlite::Error),
        #[error(transparent)]
        Stopped(#[from] Stopped),
        #[error("refused")]
        Refused,
    }

    fn insert(number: u32) -> impl FnOnce(&Transaction<'_>) -> Result<(), Trouble> + Send {
        move |transaction| {
            transaction.execute("INSERT INTO numbers VALUES (?1)", [number])?;
            match number % 3 {
                0 => Err(Trouble::Refused),
                _ => Ok(()),
            }
        }
    }

    async fn sum(database: &Database) -> u32 {
        let sum = |transaction: &Transaction<'_>| {
            Ok::<u32, Trouble>(transaction.query_row("SELECT SUM(number) FROM numbers", [], |row| row.get(0))?)
        };
        database.transaction(sum).await.unwrap()
    }

    #[tokio::test]
    async fn calls_that_fail_in_a_group_take_back_only_their_own_changes() {
        let directory = tempfile::tempdir().unwrap();
        let tables = "CREATE TABLE IF NOT EXISTS numbers (number INTEGER)";
        let database = Database::open(Some(directory.path()), &Clock::wall(), tables).unwrap();
        let calls = join_all((0..300).map(|number| database.transaction(insert(number)))).await;
        for (number, call) in calls.iter().enumerate() {
            assert_eq!(call.is_ok(), number % 3 != 0, "{number}: {call:?}");
        }
        assert_eq!(sum(&database).await, (0..300).filter(|number| number % 3 != 0).sum::<u32>());
    }

    #[tokio::test]
    async fn a_call_that_panics_ends_its_group_and_the_next_ones_are_served() {
        let tables = "CREATE TABLE numbers (number INTEGER)";
        let database = Database::open(None, &Clock::wall(), tables).unwrap();
        let panics = database.transaction(|_: &Transaction<'_>| -> Result<(), Trouble> { panic!("on purpose") });
        assert!(matches!(panics.await, Err(Trouble::Stopped(_))));
        database.transaction(insert(1)).await.unwrap();
        assert_eq!(sum(&database).await, 1);
    }
}
