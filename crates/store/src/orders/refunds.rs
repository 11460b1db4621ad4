//! Refunds of an order, and money that goes back because its order does not need it.
//!
//! The order and the entry of the refund log change in one transaction: a refund that is decided is always found again.

use aws_sdk_dynamodb::types::AttributeValue;
use domain::Timestamp;
use domain::ids::OrderId;
use domain::order::{Order, Status};
use domain::payment::{PaidWith, RefundCause, RefundEntry};

use crate::orders::OrderChange;
use crate::orders::change::order_change;
use crate::rows::{Transacted, Written, n, put_part, put_part_if, s, transact};
use crate::{Store, StoreError};

/// What went back elsewhere is still what was read. Nothing is recorded as no attribute.
const REFUNDED_IS: &str = "paid.refunded = :recorded OR (attribute_not_exists(paid.refunded) AND :recorded = :nothing)";

impl Store {
    /// Decides that a transaction's money goes back: from now on it can never pay for its order, and its refund
    /// is in the log, marked open. Returns false if the order is paid with it, or if this was decided before.
    pub async fn return_money(&self, order: &Order, with: &PaidWith, now: Timestamp) -> Result<bool, StoreError> {
        const OPERATION: &str = "send money back";
        let change = self
            .order_row(&order.id)
            .only_if("attribute_exists(buyer) AND NOT contains(returned, :transaction)")
            .only_if("attribute_not_exists(paid) OR paid.#transaction <> :transaction")
            .update("ADD returned :transactions")
            .name("#transaction", "transaction")
            .value(":transaction", s(&with.transaction))
            .value(":transactions", AttributeValue::Ss(vec![with.transaction.clone()]));
        let entry = RefundEntry::new(order, with, RefundCause::NotNeeded, now);
        let parts = vec![
            change.part(OPERATION)?,
            put_part(OPERATION, &self.names.ledger, self.refund_row(OPERATION, &entry)?, "entry")?,
            self.pay_log_done(&order.id, with).part(OPERATION)?,
        ];
        Ok(matches!(transact(OPERATION, &self.dynamodb, parts).await?, Transacted::Done))
    }

    /// Starts the refund of a paid order: its status and the entry of the refund log change in one transaction.
    /// Returns false if the order is not paid with that transaction, or if another amount of it went back elsewhere.
    pub async fn start_refund(&self, order: &Order, with: &PaidWith, now: Timestamp) -> Result<bool, StoreError> {
        const OPERATION: &str = "start a refund";
        let change = self
            .order_row(&order.id)
            .only_if("#status = :paid AND paid.#transaction = :transaction")
            .only_if(REFUNDED_IS)
            .update("SET #status = :refunding")
            .value(":recorded", n(with.refunded))
            .value(":nothing", n(0))
            .name("#status", "status")
            .name("#transaction", "transaction")
            .value(":paid", s(Status::Paid.as_str()))
            .value(":refunding", s(Status::Refunding.as_str()))
            .value(":transaction", s(&with.transaction));
        let entry = RefundEntry::new(order, with, RefundCause::Order, now);
        let row = self.refund_row(OPERATION, &entry)?;
        // The entry of a refund that an operator gave up makes room for the new one.
        let log = match order.kept {
            0 => put_part(OPERATION, &self.names.ledger, row, "entry")?,
            _ => put_part_if(OPERATION, &self.names.ledger, row, "attribute_exists(keptAt)")?,
        };
        let parts = vec![change.part(OPERATION)?, log];
        Ok(matches!(transact(OPERATION, &self.dynamodb, parts).await?, Transacted::Done))
    }

    /// Records how much of the payment of an order the provider has sent back without being asked by this system.
    /// A smaller figure changes nothing: notices overtake each other.
    pub async fn record_foreign_refund(
        &self,
        order: &OrderId,
        transaction: &str,
        refunded: i64,
    ) -> Result<OrderChange, StoreError> {
        const OPERATION: &str = "record a refund made elsewhere";
        let change = self
            .order_row(order)
            .only_if("paid.#transaction = :transaction")
            .only_if("attribute_not_exists(paid.refunded) OR paid.refunded < :refunded")
            .update("SET paid.refunded = :refunded")
            .name("#transaction", "transaction")
            .value(":transaction", s(transaction))
            .value(":refunded", n(refunded));
        order_change(OPERATION, change.send(OPERATION, &self.dynamodb).await?)
    }

    /// Corrects what was recorded by [`Store::record_foreign_refund`], because such a refund failed afterwards. Returns
    /// false if the order is no longer paid, or if the figure is no longer the one in `with`.
    pub async fn correct_foreign_refund(
        &self,
        order: &OrderId,
        with: &PaidWith,
        refunded: i64,
    ) -> Result<bool, StoreError> {
        const OPERATION: &str = "correct a refund made elsewhere";
        let change = self
            .order_row(order)
            .only_if("#status = :paid AND paid.#transaction = :transaction")
            .only_if(REFUNDED_IS)
            .update("SET paid.refunded = :refunded")
            .name("#status", "status")
            .name("#transaction", "transaction")
            .value(":paid", s(Status::Paid.as_str()))
            .value(":transaction", s(&with.transaction))
            .value(":recorded", n(with.refunded))
            .value(":nothing", n(0))
            .value(":refunded", n(refunded));
        Ok(matches!(change.send(OPERATION, &self.dynamodb).await?, Written::Done(_)))
    }

    /// Finishes the refund of an order whose money is back. Its points go back with it.
    pub async fn finish_refund(&self, order: &OrderId, points: i64, now: Timestamp) -> Result<OrderChange, StoreError> {
        const OPERATION: &str = "finish a refund";
        let change = self
            .order_row(order)
            .only_if("#status = :refunding")
            .update("SET #status = :refunded, refundedAt = :now")
            .name("#status", "status")
            .value(":refunding", s(Status::Refunding.as_str()))
            .value(":refunded", s(Status::Refunded.as_str()))
            .value(":now", n(now.as_millisecond()));
        let credit = (points > 0).then(|| self.credit(&order.buyer(), points));
        self.with_points(OPERATION, change, credit, order).await
    }
}
