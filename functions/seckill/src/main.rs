//! `seckill` as a Lambda function: settings, clients, run.

use lambda_http::{Error, service_fn};
use seckill::{App, REQUEST_TIMEOUT, handle};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let environment = runtime::start().await?;
    let salt = environment.required("BUYER_SALT")?;
    let app = &App {
        timeout: Some(REQUEST_TIMEOUT),
        ..App::new(environment.store(), salt, runtime::system_clock(), runtime::system_random())
    };
    lambda_http::run(service_fn(move |request| async move { Ok::<_, Error>(handle(app, request).await) })).await
}
