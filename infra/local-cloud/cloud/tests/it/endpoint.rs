//! The endpoint: who may call, and how a refusal looks to the SDK.

use std::sync::Arc;

use aws_sdk_dynamodb::error::ProvideErrorMetadata as _;
use local_cloud::clock::Clock;
use local_cloud::endpoint::{Authorizer, Endpoint};
use local_cloud::engine::{Cloud, Service};
use local_cloud::iam::Denied;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::dynamodb::{make_table, text};
use crate::target::over_http;

async fn serve(authorizer: Option<Authorizer>) -> Endpoint {
    let cloud = Cloud::in_memory(Clock::wall()).expect("engines");
    Endpoint::start(cloud, 0, authorizer).await.expect("an endpoint")
}

/// `alice` may do anything, `bob` only read.
fn only_alice_writes() -> Authorizer {
    Arc::new(|who, request| {
        let (service, operation) = Service::of(request).expect("a known service");
        let reads = operation.starts_with("Get");
        if who == "alice" || (who == "bob" && reads) {
            return Ok(());
        }
        Err(Denied::NotAllowed {
            caller: who.to_owned(),
            action: format!("{}:{operation}", service.prefix()),
            resource: "arn:aws:any".to_owned(),
            explicit: false,
        })
    })
}

#[tokio::test]
async fn a_call_outside_the_policy_is_denied_in_each_services_own_words() {
    let endpoint = serve(Some(only_alice_writes())).await;
    let alice = over_http(&endpoint.url(), "alice");
    make_table(&aws_sdk_dynamodb::Client::new(&alice), "orders", false).await;
    aws_sdk_sqs::Client::new(&alice).create_queue().queue_name("orders").send().await.expect("a queue");

    let bob = over_http(&endpoint.url(), "bob");
    let dynamodb = aws_sdk_dynamodb::Client::new(&bob);
    dynamodb.get_item().table_name("orders").key("pk", text("x")).send().await.expect("reading is allowed");
    let denied = dynamodb.put_item().table_name("orders").item("pk", text("x")).send().await.expect_err("a refusal");
    assert_eq!(denied.code(), Some("AccessDeniedException"));
    assert_eq!(
        denied.message(),
        Some(
            "User: arn:aws:sts::000000000000:assumed-role/bob is not authorized to perform: dynamodb:PutItem on \
             resource: \
             arn:aws:any because no identity-based policy allows it"
        )
    );

    let sqs = aws_sdk_sqs::Client::new(&bob);
    let url =
        sqs.get_queue_url().queue_name("orders").send().await.expect("reading is allowed").queue_url.expect("a URL");
    let denied = sqs.send_message().queue_url(url).message_body("x").send().await.expect_err("a refusal");
    assert_eq!(aws_sdk_sqs::error::ProvideErrorMetadata::code(&denied), Some("AccessDeniedException"));

    let denied = aws_sdk_scheduler::Client::new(&bob).delete_schedule().name("s").send().await.expect_err("a refusal");
    assert_eq!(aws_sdk_scheduler::error::ProvideErrorMetadata::code(&denied), Some("AccessDeniedException"));
    endpoint.stop().await;
}

/// Sends bytes and gives the answer's first line.
async fn raw(endpoint: &Endpoint, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(endpoint.address()).await.expect("a connection");
    // The server may answer, and close, before it has read everything.
    let _ = stream.write_all(request).await;
    let mut answer = vec![0; 4_096];
    let length = stream.read(&mut answer).await.expect("an answer");
    String::from_utf8_lossy(&answer[..length]).into_owned()
}

#[tokio::test]
async fn a_call_that_nobody_signed_is_refused() {
    let endpoint = serve(Some(only_alice_writes())).await;
    let request =
        b"POST / HTTP/1.1\r\nhost: x\r\nx-amz-target: DynamoDB_20120810.ListTables\r\ncontent-length: 2\r\n\r\n{}";
    let answer = raw(&endpoint, request).await;
    assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
    assert!(answer.contains("MissingAuthenticationTokenException"), "{answer}");
    endpoint.stop().await;
}

#[tokio::test]
async fn a_body_past_the_limit_is_refused() {
    let endpoint = serve(None).await;
    let length = 18 * 1024 * 1024;
    let head =
        format!("POST / HTTP/1.1\r\nhost: x\r\nx-amz-target: AmazonSQS.ListQueues\r\ncontent-length: {length}\r\n\r\n");
    let mut request = head.into_bytes();
    request.resize(request.len() + length, b'x');
    let answer = raw(&endpoint, &request).await;
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    endpoint.stop().await;
}

#[tokio::test]
async fn what_is_for_no_service_is_refused() {
    let endpoint = serve(None).await;
    let answer = raw(&endpoint, b"GET /favicon.ico HTTP/1.1\r\nhost: x\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 400") && answer.contains("UnknownOperationException"), "{answer}");
    endpoint.stop().await;
}

#[tokio::test]
async fn a_long_poll_does_not_hold_up_a_stop() {
    let endpoint = serve(None).await;
    let sqs = aws_sdk_sqs::Client::new(&over_http(&endpoint.url(), "alice"));
    let url = sqs.create_queue().queue_name("orders").send().await.expect("a queue").queue_url.expect("a URL");
    let poll = tokio::spawn(sqs.receive_message().queue_url(url).wait_time_seconds(20).send());
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    let started = std::time::Instant::now();
    endpoint.stop().await;
    assert!(started.elapsed() < std::time::Duration::from_secs(5));
    poll.abort();
}
