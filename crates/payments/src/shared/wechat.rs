//! What WeChat Pay v2 and v3 have in common.

use crate::payment::{Paid, PaymentStatus, ProviderError};

/// The largest amount of one payment, in fen: the field has 32 bits.
pub(crate) const MAX_FEN: i64 = 2_147_483_647;

/// The status of a payment from its trade state; `paid` reads the money from the same answer.
pub(crate) fn status(trade_state: &str, paid: impl Fn() -> Option<Paid>) -> Result<PaymentStatus, ProviderError> {
    let paid = || paid().ok_or(ProviderError::Untrusted("its amount or transaction cannot be read"));
    Ok(match trade_state {
        "SUCCESS" => PaymentStatus::Paid(paid()?),
        "REFUND" => PaymentStatus::Refunded(paid()?, None),
        // After a refusal by the bank, the same QR code can be paid again.
        "NOTPAY" | "PAYERROR" => PaymentStatus::NotPaid,
        "USERPAYING" | "ACCEPT" => PaymentStatus::Processing,
        "CLOSED" | "REVOKED" => PaymentStatus::Closed,
        other => PaymentStatus::Unknown(other.chars().take(32).collect()),
    })
}
