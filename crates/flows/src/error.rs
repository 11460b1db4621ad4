//! Why a flow that talks to a payment provider could not finish.

use domain::payment::{Arrived, Method};
use providers::Trouble;
use store::StoreError;

/// Why a flow could not finish now. Every step is idempotent, so the same flow can be run again.
#[derive(Debug, thiserror::Error)]
pub enum FlowError {
    /// The database, the queue or the scheduler failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The payment provider failed, or could not be reached.
    #[error("{method}: {trouble}")]
    Provider { method: Method, trouble: Trouble },
    /// The provider does not say whether the payment was made. Nothing is released until it does, or until a
    /// person has looked.
    #[error("{method} does not say whether the payment was made: {what}")]
    Unclear { method: Method, what: String },
    /// Other requests changed the order each time it was read.
    #[error("the order is changed by many requests at once")]
    Busy,
}

impl FlowError {
    /// A payment that was to be closed was made, but it is not what its order asked for.
    pub(crate) fn unexpected_payment(arrived: &Arrived) -> Self {
        let what = format!("{} {} were paid as {}", arrived.amount, arrived.currency, arrived.transaction);
        Self::Unclear { method: arrived.method, what }
    }

    /// Whether the same flow may succeed later.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Store(error) => error.may_pass(),
            Self::Provider { trouble, .. } => trouble.may_pass(),
            Self::Unclear { .. } | Self::Busy => true,
        }
    }
}
