//! The running processes, each identified by the step that it takes next.

use super::symmetry::rename_buckets;
use super::tables::{BucketNo, BucketSet, OrderNo};

/// A process, as the step that it takes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Process {
    // Steps of a press.
    Claim {
        order: OrderNo,
        bucket: BucketNo,
        keyed: bool,
    },
    /// A press of a buyer who has started all orders within the bounds: it finds the existing claim.
    PressAgain {
        order: OrderNo,
        keyed: bool,
    },
    /// `previous`: the buckets that the claim had been moved away from when it was read.
    Hold {
        order: OrderNo,
        bucket: BucketNo,
        previous: BucketSet,
        key: Key,
        tried: u8,
    },
    Move {
        order: OrderNo,
        from: BucketNo,
        previous: BucketSet,
        to: BucketNo,
        key: Key,
        tried: u8,
    },
    /// Nothing is free: are the units held in a bucket that the claim was moved away from?
    CheckPrevious {
        order: OrderNo,
        from: BucketNo,
        previous: BucketSet,
        key: Key,
        tried: u8,
    },
    Withdraw {
        order: OrderNo,
        from: BucketNo,
        previous: BucketSet,
        key: Key,
        tried: u8,
    },
    /// A request that is not the first for its order marks the claim ORDERED before it is accepted.
    Take {
        order: OrderNo,
        bucket: BucketNo,
        key: Key,
    },
    Send {
        order: OrderNo,
        bucket: BucketNo,
        key: Key,
    },
    /// The queue is down, and the press is accepted all the same.
    AcceptUnsent {
        order: OrderNo,
        key: Key,
    },
    Adopt {
        order: OrderNo,
    },
    // Steps of order-consumer. `bucket` is the one in the message.
    Mark {
        order: OrderNo,
        bucket: BucketNo,
    },
    Place {
        order: OrderNo,
        bucket: BucketNo,
        at: BucketNo,
    },
    // The end of a failed purchase or a closed order. `message`: a message is deleted at the end.
    Fail {
        order: OrderNo,
        bucket: BucketNo,
        message: bool,
    },
    Drop {
        order: OrderNo,
        bucket: BucketNo,
        message: bool,
    },
    Release {
        order: OrderNo,
        bucket: BucketNo,
        message: bool,
    },
    Close {
        order: OrderNo,
    },
    Pay {
        order: OrderNo,
    },
    Revive {
        order: OrderNo,
        bucket: BucketNo,
    },
    Confirm {
        order: OrderNo,
        bucket: BucketNo,
    },
    // Steps of a refund.
    StartRefund {
        order: OrderNo,
    },
    FinishRefund {
        order: OrderNo,
    },
    DropRefunded {
        order: OrderNo,
        bucket: BucketNo,
    },
    /// `again`: its last step. `closes`: the entry of the refund log is closed at the end.
    TakeBack {
        order: OrderNo,
        bucket: BucketNo,
        again: bool,
        closes: bool,
    },
    ReleaseRefunded {
        order: OrderNo,
        bucket: BucketNo,
        closes: bool,
    },
    CloseRefund {
        order: OrderNo,
    },
    // Steps of reconcile, for one holder.
    Inspect {
        order: OrderNo,
        bucket: BucketNo,
    },
    InspectClaim {
        order: OrderNo,
        bucket: BucketNo,
    },
    SendAgain {
        order: OrderNo,
        bucket: BucketNo,
    },
}

/// Whether a press is the first request for its order, and what it must do with its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// The first request for its order. If it is keyed, its key is already answered with the order.
    First { keyed: bool },
    /// Another request, without a key or with one that is already answered.
    Known,
    /// Another request, whose key must be answered with the order once the units are held.
    ToAdopt,
}

use Process::{
    AcceptUnsent, Adopt, CheckPrevious, Claim as ToClaim, Close, CloseRefund, Confirm, Drop, DropRefunded, Fail,
    FinishRefund, Hold, Inspect, InspectClaim, Mark, Move, Pay, Place, PressAgain, Release, ReleaseRefunded, Revive,
    Send, SendAgain, StartRefund, Take, TakeBack, Withdraw,
};

