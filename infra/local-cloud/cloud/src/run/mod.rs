//! The whole local cloud, put together: data directory, template, engines, their endpoint with the permission check,
//! the functions' host, the event sources and the gateway, started in this order and stopped in the other.

mod error;
mod functions;

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::net::TcpListener;
use tokio::sync::broadcast;
use tokio::task::JoinSet;

pub use error::StartError;
pub use functions::Functions;

use crate::clock::Clock;
use crate::data::{DataDir, LOGS};
use crate::endpoint::Endpoint;
use crate::engine::{Cloud, OpenError};
use crate::front::Front;
use crate::gateway::{Connections, Gateway, GatewayConfig, Issuer, LiveReport};
use crate::iam::Policies;
use crate::metrics::Metrics;
use crate::sources::{RunningSources, Sources, asynchronous};
use crate::template;
use crate::template::model::Stack;
use functions::RunningFunctions;

/// How often expired items and messages are deleted. AWS takes up to days; a minute shows that it happens.
const SWEEP_EVERY: Duration = Duration::from_secs(60);
/// What a local cloud runs, and where.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    pub template: PathBuf,
    /// `AWS::StackName`. The names of resources without a name of their own begin with it.
    pub stack_name: String,
    /// The port of the API on 127.0.0.1; 0 is any that is free.
    pub port: u16,
    /// Where data, logs and keys are kept between runs.
    pub data_dir: PathBuf,
    /// Whether the data of earlier runs is deleted first.
    pub fresh: bool,
    /// Where the functions' binaries are, each under its cargo name.
    pub binaries: PathBuf,
    /// Values for parameters of the template.
    pub parameters: Vec<(String, String)>,
    /// A parameter that receives the address of the API, if the template declares it and `parameters` has no value.
    pub url_parameter: Option<String>,
    /// The most environments (processes) of one function at once.
    pub max_environments: Option<u32>,
    /// Functions whose logs the caller will ask for: a name that no function has is an error at the start.
    pub logs: Vec<String>,
    /// A directory of web pages that the gateway serves beside the API.
    pub web: Option<PathBuf>,
    /// Another address of this machine on which the engines are served, for functions in containers.
    pub also_listen: Option<IpAddr>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            template: PathBuf::from("template.yaml"),
            stack_name: template::DEFAULT_STACK_NAME.to_owned(),
            port: 3000,
            data_dir: PathBuf::from(".local"),
            fresh: false,
            binaries: PathBuf::from("target/debug"),
            parameters: Vec::new(),
            url_parameter: None,
            max_environments: None,
            logs: Vec::new(),
            web: None,
            also_listen: None,
        }
    }
}

/// Events that `/_local/events` lists.
const EVENTS_LISTED: usize = 1_000;
/// How long invocations of the event sources may take to end when the cloud stops.
const SOURCES_GRACE: Duration = Duration::from_secs(3);

/// A running local cloud. [`LocalCloud::stop`] ends it in order; dropping it ends it at once.
pub struct LocalCloud {
    stack: Arc<Stack>,
    gateway: Gateway,
    // The work of outside services, which ends with the set.
    outside: JoinSet<()>,
    sources: RunningSources,
    host: SharedHost,
    endpoint: Endpoint,
    for_containers: Option<Endpoint>,
    policies: Arc<Policies>,
    // Ends with the set: a task of its own would hold the databases open.
    sweeper: JoinSet<()>,
    cloud: Cloud,
    logs_dir: PathBuf,
    // Last: the directory is given back when everything else is gone.
    data: DataDir,
}

/// The lines of a function's log from some moment on.
pub type LogLines = broadcast::Receiver<Arc<str>>;

/// The host, which `/_local/stack` looks at until it is stopped.
type SharedHost = Arc<RwLock<Option<RunningFunctions>>>;

impl std::fmt::Debug for LocalCloud {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("LocalCloud").field("gateway", &self.gateway).finish_non_exhaustive()
    }
}

impl LocalCloud {
    /// Starts everything. When it returns, the API answers.
    pub async fn start(options: &Options) -> Result<Self, StartError> {
        Self::start_with(options, Functions::Processes, Cloud::open).await
    }

