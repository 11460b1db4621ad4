//! What Scheduler says when it refuses.

use bytes::Bytes;
use http::{Response, StatusCode};

use crate::engine::{Service, Stopped};

/// A refusal of Scheduler, under the name that its clients know.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SchedulerError {
    /// There is one already, or it was changed by another request with the same token.
    #[error("{0}")]
    Conflict(String),
    /// No such schedule or group.
    #[error("{0}")]
    NotFound(String),
    /// The request cannot be served as it is.
    #[error("{0}")]
    Validation(String),
    /// The database refused, or the engine is gone.
    #[error("{0}")]
    Internal(String),
}

impl From<rusqlite::Error> for SchedulerError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Internal(format!("cloud.db: {error}"))
    }
}

impl From<Stopped> for SchedulerError {
    fn from(error: Stopped) -> Self {
        Self::Internal(error.to_string())
    }
}

impl SchedulerError {
    pub(crate) fn respond(&self) -> Response<Bytes> {
        let (status, code) = match self {
            Self::Conflict(_) => (StatusCode::CONFLICT, "ConflictException"),
            Self::NotFound(_) => (StatusCode::NOT_FOUND, "ResourceNotFoundException"),
            Self::Validation(_) => (StatusCode::BAD_REQUEST, "ValidationException"),
            Self::Internal(_) => (StatusCode::INTERNAL_SERVER_ERROR, "InternalServerException"),
        };
        Service::Scheduler.error(status, code, &self.to_string())
    }
}
