//! What WeChat Pay says in the same words in v2 and v3.

use crate::payment::{Paid, ProviderError, PaymentStatus};

/// The most that is taken in one payment, in fen: the field has 32 bits.
pub(crate) const MAX_FEN: i64 = 2_147_483_647;

/// Where a payment stands, by its trade state; `paid` reads what was paid.
pub(crate) fn standing(trade_state: &str, paid: impl Fn() -> Option<Paid>) -> Result<PaymentStatus, ProviderError> {
    let paid = || paid().ok_or(ProviderError::Untrusted("its amount or number cannot be read"));
    Ok(match trade_state {
        "SUCCESS" => PaymentStatus::Paid(paid()?),
        "REFUND" => PaymentStatus::Refunded(paid()?),
        // A payment that failed (the bank said no) can be tried again with the same QR code.
        "NOTPAY" | "PAYERROR" => PaymentStatus::NotPaid,
        "USERPAYING" | "ACCEPT" => PaymentStatus::Processing,
        "CLOSED" | "REVOKED" => PaymentStatus::Closed,
        other => PaymentStatus::Unknown(other.chars().take(32).collect()),
    })
}
