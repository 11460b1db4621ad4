//! How far a stream's consumer has read: kept here, so that it goes on where it stopped after a restart.

use rusqlite::OptionalExtension;

use super::Cloud;
use super::dynamodb::SequenceNumber;
use super::worker::Stopped;

/// Why a checkpoint could not be read or kept.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// The database refused.
    #[error("cloud.db: {0}")]
    Database(#[from] rusqlite::Error),
    /// The engine is gone.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

impl Cloud {
    /// The last record of `table`'s stream that `consumer` is done with.
    pub async fn checkpoint(&self, consumer: &str, table: &str) -> Result<Option<SequenceNumber>, CheckpointError> {
        let (consumer, table) = (consumer.to_owned(), table.to_owned());
        self.database
            .transaction(move |db| {
                let found: Option<String> = db
                    .prepare_cached("SELECT sequence FROM checkpoints WHERE consumer = ?1 AND stream = ?2")?
                    .query_row([consumer, table], |row| row.get(0))
                    .optional()?;
                Ok(found.and_then(|text| SequenceNumber::parse(&text)))
            })
            .await
    }

    /// Keeps that `consumer` is done with `table`'s records up to and with `sequence`.
    pub async fn save_checkpoint(
        &self,
        consumer: &str,
        table: &str,
        sequence: &SequenceNumber,
    ) -> Result<(), CheckpointError> {
        let row = [consumer.to_owned(), table.to_owned(), sequence.to_string()];
        self.database
            .transaction(move |db| {
                db.prepare_cached(
                    "INSERT OR REPLACE INTO checkpoints (consumer, stream, sequence) VALUES (?1, ?2, ?3)",
                )?
                .execute(row)?;
                Ok(())
            })
            .await
    }
}
