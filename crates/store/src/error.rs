//! The one place where SDK errors get a meaning.

use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::SdkError;
use aws_smithy_types::error::display::DisplayErrorContext;
use aws_smithy_types::error::metadata::ProvideErrorMetadata;

/// Why a call did not work, by what a caller can do about it. A condition that did not hold is not among them: that is an
/// answer. After any of these the write may or may not have happened, even after `Throttled`: of several tries the first may
/// have been applied and its answer lost. Every write is therefore safe to repeat.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Too much at once: try again later.
    #[error("{operation} was throttled")]
    Throttled {
        /// What was called.
        operation: &'static str,
    },
    /// Another transaction was at the same row: try again at once.
    #[error("{operation} met a transaction on the same row")]
    Conflict {
        /// What was called.
        operation: &'static str,
    },
    /// No answer, or none that tells what happened.
    #[error("{operation} had no clear answer: {detail}")]
    Unknown {
        /// What was called.
        operation: &'static str,
        /// What is known.
        detail: String,
    },
    /// Trying again will not help: a permission, a name or an expression is wrong, or a row does not read.
    #[error("{operation} is refused: {detail}")]
    Permanent {
        /// What was called.
        operation: &'static str,
        /// What the service said.
        detail: String,
    },
}

impl StoreError {
    /// The meaning of an SDK error.
    pub(crate) fn of<E>(operation: &'static str, error: &SdkError<E, HttpResponse>) -> Self
    where
        E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
    {
        let detail = DisplayErrorContext(error).to_string();
        match error {
            SdkError::ConstructionFailure(_) => Self::Permanent { operation, detail },
            SdkError::ServiceError(service) => {
                let status = service.raw().status().as_u16();
                match service.err().code().unwrap_or_default() {
                    "ProvisionedThroughputExceededException"
                    | "ThrottlingException"
                    | "RequestLimitExceeded"
                    | "RequestThrottled"
                    | "ServiceQuotaExceededException"
                    | "TooManyRequestsException" => Self::Throttled { operation },
                    "TransactionConflictException" | "TransactionInProgressException" => Self::Conflict { operation },
                    _ if status >= 500 => Self::Unknown { operation, detail },
                    _ => Self::Permanent { operation, detail },
                }
            }
            _ => Self::Unknown { operation, detail },
        }
    }

    /// A row that does not read as what it should be.
    pub(crate) fn unreadable(operation: &'static str, detail: impl std::fmt::Display) -> Self {
        Self::Permanent { operation, detail: format!("a row does not read: {detail}") }
    }

    /// Whether the same call may work later.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Throttled { .. } | Self::Conflict { .. } | Self::Unknown { .. } => true,
            Self::Permanent { .. } => false,
        }
    }
}
