//! Each change of an order that has to do with paying.
//!
//! The order's row decides what every transaction of a provider's is for. Whatever must change together with it (frozen points, a
//! refund that is to be made, units that are sold directly) is in one transaction with it.

use aws_sdk_dynamodb::types::AttributeValue;
use domain::Timestamp;
use domain::bucket::{BucketNo, bucket_key};
use domain::claim::{Claim, ClaimState};
use domain::ids::OrderId;
use domain::order::{Order, Reason, Status};
use domain::payment::{Attempt, Link, OpenPayment, PaidWith, PayEntry, RefundCause, RefundEntry};

use crate::orders::OrderChange;
use crate::rows::{Change, Condition, Row, Transacted, Written, attribute, n, put_part, read_row, s, transact};
use crate::{Store, StoreError};

/// What became of opening a payment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Opened {
    /// It is open; the order as it is now.
    Open(Box<Order>),
    /// The order was not as the change expects.
    Refused,
    /// The buyer has too few points.
    PointsShort,
}

/// What became of paying with points alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PointsPaid {
    /// The order is paid.
    Paid,
    /// The order was not as the change expects.
    Refused,
    /// The buyer has too few points.
    PointsShort,
}

/// What became of reviving an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Revival {
    /// The order is paid and its units are sold.
    Revived,
    /// The order was not as the change expects: look again.
    Changed,
    /// The buyer has another live order of the item.
    Claimed,
    /// The bucket has not enough.
    Full,
}

impl Store {
    /// Opens a payment of an order that waits for it, if none is open. Its points are frozen with it.
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
        // The number at the provider is the place in the list: nobody else may have taken it.
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

    /// Keeps what the provider answered, if the payment is still that one and nobody has begun to close it.
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

