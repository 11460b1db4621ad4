//! Which environment runs what: the bookkeeping of one function, without processes, sockets or clocks.
//!
//! An environment is *starting* until its process first asks for work, then *free* (its request is parked here) or
//! *busy* (it has one invocation). An invocation goes to the environment that was used last, or waits in a bounded
//! queue; environments take from that queue when they ask for work, so nothing is lost when a caller goes away.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::{Notify, oneshot};

use crate::invoke::{FunctionError, Outcome};

#[cfg(test)]
mod tests;

/// The first wait after a failed start; it doubles with each further one.
const BACKOFF_FIRST: Duration = Duration::from_millis(200);
/// The longest wait: a person who has repaired the binary should not wait long for the next try.
const BACKOFF_MOST: Duration = Duration::from_secs(10);

/// An event on its way to an environment.
#[derive(Debug)]
pub(super) struct Invocation {
    pub(super) request_id: Arc<str>,
    pub(super) payload: Bytes,
    pub(super) answer: oneshot::Sender<Outcome>,
}

/// What a parked request for work is answered with.
#[derive(Debug)]
pub(super) struct Delivery {
    pub(super) request_id: Arc<str>,
    pub(super) payload: Bytes,
}

/// An invocation that an environment is running.
#[derive(Debug)]
pub(super) struct Current {
    pub(super) request_id: Arc<str>,
    pub(super) answer: oneshot::Sender<Outcome>,
    pub(super) started: Instant,
    /// How long the environment took to start, if this is its first invocation.
    pub(super) init: Option<Duration>,
}

/// What became of an event that was handed in.
#[derive(Debug)]
pub(super) enum Submitted {
    /// An environment has it.
    Started,
    /// It waits; start this environment, if there is one named.
    Queued { start: Option<u64> },
    /// The queue is full, or the function may not run at all.
    Throttled,
    /// The function does not start, and it is too early to try again.
    Broken(FunctionError),
}

/// The answer to an environment that asks for work.
#[derive(Debug)]
pub(super) enum Next {
    Run(Delivery),
    /// Wait for this.
    Park(oneshot::Receiver<Delivery>),
    /// It is being stopped.
    Gone,
}

/// Whether an environment's invocation has run too long.
#[derive(Debug)]
pub(super) enum Deadline {
    Expired(Current),
    LookAgainAt(Instant),
}

/// What an environment leaves behind.
#[derive(Debug, Default)]
pub(super) struct Ended {
    /// The invocation it was running.
    pub(super) current: Option<Current>,
    /// Invocations that waited for it without success.
    pub(super) failed: Vec<Invocation>,
    /// Why it never asked for work, if it did not.
    pub(super) start_failure: Option<FunctionError>,
    /// Start this environment in its place.
    pub(super) start: Option<u64>,
}

#[derive(Debug)]
struct Environment {
    began: Instant,
    ready: Option<Duration>,
    init_error: Option<FunctionError>,
    parked: Option<oneshot::Sender<Delivery>>,
    free_since: Instant,
    current: Option<Current>,
    used: bool,
    doomed: bool,
    kill: Arc<Notify>,
}

/// The environments and the queue of one function.
#[derive(Debug)]
pub(super) struct Pool {
    limit: usize,
    queue_length: usize,
    environments: HashMap<u64, Environment>,
    /// Free environments, the most recently used last.
    free: Vec<u64>,
    pending: VecDeque<Invocation>,
    last_id: u64,
    failed_starts: u32,
    start_after: Option<Instant>,
    last_failure: Option<FunctionError>,
    stopping: bool,
}

impl Pool {
    pub(super) fn new(limit: usize, queue_length: usize) -> Self {
        Self {
            limit,
            queue_length,
            environments: HashMap::new(),
            free: Vec::new(),
            pending: VecDeque::new(),
            last_id: 0,
            failed_starts: 0,
            start_after: None,
            last_failure: None,
            stopping: false,
        }
    }

