//! `order-consumer` as a Lambda function.

use aws_lambda_events::sqs::SqsEvent;
use lambda_runtime::{Error, LambdaEvent, service_fn};
use order_consumer::{App, handle};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let app = &App::start(&runtime::start().await?)?;
    let answer = move |event: LambdaEvent<SqsEvent>| async move { Ok::<_, Error>(handle(app, event.payload).await) };
    lambda_runtime::run(service_fn(answer)).await
}
