//! `shop` as a Lambda function: settings, clients, run.

use lambda_http::{Error, service_fn};
use shop::{App, handle};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let environment = runtime::start().await?;
    let (store, providers, salt) = (environment.store(), environment.providers(), environment.required("BUYER_SALT")?);
    let app = &App::new(store, providers, salt, environment.optional("PUBLIC_URL"), runtime::system_clock());
    lambda_http::run(service_fn(move |request| async move { Ok::<_, Error>(handle(app, request).await) })).await
}
