//! Matters of money that wait for an operator, and the operator's decisions: entries of the ledger.

use domain::Timestamp;
use domain::ids::OrderId;
use domain::order::{Order, Reason, Status};
use domain::payment::{Matter, OpenEntry, RefundEntry, Resolved};

use crate::money_log::read_open;
use crate::orders::OrderChange;
use crate::rows::{Change, Condition, Row, Transacted, attribute, n, put, put_part, read_row, row, s, transact};
use crate::{Store, StoreError};

impl Store {
    /// The entries of an order that are marked open.
    pub async fn open_entries_of(&self, order: &OrderId) -> Result<Vec<OpenEntry>, StoreError> {
        const OPERATION: &str = "read an order's open entries";
        let entries = self.entries(order).await?;
        entries.into_iter().filter_map(|row| read_open(OPERATION, row).transpose()).collect()
    }

    /// Records an operator's decision, once.
    pub async fn log_resolved(&self, resolved: &Resolved) -> Result<(), StoreError> {
        const OPERATION: &str = "record an operator's decision";
        let request = self
            .dynamodb
            .put_item()
            .table_name(&self.names.ledger)
            .set_item(Some(self.resolved_row(OPERATION, resolved)?))
            .condition_expression("attribute_not_exists(entry)");
        put(OPERATION, request).await.map(|_| ())
    }

    /// Closes a matter: an operator has dealt with it.
    pub async fn close_matter(&self, matter: &Matter, resolved: &Resolved) -> Result<(), StoreError> {
        const OPERATION: &str = "close a matter";
        let change = Change::of(&self.names.ledger, [("order", s(&matter.order)), ("entry", s(matter.name()))])
            .only_if("attribute_exists(entry) AND attribute_not_exists(doneAt)")
            .update("SET doneAt = :now, doneBy = :by, reason = :reason")
            .update("REMOVE #open")
            .name("#open", "open")
            .value(":now", n(resolved.at.as_millisecond()))
            .value(":by", s(&resolved.by))
            .value(":reason", s(&resolved.reason));
        change.send(OPERATION, &self.dynamodb).await.map(|_| ())
    }

    /// Gives up the refund of an order: in one transaction the order is PAID again, the entry of the refund log is
    /// closed, and the decision is recorded. Returns false if the refund was finished at the same moment.
    pub async fn keep_as_paid(
        &self,
        entry: &RefundEntry,
        resolved: &Resolved,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        const OPERATION: &str = "keep an order as paid";
        let order = self
            .order_row(&entry.order)
            .only_if("#status = :refunding")
            .update("SET #status = :paid, kept = if_not_exists(kept, :zero) + :one")
            .name("#status", "status")
            .value(":refunding", s(Status::Refunding.as_str()))
            .value(":paid", s(Status::Paid.as_str()))
            .value(":zero", n(0))
            .value(":one", n(1));
        let log = self
            .refund_change(entry)
            .only_if("attribute_exists(#open)")
            .update("SET keptAt = :now")
            .update("REMOVE #open")
            .name("#open", "open")
            .value(":now", n(now.as_millisecond()));
        let parts = vec![
            order.part(OPERATION)?,
            log.part(OPERATION)?,
            put_part(OPERATION, &self.names.ledger, self.resolved_row(OPERATION, resolved)?, "entry")?,
        ];
        Ok(matches!(transact(OPERATION, &self.dynamodb, parts).await?, Transacted::Done))
    }

    /// Closes an order that waits, whatever its payment is at the provider, and records the decision in the same
    /// transaction. Frozen points thaw.
    pub async fn close_without_provider(
        &self,
        order: &Order,
        resolved: &Resolved,
        now: Timestamp,
    ) -> Result<OrderChange, StoreError> {
        const OPERATION: &str = "close an order without its provider";
        let open = order.payment.as_ref();
        let change = self
            .open(self.pending(&order.id), open)
            .update("SET #status = :closed, #reason = :reason, closedAt = :now")
            .update("REMOVE payment")
            .name("#reason", "reason")
            .value(":closed", s(Status::Closed.as_str()))
            .value(":reason", attribute(OPERATION, &Reason::Operator)?)
            .value(":now", n(now.as_millisecond()));
        let mut parts = vec![
            change.part(OPERATION)?,
            put_part(OPERATION, &self.names.ledger, self.resolved_row(OPERATION, resolved)?, "entry")?,
        ];
        if let Some(points) = crate::orders::change::frozen(order, open) {
            parts.push(self.thaw(&order.id, points).part(OPERATION)?);
        }
        match transact(OPERATION, &self.dynamodb, parts).await? {
            Transacted::Done => match self.order(&order.id).await? {
                Some(order) => Ok(OrderChange::Made(Box::new(order))),
                None => Err(StoreError::unreadable(OPERATION, "the order that was changed is not there")),
            },
            Transacted::Refused(found) => match found.into_iter().next() {
                Some(Condition::Failed(found)) => {
                    let found: Option<Order> = found.map(|row| read_row(OPERATION, row)).transpose()?;
                    Ok(OrderChange::Refused(found.map(Box::new)))
                }
                _ => Ok(OrderChange::Refused(self.order(&order.id).await?.map(Box::new))),
            },
        }
    }

    fn resolved_row(&self, operation: &'static str, resolved: &Resolved) -> Result<Row, StoreError> {
        let mut row = row(operation, resolved)?;
        row.insert("entry".to_owned(), s(resolved.name()));
        Ok(row)
    }
}
