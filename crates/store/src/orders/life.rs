//! How an order ends or is paid: the conditional writes that change its status.
//!
//! The order's row decides what each transaction of a provider is for. Whatever must change together with it
//! (frozen points, the pay log, units that are sold directly) is in one transaction with it.

use domain::Timestamp;
use domain::bucket::{BucketNo, bucket_key};
use domain::claim::{Claim, ClaimState};
use domain::ids::OrderId;
use domain::order::{Order, Reason, Status};
use domain::payment::{OpenPayment, PaidWith, PayEntry};

use crate::orders::OrderChange;
use crate::orders::change::frozen;
use crate::rows::{Change, Condition, Transacted, attribute, n, put_part, s, transact};
use crate::{Store, StoreError};

/// The result of paying with points alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PointsPaid {
    Paid,
    /// The order was not in the expected state.
    Refused,
    /// The buyer has too few points.
    PointsShort,
}

/// The result of reviving an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Revival {
    /// The order is paid and its units are sold.
    Revived,
    /// The order was not in the expected state: read it again.
    Changed,
    /// The buyer has another live order of the item.
    Claimed,
    /// The bucket has too few units.
    Full,
}

impl Store {
    /// Closes an order that waits for payment. `closed_payment` is its open payment, which must be closed at the
    /// provider by now; without one, none may be open. Frozen points thaw with it. With `deadline_passed`, the
    /// order is closed only if its deadline is not after that moment: a schedule that fires early closes nothing.
    pub async fn close_order(
        &self,
        order: &OrderId,
        reason: Reason,
        now: Timestamp,
        deadline_passed: Option<Timestamp>,
        closed_payment: Option<(&Order, &OpenPayment)>,
    ) -> Result<OrderChange, StoreError> {
        const OPERATION: &str = "close an order";
        let mut change = self
            .open(self.pending(order), closed_payment.map(|(_, payment)| payment))
            .update("SET #status = :closed, #reason = :reason, closedAt = :now")
            .update("REMOVE payment")
            .name("#reason", "reason")
            .value(":closed", s(Status::Closed.as_str()))
            .value(":reason", attribute(OPERATION, &reason)?)
            .value(":now", n(now.as_millisecond()));
        if let Some(moment) = deadline_passed {
            change = change.only_if("payBy <= :moment").value(":moment", n(moment.as_millisecond()));
        }
        let thaw =
            closed_payment.and_then(|(row, payment)| frozen(row, Some(payment))).map(|points| self.thaw(order, points));
        self.with_points(OPERATION, change, thaw, order).await
    }

    /// Pays an order that waits, with the transaction of one of its attempts. Frozen points are spent if they
    /// belong to that attempt, else they thaw. `order` is as it was read: if another payment was opened or closed
    /// since, nothing changes.
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

    /// Pays an order that waits, with no payment open, with points alone: debit, order and pay log change in one
    /// transaction.
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

    /// Revives a closed order whose payment arrived late: in one transaction it becomes PAID, its units are sold
    /// from `bucket`, the buyer's claim is its own again, and the entry of the pay log, which
    /// [`Store::log_payment`] has made, is closed.
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
        // The order exists: it has the shop's data.
        let (state, previous_buckets, shop_data) = (ClaimState::Revived, Vec::new(), Default::default());
        let claim = Claim { order: id, quantity, bucket, state, previous_buckets, shop_data };
        let parts = vec![
            self.paid(OPERATION, revived, with, now)?.part(OPERATION)?,
            sold.part(OPERATION)?,
            self.claim_again(OPERATION, &offer, &order.buyer_name, &claim)?.part(OPERATION)?,
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
}
