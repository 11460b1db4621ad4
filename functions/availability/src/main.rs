//! `availability` as a Lambda function: settings, clients, run.

use availability::{App, handle};
use aws_lambda_events::dynamodb::Event;
use lambda_runtime::{Error, LambdaEvent, service_fn};
use store::{Names, Store, sdk_config};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    telemetry::init();
    let names = Names::from_env(|name| std::env::var(name).ok()).map_err(|missing| missing.to_string())?;
    let app = &App::new(Store::new(&sdk_config().await, names));
    let answer = move |event: LambdaEvent<Event>| async move { Ok::<_, Error>(handle(app, event.payload).await) };
    lambda_runtime::run(service_fn(answer)).await
}
