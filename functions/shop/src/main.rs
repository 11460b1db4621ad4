//! `shop` as a Lambda function: settings, clients, run.

use std::sync::Arc;

use lambda_http::{Error, service_fn};
use providers::Providers;
use shop::{App, handle};
use store::{MissingSetting, Names, Store, sdk_config};

#[tokio::main(flavor = "current_thread")]
#[expect(clippy::disallowed_methods, reason = "the function's clock is the machine's")]
async fn main() -> Result<(), Error> {
    telemetry::init();
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let names = Names::from_env(variable).map_err(|missing| missing.to_string())?;
    let salt = variable("BUYER_SALT").ok_or_else(|| MissingSetting("BUYER_SALT").to_string())?;
    let config = sdk_config().await;
    let providers = Providers::from_env(&config, |name| std::env::var(name).ok());
    let clock = Arc::new(jiff::Timestamp::now);
    let app = &App::new(Store::new(&config, names), providers, salt, variable("PUBLIC_URL"), clock);
    lambda_http::run(service_fn(move |request| async move { Ok::<_, Error>(handle(app, request).await) })).await
}
