//! Runs a flow under every interruption: twice, stopped before and after each of its calls and run again, and with
//! each transient fault at each call. Every time it must end in the state that a single run leaves.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use local_cloud::wire::{Fault, Loss};

use crate::world::World;

/// Faults that the SDK retries by itself, so the flow must not notice them.
const TRANSIENT: [Fault; 5] = [
    Fault::NotApplied(Loss::Io),
    Fault::AppliedButLost(Loss::Io),
    Fault::AppliedButServerError,
    Fault::Throttled,
    Fault::ServerError,
];

/// Runs `flow` once in a world prepared by `given`, and then, each time in a new world: twice; stopped before and
/// after each call and run again; and with each transient fault at each call. Every time the final state must be the
/// same.
pub async fn holds_everywhere<T>(given: impl AsyncFn(&World) -> T, flow: impl AsyncFn(&World, &T)) {
    let (world, subject) = prepared(&given).await;
    world.wire.forget_calls();
    flow(&world, &subject).await;
    let calls = u64::try_from(world.wire.calls().len()).unwrap();
    assert!(calls > 0, "the flow makes no calls");
    world.settle_down().await;
    let once = world.state().await;

    let (world, subject) = prepared(&given).await;
    flow(&world, &subject).await;
    flow(&world, &subject).await;
    world.settle_down().await;
    assert_eq!(world.state().await, once, "the state after two runs differs");

    for number in 1..=calls {
        for stop in [Fault::Stops, Fault::AppliedThenStops] {
            let (world, subject) = prepared(&given).await;
            assert!(
                stopped(&world, number, stop, flow(&world, &subject)).await,
                "the flow ended before call {number} of {calls}"
            );
            world.clear_faults();
            flow(&world, &subject).await;
            world.settle_down().await;
            assert_eq!(world.state().await, once, "the state differs after {stop:?} at call {number} and a second run");
        }
        for fault in TRANSIENT {
            let (world, subject) = prepared(&given).await;
            at_call(&world, number, fault);
            flow(&world, &subject).await;
            world.clear_faults();
            world.settle_down().await;
            assert_eq!(world.state().await, once, "the state differs after {fault:?} at call {number}");
        }
    }
}

async fn prepared<T>(given: &impl AsyncFn(&World) -> T) -> (World, T) {
    let world = World::new().await;
    let subject = given(&world).await;
    (world, subject)
}

/// Lets the `number`th call from now on fail with `fault`, once.
pub fn at_call(world: &World, number: u64, fault: Fault) {
    let made = Arc::new(AtomicU64::new(0));
    world.fault(move |_| if made.fetch_add(1, Ordering::SeqCst) + 1 == number { fault } else { Fault::None });
}

/// Runs `flow` until its `number`th call stops it, as a crash would. Returns false if the flow ended before that.
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
