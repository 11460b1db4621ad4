//! `shop` as a Lambda function.

use lambda_http::{Error, service_fn};
use shop::{App, handle};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let app = &App::start(&runtime::start().await?)?;
    // Before the first request, so that none waits for it.
    app.salt.read().await?;
    lambda_http::run(service_fn(move |request| async move { Ok::<_, Error>(handle(app, request).await) })).await
}
