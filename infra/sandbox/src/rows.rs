//! Payments, refunds and money as they are kept in the database.

use payments::HttpAnswer;
use payments::ProviderKind;
use payments::sandbox::{Payment, Refund, RefundState, State};
use rusqlite::{OptionalExtension as _, Row, Transaction, named_params, params};

use super::{Now, SandboxError};

type Done<T> = Result<T, SandboxError>;

/// A payment with what the sandbox alone knows of it.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub(super) row: i64,
    pub(super) kind: ProviderKind,
    pub(super) payment: Payment,
    /// Whether a buyer has seen it. Alipay does not know of a payment before its QR code was read.
    pub(super) opened: bool,
    /// Why it can no longer be paid, if it was not paid.
    pub(super) ended: Option<Ended>,
    /// Minor units that went back.
    pub(super) refunded: i64,
    pub(super) created_ms: i64,
    pub(super) expires_ms: i64,
}

/// Why a payment can no longer be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// The merchant closed it.
    Closed,
    /// Its time ran out.
    Expired,
    /// It failed and cannot be retried.
    Failed,
}

impl Ended {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Expired => "expired",
            Self::Failed => "failed",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        [Self::Closed, Self::Expired, Self::Failed].into_iter().find(|ended| ended.as_str() == text)
    }
}

/// A payment to be kept.
pub(super) struct New {
    pub(super) kind: ProviderKind,
    pub(super) payment: Payment,
    pub(super) opened: bool,
    pub(super) expires_ms: i64,
}

const COLUMNS: &str = "id, provider, payment, opened, ended, refunded, created_ms, expires_ms";

/// The number that the next payment gets.
pub(super) fn next_row(db: &Transaction<'_>) -> Done<i64> {
    Ok(db.prepare_cached("SELECT coalesce(max(id), 0) + 1 FROM sandbox_payments")?.query_row([], |row| row.get(0))?)
}

pub(super) fn insert(db: &Transaction<'_>, new: New, now: Now) -> Done<Kept> {
    let text = serde_json::to_string(&new.payment)?;
    db.prepare_cached(
        "INSERT INTO sandbox_payments
             (provider, number, payment_id, transaction_id, payment, open, opened, created_ms, expires_ms)
         VALUES (:provider, :number, :id, :transaction, :payment, 1, :opened, :created, :expires)",
    )?
    .execute(named_params! {
        ":provider": new.kind.as_str(), ":number": new.payment.number, ":id": new.payment.id,
        ":transaction": new.payment.transaction, ":payment": text, ":opened": new.opened,
        ":created": now.ms, ":expires": new.expires_ms,
    })?;
    Ok(Kept {
        row: db.last_insert_rowid(),
        kind: new.kind,
        payment: new.payment,
        opened: new.opened,
        ended: None,
        refunded: 0,
        created_ms: now.ms,
        expires_ms: new.expires_ms,
    })
}

/// Keeps what changed of a payment.
pub(super) fn update(db: &Transaction<'_>, kept: &Kept) -> Done<()> {
    db.prepare_cached(
        "UPDATE sandbox_payments
         SET payment = :payment, open = :open, opened = :opened, ended = :ended, refunded = :refunded WHERE id = :row",
    )?
    .execute(named_params! {
        ":payment": serde_json::to_string(&kept.payment)?, ":open": kept.payment.state == State::NotPaid,
        ":opened": kept.opened, ":ended": kept.ended.map(Ended::as_str), ":refunded": kept.refunded, ":row": kept.row,
    })?;
    Ok(())
}

/// The latest payment of this provider under the merchant's number.
pub(super) fn by_number(db: &Transaction<'_>, kind: ProviderKind, number: &str) -> Done<Option<Kept>> {
    one(db, "provider = ?1 AND number = ?2 ORDER BY id DESC LIMIT 1", &[kind.as_str(), number])
}

/// The payment under the provider's own number.
pub(super) fn by_own_id(db: &Transaction<'_>, kind: ProviderKind, id: &str) -> Done<Option<Kept>> {
    one(db, "provider = ?1 AND payment_id = ?2", &[kind.as_str(), id])
}

pub(super) fn by_transaction(db: &Transaction<'_>, kind: ProviderKind, transaction: &str) -> Done<Option<Kept>> {
    one(db, "provider = ?1 AND transaction_id = ?2", &[kind.as_str(), transaction])
}

