//! Makes what a template declares and is not there yet. What is there is left alone; a table that is there with other
//! keys, indexes or another stream is refused.

use super::Cloud;
use super::dynamodb::DynamoError;
use super::scheduler::SchedulerError;
use super::secrets::SecretsError;
use super::sqs::SqsError;
use crate::sandbox::{IN_PROCESS_URL, SandboxError};
use crate::template::model::{Queue, Secret, SecretValue, Stack, Table};

/// Which resource could not be made, and why.
#[derive(Debug, thiserror::Error)]
pub enum ProvisionError {
    /// A table.
    #[error("table {name}: {source}")]
    Table {
        /// Its name.
        name: String,
        /// What DynamoDB said.
        source: DynamoError,
    },
    /// A table that is there and is another one.
    #[error("table {0} has other keys, indexes or stream than the template says: start over with --fresh")]
    TableChanged(String),
    /// A queue.
    #[error("queue {name}: {source}")]
    Queue {
        /// Its name.
        name: String,
        /// What SQS said.
        source: SqsError,
    },
    /// A schedule group.
    #[error("schedule group {name}: {source}")]
    ScheduleGroup {
        /// Its name.
        name: String,
        /// What Scheduler said.
        source: SchedulerError,
    },
    /// A secret.
    #[error("secret {name}: {source}")]
    Secret {
        /// Its name.
        name: String,
        /// What Secrets Manager said.
        source: SecretsError,
    },
    /// The secret with the providers' keys.
    #[error("secret {name}: {source}")]
    PaymentSecret {
        /// Its name.
        name: String,
        /// What the sandbox said.
        source: SandboxError,
    },
}

/// The secret that the providers' sandbox fills in, by its logical id.
const PAYMENT_SECRET: &str = "PaymentSecret";

impl Cloud {
    /// Makes the stack's tables, queues, schedule groups and secrets that are not there yet. Data is never reset; a queue
    /// that is there takes over the attributes that the template now gives it.
    ///
    /// A secret `PaymentSecret` that the template leaves as `{}` gets the settings of the providers' sandbox, which is in this
    /// process.
    pub async fn provision(&self, stack: &Stack) -> Result<(), ProvisionError> {
        self.provision_with(stack, IN_PROCESS_URL).await
    }

    /// The same, for a sandbox that is at `sandbox_url`.
    pub async fn provision_with(&self, stack: &Stack, sandbox_url: &str) -> Result<(), ProvisionError> {
        for table in &stack.tables {
            self.provision_table(table).await?;
        }
        // A redrive policy names its dead-letter queue, which must exist: queues without one come first.
        let (redriven, plain): (Vec<_>, Vec<_>) =
            stack.queues.iter().partition(|queue| queue.attributes.contains_key("RedrivePolicy"));
        for queue in plain.into_iter().chain(redriven) {
            self.provision_queue(queue)
                .await
                .map_err(|source| ProvisionError::Queue { name: queue.name.clone(), source })?;
        }
        for name in &stack.schedule_groups {
            match self.scheduler.create_group(name, None).await {
                Ok(_) | Err(SchedulerError::Conflict(_)) => {}
                Err(source) => {
                    return Err(ProvisionError::ScheduleGroup { name: name.clone(), source });
                }
            }
        }
        for secret in &stack.secrets {
            self.provision_secret(secret, sandbox_url).await?;
        }
        Ok(())
    }

    async fn provision_secret(&self, secret: &Secret, sandbox_url: &str) -> Result<(), ProvisionError> {
        let name = || secret.name.clone();
        let refused = |source| ProvisionError::Secret { name: name(), source };
        let is_sandbox = |text: &str| secret.logical_id == PAYMENT_SECRET && text.trim() == "{}";
        let value = match &secret.value {
            // At every start: the sandbox may be at another port now.
            SecretValue::Text(text) if is_sandbox(text) => {
                let settings = self.sandbox.settings(sandbox_url).await;
                let settings = settings.map_err(|source| ProvisionError::PaymentSecret { name: name(), source })?;
                return self.secrets.put(&secret.name, settings).await.map(|_| ()).map_err(refused);
            }
            SecretValue::Text(text) => text.clone(),
            SecretValue::Generated { length, into } => generated(*length, into.as_ref()).map_err(refused)?,
            SecretValue::None => return Ok(()),
        };
        if self.secrets.get(&secret.name).await.map_err(refused)?.is_none() {
            self.secrets.put(&secret.name, value).await.map_err(refused)?;
        }
        Ok(())
    }

    async fn provision_table(&self, table: &Table) -> Result<(), ProvisionError> {
        let refused = |source| ProvisionError::Table { name: table.name.clone(), source };
        match self.dynamodb.fits(&table.create).await.map_err(refused)? {
            Some(true) => {}
            Some(false) => return Err(ProvisionError::TableChanged(table.name.clone())),
            None => self.dynamodb.create_table(&table.create).await.map_err(refused)?,
        }
        if let Some(attribute) = &table.ttl_attribute {
            self.dynamodb.set_ttl_attribute(&table.name, attribute).await.map_err(refused)?;
        }
        Ok(())
    }

    async fn provision_queue(&self, queue: &Queue) -> Result<(), SqsError> {
        match self.sqs.create_queue(&queue.name, queue.attributes.clone()).await {
            Err(SqsError::QueueNameExists(_)) => self.sqs.set_attributes(&queue.name, queue.attributes.clone()).await,
            other => other.map(|_| ()),
        }
    }
}

/// Random letters and digits, alone or under a key of a JSON object.
fn generated(length: u32, into: Option<&(String, String)>) -> Result<String, SecretsError> {
    let mut text = String::new();
    while text.len() < usize::try_from(length).unwrap_or(usize::MAX) {
        text.extend(super::random_id().chars().filter(char::is_ascii_alphanumeric));
    }
    text.truncate(usize::try_from(length).unwrap_or(usize::MAX));
    let Some((template, key)) = into else { return Ok(text) };
    let no_object = || SecretsError::Invalid("SecretStringTemplate is no JSON object: write one".to_owned());
    let mut object: serde_json::Value = serde_json::from_str(template).map_err(|_| no_object())?;
    object.as_object_mut().ok_or_else(no_object)?.insert(key.clone(), text.into());
    Ok(object.to_string())
}
