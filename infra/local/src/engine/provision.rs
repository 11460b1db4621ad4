//! Makes what a template declares and is not there yet. What is there is left alone.

use super::Cloud;
use super::dynamodb::DynamoError;
use super::scheduler::SchedulerError;
use super::sqs::SqsError;
use crate::template::model::{Queue, Stack, Table};

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
}

impl Cloud {
    /// Makes the stack's tables, queues and schedule groups that are not there yet. Data is never reset; a queue that
    /// is there takes over the attributes that the template now gives it.
    pub async fn provision(&self, stack: &Stack) -> Result<(), ProvisionError> {
        for table in &stack.tables {
            self.provision_table(table)
                .await
                .map_err(|source| ProvisionError::Table { name: table.name.clone(), source })?;
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
        Ok(())
    }

    async fn provision_table(&self, table: &Table) -> Result<(), DynamoError> {
        if !self.dynamodb.table_exists(&table.name).await? {
            self.dynamodb.create_table(&table.create).await?;
        }
        if let Some(attribute) = &table.ttl_attribute {
            self.dynamodb.set_ttl_attribute(&table.name, attribute).await?;
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
