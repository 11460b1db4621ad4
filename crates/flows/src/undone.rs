//! Why a flow that talks to a provider could not be finished now.

use domain::payment::Method;
use providers::Trouble;
use store::StoreError;

/// Why it could not be finished. Every step is safe to repeat: the same flow can be run again.
#[derive(Debug, thiserror::Error)]
pub enum FlowError {
    /// The database, the queue or the scheduler.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The payment provider.
    #[error("{method}: {trouble}")]
    Provider {
        /// Which.
        method: Method,
        /// What happened.
        trouble: Trouble,
    },
    /// The provider does not say whether it was paid: nothing is released until it does, or a person has looked.
    #[error("{method} does not say whether the payment was made: {what}")]
    Unclear {
        /// Which.
        method: Method,
        /// What it says.
        what: String,
    },
    /// The order changed each time it was looked at.
    #[error("the order is changed by many at once")]
    Busy,
}

impl FlowError {
    /// Whether the same may work later.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Store(error) => error.may_pass(),
            Self::Provider { trouble, .. } => trouble.may_pass(),
            Self::Unclear { .. } | Self::Busy => true,
        }
    }
}
