//! The services that functions call: DynamoDB, SQS, EventBridge and its Scheduler, Secrets Manager, and services
//! outside AWS that a program adds ([`OutsideService`]).
//!
//! What was answered has been committed: it survives the end of the process, however abrupt. All time is the
//! [`Clock`]'s. Errors are the services' own, so the SDK reads them as it would AWS's.

mod answer;
mod checkpoints;
pub mod database;
pub mod dynamodb;
pub mod events;
mod outside;
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
pub use outside::{OutsideCall, OutsideError, OutsideService};
pub use provision::ProvisionError;
pub use worker::Stopped;

use crate::clock::Clock;
use database::Database;
use dynamodb::DynamoDb;
use events::EventBuses;
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
    pub sqs: Sqs,
    /// EventBridge Scheduler.
    pub scheduler: Scheduler,
    /// Secrets Manager.
    pub secrets: Secrets,
    /// EventBridge.
    pub events: EventBuses,
    database: Database,
    is_durable: bool,
    outside: Vec<Arc<dyn OutsideService>>,
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
        reason: String,
    },
    /// The file cannot be opened or written.
    #[error("{file} cannot be opened ({reason}): check that the directory exists, is writable and has space")]
    Unavailable {
        /// Its name in the data directory.
        file: String,
        reason: String,
    },
    /// The file opened, but not in the mode that makes answered writes durable.
    #[error(
        "{file} cannot be made durable here ({mode}; needed are wal, synchronous 1 and exclusive locking): choose \
         another DATA_DIR, on a local disk"
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
        Self::in_memory_with(clock, "")
    }

    /// Engines whose state is in `dir`: `dynamodb.db` and `cloud.db`.
    pub fn open(dir: &Path, clock: Clock) -> Result<Self, OpenError> {
        Self::open_with(dir, clock, "")
    }

    /// [`Cloud::in_memory`], with further tables in the database for outside services: `CREATE … IF NOT EXISTS`
    /// statements.
    pub fn in_memory_with(clock: Clock, tables: &str) -> Result<Self, OpenError> {
        Self::assemble(None, clock, tables)
    }

    /// [`Cloud::open`], with further tables in `cloud.db` for outside services: `CREATE … IF NOT EXISTS` statements.
    pub fn open_with(dir: &Path, clock: Clock, tables: &str) -> Result<Self, OpenError> {
        Self::assemble(Some(dir), clock, tables)
    }

    fn assemble(dir: Option<&Path>, clock: Clock, tables: &str) -> Result<Self, OpenError> {
        let dynamodb = DynamoDb::open(dir, &clock)?;
        let database = Database::open(dir, &clock, tables)?;
        Ok(Self {
            sqs: Sqs::new(database.clone(), clock.clone()),
            scheduler: Scheduler::new(database.clone(), clock.clone()),
            secrets: Secrets::new(database.clone(), clock.clone()),
            events: EventBuses::new(clock.clone()),
            clock,
            dynamodb,
            database,
            is_durable: dir.is_some(),
            outside: Vec::new(),
            witness: None,
        })
    }

    /// The same engines, with a listener for every DynamoDB call: a second engine can be compared with this
    /// one.
    pub fn with_witness(mut self, hear: Box<Hear>) -> Self {
        self.witness = Some(Arc::new(Witness { turn: tokio::sync::Mutex::new(()), hear }));
        self
    }

    /// The same engines, with a service outside AWS beside them.
    pub fn with_outside(mut self, service: Arc<dyn OutsideService>) -> Self {
        self.outside.push(service);
        self
    }

    /// The services outside AWS.
    pub fn outside(&self) -> &[Arc<dyn OutsideService>] {
        &self.outside
    }

    /// The outside service of this type, if there is one.
    pub fn outside_service<S: OutsideService>(&self) -> Option<&S> {
        self.outside.iter().find_map(|service| {
            let service: &dyn std::any::Any = service.as_ref();
            service.downcast_ref()
        })
    }

    /// The database of all engines but DynamoDB. Outside services keep their rows in tables of their own there.
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// Whether the state is in files and survives the end of the process.
    pub fn is_durable(&self) -> bool {
        self.is_durable
    }

    /// The service and the operation that a request is for, and what it is about if the service is an outside one.
    /// `None` if the request is for no service.
    pub fn target_of<B>(&self, request: &Request<B>) -> Option<(Service, OutsideCall)> {
        let outside = self.outside.iter().filter(|service| is_below(request.uri().path(), service.path()));
        if !request.headers().contains_key("x-amz-target")
            && let Some(call) =
                outside.into_iter().find_map(|service| service.identify(request.method(), request.uri()))
        {
            return Some((Service::Outside, call));
        }
        let (service, operation) = Service::of(request)?;
        Some((service, OutsideCall { operation, resource: None }))
    }

    /// The outside service whose path a request is below.
    pub fn outside_at(&self, path: &str) -> Option<&Arc<dyn OutsideService>> {
        self.outside.iter().find(|service| is_below(path, service.path()))
    }

    /// Answers one request, as the service it is for would.
    pub async fn call(&self, request: Request<Bytes>) -> Response<Bytes> {
        let target = self.target_of(&request);
        match target.map(|(service, call)| (service, call.operation)) {
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
            Some((Service::Events, operation)) => self.events.call(&operation, request.body()),
            Some((service @ Service::Outside, _)) => match self.outside_at(request.uri().path()) {
                Some(outside) => outside.call(request).await,
                None => service.error(StatusCode::NOT_FOUND, "NotFound", "no service has this path"),
            },
            None => Service::DynamoDb.error(
                StatusCode::BAD_REQUEST,
                "UnknownOperationException",
                "neither x-amz-target nor the path names an operation of DynamoDB, SQS, EventBridge, Scheduler or \
                 Secrets Manager",
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

/// Whether `path` is `root` or below it.
fn is_below(path: &str, root: &str) -> bool {
    path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// A version 4 UUID.
pub fn random_id() -> String {
    uuid::Uuid::new_v4().to_string()
}
