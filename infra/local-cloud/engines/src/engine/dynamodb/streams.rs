//! A table's changes in order, for event sources.

use dynoxide::actions::get_records::{GetRecordsRequest, Record};
use dynoxide::actions::get_shard_iterator::GetShardIteratorRequest;
use dynoxide::storage::Storage;
use dynoxide::{actions, streams};
use serde_json::Value;

use super::{DynamoDb, DynamoError, Engine, ready};

/// Stream records live for a day, as in AWS.
const KEPT_S: i64 = 86_400;

/// A record's place in its stream. Later is greater.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SequenceNumber(String);

impl SequenceNumber {
    /// A place before every record: where a reader starts that saw the stream while it was empty.
    pub fn before_all() -> Self {
        Self("0".repeat(21))
    }

    /// Reads what [`std::fmt::Display`] wrote. `None` if it is not a number of AWS's length.
    pub fn parse(text: &str) -> Option<Self> {
        let good = (21..=40).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
        good.then(|| Self(text.to_owned()))
    }
}

impl std::fmt::Display for SequenceNumber {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// One change of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamRecord {
    /// Its place.
    pub sequence_number: SequenceNumber,
    /// When it happened, in seconds since 1970.
    pub created_s: f64,
    /// The record as it is in a Lambda event, in JSON, but for `eventSourceARN`, which the event source adds. It is
    /// text because most readers only pass it on.
    pub text: String,
}

impl StreamRecord {
    /// The record as a value.
    pub fn event(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_default()
    }
}

impl DynamoDb {
    /// Up to `limit` changes of `table` after `after` (`None`: from the oldest that is kept), in order.
    pub async fn stream_records(
        &self,
        table: &str,
        after: Option<&SequenceNumber>,
        limit: usize,
    ) -> Result<Vec<StreamRecord>, DynamoError> {
        let (table, after) = (table.to_owned(), after.map(ToString::to_string));
        let records = self.worker.run(move |engine| read(engine, &table, after, limit)).await??;
        Ok(records.into_iter().map(convert).collect())
    }

    /// The latest change of `table`: where a reader of new changes alone starts. `None` if there was none.
    pub async fn latest_sequence_number(&self, table: &str) -> Result<Option<SequenceNumber>, DynamoError> {
        let table = table.to_owned();
        let last = self
            .worker
            .run(move |engine| {
                let shard = shard_id(&table);
                let (_, last) = engine.storage.get_shard_sequence_range(&table, &shard)?;
                let Some(last) = last.and_then(|last| last.parse::<i64>().ok()) else {
                    return Ok(Vec::new());
                };
                let iterator =
                    actions::get_shard_iterator::encode_shard_iterator(&table, &shard, last.saturating_sub(1));
                records_at(engine, iterator, 1)
            })
            .await??;
        Ok(last.into_iter().map(convert).next().map(|record| record.sequence_number))
    }
}

/// The name of a table's only shard.
pub fn shard_id(table: &str) -> String {
    streams::shard_id(table)
}

fn read(engine: &Engine, table: &str, after: Option<String>, limit: usize) -> dynoxide::Result<Vec<Record>> {
    let shard = shard_id(table);
    // The engine takes only numbers that it could have given.
    let after = after.filter(|after| *after != SequenceNumber::before_all().0);
    let kind = if after.is_some() { "AFTER_SEQUENCE_NUMBER" } else { "TRIM_HORIZON" };
    let request = GetShardIteratorRequest {
        stream_arn: streams::stream_arn(table, "latest"),
        shard_id: shard,
        shard_iterator_type: kind.to_owned(),
        sequence_number: after,
    };
    let iterator = ready(actions::get_shard_iterator::execute(&engine.storage, request))?.shard_iterator;
    records_at(engine, iterator.unwrap_or_default(), limit)
}

fn records_at(engine: &Engine, shard_iterator: String, limit: usize) -> dynoxide::Result<Vec<Record>> {
    let request = GetRecordsRequest { shard_iterator, limit: Some(limit) };
    Ok(ready(actions::get_records::execute(&engine.storage, request))?.records)
}

fn convert(mut record: Record) -> StreamRecord {
    record.aws_region = crate::REGION.to_owned();
    StreamRecord {
        sequence_number: SequenceNumber(record.dynamodb.sequence_number.clone()),
        created_s: record.dynamodb.approximate_creation_date_time,
        text: serde_json::to_string(&record).unwrap_or_default(),
    }
}

/// dynoxide looks for a stream's greatest number at every write, through all of its records; with this index that is
/// one step instead.
pub(super) fn index(storage: &Storage) -> rusqlite::Result<()> {
    storage.conn().execute_batch(
        "CREATE INDEX IF NOT EXISTS stream_records_in_order
         ON _stream_records (table_name, CAST(sequence_number AS INTEGER))",
    )
}

/// Drops records older than a day. The last one of a table stays: the next number is made from it.
pub(super) fn trim(storage: &Storage, now_ms: i64) -> rusqlite::Result<()> {
    let oldest_s = (now_ms / 1_000).saturating_sub(KEPT_S);
    storage.conn().execute(
        "DELETE FROM _stream_records WHERE created_at < ?1
         AND id NOT IN (SELECT MAX(id) FROM _stream_records GROUP BY table_name)",
        [oldest_s],
    )?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_streams_greatest_number_is_found_through_the_index() {
        let storage = Storage::memory().expect("a database");
        index(&storage).expect("an index");
        let plan: String = storage
            .conn()
            .query_row(
                "EXPLAIN QUERY PLAN SELECT COALESCE(MAX(CAST(sequence_number AS INTEGER)), 0) + 1
                 FROM _stream_records WHERE table_name = 't'",
                [],
                |row| row.get(3),
            )
            .expect("a plan");
        assert!(plan.contains("stream_records_in_order"), "{plan}");
    }

    #[test]
    fn a_sequence_number_is_a_long_number() {
        assert!(SequenceNumber::parse("100000000000000000005").is_some());
        let before_all = SequenceNumber::before_all();
        assert_eq!(SequenceNumber::parse(&before_all.to_string()).as_ref(), Some(&before_all));
        assert!(Some(before_all) < SequenceNumber::parse("100000000000000000000"));
        for bad in ["5", "", "10000000000000000000x"] {
            assert_eq!(SequenceNumber::parse(bad), None, "{bad}");
        }
    }
}
