//! Open WebSockets by buyer, and the tickets that open them.
//!
//! A ticket is valid once and for a short time, because it is part of a URL, which may appear in logs. Only its
//! digest is stored. Both kinds of rows expire.
//!
//! One more row is a mark that says until when somebody may be connected. It is written before a connection is
//! recorded. While it is missing or in the past there is no connection to look for.

use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::types::ReturnValue;
use domain::Timestamp;
use domain::ids::BuyerKey;
use domain::ticket::Ticket;
use serde::Deserialize;

use crate::rows::{n, put, read_row, s};
use crate::{Store, StoreError};

/// Connections of one buyer that are notified of a change. A person has a few windows; closed ones are removed
/// when they are found.
const TOLD: i32 = 20;
/// How long a connection's row is kept. It outlives the connection, which API Gateway ends after two hours.
const KEPT_S: i64 = 3 * 60 * 60;
/// The mark is written again when it is this much older than a new one: it still outlives the newest connection.
const MARKED_ANEW_AFTER_S: i64 = 10 * 60;
/// The mark's key. No buyer's key has this form.
const MARK: &str = "MARK";
/// A connection is recorded a moment before it is open, and looks closed until then. After this time it is open,
/// or really closed.
const OPENS_WITHIN_MS: i64 = 5_000;

impl Store {
    /// Stores a ticket of a buyer.
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

    /// Redeems a ticket, which works once. Returns its buyer, if it is still valid.
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
        // DynamoDB may keep an expired row for days.
        Ok((kept.expires > now.as_second()).then_some(kept.of))
    }

    /// Writes the mark that somebody is connected, unless `known`, the time until which it was last seen or written, is
    /// late enough. Returns the time that is known now. It never moves back.
    pub async fn mark_connections(&self, known: Option<i64>, now: Timestamp) -> Result<i64, StoreError> {
        const OPERATION: &str = "mark that somebody is connected";
        let until = now.as_second().saturating_add(KEPT_S);
        if let Some(known) = known.filter(|known| known.saturating_add(MARKED_ANEW_AFTER_S) > until) {
            return Ok(known);
        }
        let request = self
            .dynamodb
            .put_item()
            .table_name(&self.names.connections)
            .item("buyer", s(MARK))
            .item("connection", s(MARK))
            .item("expires", n(until))
            .condition_expression("attribute_not_exists(#expires) OR #expires < :until")
            .expression_attribute_names("#expires", "expires")
            .expression_attribute_values(":until", n(until));
        // Refused: another function has just marked a time that is as late.
        put(OPERATION, request).await.map(|_| until)
    }

    /// Until when somebody may be connected, in seconds; `None` if nobody is. The read is strongly consistent: it finds
    /// the mark of every connection that was recorded before.
    pub async fn connections_marked(&self, now: Timestamp) -> Result<Option<i64>, StoreError> {
        const OPERATION: &str = "read whether somebody is connected";
        #[derive(Deserialize)]
        struct Mark {
            expires: i64,
        }
        let output = self
            .dynamodb
            .get_item()
            .table_name(&self.names.connections)
            .key("buyer", s(MARK))
            .key("connection", s(MARK))
            .consistent_read(true)
            .send()
            .await
            .map_err(|error| StoreError::of(OPERATION, &error))?;
        let Some(row) = output.item else { return Ok(None) };
        let mark: Mark = read_row(OPERATION, row)?;
        // DynamoDB may keep an expired row for days.
        Ok(Some(mark.expires).filter(|expires| *expires > now.as_second()))
    }

    /// Records that a buyer's connection is open. By `opened` the stream's filter tells it from a ticket.
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
            // A connection that opened just before a change must be notified of it.
            .consistent_read(true)
            .limit(TOLD)
            .send()
            .await
            .map_err(|error| StoreError::of(OPERATION, &error))?;
        let rows = output.items.unwrap_or_default().into_iter();
        rows.map(|row| read_row::<Connection>(OPERATION, row).map(|row| row.connection)).collect()
    }

    /// Removes a connection that was found closed, unless it was recorded a moment ago: it may be about to open.
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

    /// Removes a connection that was closed.
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

/// No buyer's key has this form.
fn ticket_key(ticket: &Ticket) -> String {
    format!("TICKET#{}", ticket.digest())
}
