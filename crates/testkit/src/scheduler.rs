//! Holds back every call of every actor until a test or the simulation lets it proceed, with or without a fault.
//!
//! An actor is one running flow or handler. The test polls its future by hand, and announces it with [`set_actor`]
//! before each poll, so the actor of every call is known.

use std::cell::Cell;
use std::sync::{Arc, Mutex};

use futures::channel::oneshot;
use local_cloud::wire::{Call, Fault, Wire};

thread_local! {
    static ACTOR: Cell<u64> = const { Cell::new(0) };
}

/// Says which actor is polled from now on. Calls of actor 0 are the test's own: they happen at once and without
/// faults.
pub fn set_actor(actor: u64) {
    ACTOR.set(actor);
}

/// A call that is held back.
pub struct PendingCall {
    pub actor: u64,
    pub call: Call,
    proceed: oneshot::Sender<Fault>,
}

impl PendingCall {
    pub fn proceed(self, fault: Fault) {
        // The actor may have been dropped; then nobody waits for the call.
        let _ = self.proceed.send(fault);
    }
}

/// The calls that are held back, in the order in which they were made.
#[derive(Clone, Default)]
pub struct CallScheduler(Arc<Mutex<Vec<PendingCall>>>);

impl CallScheduler {
    /// A wire on which every actor's calls are held back.
    pub fn on(&self, wire: Wire) -> Wire {
        let pending = self.0.clone();
        wire.with_turns(move |call| {
            let actor = ACTOR.get();
            if actor == 0 {
                return Box::pin(std::future::ready(Fault::None));
            }
            let (proceed, proceeds) = oneshot::channel();
            pending.lock().unwrap().push(PendingCall { actor, call: call.clone(), proceed });
            Box::pin(async move { proceeds.await.unwrap_or(Fault::Stops) })
        })
    }

    /// The actors of the pending calls, once for each call.
    pub fn actors(&self) -> Vec<u64> {
        self.0.lock().unwrap().iter().map(|pending| pending.actor).collect()
    }

    /// Takes one of an actor's pending calls; `nth` counts modulo their number.
    pub fn take_nth_of(&self, actor: u64, nth: usize) -> Option<PendingCall> {
        let mut pending = self.0.lock().unwrap();
        let places: Vec<usize> = (0..pending.len()).filter(|place| pending[*place].actor == actor).collect();
        let place = places.get(nth.checked_rem(places.len())?)?;
        Some(pending.remove(*place))
    }

    /// Takes an actor's first pending call.
    pub fn take_of(&self, actor: u64) -> Option<PendingCall> {
        self.take_nth_of(actor, 0)
    }

    /// Drops the pending calls of an actor that has crashed.
    pub fn forget(&self, actor: u64) {
        self.0.lock().unwrap().retain(|pending| pending.actor != actor);
    }

    pub fn is_waiting(&self, actor: u64) -> bool {
        self.0.lock().unwrap().iter().any(|pending| pending.actor == actor)
    }
}
