//! Secrets Manager: text under a name, with versions of which the latest counts.
//!
//! A secret's full ARN ends with six characters that the service adds to the name, so that a policy for one secret
//! is none for another of the same name later. Here they are made of the name: the same at every start.

use bytes::Bytes;
use http::{Response, StatusCode};
use rusqlite::{OptionalExtension as _, Row, params};
use serde::Deserialize;
use serde_json::{Value, json};

use super::answer::{Service, respond};
use super::database::Database;
use super::worker::Stopped;
use crate::clock::Clock;
pub use crate::template::{secret_arn as arn_of, secret_arn_of_id as arn_of_id};

/// The longest secret (a quota of the service).
const MAX_SECRET_BYTES: usize = 65_536;
/// The longest name (a quota of the service).
const MAX_NAME: usize = 512;

/// The engine. Copies share its state.
#[derive(Clone)]
pub struct Secrets {
    database: Database,
    clock: Clock,
}

/// A secret with its current value.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    /// Its full ARN.
    pub arn: String,
    pub name: String,
    /// The version of its value.
    pub version: String,
    pub value: String,
    /// When the value was put, in milliseconds since 1970.
    pub changed_ms: i64,
}

/// A value is not for logs.
impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Secret").field("name", &self.name).field("version", &self.version).finish_non_exhaustive()
    }
}

/// A refusal of Secrets Manager, under the name that its clients know.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretsError {
    /// No such secret.
    #[error("Secrets Manager can't find the specified secret.")]
    NotFound,
    /// No such version of it.
    #[error("Secrets Manager can't find the specified secret value for {0}.")]
    NoValue(String),
    /// A parameter's value is missing or malformed.
    #[error("{0}")]
    Invalid(String),
    /// Something that this engine does not do.
    #[error("{0} is not supported here: GetSecretValue is")]
    UnknownOperation(String),
    /// The database refused, or the engine is gone.
    #[error("{0}")]
    Internal(String),
}

impl From<rusqlite::Error> for SecretsError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Internal(format!("cloud.db: {error}"))
    }
}

impl From<Stopped> for SecretsError {
    fn from(error: Stopped) -> Self {
        Self::Internal(error.to_string())
    }
}

impl SecretsError {
    fn respond(&self) -> Response<Bytes> {
        let (status, code) = match self {
            Self::NotFound | Self::NoValue(_) => (StatusCode::BAD_REQUEST, "ResourceNotFoundException"),
            Self::Invalid(_) => (StatusCode::BAD_REQUEST, "ValidationException"),
            Self::UnknownOperation(_) => (StatusCode::BAD_REQUEST, "UnknownOperationException"),
            Self::Internal(_) => (StatusCode::INTERNAL_SERVER_ERROR, "InternalServiceError"),
        };
        Service::SecretsManager.error(status, code, &self.to_string())
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct GetInput {
    secret_id: Option<String>,
    version_id: Option<String>,
    version_stage: Option<String>,
}

impl Secrets {
    pub(crate) fn new(database: Database, clock: Clock) -> Self {
        Self { database, clock }
    }

    /// Puts a value, as a new version; makes the secret if it is not there. `id` is its name or its ARN.
    pub async fn put(&self, id: &str, value: impl Into<String>) -> Result<Secret, SecretsError> {
        let (arn, value) = (arn_of_id(id), value.into());
        let name = arn.rsplit_once('-').and_then(|(start, _)| start.splitn(7, ':').nth(6)).unwrap_or(id).to_owned();
        let allowed = |c: char| c.is_ascii_alphanumeric() || "/_+=.@-".contains(c);
        if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(allowed) {
            return Err(SecretsError::Invalid(format!(
                "{name} is no name of a secret: use up to 512 letters, digits and /_+=.@-"
            )));
        }
        if value.is_empty() || value.len() > MAX_SECRET_BYTES {
            return Err(SecretsError::Invalid("a secret has 1 to 65536 bytes".to_owned()));
        }
        let secret = Secret { arn, name, version: super::random_id(), value, changed_ms: self.clock.now_ms() };
        let row = secret.clone();
        let put = self.database.transaction(move |db| {
            db.prepare_cached(
                "INSERT OR REPLACE INTO secrets (arn, name, version, value, changed_ms) VALUES (?1, ?2, ?3, ?4, ?5)",
            )?
            .execute(params![row.arn, row.name, row.version, row.value, row.changed_ms])?;
            Ok::<_, SecretsError>(())
        });
        put.await?;
        Ok(secret)
    }

    /// The secret of this name or ARN.
    pub async fn get(&self, id: &str) -> Result<Option<Secret>, SecretsError> {
        let arn = arn_of_id(id);
        let found = self.database.transaction(move |db| {
            let read = |row: &Row<'_>| {
                Ok(Secret {
                    arn: row.get(0)?,
                    name: row.get(1)?,
                    version: row.get(2)?,
                    value: row.get(3)?,
                    changed_ms: row.get(4)?,
                })
            };
            let mut found =
                db.prepare_cached("SELECT arn, name, version, value, changed_ms FROM secrets WHERE arn = ?1")?;
            Ok::<_, SecretsError>(found.query_row([arn], read).optional()?)
        });
        found.await
    }

    /// Answers one request of the service's JSON protocol.
    pub(crate) async fn call(&self, operation: &str, body: &Bytes) -> Response<Bytes> {
        let answered = match operation {
            "GetSecretValue" => self.get_value(body).await,
            other => Err(SecretsError::UnknownOperation(other.to_owned())),
        };
        match answered {
            Ok(answer) => respond(StatusCode::OK, "application/x-amz-json-1.1", &answer),
            Err(error) => error.respond(),
        }
    }

    async fn get_value(&self, body: &[u8]) -> Result<Value, SecretsError> {
        let input: GetInput =
            serde_json::from_slice(body).map_err(|error| SecretsError::Invalid(format!("not a request: {error}")))?;
        let id = input.secret_id.filter(|id| !id.is_empty());
        let id = id.ok_or_else(|| SecretsError::Invalid("SecretId must not be empty".to_owned()))?;
        let secret = self.get(&id).await?.ok_or(SecretsError::NotFound)?;
        if let Some(stage) = input.version_stage.filter(|stage| stage != "AWSCURRENT") {
            return Err(SecretsError::NoValue(format!("staging label: {stage}")));
        }
        if let Some(version) = input.version_id.filter(|version| *version != secret.version) {
            return Err(SecretsError::NoValue(format!("VersionId: {version}")));
        }
        // Seconds with a fraction, as the protocol has times.
        let created = json!(std::time::Duration::from_millis(secret.changed_ms.unsigned_abs()).as_secs_f64());
        Ok(json!({
            "ARN": secret.arn, "Name": secret.name, "VersionId": secret.version, "SecretString": secret.value,
            "VersionStages": ["AWSCURRENT"], "CreatedDate": created,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_does_not_print_its_value() {
        let text = "sk_live_1".to_owned();
        let secret =
            Secret { arn: String::new(), name: "n".to_owned(), version: "v".to_owned(), value: text, changed_ms: 0 };
        assert!(!format!("{secret:?}").contains("sk_live_1"));
    }
}
