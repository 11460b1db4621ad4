//! Notices: what a provider tells the merchant by itself, and how it insists.
//!
//! A notice is kept as what happened, and signed anew each time it is sent: its time is then, its number always the
//! same. One that is not accepted comes again on the provider's own schedule, and is given up at the schedule's
//! end.

use std::collections::BTreeSet;

use payments::sandbox::{Happened, Payment};
use payments::{HttpCall, Nonce, ProviderKind};
use rusqlite::{OptionalExtension as _, Row, Transaction, params};

use super::rows::Kept;
use super::{Now, Sandbox, SandboxError, Side, create, numbers};

type Done<T> = Result<T, SandboxError>;

/// A notice that is to be delivered now.
#[derive(Clone, Debug)]
pub struct DueNotice {
    /// Its number, for [`Sandbox::delivered`].
    pub id: i64,
    /// Who tells.
    pub kind: ProviderKind,
    /// The merchant's number of the payment.
    pub number: String,
    /// How often it was sent before.
    pub tries: u32,
    /// The signed request.
    pub call: HttpCall,
}

/// At most so many notices are taken up at once; the rest are due still.
const AT_ONCE: usize = 100;

const SECOND_MS: i64 = 1000;
const MINUTE_MS: i64 = 60 * SECOND_MS;
const HOUR_MS: i64 = 60 * MINUTE_MS;

/// How long each try waits after the one before it.
fn waits_ms(kind: ProviderKind) -> &'static [i64] {
    const ALIPAY: &[i64] =
        &[4 * MINUTE_MS, 10 * MINUTE_MS, 10 * MINUTE_MS, HOUR_MS, 2 * HOUR_MS, 6 * HOUR_MS, 15 * HOUR_MS];
    const WECHAT: &[i64] = &[
        15 * SECOND_MS,
        15 * SECOND_MS,
        30 * SECOND_MS,
        3 * MINUTE_MS,
        10 * MINUTE_MS,
        20 * MINUTE_MS,
        30 * MINUTE_MS,
        30 * MINUTE_MS,
        30 * MINUTE_MS,
        HOUR_MS,
        3 * HOUR_MS,
        3 * HOUR_MS,
        3 * HOUR_MS,
        6 * HOUR_MS,
        6 * HOUR_MS,
    ];
    // Stripe says no more than "for up to three days with an exponential back off".
    const STRIPE: &[i64] = &[
        5 * MINUTE_MS,
        30 * MINUTE_MS,
        2 * HOUR_MS,
        5 * HOUR_MS,
        10 * HOUR_MS,
        12 * HOUR_MS,
        12 * HOUR_MS,
        12 * HOUR_MS,
        12 * HOUR_MS,
    ];
    match kind {
        ProviderKind::Alipay => ALIPAY,
        ProviderKind::WechatV3 | ProviderKind::WechatV2 => WECHAT,
        ProviderKind::Stripe => STRIPE,
    }
}

/// Whether the merchant's answer says that the notice was taken.
pub fn is_accepted(kind: ProviderKind, status: u16, body: &[u8]) -> bool {
    match kind {
        ProviderKind::Alipay => status == 200 && body == b"success",
        ProviderKind::WechatV3 => matches!(status, 200 | 204),
        ProviderKind::WechatV2 => {
            let plain = String::from_utf8_lossy(body).replace("<![CDATA[", "").replace("]]>", "");
            status == 200 && plain.contains("<return_code>SUCCESS</return_code>")
        }
        ProviderKind::Stripe => (200..300).contains(&status),
    }
}

const HAPPENED: [(Happened, &str); 10] = [
    (Happened::Paid, "paid"),
    (Happened::Failed, "failed"),
    (Happened::Closed, "closed"),
    (Happened::Refunded, "refunded"),
    (Happened::PartlyRefunded, "partly-refunded"),
    (Happened::RefundFailed, "refund-failed"),
    (Happened::ConsoleRefundFailed, "console-refund-failed"),
    (Happened::Confirmed, "confirmed"),
    (Happened::PaidAtLast, "paid-at-last"),
    (Happened::Disputed, "disputed"),
];

