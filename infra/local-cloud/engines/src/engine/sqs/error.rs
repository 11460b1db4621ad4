//! What SQS says when it refuses.

use bytes::Bytes;
use http::{Response, StatusCode};

use crate::engine::{Service, Stopped};

/// A refusal of SQS, under the name that its clients know.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SqsError {
    /// No queue of that name.
    #[error("The specified queue does not exist: {0}.")]
    QueueDoesNotExist(String),
    /// A queue of that name exists with other attributes.
    #[error("A queue already exists with the same name and a different value for attribute {0}.")]
    QueueNameExists(String),
    /// The receipt handle is not one that SQS gave out.
    #[error("The input receipt handle \"{0}\" is not a valid receipt handle.")]
    ReceiptHandleIsInvalid(String),
    /// The message of this receipt handle is not in flight.
    #[error(
        "Value {0} for parameter ReceiptHandle is invalid. Reason: Message does not exist or is not available for \
         visibility timeout change."
    )]
    MessageNotInflight(String),
    /// A parameter's value is out of range or malformed.
    #[error("{0}")]
    InvalidParameterValue(String),
    /// A parameter is missing.
    #[error("The request must contain the parameter {0}.")]
    MissingParameter(&'static str),
    /// An attribute that queues do not have.
    #[error("Unknown Attribute {0}.")]
    InvalidAttributeName(String),
    /// An attribute's value is out of range or malformed.
    #[error("Invalid value for the parameter {0}.")]
    InvalidAttributeValue(String),
    /// A character that SQS does not take.
    #[error(
        "Invalid binary character was found in the message body, the set of allowed characters is #x9 | #xA | #xD | \
         #x20 to #xD7FF | #xE000 to #xFFFD | #x10000 to #x10FFFF"
    )]
    InvalidMessageContents,
    /// A batch without entries.
    #[error("There should be at least one {0} in the request.")]
    EmptyBatchRequest(&'static str),
    /// More than ten entries.
    #[error("Maximum number of entries per request are 10. You have sent {0}.")]
    TooManyEntriesInBatchRequest(usize),
    /// Two entries with the same id.
    #[error("Id {0} repeated.")]
    BatchEntryIdsNotDistinct(String),
    /// An entry's id is malformed.
    #[error(
        "A batch entry id can only contain alphanumeric characters, hyphens and underscores. It can be at most 80 \
         letters long."
    )]
    InvalidBatchEntryId,
    /// The entries together are too large.
    #[error("Batch requests cannot be longer than 1048576 bytes. You have sent {0} bytes.")]
    BatchRequestTooLong(usize),
    /// 120,000 messages are in flight.
    #[error("The maximum number of in flight messages is reached.")]
    OverLimit,
    /// A queue can be purged once in 60 seconds.
    #[error("Only one PurgeQueue operation on {0} is allowed every 60 seconds.")]
    PurgeQueueInProgress(String),
    /// What this engine, or SQS, does not do.
    #[error("{0}")]
    UnsupportedOperation(String),
    /// The database refused, or the engine is gone.
    #[error("{0}")]
    Internal(String),
}

impl From<rusqlite::Error> for SqsError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Internal(format!("cloud.db: {error}"))
    }
}

impl From<Stopped> for SqsError {
    fn from(error: Stopped) -> Self {
        Self::Internal(error.to_string())
    }
}

impl SqsError {
    /// Its name.
    pub fn code(&self) -> &'static str {
        match self {
            Self::QueueDoesNotExist(_) => "QueueDoesNotExist",
            Self::QueueNameExists(_) => "QueueNameExists",
            Self::ReceiptHandleIsInvalid(_) => "ReceiptHandleIsInvalid",
            Self::MessageNotInflight(_) => "MessageNotInflight",
            Self::InvalidParameterValue(_) => "InvalidParameterValue",
            Self::MissingParameter(_) => "MissingParameter",
            Self::InvalidAttributeName(_) => "InvalidAttributeName",
            Self::InvalidAttributeValue(_) => "InvalidAttributeValue",
            Self::InvalidMessageContents => "InvalidMessageContents",
            Self::EmptyBatchRequest(_) => "EmptyBatchRequest",
            Self::TooManyEntriesInBatchRequest(_) => "TooManyEntriesInBatchRequest",
            Self::BatchEntryIdsNotDistinct(_) => "BatchEntryIdsNotDistinct",
            Self::InvalidBatchEntryId => "InvalidBatchEntryId",
            Self::BatchRequestTooLong(_) => "BatchRequestTooLong",
            Self::OverLimit => "OverLimit",
            Self::PurgeQueueInProgress(_) => "PurgeQueueInProgress",
            Self::UnsupportedOperation(_) => "UnsupportedOperation",
            Self::Internal(_) => "InternalError",
        }
    }

    /// Whether the fault is the service's own.
    pub fn is_internal(&self) -> bool {
        matches!(self, Self::Internal(_))
    }

    pub(crate) fn respond(&self) -> Response<Bytes> {
        let status = if self.is_internal() { StatusCode::INTERNAL_SERVER_ERROR } else { StatusCode::BAD_REQUEST };
        Service::Sqs.error(status, self.code(), &self.to_string())
    }
}
