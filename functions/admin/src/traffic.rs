//! What the functions measured lately: presses, acceptances and refusals per second, and how long orders take to
//! be placed.
//!
//! It comes from CloudWatch, which turns the functions' log lines (EMF) into metrics. It covers all sales
//! together and is some seconds late. CloudWatch accepts JSON, as DynamoDB does; the one call that is needed is
//! signed and sent here, without another SDK crate.

use std::collections::BTreeMap;
use std::time::{Duration, UNIX_EPOCH};

use aws_config::SdkConfig;
use aws_credential_types::provider::ProvideCredentials as _;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4;
use aws_smithy_runtime_api::client::http::{HttpConnector as _, SharedHttpConnector};
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::error::display::DisplayErrorContext;
use domain::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::json;
use telemetry::{Metric, namespace};
use tokio::sync::Mutex;

/// The length of one period.
const PERIOD_S: i32 = 10;
/// Points in a chart: five minutes.
const POINTS: i64 = 30;
/// How often one running function asks CloudWatch, which charges for each answer, however many consoles are open.
const FRESH_FOR_MS: i64 = 5_000;

/// CloudWatch, and its last answer.
#[derive(Debug)]
pub struct Traffic {
    config: SdkConfig,
    connection: SharedHttpConnector,
    last: Mutex<Option<(i64, Option<Measured>)>>,
}

/// What CloudWatch answers.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Answer {
    metric_data_results: Vec<Series>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Series {
    id: String,
    #[serde(default)]
    timestamps: Vec<f64>,
    #[serde(default)]
    values: Vec<f64>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Measured {
    period_seconds: i32,
    points: Vec<Point>,
}

/// The measurements of one period; rates are per second.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Point {
    at: Timestamp,
    requests: f64,
    accepted: f64,
    refused: f64,
    order_lag_ms: Option<f64>,
}

/// A metric, the name of its query, and the statistic.
const QUERIES: [(Metric, &str, &str); 4] = [
    (Metric::PurchaseRequests, "requests", "Sum"),
    (Metric::PurchaseAccepted, "accepted", "Sum"),
    (Metric::PurchaseRefused, "refused", "Sum"),
    (Metric::OrderLag, "lag", "p95"),
];

impl Traffic {
    pub fn new(config: &SdkConfig) -> Self {
        Self { config: config.clone(), connection: providers::https(), last: Mutex::default() }
    }

    /// The measurements of the last minutes; `None`: CloudWatch does not answer.
    pub(crate) async fn lately(&self, now: Timestamp) -> Option<Measured> {
        let now_ms = now.as_millisecond();
        let mut last = self.last.lock().await;
        if let Some((asked_ms, said)) = last.as_ref()
            && (0..FRESH_FOR_MS).contains(&(now_ms - asked_ms))
        {
            return said.clone();
        }
        let asked = self.ask(now).await;
        let said = asked.inspect_err(|error| tracing::warn!(error, "CloudWatch did not answer")).ok();
        *last = Some((now_ms, said.clone()));
        said
    }

    async fn ask(&self, now: Timestamp) -> Result<Measured, String> {
        let period = i64::from(PERIOD_S);
        let end_s = now.as_second() - now.as_second().rem_euclid(period);
        let begin_s = end_s - POINTS * period;
        let query = |(metric, id, stat): (Metric, &str, &str)| {
            let metric = json!({ "Namespace": namespace(), "MetricName": metric.name() });
            json!({ "Id": id, "MetricStat": { "Metric": metric, "Period": PERIOD_S, "Stat": stat } })
        };
        let asked =
            json!({ "StartTime": begin_s, "EndTime": end_s, "MetricDataQueries": QUERIES.map(query) }).to_string();
        let answer = self.call("GetMetricData", asked, now).await?;
        let answer: Answer = serde_json::from_slice(&answer).map_err(|error| error.to_string())?;
        Ok(measured(begin_s, &answer.metric_data_results))
    }

