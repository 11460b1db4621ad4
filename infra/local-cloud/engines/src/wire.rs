//! An HTTP client for the AWS SDK, and for calls to services outside AWS, that answers from the engines without a
//! socket.
//!
//! Between the SDK and the engines is where faults are injected ([`Fault`]) and calls are counted ([`Wire::calls`]).
//! On a driven clock the SDK's waits (before a retry, say) end at once: nothing hangs because no time passes. An
//! answer is there at the first poll then, so the SDK's timeouts do not fire although their waits end at once too;
//! only a call that stays unanswered ([`Fault::Stops`], a long poll) runs into them.

mod faults;
mod partial;
mod replica;

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_credential_types::Credentials;
use aws_credential_types::provider::SharedCredentialsProvider;
use aws_smithy_async::rt::sleep::{AsyncSleep, SharedAsyncSleep, Sleep};
use aws_smithy_async::time::{SharedTimeSource, TimeSource};
use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_runtime_api::client::stalled_stream_protection::StalledStreamProtectionConfig;
use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response, StatusCode};

pub use faults::{Call, Fault, Loss};
pub use replica::Replica;

use crate::clock::Clock;
use crate::connector::{from_sdk, to_sdk};
use crate::engine::{Cloud, Consumed, OutsideCall, Service};
use crate::iam::Policies;

/// Calls that are kept for [`Wire::calls`]; the oldest go first.
const KEPT: usize = 100_000;

/// Decides what can happen to a call, and when: a simulation lets calls wait for their turn.
type Faults = Arc<dyn Fn(&Call) -> BoxFuture<'static, Fault> + Send + Sync>;

/// The client. Copies share the engines, the faults and the record of calls.
#[derive(Clone)]
pub struct Wire {
    cloud: Cloud,
    faults: Option<Faults>,
    replica: Option<Replica>,
    access_key_id: String,
    policies: Option<Arc<Policies>>,
    record: Arc<Mutex<Record>>,
}

#[derive(Default)]
struct Record {
    made: u64,
    calls: VecDeque<RecordedCall>,
    late: Vec<Request<Bytes>>,
}

/// A call that went over the wire, SDK retries included.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedCall {
    /// Its running number, from 1.
    pub number: u64,
    pub service: Service,
    pub operation: String,
    /// The table, queue, schedule, secret, event bus or outside resource, if the call names one.
    pub resource: Option<String>,
    /// The fault that was injected.
    pub fault: Fault,
    /// The answer's status, if there was one.
    pub status: Option<u16>,
    /// Read units that the engine used for it.
    pub read_units: f64,
    /// Write units that the engine used for it. A failed condition counts as one, the least that AWS charges.
    pub write_units: f64,
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wire").field("faults", &self.faults.is_some()).finish_non_exhaustive()
    }
}

impl Wire {
    /// A wire to these engines on which nothing goes wrong.
    pub fn new(cloud: impl Into<Cloud>) -> Self {
        Self {
            cloud: cloud.into(),
            faults: None,
            replica: None,
            access_key_id: "LOCAL".to_owned(),
            policies: None,
            record: Arc::default(),
        }
    }

    /// The same wire, on which `faults` decides what happens to each call.
    pub fn with_faults(self, faults: impl Fn(&Call) -> Fault + Send + Sync + 'static) -> Self {
        self.with_turns(move |call| Box::pin(std::future::ready(faults(call))))
    }

    /// The same wire, on which each call waits until `turns` decides what happens to it.
    pub fn with_turns(mut self, turns: impl Fn(&Call) -> BoxFuture<'static, Fault> + Send + Sync + 'static) -> Self {
        self.faults = Some(Arc::new(turns));
        self
    }

    /// The same wire, with a copy of the tables that hears of its writes: it answers the reads that meet
    /// [`Fault::Stale`].
    pub fn with_replica(mut self, replica: Replica) -> Self {
        self.replica = Some(replica);
        self
    }

    /// The same wire as a function has it: each of its calls is checked against its policy.
    pub fn of_function(&self, policies: &Arc<Policies>, function_name: &str) -> Self {
        let access_key_id = crate::iam::access_key_id(function_name);
        Self { access_key_id, policies: Some(Arc::clone(policies)), ..self.clone() }
    }

    /// How many calls are under way that their callers have given up ([`Fault::Late`]).
    pub fn late(&self) -> usize {
        self.record.lock().unwrap_or_else(PoisonError::into_inner).late.len()
    }

    /// Lets a call arrive that its caller has given up; the answer is discarded. `which` counts modulo
    /// [`Wire::late`]. Tells which call it was; `None`: there was none.
    pub async fn arrive(&self, which: usize) -> Option<Call> {
        let request = {
            let mut record = self.record.lock().unwrap_or_else(PoisonError::into_inner);
            let which = which.checked_rem(record.late.len())?;
            record.late.swap_remove(which)
        };
        let call = self.identify(0, &request);
        self.call(&call, request).await;
        Some(call)
    }

    /// The engines at the other end.
    pub fn cloud(&self) -> &Cloud {
        &self.cloud
    }