    /// Marks a payment as being closed, so that nobody is sent to it any more.
    pub async fn closing_payment(&self, order: &OrderId, attempt: u8) -> Result<OrderChange, StoreError> {
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

    /// Takes a payment that cannot be made any more off its order, which goes on waiting. Its points thaw with it.
    pub async fn drop_payment(&self, order: &Order, payment: &OpenPayment) -> Result<OrderChange, StoreError> {
        const OPERATION: &str = "drop a payment";
        let change = self.open(self.pending(&order.id), Some(payment)).update("REMOVE payment");
        let thaw = frozen(order, Some(payment)).map(|points| self.thaw(&order.id, points));
        self.with_points(OPERATION, change, thaw, &order.id).await
    }

    /// Closes an order that waits for payment. `shut` is the payment that was closed at its provider before; without one, there
    /// must be none open. Its points thaw with it. With `deadline_passed`, only if its deadline is not after that moment: a
    /// schedule that fires early closes nothing.
    pub async fn close_order(
        &self,
        order: &OrderId,
        reason: Reason,
        now: Timestamp,
        deadline_passed: Option<Timestamp>,
        shut: Option<(&Order, &OpenPayment)>,
    ) -> Result<OrderChange, StoreError> {
        const OPERATION: &str = "close an order";
        let mut change = self
            .open(self.pending(order), shut.map(|(_, payment)| payment))
            .update("SET #status = :closed, #reason = :reason, closedAt = :now")
            .update("REMOVE payment")
            .name("#reason", "reason")
            .value(":closed", s(Status::Closed.as_str()))
            .value(":reason", attribute(OPERATION, &reason)?)
            .value(":now", n(now.as_millisecond()));
        if let Some(moment) = deadline_passed {
            change = change.only_if("payBy <= :moment").value(":moment", n(moment.as_millisecond()));
        }
        let thaw = shut.and_then(|(row, payment)| frozen(row, Some(payment))).map(|points| self.thaw(order, points));
        self.with_points(OPERATION, change, thaw, order).await
    }

    /// An order that waits is paid, by the transaction of one of its attempts. Points that are frozen are spent if they belong to
    /// that attempt, else they thaw. `order` is as it was read: if another payment was opened or closed since, nothing changes.
    pub async fn pay(&self, order: &Order, with: &PaidWith, now: Timestamp) -> Result<OrderChange, StoreError> {
        const OPERATION: &str = "pay an order";
        let open = order.payment.as_ref();
        let change =
            self.paid(OPERATION, self.open(self.pending(&order.id), open), with, now)?.update("REMOVE payment");
        let Some(points) = frozen(order, open) else {
            return self.with_points(OPERATION, change, None, &order.id).await;
        };
        let is_its_own = open.is_some_and(|payment| payment.attempt == with.attempt);
        let account = if is_its_own { self.spend(&order.id, points) } else { self.thaw(&order.id, points) };
        self.with_points(OPERATION, change, Some(account), &order.id).await
    }

    /// An order that waits, with no payment open, is paid with points alone: the debit, the order and the pay log change together.
    pub async fn pay_with_points(
        &self,
        order: &Order,
        with: &PaidWith,
        now: Timestamp,
    ) -> Result<PointsPaid, StoreError> {
        const OPERATION: &str = "pay an order with points";
        let change = self
            .paid(OPERATION, self.open(self.pending(&order.id), None), with, now)?
            .only_if("payBy > :moment")
            .value(":moment", n(now.as_millisecond()));
        let entry = PayEntry::new(order, with, now);
        let parts = vec![
            change.part(OPERATION)?,
            self.debit(&order.id.buyer(), with.points).part(OPERATION)?,
            put_part(OPERATION, &self.names.ledger, self.pay_row(OPERATION, &entry, false)?, "entry")?,
        ];
        Ok(match transact(OPERATION, &self.dynamodb, parts).await? {
            Transacted::Done => PointsPaid::Paid,
            Transacted::Refused(found) => match found.as_slice() {
                [Condition::Held, Condition::Failed(_), Condition::Held] => PointsPaid::PointsShort,
                _ => PointsPaid::Refused,
            },
        })
    }

    /// A closed order is paid after all: in one transaction it is PAID, its units are sold out of `bucket`, and the buyer's claim is
    /// its own again. The entry of the pay log, which [`Store::log_payment`] has made, is closed.
    pub async fn revive(
        &self,
        order: &Order,
        bucket: BucketNo,
        with: &PaidWith,
        now: Timestamp,
    ) -> Result<Revival, StoreError> {
        const OPERATION: &str = "revive an order";
        let revived = self
            .order_row(&order.id)
            .only_if("#status = :closed AND NOT contains(returned, :transaction)")
            .update("SET #bucket = :bucket")
            .update("REMOVE closedAt, #reason")
            .name("#bucket", "bucket")
            .name("#reason", "reason")
            .name("#status", "status")
            .value(":closed", s(Status::Closed.as_str()))
            .value(":transaction", s(&with.transaction))
            .value(":bucket", n(bucket));
        let offer = order.offer();
        let sold = Change::of(&self.names.stock, [("bucket", s(bucket_key(&offer, bucket)))])
            .only_if(
                "#free >= :quantity AND attribute_not_exists(holders.#order) AND attribute_not_exists(soldTo.#order)",
            )
            .update("SET #free = #free - :quantity, sold = sold + :quantity, soldTo.#order = :quantity")
            .name("#free", "free")
            .name("#order", order.id.as_str())
            .value(":quantity", n(order.quantity));
        let (id, quantity) = (order.id.clone(), order.quantity);
        let claim = Claim { order: id, quantity, bucket, state: ClaimState::Revived, previous_buckets: Vec::new() };
        let parts = vec![
            self.paid(OPERATION, revived, with, now)?.part(OPERATION)?,
            sold.part(OPERATION)?,
            self.claim_again(OPERATION, &offer, &order.buyer_name, &claim, now)?.part(OPERATION)?,
            self.pay_log_done(&order.id, with).part(OPERATION)?,
        ];
        Ok(match transact(OPERATION, &self.dynamodb, parts).await? {
            Transacted::Done => Revival::Revived,
            Transacted::Refused(found) => match found.as_slice() {
                [Condition::Failed(_), ..] => Revival::Changed,
                [_, _, Condition::Failed(_), ..] => Revival::Claimed,
                [_, Condition::Failed(_), ..] => Revival::Full,
                _ => Revival::Changed,
            },
        })
    }

    /// Decides that a transaction's money goes back: it can never pay for its order from now on, and its refund is to be made.
    /// False: the order is paid with it, or it was decided before.
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

    /// A paid order is to be refunded: its state and the entry that leads to the refund change together.
    pub async fn start_refund(&self, order: &Order, with: &PaidWith, now: Timestamp) -> Result<bool, StoreError> {
        const OPERATION: &str = "start a refund";
        let change = self
            .order_row(&order.id)
            .only_if("#status = :paid AND paid.#transaction = :transaction")
            .update("SET #status = :refunding")
            .name("#status", "status")
            .name("#transaction", "transaction")
            .value(":paid", s(Status::Paid.as_str()))
            .value(":refunding", s(Status::Refunding.as_str()))
            .value(":transaction", s(&with.transaction));
        let entry = RefundEntry::new(order, with, RefundCause::Order, now);
        let parts = vec![
            change.part(OPERATION)?,
            put_part(OPERATION, &self.names.ledger, self.refund_row(OPERATION, &entry)?, "entry")?,
        ];
        Ok(matches!(transact(OPERATION, &self.dynamodb, parts).await?, Transacted::Done))
    }

    /// The money of an order has gone back; its points go back with this.
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

    fn order_row(&self, order: &OrderId) -> Change {
        Change::of(&self.names.orders, [("buyer", s(order.buyer())), ("order", s(order))])
    }

    fn pending(&self, order: &OrderId) -> Change {
        self.order_row(order)
            .only_if("#status = :pending")
            .name("#status", "status")
            .value(":pending", s(Status::PendingPayment.as_str()))
    }

    /// Only if the open payment is this one, or there is none.
    fn open(&self, change: Change, payment: Option<&OpenPayment>) -> Change {
        match payment {
            None => change.only_if("attribute_not_exists(payment)"),
            Some(payment) => change
                .only_if("payment.#attempt = :attempt")
                .name("#attempt", "attempt")
                .value(":attempt", n(payment.attempt)),
        }
    }

    fn paid(
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

    /// Sends a change of an order, in one transaction with that of an account if there is one.
    async fn with_points(
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
            // A transaction does not show what it wrote.
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
fn frozen(order: &Order, payment: Option<&OpenPayment>) -> Option<i64> {
    let attempt = order.attempts.get(usize::from(payment?.attempt))?;
    (attempt.points > 0).then_some(attempt.points)
}

fn read_order(operation: &'static str, row: Option<Row>) -> Result<Option<Box<Order>>, StoreError> {
    row.map(|row| read_row(operation, row).map(Box::new)).transpose()
}

fn order_change(operation: &'static str, written: Written) -> Result<OrderChange, StoreError> {
    Ok(match written {
        Written::Done(row) => OrderChange::Made(Box::new(read_row(operation, row)?)),
        Written::Refused(row) => OrderChange::Refused(read_order(operation, row)?),
    })
}
