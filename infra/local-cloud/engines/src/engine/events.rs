//! EventBridge: takes the events that are put on a bus, and remembers the latest of them. Rules and targets are not
//! played: what was put is listed for tests and people.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http::{Response, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::answer::{Service, respond};
use crate::clock::Clock;
pub use crate::template::event_bus_name;

/// Events that are remembered; the oldest are forgotten first.
const KEPT: usize = 100_000;
/// Entries of one call (a quota of the service).
const ENTRIES: usize = 10;
/// The entries of one call together (a quota of the service).
const CALL_BYTES: usize = 1_048_576;

/// The engine. Copies share its state, which ends with the process.
#[derive(Clone)]
pub struct EventBuses {
    clock: Clock,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    buses: BTreeSet<String>,
    put: VecDeque<PutEvent>,
}

/// An event that was put on a bus.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PutEvent {
    pub id: String,
    pub bus: String,
    pub source: String,
    pub detail_type: String,
    pub detail: Value,
    /// When it was put, in milliseconds since 1970.
    pub put_ms: i64,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Input {
    entries: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Entry {
    #[serde(default)]
    event_bus_name: Option<String>,
    #[serde(default)]
    source: String,
    #[serde(default)]
    detail_type: String,
    #[serde(default)]
    detail: String,
}

impl EventBuses {
    pub(crate) fn new(clock: Clock) -> Self {
        let state = State { buses: BTreeSet::from(["default".to_owned()]), ..State::default() };
        Self { clock, state: Arc::new(Mutex::new(state)) }
    }

    /// Makes a bus, if it is not there yet.
    pub fn create(&self, name: &str) {
        self.state().buses.insert(name.to_owned());
    }

    /// The events that are remembered, the oldest first.
    pub fn put_so_far(&self) -> Vec<PutEvent> {
        self.state().put.iter().cloned().collect()
    }

    /// The latest `count` events, the newest first.
    pub fn latest(&self, count: usize) -> Vec<PutEvent> {
        self.state().put.iter().rev().take(count).cloned().collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers one request of the service's JSON protocol.
    pub(crate) fn call(&self, operation: &str, body: &Bytes) -> Response<Bytes> {
        let refused = |code: &str, message: &str| Service::Events.error(StatusCode::BAD_REQUEST, code, message);
        if operation != "PutEvents" {
            return refused("UnknownOperationException", &format!("{operation} is not supported here: PutEvents is"));
        }
        let Input { entries } = match serde_json::from_slice(body) {
            Ok(input) => input,
            Err(error) => return refused("SerializationException", &error.to_string()),
        };
        if entries.is_empty() || entries.len() > ENTRIES {
            let message = format!("Entries must have 1 to {ENTRIES} members, and has {}", entries.len());
            return refused("ValidationException", &message);
        }
        if entries.iter().map(Entry::size_bytes).sum::<usize>() > CALL_BYTES {
            return refused("ValidationException", "Total size of the entries in the request is over the limit.");
        }
        let answers: Vec<Result<String, (&str, String)>> = entries.into_iter().map(|entry| self.put(entry)).collect();
        let failed = answers.iter().filter(|answer| answer.is_err()).count();
        let answers: Vec<Value> = answers
            .into_iter()
            .map(|answer| match answer {
                Ok(id) => json!({ "EventId": id }),
                Err((code, message)) => json!({ "ErrorCode": code, "ErrorMessage": message }),
            })
            .collect();
        let answer = json!({ "FailedEntryCount": failed, "Entries": answers });
        respond(StatusCode::OK, "application/x-amz-json-1.1", &answer)
    }

    /// Puts one event. A refusal is the answer of this entry alone.
    fn put(&self, entry: Entry) -> Result<String, (&'static str, String)> {
        let bus = event_bus_name(entry.event_bus_name.as_deref().unwrap_or("default")).to_owned();
        if entry.source.is_empty() || entry.detail_type.is_empty() {
            return Err(("InvalidArgument", "Source and DetailType must not be empty.".to_owned()));
        }
        if entry.source.starts_with("aws.") {
            return Err(("NotAuthorizedForSourceException", "Not authorized for the source.".to_owned()));
        }
        let detail: Option<Value> = serde_json::from_str(&entry.detail).ok().filter(Value::is_object);
        let Some(detail) = detail else {
            return Err(("MalformedDetail", "Detail is malformed: it must be a JSON object.".to_owned()));
        };
        let mut state = self.state();
        if !state.buses.contains(&bus) {
            return Err(("ResourceNotFoundException", format!("Event bus {bus} does not exist.")));
        }
        if state.put.len() >= KEPT {
            state.put.pop_front();
        }
        let id = super::random_id();
        let (Entry { source, detail_type, .. }, put_ms) = (entry, self.clock.now_ms());
        state.put.push_back(PutEvent { id: id.clone(), bus, source, detail_type, detail, put_ms });
        Ok(id)
    }
}

impl Entry {
    fn size_bytes(&self) -> usize {
        self.source.len() + self.detail_type.len() + self.detail.len()
    }
}
