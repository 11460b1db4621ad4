//! The permission check on the SDK's own requests, over HTTP.

use std::collections::BTreeMap;
use std::sync::Arc;

use local_cloud::iam::{Policies, access_key_id};

/// The SDK of a function of the fixture template, against the engines behind the check.
async fn sdk(endpoint: &local_cloud::endpoint::Endpoint, key: &str) -> aws_config::SdkConfig {
    aws_config::SdkConfig::builder()
        .behavior_version(aws_config::BehaviorVersion::latest())
        .region(aws_config::Region::new("us-east-1"))
        .endpoint_url(endpoint.url())
        .credentials_provider(aws_credential_types::provider::SharedCredentialsProvider::new(
            aws_credential_types::Credentials::new(key, "secret", None, None, "test"),
        ))
        .build()
}

#[tokio::test]
async fn the_sdks_own_requests_are_understood() {
    use aws_sdk_dynamodb::error::ProvideErrorMetadata;
    use aws_sdk_dynamodb::types::AttributeValue;
    use aws_sdk_scheduler::types::{FlexibleTimeWindow, FlexibleTimeWindowMode, Target};

    // Given the engines of a template, behind its policies
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../template/tests/everything.yaml");
    let stack = local_cloud::template::read(&path, &BTreeMap::new()).expect("a good template");
    let cloud = local_cloud::engine::Cloud::in_memory(local_cloud::clock::Clock::driven(0)).expect("engines");
    cloud.provision(&stack).await.expect("provisioned");
    let policies = Arc::new(Policies::from_stack(&stack));
    let endpoint =
        local_cloud::endpoint::Endpoint::start(cloud, 0, Some(policies.authorizer())).await.expect("an endpoint");
    let buy = stack.functions.iter().find(|function| function.logical_id == "Buy").expect("Buy");
    let config = sdk(&endpoint, &access_key_id(&buy.name)).await;

    // When the function reads a table that it may read: yes; writes it: no
    let tables = aws_sdk_dynamodb::Client::new(&config);
    let orders = &buy.environment["ORDERS"];
    tables.get_item().table_name(orders).key("order", AttributeValue::S("1".to_owned())).send().await.expect("allowed");
    let put = tables.put_item().table_name(orders).item("order", AttributeValue::S("1".to_owned())).send().await;
    assert_eq!(put.expect_err("refused").code(), Some("AccessDeniedException"));

    // When it sends to the queue by the URL in its environment, whose host does not exist: yes
    let queues = aws_sdk_sqs::Client::new(&config);
    queues.send_message().queue_url(&buy.environment["QUEUE_URL"]).message_body("x").send().await.expect("allowed");
    let elsewhere =
        queues.send_message().queue_url("http://x/000000000000/local-DeadLetters").message_body("x").send().await;
    elsewhere.expect_err("refused");

    // When it makes a schedule in its group: yes; in another: no
    let schedules = aws_sdk_scheduler::Client::new(&config);
    let create = |group: &str| {
        let target = Target::builder()
            .arn(&buy.arn)
            .role_arn("arn:aws:iam::000000000000:role/scheduler")
            .build()
            .expect("a target");
        let window = FlexibleTimeWindow::builder().mode(FlexibleTimeWindowMode::Off).build().expect("a window");
        let call = schedules
            .create_schedule()
            .name("order-1")
            .group_name(group)
            .schedule_expression("at(2030-01-01T00:00:00)");
        call.target(target).flexible_time_window(window).send()
    };
    create("local-group").await.expect("allowed");
    create("default").await.expect_err("refused");

    // Then what it used is known
    let used: Vec<String> = policies.used().into_iter().map(|used| used.action).collect();
    assert_eq!(used, ["sqs:SendMessage", "dynamodb:GetItem", "scheduler:CreateSchedule", "iam:PassRole"]);
    endpoint.stop().await;
}
