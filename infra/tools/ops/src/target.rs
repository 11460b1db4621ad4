//! The system to operate: the local cloud, found by its address, or a stage, found by the outputs of its stack and
//! reached with the AWS credentials of this machine.

use std::collections::BTreeMap;
use std::path::Path;

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_credential_types::Credentials;
use aws_credential_types::provider::SharedCredentialsProvider;
use serde_json::Value;
use store::dead_letters::{DeadLetters, Queues};

use crate::api::{Api, ApiError};

/// Why the system cannot be reached.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    #[error("no local cloud answers at {0}: start it with `make run`, or give its address with --base-url")]
    NotRunning(String),
    #[error("the server at {0} is not the local cloud: give the address of the local cloud with --base-url")]
    NotTheLocalCloud(String),
    #[error("{file} is not the output of `sam list stack-outputs --output json`: {why}")]
    Outputs { file: String, why: String },
    #[error("the stack has no output {0}: deploy the current template.yaml, which has it")]
    NoOutput(&'static str),
}

/// The system and how to reach it.
#[derive(Debug)]
pub struct Target {
    pub config: SdkConfig,
    pub dead_letters: DeadLetters,
}

impl Target {
    /// The local cloud that answers at `base_url`.
    pub async fn local(base_url: &str) -> Result<Self, TargetError> {
        let stack = local_stack(base_url).await?;
        let not_ours = || TargetError::NotTheLocalCloud(base_url.to_owned());
        let endpoint = stack.pointer("/live/endpoint").and_then(Value::as_str).ok_or_else(not_ours)?;
        let credentials = Credentials::new(local_cloud::iam::ROOT_ACCESS_KEY_ID, "local", None, None, "local cloud");
        let config = SdkConfig::builder()
            .behavior_version(BehaviorVersion::v2026_01_12())
            .region(Region::from_static(local_cloud::REGION))
            .endpoint_url(endpoint)
            .credentials_provider(SharedCredentialsProvider::new(credentials))
            .build();
        Self::of(config, |name| stack.pointer("/live/outputs")?.get(name)?.as_str().map(str::to_owned))
    }

    /// A stage with these outputs, reached with the AWS credentials of this machine.
    pub async fn stage(output: impl Fn(&str) -> Option<String>) -> Result<Self, TargetError> {
        Self::of(aws_config::load_defaults(BehaviorVersion::v2026_01_12()).await, output)
    }

    fn of(config: SdkConfig, output: impl Fn(&str) -> Option<String>) -> Result<Self, TargetError> {
        let url = |name: &'static str| output(name).ok_or(TargetError::NoOutput(name));
        let queues = Queues {
            orders_queue: url("OrdersQueueUrl")?,
            orders_dead_letters: url("OrdersDeadLettersUrl")?,
            timeout_dead_letters: url("TimeoutDeadLettersUrl")?,
            stock_stream_dead_letters: url("StockStreamDeadLettersUrl")?,
            push_dead_letters: url("PushDeadLettersUrl")?,
            reconcile_dead_letters: url("ReconcileDeadLettersUrl")?,
        };
        Ok(Self { dead_letters: DeadLetters::new(&config, queues), config })
    }
}

/// The outputs of a stack, from a file with SAM's list of them.
pub fn read_outputs(file: &Path) -> Result<BTreeMap<String, String>, TargetError> {
    let wrong = |why: String| TargetError::Outputs { file: file.display().to_string(), why };
    let text = std::fs::read_to_string(file).map_err(|error| wrong(error.to_string()))?;
    let list: Vec<Value> = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    let text = |output: &Value, key: &str| output.get(key).and_then(Value::as_str).map(str::to_owned);
    list.iter()
        .map(|output| text(output, "OutputKey").zip(text(output, "OutputValue")))
        .map(|pair| pair.ok_or_else(|| wrong("an output without OutputKey or OutputValue".to_owned())))
        .collect()
}

async fn local_stack(base_url: &str) -> Result<Value, TargetError> {
    let as_target_error = |error: ApiError| match error {
        ApiError::NoAnswer { .. } | ApiError::Certificates(_) => TargetError::NotRunning(base_url.to_owned()),
        ApiError::Refused { .. } | ApiError::NotTheLocalCloud(_) => TargetError::NotTheLocalCloud(base_url.to_owned()),
    };
    Api::at(base_url).map_err(as_target_error)?.get("/_local/stack").await.map_err(as_target_error)
}

#[cfg(test)]
mod tests {
    use super::{Target, TargetError, read_outputs};
    use crate::api::tests::server_answering;

    #[tokio::test]
    async fn another_server_is_not_mistaken_for_the_local_cloud() {
        for said in ["{}", "<html>"] {
            let error = Target::local(&server_answering(said).await).await.unwrap_err();
            assert!(matches!(error, TargetError::NotTheLocalCloud(_)), "{error}");
        }
        let error = Target::local("http://127.0.0.1:1").await.unwrap_err();
        assert!(matches!(error, TargetError::NotRunning(_)), "{error}");
    }

    #[test]
    fn outputs_are_read_from_the_list_of_sam() {
        let file = std::env::temp_dir().join(format!("outputs-{}.json", std::process::id()));
        std::fs::write(&file, r#"[{"OutputKey": "ApiUrl", "OutputValue": "https://x", "Description": "where"}]"#)
            .unwrap();
        assert_eq!(read_outputs(&file).unwrap().get("ApiUrl").map(String::as_str), Some("https://x"));
        std::fs::write(&file, "no such stack").unwrap();
        assert!(read_outputs(&file).unwrap_err().to_string().contains("sam list stack-outputs"));
        std::fs::remove_file(&file).unwrap();
    }
}
