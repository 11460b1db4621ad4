//! Tests against the sandbox of the crate `payments` and against real sockets. Secrets Manager is an HTTP client for
//! the SDK that answers as the test says.

mod calls;
mod connections;
mod settings;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use aws_config::retry::RetryConfig;
use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_credential_types::Credentials;
use aws_credential_types::provider::SharedCredentialsProvider;
use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_runtime_api::client::stalled_stream_protection::StalledStreamProtectionConfig;
use aws_smithy_types::body::SdkBody;
use jiff::{SignedDuration, Timestamp};
use payments::ProviderKind;

use crate::{Providers, Random};

/// Seconds after the start of the test.
fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_794_355_500).unwrap() + SignedDuration::from_secs(seconds)
}

fn random() -> Random {
    Arc::new(|| [7; 16])
}

type Exchange = Result<http::Response<Vec<u8>>, ConnectorError>;

/// A connection that a function of the test answers.
#[derive(Clone)]
struct Scripted(Arc<dyn Fn(http::Request<Vec<u8>>) -> Exchange + Send + Sync>);

impl Scripted {
    fn new(script: impl Fn(http::Request<Vec<u8>>) -> Exchange + Send + Sync + 'static) -> Self {
        Self(Arc::new(script))
    }

    fn shared(script: impl Fn(http::Request<Vec<u8>>) -> Exchange + Send + Sync + 'static) -> SharedHttpConnector {
        SharedHttpConnector::new(Self::new(script))
    }
}

impl fmt::Debug for Scripted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Scripted")
    }
}

impl HttpConnector for Scripted {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let script = self.0.clone();
        HttpConnectorFuture::new(async move {
            // As over a network, other tasks run before the answer arrives.
            tokio::task::yield_now().await;
            let (parts, body) = request.try_into_http1x().unwrap().into_parts();
            let answer = script(http::Request::from_parts(parts, body.bytes().unwrap().to_vec()))?;
            Ok(HttpResponse::try_from(answer.map(SdkBody::from)).unwrap())
        })
    }
}

impl HttpClient for Scripted {
    fn http_connector(&self, _: &HttpConnectorSettings, _: &RuntimeComponents) -> SharedHttpConnector {
        SharedHttpConnector::new(self.clone())
    }
}

/// A connection over which nothing may be sent.
fn nowhere() -> SharedHttpConnector {
    Scripted::shared(|request| panic!("sent to {}", request.uri()))
}

/// What Secrets Manager answers.
#[derive(Clone)]
enum Says {
    Text(String),
    Binary,
    Refusal(&'static str),
    Nothing,
}

/// Secrets Manager with one secret.
#[derive(Clone)]
struct Secrets(Arc<Mutex<(Says, u32)>>);

impl Secrets {
    fn new(says: Says) -> Self {
        Self(Arc::new(Mutex::new((says, 0))))
    }

    fn holding(text: impl Into<String>) -> Self {
        Self::new(Says::Text(text.into()))
    }

    fn say(&self, says: Says) {
        self.0.lock().unwrap().0 = says;
    }

    fn hold(&self, text: impl Into<String>) {
        self.say(Says::Text(text.into()));
    }

    /// How many times it was called.
    fn asked(&self) -> u32 {
        self.0.lock().unwrap().1
    }

    fn answer(&self, request: &http::Request<Vec<u8>>) -> Exchange {
        assert_eq!(request.headers()["x-amz-target"], "secretsmanager.GetSecretValue");
        let asked: serde_json::Value = serde_json::from_slice(request.body()).unwrap();
        assert_eq!(asked["SecretId"], "the-secret");
        let mut state = self.0.lock().unwrap();
        state.1 += 1;
        let (status, body) = match &state.0 {
            Says::Text(text) => (200, serde_json::json!({"Name": "the-secret", "SecretString": text})),
            Says::Binary => (200, serde_json::json!({"Name": "the-secret", "SecretBinary": "AAAA"})),
            Says::Refusal(code) => (400, serde_json::json!({"__type": code, "Message": "no"})),
            Says::Nothing => return Err(ConnectorError::timeout("nobody there".into())),
        };
        let answer = http::Response::builder().status(status).header("content-type", "application/x-amz-json-1.1");
        Ok(answer.body(body.to_string().into_bytes()).unwrap())
    }

    fn config(&self) -> SdkConfig {
        let secrets = self.clone();
        let credentials = Credentials::new("id", "key", None, None, "test");
        SdkConfig::builder()
            .behavior_version(BehaviorVersion::v2026_01_12())
            .region(Region::from_static("us-east-1"))
            .credentials_provider(SharedCredentialsProvider::new(credentials))
            .http_client(Scripted::new(move |request| secrets.answer(&request)))
            .retry_config(RetryConfig::disabled())
            .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
            .build()
    }

    fn providers(&self, transport: SharedHttpConnector) -> Providers {
        Providers::new(&self.config(), Some("the-secret".to_owned()), transport, random())
    }
}

/// The secret with these providers' settings.
fn secret<const N: usize>(settings: [(ProviderKind, String); N]) -> String {
    let parts: BTreeMap<_, _> = settings.iter().map(|(kind, json)| (kind.as_str(), value(json))).collect();
    serde_json::to_string(&parts).unwrap()
}

fn value(json: &str) -> serde_json::Value {
    serde_json::from_str(json).unwrap()
}

/// Stripe's settings, which need no RSA key.
fn stripe(key: &str) -> (ProviderKind, String) {
    let settings = serde_json::json!({
        "secretKey": key, "webhookSecrets": ["whsec_0123456789abcdef"], "baseUrl": "http://127.0.0.1:9",
    });
    (ProviderKind::Stripe, settings.to_string())
}
