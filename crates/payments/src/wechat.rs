//! What WeChat Pay says in the same words in v2 and v3.

use crate::payment::{Paid, ProviderError, Standing};

/// The most that is taken in one payment, in fen: the field has 32 bits.
pub(crate) const MAX_FEN: i64 = 2_147_483_647;

/// Where a payment stands, by its trade state; `paid` reads what was paid.
pub(crate) fn standing(trade_state: &str, paid: impl Fn() -> Option<Paid>) -> Result<Standing, ProviderError> {
    let paid = || paid().ok_or(ProviderError::Untrusted("its amount or number cannot be read"));
    Ok(match trade_state {
        "SUCCESS" => Standing::Paid(paid()?),
        "REFUND" => Standing::Refunded(paid()?),
        // A payment that failed (the bank said no) can be tried again with the same QR code.
        "NOTPAY" | "PAYERROR" => Standing::NotPaid,
        "USERPAYING" | "ACCEPT" => Standing::Processing,
        "CLOSED" | "REVOKED" => Standing::Closed,
        other => Standing::Unknown(other.chars().take(32).collect()),
    })
}
