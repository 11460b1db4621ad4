//! Token buckets, one for each route: the stage's default setting, or the route's own.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crate::template::model::{HttpApi, Route, Throttle};

/// The buckets of an API. Their number is the number of throttled routes.
#[derive(Debug, Default)]
pub(super) struct Throttles {
    buckets: HashMap<String, Mutex<Bucket>>,
}

#[derive(Debug)]
struct Bucket {
    setting: Throttle,
    tokens: f64,
    filled_at_ms: i64,
}

impl Throttles {
    pub(super) fn new(api: &HttpApi, now_ms: i64) -> Self {
        let buckets = api
            .routes
            .iter()
            .map(Route::key)
            .filter_map(|key| {
                let setting = api.route_throttles.get(&key).copied().or(api.throttle)?;
                let full = Bucket { setting, tokens: f64::from(setting.burst), filled_at_ms: now_ms };
                Some((key, Mutex::new(full)))
            })
            .collect();
        Self { buckets }
    }

    /// Whether a request to this route may pass now; takes its token if so.
    pub(super) fn admit(&self, route_key: &str, now_ms: i64) -> bool {
        let Some(bucket) = self.buckets.get(route_key) else { return true };
        // A bucket is whole between any two statements, so a panic elsewhere cannot have broken it.
        let mut bucket = bucket.lock().unwrap_or_else(PoisonError::into_inner);
        let passed_ms = now_ms.saturating_sub(bucket.filled_at_ms).max(0);
        // More than an hour fills any bucket that fills at all; it also keeps the number exact as f64.
        let passed_s = f64::from(i32::try_from(passed_ms).unwrap_or(i32::MAX).min(3_600_000)) / 1000.0;
        let limit = f64::from(bucket.setting.burst);
        bucket.tokens = (bucket.tokens + passed_s * bucket.setting.rate).min(limit);
        bucket.filled_at_ms = now_ms;
        let admitted = bucket.tokens >= 1.0;
        if admitted {
            bucket.tokens -= 1.0;
        }
        admitted
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::template::model::Route;

    fn api() -> HttpApi {
        let route = |method: &str, path: &str| Route {
            method: method.to_owned(),
            path: path.to_owned(),
            function: "shop".to_owned(),
            authorizer: None,
            scopes: Vec::new(),
        };
        HttpApi {
            routes: vec![route("POST", "/buy"), route("GET", "/sales"), route("GET", "/orders")],
            throttle: Some(Throttle { rate: 10.0, burst: 2 }),
            route_throttles: BTreeMap::from([("POST /buy".to_owned(), Throttle { rate: 1.0, burst: 1 })]),
            ..HttpApi::default()
        }
    }

    #[test]
    fn a_burst_passes_and_then_the_rate_decides() {
        let throttles = Throttles::new(&api(), 0);
        let admitted = |at_ms| throttles.admit("GET /sales", at_ms);
        assert_eq!([admitted(0), admitted(0), admitted(0)], [true, true, false]);
        assert_eq!([admitted(99), admitted(100), admitted(100)], [false, true, false]);
        assert_eq!([admitted(60_000), admitted(60_000), admitted(60_000)], [true, true, false]);
    }

    #[test]
    fn a_route_has_its_own_bucket_and_its_own_setting() {
        let throttles = Throttles::new(&api(), 0);
        assert!(throttles.admit("POST /buy", 0));
        assert!(!throttles.admit("POST /buy", 500), "burst 1, one a second");
        assert!(throttles.admit("GET /sales", 0), "another route is not touched");
        assert!(throttles.admit("GET /orders", 0));
    }

    #[test]
    fn without_a_setting_everything_passes() {
        let throttles = Throttles::new(&HttpApi { throttle: None, ..api() }, 0);
        assert!((0..1000).all(|_| throttles.admit("GET /sales", 0)));
    }

    #[test]
    fn a_clock_that_steps_back_gives_nothing_away() {
        let throttles = Throttles::new(&api(), 1000);
        assert!(throttles.admit("POST /buy", 1000));
        assert!(!throttles.admit("POST /buy", 0));
        assert!(!throttles.admit("POST /buy", 500));
    }
}
