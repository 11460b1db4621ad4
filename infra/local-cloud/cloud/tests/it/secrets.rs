//! Secrets Manager through the SDK: the template's secrets, who may read them, and what can happen to a call.

use std::collections::BTreeMap;
use std::sync::Arc;

use aws_sdk_secretsmanager::Client;
use aws_sdk_secretsmanager::error::ProvideErrorMetadata as _;
use local_cloud::clock::Clock;
use local_cloud::endpoint::Endpoint;
use local_cloud::engine::{Cloud, Service};
use local_cloud::iam::{Policies, access_key_id};
use local_cloud::template;
use local_cloud::template::model::Stack;
use local_cloud::wire::{Fault, Wire};
use serde_json::Value;

use crate::target::{driven, over_http};

const TEMPLATE: &str = include_str!("../templates/secrets.yaml");

fn stack() -> Stack {
    template::read_str("secrets.yaml", TEMPLATE, &BTreeMap::new()).expect("a template")
}

async fn value(client: &Client, id: &str) -> String {
    client.get_secret_value().secret_id(id).send().await.expect("a value").secret_string.expect("a text")
}

#[tokio::test]
async fn a_secret_is_read_by_its_name_and_by_its_arn() {
    let (cloud, wire) = driven();
    let client = Client::new(&wire.sdk_config());
    let missing = client.get_secret_value().secret_id("keys").send().await.expect_err("missing").into_service_error();
    assert!(missing.is_resource_not_found_exception(), "{missing:?}");

    let put = cloud.secrets.put("keys", "one").await.expect("a secret");
    let answer = client.get_secret_value().secret_id("keys").send().await.expect("a value");
    assert_eq!((answer.secret_string(), answer.arn(), answer.name()), (Some("one"), Some(&*put.arn), Some("keys")));
    assert_eq!(answer.version_id(), Some(&*put.version));
    assert_eq!(answer.version_stages(), ["AWSCURRENT"]);
    assert_eq!(answer.created_date().map(|at| at.to_millis().expect("a time")), Some(crate::target::START_MS));
    assert_eq!(value(&client, &put.arn).await, "one");

    let second = cloud.secrets.put(&put.arn, "two").await.expect("a version");
    assert_eq!((second.name.as_str(), second.arn), ("keys", put.arn));
    assert_eq!(value(&client, "keys").await, "two");
    let old = client.get_secret_value().secret_id("keys").version_id(put.version).send().await.expect_err("gone");
    assert!(old.into_service_error().is_resource_not_found_exception());
    let stage = client.get_secret_value().secret_id("keys").version_stage("AWSPREVIOUS").send().await;
    assert!(stage.expect_err("none").into_service_error().is_resource_not_found_exception());
    let list = client.list_secrets().send().await.expect_err("not supported");
    assert_eq!(list.code(), Some("UnknownOperationException"));
    for (name, text) in [("", "x"), ("a b", "x"), ("keys", "")] {
        assert!(cloud.secrets.put(name, text).await.is_err(), "{name} {text}");
    }
}

#[tokio::test]
async fn the_templates_secrets_are_there_and_are_never_reset() {
    let (cloud, wire) = driven();
    let stack = stack();
    cloud.provision(&stack).await.expect("provisioned");
    let client = Client::new(&wire.sdk_config());
    assert_eq!(value(&client, "greeting").await, "hello");
    let made = value(&client, "local-Password").await;
    assert!(made.len() == 24 && made.chars().all(|c| c.is_ascii_alphanumeric()), "{made}");
    let login: Value = serde_json::from_str(&value(&client, "local-Login").await).expect("JSON");
    assert_eq!((login["user"].as_str(), login["password"].as_str().map(str::len)), (Some("shop"), Some(32)));
    let later = client.get_secret_value().secret_id("local-Later").send().await.expect_err("no value yet");
    assert!(later.into_service_error().is_resource_not_found_exception());
    // What the function is given is the full ARN.
    let arn = stack.functions[0].environment["PAYMENT_SECRET"].clone();
    assert_eq!(Some(&arn), stack.secrets.iter().find(|secret| secret.name == "payments").map(|secret| &secret.arn));
    assert!(arn.contains(":secret:payments-"), "{arn}");

    cloud.secrets.put("greeting", "good day").await.expect("a version");
    cloud.provision(&stack).await.expect("provisioned again");
    assert_eq!(value(&client, "greeting").await, "good day");
    assert_eq!(value(&client, "local-Password").await, made);
}

#[tokio::test]
async fn a_function_reads_the_secrets_that_its_policy_names() {
    let stack = stack();
    let cloud = Cloud::in_memory(Clock::wall()).expect("engines");
    cloud.provision(&stack).await.expect("provisioned");
    let policies = Arc::new(Policies::from_stack(&stack));
    let endpoint = Endpoint::start(cloud, 0, Some(policies.authorizer())).await.expect("an endpoint");
    let client = Client::new(&over_http(&endpoint.url(), &access_key_id("local-ShopFunction")));
    assert_eq!(value(&client, "payments").await, "{}");
    let denied = client.get_secret_value().secret_id("greeting").send().await.expect_err("not in the policy");
    assert_eq!(denied.code(), Some("AccessDeniedException"));
    assert!(denied.message().is_some_and(|text| text.contains("secretsmanager:GetSecretValue")), "{denied:?}");
    endpoint.stop().await;
}

#[tokio::test]
async fn faults_apply_to_secrets_too() {
    let (cloud, _) = driven();
    cloud.secrets.put("keys", "one").await.expect("a secret");
    for fault in [Fault::Throttled, Fault::ServerError] {
        let wire = Wire::new(cloud.clone()).with_faults(move |call| {
            let first = call.service == Service::SecretsManager && call.resource().as_deref() == Some("keys");
            if first && call.number == 1 { fault } else { Fault::None }
        });
        assert_eq!(value(&Client::new(&wire.sdk_config()), "keys").await, "one", "the SDK tries again");
        assert_eq!(wire.calls().len(), 2, "{fault:?}");
    }
}

#[test]
fn mistakes_about_secrets_are_told_with_their_line() {
    let line = TEMPLATE.lines().position(|line| line.contains("SecretString: hello")).expect("a line") + 1;
    for (wrong, says) in [
        ("SecretString: hello, GenerateSecretString: {}", "not both"),
        ("SecretStrin: hello", "did you mean SecretString"),
        ("GenerateSecretString: {ExcludeCharacters: abc}", "ExcludeCharacters"),
        ("GenerateSecretString: {GenerateStringKey: abc}", "go together"),
    ] {
        let text = TEMPLATE.replace("SecretString: hello", wrong);
        let error = template::read_str("t.yaml", &text, &BTreeMap::new()).expect_err("a mistake").to_string();
        assert!(error.starts_with(&format!("t.yaml:{line}")) && error.contains(says), "{error}");
    }
}
