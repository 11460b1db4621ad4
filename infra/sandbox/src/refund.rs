//! Money back: once for each refund number, and never more than was paid.

use payments::ProviderKind;
use payments::sandbox::{Happened, Refund, State};
use rusqlite::Transaction;

use super::answers::{Decision, No};
use super::{Now, SandboxError, Side, notices, rows};

type Done<T> = Result<T, SandboxError>;

/// Sends money back, or finds that it went back before.
pub(super) fn refund(
    db: &Transaction<'_>,
    side: &Side,
    kind: ProviderKind,
    wanted: Refund,
    now: Now,
) -> Done<Decision> {
    let Some(mut kept) = rows::by_transaction(db, kind, &wanted.transaction)? else { return Ok(Decision::Missing) };
    if let Some(made) = made_before(db, kind, &wanted)? {
        let same = made.transaction == wanted.transaction && made.amount == wanted.amount;
        let before = Decision::Refunded(kept.payment, made, false);
        return Ok(if same { before } else { Decision::No(No::RefundUsed) });
    }
    if !matches!(kept.payment.state, State::Paid | State::Refunded) {
        return Ok(Decision::No(No::NotPaid));
    }
    let left = kept.payment.amount.saturating_sub(kept.refunded);
    let refusal = if wanted.amount < 1 {
        Some(No::BadAmount)
    } else if left == 0 {
        Some(No::AllRefunded)
    } else if wanted.amount > left {
        Some(No::TooMuch)
    } else {
        None
    };
    if let Some(no) = refusal {
        return Ok(Decision::No(no));
    }
    kept.refunded = kept.refunded.saturating_add(wanted.amount);
    if kept.refunded == kept.payment.amount {
        kept.payment.state = State::Refunded;
    }
    rows::update(db, &kept)?;
    rows::insert_refund(db, kind, &wanted, now)?;
    rows::book(db, &kept, Some(&wanted), now)?;
    if kept.payment.state == State::Refunded {
        // WeChat Pay tells whom the refund names, the others whom the payment named.
        let url = match kind {
            ProviderKind::WechatV3 | ProviderKind::WechatV2 => Some(wanted.notify_url.clone().unwrap_or_default()),
            ProviderKind::Alipay | ProviderKind::Stripe => None,
        };
        notices::tell(db, side, &kept, Happened::Refunded, url, now)?;
    }
    Ok(Decision::Refunded(kept.payment, wanted, true))
}

/// The refund under this number, if there was one. Stripe goes by idempotency keys, and Alipay's numbers count for
/// each payment.
fn made_before(db: &Transaction<'_>, kind: ProviderKind, wanted: &Refund) -> Done<Option<Refund>> {
    let mut made = match kind {
        ProviderKind::Stripe => return Ok(None),
        ProviderKind::Alipay | ProviderKind::WechatV3 | ProviderKind::WechatV2 => {
            rows::refunds(db, kind, &wanted.refund)?
        }
    };
    made.retain(|made| kind != ProviderKind::Alipay || made.transaction == wanted.transaction);
    Ok(made.into_iter().next())
}

/// Is the money back? By the refund's number, at Stripe by the payment's transaction.
pub(super) fn query(db: &Transaction<'_>, kind: ProviderKind, id: &str) -> Done<Decision> {
    let made = match kind {
        ProviderKind::Stripe => rows::refunds_of(db, kind, id)?,
        ProviderKind::Alipay | ProviderKind::WechatV3 | ProviderKind::WechatV2 => rows::refunds(db, kind, id)?,
    };
    let Some(made) = made.into_iter().next_back() else { return Ok(Decision::NoRefund) };
    let kept = rows::by_transaction(db, kind, &made.transaction)?;
    Ok(kept.map_or(Decision::NoRefund, |kept| Decision::Refunded(kept.payment, made, false)))
}
