//! What happens to messages, one transaction each.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rusqlite::{OptionalExtension, Row, Transaction, params};

use super::queue::{Queue, name_in_arn};
use super::{MessageAttribute, Outgoing, Received, Sent, SqsError, digest};
use crate::engine::random_id;

/// SQS refuses to hand out more than so many unfinished messages of one queue.
const IN_FLIGHT: i64 = 120_000;
/// No message stays invisible longer than this after it was received.
const LONGEST_INVISIBLE_MS: i64 = 43_200_000;
/// Messages looked at in one receive: up to 10 are given out; the others are expired or due for redrive, and a queue
/// full of those is worked off over several receives instead of in one long transaction.
const LOOKED_AT: i64 = 200;

/// A receipt handle, taken apart.
pub(super) struct Receipt {
    row: i64,
    nonce: String,
}

impl Receipt {
    fn write(row: i64, nonce: &str) -> String {
        URL_SAFE_NO_PAD.encode(format!("{row}/{nonce}"))
    }

    pub(super) fn read(handle: &str) -> Result<Self, SqsError> {
        let parts = URL_SAFE_NO_PAD.decode(handle).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        let read = parts
            .as_deref()
            .and_then(|text| text.split_once('/'))
            .and_then(|(row, nonce)| Some(Self { row: row.parse().ok()?, nonce: nonce.to_owned() }));
        read.ok_or_else(|| SqsError::ReceiptHandleIsInvalid(handle.to_owned()))
    }
}

