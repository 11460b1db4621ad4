//! Who is at work: each process by the step that it is about to take.

use super::tables::{Id, No, Nos, renamed_buckets};

/// A process, by the step that it is about to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Process {
    // A press.
    Claim {
        order: Id,
        bucket: No,
        keyed: bool,
    },
    /// Of a buyer who has begun all the orders that there is room for: it finds the claim that is there.
    Again {
        order: Id,
        keyed: bool,
    },
    /// `left`: where the claim had been moved away from when it was read.
    Hold {
        order: Id,
        bucket: No,
        left: Nos,
        key: Key,
        tried: u8,
    },
    Move {
        order: Id,
        from: No,
        left: Nos,
        to: No,
        key: Key,
        tried: u8,
    },
    /// There is nothing: are the units where the claim was moved away from?
    LookBack {
        order: Id,
        from: No,
        left: Nos,
        key: Key,
        tried: u8,
    },
    Withdraw {
        order: Id,
        from: No,
        left: Nos,
        key: Key,
        tried: u8,
    },
    /// Of a request that is not the first for its order: it makes the claim its order's for good.
    Take {
        order: Id,
        bucket: No,
        key: Key,
    },
    Send {
        order: Id,
        bucket: No,
        key: Key,
    },
    /// The queue is down: it is accepted all the same.
    AcceptUnsent {
        order: Id,
        key: Key,
    },
    Adopt {
        order: Id,
    },
    // order-consumer. `bucket` is the message's.
    Mark {
        order: Id,
        bucket: No,
    },
    Place {
        order: Id,
        bucket: No,
        at: No,
    },
    // A purchase that failed, or an order that was closed. `message`: one is deleted when it is done.
    Fail {
        order: Id,
        bucket: No,
        message: bool,
    },
    Drop {
        order: Id,
        bucket: No,
        message: bool,
    },
    Release {
        order: Id,
        bucket: No,
        message: bool,
    },
    Close {
        order: Id,
    },
    Pay {
        order: Id,
    },
    Revive {
        order: Id,
        bucket: No,
    },
    Confirm {
        order: Id,
        bucket: No,
    },
    // Reconcile, about a holder.
    Look {
        order: Id,
        bucket: No,
    },
    LookAtClaim {
        order: Id,
        bucket: No,
    },
    SendAgain {
        order: Id,
        bucket: No,
    },
}

/// What a press knows of its buyer's key, and whether the order is its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// The first request for its order: without a key, or with one that is answered with the order.
    First { keyed: bool },
    /// Another one, without a key of its own that is not answered yet.
    Known,
    /// Another one: its key is to be answered with the order, once that is held.
    ToAdopt,
}

use Process::{
    AcceptUnsent, Adopt, Again, Claim as ToClaim, Close, Confirm, Drop, Fail, Hold, Look, LookAtClaim, LookBack, Mark,
    Move, Pay, Place, Release, Revive, Send, SendAgain, Take, Withdraw,
};

impl Process {
    pub fn order(self) -> Id {
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

    /// The same about another order and other buckets.
    pub fn map(self, mut id: impl FnMut(Id) -> Id, no: impl Fn(No) -> No) -> Self {
        let nos = |buckets: Nos| renamed_buckets(buckets, no(0) != 0);
        match self {
            ToClaim { order, bucket, keyed } => ToClaim { order: id(order), bucket: no(bucket), keyed },
            Again { order, keyed } => Again { order: id(order), keyed },
            Hold { order, bucket, left, key, tried } => {
                Hold { order: id(order), bucket: no(bucket), left: nos(left), key, tried }
            }
            Move { order, from, left, to, key, tried } => {
                Move { order: id(order), from: no(from), left: nos(left), to: no(to), key, tried }
            }
            LookBack { order, from, left, key, tried } => {
                LookBack { order: id(order), from: no(from), left: nos(left), key, tried }
            }
            Withdraw { order, from, left, key, tried } => {
                Withdraw { order: id(order), from: no(from), left: nos(left), key, tried }
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
            Look { order, bucket } => Look { order: id(order), bucket: no(bucket) },
            LookAtClaim { order, bucket } => LookAtClaim { order: id(order), bucket: no(bucket) },
            SendAgain { order, bucket } => SendAgain { order: id(order), bucket: no(bucket) },
        }
    }

    /// Whether its step writes: then its answer can be lost, and it can wander.
    pub fn writes(self) -> bool {
        !matches!(self, Again { .. } | LookBack { .. } | AcceptUnsent { .. } | Look { .. } | LookAtClaim { .. })
    }

    /// Whether it is the first request for its order.
    pub fn is_first(self) -> bool {
        matches!(
            self,
            ToClaim { .. }
                | Hold { key: Key::First { .. }, .. }
                | Move { key: Key::First { .. }, .. }
                | LookBack { key: Key::First { .. }, .. }
                | Withdraw { key: Key::First { .. }, .. }
                | Send { key: Key::First { .. }, .. }
                | AcceptUnsent { key: Key::First { .. }, .. }
        )
    }
}
