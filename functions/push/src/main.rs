//! `push` as a Lambda function: settings, clients, run.

use std::sync::Arc;

use lambda_runtime::{Error, LambdaEvent, service_fn};
use push::{App, handle};
use serde_json::Value;
use store::{Names, Store, sdk_config};

#[tokio::main(flavor = "current_thread")]
#[expect(clippy::disallowed_methods, reason = "the function's clock is the machine's")]
async fn main() -> Result<(), Error> {
    telemetry::init();
    let names = Names::from_env(|name| std::env::var(name).ok()).map_err(|missing| missing.to_string())?;
    let config = sdk_config().await;
    let app = &App::new(Store::new(&config, names), &config, Arc::new(jiff::Timestamp::now));
    let answer = move |event: LambdaEvent<Value>| async move { Ok::<_, Error>(handle(app, event.payload).await?) };
    lambda_runtime::run(service_fn(answer)).await
}