impl Process {
    pub fn order(self) -> OrderNo {
        let mut order = 0;
        self.map(
            |id| {
                order = id;
                id
            },
            |bucket| bucket,
        );
        order
    }

    /// The same process with another order and other buckets.
    pub fn map(self, mut id: impl FnMut(OrderNo) -> OrderNo, no: impl Fn(BucketNo) -> BucketNo) -> Self {
        let nos = |buckets: BucketSet| rename_buckets(buckets, no(0) != 0);
        match self {
            ToClaim { order, bucket, keyed } => ToClaim { order: id(order), bucket: no(bucket), keyed },
            PressAgain { order, keyed } => PressAgain { order: id(order), keyed },
            Hold { order, bucket, previous, key, tried } => {
                Hold { order: id(order), bucket: no(bucket), previous: nos(previous), key, tried }
            }
            Move { order, from, previous, to, key, tried } => {
                Move { order: id(order), from: no(from), previous: nos(previous), to: no(to), key, tried }
            }
            CheckPrevious { order, from, previous, key, tried } => {
                CheckPrevious { order: id(order), from: no(from), previous: nos(previous), key, tried }
            }
            Withdraw { order, from, previous, key, tried } => {
                Withdraw { order: id(order), from: no(from), previous: nos(previous), key, tried }
            }
            AcceptUnsent { order, key } => AcceptUnsent { order: id(order), key },
            Adopt { order } => Adopt { order: id(order) },
            Take { order, bucket, key } => Take { order: id(order), bucket: no(bucket), key },
            Send { order, bucket, key } => Send { order: id(order), bucket: no(bucket), key },
            Mark { order, bucket } => Mark { order: id(order), bucket: no(bucket) },
            Place { order, bucket, at } => Place { order: id(order), bucket: no(bucket), at: no(at) },
            Fail { order, bucket, message } => Fail { order: id(order), bucket: no(bucket), message },
            Drop { order, bucket, message } => Drop { order: id(order), bucket: no(bucket), message },
            Release { order, bucket, message } => Release { order: id(order), bucket: no(bucket), message },
            Close { order } => Close { order: id(order) },
            Pay { order } => Pay { order: id(order) },
            Revive { order, bucket } => Revive { order: id(order), bucket: no(bucket) },
            Confirm { order, bucket } => Confirm { order: id(order), bucket: no(bucket) },
            StartRefund { order } => StartRefund { order: id(order) },
            FinishRefund { order } => FinishRefund { order: id(order) },
            DropRefunded { order, bucket } => DropRefunded { order: id(order), bucket: no(bucket) },
            TakeBack { order, bucket, again, closes } => {
                TakeBack { order: id(order), bucket: no(bucket), again, closes }
            }
            ReleaseRefunded { order, bucket, closes } => {
                ReleaseRefunded { order: id(order), bucket: no(bucket), closes }
            }
            CloseRefund { order } => CloseRefund { order: id(order) },
            Inspect { order, bucket } => Inspect { order: id(order), bucket: no(bucket) },
            InspectClaim { order, bucket } => InspectClaim { order: id(order), bucket: no(bucket) },
            SendAgain { order, bucket } => SendAgain { order: id(order), bucket: no(bucket) },
        }
    }

    /// Whether its next step writes. Then the answer can be lost and the write can be delayed.
    pub fn writes(self) -> bool {
        !matches!(
            self,
            PressAgain { .. } | CheckPrevious { .. } | AcceptUnsent { .. } | Inspect { .. } | InspectClaim { .. }
        )
    }

    pub fn is_first(self) -> bool {
        matches!(
            self,
            ToClaim { .. }
                | Hold { key: Key::First { .. }, .. }
                | Move { key: Key::First { .. }, .. }
                | CheckPrevious { key: Key::First { .. }, .. }
                | Withdraw { key: Key::First { .. }, .. }
                | Send { key: Key::First { .. }, .. }
                | AcceptUnsent { key: Key::First { .. }, .. }
        )
    }
}
