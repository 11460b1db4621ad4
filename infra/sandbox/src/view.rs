//! Payments and money as people and tests see them.

use jiff::Timestamp;
use payments::ProviderKind;
use payments::sandbox::State;
use rusqlite::{Row, Transaction, params};
use serde::Serialize;

use super::rows::{self, Ended, Kept};
use super::{Now, Sandbox, SandboxError, Side};

/// A payment.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PaymentView {
    /// `alipay`, `wechat`, `wechat-v2` or `stripe`.
    pub provider: String,
    /// The provider's own number.
    pub id: String,
    /// The merchant's number.
    pub number: String,
    /// The number of the movement of money, once there was one.
    pub transaction: Option<String>,
    /// What is paid for.
    pub title: String,
    /// Minor units.
    pub amount: i64,
    pub currency: String,
    /// `NOT_PAID`, `PAID`, `CLOSED` or `REFUNDED`.
    pub state: State,
    /// Why it can no longer be paid: `closed`, `expired` or `failed`.
    pub ended: Option<&'static str>,
    /// Minor units that went back.
    pub refunded: i64,
    /// When it was started.
    pub created_at: Timestamp,
    /// Until when it can be paid.
    pub expires_at: Timestamp,
    pub paid_at: Option<Timestamp>,
    /// Where notices go.
    pub notify_url: String,
    /// Where the buyer goes back to now, signed where the provider signs it.
    pub return_url: Option<String>,
    /// What was told about it, oldest first.
    pub notices: Vec<NoticeView>,
}

/// A notice about a payment.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NoticeView {
    /// `paid`, `failed`, `closed` or `refunded`.
    pub happened: String,
    /// How often it was sent.
    pub tries: u32,
    /// When the merchant took it.
    pub accepted_at: Option<Timestamp>,
    /// When it is sent next.
    pub next_at: Option<Timestamp>,
}

/// A movement of money: into the merchant's account, or, with a refund number, out of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MoneyEntry {
    /// Its place in the books, from 1.
    pub entry: i64,
    pub provider: String,
    /// The merchant's number of the payment.
    pub number: String,
    /// The provider's number of the payment's movement of money.
    pub transaction: String,
    /// The merchant's number of the refund; none for a payment.
    pub refund: Option<String>,
    /// Minor units, above zero both ways.
    pub amount: i64,
    pub currency: String,
    pub at: Timestamp,
}

/// The most that one look at the books gives.
const MOST_MONEY: usize = 100_000;
/// The most payments that are listed.
const MOST_PAYMENTS: usize = 200;

fn at(ms: i64) -> Timestamp {
    Timestamp::from_millisecond(ms).unwrap_or(Timestamp::UNIX_EPOCH)
}

impl PaymentView {
    pub(super) fn read(db: &Transaction<'_>, side: &Side, kept: &Kept, now: Now) -> Result<Self, SandboxError> {
        let payment = &kept.payment;
        let mut found = db.prepare_cached(
            "SELECT happened, tries, accepted_ms, due_ms FROM sandbox_notices WHERE payment = ?1 ORDER BY id",
        )?;
        let notice = |row: &Row<'_>| {
            let (accepted, due): (Option<i64>, Option<i64>) = (row.get(2)?, row.get(3)?);
            let (happened, tries) = (row.get(0)?, row.get(1)?);
            Ok(NoticeView { happened, tries, accepted_at: accepted.map(at), next_at: due.map(at) })
        };
        // Alipay signs the way back of a payment that was made, and of no other.
        let return_url = if kept.kind == ProviderKind::Alipay && payment.paid_at.is_none() {
            payment.return_url.clone()
        } else {
            side.protocols.return_url(kept.kind, payment, now.at)
        };
        Ok(Self {
            provider: kept.kind.to_string(),
            id: payment.id.clone(),
            number: payment.number.clone(),
            transaction: payment.paid_at.map(|_| payment.transaction.clone()),
            title: payment.title.clone(),
            amount: payment.amount,
            currency: payment.currency.clone(),
            state: payment.state,
            ended: kept.ended.map(Ended::as_str),
            refunded: kept.refunded,
            created_at: at(kept.created_ms),
            expires_at: at(kept.expires_ms),
            paid_at: payment.paid_at,
            notify_url: payment.notify_url.clone(),
            return_url: Some(return_url).filter(|_| !payment.return_url.is_empty()),
            notices: found.query_map([kept.row], notice)?.collect::<Result<_, _>>()?,
        })
    }
}

impl Sandbox {
    /// A payment as it stands, by the merchant's number or one of the provider's.
    pub async fn payment(&self, id: &str) -> Result<PaymentView, SandboxError> {
        self.look(id, false).await
    }

    /// The latest payments, at most 200, newest first.
    pub async fn payments(&self) -> Result<Vec<PaymentView>, SandboxError> {
        let (side, now) = (self.side().await?, self.now());
        let all = self.database.transaction(move |db| {
            super::create::expire(db, &side, now)?;
            let latest = rows::latest(db, MOST_PAYMENTS)?;
            latest.iter().map(|kept| PaymentView::read(db, &side, kept, now)).collect()
        });
        all.await
    }

    /// The providers' books: every payment and every refund, in the order in which the money moved. At most 100,000
    /// entries.
    pub async fn money(&self) -> Result<Vec<MoneyEntry>, SandboxError> {
        let all = self.database.transaction(|db| {
            let mut found = db.prepare_cached(
                "SELECT id, provider, number, transaction_id, refund, amount, currency, at_ms
                 FROM sandbox_money ORDER BY id LIMIT ?1",
            )?;
            let read = |row: &Row<'_>| {
                Ok(MoneyEntry {
                    entry: row.get(0)?,
                    provider: row.get(1)?,
                    number: row.get(2)?,
                    transaction: row.get(3)?,
                    refund: row.get(4)?,
                    amount: row.get(5)?,
                    currency: row.get(6)?,
                    at: at(row.get(7)?),
                })
            };
            let all = found.query_map(params![MOST_MONEY], read)?.collect::<Result<_, _>>()?;
            Ok::<Vec<MoneyEntry>, SandboxError>(all)
        });
        all.await
    }
}