    /// The same with `functions`, on engines that `open` opens in the data directory: with services outside AWS, for
    /// example.
    pub async fn start_with(
        options: &Options,
        functions: Functions,
        open: impl FnOnce(&Path, Clock) -> Result<Cloud, OpenError>,
    ) -> Result<Self, StartError> {
        // The port comes first, because the template may need the address.
        let listener = listen(options.port).await?;
        let address = listener.local_addr().map_err(|source| StartError::Listen { port: options.port, source })?;
        let base_url = format!("http://{address}");
        let parameters: BTreeMap<String, String> = options.parameters.iter().cloned().collect();
        let reading = template::ReadOptions {
            stack_name: options.stack_name.clone(),
            parameters,
            defaults: options.url_parameter.iter().map(|name| (name.clone(), base_url.clone())).collect(),
        };
        let stack = Arc::new(template::read_with(&options.template, &reading)?);
        for name in &options.logs {
            functions_named(&stack, name)?;
        }
        let data = DataDir::open(&options.data_dir, options.fresh)?;
        let clock = Clock::wall();
        let cloud = open(data.path(), clock.clone())
            .map_err(|source| StartError::Open { directory: data.path().display().to_string(), source })?;
        // Services outside AWS are at the same port, under a name that this machine and the containers resolve.
        let (for_containers, outside_url) = match options.also_listen {
            Some(ip) => (Some(listen_for_containers(ip, address.port()).await?), local_name(address.port())),
            None => (None, base_url.clone()),
        };
        cloud.provision_with(&stack, &outside_url).await?;

        let policies = Arc::new(Policies::from_stack(&stack));
        let connections = Connections::default();
        let metrics = Metrics::default();
        let front = Front {
            cloud: cloud.clone(),
            authorizer: Some(policies.authorizer()),
            connections: Some(connections.clone()),
            metrics: metrics.clone(),
            for_containers: false,
        };
        let loopback = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(StartError::Endpoint)?;
        let endpoint = Endpoint::serve(loopback, front.clone()).map_err(StartError::Endpoint)?;
        let for_containers = match for_containers {
            Some(listener) => {
                let front = Front { for_containers: true, ..front.clone() };
                Some(Endpoint::serve(listener, front).map_err(StartError::Endpoint)?)
            }
            None => None,
        };
        let logs_dir = data.path().join(LOGS);
        let place =
            functions::Place { options, stack: &stack, endpoint_url: endpoint.url(), front, logs_dir: &logs_dir };
        let host = RunningFunctions::start(functions, place)?;
        for lines in stack.functions.iter().filter_map(|function| host.logs(&function.name)) {
            tokio::spawn(measure(lines, metrics.clone()));
        }
        let invoker = host.invoker();
        let may = {
            let policies = Arc::clone(&policies);
            Arc::new(move |role: &str, target: &str| match target.split(':').nth(2) {
                Some("sqs") => policies.role_may_send(role, target),
                _ => policies.role_may_invoke(role, target),
            })
        };
        let sources = Sources::open(&cloud, &stack, &invoker, may).await?.start();
        let requests = host.requests();
        let host: SharedHost = Arc::new(RwLock::new(Some(host)));
        let gateway = Gateway::start(GatewayConfig {
            listener,
            stack: Arc::clone(&stack),
            invoker,
            requests,
            clock,
            connections,
            issuer: Arc::new(Issuer::open(data.path())?),
            web: options.web.clone(),
            live: live_report(&cloud, &stack, &host, endpoint.url(), for_containers.as_ref().map(Endpoint::url)),
            events: event_report(&cloud),
            outside: cloud.outside().to_vec(),
        })?;
        let mut outside = JoinSet::new();
        for service in cloud.outside() {
            outside.spawn(service.work());
        }
        let mut sweeper = JoinSet::new();
        sweeper.spawn(sweep(cloud.clone()));
        Ok(Self {
            stack,
            gateway,
            outside,
            sources,
            host,
            endpoint,
            for_containers,
            policies,
            sweeper,
            cloud,
            logs_dir,
            data,
        })
    }

    /// Where the API is: `http://127.0.0.1:PORT`.
    pub fn base_url(&self) -> String {
        format!("http://{}", self.gateway.address())
    }

    /// The engines.
    pub fn cloud(&self) -> &Cloud {
        &self.cloud
    }

    /// What the template deploys.
    pub fn stack(&self) -> &Stack {
        &self.stack
    }

    /// The functions' permissions, and which of them were used.
    pub fn policies(&self) -> &Policies {
        &self.policies
    }

    /// Where the functions' logs are.
    pub fn logs_dir(&self) -> &Path {
        &self.logs_dir
    }

    /// Log lines from now on of the functions that `name` means: `all`, a name, a logical id or a binary.
    pub fn logs(&self, name: &str) -> Result<Vec<(String, LogLines)>, StartError> {
        let host = self.host.read().unwrap_or_else(PoisonError::into_inner);
        let follow = |function: String| Some((function.clone(), host.as_ref()?.logs(&function)?));
        Ok(functions_named(&self.stack, name)?.into_iter().filter_map(follow).collect())
    }

    /// The data directory, which is locked as long as this cloud runs.
    pub fn data_dir(&self) -> &Path {
        self.data.path()
    }

