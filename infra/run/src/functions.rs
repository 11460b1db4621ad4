//! This product's functions, linked into the program: the same `App`s and handlers that their `main.rs` runs.

use std::sync::Arc;

use lambda_http::{Body, Request, Response};
use local_cloud::in_process::{Linked, Registry, Setup, StartFailed};
use runtime::Environment;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use telemetry::Sink;

/// The functions by the names of their binaries.
pub(crate) fn registry() -> Registry {
    Registry::default()
        .with("seckill", |setup| {
            let app = seckill::App::start(&environment(setup)?)?;
            Ok(requests(app, |app, request| async move { seckill::handle(&app, request).await }))
        })
        .with("shop", |setup| {
            let app = shop::App::start(&environment(setup)?)?;
            Ok(requests(app, |app, request| async move { shop::handle(&app, request).await }))
        })
        .with("admin", |setup| {
            let app = admin::App::start(&environment(setup)?)?;
            Ok(requests(app, |app, request| async move { admin::handle(&app, request).await }))
        })
        .with("payment-notify", |setup| {
            let app = environment(setup)?.app();
            Ok(requests(app, |app, request| async move { payment_notify::handle(&app, request).await }))
        })
        .with("order-consumer", |setup| {
            let app = order_consumer::App::start(&environment(setup)?)?;
            Ok(events(app, |app, event| async move { Ok::<_, String>(order_consumer::handle(&app, event).await) }))
        })
        .with("availability", |setup| {
            let app = availability::App::start(&environment(setup)?);
            Ok(events(app, |app, event| async move { Ok::<_, String>(availability::handle(&app, event).await) }))
        })
        .with("push", |setup| {
            let app = push::App::start(&environment(setup)?);
            Ok(events(app, |app, event: Value| async move { push::handle(&app, event).await }))
        })
        .with("timeout-check", |setup| {
            let app = environment(setup)?.app();
            Ok(events(app, |app, event: Value| async move { timeout_check::handle(&app, event).await }))
        })
        .with("reconcile", |setup| {
            let app = environment(setup)?.app();
            Ok(events(app, |app, _: Value| async move { reconcile::handle(&app).await }))
        })
}

fn environment(setup: Setup) -> Result<Environment, StartFailed> {
    let Setup { variables, config, log } = setup;
    if let Some(namespace) = variables.get("METRICS_NAMESPACE") {
        telemetry::set_namespace(namespace.clone());
    }
    let config = config.into_builder().timeout_config(store::timeouts()).build();
    Environment::new(move |name| variables.get(name).cloned(), config, Sink::to(move |line| log(line)))
}

fn requests<A, F>(app: A, answer: impl Fn(Arc<A>, Request) -> F + Send + Sync + 'static) -> Linked
where
    A: Send + Sync + 'static,
    F: Future<Output = Response<Body>> + Send + 'static,
{
    let app = Arc::new(app);
    Linked::requests(move |request| answer(Arc::clone(&app), request))
}

fn events<A, E, R, X, F>(app: A, answer: impl Fn(Arc<A>, E) -> F + Send + Sync + 'static) -> Linked
where
    A: Send + Sync + 'static,
    E: DeserializeOwned,
    R: Serialize,
    X: std::fmt::Display,
    F: Future<Output = Result<R, X>> + Send + 'static,
{
    let app = Arc::new(app);
    Linked::events(move |event| answer(Arc::clone(&app), event))
}
