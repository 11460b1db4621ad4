//! Conditions and parts that the changes of an order share.

use domain::Timestamp;
use domain::ids::OrderId;
use domain::order::{Order, Status};
use domain::payment::{OpenPayment, PaidWith};

use crate::orders::OrderChange;
use crate::rows::{Change, Condition, Row, Transacted, Written, attribute, n, read_row, s, transact};
use crate::{Store, StoreError};

impl Store {
    pub(crate) fn order_row(&self, order: &OrderId) -> Change {
        Change::of(&self.names.orders, [("buyer", s(order.buyer())), ("order", s(order))])
    }

    /// Only if the order waits for payment.
    pub(crate) fn pending(&self, order: &OrderId) -> Change {
        self.order_row(order)
            .only_if("#status = :pending")
            .name("#status", "status")
            .value(":pending", s(Status::PendingPayment.as_str()))
    }

    /// Only if the open payment is this one; without one, only if none is open.
    pub(crate) fn open(&self, change: Change, payment: Option<&OpenPayment>) -> Change {
        match payment {
            None => change.only_if("attribute_not_exists(payment)"),
            Some(payment) => change
                .only_if("payment.#attempt = :attempt")
                .name("#attempt", "attempt")
                .value(":attempt", n(payment.attempt)),
        }
    }

    /// The order becomes PAID with a transaction, unless that transaction's money goes back.
    pub(crate) fn paid(
        &self,
        operation: &'static str,
        change: Change,
        with: &PaidWith,
        now: Timestamp,
    ) -> Result<Change, StoreError> {
        Ok(change
            .only_if("NOT contains(returned, :transaction)")
            .update("SET #status = :paid, paid = :with, paidAt = :now")
            .name("#status", "status")
            .value(":transaction", s(&with.transaction))
            .value(":paid", s(Status::Paid.as_str()))
            .value(":with", attribute(operation, with)?)
            .value(":now", n(now.as_millisecond())))
    }

    /// Sends a change of an order, together with a change of its buyer's account if there is one: in one transaction.
    pub(crate) async fn with_points(
        &self,
        operation: &'static str,
        change: Change,
        account: Option<Change>,
        order: &OrderId,
    ) -> Result<OrderChange, StoreError> {
        let Some(account) = account else {
            return order_change(operation, change.send(operation, &self.dynamodb).await?);
        };
        let parts = vec![change.part(operation)?, account.part(operation)?];
        match transact(operation, &self.dynamodb, parts).await? {
            // A transaction does not return what it wrote.
            Transacted::Done => match self.order(order).await? {
                Some(order) => Ok(OrderChange::Made(Box::new(order))),
                None => Err(StoreError::unreadable(operation, "the order that was changed is not there")),
            },
            Transacted::Refused(found) => match found.into_iter().next() {
                Some(Condition::Failed(row)) => Ok(OrderChange::Refused(read_order(operation, row)?)),
                _ => Err(StoreError::unreadable(operation, "the account does not hold the order's frozen points")),
            },
        }
    }
}

/// Points that are frozen for a payment.
pub(crate) fn frozen(order: &Order, payment: Option<&OpenPayment>) -> Option<i64> {
    let attempt = order.attempts.get(usize::from(payment?.attempt))?;
    (attempt.points > 0).then_some(attempt.points)
}

fn read_order(operation: &'static str, row: Option<Row>) -> Result<Option<Box<Order>>, StoreError> {
    row.map(|row| read_row(operation, row).map(Box::new)).transpose()
}

pub(crate) fn order_change(operation: &'static str, written: Written) -> Result<OrderChange, StoreError> {
    Ok(match written {
        Written::Done(row) => OrderChange::Made(Box::new(read_row(operation, row)?)),
        Written::Refused(row) => OrderChange::Refused(read_order(operation, row)?),
    })
}
