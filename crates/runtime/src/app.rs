//! What a function keeps that runs flows with payment providers.

use domain::Timestamp;
use flows::Context;
use providers::Providers;
use store::Store;
use telemetry::Sink;

use crate::Clock;

/// The store, the payment providers, the clock, and where metrics go.
pub struct App {
    pub store: Store,
    pub providers: Providers,
    pub clock: Clock,
    pub metrics: Sink,
}

impl App {
    /// A function that has just started; its metrics go to stdout.
    pub fn new(store: Store, providers: Providers, clock: Clock) -> Self {
        Self { store, providers, clock, metrics: Sink::stdout() }
    }

    /// What a flow needs, at this time.
    pub fn context(&self, now: Timestamp) -> Context<'_> {
        Context::new(&self.store, &self.providers, now)
    }
}
