//! Open WebSockets by buyer, and the tickets that open them.
//!
//! A ticket is good once and for a short while: it stands in a URL, where logs may see it. Only its digest is kept. Both kinds of row expire by themselves.

use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::types::ReturnValue;
use domain::Timestamp;
use domain::ids::BuyerKey;
use domain::ticket::Ticket;
use serde::Deserialize;

use crate::rows::{n, read_row, s};
use crate::{Store, StoreError};

/// Connections of one buyer that are told of a change. A person has a few windows; those that are gone are forgotten as they are found.
const TOLD: i32 = 20;
/// A connection's row outlives it: API Gateway ends a connection after two hours.
const KEPT_S: i64 = 3 * 60 * 60;
/// A connection is noted a moment before it is open, and looks gone until then. After so long it is open, or really gone.
const OPENS_WITHIN_MS: i64 = 5_000;

impl Store {
    /// Keeps a ticket for a buyer.
    pub async fn put_ticket(&self, ticket: &Ticket, buyer: &BuyerKey, good_until: Timestamp) -> Result<(), StoreError> {
        const OPERATION: &str = "keep a ticket";
        self.dynamodb
            .put_item()
            .table_name(&self.names.connections)
            .item("buyer", s(ticket_key(ticket)))
            .item("connection", s("TICKET"))
            .item("of", s(buyer))
            .item("expires", n(good_until.as_second()))
            .send()
            .await
            .map_err(|error| StoreError::of(OPERATION, &error))?;
        Ok(())
    }

    /// Takes a ticket, so that nobody can take it again; whose it was, if it is still good.
    pub async fn take_ticket(&self, ticket: &Ticket, now: Timestamp) -> Result<Option<BuyerKey>, StoreError> {
        const OPERATION: &str = "take a ticket";
        #[derive(Deserialize)]
        struct Kept {
            of: BuyerKey,
            expires: i64,
        }
        let output = self
            .dynamodb
            .delete_item()
            .table_name(&self.names.connections)
            .key("buyer", s(ticket_key(ticket)))
            .key("connection", s("TICKET"))
            .return_values(ReturnValue::AllOld)
            .send()
            .await
            .map_err(|error| StoreError::of(OPERATION, &error))?;
        let Some(row) = output.attributes else { return Ok(None) };
        let kept: Kept = read_row(OPERATION, row)?;
        // What has expired may lie there for days.
        Ok((kept.expires > now.as_second()).then_some(kept.of))
    }

    /// Notes that a buyer's connection is open. `opened` is what its stream's filter tells it from a ticket by.
    pub async fn open_connection(&self, buyer: &BuyerKey, id: &str, now: Timestamp) -> Result<(), StoreError> {
        const OPERATION: &str = "note a connection";
        self.dynamodb
            .put_item()
            .table_name(&self.names.connections)
            .item("buyer", s(buyer))
            .item("connection", s(id))
            .item("opened", n(now.as_millisecond()))
            .item("expires", n(now.as_second().saturating_add(KEPT_S)))
            .send()
            .await
            .map_err(|error| StoreError::of(OPERATION, &error))?;
        Ok(())
    }

    /// A buyer's connections.
    pub async fn connections_of(&self, buyer: &BuyerKey) -> Result<Vec<String>, StoreError> {
        const OPERATION: &str = "read a buyer's connections";
        #[derive(Deserialize)]
        struct Connection {
            connection: String,
        }
        let output = self
            .dynamodb
            .query()
            .table_name(&self.names.connections)
            .key_condition_expression("buyer = :buyer")
            .expression_attribute_values(":buyer", s(buyer))
            // A connection that was opened just before a change must be told of it.
            .consistent_read(true)
            .limit(TOLD)
            .send()
            .await
            .map_err(|error| StoreError::of(OPERATION, &error))?;
        let rows = output.items.unwrap_or_default().into_iter();
        rows.map(|row| read_row::<Connection>(OPERATION, row).map(|row| row.connection)).collect()
    }

    /// Forgets a connection that was found gone, unless it was noted just now: it may be about to open.
    pub async fn forget_gone_connection(&self, buyer: &BuyerKey, id: &str, now: Timestamp) -> Result<(), StoreError> {
        const OPERATION: &str = "forget a connection that is gone";
        let forgotten = self
            .dynamodb
            .delete_item()
            .table_name(&self.names.connections)
            .key("buyer", s(buyer))
            .key("connection", s(id))
            .condition_expression("#opened < :before")
            .expression_attribute_names("#opened", "opened")
            .expression_attribute_values(":before", n(now.as_millisecond().saturating_sub(OPENS_WITHIN_MS)))
            .send()
            .await;
        match forgotten {
            Ok(_) => Ok(()),
            Err(SdkError::ServiceError(error)) if error.err().is_conditional_check_failed_exception() => Ok(()),
            Err(error) => Err(StoreError::of(OPERATION, &error)),
        }
    }

    /// Forgets a connection that was closed.
    pub async fn forget_connection(&self, buyer: &BuyerKey, id: &str) -> Result<(), StoreError> {
        const OPERATION: &str = "forget a connection";
        self.dynamodb
            .delete_item()
            .table_name(&self.names.connections)
            .key("buyer", s(buyer))
            .key("connection", s(id))
            .send()
            .await
            .map_err(|error| StoreError::of(OPERATION, &error))?;
        Ok(())
    }
}

/// No buyer's key has such a form.
fn ticket_key(ticket: &Ticket) -> String {
    format!("TICKET#{}", ticket.digest())
}
