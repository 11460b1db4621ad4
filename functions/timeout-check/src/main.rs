//! `timeout-check` as a Lambda function.

use lambda_runtime::{Error, LambdaEvent, service_fn};
use timeout_check::handle;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let app = &runtime::start().await?.app();
    lambda_runtime::run(service_fn(move |event: LambdaEvent<_>| handle(app, event.payload))).await
}