    /// One signed call, without a retry: the console asks again in a few seconds.
    async fn call(&self, operation: &str, body: String, now: Timestamp) -> Result<Vec<u8>, String> {
        let region = self.config.region().ok_or("no region is set")?;
        let url = match self.config.endpoint_url() {
            Some(endpoint) => format!("{}/", endpoint.trim_end_matches('/')),
            None if region.as_ref().starts_with("cn-") => format!("https://monitoring.{region}.amazonaws.com.cn/"),
            None => format!("https://monitoring.{region}.amazonaws.com/"),
        };
        let target = format!("GraniteServiceVersion20100801.{operation}");
        let host = url.split('/').nth(2).unwrap_or_default().to_owned();
        let headers =
            [("host", host.as_str()), ("content-type", "application/x-amz-json-1.0"), ("x-amz-target", &target)];
        let provider = self.config.credentials_provider().ok_or("no credentials are set")?;
        let credentials = provider.provide_credentials().await.map_err(whole)?;
        let identity = credentials.into();
        let ms = u64::try_from(now.as_millisecond()).map_err(|error| error.to_string())?;
        let parameters = v4::SigningParams::builder()
            .identity(&identity)
            .region(region.as_ref())
            .name("monitoring")
            .time(UNIX_EPOCH + Duration::from_millis(ms))
            .settings(SigningSettings::default())
            .build()
            .map_err(|error| error.to_string())?;
        let bytes = SignableBody::Bytes(body.as_bytes());
        let signable = SignableRequest::new("POST", &url, headers.into_iter(), bytes).map_err(|e| e.to_string())?;
        let (signature, _) = sign(signable, &parameters.into()).map_err(|error| error.to_string())?.into_parts();
        let mut request = HttpRequest::new(SdkBody::from(body.as_str()));
        request.set_method("POST").map_err(|error| error.to_string())?;
        request.set_uri(url.as_str()).map_err(|error| error.to_string())?;
        for (name, value) in headers {
            request.headers_mut().insert(name.to_owned(), value.to_owned());
        }
        for (name, value) in signature.headers() {
            request.headers_mut().insert(name.to_owned(), value.to_owned());
        }
        let answer = self.connection.call(request).await.map_err(whole)?;
        let status = answer.status();
        let body = answer.into_body().bytes().map(<[u8]>::to_vec).unwrap_or_default();
        if status.is_success() { Ok(body) } else { Err(format!("{status}: {}", String::from_utf8_lossy(&body))) }
    }
}

/// An error with its causes: alone it may say no more than "io error".
fn whole<E: std::error::Error>(error: E) -> String {
    DisplayErrorContext(error).to_string()
}

/// The answers as periods of equal length. A period is missing from an answer if nothing was measured in it.
fn measured(begin_s: i64, results: &[Series]) -> Measured {
    let values = |id: &str| -> BTreeMap<i64, f64> {
        let found = results.iter().find(|series| series.id == id);
        let pairs = found.into_iter().flat_map(|series| series.timestamps.iter().zip(&series.values));
        pairs
            .filter_map(|(at, value)| Some((Timestamp::from_duration(to_duration(*at)?).ok()?.as_second(), *value)))
            .collect()
    };
    let (requests, accepted, refused, lag) = (values("requests"), values("accepted"), values("refused"), values("lag"));
    let per_second = |sums: &BTreeMap<i64, f64>, at: i64| sums.get(&at).copied().unwrap_or(0.0) / f64::from(PERIOD_S);
    let point = |number: i64| {
        let at = begin_s + number * i64::from(PERIOD_S);
        Point {
            at: Timestamp::from_second(at).unwrap_or(Timestamp::UNIX_EPOCH),
            requests: per_second(&requests, at),
            accepted: per_second(&accepted, at),
            refused: per_second(&refused, at),
            order_lag_ms: lag.get(&at).copied(),
        }
    };
    Measured { period_seconds: PERIOD_S, points: (0..POINTS).map(point).collect() }
}

/// Seconds since 1970.
fn to_duration(seconds: f64) -> Option<jiff::SignedDuration> {
    jiff::SignedDuration::try_from_secs_f64(seconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_includes_its_causes() {
        use aws_smithy_runtime_api::client::result::ConnectorError;
        let said = whole(ConnectorError::io("connection refused".into()));
        assert!(said.contains("connection refused"), "{said}");
    }

    #[test]
    fn missing_periods_are_zero_and_sums_become_rates() {
        let result = |id: &str, pairs: &[(f64, f64)]| {
            let (timestamps, values) = pairs.iter().copied().unzip();
            Series { id: id.to_owned(), timestamps, values }
        };
        let results = [
            result("requests", &[(110.0, 30.0), (100.0, 50.0)]),
            result("refused", &[(110.0, 5.0)]),
            result("lag", &[(110.0, 40.5)]),
        ];
        let said = measured(100, &results);
        assert_eq!(said.points.len(), 30);
        let first = &said.points[0];
        assert_eq!((first.requests, first.refused, first.order_lag_ms), (5.0, 0.0, None));
        let second = &said.points[1];
        assert_eq!((second.requests, second.refused, second.order_lag_ms), (3.0, 0.5, Some(40.5)));
        assert_eq!(said.points[2].requests, 0.0);
    }
}
