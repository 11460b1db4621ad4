//! A DynamoDB stream's event source mapping: a table's changes to a function, in order, one batch at a time.
//!
//! How far the function has come is kept by the engine after every batch, so it goes on there after a restart. A
//! batch that fails holds up the ones after it until it succeeds, is given up, or its records expire: that is what
//! keeps the order.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;

use super::answers::{Failures, failures};
use super::events::{StreamBatch, stream_event, stream_failure_record};
use super::filter::{Filter, FilterError};
use super::{LARGEST_EVENT_BYTES, PAUSE_AFTER_TROUBLE, SHORTEST_WINDOW, is_stopping, or_stop};
use crate::engine::dynamodb::{DynamoError, SequenceNumber, StreamRecord, shard_id};
use crate::engine::sqs::{Outgoing, Sqs, SqsError};
use crate::engine::{CheckpointError, Cloud};
use crate::host::ids;
use crate::invoke::{Invoker, Outcome};
use crate::template::model::{Function, StreamSource};

/// The wait after a failure; it doubles with each further one, up to the longest.
const RETRY_FIRST_MS: i64 = 250;
const RETRY_LONGEST_MS: i64 = 30_000;
/// A mapping's largest batch in AWS.
const MOST_RECORDS: usize = 10_000;

/// A table's changes on their way to a function.
#[derive(Clone)]
pub struct StreamConsumer {
    cloud: Cloud,
    invoker: Invoker,
    function: String,
    function_arn: String,
    stream_arn: String,
    source: StreamSource,
    filter: Filter,
    /// The checkpoint, once it was read. No other consumer moves it, so it is read once.
    position: Arc<Mutex<Option<Position>>>,
    trouble: Arc<Mutex<Trouble>>,
}

/// The last record that is done with, if any.
type Position = Option<SequenceNumber>;

/// What is remembered about a batch that failed.
#[derive(Clone, Debug, Default)]
struct Trouble {
    /// The batch's first record: another first record is another batch.
    first: Option<SequenceNumber>,
    /// Failures that count against the mapping's retries.
    failures: u32,
    /// Failed invocations, throttled ones included.
    tries: u32,
    not_before_ms: i64,
    /// While a batch is being bisected: at most so many records, up to and with this one.
    at_most: Option<(usize, SequenceNumber)>,
}

/// What one step did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamStep {
    /// There is nothing new.
    Idle,
    /// So many records are done with, by the function, the filter, or by being given up.
    Advanced(usize),
    /// The batch failed.
    Failed,
    /// A batch that failed is tried again at this time, in milliseconds since 1970.
    Waiting(i64),
}

