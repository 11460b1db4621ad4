//! Makes what a template declares and is not there yet. What is there is left alone; a table that is there with other
//! keys, indexes or another stream is refused.

use super::dynamodb::DynamoError;
use super::scheduler::SchedulerError;
use super::secrets::SecretsError;
use super::sqs::SqsError;
use super::{Cloud, OutsideError};
use crate::template::model::{Queue, Secret, SecretValue, Stack, Table};

/// Which resource could not be made, and why.
#[derive(Debug, thiserror::Error)]
pub enum ProvisionError {
    /// A table.
    #[error("table {name}: {source}")]
    Table {
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
        name: String,
        /// What SQS said.
        source: SqsError,
    },
    /// A schedule group.
    #[error("schedule group {name}: {source}")]
    ScheduleGroup {
        name: String,
        /// What Scheduler said.
        source: SchedulerError,
    },
    /// A secret.
    #[error("secret {name}: {source}")]
    Secret {
        name: String,
        /// What Secrets Manager said.
        source: SecretsError,
    },
    /// A secret that an outside service supplies.
    #[error("secret {name}: {source}")]
    OutsideSecret { name: String, source: OutsideError },
}

/// Where outside services are for code in the same process. Over the wire any host will do: the path decides.
const IN_PROCESS_URL: &str = "http://localhost";

impl Cloud {
    /// Makes the stack's tables, queues, schedule groups, event buses and secrets that are not there yet. Data is never
    /// reset; a queue that is there takes over the attributes that the template now gives it.
    ///
    /// Secrets that an outside service supplies hold its address in this process.
    pub async fn provision(&self, stack: &Stack) -> Result<(), ProvisionError> {
        self.provision_with(stack, IN_PROCESS_URL).await
    }

    /// The same, with outside services that functions reach at `base_url` followed by their path.
    pub async fn provision_with(&self, stack: &Stack, base_url: &str) -> Result<(), ProvisionError> {
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
        for bus in &stack.event_buses {
            self.events.create(bus);
        }
        for secret in &stack.secrets {
            self.provision_secret(secret, base_url).await?;
        }
        Ok(())
    }

    async fn provision_secret(&self, secret: &Secret, base_url: &str) -> Result<(), ProvisionError> {
        let name = || secret.name.clone();
        let refused = |source| ProvisionError::Secret { name: name(), source };
        for service in &self.outside {
            let supplied = service.secret(secret, format!("{base_url}{}", service.path())).await;
            let supplied = supplied.map_err(|source| ProvisionError::OutsideSecret { name: name(), source })?;
            if let Some(value) = supplied {
                return self.secrets.put(&secret.name, value).await.map(|_| ()).map_err(refused);
            }
        }
        let value = match &secret.value {
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
