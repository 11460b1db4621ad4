//! Money back: once for each refund number, and never more than was paid.

use payments::ProviderKind;
use payments::sandbox::{CONSOLE, Happened, Refund, RefundState, State};
use rusqlite::Transaction;

use super::answers::{Decision, No};
use super::moods::Mood;
use super::rows::Kept;
use super::{Now, SandboxError, Side, notices, rows};

type Done<T> = Result<T, SandboxError>;

/// Sends money back, or finds that it went back before.
pub(super) fn refund(
    db: &Transaction<'_>,
    side: &Side,
    kind: ProviderKind,
    mut wanted: Refund,
    mood: Mood,
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
    let refusal = match mood {
        Mood::RefundsRefused => Some(No::NotRefundable),
        // Alipay has no failed refunds: it refuses, and takes the same number again later.
        Mood::RefundsFail if kind == ProviderKind::Alipay => Some(No::BalanceTooLow),
        _ if wanted.amount < 1 => Some(No::BadAmount),
        _ if left == 0 => Some(No::AllRefunded),
        _ if wanted.amount > left => Some(No::TooMuch),
        _ => None,
    };
    if let Some(no) = refusal {
        return Ok(Decision::No(no));
    }
    let is_wechat = matches!(kind, ProviderKind::WechatV3 | ProviderKind::WechatV2);
    wanted.state = match mood {
        Mood::RefundsStick if is_wechat => RefundState::Stuck,
        Mood::RefundsFail | Mood::RefundsStick => RefundState::Failed,
        Mood::RefundsPend => RefundState::Pending,
        _ => RefundState::Done,
    };
    // WeChat Pay tells whom the refund names, the others whom the payment named.
    let url = is_wechat.then(|| wanted.notify_url.clone().unwrap_or_default());
    move_money(db, side, &mut kept, &wanted, url, now)?;
    Ok(Decision::Refunded(kept.payment, wanted, true))
}

/// A person refunds in the provider's console. WeChat Pay tells nobody of it.
pub(super) fn refund_in_console(db: &Transaction<'_>, side: &Side, kept: &mut Kept, amount: i64, now: Now) -> Done<()> {
    let refund = Refund {
        transaction: kept.payment.transaction.clone(),
        refund: format!("{CONSOLE}-{}-{}", kept.row, kept.refunded),
        amount,
        notify_url: None,
        state: RefundState::Done,
    };
    let url = matches!(kept.kind, ProviderKind::WechatV3 | ProviderKind::WechatV2).then(String::new);
    move_money(db, side, kept, &refund, url, now)
}

fn move_money(
    db: &Transaction<'_>,
    side: &Side,
    kept: &mut Kept,
    refund: &Refund,
    url: Option<String>,
    now: Now,
) -> Done<()> {
    rows::insert_refund(db, kept.kind, refund, now)?;
    if refund.state == RefundState::Failed {
        return Ok(());
    }
    set_refunded(kept, kept.refunded.saturating_add(refund.amount));
    rows::update(db, kept)?;
    rows::book(db, kept, Some(refund), now)?;
    if refund.state != RefundState::Done {
        return Ok(());
    }
    let is_all = kept.payment.state == State::Refunded;
    notices::tell(db, side, kept, if is_all { Happened::Refunded } else { Happened::PartlyRefunded }, url, now)
}

fn set_refunded(kept: &mut Kept, refunded: i64) {
    (kept.refunded, kept.payment.refunded) = (refunded, refunded);
    kept.payment.state = if refunded == kept.payment.amount { State::Refunded } else { State::Paid };
}

/// The last refund of a payment fails, at once or days later: its money is with the merchant again. `false`: there is
/// no refund that could fail.
pub(super) fn fail_last(db: &Transaction<'_>, side: &Side, kept: &mut Kept, now: Now) -> Done<bool> {
    let last = rows::refunds_of(db, kept.kind, &kept.payment.transaction)?.pop();
    let Some(last) = last.filter(|refund| matches!(refund.state, RefundState::Done | RefundState::Pending)) else {
        return Ok(false);
    };
    rows::update_last_refund(db, kept, RefundState::Failed)?;
    set_refunded(kept, kept.refunded.saturating_sub(last.amount));
    rows::update(db, kept)?;
    let is_console = last.refund.starts_with(CONSOLE);
    let happened = if is_console { Happened::ConsoleRefundFailed } else { Happened::RefundFailed };
    let returned = Refund { amount: last.amount.saturating_neg(), state: RefundState::Failed, ..last };
    rows::book(db, kept, Some(&returned), now)?;
    notices::tell(db, side, kept, happened, None, now)?;
    Ok(true)
}

/// A refund that was pending or stuck is done. `false`: there is none.
pub(super) fn finish_last(db: &Transaction<'_>, side: &Side, kept: &mut Kept, now: Now) -> Done<bool> {
    let last = rows::refunds_of(db, kept.kind, &kept.payment.transaction)?.pop();
    if !last.is_some_and(|refund| matches!(refund.state, RefundState::Pending | RefundState::Stuck)) {
        return Ok(false);
    }
    rows::update_last_refund(db, kept, RefundState::Done)?;
    notices::tell(db, side, kept, Happened::Refunded, None, now)?;
    Ok(true)
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
    // Alipay takes the number of a failed refund again.
    made.retain(|made| kind != ProviderKind::Alipay || made.state != RefundState::Failed);
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
