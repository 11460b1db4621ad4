//! What to do about a holder that is still in its bucket: the core of `reconcile`.
//!
//! A holder is an order's entry in a bucket: its units are neither free nor sold. Every flow removes the holder in its
//! last step. So a flow that crashed has left its holder behind, and the buckets together are the complete list of
//! unfinished work. `reconcile` walks them every minute and asks [`holder_verdict`] about each holder.

use jiff::{SignedDuration, Timestamp};

use crate::bucket::BucketNo;
use crate::claim::{Claim, ClaimState};
use crate::ids::OrderId;
use crate::order::{Order, Status};

/// A holder younger than this is left alone, because its purchase is probably still in progress. This is longer than a
/// message usually waits in a busy queue, so that repairs do not add duplicates to a queue that is already slow.
pub const GRACE: SignedDuration = SignedDuration::from_secs(60);

/// An order that is still pending this long after its deadline has lost its schedule: EventBridge Scheduler starts its
/// target within 60 seconds.
pub const DEADLINE_MARGIN: SignedDuration = SignedDuration::from_secs(90);

/// What `reconcile` does about a holder. Each action is a flow that can run at any time and any number of times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HolderVerdict {
    /// Nothing is wrong, or it is too early to know.
    Leave,
    /// The order message was lost. Send it again, with the bucket of this holder.
    SendAgain,
    /// The schedule of the payment deadline was lost. Close the order as timed out.
    Close,
    /// The order has ended, and a crash interrupted the steps that follow. Repeat them; the last one frees the units.
    FinishClose,
    /// The order is refunded, and its units were not given back yet. Give them back.
    GiveBack,
    /// The order is paid, and a crash interrupted the steps that follow. Count the units as sold.
    Confirm,
    /// The purchase lost its claim before it became an order. Record the order as FAILED and free the units.
    Fail,
    /// The order has its units in another bucket, and this is the hold of a delayed request. Free these units.
    Release,
}

/// Whether the holder of this order is old enough to be repaired.
pub fn is_due(order: &OrderId, now: Timestamp) -> bool {
    now.duration_since(order.pressed_at()) >= GRACE
}

/// After this age a message is sent again at every multiple of it, and no longer at doubled ages.
const RESEND_EVERY: SignedDuration = SignedDuration::from_mins(64);

/// Whether a message that is missing is sent again now, if the holders were last looked at `since`: once at each age
/// of 1, 2, 4, 8, 16 and 32 minutes, and then every 64 minutes. A message that only waits in a slow queue is thus
/// repeated a few times, not every minute.
pub fn is_send_due(order: &OrderId, since: Option<Timestamp>, now: Timestamp) -> bool {
    let due_by = |at: Timestamp| sends_due(at.duration_since(order.pressed_at()));
    due_by(now) > since.map_or(0, due_by)
}

/// How often a message is sent again until its holder has this age.
fn sends_due(age: SignedDuration) -> i64 {
    let minutes = age.as_mins();
    if age >= RESEND_EVERY {
        return 6 + minutes / RESEND_EVERY.as_mins();
    }
    minutes.checked_ilog2().map_or(0, |doubled| i64::from(doubled) + 1)
}

/// Decides what to do about the holder `id` in `bucket`, given the order of that id and the buyer's claim on the item.
///
/// | order | claim | verdict |
/// |---|---|---|
/// | (holder younger than [`GRACE`]) | any | [`Leave`](HolderVerdict::Leave) |
/// | in another bucket | any | [`Release`](HolderVerdict::Release) |
/// | pending, before its deadline | any | [`Leave`](HolderVerdict::Leave) |
/// | pending, [`DEADLINE_MARGIN`] past its deadline | any | [`Close`](HolderVerdict::Close) |
/// | closed or failed | any | [`FinishClose`](HolderVerdict::FinishClose) |
/// | refunded | any | [`GiveBack`](HolderVerdict::GiveBack) |
/// | paid or refunding | any | [`Confirm`](HolderVerdict::Confirm) |
/// | none | HELD by this order | [`SendAgain`](HolderVerdict::SendAgain) |
/// | none | ORDERED or REVIVED by this order, in this bucket | [`SendAgain`](HolderVerdict::SendAgain) |
/// | none | ORDERED or REVIVED by this order, in another bucket | [`Release`](HolderVerdict::Release) |
/// | none | none, or of another order | [`Fail`](HolderVerdict::Fail) |
///
/// Units may be freed only when no message can still turn them into an order. While the claim is HELD it can move to
/// another bucket, and a message may be in flight for any bucket that holds the order. So no such holder is released:
/// the message goes out again, and whichever message order-consumer processes first fixes the bucket. Once the claim is
/// ORDERED, or the order exists, the bucket is final, and a holder in any other bucket belongs to a delayed request.
pub fn holder_verdict(
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
            Status::Closed | Status::Failed => HolderVerdict::FinishClose,
            Status::Refunded => HolderVerdict::GiveBack,
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
        Claim { order, quantity: 1, bucket, state, previous_buckets: Vec::new(), shop_data: Default::default() }
    }

    #[test]
    fn a_message_is_sent_again_at_doubling_ages() {
        let sent: Vec<i64> =
            (0..300).filter(|minute| is_send_due(&id(1), Some(at(60 * (minute - 1))), at(60 * minute))).collect();
        assert_eq!(sent, [1, 2, 4, 8, 16, 32, 64, 128, 192, 256]);
        assert!(is_send_due(&id(1), None, at(60 * 7)), "nobody has looked before");
        assert!(is_send_due(&id(1), Some(at(60 * 7)), at(60 * 20)), "walks that did not take place are made up for");
        assert!(!is_send_due(&id(1), Some(at(60 * 20)), at(60 * 7)), "clocks differ");
    }

    #[test]
    fn every_combination_of_order_and_claim_has_its_verdict() {
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
            (Some(&order(Status::Refunded)), None, 60, HolderVerdict::GiveBack),
            (Some(&Order { bucket: 6, ..pending.clone() }), None, 60, HolderVerdict::Release),
            (None, Some(&claim(id(1), 5, ClaimState::Held)), 60, HolderVerdict::SendAgain),
            (None, Some(&claim(id(1), 6, ClaimState::Held)), 60, HolderVerdict::SendAgain),
            (None, Some(&claim(id(1), 5, ClaimState::Ordered)), 60, HolderVerdict::SendAgain),
            (None, Some(&claim(id(1), 6, ClaimState::Ordered)), 60, HolderVerdict::Release),
            (None, Some(&claim(id(2), 5, ClaimState::Held)), 60, HolderVerdict::Fail),
            (None, None, 60, HolderVerdict::Fail),
        ];
        for (n, (order, claim, now, expected)) in cases.into_iter().enumerate() {
            assert_eq!(holder_verdict(&id(1), 5, order, claim, at(now)), expected, "case {n}");
        }
    }
}