    /// Stops in this order: work of outside services, requests, events, functions, engines.
    pub async fn stop(self) {
        let Self { gateway, mut outside, sources, host, endpoint, for_containers, mut sweeper, .. } = self;
        // Before the gateway: otherwise a webhook would meet a closed port and count as refused.
        outside.shutdown().await;
        gateway.stop().await;
        sources.stop(SOURCES_GRACE).await;
        let host = host.write().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(host) = host {
            host.stop().await;
        }
        endpoint.stop().await;
        if let Some(endpoint) = for_containers {
            endpoint.stop().await;
        }
        sweeper.shutdown().await;
    }
}

async fn listen(port: u16) -> Result<TcpListener, StartError> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.map_err(|source| match source.kind() {
        io::ErrorKind::AddrInUse => StartError::PortInUse(port),
        _ => StartError::Listen { port, source },
    })
}

async fn listen_for_containers(address: IpAddr, port: u16) -> Result<TcpListener, StartError> {
    let failed = |source| StartError::AlsoListen { address: SocketAddr::new(address, port), source };
    TcpListener::bind((address, port)).await.map_err(failed)
}

/// A container is told that `localhost` has a second address, the one that is listened on for containers.
fn local_name(port: u16) -> String {
    format!("http://localhost:{port}")
}

/// The functions that a name on the command line stands for.
fn functions_named(stack: &Stack, name: &str) -> Result<Vec<String>, StartError> {
    let meant = |function: &&template::model::Function| name == "all" || function.is_called(name);
    let found: Vec<String> = stack.functions.iter().filter(meant).map(|function| function.name.clone()).collect();
    if found.is_empty() {
        let known: Vec<&str> = stack.functions.iter().map(|function| function.binary.as_str()).collect();
        return Err(StartError::UnknownFunction { name: name.to_owned(), known: known.join(", ") });
    }
    Ok(found)
}

/// The depth of every queue, accepted events that have not been dealt with, and each function's counters.
fn live_report(
    cloud: &Cloud,
    stack: &Arc<Stack>,
    host: &SharedHost,
    endpoint: String,
    for_containers: Option<String>,
) -> LiveReport {
    let (cloud, stack, host) = (cloud.clone(), Arc::clone(stack), Arc::clone(host));
    Arc::new(move || {
        let (cloud, stack, host) = (cloud.clone(), Arc::clone(&stack), Arc::clone(&host));
        let (endpoint, for_containers) = (endpoint.clone(), for_containers.clone());
        Box::pin(async move {
            let mut queues = Map::new();
            for queue in &stack.queues {
                queues.insert(queue.name.clone(), depth(&cloud, &queue.name).await);
            }
            let mut asynchronous = Map::new();
            for function in &stack.functions {
                let events = depth(&cloud, &asynchronous::queue_of(&function.name)).await;
                asynchronous.insert(function.name.clone(), events);
            }
            json!({
                "endpoint": endpoint,
                "containerEndpoint": for_containers,
                "outputs": stack.outputs,
                "queues": queues,
                "asynchronous": asynchronous,
                "functions": function_counters(&stack, &host),
            })
        })
    })
}

/// What was put on event buses, the newest first.
fn event_report(cloud: &Cloud) -> LiveReport {
    let events = cloud.events.clone();
    Arc::new(move || {
        let listed = events.latest(EVENTS_LISTED);
        Box::pin(async move { json!({ "events": listed }) })
    })
}

async fn depth(cloud: &Cloud, queue: &str) -> Value {
    match cloud.sqs.counts(queue).await {
        Ok(counts) => json!({ "visible": counts.visible, "inFlight": counts.in_flight, "delayed": counts.delayed }),
        Err(error) => json!({ "error": error.to_string() }),
    }
}

fn function_counters(stack: &Stack, host: &SharedHost) -> Map<String, Value> {
    let host = host.read().unwrap_or_else(PoisonError::into_inner);
    let Some(host) = host.as_ref() else { return Map::new() };
    let counters = |function: &template::model::Function| {
        let counters = host.counters_of(&function.name);
        let report = json!({
            "environments": counters.environments,
            "invocations": counters.invocations,
            "errors": counters.errors,
            "coldStarts": counters.cold_starts,
            "throttles": counters.throttles,
        });
        (function.name.clone(), report)
    };
    stack.functions.iter().map(counters).collect()
}

/// Notes what a function writes as metrics into its log, until the log ends with its host.
async fn measure(mut lines: LogLines, metrics: Metrics) {
    loop {
        match lines.recv().await {
            Ok(line) => metrics.take(&line),
            Err(broadcast::error::RecvError::Lagged(missed)) => {
                tracing::debug!(missed, "some of a function's metrics were not counted");
            }
            Err(broadcast::error::RecvError::Closed) => return,
        }
    }
}

async fn sweep(cloud: Cloud) {
    loop {
        cloud.clock.sleep(SWEEP_EVERY).await;
        if let Err(error) = cloud.sweep().await {
            tracing::warn!(%error, "expired items were not deleted");
        }
    }
}
