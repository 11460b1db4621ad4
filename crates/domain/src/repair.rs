//! What to do about a holder in a bucket: the heart of reconcile. The bucket is the list of what is still to be done, because
//! every flow gives the holder up last.

use jiff::{SignedDuration, Timestamp};

use crate::bucket::BucketNo;
use crate::claim::{Claim, ClaimState};
use crate::ids::OrderId;
use crate::order::{Order, Status};

/// A holder younger than this is still being worked on. Longer than a message takes through the queue on a bad day, so that
/// a busy queue is not filled with second copies.
pub const GRACE: SignedDuration = SignedDuration::from_secs(60);

/// An order this long past its deadline has lost its schedule: Scheduler fires within 60 seconds.
pub const DEADLINE_MARGIN: SignedDuration = SignedDuration::from_secs(90);

/// What to do about a holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HolderVerdict {
    /// Nothing: it is as it should be, or too young to tell.
    Leave,
    /// The order message was lost: send it again, for the bucket of this holder.
    SendAgain,
    /// The deadline's schedule was lost: close the order as timed out.
    Close,
    /// The order is closed or failed, and what follows from that was not finished.
    FinishClose,
    /// The order is paid, and its units are not yet counted as sold.
    Confirm,
    /// The purchase lost its claim before it became an order: record it as failed and return the units.
    Fail,
    /// The order's units are held in another bucket: this hold came late. Return them.
    Release,
}

/// Whether a holder is old enough to be looked at.
pub fn is_due(order: &OrderId, now: Timestamp) -> bool {
    now.duration_since(order.pressed_at()) >= GRACE
}

/// The verdict on the holder `id` of `bucket`, by the order with that id and the buyer's claim on that item.
///
/// While a claim is HELD it may still be moved, and a message may be under way for any bucket that holds its order: none of them is
/// released, and the message that order-consumer takes first decides. Once the claim is ORDERED, or there is an order, its bucket
/// does not change any more, and what is held elsewhere came late.
pub fn verdict(
    id: &OrderId,
    bucket: BucketNo,
    order: Option<&Order>,
    claim: Option<&Claim>,
    now: Timestamp,
) -> HolderVerdict {
    if !is_due(id, now) {
        return HolderVerdict::Leave;
    }
    match (order, claim) {
        (Some(order), _) if order.bucket != bucket => HolderVerdict::Release,
        (Some(order), _) => match order.status {
            Status::PendingPayment if now.duration_since(order.pay_by) >= DEADLINE_MARGIN => HolderVerdict::Close,
            Status::PendingPayment => HolderVerdict::Leave,
            // Of a refunded order too: its units are on sale again, and this hold came late.
            Status::Closed | Status::Failed | Status::Refunded => HolderVerdict::FinishClose,
            Status::Paid | Status::Refunding => HolderVerdict::Confirm,
        },
        (None, Some(claim)) if claim.order == *id => match claim.state {
            ClaimState::Ordered | ClaimState::Revived if claim.bucket != bucket => HolderVerdict::Release,
            ClaimState::Held | ClaimState::Ordered | ClaimState::Revived => HolderVerdict::SendAgain,
        },
        (None, _) => HolderVerdict::Fail,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::ids::{Buyer, BuyerKey};
    use crate::message::sample::message;

    fn at(s: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + s).unwrap()
    }

    fn id(random: u32) -> OrderId {
        OrderId::new(at(0), &BuyerKey::of(&Buyer::parse("a").unwrap(), ""), random)
    }

    pub(crate) fn order(status: Status) -> Order {
        Order { id: id(1), status, pay_by: at(901), ..Order::of(&message(at(0)), at(1)) }
    }

    fn claim(order: OrderId, bucket: BucketNo, state: ClaimState) -> Claim {
        Claim { order, quantity: 1, bucket, state, previous_buckets: Vec::new() }
    }

    #[test]
    fn each_state_of_affairs_has_its_verdict() {
        let pending = order(Status::PendingPayment);
        let cases = [
            (None, None, 59, HolderVerdict::Leave),
            (Some(&pending), None, 60, HolderVerdict::Leave),
            (Some(&pending), None, 901 + 89, HolderVerdict::Leave),
            (Some(&pending), None, 901 + 90, HolderVerdict::Close),
            (Some(&order(Status::Closed)), None, 60, HolderVerdict::FinishClose),
            (Some(&order(Status::Failed)), None, 60, HolderVerdict::FinishClose),
            (Some(&order(Status::Paid)), None, 60, HolderVerdict::Confirm),
            (Some(&order(Status::Refunding)), None, 60, HolderVerdict::Confirm),
            (Some(&order(Status::Refunded)), None, 60, HolderVerdict::FinishClose),
            (Some(&Order { bucket: 6, ..pending.clone() }), None, 60, HolderVerdict::Release),
            (None, Some(&claim(id(1), 5, ClaimState::Held)), 60, HolderVerdict::SendAgain),
            (None, Some(&claim(id(1), 6, ClaimState::Held)), 60, HolderVerdict::SendAgain),
            (None, Some(&claim(id(1), 5, ClaimState::Ordered)), 60, HolderVerdict::SendAgain),
            (None, Some(&claim(id(1), 6, ClaimState::Ordered)), 60, HolderVerdict::Release),
            (None, Some(&claim(id(2), 5, ClaimState::Held)), 60, HolderVerdict::Fail),
            (None, None, 60, HolderVerdict::Fail),
        ];
        for (n, (order, claim, now, expected)) in cases.into_iter().enumerate() {
            assert_eq!(verdict(&id(1), 5, order, claim, at(now)), expected, "case {n}");
        }
    }
}
