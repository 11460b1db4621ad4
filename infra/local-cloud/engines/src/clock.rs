//! The time that everything in the local cloud goes by: the wall's, or one that a test drives.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::watch;

/// A source of time. Copies share the same time.
#[derive(Clone, Debug)]
pub struct Clock(Source);

#[derive(Clone, Debug)]
enum Source {
    Wall,
    Driven(Arc<watch::Sender<i64>>),
}

impl Clock {
    /// The machine's own clock.
    pub fn wall() -> Self {
        Self(Source::Wall)
    }

    /// A clock that stands still at `start_ms` (milliseconds since 1970) until [`Clock::advance`].
    pub fn driven(start_ms: i64) -> Self {
        Self(Source::Driven(Arc::new(watch::Sender::new(start_ms))))
    }

    /// Milliseconds since 1970.
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the wall clock")]
    pub fn now_ms(&self) -> i64 {
        match &self.0 {
            Source::Wall => SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map(|since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
                .unwrap_or(0),
            Source::Driven(now) => *now.borrow(),
        }
    }

    /// Moves a driven clock forward and wakes every sleeper whose time has come. The wall's clock ignores it.
    pub fn advance(&self, by: Duration) {
        if let Source::Driven(now) = &self.0 {
            let by_ms = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
            now.send_modify(|now_ms| *now_ms = now_ms.saturating_add(by_ms));
        }
    }

    /// Whether a test drives this clock.
    pub fn is_driven(&self) -> bool {
        matches!(self.0, Source::Driven(_))
    }

    /// Returns once the time is `at_ms` or later.
    pub async fn sleep_until(&self, at_ms: i64) {
        match &self.0 {
            Source::Wall => {
                let left_ms = u64::try_from(at_ms.saturating_sub(self.now_ms())).unwrap_or(0);
                tokio::time::sleep(Duration::from_millis(left_ms)).await;
            }
            Source::Driven(now) => {
                // The sender lives as long as this clock, so waiting cannot end by its being dropped.
                let _ = now.subscribe().wait_for(|now_ms| *now_ms >= at_ms).await;
            }
        }
    }

    /// Returns after `for_how_long` of this clock's time.
    pub async fn sleep(&self, for_how_long: Duration) {
        let ms = i64::try_from(for_how_long.as_millis()).unwrap_or(i64::MAX);
        self.sleep_until(self.now_ms().saturating_add(ms)).await;
    }
}
