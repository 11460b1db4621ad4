//! `order-consumer` as a Lambda function: settings, clients, run.

use aws_lambda_events::sqs::SqsEvent;
use lambda_runtime::{Error, LambdaEvent, service_fn};
use order_consumer::{App, check, handle};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let environment = runtime::start().await?;
    check(&environment.names).map_err(|missing| missing.to_string())?;
    let app = &App::new(environment.store(), runtime::system_clock());
    let answer = move |event: LambdaEvent<SqsEvent>| async move { Ok::<_, Error>(handle(app, event.payload).await) };
    lambda_runtime::run(service_fn(answer)).await
}
