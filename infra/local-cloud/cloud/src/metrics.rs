//! CloudWatch, as far as a console needs it: what functions write as metrics into their logs (EMF) can be asked for.
//!
//! Only the totals of a metric are kept, without its dimensions, and only for a quarter of an hour: this is for
//! watching a system while it runs. What is asked beyond that is refused with a reason.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, header};
use serde::Deserialize;
use serde_json::{Value, json};

/// How long values are kept.
const KEPT_MS: i64 = 15 * 60 * 1_000;
/// Values kept of one metric: more than one machine measures in that time.
const MOST_VALUES: usize = 500_000;
/// Metrics kept; the functions have some twenty.
const MOST_METRICS: usize = 200;
/// CloudWatch's name in a request's target.
const TARGET: &str = "GraniteServiceVersion20100801.";

/// When, in milliseconds since 1970, and what: the oldest first.
type Series = VecDeque<(i64, f64)>;

/// What was measured, by `namespace/name`. Copies share it.
#[derive(Clone, Debug, Default)]
pub struct Metrics(Arc<Mutex<BTreeMap<String, Series>>>);

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct Asked {
    start_time: f64,
    end_time: f64,
    metric_data_queries: Vec<Query>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct Query {
    id: String,
    metric_stat: Stat,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct Stat {
    metric: Name,
    period: i64,
    stat: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct Name {
    namespace: String,
    metric_name: String,
}

impl Metrics {
    /// Whether a request is for CloudWatch.
    pub fn are_asked(request: &Request<Bytes>) -> bool {
        operation(request).is_some()
    }

    /// Takes a line of a function's log, if it is one of metrics.
    pub fn take(&self, line: &str) {
        // Most lines are none, and reading them as JSON would be the greater part of the work.
        if !line.contains("\"_aws\"") {
            return;
        }
        let Ok(line) = serde_json::from_str::<Value>(line) else { return };
        let Some(at_ms) = line.pointer("/_aws/Timestamp").and_then(Value::as_i64) else { return };
        let directives = line.pointer("/_aws/CloudWatchMetrics").and_then(Value::as_array);
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for directive in directives.into_iter().flatten() {
            let namespace = directive.get("Namespace").and_then(Value::as_str).unwrap_or_default();
            let metrics = directive.get("Metrics").and_then(Value::as_array);
            for name in metrics.into_iter().flatten().filter_map(|metric| metric.get("Name")?.as_str()) {
                let values: Vec<f64> = match line.get(name) {
                    Some(Value::Array(all)) => all.iter().filter_map(Value::as_f64).collect(),
                    Some(one) => one.as_f64().into_iter().collect(),
                    None => continue,
                };
                let key = format!("{namespace}/{name}");
                if kept.len() >= MOST_METRICS && !kept.contains_key(&key) {
                    continue;
                }
                let series = kept.entry(key).or_default();
                series.extend(values.into_iter().map(|value| (at_ms, value)));
                while series.len() > MOST_VALUES || series.front().is_some_and(|(old_ms, _)| *old_ms < at_ms - KEPT_MS)
                {
                    series.pop_front();
                }
            }
        }
    }

    /// Answers a request for CloudWatch.
    pub fn answer(&self, request: &Request<Bytes>) -> Response<Bytes> {
        match operation(request) {
            Some("GetMetricData") => match serde_json::from_slice::<Asked>(request.body()) {
                Ok(asked) => self.data(&asked),
                Err(error) => refused("InvalidParameterValue", &error.to_string()),
            },
            other => {
                let name = other.unwrap_or_default();
                refused("UnknownOperationException", &format!("{name} is not supported here: only GetMetricData is"))
            }
        }
    }

    fn data(&self, asked: &Asked) -> Response<Bytes> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut results = Vec::new();
        for Query { id, metric_stat: Stat { metric, period, stat } } in &asked.metric_data_queries {
            if *period < 1 {
                return refused("InvalidParameterValue", "Period must be at least 1");
            }
            let mut periods: BTreeMap<i64, Vec<f64>> = BTreeMap::new();
            let series = kept.get(&format!("{}/{}", metric.namespace, metric.metric_name));
            for (at_ms, value) in series.into_iter().flatten() {
                let begin_s = at_ms.div_euclid(1_000).div_euclid(*period).saturating_mul(*period);
                if (asked.start_time..asked.end_time).contains(&seconds(begin_s)) {
                    periods.entry(begin_s).or_default().push(*value);
                }
            }
            let mut values = Vec::new();
            for all in periods.values_mut().rev() {
                match statistic(stat, all) {
                    Some(value) => values.push(value),
                    None => {
                        return refused(
                            "InvalidParameterValue",
                            &format!("{stat} is no statistic that is played here"),
                        );
                    }
                }
            }
            // The newest first, as CloudWatch orders them by default.
            let times: Vec<i64> = periods.keys().rev().copied().collect();
            results.push(json!({
                "Id": id, "Label": metric.metric_name, "StatusCode": "Complete", "Timestamps": times, "Values": values,
            }));
        }
        answered(StatusCode::OK, &json!({ "MetricDataResults": results, "Messages": [] }))
    }
}

fn operation(request: &Request<Bytes>) -> Option<&str> {
    request.headers().get("x-amz-target")?.to_str().ok()?.strip_prefix(TARGET)
}

/// A statistic of values, of which there is at least one.
fn statistic(name: &str, values: &mut [f64]) -> Option<f64> {
    let count = f64::from(u32::try_from(values.len()).ok()?);
    values.sort_by(f64::total_cmp);
    match name {
        "Sum" => Some(values.iter().sum()),
        "Average" => Some(values.iter().sum::<f64>() / count),
        "SampleCount" => Some(count),
        "Minimum" => values.first().copied(),
        "Maximum" => values.last().copied(),
        _ => {
            let share = name.strip_prefix('p')?.parse::<f64>().ok().filter(|share| (0.0..=100.0).contains(share))?;
            // The smallest value that so many are not above.
            values
                .iter()
                .zip(1_u32..)
                .find(|(_, rank)| f64::from(*rank) >= share / 100.0 * count)
                .map(|(value, _)| *value)
        }
    }
}

fn seconds(whole: i64) -> f64 {
    jiff::SignedDuration::from_secs(whole).as_secs_f64()
}

fn refused(kind: &str, why: &str) -> Response<Bytes> {
    answered(StatusCode::BAD_REQUEST, &json!({ "__type": kind, "message": why }))
}

fn answered(status: StatusCode, body: &Value) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from(body.to_string()));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/x-amz-json-1.0"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(at_s: i64, name: &str, value: &Value) -> String {
        let metrics = json!([{"Namespace": "Shop", "Dimensions": [[]], "Metrics": [{"Name": name, "Unit": "Count"}]}]);
        json!({"_aws": {"Timestamp": at_s * 1_000, "CloudWatchMetrics": metrics}, name: value}).to_string()
    }

    fn ask(metrics: &Metrics, name: &str, stat: &str) -> Value {
        let metric = json!({"Namespace": "Shop", "MetricName": name});
        let query = json!([{"Id": "q", "MetricStat": {"Metric": metric, "Period": 10, "Stat": stat}}]);
        let body = json!({"StartTime": 100, "EndTime": 130, "MetricDataQueries": query}).to_string();
        let request = Request::post("/").header("x-amz-target", "GraniteServiceVersion20100801.GetMetricData");
        let request = request.body(Bytes::from(body)).unwrap();
        assert!(Metrics::are_asked(&request));
        serde_json::from_slice(metrics.answer(&request).body()).unwrap()
    }

    #[test]
    fn lines_become_sums_of_periods_the_newest_first() {
        let metrics = Metrics::default();
        for (at_s, value) in [(99, 7), (100, 1), (109, 2), (120, 4), (130, 9)] {
            metrics.take(&line(at_s, "PurchaseRequests", &json!(value)));
        }
        metrics.take("not metrics");
        metrics.take(r#"{"_aws": 1}"#);
        let said = &ask(&metrics, "PurchaseRequests", "Sum")["MetricDataResults"][0];
        assert_eq!((&said["Timestamps"], &said["Values"]), (&json!([120, 100]), &json!([4.0, 3.0])));
        assert_eq!(ask(&metrics, "Other", "Sum")["MetricDataResults"][0]["Values"], json!([]));
    }

    #[test]
    fn a_line_may_have_many_values_and_shares_are_counted() {
        let metrics = Metrics::default();
        let times: Vec<u32> = (1..=100).collect();
        metrics.take(&line(100, "OrderLag", &json!(times)));
        for (stat, value) in
            [("p95", 95.0), ("p50", 50.0), ("Maximum", 100.0), ("Average", 50.5), ("SampleCount", 100.0)]
        {
            assert_eq!(ask(&metrics, "OrderLag", stat)["MetricDataResults"][0]["Values"], json!([value]), "{stat}");
        }
        assert_eq!(ask(&metrics, "OrderLag", "tm99")["__type"], "InvalidParameterValue");
    }

    #[test]
    fn what_is_old_goes() {
        let metrics = Metrics::default();
        metrics.take(&line(100, "PurchaseRequests", &json!(1)));
        metrics.take(&line(100 + 16 * 60, "PurchaseRequests", &json!(1)));
        assert_eq!(ask(&metrics, "PurchaseRequests", "Sum")["MetricDataResults"][0]["Values"], json!([]));
    }
}
