//! `admin` as a Lambda function: settings, clients, run.

use std::sync::Arc;

use admin::{App, handle};
use lambda_http::{Error, service_fn};
use store::{Names, Store, sdk_config};

#[tokio::main(flavor = "current_thread")]
#[expect(clippy::disallowed_methods, reason = "the function's clock is the machine's")]
async fn main() -> Result<(), Error> {
    telemetry::init();
    let names = Names::from_env(|name| std::env::var(name).ok()).map_err(|missing| missing.to_string())?;
    let store = Store::new(&sdk_config().await, names);
    let clock = Arc::new(jiff::Timestamp::now);
    // Without randomness, which a machine always has, two sales of one millisecond would have one id: the second is refused.
    let random = Arc::new(|| getrandom::u32().unwrap_or_default());
    let app = &App::new(store, clock, random);
    lambda_http::run(service_fn(move |request| async move { Ok::<_, Error>(handle(app, request).await) })).await
}
