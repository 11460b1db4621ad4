//! Where the functions run: as processes, or in this process.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_credential_types::Credentials;
use aws_credential_types::provider::SharedCredentialsProvider;
use aws_smithy_async::rt::sleep::{SharedAsyncSleep, TokioSleep};
use aws_types::service_config::{LoadServiceConfig, ServiceConfigKey};

use super::{LogLines, Options};
use crate::connector::Connector;
use crate::front::Front;
use crate::host::{AccessKey, Counters, Host, HostConfig, HostError, HostLimits};
use crate::iam;
use crate::in_process::{InProcessConfig, InProcessHost, Registry};
use crate::invoke::{Invoker, Requests};
use crate::template::model::{Function, Stack};

/// Where functions run.
#[derive(Clone)]
pub enum Functions {
    /// Each in processes of its own: the bootstrap binaries, over the Lambda Runtime API.
    Processes,
    /// In this process.
    InProcess {
        /// The functions that this program links.
        registry: Registry,
        /// States of one function that take turns, as environments would. One shares all its caches.
        states: usize,
    },
}

/// What both need.
pub(super) struct Place<'a> {
    pub(super) options: &'a Options,
    pub(super) stack: &'a Stack,
    pub(super) endpoint_url: String,
    pub(super) front: Front,
    pub(super) logs_dir: &'a Path,
}

/// The functions, running.
pub(super) enum RunningFunctions {
    Processes(Host),
    InProcess(InProcessHost),
}

impl RunningFunctions {
    pub(super) fn start(functions: Functions, place: Place<'_>) -> Result<Self, HostError> {
        match functions {
            Functions::Processes => Host::start(processes(&place)).map(Self::Processes),
            Functions::InProcess { registry, states } => {
                InProcessHost::start(in_process(&place, registry, states)).map(Self::InProcess)
            }
        }
    }

    pub(super) fn invoker(&self) -> Invoker {
        match self {
            Self::Processes(host) => host.invoker(),
            Self::InProcess(host) => host.invoker(),
        }
    }

    /// Functions of HTTP APIs that take requests as values; `None`: all take events.
    pub(super) fn requests(&self) -> Option<Arc<dyn Requests>> {
        match self {
            Self::Processes(_) => None,
            Self::InProcess(host) => Some(host.requests()),
        }
    }

    pub(super) fn logs(&self, function: &str) -> Option<LogLines> {
        match self {
            Self::Processes(host) => host.logs(function),
            Self::InProcess(host) => host.logs(function),
        }
    }

    pub(super) fn counters_of(&self, function: &str) -> Counters {
        match self {
            Self::Processes(host) => host.counters_of(function),
            Self::InProcess(host) => host.counters_of(function),
        }
    }

    pub(super) async fn stop(self) {
        match self {
            Self::Processes(host) => host.stop().await,
            Self::InProcess(host) => host.stop().await,
        }
    }
}

fn processes(place: &Place<'_>) -> HostConfig {
    let key = |function: &Function| {
        let key = AccessKey {
            id: iam::access_key_id(&function.name),
            // Signatures are not verified, but the SDK needs a secret to sign with.
            secret: "local".to_owned(),
            session_token: "local".to_owned(),
        };
        (function.name.clone(), key)
    };
    HostConfig {
        functions: place.stack.functions.clone(),
        binaries_dir: place.options.binaries.clone(),
        endpoint_url: place.endpoint_url.clone(),
        access_keys: place.stack.functions.iter().map(key).collect(),
        logs_dir: place.logs_dir.to_owned(),
        limits: limits(place.options),
        clock: place.front.cloud.clock.clone(),
    }
}

fn in_process(place: &Place<'_>, registry: Registry, states: usize) -> InProcessConfig {
    let (front, endpoint_url) = (place.front.clone(), place.endpoint_url.clone());
    InProcessConfig {
        functions: place.stack.functions.clone(),
        registry,
        sdk_config: Arc::new(move |function, variables| sdk_config(&front, &endpoint_url, function, variables)),
        endpoint_url: place.endpoint_url.clone(),
        logs_dir: place.logs_dir.to_owned(),
        limits: limits(place.options),
        states,
    }
}

fn limits(options: &Options) -> HostLimits {
    let defaults = HostLimits::default();
    HostLimits { environments: options.max_environments.unwrap_or(defaults.environments), ..defaults }
}

/// How a function of this process calls AWS: without a socket, and still under its own policy. What it sends over a
/// socket of its own goes to the endpoint, signed with its key.
fn sdk_config(
    front: &Front,
    endpoint_url: &str,
    function: &str,
    variables: &Arc<BTreeMap<String, String>>,
) -> SdkConfig {
    let access_key_id: Arc<str> = iam::access_key_id(function).into();
    let credentials = Credentials::new(&*access_key_id, "local", Some("local".to_owned()), None, "local cloud");
    let front = front.clone();
    let connector = Connector::new(move |request| {
        let (front, access_key_id) = (front.clone(), Arc::clone(&access_key_id));
        Box::pin(async move { front.answer(Some(&access_key_id), request).await })
    });
    SdkConfig::builder()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .region(Region::from_static(crate::REGION))
        .credentials_provider(SharedCredentialsProvider::new(credentials))
        .endpoint_url(endpoint_url)
        .service_config(ServiceVariables(Arc::clone(variables)))
        .sleep_impl(SharedAsyncSleep::new(TokioSleep::new()))
        .http_client(connector)
        .build()
}

/// Settings of one service among a function's variables, such as `AWS_ENDPOINT_URL_DYNAMODB`.
#[derive(Debug)]
struct ServiceVariables(Arc<BTreeMap<String, String>>);

impl LoadServiceConfig for ServiceVariables {
    fn load_config(&self, key: ServiceConfigKey<'_>) -> Option<String> {
        let service = key.service_id().to_ascii_uppercase().replace([' ', '-'], "_");
        self.0.get(&format!("{}_{service}", key.env())).cloned()
    }
}
