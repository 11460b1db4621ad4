//! `availability` as a Lambda function.

use availability::{App, handle};
use aws_lambda_events::dynamodb::Event;
use lambda_runtime::{Error, LambdaEvent, service_fn};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let app = &App::start(&runtime::start().await?);
    let answer = move |event: LambdaEvent<Event>| async move { Ok::<_, Error>(handle(app, event.payload).await) };
    lambda_runtime::run(service_fn(answer)).await
}
