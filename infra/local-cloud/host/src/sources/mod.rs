//! What invokes functions by itself: queues, streams, schedules, and accepted asynchronous events.
//!
//! Each has one deterministic step, `poll_once`, for tests that drive the clock, and `run`, which makes such steps
//! until it is stopped.

pub mod answers;
pub mod asynchronous;
pub mod events;
pub mod filter;
pub mod queue;
pub mod schedules;
pub mod stream;

use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::engine::Cloud;
use crate::engine::scheduler::SchedulerError;
use crate::engine::sqs::SqsError;
use crate::invoke::Invoker;
use crate::template::model::{EventSource, Stack};
use asynchronous::Asynchronous;
use filter::FilterError;
use queue::QueueConsumer;
use schedules::{RoleMay, Schedules};
use stream::{StreamConsumer, StreamError, StreamStep};

/// Lambda's limit for an event, less a little for what goes around the records.
const LARGEST_EVENT_BYTES: usize = 6 * 1024 * 1024 - 1024;
/// A loop that met an error goes on after this.
const PAUSE_AFTER_TROUBLE: Duration = Duration::from_secs(1);
/// Under load every write would wake every reader: so long they wait for more, which is still a tenth of AWS's wait.
const SHORTEST_WINDOW: Duration = Duration::from_millis(20);

/// Every event source of a stack.
pub struct Sources {
    /// Accepts events for asynchronous invocation.
    pub asynchronous: Asynchronous,
    queues: Vec<QueueConsumer>,
    streams: Vec<StreamConsumer>,
    schedules: Schedules,
}

/// Why a stack's event sources cannot run, or a step could not be made.
#[derive(Debug, thiserror::Error)]
pub enum SourcesError {
    /// A filter pattern is not one.
    #[error("function {function}: {source}")]
    Filter {
        /// The function's name.
        function: String,
        source: FilterError,
    },
    /// A mapping reads a stream that its table does not have.
    #[error("function {function}: table {table} has no stream: give it a StreamSpecification")]
    NoStream {
        /// The function's name.
        function: String,
        /// The table's name.
        table: String,
    },
    /// A stream could not be read.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// SQS refused.
    #[error(transparent)]
    Queue(#[from] SqsError),
    /// Scheduler refused.
    #[error(transparent)]
    Schedule(#[from] SchedulerError),
}

impl Sources {
    /// Prepares the sources of a stack whose tables and queues are there.
    pub async fn open(cloud: &Cloud, stack: &Stack, invoker: &Invoker, may: RoleMay) -> Result<Self, SourcesError> {
        let (sqs, clock) = (&cloud.sqs, &cloud.clock);
        let asynchronous = Asynchronous::open(sqs.clone(), clock.clone(), invoker.clone(), &stack.functions).await?;
        let schedules = Schedules::new(cloud.scheduler.clone(), sqs.clone(), clock.clone(), asynchronous.clone(), may);
        schedules.register(&stack.functions).await?;
        let (mut queues, mut streams) = (Vec::new(), Vec::new());
        for function in &stack.functions {
            for source in &function.sources {
                match source {
                    EventSource::Queue(source) => queues.push(QueueConsumer::new(
                        sqs.clone(),
                        clock.clone(),
                        invoker.clone(),
                        &function.name,
                        source,
                    )),
                    EventSource::Stream(source) => {
                        let table = stack.tables.iter().find(|table| table.name == source.table);
                        let stream_arn = table.and_then(|table| table.stream_arn.as_deref()).ok_or_else(|| {
                            SourcesError::NoStream { function: function.name.clone(), table: source.table.clone() }
                        })?;
                        let stream = StreamConsumer::new(cloud.clone(), invoker.clone(), function, source, stream_arn)
                            .map_err(|error| SourcesError::Filter { function: function.name.clone(), source: error })?;
                        stream.prepare().await?;
                        streams.push(stream);
                    }
                    EventSource::Schedule(_) => {}
                }
            }
        }
        Ok(Self { asynchronous, queues, streams, schedules })
    }

    /// One step of each source. True if any of them found something to do.
    pub async fn poll_once(&self) -> Result<bool, SourcesError> {
        let mut busy = self.schedules.poll_once().await? > 0;
        busy |= self.asynchronous.poll_once().await? > 0;
        for queue in &self.queues {
            busy |= queue.poll_once().await?.received > 0;
        }
        for stream in &self.streams {
            busy |= matches!(stream.poll_once().await?, StreamStep::Advanced(_) | StreamStep::Failed);
        }
        Ok(busy)
    }

    /// Runs them all.
    pub fn start(self) -> RunningSources {
        let (stop, stopped) = watch::channel(false);
        let mut tasks = JoinSet::new();
        tasks.spawn(self.schedules.run(stopped.clone()));
        tasks.spawn(self.asynchronous.clone().run(stopped.clone()));
        for queue in self.queues {
            tasks.spawn(queue.run(stopped.clone()));
        }
        for stream in self.streams {
            tasks.spawn(stream.run(stopped.clone()));
        }
        RunningSources { asynchronous: self.asynchronous, stop, tasks }
    }
}

/// Sources that run. Dropping it breaks them off.
pub struct RunningSources {
    /// Accepts events for asynchronous invocation.
    pub asynchronous: Asynchronous,
    stop: watch::Sender<bool>,
    tasks: JoinSet<()>,
}

impl RunningSources {
    /// Takes nothing new, and waits up to `grace` for the invocations under way.
    pub async fn stop(mut self, grace: Duration) {
        let _ = self.stop.send(true);
        let _ = tokio::time::timeout(grace, async { while self.tasks.join_next().await.is_some() {} }).await;
    }
}

fn is_stopping(stop: &watch::Receiver<bool>) -> bool {
    *stop.borrow()
}

/// What `work` gives, or `None` as soon as `stop` says true or is gone.
async fn or_stop<T>(stop: &mut watch::Receiver<bool>, work: impl Future<Output = T>) -> Option<T> {
    let stopped = async {
        let _ = stop.wait_for(|stop| *stop).await;
    };
    tokio::select! {
        () = stopped => None,
        done = work => Some(done),
    }
}
