//! `cloud.db`: queues, messages, schedules, checkpoints, secrets and the tables of outside services, in one SQLite
//! file.

use std::path::Path;

use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::OpenError;
use super::worker::{Stopped, Worker};
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

/// A handle to the file. Copies share it.
#[derive(Clone)]
pub struct Database(Worker<Connection>);

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
        let worker = Worker::start("cloud-db", clock, connection, |connection| {
            if !connection.is_autocommit() {
                let _ = connection.execute_batch("ROLLBACK");
            }
        });
        worker.map(Self).map_err(|error| OpenError::Unavailable { file: FILE.to_owned(), reason: error.to_string() })
    }

    /// Runs `change` in a transaction of its own, which is committed only if it returns `Ok`.
    pub async fn transaction<T, E>(
        &self,
        change: impl FnOnce(&Transaction<'_>) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<rusqlite::Error> + From<Stopped> + Send + 'static,
    {
        self.0
            .run(move |connection| {
                let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
                let answer = change(&transaction)?;
                transaction.commit()?;
                Ok(answer)
            })
            .await?
    }
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
