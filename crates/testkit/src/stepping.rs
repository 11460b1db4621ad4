//! Two helpers over every flow: run it twice, and stop it after (and before) each of its calls and run it again. Either way it must end as if it
//! had run once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use local_cloud::wire::{Fault, Loss};

use crate::world::World;

/// Faults that the SDK's own retry gets over: the flow must not even notice.
const PASSING: [Fault; 5] = [
    Fault::NotApplied(Loss::Io),
    Fault::AppliedButLost(Loss::Io),
    Fault::AppliedButServerError,
    Fault::Throttled,
    Fault::ServerError,
];

/// Runs `flow` once in a world prepared by `given`; then, each in a world of its own, twice; stopped before and after
/// each call and run again; and with each call meeting each passing fault. Every time it must end in the same state.
pub async fn holds_everywhere<T>(given: impl AsyncFn(&World) -> T, flow: impl AsyncFn(&World, &T)) {
    let (world, subject) = prepared(&given).await;
    world.wire.forget_calls();
    flow(&world, &subject).await;
    let calls = u64::try_from(world.wire.calls().len()).unwrap();
    assert!(calls > 0, "the flow makes no call at all");
    world.settle_down().await;
    let once = world.state().await;

    let (world, subject) = prepared(&given).await;
    flow(&world, &subject).await;
    flow(&world, &subject).await;
    world.settle_down().await;
    assert_eq!(world.state().await, once, "run twice");

    for number in 1..=calls {
        for stop in [Fault::Stops, Fault::AppliedThenStops] {
            let (world, subject) = prepared(&given).await;
            assert!(stopped(&world, number, stop, flow(&world, &subject)).await, "call {number} of {calls} is reached");
            world.mend();
            flow(&world, &subject).await;
            world.settle_down().await;
            assert_eq!(world.state().await, once, "{stop:?} at call {number}, then run again");
        }
        for fault in PASSING {
            let (world, subject) = prepared(&given).await;
            at_call(&world, number, fault);
            flow(&world, &subject).await;
            world.mend();
            world.settle_down().await;
            assert_eq!(world.state().await, once, "{fault:?} at call {number}");
        }
    }
}

async fn prepared<T>(given: &impl AsyncFn(&World) -> T) -> (World, T) {
    let world = World::new().await;
    let subject = given(&world).await;
    (world, subject)
}

/// From now on, the `number`th call meets `fault`, once.
pub fn at_call(world: &World, number: u64, fault: Fault) {
    let made = Arc::new(AtomicU64::new(0));
    world.fault(move |_| if made.fetch_add(1, Ordering::SeqCst) + 1 == number { fault } else { Fault::None });
}

/// Runs `flow` until its `number`th call stops it for good, as a crash would. False: it ended before that.
pub async fn stopped(world: &World, number: u64, stop: Fault, flow: impl Future) -> bool {
    at_call(world, number, stop);
    let mut flow = std::pin::pin!(flow);
    loop {
        tokio::select! {
            biased;
            _ = &mut flow => return false,
            () = tokio::task::yield_now() => {}
        }
        if world.wire.calls().iter().any(|call| call.fault == stop) {
            return true;
        }
    }
}
