//! The smallest function behind an API that writes to DynamoDB. Its start time is the lower limit for every function of
//! this kind.

use aws_config::BehaviorVersion;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;
use lambda_http::{Body, Error, Request, Response, service_fn};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let client = &Client::new(&aws_config::load_defaults(BehaviorVersion::v2026_01_12()).await);
    let table = &std::env::var("STOCK_TABLE")?;
    lambda_http::run(service_fn(move |_: Request| async move {
        client
            .update_item()
            .table_name(table)
            .key("bucket", AttributeValue::S("minimal".to_owned()))
            .update_expression("ADD n :one")
            .expression_attribute_values(":one", AttributeValue::N("1".to_owned()))
            .send()
            .await?;
        Ok::<_, Error>(Response::new(Body::Empty))
    }))
    .await
}
