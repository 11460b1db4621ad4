//! `admin` as a Lambda function: settings, clients, run.

use admin::{App, Traffic, handle};
use lambda_http::{Error, service_fn};
use store::dead_letters::{DeadLetters, Queues};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let environment = runtime::start().await?;
    let queues = Queues {
        orders_queue: environment.names.orders_queue_url.clone(),
        orders_dead_letters: environment.required("ORDERS_DEAD_LETTERS_URL")?,
        timeout_dead_letters: environment.required("TIMEOUT_DEAD_LETTERS_URL")?,
        stock_stream_dead_letters: environment.required("STOCK_STREAM_DEAD_LETTERS_URL")?,
        push_dead_letters: environment.required("PUSH_DEAD_LETTERS_URL")?,
        reconcile_dead_letters: environment.required("RECONCILE_DEAD_LETTERS_URL")?,
    };
    let salt = environment.required("BUYER_SALT")?;
    let app = &App {
        dead_letters: Some(DeadLetters::new(&environment.config, queues)),
        traffic: Some(Traffic::new(&environment.config)),
        ..App::new(environment.store(), salt, runtime::system_clock(), runtime::system_random())
    };
    lambda_http::run(service_fn(move |request| async move { Ok::<_, Error>(handle(app, request).await) })).await
}
