//! The providers' own numbers: made of what they are for, so that the same calls make the same numbers in every run.

use jiff::Timestamp;
use jiff::tz::Offset;
use payments::ProviderKind;
use sha2::{Digest as _, Sha256};

use super::Now;

/// What a new payment is called by its provider.
pub(super) struct Numbers {
    /// Stripe's session; the others have no number but the transaction's.
    pub(super) id: String,
    /// The movement of money, should it come to one.
    pub(super) transaction: String,
}

/// The numbers of the sandbox's payment number `row`.
pub(super) fn of_payment(kind: ProviderKind, number: &str, row: i64, now: Now) -> Numbers {
    let digest = digest(&["payment", kind.as_str(), number, &row.to_string()]);
    let transaction = match kind {
        // A date, then digits: 28 in all.
        ProviderKind::Alipay => format!("{}2200{}", china_date(now.at), digits(&digest, 16)),
        ProviderKind::WechatV3 | ProviderKind::WechatV2 => format!("4200{}", digits(&digest, 24)),
        ProviderKind::Stripe => format!("pi_{}", hex(digest.get(..12).unwrap_or_default())),
    };
    let id = match kind {
        ProviderKind::Stripe => format!("cs_test_{}", hex(&digest)),
        ProviderKind::Alipay | ProviderKind::WechatV3 | ProviderKind::WechatV2 => transaction.clone(),
    };
    Numbers { id, transaction }
}

/// What identifies a notice, however often it is sent.
pub(super) fn of_notice(payment: &str, row: i64) -> [u8; 16] {
    let digest = digest(&["notice", payment, &row.to_string()]);
    std::array::from_fn(|at| digest.get(at).copied().unwrap_or_default())
}

/// Identifies a request: the same text for the same call and body.
pub(super) fn fingerprint(call: &str, body: &[u8]) -> String {
    let mut hash = Sha256::new();
    hash.update(call.as_bytes());
    hash.update([0]);
    hash.update(body);
    let digest: [u8; 32] = hash.finalize().into();
    hex(&digest)
}

fn digest(parts: &[&str]) -> [u8; 32] {
    Sha256::digest(parts.join("\n").as_bytes()).into()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn digits(bytes: &[u8], count: usize) -> String {
    bytes.iter().take(count).map(|byte| char::from(b'0' + byte % 10)).collect()
}

fn china_date(at: Timestamp) -> String {
    Offset::constant(8).to_datetime(at).strftime("%Y%m%d").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_their_providers_form_and_repeat_in_every_run() {
        let now = Now { ms: 0, at: Timestamp::from_second(1_794_355_500).unwrap() };
        for kind in ProviderKind::ALL {
            let first = of_payment(kind, "A-1", 1, now);
            assert_eq!(first.transaction, of_payment(kind, "A-1", 1, now).transaction);
            assert_ne!(first.transaction, of_payment(kind, "A-1", 2, now).transaction);
            assert_ne!(first.transaction, of_payment(kind, "A-2", 1, now).transaction);
        }
        let alipay = of_payment(ProviderKind::Alipay, "A-1", 1, now).transaction;
        assert!(alipay.starts_with("202611112200") && alipay.len() == 28, "{alipay}");
        assert_eq!(of_payment(ProviderKind::WechatV3, "A-1", 1, now).transaction.len(), 28);
        let stripe = of_payment(ProviderKind::Stripe, "A-1", 1, now);
        assert!(stripe.id.starts_with("cs_test_") && stripe.transaction.starts_with("pi_"));
    }
}
