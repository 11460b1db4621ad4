//! `push` as a Lambda function.

use lambda_runtime::{Error, LambdaEvent, service_fn};
use push::{App, handle};
use serde_json::Value;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let app = &App::start(&runtime::start().await?);
    let answer = move |event: LambdaEvent<Value>| async move { Ok::<_, Error>(handle(app, event.payload).await?) };
    lambda_runtime::run(service_fn(answer)).await
}
