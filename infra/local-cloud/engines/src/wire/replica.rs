//! A copy of the tables that is behind, as DynamoDB's own copies are: what a read that is not strong may be
//! answered from.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::{Request, Response};
use serde_json::Value;

use super::Call;
use crate::engine::{Cloud, Service};

/// A copy that queues every write and applies it on [`Replica::catch_up`]. Copies of this handle share it.
#[derive(Clone)]
pub struct Replica {
    cloud: Cloud,
    behind: Arc<Mutex<VecDeque<Request<Bytes>>>>,
}

impl fmt::Debug for Replica {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replica").field("behind", &self.behind()).finish_non_exhaustive()
    }
}

impl Replica {
    /// A copy on engines that have the same empty tables.
    pub fn new(cloud: Cloud) -> Self {
        Self { cloud, behind: Arc::default() }
    }

    /// How many writes it is behind.
    pub fn behind(&self) -> usize {
        self.behind.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Does up to `writes` of the writes that it is behind.
    pub async fn catch_up(&self, writes: usize) {
        for _ in 0..writes {
            let next = self.behind.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            match next {
                Some(write) => drop(self.cloud.call(write).await),
                None => return,
            }
        }
    }

    pub(super) fn hear(&self, write: Request<Bytes>) {
        self.behind.lock().unwrap_or_else(PoisonError::into_inner).push_back(write);
    }

    pub(super) async fn read(&self, request: Request<Bytes>) -> Response<Bytes> {
        self.cloud.call(request).await
    }
}

/// Whether DynamoDB may answer a call from a copy that is behind.
pub(super) fn is_weak_read(call: &Call) -> bool {
    let strong = |read: &Value| read.get("ConsistentRead").and_then(Value::as_bool) == Some(true);
    match (call.service, call.operation.as_str()) {
        (Service::DynamoDb, "GetItem" | "Query" | "Scan") => !strong(&call.json()),
        (Service::DynamoDb, "BatchGetItem") => {
            let body = call.json();
            let tables = body.get("RequestItems").and_then(Value::as_object);
            tables.is_some_and(|tables| !tables.values().any(strong))
        }
        _ => false,
    }
}

/// Whether a call changes tables.
pub(super) fn is_write(call: &Call) -> bool {
    let writes = ["PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem", "TransactWriteItems"];
    call.service == Service::DynamoDb && writes.contains(&call.operation.as_str())
}
