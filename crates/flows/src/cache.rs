//! A small cache of what was read: fresh for a while, bounded, and read once for concurrent requests.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

use domain::Timestamp;

/// Values by key, each fresh for `fresh_for_ms` after it was read.
#[derive(Debug)]
pub(crate) struct Cache<K, V> {
    slots: Mutex<HashMap<K, Slot<V>>>,
    fresh_for_ms: i64,
    capacity: usize,
}

type Slot<V> = Arc<tokio::sync::Mutex<Option<(i64, V)>>>;

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
        let slot = self.slot(key);
        let mut slot = slot.lock().await;
        let now_ms = now.as_millisecond();
        if let Some((read_at_ms, value)) = slot.as_ref()
            && (0..self.fresh_for_ms).contains(&(now_ms - read_at_ms))
        {
            return Ok(value.clone());
        }
        let value = read.await?;
        *slot = Some((now_ms, value.clone()));
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
