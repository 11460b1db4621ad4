//! Why the sandbox does not do what it was told.

use http::StatusCode;

use local_cloud::engine::Stopped;

/// Why the sandbox does not do what it was told.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SandboxError {
    /// No such payment.
    #[error(
        "there is no payment {0}: use the merchant's number or the provider's own; a payment by Alipay's page begins \
         when its \
         link is opened"
    )]
    Unknown(String),
    /// The payment's state does not allow it.
    #[error("payment {number} {is}: {instead}")]
    WrongState {
        /// The merchant's number.
        number: String,
        /// What it is, as in "was paid".
        is: &'static str,
        /// What can be done.
        instead: &'static str,
    },
    /// Nothing was ever told about the payment.
    #[error("no notice about payment {0} was ever sent: pay it first")]
    NoNotice(String),
    /// What was said cannot be read.
    #[error("{0}")]
    Invalid(String),
    /// The database refused, or the engine is gone.
    #[error("{0}")]
    Internal(String),
}

impl SandboxError {
    /// The status it is answered with.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Unknown(_) => StatusCode::NOT_FOUND,
            Self::WrongState { .. } | Self::NoNotice(_) => StatusCode::CONFLICT,
            Self::Invalid(_) => StatusCode::BAD_REQUEST,
            Self::Internal(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

impl From<rusqlite::Error> for SandboxError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Internal(format!("cloud.db: {error}"))
    }
}

impl From<Stopped> for SandboxError {
    fn from(error: Stopped) -> Self {
        Self::Internal(error.to_string())
    }
}

impl From<serde_json::Error> for SandboxError {
    fn from(error: serde_json::Error) -> Self {
        Self::Internal(format!(
            "cloud.db holds a payment or key that cannot be read ({error}): start over with --fresh"
        ))
    }
}
