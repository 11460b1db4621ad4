//! `admin` as a Lambda function: settings, clients, run.

use admin::{App, Traffic, handle};
use lambda_http::{Error, service_fn};
use store::dead_letters::{DeadLetters, Queues};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let environment = runtime::start().await?;
    let queues = Queues {
        orders: environment.names.orders_queue_url.clone(),
        orders_dead: environment.required("ORDERS_DEAD_LETTER_URL")?,
        timeouts_dead: environment.required("TIMEOUT_DEAD_LETTER_URL")?,
        stream_dead: environment.required("STOCK_DEAD_LETTER_URL")?,
        push_dead: environment.required("PUSH_DEAD_LETTER_URL")?,
        reconcile_dead: environment.required("RECONCILE_DEAD_LETTER_URL")?,
    };
    let salt = environment.required("BUYER_SALT")?;
    let app = &App {
        dead_letters: Some(DeadLetters::new(&environment.config, queues)),
        traffic: Some(Traffic::new(&environment.config)),
        ..App::new(environment.store(), salt, runtime::system_clock(), runtime::system_random())
    };
    lambda_http::run(service_fn(move |request| async move { Ok::<_, Error>(handle(app, request).await) })).await
}