/// Puts a message into a queue.
pub(super) fn send(db: &Transaction<'_>, queue: &Queue, message: &Outgoing, now_ms: i64) -> Result<Sent, SqsError> {
    check(queue, message)?;
    let delay_s = message.delay_s.unwrap_or_else(|| queue.number("DelaySeconds"));
    let attributes = serde_json::to_string(&message.attributes)
        .map_err(|error| SqsError::Internal(format!("message attributes: {error}")))?;
    let message_id = random_id();
    db.prepare_cached(
        "INSERT INTO messages (queue, message_id, body, attributes, trace, sent_ms, visible_ms)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?
    .execute(params![
        queue.id,
        message_id,
        message.body,
        attributes,
        message.trace_header,
        now_ms,
        now_ms.saturating_add(delay_s.saturating_mul(1_000)),
    ])?;
    Ok(Sent {
        message_id,
        md5_of_body: digest::of_text(&message.body),
        md5_of_attributes: digest::of_attributes(&message.attributes),
    })
}

/// Whether SQS would take this message.
fn check(queue: &Queue, message: &Outgoing) -> Result<(), SqsError> {
    let invalid = |reason: String| SqsError::InvalidParameterValue(reason);
    if message.body.is_empty() {
        return Err(SqsError::MissingParameter("MessageBody"));
    }
    if let Some(delay_s) = message.delay_s.filter(|delay_s| !(0..=900).contains(delay_s)) {
        return Err(invalid(format!(
            "Value {delay_s} for parameter DelaySeconds is invalid. Reason: DelaySeconds must be >= 0 and <= 900."
        )));
    }
    let limit = queue.number("MaximumMessageSize");
    if i64::try_from(message.size_bytes()).unwrap_or(i64::MAX) > limit {
        return Err(invalid(format!(
            "One or more parameters are invalid. Reason: Message must be shorter than {limit} bytes."
        )));
    }
    if message.attributes.len() > 10 {
        return Err(invalid(format!(
            "Number of message attributes [{}] exceeds the allowed maximum [10].",
            message.attributes.len()
        )));
    }
    for (name, attribute) in &message.attributes {
        attribute.check(name)?;
    }
    let odd = |c: char| matches!(c, '\0'..='\u{8}' | '\u{b}' | '\u{c}' | '\u{e}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}');
    if message.body.contains(odd) {
        return Err(SqsError::InvalidMessageContents);
    }
    Ok(())
}

/// Takes up to `max` visible messages out of sight for `visibility_s`. A message past its retention is dropped; one
/// that was received as often as the redrive policy allows goes to the dead-letter queue instead, whose name is
/// given.
pub(super) fn receive(
    db: &Transaction<'_>,
    queue: &Queue,
    max: usize,
    visibility_s: i64,
    now_ms: i64,
) -> Result<(Vec<Received>, Option<String>), SqsError> {
    // Out of sight is in flight or delayed: a count that the index alone answers, and nearly always enough.
    if out_of_sight(db, queue.id, now_ms)? >= IN_FLIGHT && in_flight(db, queue.id, now_ms)? >= IN_FLIGHT {
        return Err(SqsError::OverLimit);
    }
    let expired_ms = now_ms.saturating_sub(queue.number("MessageRetentionPeriod").saturating_mul(1_000));
    let redrive = queue.redrive();
    let dead_letters = match redrive.as_ref().and_then(|redrive| name_in_arn(&redrive.target_arn)) {
        Some(name) => Queue::look_up(db, name)?,
        None => None,
    };
    let mut found = db.prepare_cached(
        "SELECT id, message_id, body, attributes, trace, sent_ms, received, first_received_ms, dead_from
         FROM messages WHERE queue = ?1 AND visible_ms <= ?2 ORDER BY visible_ms, id LIMIT ?3",
    )?;
    let mut rows = found.query(params![queue.id, now_ms, LOOKED_AT])?;
    let (mut taken, mut moved_to) = (Vec::<Received>::new(), None);
    while let Some(row) = rows.next()? {
        if taken.len() >= max {
            break;
        }
        let mut message = read_message(row)?;
        // Taken for no time at all, it is found again further on: the query goes on through what changes under it.
        if taken.iter().any(|before| before.row == message.row) {
            continue;
        }
        if message.sent_ms <= expired_ms {
            db.prepare_cached("DELETE FROM messages WHERE id = ?1")?.execute([message.row])?;
            continue;
        }
        if let (Some(redrive), Some(dead_letters)) = (&redrive, &dead_letters)
            && message.receive_count >= redrive.max_receive_count
        {
            redrive_one(db, &message, queue, dead_letters, now_ms)?;
            moved_to = Some(dead_letters.name.clone());
            continue;
        }
        take(db, &mut message, visibility_s, now_ms)?;
        taken.push(message);
    }
    Ok((taken, moved_to))
}

fn read_message(row: &Row<'_>) -> Result<Received, SqsError> {
    let attributes: String = row.get(3)?;
    let attributes: BTreeMap<String, MessageAttribute> = serde_json::from_str(&attributes)
        .map_err(|error| SqsError::Internal(format!("attributes of a message: {error}")))?;
    Ok(Received {
        row: row.get(0)?,
        message_id: row.get(1)?,
        body: row.get(2)?,
        attributes,
        trace_header: row.get(4)?,
        sent_ms: row.get(5)?,
        receive_count: row.get(6)?,
        first_received_ms: row.get::<_, Option<i64>>(7)?.unwrap_or(0),
        dead_letter_source_arn: row.get(8)?,
        receipt_handle: String::new(),
    })
}

fn take(db: &Transaction<'_>, message: &mut Received, visibility_s: i64, now_ms: i64) -> Result<(), SqsError> {
    let nonce = random_id();
    if message.receive_count == 0 {
        message.first_received_ms = now_ms;
    }
    message.receive_count += 1;
    message.receipt_handle = Receipt::write(message.row, &nonce);
    db.prepare_cached(
        "UPDATE messages SET visible_ms = ?2, received = ?3, first_received_ms = ?4, received_ms = ?5, receipt = ?6
         WHERE id = ?1",
    )?
    .execute(params![
        message.row,
        now_ms.saturating_add(visibility_s.saturating_mul(1_000)),
        message.receive_count,
        message.first_received_ms,
        now_ms,
        nonce,
    ])?;
    Ok(())
}

/// A message keeps its id, attributes and the time it was sent when it goes to the dead-letter queue.
fn redrive_one(
    db: &Transaction<'_>,
    message: &Received,
    from: &Queue,
    to: &Queue,
    now_ms: i64,
) -> Result<(), SqsError> {
    db.prepare_cached("UPDATE messages SET queue = ?2, visible_ms = ?3, receipt = NULL, dead_from = ?4 WHERE id = ?1")?
        .execute(params![message.row, to.id, now_ms, from.arn()])?;
    Ok(())
}

/// Deletes the message that `receipt` was given for, unless it has been received again since: then the call succeeds
/// and the message stays, as in a standard queue. A message that is already gone is no error either.
pub(super) fn delete(db: &Transaction<'_>, queue: &Queue, receipt: &Receipt) -> Result<(), SqsError> {
    db.prepare_cached("DELETE FROM messages WHERE id = ?1 AND queue = ?2 AND receipt = ?3")?.execute(params![
        receipt.row,
        queue.id,
        receipt.nonce
    ])?;
    Ok(())
}

/// Makes a message in flight visible `visibility_s` from now.
pub(super) fn change_visibility(
    db: &Transaction<'_>,
    queue: &Queue,
    handle: &str,
    visibility_s: i64,
    now_ms: i64,
) -> Result<(), SqsError> {
    if !(0..=43_200).contains(&visibility_s) {
        return Err(SqsError::InvalidParameterValue(format!(
            "Value {visibility_s} for parameter VisibilityTimeout is invalid. Reason: VisibilityTimeout must be an \
             integer between 0 and 43200."
        )));
    }
    let receipt = Receipt::read(handle)?;
    let received_ms: Option<i64> = db
        .prepare_cached(
            "SELECT received_ms FROM messages WHERE id = ?1 AND queue = ?2 AND receipt = ?3 AND visible_ms > ?4",
        )?
        .query_row(params![receipt.row, queue.id, receipt.nonce, now_ms], |row| row.get(0))
        .optional()?;
    let Some(received_ms) = received_ms else {
        return Err(SqsError::MessageNotInflight(handle.to_owned()));
    };
    let visible_ms = now_ms.saturating_add(visibility_s.saturating_mul(1_000));
    if visible_ms > received_ms.saturating_add(LONGEST_INVISIBLE_MS) {
        return Err(SqsError::InvalidParameterValue(format!(
            "Value {visibility_s} for parameter VisibilityTimeout is invalid. Reason: Total VisibilityTimeout for the \
             message is beyond the limit [43200 seconds]."
        )));
    }
    db.prepare_cached("UPDATE messages SET visible_ms = ?2 WHERE id = ?1")?
        .execute(params![receipt.row, visible_ms])?;
    Ok(())
}

/// When the next message of this queue that is out of sight comes back into it.
pub(super) fn next_visible_ms(db: &Transaction<'_>, queue: &Queue, now_ms: i64) -> Result<Option<i64>, SqsError> {
    Ok(db
        .prepare_cached("SELECT MIN(visible_ms) FROM messages WHERE queue = ?1 AND visible_ms > ?2")?
        .query_row(params![queue.id, now_ms], |row| row.get(0))?)
}

fn out_of_sight(db: &Transaction<'_>, queue: i64, now_ms: i64) -> Result<i64, SqsError> {
    Ok(db
        .prepare_cached("SELECT COUNT(*) FROM messages WHERE queue = ?1 AND visible_ms > ?2")?
        .query_row(params![queue, now_ms], |row| row.get(0))?)
}

fn in_flight(db: &Transaction<'_>, queue: i64, now_ms: i64) -> Result<i64, SqsError> {
    Ok(db
        .prepare_cached("SELECT COUNT(*) FROM messages WHERE queue = ?1 AND visible_ms > ?2 AND receipt IS NOT NULL")?
        .query_row(params![queue, now_ms], |row| row.get(0))?)
}

/// How many messages a queue has: visible, in flight, delayed.
pub(super) fn count(db: &Transaction<'_>, queue: &Queue, now_ms: i64) -> Result<super::Counts, SqsError> {
    let number = |sql: &str| -> Result<i64, SqsError> {
        Ok(db.prepare_cached(sql)?.query_row(params![queue.id, now_ms], |row| row.get(0))?)
    };
    Ok(super::Counts {
        visible: number("SELECT COUNT(*) FROM messages WHERE queue = ?1 AND visible_ms <= ?2")?,
        in_flight: in_flight(db, queue.id, now_ms)?,
        delayed: number("SELECT COUNT(*) FROM messages WHERE queue = ?1 AND visible_ms > ?2 AND receipt IS NULL")?,
    })
}

/// Drops what is past its queue's retention.
pub(super) fn drop_expired(db: &Transaction<'_>, queue: &Queue, now_ms: i64) -> Result<usize, SqsError> {
    let expired_ms = now_ms.saturating_sub(queue.number("MessageRetentionPeriod").saturating_mul(1_000));
    Ok(db
        .prepare_cached("DELETE FROM messages WHERE queue = ?1 AND sent_ms <= ?2")?
        .execute(params![queue.id, expired_ms])?)
}
