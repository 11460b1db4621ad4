//! When the records of an order may be removed.

use jiff::SignedDuration;

use crate::Timestamp;
use crate::order::{Order, Status};

/// Whether nothing can follow for an order, and nothing has happened to it for as long as orders are kept.
///
/// An order that waits for money, in either direction, is never removed, and neither is one with an open entry in the
/// ledger: something about its money is not decided or not done.
pub fn is_removable(order: &Order, has_open_entry: bool, kept_for: SignedDuration, now: Timestamp) -> bool {
    let has_ended = match order.status {
        Status::Paid | Status::Closed | Status::Failed | Status::Refunded => true,
        Status::PendingPayment | Status::Refunding => false,
    };
    let known = [order.paid_at, order.closed_at, order.refunded_at].into_iter().flatten();
    let last = known.chain([order.created_at, order.pay_by]).max().unwrap_or(order.pay_by);
    has_ended && !has_open_entry && now.duration_since(last) >= kept_for
}
