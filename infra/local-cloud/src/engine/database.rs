//! `cloud.db`: the queues, messages, schedules, checkpoints, secrets, and the providers' sandbox, in one SQLite file.

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
CREATE TABLE IF NOT EXISTS moves (
    id TEXT PRIMARY KEY,
    source TEXT NOT NULL,
    destination TEXT,
    moved INTEGER NOT NULL,
    started_ms INTEGER NOT NULL
);
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
CREATE TABLE IF NOT EXISTS sandbox_keys (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    keys TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS sandbox_payments (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    provider TEXT NOT NULL,
    number TEXT NOT NULL,
    payment_id TEXT NOT NULL UNIQUE,
    transaction_id TEXT NOT NULL UNIQUE,
    payment TEXT NOT NULL,
    open INTEGER NOT NULL,
    opened INTEGER NOT NULL,
    ended TEXT,
    refunded INTEGER NOT NULL DEFAULT 0,
    created_ms INTEGER NOT NULL,
    expires_ms INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS sandbox_payments_by_number ON sandbox_payments (number);
CREATE INDEX IF NOT EXISTS sandbox_payments_by_expiry ON sandbox_payments (expires_ms) WHERE open = 1;
CREATE TABLE IF NOT EXISTS sandbox_refunds (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    provider TEXT NOT NULL,
    refund TEXT NOT NULL,
    transaction_id TEXT NOT NULL,
    amount INTEGER NOT NULL,
    at_ms INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS sandbox_refunds_by_number ON sandbox_refunds (refund);
CREATE INDEX IF NOT EXISTS sandbox_refunds_by_payment ON sandbox_refunds (transaction_id);
CREATE TABLE IF NOT EXISTS sandbox_money (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    provider TEXT NOT NULL,
    number TEXT NOT NULL,
    transaction_id TEXT NOT NULL,
    refund TEXT,
    amount INTEGER NOT NULL,
    currency TEXT NOT NULL,
    at_ms INTEGER NOT NULL
);
CREATE TRIGGER IF NOT EXISTS sandbox_money_stays BEFORE UPDATE ON sandbox_money
    BEGIN SELECT raise(ABORT, 'money that moved stays on the books'); END;
CREATE TRIGGER IF NOT EXISTS sandbox_money_is_kept BEFORE DELETE ON sandbox_money
    BEGIN SELECT raise(ABORT, 'money that moved stays on the books'); END;
CREATE TABLE IF NOT EXISTS sandbox_answers (
    key TEXT PRIMARY KEY,
    request TEXT NOT NULL,
    answer TEXT NOT NULL,
    at_ms INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS sandbox_answers_by_time ON sandbox_answers (at_ms);
CREATE TABLE IF NOT EXISTS sandbox_notices (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    payment INTEGER NOT NULL,
    happened TEXT NOT NULL,
    told TEXT NOT NULL,
    tries INTEGER NOT NULL DEFAULT 0,
    due_ms INTEGER,
    accepted_ms INTEGER
);
CREATE INDEX IF NOT EXISTS sandbox_notices_by_time ON sandbox_notices (due_ms) WHERE due_ms IS NOT NULL;
CREATE INDEX IF NOT EXISTS sandbox_notices_by_payment ON sandbox_notices (payment);
";

/// A handle to the file. Copies share it.
#[derive(Clone)]
pub(crate) struct Database(Worker<Connection>);

impl Database {
    pub(crate) fn open(dir: Option<&Path>, clock: &Clock) -> Result<Self, OpenError> {
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
        let worker = Worker::start("cloud-db", clock, connection, |connection| {
            if !connection.is_autocommit() {
                let _ = connection.execute_batch("ROLLBACK");
            }
        });
        worker.map(Self).map_err(|error| OpenError::Unavailable { file: FILE.to_owned(), reason: error.to_string() })
    }

    /// Runs `change` in a transaction of its own; it takes effect only if it gives `Ok`.
    pub(crate) async fn transaction<T, E>(
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
/// so the end of the process loses nothing; only the machine losing power may. The data directory is one process's (`data.rs`), so the file is
/// locked once and not again for each call, which would be half of the system calls.
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
