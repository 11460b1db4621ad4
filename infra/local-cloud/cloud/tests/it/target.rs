//! What the cases run against: the engines in this process on a driven clock, or whatever serves the URL in
//! `LOCAL_CLOUD_TARGET`, on the wall's.

use std::time::Duration;

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_credential_types::Credentials;
use aws_credential_types::provider::SharedCredentialsProvider;
use local_cloud::clock::Clock;
use local_cloud::engine::Cloud;
use local_cloud::engine::sqs::{Outgoing, Sqs};
use local_cloud::wire::Wire;

/// A moment for driven clocks to start at: 2026-11-16T12:00:00Z.
pub(crate) const START_MS: i64 = 1_794_830_400_000;

pub(crate) struct Target {
    pub(crate) sqs: aws_sdk_sqs::Client,
    pub(crate) scheduler: aws_sdk_scheduler::Client,
    clock: Clock,
    cloud: Option<Cloud>,
}

/// Engines in memory on a driven clock, and a wire to them.
pub(crate) fn driven() -> (Cloud, Wire) {
    let cloud = Cloud::in_memory(Clock::driven(START_MS)).expect("engines in memory");
    (cloud.clone(), Wire::new(cloud))
}

/// A configuration for clients of an endpoint.
pub(crate) fn over_http(url: &str, access_key_id: &str) -> SdkConfig {
    let credentials = Credentials::new(access_key_id, "local", None, None, "tests");
    SdkConfig::builder()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .region(Region::from_static(local_cloud::REGION))
        .credentials_provider(SharedCredentialsProvider::new(credentials))
        .endpoint_url(url)
        .build()
}

impl Target {
    pub(crate) fn open() -> Self {
        match std::env::var("LOCAL_CLOUD_TARGET") {
            Ok(url) => Self::of(&over_http(&url, "test"), Clock::wall(), None),
            Err(_) => {
                let (cloud, wire) = driven();
                Self::of(&wire.sdk_config(), cloud.clock.clone(), Some(cloud))
            }
        }
    }

    fn of(config: &SdkConfig, clock: Clock, cloud: Option<Cloud>) -> Self {
        Self { sqs: aws_sdk_sqs::Client::new(config), scheduler: aws_sdk_scheduler::Client::new(config), clock, cloud }
    }

    /// A name that no other case uses.
    pub(crate) fn name(&self, what: &str) -> String {
        let mut bytes = [0_u8; 6];
        getrandom::fill(&mut bytes).expect("randomness");
        let suffix: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{what}-{suffix}")
    }

    /// Lets time pass.
    pub(crate) async fn pass(&self, time: Duration) {
        if self.clock.is_driven() {
            self.clock.advance(time);
        } else {
            tokio::time::sleep(time).await;
        }
    }

    /// A one-time expression for so far from now.
    pub(crate) fn at(&self, from_now: Duration) -> String {
        let ms = self.clock.now_ms() + i64::try_from(from_now.as_millis()).expect("a short time");
        let at = jiff::Timestamp::from_millisecond(ms).expect("a time").to_zoned(jiff::tz::TimeZone::UTC);
        format!("at({})", at.strftime("%Y-%m-%dT%H:%M:%S"))
    }

    /// Waits until schedules that are due have been delivered to their queues. In this process that is done here,
    /// with the engine's own decisions; another implementation has a loop of its own, whose tick may take some
    /// seconds.
    pub(crate) async fn deliver_schedules(&self) {
        let Some(cloud) = &self.cloud else {
            tokio::time::sleep(Duration::from_secs(15)).await;
            return;
        };
        for firing in cloud.scheduler.due(cloud.clock.now_ms()).await.expect("due schedules") {
            let queue = Sqs::name_of(&firing.target.arn).to_owned();
            let body = firing.target.input.clone().expect("an input");
            cloud.sqs.send(&queue, Outgoing::text(body)).await.expect("a delivery");
            cloud.scheduler.fired(&firing).await.expect("a mark");
        }
    }

    /// Makes a queue with attributes and gives its URL.
    pub(crate) async fn queue(&self, what: &str, attributes: &[(&str, &str)]) -> String {
        let mut request = self.sqs.create_queue().queue_name(self.name(what));
        for (name, value) in attributes {
            request = request.attributes((*name).into(), *value);
        }
        request.send().await.expect("a queue").queue_url().expect("a URL").to_owned()
    }

    /// One of a queue's attributes.
    pub(crate) async fn attribute(&self, url: &str, name: &str) -> String {
        let answer = self.sqs.get_queue_attributes().queue_url(url).attribute_names(name.into()).send().await;
        let attributes = answer.expect("attributes").attributes.expect("some");
        attributes.get(&name.into()).expect("the attribute").clone()
    }
}