    /// Takes an event: to a free environment, or into the queue.
    pub(super) fn submit(&mut self, mut invocation: Invocation, now: Instant) -> Submitted {
        if self.stopping || self.limit == 0 {
            return Submitted::Throttled;
        }
        while let Some(id) = self.free.pop() {
            let Some(environment) = self.environments.get_mut(&id) else {
                continue;
            };
            let Some(parked) = environment.parked.take() else {
                continue;
            };
            let delivery = Delivery { request_id: Arc::clone(&invocation.request_id), payload: invocation.payload };
            match parked.send(delivery) {
                Ok(()) => {
                    environment.begin(invocation.request_id, invocation.answer, now);
                    return Submitted::Started;
                }
                // Its connection is gone: it will ask again, or its process has ended.
                Err(delivery) => invocation.payload = delivery.payload,
            }
        }
        if self.pending.len() >= self.queue_length {
            return Submitted::Throttled;
        }
        if let (true, Some(failure), Some(after)) = (self.environments.is_empty(), &self.last_failure, self.start_after)
            && now < after
        {
            return Submitted::Broken(failure.clone());
        }
        self.pending.push_back(invocation);
        Submitted::Queued { start: self.reserve(now) }
    }

    /// The id of an environment to start now, if more events wait than environments are about to ask for work.
    fn reserve(&mut self, now: Instant) -> Option<u64> {
        let coming = self.environments.values().filter(|environment| environment.is_coming()).count();
        let too_early = self.start_after.is_some_and(|after| now < after);
        if self.stopping || too_early || coming >= self.pending.len() || self.environments.len() >= self.limit {
            return None;
        }
        self.last_id += 1;
        self.environments.insert(self.last_id, Environment::new(now));
        Some(self.last_id)
    }

    /// The signal that ends an environment's process.
    pub(super) fn kill_signal(&self, id: u64) -> Option<Arc<Notify>> {
        self.environments.get(&id).map(|environment| Arc::clone(&environment.kill))
    }

    /// An environment asks for work. The second value is an invocation that it had and did not answer.
    pub(super) fn next(&mut self, id: u64, now: Instant) -> (Next, Option<Current>) {
        let Some(environment) = self.environments.get_mut(&id) else {
            return (Next::Gone, None);
        };
        if environment.ready.is_none() {
            environment.ready = Some(now.saturating_duration_since(environment.began));
            self.failed_starts = 0;
            self.start_after = None;
            self.last_failure = None;
        }
        let unanswered = environment.current.take();
        if environment.doomed {
            return (Next::Gone, unanswered);
        }
        while let Some(invocation) = self.pending.pop_front() {
            // A caller that has gone away is not worth an invocation that has not begun.
            if invocation.answer.is_closed() {
                continue;
            }
            environment.begin(Arc::clone(&invocation.request_id), invocation.answer, now);
            let delivery = Delivery { request_id: invocation.request_id, payload: invocation.payload };
            return (Next::Run(delivery), unanswered);
        }
        let (sender, receiver) = oneshot::channel();
        environment.parked = Some(sender);
        environment.free_since = now;
        self.free.retain(|free| *free != id);
        self.free.push(id);
        (Next::Park(receiver), unanswered)
    }

    /// An environment's invocation is answered: exactly one caller gets it, and only by its own request id.
    pub(super) fn finish(&mut self, id: u64, request_id: &str) -> Option<Current> {
        let environment = self.environments.get_mut(&id)?;
        environment.current.take_if(|current| &*current.request_id == request_id)
    }

    /// Why an environment says that it cannot start.
    pub(super) fn init_error(&mut self, id: u64, error: FunctionError) {
        if let Some(environment) = self.environments.get_mut(&id) {
            environment.init_error = Some(error);
            environment.kill.notify_one();
        }
    }

