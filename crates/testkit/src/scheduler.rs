//! Turns: every call of every actor waits here until a test or the simulation lets it happen, with a fault or without.

use std::cell::Cell;
use std::sync::{Arc, Mutex};

use futures::channel::oneshot;
use local_cloud::wire::{Call, Fault, Wire};

thread_local! {
    /// The actor that is being polled.
    static ACTING: Cell<u64> = const { Cell::new(0) };
}

/// Who is being polled from now on. Calls of nobody (0) happen at once and without faults: they are the simulation's own.
pub fn act(actor: u64) {
    ACTING.set(actor);
}

/// A call that waits.
pub struct Waiting {
    pub actor: u64,
    pub call: Call,
    grant: oneshot::Sender<Fault>,
}

impl Waiting {
    pub fn grant(self, fault: Fault) {
        let _ = self.grant.send(fault);
    }
}

/// The calls that wait.
#[derive(Clone, Default)]
pub struct Turns(Arc<Mutex<Vec<Waiting>>>);

impl Turns {
    /// A wire on which every actor's call waits.
    pub fn on(&self, wire: Wire) -> Wire {
        let waiting = self.0.clone();
        wire.with_turns(move |call| {
            let actor = ACTING.get();
            if actor == 0 {
                return Box::pin(std::future::ready(Fault::None));
            }
            let (grant, granted) = oneshot::channel();
            waiting.lock().unwrap().push(Waiting { actor, call: call.clone(), grant });
            Box::pin(async move { granted.await.unwrap_or(Fault::Stops) })
        })
    }

    /// Who waits, once for each call.
    pub fn actors(&self) -> Vec<u64> {
        self.0.lock().unwrap().iter().map(|waiting| waiting.actor).collect()
    }

    /// One of the calls that an actor waits with; `nth` counts modulo their number.
    pub fn take_one_of(&self, actor: u64, nth: usize) -> Option<Waiting> {
        let mut waiting = self.0.lock().unwrap();
        let places: Vec<usize> = (0..waiting.len()).filter(|place| waiting[*place].actor == actor).collect();
        let place = places.get(nth.checked_rem(places.len())?)?;
        Some(waiting.remove(*place))
    }

    /// The call that an actor waits with.
    pub fn take_of(&self, actor: u64) -> Option<Waiting> {
        let mut waiting = self.0.lock().unwrap();
        let place = waiting.iter().position(|waiting| waiting.actor == actor)?;
        Some(waiting.remove(place))
    }

    /// Forgets the calls of an actor that is no more.
    pub fn forget(&self, actor: u64) {
        self.0.lock().unwrap().retain(|waiting| waiting.actor != actor);
    }

    pub fn is_waiting(&self, actor: u64) -> bool {
        self.0.lock().unwrap().iter().any(|waiting| waiting.actor == actor)
    }
}
