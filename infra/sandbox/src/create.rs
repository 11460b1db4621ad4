//! Starting, looking up and closing payments.

use payments::sandbox::{Happened, Payment, State};
use payments::{ProviderKind, Way};
use rusqlite::Transaction;

use super::answers::{Decision, No};
use super::rows::{self, Ended, Kept, New};
use super::{Now, SandboxError, Side, notices, numbers};

type Done<T> = Result<T, SandboxError>;

/// What the merchant wants to be paid, and where the sandbox can be reached.
pub(super) struct Wanted {
    pub(super) payment: Payment,
    pub(super) way: Way,
    pub(super) expires_ms: Option<i64>,
    /// `http://host/_sandbox`, from the call itself.
    pub(super) base_url: String,
}

const MINUTE_MS: i64 = 60_000;
const HOUR_MS: i64 = 60 * MINUTE_MS;

/// WeChat Pay v2 closes no payment that is younger.
const CLOSABLE_AFTER_MS: i64 = 5 * MINUTE_MS;

/// WeChat Pay v2 takes no payment that ends sooner.
const SHORTEST_V2_MS: i64 = 5 * MINUTE_MS;

/// How long a payment can be made if the merchant does not say.
fn usual_time_ms(kind: ProviderKind) -> i64 {
    match kind {
        ProviderKind::Alipay => 15 * 24 * HOUR_MS,
        // As long as a code_url is good.
        ProviderKind::WechatV3 | ProviderKind::WechatV2 => 2 * HOUR_MS,
        ProviderKind::Stripe => 24 * HOUR_MS,
    }
}

/// The longest merchant's number.
fn longest_number(kind: ProviderKind) -> usize {
    match kind {
        ProviderKind::Alipay => 64,
        ProviderKind::WechatV3 | ProviderKind::WechatV2 => 32,
        ProviderKind::Stripe => 200,
    }
}

/// Makes the payment, or finds the one that was made under the same number.
pub(super) fn create(db: &Transaction<'_>, kind: ProviderKind, wanted: Wanted, now: Now) -> Done<Decision> {
    if !(1..=longest_number(kind)).contains(&wanted.payment.number.len()) {
        return Ok(Decision::No(No::BadNumber));
    }
    if wanted.payment.amount < 1 {
        return Ok(Decision::No(No::BadAmount));
    }
    // Stripe recognises a request by its idempotency key, and a session by its own number alone.
    if kind != ProviderKind::Stripe
        && let Some(kept) = rows::by_number(db, kind, &wanted.payment.number)?
    {
        return again(db, kept, &wanted);
    }
    let expires_ms = wanted.expires_ms.unwrap_or(now.ms.saturating_add(usual_time_ms(kind)));
    let lasts_ms = expires_ms.saturating_sub(now.ms);
    let fits = match kind {
        ProviderKind::Stripe => (30 * MINUTE_MS..=24 * HOUR_MS).contains(&lasts_ms),
        ProviderKind::WechatV2 => lasts_ms >= SHORTEST_V2_MS,
        // WeChat Pay v3 rounds a shorter time up to a minute.
        ProviderKind::Alipay | ProviderKind::WechatV3 => lasts_ms > 0,
    };
    if !fits {
        return Ok(Decision::No(No::BadExpiry));
    }
    let mut payment = wanted.payment;
    let numbers = numbers::of_payment(kind, &payment.number, rows::next_row(db)?, now);
    (payment.id, payment.transaction) = (numbers.id, numbers.transaction);
    if kind == ProviderKind::Stripe {
        // At Stripe the address for events is part of the account; here it is beside the sandbox.
        let origin = wanted.base_url.strip_suffix(super::PATH).unwrap_or(&wanted.base_url);
        payment.notify_url = format!("{origin}/payments/stripe/notify");
    }
    let opened = kind != ProviderKind::Alipay || wanted.way == Way::Page;
    let kept = rows::insert(db, New { kind, payment, opened, expires_ms }, now)?;
    let link = link(&wanted.base_url, &kept.payment);
    Ok(Decision::Created(kept.payment, link))
}