    /// Whether the environment has ever asked for work.
    pub(super) fn is_ready(&self, id: u64) -> bool {
        self.environments.get(&id).is_some_and(|environment| environment.ready.is_some())
    }

    /// Takes an invocation away from its environment when it has run for `timeout`. An environment that is idle now
    /// cannot have an overdue invocation before a whole `timeout` has passed: that is when to look again.
    pub(super) fn deadline(&mut self, id: u64, timeout: Duration, now: Instant) -> Deadline {
        let Some(environment) = self.environments.get_mut(&id) else {
            return Deadline::LookAgainAt(now + timeout);
        };
        if let Some(current) = environment.current.take_if(|current| current.started + timeout <= now) {
            environment.doomed = true;
            return Deadline::Expired(current);
        }
        let from = environment.current.as_ref().map_or(now, |current| current.started);
        Deadline::LookAgainAt(from + timeout)
    }

    /// Takes back an event that still waits; false if an environment already has it.
    pub(super) fn withdraw(&mut self, request_id: &str) -> bool {
        let before = self.pending.len();
        self.pending.retain(|invocation| &*invocation.request_id != request_id);
        self.pending.len() < before
    }

    /// An environment's process is gone, for the reason given.
    pub(super) fn ended(&mut self, id: u64, reason: FunctionError, now: Instant) -> Ended {
        self.free.retain(|free| *free != id);
        let Some(environment) = self.environments.remove(&id) else {
            return Ended::default();
        };
        let mut ended = Ended { current: environment.current, ..Ended::default() };
        if environment.ready.is_none() && !self.stopping {
            let failure = environment.init_error.unwrap_or(reason);
            self.failed_starts = self.failed_starts.saturating_add(1);
            self.start_after = Some(now + backoff(self.failed_starts));
            self.last_failure = Some(failure.clone());
            ended.start_failure = Some(failure);
            if self.environments.is_empty() {
                ended.failed = self.pending.drain(..).collect();
            }
        }
        ended.start = self.reserve(now);
        ended
    }

    /// Stops the environments that have been free for longer than `idle_after`.
    pub(super) fn stop_idle(&mut self, idle_after: Duration, now: Instant) {
        let environments = &mut self.environments;
        self.free.retain(|id| {
            let Some(environment) = environments.get_mut(id) else {
                return false;
            };
            let keep = now.saturating_duration_since(environment.free_since) < idle_after;
            if !keep {
                environment.doomed = true;
                environment.kill.notify_one();
            }
            keep
        });
    }

    /// From now on nothing is accepted, and nothing new is started.
    pub(super) fn stop(&mut self) {
        self.stopping = true;
    }

    /// Invocations running or waiting.
    pub(super) fn in_flight(&self) -> usize {
        self.pending.len() + self.environments.values().filter(|environment| environment.current.is_some()).count()
    }

    /// Environments, starting ones included.
    pub(super) fn size(&self) -> usize {
        self.environments.len()
    }
}

impl Environment {
    fn new(now: Instant) -> Self {
        Self {
            began: now,
            ready: None,
            init_error: None,
            parked: None,
            free_since: now,
            current: None,
            used: false,
            doomed: false,
            kill: Arc::new(Notify::new()),
        }
    }

    /// Whether it will ask for work by itself: it is starting, or has answered and not yet come back.
    fn is_coming(&self) -> bool {
        self.current.is_none() && self.parked.is_none() && !self.doomed
    }

    fn begin(&mut self, request_id: Arc<str>, answer: oneshot::Sender<Outcome>, now: Instant) {
        let init = if self.used { None } else { self.ready };
        self.used = true;
        self.current = Some(Current { request_id, answer, started: now, init });
    }
}

fn backoff(failed_starts: u32) -> Duration {
    // Past a dozen doublings the longest wait has long been reached.
    let doublings = failed_starts.saturating_sub(1).min(12);
    BACKOFF_FIRST.saturating_mul(1 << doublings).min(BACKOFF_MOST)
}
