//! The one place where SDK errors are classified.

use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::SdkError;
use aws_smithy_types::error::display::DisplayErrorContext;
use aws_smithy_types::error::metadata::ProvideErrorMetadata;

/// Why a call failed, by what a caller can do about it. A failed condition is not an error but an answer.
///
/// After any of these errors the write may or may not have happened, even after `Throttled`: the first of several
/// attempts may have been applied and its answer lost. Every write is therefore idempotent.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Too many requests: retry later.
    #[error("{operation} was throttled")]
    Throttled { operation: &'static str },
    /// Another transaction was changing the same row: retry at once.
    #[error("{operation} met a transaction on the same row")]
    Conflict { operation: &'static str },
    /// No answer, or one that does not tell what happened.
    #[error("{operation} had no clear answer: {detail}")]
    Unknown { operation: &'static str, detail: String },
    /// A retry will not help: a permission, a name or an expression is wrong.
    #[error("{operation} is refused: {detail}")]
    Permanent { operation: &'static str, detail: String },
    /// This release cannot read a row: a newer release wrote it, or it is damaged. Other rows are not concerned.
    #[error("{operation} found a row that this release cannot read: {detail}")]
    Unreadable { operation: &'static str, detail: String },
}

impl StoreError {
    /// Classifies an SDK error.
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

    /// A row that cannot be read as what it should be.
    pub(crate) fn unreadable_row(operation: &'static str, detail: impl std::fmt::Display) -> Self {
        Self::Unreadable { operation, detail: detail.to_string() }
    }

    /// A setting or a request that cannot be read as what it should be.
    pub(crate) fn unreadable(operation: &'static str, detail: impl std::fmt::Display) -> Self {
        Self::Permanent { operation, detail: format!("a row does not read: {detail}") }
    }

    /// Whether the same call may succeed later.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Throttled { .. } | Self::Conflict { .. } | Self::Unknown { .. } => true,
            Self::Permanent { .. } | Self::Unreadable { .. } => false,
        }
    }
}
