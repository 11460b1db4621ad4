//! Batches: up to ten entries in one transaction, each with an answer of its own.

use std::collections::BTreeSet;

use super::messages::{self, Receipt};
use super::queue::Queue;
use super::{Outgoing, Sent, Sqs, SqsError};

/// An entry's id and what became of it.
pub type Entry<T> = (String, Result<T, SqsError>);

/// SQS takes no larger batch.
const ENTRIES: usize = 10;
/// All entries of a batch together.
const BATCH_BYTES: usize = 1_048_576;

impl Sqs {
    /// Sends up to ten messages, each under an id of the caller's choice.
    pub async fn send_batch(
        &self,
        queue: &str,
        entries: Vec<(String, Outgoing)>,
    ) -> Result<Vec<Entry<Sent>>, SqsError> {
        check_ids("SendMessageBatchRequestEntry", entries.iter().map(|(id, _)| id.as_str()))?;
        let size: usize = entries.iter().map(|(_, message)| message.size_bytes()).sum();
        if size > BATCH_BYTES {
            return Err(SqsError::BatchRequestTooLong(size));
        }
        let (name, now_ms) = (queue.to_owned(), self.clock.now_ms());
        let answers = self
            .database
            .transaction(move |db| {
                let queue = Queue::find(db, &name)?;
                each(entries, |message| messages::send(db, &queue, &message, now_ms))
            })
            .await?;
        self.announce(queue);
        Ok(answers)
    }

    /// Deletes up to ten messages by receipt handle.
    pub async fn delete_batch(&self, queue: &str, entries: Vec<(String, String)>) -> Result<Vec<Entry<()>>, SqsError> {
        check_ids("DeleteMessageBatchRequestEntry", entries.iter().map(|(id, _)| id.as_str()))?;
        let name = queue.to_owned();
        self.database
            .transaction(move |db| {
                let queue = Queue::find(db, &name)?;
                each(entries, |handle| messages::delete(db, &queue, &Receipt::read(&handle)?))
            })
            .await
    }

    /// Changes the visibility of up to ten messages, by receipt handle and seconds.
    pub async fn change_visibility_batch(
        &self,
        queue: &str,
        entries: Vec<(String, (String, i64))>,
    ) -> Result<Vec<Entry<()>>, SqsError> {
        check_ids("ChangeMessageVisibilityBatchRequestEntry", entries.iter().map(|(id, _)| id.as_str()))?;
        let (name, now_ms) = (queue.to_owned(), self.clock.now_ms());
        let answers = self
            .database
            .transaction(move |db| {
                let queue = Queue::find(db, &name)?;
                each(entries, |(handle, visibility_s)| {
                    messages::change_visibility(db, &queue, &handle, visibility_s, now_ms)
                })
            })
            .await?;
        self.announce(queue);
        Ok(answers)
    }
}

/// Every entry for itself: a refusal is that entry's answer. Only the database's own failure ends them all, because
/// nothing may be answered as done that is not committed.
fn each<I, T>(
    entries: Vec<(String, I)>,
    mut act: impl FnMut(I) -> Result<T, SqsError>,
) -> Result<Vec<Entry<T>>, SqsError> {
    let mut answers = Vec::with_capacity(entries.len());
    for (id, entry) in entries {
        match act(entry) {
            Err(error) if error.is_internal() => return Err(error),
            answer => answers.push((id, answer)),
        }
    }
    Ok(answers)
}

fn check_ids<'a>(what: &'static str, ids: impl ExactSizeIterator<Item = &'a str>) -> Result<(), SqsError> {
    match ids.len() {
        0 => return Err(SqsError::EmptyBatchRequest(what)),
        1..=ENTRIES => {}
        more => return Err(SqsError::TooManyEntriesInBatchRequest(more)),
    }
    let mut seen = BTreeSet::new();
    for id in ids {
        let allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if id.is_empty() || id.len() > 80 || !id.chars().all(allowed) {
            return Err(SqsError::InvalidBatchEntryId);
        }
        if !seen.insert(id) {
            return Err(SqsError::BatchEntryIdsNotDistinct(id.to_owned()));
        }
    }
    Ok(())
}
