//! `payment-notify` as a Lambda function: settings, clients, run.

use std::sync::Arc;

use lambda_http::{Error, service_fn};
use payment_notify::{App, handle};
use providers::Providers;
use store::{Names, Store, sdk_config};

#[tokio::main(flavor = "current_thread")]
#[expect(clippy::disallowed_methods, reason = "the function's clock is the machine's")]
async fn main() -> Result<(), Error> {
    telemetry::init();
    let names = Names::from_env(|name| std::env::var(name).ok()).map_err(|missing| missing.to_string())?;
    let config = sdk_config().await;
    let providers = Providers::from_env(&config, |name| std::env::var(name).ok());
    let app = &App::new(Store::new(&config, names), providers, Arc::new(jiff::Timestamp::now));
    lambda_http::run(service_fn(move |request| async move { Ok::<_, Error>(handle(app, request).await) })).await
}
