//! `payment-notify` as a Lambda function.

use lambda_http::{Error, service_fn};
use payment_notify::handle;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let app = &runtime::start().await?.app();
    lambda_http::run(service_fn(move |request| async move { Ok::<_, Error>(handle(app, request).await) })).await
}
