//! A small cache of what was read: fresh for a while, bounded, and read once for concurrent requests.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

use domain::Timestamp;

/// Values by key, each fresh for `fresh_for_ms` after it was read, or for the time that its reader said.
#[derive(Debug)]
pub(crate) struct Cache<K, V> {
    slots: Mutex<HashMap<K, Slot<V>>>,
    fresh_for_ms: i64,
    capacity: usize,
}

type Slot<V> = Arc<tokio::sync::Mutex<Option<Cached<V>>>>;

#[derive(Debug)]
struct Cached<V> {
    read_at_ms: i64,
    fresh_for_ms: i64,
    value: V,
}

impl<K: Clone + Eq + Hash, V: Clone> Cache<K, V> {
    pub(crate) fn new(fresh_for_ms: i64, capacity: usize) -> Self {
        Self { slots: Mutex::default(), fresh_for_ms, capacity }
    }

    /// The value of `key`, read again if it is not fresh. Concurrent requests for one key share one read.
    pub(crate) async fn get<E>(
        &self,
        key: &K,
        now: Timestamp,
        read: impl Future<Output = Result<V, E>>,
    ) -> Result<V, E> {
        self.get_for(self.fresh_for_ms, key, now, read).await
    }

    /// The same; a value that is read now is fresh for `fresh_for_ms`.
    pub(crate) async fn get_for<E>(
        &self,
        fresh_for_ms: i64,
        key: &K,
        now: Timestamp,
        read: impl Future<Output = Result<V, E>>,
    ) -> Result<V, E> {
        let slot = self.slot(key);
        let mut slot = slot.lock().await;
        let now_ms = now.as_millisecond();
        if let Some(Cached { read_at_ms, fresh_for_ms, value }) = slot.as_ref()
            && (0..*fresh_for_ms).contains(&(now_ms - read_at_ms))
        {
            return Ok(value.clone());
        }
        let value = read.await?;
        *slot = Some(Cached { read_at_ms: now_ms, fresh_for_ms, value: value.clone() });
        Ok(value)
    }

    fn slot(&self, key: &K) -> Slot<V> {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        if slots.len() >= self.capacity && !slots.contains_key(key) {
            // Full, perhaps of made-up keys: starting over costs one read for each key in use.
            slots.clear();
        }
        slots.entry(key.clone()).or_default().clone()
    }
}
