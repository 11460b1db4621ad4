//! DynamoDB and its streams: the engine is the crate `dynoxide-rs`, owned by one worker, on the local cloud's clock.
//!
//! What it does not do by itself is done here: expired items go when [`DynamoDb::sweep_ttl`] is called, stream
//! records go after a day, client tokens of transactions are remembered for ten minutes of our clock (in memory: a
//! restart forgets them). It never throttles and never reports a transaction conflict; [`crate::wire`] injects
//! those.

mod operations;
mod shape;
mod streams;
mod tokens;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use dynoxide::actions::create_table::CreateTableRequest;
use dynoxide::actions::vector_lifecycle::VectorIndexLifecycle;
use dynoxide::storage::{ScanParams, Storage};
use dynoxide::{DynoxideError, actions};
use futures::FutureExt as _;
use http::{Response, StatusCode};
use tokio::sync::watch;

pub use streams::shard_id;
pub use streams::{SequenceNumber, StreamRecord};

use super::OpenError;
use super::answer::{Consumed, Service, respond_text};
use super::database::make_durable;
use super::worker::{Stopped, Worker};
use crate::clock::Clock;
use shape::TableShape;
use tokens::Tokens;

/// Its name in the data directory.
pub(crate) const FILE: &str = "dynamodb.db";

/// SQL statements kept ready: each table has several of its own.
const STATEMENTS: usize = 256;

/// DynamoDB's own answers are of this type.
const CONTENT_TYPE: &str = "application/x-amz-json-1.0";

/// The engine. Copies share its state.
#[derive(Clone)]
pub struct DynamoDb {
    worker: Worker<Engine>,
    written: watch::Sender<u64>,
}

/// What the worker owns.
struct Engine {
    storage: Storage,
    lifecycle: VectorIndexLifecycle,
    tokens: Tokens,
    clock: Clock,
}

/// A refusal of DynamoDB.
#[derive(Debug, thiserror::Error)]
pub enum DynamoError {
    /// Under the name that its clients know.
    #[error("{code}: {message}")]
    Refused {
        /// Such as `ResourceNotFoundException`.
        code: String,
        message: String,
    },
    /// The engine is gone.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

impl From<DynoxideError> for DynamoError {
    fn from(error: DynoxideError) -> Self {
        let code = error.error_type();
        Self::Refused {
            code: code.rsplit_once('#').map_or(code, |(_, code)| code).to_owned(),
            message: error.to_string(),
        }
    }
}

/// dynoxide's idea of a clock.
struct EngineClock(Clock);

impl dynoxide::storage_backend::Clock for EngineClock {
    fn now_unix_secs(&self) -> u64 {
        u64::try_from(self.0.now_ms() / 1_000).unwrap_or(0)
    }

    fn now_unix_secs_f64(&self) -> f64 {
        jiff::SignedDuration::from_millis(self.0.now_ms()).as_secs_f64()
    }
}

impl DynamoDb {
    pub(super) fn open(dir: Option<&Path>, clock: &Clock) -> Result<Self, OpenError> {
        let storage = match dir {
            Some(dir) => open_file(&dir.join(FILE))?,
            None => Storage::memory().map_err(|error| open_error(&error))?,
        };
        let storage = storage.with_clock(Arc::new(EngineClock(clock.clone())));
        storage.conn().set_prepared_statement_cache_capacity(STATEMENTS);
        streams::index(&storage).map_err(|error| OpenError::from_sqlite(FILE, &error))?;
        let engine =
            Engine { storage, lifecycle: VectorIndexLifecycle::new(), tokens: Tokens::default(), clock: clock.clone() };
        let worker = Worker::start("dynamodb", clock, engine, |engine| {
            if !engine.storage.conn().is_autocommit() {
                let _ = engine.storage.rollback();
            }
        });
        let worker =
            worker.map_err(|error| OpenError::Unavailable { file: FILE.to_owned(), reason: error.to_string() })?;
        Ok(Self { worker, written: watch::Sender::new(0) })
    }

    /// Answers one request of DynamoDB's JSON protocol.
    pub(crate) async fn call(&self, service: Service, operation: String, body: Bytes) -> Response<Bytes> {
        let writes = operations::writes(&operation);
        let answer = self.worker.run(move |engine| engine.answer(&operation, &body)).await;
        let Ok(response) = answer else {
            return service.error(StatusCode::INTERNAL_SERVER_ERROR, "InternalServerError", &Stopped.to_string());
        };
        if writes && response.status() == StatusCode::OK {
            self.written.send_modify(|count| *count = count.wrapping_add(1));
        }
        response
    }

    /// Tells of every write, so that readers of streams need not poll.
    pub fn writes(&self) -> watch::Receiver<u64> {
        self.written.subscribe()
    }

