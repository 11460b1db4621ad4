//! Operations per second of DynamoDB, SQS and Scheduler, through the real SDK.

use std::time::Duration;

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_credential_types::Credentials;
use aws_credential_types::provider::SharedCredentialsProvider;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, AttributeValue, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType,
};
use aws_sdk_scheduler::types::{FlexibleTimeWindow, FlexibleTimeWindowMode, Target};
use local_cloud::clock::Clock;
use local_cloud::endpoint::Endpoint;
use local_cloud::engine::Cloud;
use local_cloud::wire::Wire;

use crate::closed_loop::closed_loop;
use crate::report::Section;
use crate::{Options, Problem};

const CLIENTS: u32 = 64;
/// How many keys the conditional updates are spread over: about as many as 10,000 units have buckets.
const KEYS: u64 = 417;
const TABLE: &str = "stock";

pub(crate) async fn measure(options: &Options) -> Result<Section, Problem> {
    let lasting = Duration::from_secs(options.seconds);
    let mut section = Section::new(format!("Engines through the AWS SDK, {CLIENTS} clients at a time"));

    let cloud = Cloud::in_memory(Clock::wall())?;
    operations(&mut section, "in process, in memory", &Wire::new(cloud).sdk_config(), lasting).await?;

    let directory = tempfile::tempdir()?;
    let cloud = Cloud::open(directory.path(), Clock::wall())?;
    operations(&mut section, "in process, on a file", &Wire::new(cloud).sdk_config(), lasting).await?;

    let directory = tempfile::tempdir()?;
    let endpoint = Endpoint::start(Cloud::open(directory.path(), Clock::wall())?, 0, None).await?;
    operations(&mut section, "over HTTP, on a file", &over_http(&endpoint.url()), lasting).await?;
    endpoint.stop().await;
    Ok(section)
}

fn over_http(url: &str) -> SdkConfig {
    let credentials = Credentials::new("bench", "local", None, None, "bench");
    SdkConfig::builder()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .region(Region::from_static(local_cloud::REGION))
        .credentials_provider(SharedCredentialsProvider::new(credentials))
        .endpoint_url(url)
        .build()
}

async fn operations(section: &mut Section, place: &str, config: &SdkConfig, lasting: Duration) -> Result<(), Problem> {
    eprintln!("  engines {place} …");
    let updates = updates(config, lasting).await?;
    section.add(format!("conditional UpdateItem, {place}"), updates.per_second, "/s");
    section.add(format!("… of which 99 % within, {place}"), updates.latency.percentile_ms(99.0), "ms");
    let messages = messages(config, lasting).await?;
    section.add(format!("Send + Receive + DeleteMessage, {place}"), messages.per_second, "messages/s");
    let schedules = schedules(config, lasting).await?;
    section.add(format!("CreateSchedule, {place}"), schedules.per_second, "/s");
    Ok(())
}

fn bucket(number: u64) -> AttributeValue {
    AttributeValue::S(format!("bucket-{}", number % KEYS))
}

async fn updates(config: &SdkConfig, lasting: Duration) -> Result<crate::closed_loop::Throughput, Problem> {
    let client = aws_sdk_dynamodb::Client::new(config);
    let key = KeySchemaElement::builder().attribute_name("pk").key_type(KeyType::Hash).build()?;
    let attribute =
        AttributeDefinition::builder().attribute_name("pk").attribute_type(ScalarAttributeType::S).build()?;
    let table = client.create_table().table_name(TABLE).key_schema(key).attribute_definitions(attribute);
    table.billing_mode(BillingMode::PayPerRequest).send().await?;
    for number in 0..KEYS {
        let item = client.put_item().table_name(TABLE).item("pk", bucket(number));
        item.item("free", AttributeValue::N("1000000000".to_owned())).send().await?;
    }
    closed_loop(CLIENTS, lasting, move |number| {
        let update = client
            .update_item()
            .table_name(TABLE)
            .key("pk", bucket(number))
            .update_expression("SET #free = #free - :one")
            .condition_expression("#free >= :one")
            .expression_attribute_names("#free", "free")
            .expression_attribute_values(":one", AttributeValue::N("1".to_owned()));
        async move {
            update.send().await?;
            Ok(())
        }
    })
    .await
}

async fn messages(config: &SdkConfig, lasting: Duration) -> Result<crate::closed_loop::Throughput, Problem> {
    let client = aws_sdk_sqs::Client::new(config);
    let url = client.create_queue().queue_name("orders").send().await?.queue_url.ok_or("the queue has no URL")?;
    closed_loop(CLIENTS, lasting, move |number| {
        let (client, url) = (client.clone(), url.clone());
        async move {
            client.send_message().queue_url(&url).message_body(format!("order {number}")).send().await?;
            // Each client has sent as many messages as it receives, so there is always one for it, perhaps of another
            // client. That one may arrive a moment after this call has started, hence the wait.
            let received = client.receive_message().queue_url(&url).wait_time_seconds(5).send().await?;
            let message = received.messages.and_then(|mut messages| messages.pop());
            let handle =
                message.and_then(|message| message.receipt_handle).ok_or("a message that was sent was not received")?;
            client.delete_message().queue_url(&url).receipt_handle(handle).send().await?;
            Ok(())
        }
    })
    .await
}

async fn schedules(config: &SdkConfig, lasting: Duration) -> Result<crate::closed_loop::Throughput, Problem> {
    let client = aws_sdk_scheduler::Client::new(config);
    let (region, account) = (local_cloud::REGION, local_cloud::ACCOUNT);
    let target = Target::builder()
        .arn(format!("arn:aws:sqs:{region}:{account}:orders"))
        .role_arn(format!("arn:aws:iam::{account}:role/scheduler"))
        .build()?;
    let window = FlexibleTimeWindow::builder().mode(FlexibleTimeWindowMode::Off).build()?;
    closed_loop(CLIENTS, lasting, move |number| {
        let schedule = client
            .create_schedule()
            .name(format!("order-{number}"))
            .schedule_expression("at(2099-11-11T00:00:00)")
            .flexible_time_window(window.clone())
            .target(target.clone());
        async move {
            schedule.send().await?;
            Ok(())
        }
    })
    .await
}
