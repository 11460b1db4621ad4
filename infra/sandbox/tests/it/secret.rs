//! The secret of the template that the sandbox supplies.

use std::collections::BTreeMap;

use aws_sdk_secretsmanager::Client;
use local_cloud::template::{self, model::Stack};
use local_cloud::wire::Wire;
use payments::{Provider, ProviderKind};
use serde_json::Value;

use crate::merchant::driven;

const TEMPLATE: &str = "
Transform: AWS::Serverless-2016-10-31
Resources:
  PaymentSecret:
    Type: AWS::SecretsManager::Secret
    Properties:
      Name: payments
      SecretString: '{}'
";

fn stack() -> Stack {
    template::read_str("template.yaml", TEMPLATE, &BTreeMap::new()).expect("a template")
}

async fn value(client: &Client, id: &str) -> String {
    client.get_secret_value().secret_id(id).send().await.expect("a value").secret_string.expect("a text")
}

#[tokio::test]
async fn the_payment_secret_is_filled_by_the_sandbox() {
    let cloud = driven();
    let wire = Wire::new(cloud.clone());
    cloud.provision_with(&stack(), "http://127.0.0.1:4000").await.expect("provisioned");
    let client = Client::new(&wire.sdk_config());
    let first = value(&client, "payments").await;
    let settings: Value = serde_json::from_str(&first).expect("JSON");
    assert_eq!(settings.as_object().map(|all| all.len()), Some(4));
    for kind in ProviderKind::ALL {
        let settings = settings[kind.as_str()].to_string();
        Provider::from_json(kind, &settings).unwrap_or_else(|error| panic!("{kind}: {error}"));
        assert!(settings.contains(&format!("http://127.0.0.1:4000/_sandbox/{kind}")), "{kind}");
    }
    // The next start may be at another port.
    cloud.provision_with(&stack(), "http://127.0.0.1:5000").await.expect("provisioned");
    assert_eq!(value(&client, "payments").await, first.replace(":4000", ":5000"));

    // Settings of the template's own are left alone.
    let cloud = driven();
    let wire = Wire::new(cloud.clone());
    let own = TEMPLATE.replace("SecretString: '{}'", r#"SecretString: '{"stripe": {}}'"#);
    let stack = template::read_str("secrets.yaml", &own, &BTreeMap::new()).expect("a template");
    cloud.provision(&stack).await.expect("provisioned");
    assert_eq!(value(&Client::new(&wire.sdk_config()), "payments").await, r#"{"stripe": {}}"#);
}
