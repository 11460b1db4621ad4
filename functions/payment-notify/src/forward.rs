//! Notices about the shop's ordinary orders: verified here, and forwarded to the shop's queue with the notice itself.
//!
//! Without a queue the provider is asked to send the notice again, which all of them do for about a day: no
//! payment is lost while the operator sets the queue up. Each time is logged as an error, and counted.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use domain::Timestamp;
use payments::{Notice, Outcome};
use serde::Serialize;
use telemetry::{Metric, Metrics};

use crate::{App, NoticeAnswer};

/// The message to the shop. It may be delivered twice, like a notice.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Forwarded<'a> {
    version: u32,
    provider: &'a str,
    /// The shop's order number.
    number: &'a str,
    transaction: Option<&'a str>,
    amount: i64,
    currency: &'a str,
    outcome: &'static str,
    happened_at: Option<Timestamp>,
    /// The notice's body as it arrived, for fields that are not listed here.
    notice: String,
    notice_is_base64: bool,
}

impl<'a> Forwarded<'a> {
    fn of(notice: &'a Notice, number: &'a str, raw: &[u8]) -> Self {
        let (text, is_base64) = match std::str::from_utf8(raw) {
            Ok(text) if text.chars().all(is_allowed) => (text.to_owned(), false),
            _ => (STANDARD.encode(raw), true),
        };
        Self {
            version: 1,
            provider: notice.provider.as_str(),
            number,
            transaction: notice.transaction.as_deref(),
            amount: notice.amount,
            currency: notice.currency.as_str(),
            outcome: outcome(&notice.outcome),
            happened_at: notice.happened_at,
            notice: text,
            notice_is_base64: is_base64,
        }
    }
}

/// SQS refuses a message with two characters that JSON does not escape.
fn is_allowed(character: char) -> bool {
    !matches!(character, '\u{fffe}' | '\u{ffff}')
}

fn outcome(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Paid => "PAID",
        Outcome::Failed => "FAILED",
        Outcome::Closed => "CLOSED",
        Outcome::Refunded => "REFUNDED",
        Outcome::PartlyRefunded => "PARTLY_REFUNDED",
        Outcome::RefundFailed => "REFUND_FAILED",
        Outcome::Disputed(_) => "DISPUTED",
        Outcome::Other(_) => "OTHER",
    }
}

/// Forwards a notice to the shop.
pub(crate) async fn forward(
    app: &App,
    notice: &Notice,
    number: &str,
    raw: &[u8],
    trace: Option<&str>,
    metrics: &mut Metrics,
) -> NoticeAnswer {
    let provider = notice.provider;
    let Ok(body) = serde_json::to_string(&Forwarded::of(notice, number, raw)) else {
        tracing::error!(order_id = number, %provider, trace, "a notice for the shop could not be written as JSON");
        return NoticeAnswer::TryAgain;
    };
    match app.store.forward_to_shop(&body).await {
        Ok(Some(())) => {
            tracing::info!(order_id = number, %provider, trace, "a notice was forwarded to the shop");
            metrics.count(Metric::NoticesForwarded);
            NoticeAnswer::Success
        }
        Ok(None) => {
            tracing::error!(
                order_id = number, %provider, trace,
                "a notice about an ordinary order, and no queue for it: deploy with ShopQueueUrl and ShopQueueArn"
            );
            metrics.count_of(Metric::NoticesRefused, "NO_SHOP_QUEUE");
            NoticeAnswer::TryAgain
        }
        Err(error) => {
            tracing::warn!(
                order_id = number, %provider, %error, trace,
                "a notice was not forwarded to the shop: it will come again"
            );
            NoticeAnswer::TryAgain
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use payments::{ProviderKind, Subject};
    use serde_json::json;

    fn notice() -> Notice {
        Notice {
            provider: ProviderKind::WechatV3,
            subject: Subject::Ordinary("A-17".into()),
            transaction: Some("4200000001".into()),
            amount: 6_999,
            currency: domain::money::Currency::parse("CNY").unwrap(),
            happened_at: Some("2026-11-11T00:05:00Z".parse().unwrap()),
            outcome: Outcome::Paid,
        }
    }

    #[test]
    fn the_shop_gets_what_was_verified_and_the_notice_itself() {
        let notice = notice();
        let text = serde_json::to_value(Forwarded::of(&notice, "A-17", "{\"id\": \"é\"}\n".as_bytes())).unwrap();
        assert_eq!(
            text,
            json!({
                "version": 1, "provider": "wechat", "number": "A-17", "transaction": "4200000001", "amount": 6_999,
                "currency": "CNY", "outcome": "PAID", "happenedAt": "2026-11-11T00:05:00Z",
                "notice": "{\"id\": \"é\"}\n", "noticeIsBase64": false,
            })
        );
    }

    #[test]
    fn bytes_that_are_not_text_are_sent_as_base64() {
        let notice = notice();
        for raw in [&b"\xff\x00"[..], "\u{ffff}".as_bytes()] {
            let forwarded = Forwarded::of(&notice, "A-17", raw);
            assert!(forwarded.notice_is_base64);
            assert_eq!(STANDARD.decode(&forwarded.notice).unwrap(), raw);
        }
    }
}
