//! One owner for each database: calls take turns, and a call that returned has been committed.
//!
//! On the wall's clock the state lives on a thread of its own, so that SQLite never blocks the async runtime. On a
//! driven clock the call runs where it is awaited: an answer is there at the first poll, so a test's run is the same
//! every time and the SDK's timeouts (whose sleep returns at once on a driven clock) cannot fire by accident.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{mpsc, oneshot};

use crate::clock::Clock;

/// Callers past this many wait their turn outside the queue.
const WAITING: usize = 1024;

type Job<S> = Box<dyn FnOnce(&mut S) + Send>;

/// A handle to the one owner of `S`. Copies share it.
pub(crate) struct Worker<S>(Place<S>);

enum Place<S> {
    Thread(mpsc::Sender<Job<S>>),
    Here(Arc<Mutex<S>>),
}

impl<S> Clone for Worker<S> {
    fn clone(&self) -> Self {
        Self(match &self.0 {
            Place::Thread(jobs) => Place::Thread(jobs.clone()),
            Place::Here(state) => Place::Here(Arc::clone(state)),
        })
    }
}

/// The call panicked, or its owner is gone: nothing of it was answered.
#[derive(Debug, thiserror::Error)]
#[error("the engine stopped in the middle of this call")]
pub struct Stopped;

impl<S: Send + 'static> Worker<S> {
    /// Gives `state` an owner. `recover` puts it right after a call that panicked.
    pub(crate) fn start(name: &str, clock: &Clock, mut state: S, recover: fn(&mut S)) -> std::io::Result<Self> {
        if clock.is_driven() {
            return Ok(Self(Place::Here(Arc::new(Mutex::new(state)))));
        }
        let (jobs, mut waiting) = mpsc::channel::<Job<S>>(WAITING);
        std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            while let Some(job) = waiting.blocking_recv() {
                // A panic drops the answer's channel, which tells the caller; the next caller must still be served.
                if catch_unwind(AssertUnwindSafe(|| job(&mut state))).is_err() {
                    recover(&mut state);
                }
            }
        })?;
        Ok(Self(Place::Thread(jobs)))
    }

    /// Runs `call` on the state and gives its answer.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        call: impl FnOnce(&mut S) -> T + Send + 'static,
    ) -> Result<T, Stopped> {
        match &self.0 {
            Place::Here(state) => {
                let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
                Ok(call(&mut state))
            }
            Place::Thread(jobs) => {
                let (answer, answered) = oneshot::channel();
                let job: Job<S> = Box::new(move |state| {
                    // The caller may have gone away; what it asked for has been done all the same.
                    let _ = answer.send(call(state));
                });
                jobs.send(job).await.map_err(|_| Stopped)?;
                answered.await.map_err(|_| Stopped)
            }
        }
    }
}