/// The payment under any of its numbers; of several under one merchant's number, the latest.
pub(super) fn by_any(db: &Transaction<'_>, kind: Option<ProviderKind>, id: &str) -> Done<Option<Kept>> {
    let all = "(payment_id = ?1 OR transaction_id = ?1 OR number = ?1)";
    match kind {
        Some(kind) => one(db, &format!("{all} AND provider = ?2 ORDER BY id DESC LIMIT 1"), &[id, kind.as_str()]),
        None => one(db, &format!("{all} ORDER BY id DESC LIMIT 1"), &[id]),
    }
}

/// The latest payments, newest first.
pub(super) fn latest(db: &Transaction<'_>, most: usize) -> Done<Vec<Kept>> {
    many(db, &format!("id > 0 ORDER BY id DESC LIMIT {most}"), &[])
}

/// Unpaid payments whose time has run out.
pub(super) fn overdue(db: &Transaction<'_>, now: Now, most: usize) -> Done<Vec<Kept>> {
    many(db, &format!("open = 1 AND expires_ms <= {} ORDER BY expires_ms, id LIMIT {most}", now.ms), &[])
}

fn one(db: &Transaction<'_>, which: &str, parameters: &[&str]) -> Done<Option<Kept>> {
    Ok(many(db, which, parameters)?.into_iter().next())
}

fn many(db: &Transaction<'_>, which: &str, parameters: &[&str]) -> Done<Vec<Kept>> {
    let mut found = db.prepare_cached(&format!("SELECT {COLUMNS} FROM sandbox_payments WHERE {which}"))?;
    let mut rows = found.query(rusqlite::params_from_iter(parameters))?;
    let mut all = Vec::new();
    while let Some(row) = rows.next()? {
        all.push(read(row)?);
    }
    Ok(all)
}

fn read(row: &Row<'_>) -> Done<Kept> {
    let provider: String = row.get("provider")?;
    let kind = ProviderKind::parse(&provider).ok_or_else(|| {
        SandboxError::Internal(format!("cloud.db holds a payment of an unknown provider, {provider}"))
    })?;
    let ended: Option<String> = row.get("ended")?;
    Ok(Kept {
        row: row.get("id")?,
        kind,
        payment: serde_json::from_str(&row.get::<_, String>("payment")?)?,
        opened: row.get("opened")?,
        ended: ended.as_deref().and_then(Ended::parse),
        refunded: row.get("refunded")?,
        created_ms: row.get("created_ms")?,
        expires_ms: row.get("expires_ms")?,
    })
}

/// Refunds under the merchant's number, oldest first.
pub(super) fn refunds(db: &Transaction<'_>, kind: ProviderKind, number: &str) -> Done<Vec<Refund>> {
    refunds_where(db, "r.provider = ?1 AND r.refund = ?2", &[kind.as_str(), number])
}

/// Refunds of a payment, oldest first.
pub(super) fn refunds_of(db: &Transaction<'_>, kind: ProviderKind, transaction: &str) -> Done<Vec<Refund>> {
    refunds_where(db, "r.provider = ?1 AND r.transaction_id = ?2", &[kind.as_str(), transaction])
}

fn refunds_where(db: &Transaction<'_>, which: &str, parameters: &[&str]) -> Done<Vec<Refund>> {
    // A refund without a state of its own is done.
    let text = format!(
        "SELECT r.transaction_id, r.refund, r.amount, s.state FROM sandbox_refunds r
         LEFT JOIN sandbox_refund_states s ON s.refund = r.id WHERE {which} ORDER BY r.id"
    );
    let mut found = db.prepare_cached(&text)?;
    let mut rows = found.query(rusqlite::params_from_iter(parameters))?;
    let mut all = Vec::new();
    while let Some(row) = rows.next()? {
        let state: Option<String> = row.get(3)?;
        let state = state.map_or(Ok(RefundState::Done), |state| serde_json::from_str(&state))?;
        let (transaction, refund, amount) = (row.get(0)?, row.get(1)?, row.get(2)?);
        all.push(Refund { transaction, refund, amount, notify_url: None, state });
    }
    Ok(all)
}

