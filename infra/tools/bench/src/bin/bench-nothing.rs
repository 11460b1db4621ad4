//! A function that does nothing, to measure what the gateway, the host and the runtime cost.

use lambda_http::{Body, Error, Request, Response, service_fn};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    lambda_http::run(service_fn(nothing)).await
}

async fn nothing(_: Request) -> Result<Response<Body>, Error> {
    Ok(Response::new(Body::Empty))
}
