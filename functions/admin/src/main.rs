//! `admin` as a Lambda function: settings, clients, run.

use std::sync::Arc;

use admin::{App, Traffic, handle};
use lambda_http::{Error, service_fn};
use store::dead_letters::{DeadLetters, Queues};
use store::{MissingSetting, Names, Store, sdk_config};

#[tokio::main(flavor = "current_thread")]
#[expect(clippy::disallowed_methods, reason = "the function's clock is the machine's")]
async fn main() -> Result<(), Error> {
    telemetry::init();
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let names = Names::from_env(variable).map_err(|missing| missing.to_string())?;
    let salt = variable("BUYER_SALT").ok_or_else(|| MissingSetting("BUYER_SALT").to_string())?;
    let config = sdk_config().await;
    let store = Store::new(&config, names.clone());
    let clock = Arc::new(jiff::Timestamp::now);
    // Without randomness, which a machine always has, two sales of one millisecond would have one id: the second is refused.
    let random = Arc::new(|| getrandom::u32().unwrap_or_default());
    let required = |name: &'static str| variable(name).ok_or_else(|| MissingSetting(name).to_string());
    let queues = Queues {
        orders: names.orders_queue_url,
        orders_dead: required("ORDERS_DEAD_LETTER_URL")?,
        timeouts_dead: required("TIMEOUT_DEAD_LETTER_URL")?,
        stream_dead: required("STOCK_DEAD_LETTER_URL")?,
        push_dead: required("PUSH_DEAD_LETTER_URL")?,
        reconcile_dead: required("RECONCILE_DEAD_LETTER_URL")?,
    };
    let dead_letters = Some(DeadLetters::new(&config, queues));
    let app = &App { dead_letters, traffic: Some(Traffic::new(&config)), ..App::new(store, salt, clock, random) };
    lambda_http::run(service_fn(move |request| async move { Ok::<_, Error>(handle(app, request).await) })).await
}