/// Why a step could not be made.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// DynamoDB refused.
    #[error(transparent)]
    Dynamo(#[from] DynamoError),
    /// The checkpoint could not be read or kept.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The failure could not be reported.
    #[error(transparent)]
    Queue(#[from] SqsError),
}

impl StreamConsumer {
    /// Takes the changes of `source`'s table to `function`.
    pub fn new(
        cloud: Cloud,
        invoker: Invoker,
        function: &Function,
        source: &StreamSource,
        stream_arn: &str,
    ) -> Result<Self, FilterError> {
        Ok(Self {
            cloud,
            invoker,
            function: function.name.clone(),
            function_arn: function.arn.clone(),
            stream_arn: stream_arn.to_owned(),
            source: source.clone(),
            filter: Filter::parse(&source.filters)?,
            position: Arc::default(),
            trouble: Arc::default(),
        })
    }

    /// A mapping that starts at the stream's end starts at where that is now, unless it has been running before.
    pub async fn prepare(&self) -> Result<(), StreamError> {
        if self.source.from_start || self.checkpoint().await?.is_some() {
            return Ok(());
        }
        // An empty stream's end is kept too: what is written before the first batch must not be lost with a restart.
        let latest = self.cloud.dynamodb.latest_sequence_number(&self.source.table).await?;
        self.save(&latest.unwrap_or_else(SequenceNumber::before_all)).await?;
        Ok(())
    }

    /// Takes one batch to the function.
    pub async fn poll_once(&self) -> Result<StreamStep, StreamError> {
        let trouble = self.trouble().clone();
        let now_ms = self.cloud.clock.now_ms();
        if now_ms < trouble.not_before_ms {
            return Ok(StreamStep::Waiting(trouble.not_before_ms));
        }
        let checkpoint = self.checkpoint().await?;
        let mut limit = usize::try_from(self.source.batch_size).unwrap_or(MOST_RECORDS).clamp(1, MOST_RECORDS);
        if let Some((at_most, until)) = &trouble.at_most {
            if checkpoint.as_ref().is_none_or(|checkpoint| checkpoint < until) {
                limit = limit.min(*at_most);
            } else {
                self.trouble().at_most = None;
            }
        }
        let mut records = self.cloud.dynamodb.stream_records(&self.source.table, checkpoint.as_ref(), limit).await?;
        fit(&mut records);
        self.take(records).await
    }

    async fn take(&self, records: Vec<StreamRecord>) -> Result<StreamStep, StreamError> {
        let (Some(first), Some(last)) = (records.first(), records.last()) else { return Ok(StreamStep::Idle) };
        let wanted: Vec<&StreamRecord> = records.iter().filter(|record| self.passes(record)).collect();
        if wanted.is_empty() {
            self.save(&last.sequence_number).await?;
            return Ok(StreamStep::Advanced(records.len()));
        }
        {
            let mut trouble = self.trouble();
            if trouble.first.as_ref() != Some(&first.sequence_number) {
                *trouble = Trouble {
                    first: Some(first.sequence_number.clone()),
                    at_most: trouble.at_most.take(),
                    ..Trouble::default()
                };
            }
        }
        let event = stream_event(&self.stream_arn, wanted.iter().copied());
        let outcome = (self.invoker)(self.function.clone(), Bytes::from(event)).await;
        let failed_at = match outcome {
            Outcome::Answered(answer) if self.source.partial_responses => {
                lowest_failure(&answer, &wanted).map(|lowest| (lowest, true))
            }
            Outcome::Answered(_) => None,
            Outcome::Failed(_) => Some((first.sequence_number.clone(), true)),
            Outcome::Throttled => Some((first.sequence_number.clone(), false)),
        };
        match failed_at {
            None => {
                self.save(&last.sequence_number).await?;
                // What is left of a bisected batch may be good: back to larger pieces.
                if let Some((at_most, _)) = &mut self.trouble().at_most {
                    *at_most = at_most.saturating_mul(2);
                }
                Ok(StreamStep::Advanced(records.len()))
            }
            Some((lowest, counts)) => self.failed(&records, &wanted, &lowest, counts).await,
        }
    }

    fn passes(&self, record: &StreamRecord) -> bool {
        self.filter.is_empty() || self.filter.passes(&record.event())
    }

    /// The function is done with what comes before `lowest`. The rest is tried again, smaller if it is to be
    /// bisected, or given up.
    async fn failed(
        &self,
        records: &[StreamRecord],
        wanted: &[&StreamRecord],
        lowest: &SequenceNumber,
        counts: bool,
    ) -> Result<StreamStep, StreamError> {
        let (done, rest): (Vec<_>, Vec<_>) = records.iter().partition(|record| record.sequence_number < *lowest);
        if let Some(last_done) = done.last() {
            self.save(&last_done.sequence_number).await?;
        }
        let tries = {
            let mut trouble = self.trouble();
            if !done.is_empty() {
                *trouble =
                    Trouble { first: Some(lowest.clone()), at_most: trouble.at_most.take(), ..Trouble::default() };
            }
            trouble.tries = trouble.tries.saturating_add(1);
            trouble.not_before_ms = self.cloud.clock.now_ms().saturating_add(wait_ms(trouble.tries));
            if counts && self.source.bisect && rest.len() > 1 {
                let until = trouble.at_most.take().map(|(_, until)| until);
                let end = until.or_else(|| rest.last().map(|record| record.sequence_number.clone()));
                trouble.at_most = end.map(|end| (rest.len().div_ceil(2), end));
                return Ok(StreamStep::Failed);
            }
            if counts {
                trouble.failures = trouble.failures.saturating_add(1);
            }
            if self.source.retries.is_none_or(|retries| trouble.failures <= retries) {
                return Ok(StreamStep::Failed);
            }
            trouble.tries
        };
        let given_up: Vec<&StreamRecord> =
            wanted.iter().copied().filter(|record| record.sequence_number >= *lowest).collect();
        self.give_up(&given_up, tries).await?;
        if let Some(last) = rest.last() {
            self.save(&last.sequence_number).await?;
        }
        let at_most = self.trouble().at_most.take();
        *self.trouble() = Trouble { at_most, ..Trouble::default() };
        Ok(StreamStep::Advanced(records.len()))
    }

    async fn give_up(&self, batch: &[&StreamRecord], tries: u32) -> Result<(), StreamError> {
        let (Some(first), Some(last)) = (batch.first(), batch.last()) else { return Ok(()) };
        let info = StreamBatch {
            stream_arn: self.stream_arn.clone(),
            shard_id: shard_id(&self.source.table),
            first_sequence: first.sequence_number.to_string(),
            last_sequence: last.sequence_number.to_string(),
            first_ms: created_ms(first),
            last_ms: created_ms(last),
            size: batch.len(),
        };
        tracing::warn!(
            function = self.function,
            table = self.source.table,
            from = info.first_sequence,
            "stream batch given up"
        );
        let Some(arn) = &self.source.on_failure else { return Ok(()) };
        let now_ms = self.cloud.clock.now_ms();
        let record = stream_failure_record(now_ms, &ids::request_id(), &self.function_arn, tries, &info);
        match self.cloud.sqs.send(Sqs::name_of(arn), Outgoing::text(record.to_string())).await {
            Err(error @ SqsError::Internal(_)) => Err(error.into()),
            Err(error) => {
                tracing::error!(queue_arn = arn, %error, "a stream batch that was given up could not be reported");
                Ok(())
            }
            Ok(_) => Ok(()),
        }
    }

    /// Takes batches to the function until `stop` says true.
    pub async fn run(self, mut stop: watch::Receiver<bool>) {
        let mut writes = self.cloud.dynamodb.writes();
        while !is_stopping(&stop) {
            writes.mark_unchanged();
            match self.poll_once().await {
                Ok(StreamStep::Advanced(_) | StreamStep::Failed) => {}
                Ok(StreamStep::Waiting(until_ms)) => {
                    or_stop(&mut stop, self.cloud.clock.sleep_until(until_ms)).await;
                }
                Ok(StreamStep::Idle) => {
                    // A write to any table wakes it; the window lets more of them come.
                    let more = async {
                        let written = writes.changed().await;
                        self.cloud.clock.sleep(self.source.window.max(SHORTEST_WINDOW)).await;
                        written
                    };
                    if matches!(or_stop(&mut stop, more).await, Some(Err(_))) {
                        return;
                    }
                }
                Err(error) => {
                    tracing::warn!(table = self.source.table, function = self.function, %error, "stream cannot be \
                        read");
                    or_stop(&mut stop, self.cloud.clock.sleep(PAUSE_AFTER_TROUBLE)).await;
                }
            }
        }
    }

    fn trouble(&self) -> MutexGuard<'_, Trouble> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn position(&self) -> MutexGuard<'_, Option<Position>> {
        self.position.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn checkpoint(&self) -> Result<Position, CheckpointError> {
        let known = self.position().clone();
        if let Some(position) = known {
            return Ok(position);
        }
        let read = self.cloud.checkpoint(&self.function, &self.source.table).await?;
        *self.position() = Some(read.clone());
        Ok(read)
    }

    async fn save(&self, sequence: &SequenceNumber) -> Result<(), CheckpointError> {
        self.cloud.save_checkpoint(&self.function, &self.source.table, sequence).await?;
        *self.position() = Some(Some(sequence.clone()));
        Ok(())
    }
}

/// The first record that the function says failed; all of them if the answer does not make sense.
fn lowest_failure(answer: &[u8], wanted: &[&StreamRecord]) -> Option<SequenceNumber> {
    let ids: Vec<String> = wanted.iter().map(|record| record.sequence_number.to_string()).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    match failures(answer, &ids) {
        Failures::None => None,
        Failures::Some(failed) => failed.iter().filter_map(|id| SequenceNumber::parse(id)).min(),
        Failures::All => wanted.first().map(|record| record.sequence_number.clone()),
    }
}

/// Drops what does not fit into one event; it comes with the next.
fn fit(records: &mut Vec<StreamRecord>) {
    let mut bytes = 0_usize;
    let fitting = records.iter().take_while(|record| {
        bytes = bytes.saturating_add(record.text.len());
        bytes <= LARGEST_EVENT_BYTES
    });
    // A single record is at most 400 KB of item, twice: it always fits.
    let fitting = fitting.count().max(1);
    records.truncate(fitting);
}

fn wait_ms(tries: u32) -> i64 {
    RETRY_FIRST_MS.saturating_mul(1 << tries.saturating_sub(1).min(16)).min(RETRY_LONGEST_MS)
}

fn created_ms(record: &StreamRecord) -> i64 {
    let since = Duration::try_from_secs_f64(record.created_s).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
