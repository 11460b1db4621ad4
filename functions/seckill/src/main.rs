//! `seckill` as a Lambda function: settings, clients, run.

use std::sync::Arc;

use lambda_http::{Error, service_fn};
use seckill::{App, GIVE_UP_AFTER, handle};
use store::{MissingSetting, Names, Store, sdk_config};

#[tokio::main(flavor = "current_thread")]
#[expect(clippy::disallowed_methods, reason = "the function's clock is the machine's")]
async fn main() -> Result<(), Error> {
    telemetry::init();
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let names = Names::from_env(variable).map_err(|missing| missing.to_string())?;
    let salt = variable("BUYER_SALT").ok_or_else(|| MissingSetting("BUYER_SALT").to_string())?;
    let store = Store::new(&sdk_config().await, names);
    let clock = Arc::new(jiff::Timestamp::now);
    // Without randomness, which a machine always has, buyers would crowd at one bucket: slower, and still right.
    let random = Arc::new(|| getrandom::u32().unwrap_or_default());
    let app = &App { give_up_after: Some(GIVE_UP_AFTER), ..App::new(store, salt, clock, random) };
    lambda_http::run(service_fn(move |request| async move { Ok::<_, Error>(handle(app, request).await) })).await
}