/// Changes what became of a payment's last refund.
pub(super) fn update_last_refund(db: &Transaction<'_>, kept: &Kept, state: RefundState) -> Done<()> {
    db.prepare_cached(
        "INSERT OR REPLACE INTO sandbox_refund_states (refund, state)
         SELECT max(id), ?3 FROM sandbox_refunds WHERE provider = ?1 AND transaction_id = ?2",
    )?
    .execute(params![kept.kind.as_str(), kept.payment.transaction, serde_json::to_string(&state)?])?;
    Ok(())
}

pub(super) fn insert_refund(db: &Transaction<'_>, kind: ProviderKind, refund: &Refund, now: Now) -> Done<()> {
    db.prepare_cached(
        "INSERT INTO sandbox_refunds (provider, refund, transaction_id, amount, at_ms) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?
    .execute(params![kind.as_str(), refund.refund, refund.transaction, refund.amount, now.ms])?;
    if refund.state != RefundState::Done {
        db.prepare_cached("INSERT INTO sandbox_refund_states (refund, state) VALUES (?1, ?2)")?
            .execute(params![db.last_insert_rowid(), serde_json::to_string(&refund.state)?])?;
    }
    Ok(())
}

/// Books a movement of money: what was paid, or, with the refund's number, what went back. A refund of a negative
/// amount failed, and its money came back.
pub(super) fn book(db: &Transaction<'_>, kept: &Kept, refund: Option<&Refund>, now: Now) -> Done<()> {
    let payment = &kept.payment;
    let amount = refund.map_or(payment.amount, |refund| refund.amount);
    db.prepare_cached(
        "INSERT INTO sandbox_money (provider, number, transaction_id, refund, amount, currency, at_ms)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?
    .execute(params![
        kept.kind.as_str(),
        payment.number,
        payment.transaction,
        refund.map(|refund| &refund.refund),
        amount,
        payment.currency,
        now.ms
    ])?;
    Ok(())
}

/// How long Stripe keeps an answer: "at least 24 hours".
const KEPT_FOR_MS: i64 = 24 * 60 * 60 * 1000;

/// The answer that Stripe keeps for an idempotency key: the request's fingerprint, and the answer, which may be an
/// error.
pub(super) fn kept_answer(db: &Transaction<'_>, key: &str, now: Now) -> Done<Option<(String, HttpAnswer)>> {
    let mut found = db.prepare_cached("SELECT request, answer FROM sandbox_answers WHERE key = ?1 AND at_ms >= ?2")?;
    let since_ms = now.ms.saturating_sub(KEPT_FOR_MS);
    let kept: Option<(String, String)> =
        found.query_row(params![key, since_ms], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    Ok(kept.map(|(request, kept)| {
        // The status, a space, the body.
        let (status, body) = kept.split_once(' ').unwrap_or(("", ""));
        match status.parse() {
            Ok(status) => (request, HttpAnswer::new(status, "application/json", body)),
            Err(_) => (request, HttpAnswer::new(200, "application/json", kept)),
        }
    }))
}

pub(super) fn keep_answer(db: &Transaction<'_>, key: &str, request: &str, answer: &HttpAnswer, now: Now) -> Done<()> {
    db.prepare_cached("DELETE FROM sandbox_answers WHERE at_ms < ?1")?.execute([now.ms.saturating_sub(KEPT_FOR_MS)])?;
    db.prepare_cached("INSERT INTO sandbox_answers (key, request, answer, at_ms) VALUES (?1, ?2, ?3, ?4)")?.execute(
        params![key, request, format!("{} {}", answer.status, String::from_utf8_lossy(&answer.body)), now.ms],
    )?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CloudWithSandbox;
    use local_cloud::clock::Clock;

    #[tokio::test]
    async fn money_that_moved_stays_on_the_books() {
        let cloud = CloudWithSandbox::in_memory(Clock::driven(0)).unwrap();
        let change = |text: &'static str| {
            cloud.sandbox.database.transaction(move |db| Ok::<_, SandboxError>(db.execute(text, [])?))
        };
        let columns = "(provider, number, transaction_id, amount, currency, at_ms)";
        let entry = format!("INSERT INTO sandbox_money {columns} VALUES ('alipay', 'A-1', 't', 1, 'CNY', 0)");
        change(entry.leak()).await.unwrap();
        for text in ["UPDATE sandbox_money SET amount = 2", "DELETE FROM sandbox_money"] {
            let error = change(text).await.unwrap_err();
            assert!(error.to_string().contains("stays on the books"), "{error}");
        }
        assert_eq!(cloud.sandbox.money().await.unwrap().len(), 1);
    }
}