    /// Whether the table that a `CreateTable` request names has the keys, the indexes and the stream that it asks
    /// for; `None` if there is no such table.
    pub(crate) async fn fits(&self, request: &serde_json::Value) -> Result<Option<bool>, DynamoError> {
        let table = request.get("TableName").and_then(serde_json::Value::as_str).unwrap_or_default().to_owned();
        let kept = self.worker.run(move |engine| engine.storage.get_table_metadata(&table)).await??;
        Ok(kept.map(|kept| TableShape::kept(&kept) == TableShape::asked(request)))
    }

    /// Every row of a table as DynamoDB's JSON, by its key. For tests that look into the tables; clients
    /// use `Scan`.
    pub async fn rows(&self, table: &str) -> Result<BTreeMap<(String, String), String>, DynamoError> {
        let table = table.to_owned();
        let rows = self.worker.run(move |engine| engine.storage.scan_items(&table, &ScanParams::default())).await??;
        Ok(rows.into_iter().map(|(partition, sort, json)| ((partition, sort), json)).collect())
    }

    /// Makes a table from a `CreateTable` request.
    pub async fn create_table(&self, request: &serde_json::Value) -> Result<(), DynamoError> {
        let body = request.to_string();
        self.worker
            .run(move |engine| {
                let request: CreateTableRequest = operations::read(body.as_bytes())?;
                ready(actions::create_table::execute(&engine.storage, request)).map(|_| ())
            })
            .await??;
        Ok(())
    }

    /// Says which attribute tells when an item may go.
    pub async fn set_ttl_attribute(&self, table: &str, attribute: &str) -> Result<(), DynamoError> {
        let (table, attribute) = (table.to_owned(), attribute.to_owned());
        self.worker.run(move |engine| engine.storage.update_ttl_config(&table, Some(&attribute), true)).await??;
        Ok(())
    }

    /// Deletes the items whose time is over (their deletion is in the stream, as DynamoDB's own), and stream records
    /// older than a day. Gives the number of items.
    pub async fn sweep_ttl(&self) -> Result<usize, Stopped> {
        let swept = self
            .worker
            .run(|engine| {
                let deleted = ready(dynoxide::ttl::sweep_expired_items(&engine.storage))?;
                streams::trim(&engine.storage, engine.clock.now_ms())?;
                Ok::<_, DynoxideError>(deleted)
            })
            .await?;
        match swept {
            Ok(deleted) => {
                if deleted > 0 {
                    self.written.send_modify(|count| *count = count.wrapping_add(1));
                }
                Ok(deleted)
            }
            Err(error) => {
                tracing::error!(%error, "expired items were not deleted");
                Ok(0)
            }
        }
    }
}

impl Engine {
    fn answer(&mut self, operation: &str, body: &[u8]) -> Response<Bytes> {
        match self.dispatch(operation, body) {
            Ok((json, consumed)) => {
                let mut response = respond_text(StatusCode::OK, CONTENT_TYPE, json);
                response.extensions_mut().insert(consumed);
                response
            }
            Err(error) => {
                let status = StatusCode::from_u16(error.status_code()).unwrap_or(StatusCode::BAD_REQUEST);
                let mut response = respond_text(status, CONTENT_TYPE, error.to_json());
                // AWS charges a failed condition at least one write unit, though it does not say so in the answer.
                if matches!(error, DynoxideError::ConditionalCheckFailedException(..)) {
                    response.extensions_mut().insert(Consumed { read_units: 0.0, write_units: 1.0 });
                }
                response
            }
        }
    }
}

/// dynoxide's functions are async in form only: on this backend they never wait.
fn ready<T>(call: impl Future<Output = dynoxide::Result<T>>) -> dynoxide::Result<T> {
    call.now_or_never()
        .unwrap_or_else(|| Err(DynoxideError::InternalServerError("the engine waited for something".to_owned())))
}

fn open_file(path: &Path) -> Result<Storage, OpenError> {
    let text = path
        .to_str()
        .ok_or_else(|| OpenError::Unavailable { file: FILE.to_owned(), reason: "the path is not UTF-8".to_owned() })?;
    let storage = Storage::new(text).map_err(|error| open_error(&error))?;
    make_durable(storage.conn(), FILE)?;
    Ok(storage)
}

fn open_error(error: &DynoxideError) -> OpenError {
    match error {
        DynoxideError::SqliteError(error) => OpenError::from_sqlite(FILE, error),
        // dynoxide reads a file that is no database as an encrypted one.
        other if other.to_string().to_lowercase().contains("encrypt") => {
            OpenError::Corrupt { file: FILE.to_owned(), reason: "file is not a database".to_owned() }
        }
        other => OpenError::Unavailable { file: FILE.to_owned(), reason: other.to_string() },
    }
}
