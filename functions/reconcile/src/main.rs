//! `reconcile` as a Lambda function.

use lambda_runtime::{Error, LambdaEvent, service_fn};
use reconcile::handle;
use serde_json::Value;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let app = &runtime::start().await?.app();
    lambda_runtime::run(service_fn(move |_: LambdaEvent<Value>| handle(app))).await
}