/// The same number again.
fn again(db: &Transaction<'_>, mut kept: Kept, wanted: &Wanted) -> Done<Decision> {
    let (old, new) = (&kept.payment, &wanted.payment);
    if (old.amount, &old.currency) != (new.amount, &new.currency) {
        return Ok(Decision::No(No::NumberUsed));
    }
    let is_page = kept.kind == ProviderKind::Alipay && wanted.way == Way::Page;
    if is_page && !kept.opened {
        kept.opened = true;
        rows::update(db, &kept)?;
    }
    let link = link(&wanted.base_url, &kept.payment);
    Ok(match kept.payment.state {
        // A page says itself what became of its payment.
        _ if is_page => Decision::Created(kept.payment, link),
        State::NotPaid => Decision::Created(kept.payment, link),
        State::Closed => Decision::No(No::NumberClosed),
        State::Processing | State::Paid | State::Refunded => Decision::No(No::NumberPaid),
    })
}

/// The buyer's page of a payment.
pub(super) fn link(base_url: &str, payment: &Payment) -> String {
    format!("{base_url}/payments/{}", payment.id)
}

/// The payment that the merchant speaks of: by its own number, at Stripe by the session's.
fn find(db: &Transaction<'_>, kind: ProviderKind, id: &str) -> Done<Option<Kept>> {
    let found = match kind {
        ProviderKind::Stripe => match rows::by_own_id(db, kind, id)? {
            Some(kept) => Some(kept),
            // A payment intent exists once something was paid, or is to be.
            None => rows::by_transaction(db, kind, id)?
                .filter(|kept| kept.payment.paid_at.is_some() || kept.payment.state == State::Processing),
        },
        ProviderKind::Alipay | ProviderKind::WechatV3 | ProviderKind::WechatV2 => rows::by_number(db, kind, id)?,
    };
    // Alipay has no trade before the buyer has read the QR code.
    Ok(found.filter(|kept| kept.opened))
}

/// Where does it stand?
pub(super) fn query(db: &Transaction<'_>, kind: ProviderKind, id: &str) -> Done<Decision> {
    let Some(mut kept) = find(db, kind, id)? else { return Ok(Decision::Missing) };
    // WeChat Pay calls a payment refunded as soon as a part of it is.
    if matches!(kind, ProviderKind::WechatV3 | ProviderKind::WechatV2) && kept.refunded > 0 {
        kept.payment.state = State::Refunded;
    }
    Ok(Decision::PaymentStatus(kept.payment))
}

/// Let it no longer be paid.
pub(super) fn close(db: &Transaction<'_>, side: &Side, kind: ProviderKind, id: &str, now: Now) -> Done<Decision> {
    let Some(mut kept) = find(db, kind, id)? else { return Ok(Decision::Missing) };
    match (kept.payment.state, kind) {
        (State::NotPaid, ProviderKind::WechatV2) if now.ms < kept.created_ms.saturating_add(CLOSABLE_AFTER_MS) => {
            Ok(Decision::No(No::TooEarly))
        }
        (State::NotPaid, _) => {
            end(db, side, &mut kept, Ended::Closed, now)?;
            Ok(Decision::Closed(kept.payment))
        }
        (State::Closed, ProviderKind::WechatV3 | ProviderKind::WechatV2) => Ok(Decision::No(No::ClosedBefore)),
        (State::Processing | State::Closed | State::Paid | State::Refunded, _) => Ok(Decision::NotOpen(kept.payment)),
    }
}

/// Ends an unpaid payment, and tells of it where the provider does.
pub(super) fn end(db: &Transaction<'_>, side: &Side, kept: &mut Kept, why: Ended, now: Now) -> Done<()> {
    kept.payment.state = State::Closed;
    kept.ended = Some(why);
    rows::update(db, kept)?;
    let happened = if why == Ended::Failed { Happened::Failed } else { Happened::Closed };
    // The buyer never opened it, so there is no notice.
    if kept.opened { notices::tell(db, side, kept, happened, None, now) } else { Ok(()) }
}

/// Ends payments whose time has run out, at most 200 at once. Whether there may be more: the next call ends those.
pub(super) fn expire(db: &Transaction<'_>, side: &Side, now: Now) -> Done<bool> {
    const AT_ONCE: usize = 200;
    let overdue = rows::overdue(db, now, AT_ONCE)?;
    let more = overdue.len() == AT_ONCE;
    for mut kept in overdue {
        end(db, side, &mut kept, Ended::Expired, now)?;
    }
    Ok(more)
}
