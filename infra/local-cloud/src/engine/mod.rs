//! The services that functions call: DynamoDB, SQS, EventBridge Scheduler, Secrets Manager, and the payment
//! providers.
//!
//! What was answered has been committed: it survives the end of the process, however abrupt. All time is the
//! [`Clock`]'s. Errors are the services' own, so the SDK reads them as it would AWS's.

mod answer;
mod checkpoints;
pub(crate) mod database;
pub mod dynamodb;
mod provision;
pub mod scheduler;
pub mod secrets;
pub mod sqs;
mod worker;

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response, StatusCode};

pub use answer::{Consumed, Service};
pub use checkpoints::CheckpointError;
pub use provision::ProvisionError;
pub use worker::Stopped;

use crate::clock::Clock;
use crate::sandbox::Sandbox;
use dynamodb::DynamoDb;
use scheduler::Scheduler;
use secrets::Secrets;
use sqs::Sqs;

/// The engines together. Copies share their state.
#[derive(Clone)]
pub struct Cloud {
    /// The time they all go by.
    pub clock: Clock,
    /// DynamoDB and its streams.
    pub dynamodb: DynamoDb,
    /// SQS.
    pub sqs: Sqs,
    /// EventBridge Scheduler.
    pub scheduler: Scheduler,
    /// Secrets Manager.
    pub secrets: Secrets,
    /// The payment providers.
    pub sandbox: Sandbox,
    database: database::Database,
    witness: Option<Arc<Witness>>,
}

/// Hears of every DynamoDB call and its answer, one at a time and in the order in which they took effect.
pub type Hear = dyn Fn(&Request<Bytes>, &Response<Bytes>) + Send + Sync;

struct Witness {
    turn: tokio::sync::Mutex<()>,
    hear: Box<Hear>,
}

/// Why the engines could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file is not a database, or is damaged.
    #[error("{file} is not a readable database ({reason}): start over with --fresh, or put a good copy in its place")]
    Corrupt {
        /// Its name in the data directory.
        file: String,
        /// What SQLite said.
        reason: String,
    },
    /// The file cannot be opened or written.
    #[error("{file} cannot be opened ({reason}): check that the directory exists, is writable and has space")]
    Unavailable {
        /// Its name in the data directory.
        file: String,
        /// What the system said.
        reason: String,
    },
    /// The file opened, but not in the mode that makes answered writes durable.
    #[error(
        "{file} cannot be made durable here ({mode}; needed are wal, synchronous 1 and exclusive locking): choose another DATA_DIR, on a local disk"
    )]
    NotDurable {
        /// Its name in the data directory.
        file: String,
        /// What SQLite reports.
        mode: String,
    },
}

impl OpenError {
    /// Tells a damaged file from one that cannot be reached.
    pub(crate) fn from_sqlite(file: &str, error: &rusqlite::Error) -> Self {
        use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
        let (file, reason) = (file.to_owned(), error.to_string());
        match error.sqlite_error_code() {
            Some(DatabaseCorrupt | NotADatabase) => Self::Corrupt { file, reason },
            _ => Self::Unavailable { file, reason },
        }
    }
}

impl Cloud {
    /// Engines that forget everything when the last copy is dropped.
    pub fn in_memory(clock: Clock) -> Result<Self, OpenError> {
        Self::assemble(None, clock)
    }

    /// Engines whose state is in `dir`: `dynamodb.db` and `cloud.db`.
    pub fn open(dir: &Path, clock: Clock) -> Result<Self, OpenError> {
        Self::assemble(Some(dir), clock)
    }

    fn assemble(dir: Option<&Path>, clock: Clock) -> Result<Self, OpenError> {
        let dynamodb = DynamoDb::open(dir, &clock)?;
        let database = database::Database::open(dir, &clock)?;
        Ok(Self {
            sqs: Sqs::new(database.clone(), clock.clone()),
            scheduler: Scheduler::new(database.clone(), clock.clone()),
            secrets: Secrets::new(database.clone(), clock.clone()),
            sandbox: Sandbox::new(database.clone(), clock.clone(), dir.is_some()),
            clock,
            dynamodb,
            database,
            witness: None,
        })
    }

    /// The same engines, with somebody who hears of every DynamoDB call: a second engine can be held against this one.
    pub fn with_witness(mut self, hear: Box<Hear>) -> Self {
        self.witness = Some(Arc::new(Witness { turn: tokio::sync::Mutex::new(()), hear }));
        self
    }

    /// Answers one request, as the service it is for would.
    pub async fn call(&self, request: Request<Bytes>) -> Response<Bytes> {
        match Service::of(&request) {
            Some((service @ (Service::DynamoDb | Service::DynamoDbStreams), operation)) => {
                let Some(witness) = &self.witness else {
                    return self.dynamodb.call(service, operation, request.into_body()).await;
                };
                let _turn = witness.turn.lock().await;
                let response = self.dynamodb.call(service, operation, request.body().clone()).await;
                (witness.hear)(&request, &response);
                response
            }
            Some((Service::Sqs, operation)) => self.sqs.call(&operation, request.body()).await,
            Some((Service::Scheduler, _)) => self.scheduler.call(&request).await,
            Some((Service::SecretsManager, operation)) => self.secrets.call(&operation, request.body()).await,
            Some((service @ Service::Provider, _)) => {
                match crate::sandbox::operation_of(request.method(), request.uri()) {
                    Some((kind, _)) => self.sandbox.call(kind, request).await,
                    None => service.error(StatusCode::NOT_FOUND, "NotFound", "there is no such provider"),
                }
            }
            None => Service::DynamoDb.error(
                StatusCode::BAD_REQUEST,
                "UnknownOperationException",
                "neither x-amz-target nor the path names an operation of DynamoDB, SQS, Scheduler or Secrets Manager",
            ),
        }
    }

    /// What time does by itself in AWS: deletes expired items, stream records past their day, and messages past
    /// their retention. Its owner calls it now and then; gives the number of items deleted.
    pub async fn sweep(&self) -> Result<usize, Stopped> {
        self.sqs.sweep_expired().await;
        self.dynamodb.sweep_ttl().await
    }
}

/// A version 4 UUID.
pub(crate) fn random_id() -> String {
    let mut bytes = [0_u8; 16];
    // Without the operating system's generator nothing here could run; what is left is at least a well-formed id.
    let _ = getrandom::fill(&mut bytes);
    let number = u128::from_be_bytes(bytes) & !(0xf << 76) & !(0x3 << 62) | (0x4 << 76) | (0x2 << 62);
    let mut id = String::with_capacity(36);
    for (position, digit) in format!("{number:032x}").chars().enumerate() {
        if matches!(position, 8 | 12 | 16 | 20) {
            id.push('-');
        }
        id.push(digit);
    }
    id
}