/// Keeps a notice to be sent now, if the provider tells such a thing and knows whom. `url` is another address than
/// the payment's.
pub(super) fn tell(
    db: &Transaction<'_>,
    side: &Side,
    kept: &Kept,
    happened: Happened,
    url: Option<String>,
    now: Now,
) -> Done<()> {
    let mut told = kept.payment.clone();
    if let Some(url) = url {
        told.notify_url = url;
    }
    let nonce = Nonce::new(numbers::of_notice(&told.id, 0));
    if told.notify_url.is_empty() || side.protocols.notice(kept.kind, &told, happened, now.at, &nonce).is_none() {
        return Ok(());
    }
    let name = HAPPENED.iter().find(|(known, _)| *known == happened).map_or("", |(_, name)| name);
    db.prepare_cached("INSERT INTO sandbox_notices (payment, happened, told, due_ms) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![kept.row, name, serde_json::to_string(&told)?, now.ms])?;
    Ok(())
}

/// Makes the last notice about a payment due again. `false`: there is none.
pub(super) fn tell_again(db: &Transaction<'_>, kept: &Kept, now: Now) -> Done<bool> {
    let changed = db
        .prepare_cached(
            "UPDATE sandbox_notices SET due_ms = ?2, tries = 0, accepted_ms = NULL
             WHERE id = (SELECT max(id) FROM sandbox_notices WHERE payment = ?1)",
        )?
        .execute([kept.row, now.ms])?;
    Ok(changed > 0)
}

/// A notice, before it is signed.
struct Waiting {
    id: i64,
    kind: ProviderKind,
    happened: Happened,
    told: Payment,
    tries: u32,
}

fn waiting(row: &Row<'_>) -> Done<Waiting> {
    let (provider, happened): (String, String) = (row.get("provider")?, row.get("happened")?);
    let unknown = || SandboxError::Internal(format!("cloud.db holds an unknown notice, {provider} {happened}"));
    Ok(Waiting {
        id: row.get("id")?,
        kind: ProviderKind::parse(&provider).ok_or_else(unknown)?,
        happened: HAPPENED.iter().find(|(_, name)| *name == happened).map(|(known, _)| *known).ok_or_else(unknown)?,
        told: serde_json::from_str(&row.get::<_, String>("told")?)?,
        tries: row.get("tries")?,
    })
}

impl Waiting {
    fn signed(self, side: &Side, now: Now) -> Option<DueNotice> {
        let nonce = Nonce::new(numbers::of_notice(&self.told.id, self.id));
        let call = side.protocols.notice(self.kind, &self.told, self.happened, now.at, &nonce)?;
        Some(DueNotice { id: self.id, kind: self.kind, number: self.told.number, tries: self.tries, call })
    }
}

impl Sandbox {
    /// The notices that are due, at most a hundred, oldest first. Each stays due until [`Sandbox::delivered`].
    pub async fn due_notices(&self) -> Result<Vec<DueNotice>, SandboxError> {
        self.due_besides(&BTreeSet::new(), usize::MAX).await
    }

    /// At most `most` of them, without those that are under way: only what is sent is signed.
    pub(super) async fn due_besides(
        &self,
        under_way: &BTreeSet<i64>,
        most: usize,
    ) -> Result<Vec<DueNotice>, SandboxError> {
        let (side, now) = (self.side().await?, self.now());
        let signer = std::sync::Arc::clone(&side);
        let due = self.database.transaction(move |db| {
            let more = create::expire(db, &signer, now)?;
            let mut found = db.prepare_cached(
                "SELECT n.id, p.provider, n.happened, n.told, n.tries FROM sandbox_notices n
                 JOIN sandbox_payments p ON p.id = n.payment
                 WHERE n.due_ms <= ?1 ORDER BY n.due_ms, n.id LIMIT ?2",
            )?;
            let mut rows = found.query(params![now.ms, AT_ONCE])?;
            let mut due = Vec::new();
            while let Some(row) = rows.next()? {
                due.push(waiting(row)?);
            }
            Ok::<_, SandboxError>((due, more))
        });
        let (due, more) = due.await?;
        if more {
            self.changed();
        }
        let open = due.into_iter().filter(|notice| !under_way.contains(&notice.id));
        Ok(open.filter_map(|notice| notice.signed(&side, now)).take(most).collect())
    }

    /// The next moment after this one at which a notice is due, or a payment ends unpaid, which may make one.
    pub async fn next_notice_ms(&self) -> Result<Option<i64>, SandboxError> {
        let now = self.now();
        let soonest = self.database.transaction(move |db| {
            let text = "SELECT min(at) FROM (
                SELECT min(due_ms) AS at FROM sandbox_notices WHERE due_ms > ?1
                UNION ALL SELECT min(expires_ms) FROM sandbox_payments WHERE open = 1 AND expires_ms > ?1)";
            Ok::<_, SandboxError>(db.prepare_cached(text)?.query_row([now.ms], |row| row.get(0))?)
        });
        soonest.await
    }

    /// Notes that a notice was sent, and whether the merchant took it. One that was refused comes again.
    pub async fn delivered(&self, id: i64, accepted: bool) -> Result<(), SandboxError> {
        let now = self.now();
        let noted = self.database.transaction(move |db| {
            let text = "SELECT p.provider, n.tries FROM sandbox_notices n
                        JOIN sandbox_payments p ON p.id = n.payment WHERE n.id = ?1 AND n.due_ms IS NOT NULL";
            let read = |row: &Row<'_>| Ok((row.get::<_, String>(0)?, row.get::<_, u32>(1)?));
            let Some((provider, tries)) = db.prepare_cached(text)?.query_row([id], read).optional()? else {
                return Err(SandboxError::Invalid(format!("notice {id} is not due: take its number from due_notices")));
            };
            let waits = ProviderKind::parse(&provider).map_or(&[][..], waits_ms);
            let wait = usize::try_from(tries).ok().and_then(|tries| waits.get(tries));
            let due_ms = wait.filter(|_| !accepted).map(|wait_ms| now.ms.saturating_add(*wait_ms));
            db.prepare_cached(
                "UPDATE sandbox_notices SET tries = tries + 1, due_ms = ?2, accepted_ms = ?3 WHERE id = ?1",
            )?
            .execute(params![id, due_ms, accepted.then_some(now.ms)])?;
            Ok(())
        });
        noted.await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_provider_reads_its_own_yes() {
        let xml = b"<xml><return_code><![CDATA[SUCCESS]]></return_code><return_msg><![CDATA[OK]]></return_msg></xml>";
        assert!(is_accepted(ProviderKind::Alipay, 200, b"success"));
        assert!(is_accepted(ProviderKind::WechatV3, 204, b"") && is_accepted(ProviderKind::WechatV3, 200, b"anything"));
        assert!(is_accepted(ProviderKind::WechatV2, 200, xml));
        assert!(is_accepted(ProviderKind::Stripe, 202, b""));
        for (kind, status, body) in [
            (ProviderKind::Alipay, 200, &b"SUCCESS"[..]),
            (ProviderKind::Alipay, 200, b"success\n"),
            (ProviderKind::Alipay, 503, b"success"),
            (ProviderKind::WechatV3, 302, b""),
            (ProviderKind::WechatV2, 200, b"success"),
            (ProviderKind::WechatV2, 500, xml),
            (ProviderKind::Stripe, 302, b""),
        ] {
            assert!(!is_accepted(kind, status, body), "{kind} {status}");
        }
    }

    #[test]
    fn wechat_insists_for_a_day_and_stripe_for_three() {
        let hours = |kind| waits_ms(kind).iter().sum::<i64>() / HOUR_MS;
        assert_eq!(
            (hours(ProviderKind::Alipay), hours(ProviderKind::WechatV3), hours(ProviderKind::Stripe)),
            (24, 24, 65)
        );
    }
}
