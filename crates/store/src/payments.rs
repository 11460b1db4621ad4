//! The open payment of an order, while the order waits.

use aws_sdk_dynamodb::types::AttributeValue;
use domain::Timestamp;
use domain::ids::OrderId;
use domain::order::Order;
use domain::payment::{Attempt, Link, OpenPayment};

use crate::orders::OrderChange;
use crate::orders::change::{frozen, order_change};
use crate::rows::{Condition, Transacted, attribute, n, transact};
use crate::{Store, StoreError};

/// The result of opening a payment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Opened {
    /// It is open; the order as it is now.
    Open(Box<Order>),
    /// The order was not in the expected state.
    Refused,
    /// The buyer has too few points.
    PointsShort,
}

impl Store {
    /// Opens a payment of an order that waits, if none is open. Its points are frozen with it.
    pub async fn open_payment(
        &self,
        order: &Order,
        attempt: &Attempt,
        payment: &OpenPayment,
        now: Timestamp,
    ) -> Result<Opened, StoreError> {
        const OPERATION: &str = "open a payment";
        let change = self
            .pending(&order.id)
            .only_if("attribute_not_exists(payment) AND payBy > :now")
            .update("SET payment = :payment")
            .update("SET attempts = list_append(if_not_exists(attempts, :none), :attempt)")
            .value(":payment", attribute(OPERATION, payment)?)
            .value(":attempt", AttributeValue::L(vec![attribute(OPERATION, attempt)?]))
            .value(":none", AttributeValue::L(Vec::new()))
            .value(":now", n(now.as_millisecond()));
        // The attempt's place in the list is its number at the provider: no other request may have taken it.
        let change = match payment.attempt {
            0 => change.only_if("attribute_not_exists(attempts)"),
            taken => change.only_if("size(attempts) = :taken").value(":taken", n(taken)),
        };
        if attempt.points == 0 {
            return Ok(match order_change(OPERATION, change.send(OPERATION, &self.dynamodb).await?)? {
                OrderChange::Made(order) => Opened::Open(order),
                OrderChange::Refused(_) => Opened::Refused,
            });
        }
        let parts = vec![change.part(OPERATION)?, self.freeze(&order.id, attempt.points).part(OPERATION)?];
        match transact(OPERATION, &self.dynamodb, parts).await? {
            Transacted::Done => {
                let mut opened = order.clone();
                opened.attempts.push(attempt.clone());
                opened.payment = Some(payment.clone());
                Ok(Opened::Open(Box::new(opened)))
            }
            Transacted::Refused(found) => match found.into_iter().next() {
                Some(Condition::Failed(_)) => Ok(Opened::Refused),
                Some(Condition::Held) | None => Ok(Opened::PointsShort),
            },
        }
    }

    /// Keeps the link that the provider answered, if the payment is still the same and is not being closed.
    pub async fn keep_link(&self, order: &OrderId, attempt: u8, link: &Link) -> Result<OrderChange, StoreError> {
        const OPERATION: &str = "keep a payment's link";
        let change = self
            .pending(order)
            .only_if("payment.#attempt = :attempt AND payment.closing = :false")
            .update("SET payment.#link = :link")
            .value(":false", AttributeValue::Bool(false))
            .name("#attempt", "attempt")
            .name("#link", "link")
            .value(":attempt", n(attempt))
            .value(":link", attribute(OPERATION, link)?);
        order_change(OPERATION, change.send(OPERATION, &self.dynamodb).await?)
    }

    /// Marks a payment as being closed, so that no buyer is sent to it from now on.
    pub async fn mark_payment_closing(&self, order: &OrderId, attempt: u8) -> Result<OrderChange, StoreError> {
        const OPERATION: &str = "begin to close a payment";
        let change = self
            .pending(order)
            .only_if("payment.#attempt = :attempt")
            .update("SET payment.closing = :true")
            .name("#attempt", "attempt")
            .value(":attempt", n(attempt))
            .value(":true", AttributeValue::Bool(true));
        order_change(OPERATION, change.send(OPERATION, &self.dynamodb).await?)
    }

    /// Removes a payment that can no longer be made from its order, which goes on waiting. Its points thaw with it.
    pub async fn drop_payment(&self, order: &Order, payment: &OpenPayment) -> Result<OrderChange, StoreError> {
        const OPERATION: &str = "drop a payment";
        let change = self.open(self.pending(&order.id), Some(payment)).update("REMOVE payment");
        let thaw = frozen(order, Some(payment)).map(|points| self.thaw(&order.id, points));
        self.with_points(OPERATION, change, thaw, &order.id).await
    }
}