    /// The calls made so far (the latest 100,000), or since [`Wire::forget_calls`].
    pub fn calls(&self) -> Vec<RecordedCall> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner).calls.iter().cloned().collect()
    }

    /// The latest of them.
    pub fn last_call(&self) -> Option<RecordedCall> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner).calls.back().cloned()
    }

    /// Starts the record anew. Running numbers go on.
    pub fn forget_calls(&self) {
        self.record.lock().unwrap_or_else(PoisonError::into_inner).calls.clear();
    }

    /// A configuration for any SDK client, over this wire and on the engines' clock.
    pub fn sdk_config(&self) -> SdkConfig {
        let credentials = Credentials::new(&self.access_key_id, "local", None, None, "local cloud");
        SdkConfig::builder()
            .behavior_version(BehaviorVersion::v2026_01_12())
            .region(Region::from_static(crate::REGION))
            .credentials_provider(SharedCredentialsProvider::new(credentials))
            .http_client(self.clone())
            .time_source(SharedTimeSource::new(SdkTime(self.cloud.clock.clone())))
            .sleep_impl(SharedAsyncSleep::new(SdkTime(self.cloud.clock.clone())))
            // It measures throughput by the clock, which stands still.
            .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
            .build()
    }

    fn identify(&self, number: u64, request: &Request<Bytes>) -> Call {
        let unknown = || OutsideCall { operation: "UnknownOperation".to_owned(), resource: None };
        let (service, call) = self.cloud.target_of(request).unwrap_or_else(|| (Service::DynamoDb, unknown()));
        Call::new(service, call, number, request)
    }

    async fn carry(self, request: Request<Bytes>) -> Result<Response<Bytes>, ConnectorError> {
        let number = {
            let mut record = self.record.lock().unwrap_or_else(PoisonError::into_inner);
            record.made += 1;
            record.made
        };
        let call = self.identify(number, &request);
        let service = call.service;
        if let Some(policies) = &self.policies
            && service != Service::Outside
            && let Err(denied) = policies.authorize(&self.access_key_id, &request)
        {
            return Ok(service.error(StatusCode::BAD_REQUEST, "AccessDeniedException", &denied.to_string()));
        }
        let fault = match &self.faults {
            Some(faults) => faults(&call).await,
            None => Fault::None,
        };
        if fault == Fault::Late {
            self.keep(&call, fault, None);
            self.record.lock().unwrap_or_else(PoisonError::into_inner).late.push(request);
            return Err(Loss::Timeout.error());
        }
        if let Some(refused) = fault.instead(&call) {
            self.keep(&call, fault, refused.as_ref().ok());
            return refused;
        }
        // A fault that does not apply to this call is ignored.
        let is_stale = self.replica.is_some() && replica::is_weak_read(&call);
        let fault = match fault {
            Fault::Stale if !is_stale => Fault::None,
            Fault::TransactionConflict => Fault::None,
            Fault::PartlyApplied if !partial::is_batch(&call) => Fault::None,
            fault => fault,
        };
        if fault == Fault::Stops {
            self.keep(&call, fault, None);
            return std::future::pending().await;
        }
        let response = match &self.replica {
            Some(replica) if fault == Fault::Stale => replica.read(request).await,
            _ if fault == Fault::PartlyApplied => partial::call(&self.cloud, &call, request).await,
            _ => self.call(&call, request).await,
        };
        self.keep(&call, fault, Some(&response));
        match fault {
            Fault::AppliedButLost(loss) => Err(loss.error()),
            Fault::AppliedButServerError => Ok(faults::server_error(&call)),
            Fault::AppliedThenStops => std::future::pending().await,
            _ => Ok(response),
        }
    }

    /// Lets a call happen; the copy hears of a write.
    async fn call(&self, call: &Call, request: Request<Bytes>) -> Response<Bytes> {
        let write = self.replica.as_ref().filter(|_| replica::is_write(call)).map(|replica| (replica, request.clone()));
        let response = self.cloud.call(request).await;
        if let Some((replica, write)) = write
            && response.status().is_success()
        {
            replica.hear(write);
        }
        response
    }

    fn keep(&self, call: &Call, fault: Fault, response: Option<&Response<Bytes>>) {
        let consumed =
            response.and_then(|response| response.extensions().get::<Consumed>()).copied().unwrap_or_default();
        let mut record = self.record.lock().unwrap_or_else(PoisonError::into_inner);
        if record.calls.len() >= KEPT {
            record.calls.pop_front();
        }
        record.calls.push_back(RecordedCall {
            number: call.number,
            service: call.service,
            operation: call.operation.clone(),
            resource: call.resource(),
            fault,
            status: response.map(|response| response.status().as_u16()),
            read_units: consumed.read_units,
            write_units: consumed.write_units,
        });
    }
}

impl HttpClient for Wire {
    fn http_connector(&self, _: &HttpConnectorSettings, _: &RuntimeComponents) -> SharedHttpConnector {
        SharedHttpConnector::new(self.clone())
    }
}

impl HttpConnector for Wire {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let wire = self.clone();
        HttpConnectorFuture::new(async move {
            let request = from_sdk(request)?;
            to_sdk(wire.carry(request).await?)
        })
    }
}

/// The clock, as the SDK wants it.
#[derive(Debug)]
struct SdkTime(Clock);

impl TimeSource for SdkTime {
    fn now(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(u64::try_from(self.0.now_ms()).unwrap_or(0))
    }
}

impl AsyncSleep for SdkTime {
    fn sleep(&self, duration: Duration) -> Sleep {
        let clock = self.0.clone();
        Sleep::new(async move {
            if clock.is_driven() {
                tokio::task::yield_now().await;
            } else {
                clock.sleep(duration).await;
            }
        })
    }
}
