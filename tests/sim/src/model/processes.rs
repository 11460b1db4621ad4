//! The flows, a step at a time: what each process does next, and what it may go on with.

use domain::claim::ClaimState;
use domain::order::{Event, Status, Step};
use domain::repair::Verdict;

use super::Bug;
use super::decisions::{Stand, by_claim, by_order, is_taken, standing};
use super::tables::{BUCKETS, Claim, Id, No, Nos, Order, Tables, Written, buyer, renamed_buckets};

/// How many buckets a press tries.
const TRIES: u8 = 2;

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

/// What a process may go on with; `None` is its end. One of them happens.
pub type Nexts = Vec<Option<Process>>;

const END: Option<Process> = None;

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

    /// Takes the step. `first_has_ended`: nobody is the first request for its order any more.
    pub fn step(self, tables: &mut Tables, first_has_ended: bool, bug: Option<Bug>) -> Nexts {
        match self {
            ToClaim { order, bucket, keyed } => claim(tables, order, bucket, keyed, bug),
            Again { order, keyed } => refused(tables, buyer(order), keyed, bug),
            Adopt { order } => match tables.adopt_key(order) {
                Written::Done if bug == Some(Bug::KeyAdoptedBeforeItIsHeld) => {
                    vec![go_on(tables, order, Key::Known, 1)]
                }
                Written::Done => {
                    tables.accept(order);
                    vec![END]
                }
                Written::Refused => vec![END],
            },
            Take { order, bucket, key } => match (tables.mark_ordered(order, bucket), tables.claim_of(order)) {
                (_, Some(claim)) => sends(order, claim.bucket, key),
                (_, None) => vec![END],
            },
            Hold { order, bucket, left, key, tried } => {
                if tables.hold(order, bucket, bug) == Written::Done {
                    return held(order, bucket, key, bug);
                }
                let others = (0..BUCKETS as No).filter(|to| *to != bucket && tried < TRIES);
                let moves = others.map(|to| Some(Move { order, from: bucket, left, to, key, tried }));
                let ends = match left {
                    0 => may_withdraw(Withdraw { order, from: bucket, left, key, tried }, first_has_ended, bug),
                    _ => vec![Some(LookBack { order, from: bucket, left, key, tried })],
                };
                moves.chain(ends).collect()
            }
            Move { order, from, left, to, key, tried } => {
                let leaves = if matches!(key, Key::First { .. }) { left } else { left | 1 << from };
                match tables.move_claim(order, (from, left), (to, leaves), bug) {
                    Written::Done => vec![Some(Hold { order, bucket: to, left: leaves, key, tried: tried + 1 })],
                    Written::Refused => follow(tables, order, key, tried, bug),
                }
            }
            LookBack { order, from, left, key, tried } => {
                let looked = bug != Some(Bug::WithdrawsWithoutLookingBack);
                let there = (0..BUCKETS as No)
                    .find(|bucket| left & 1 << bucket != 0 && tables.buckets[usize::from(*bucket)].holds(order));
                if let Some(bucket) = there.filter(|_| looked) {
                    return held(order, bucket, key, bug);
                }
                may_withdraw(Withdraw { order, from, left, key, tried }, first_has_ended, bug)
            }
            Withdraw { order, from, left, key, tried } => {
                // The first knows of its own key alone.
                let key_too = key != Key::First { keyed: false };
                match tables.withdraw_claim(order, (from, left), key_too, bug) {
                    Written::Done => vec![END],
                    Written::Refused => follow(tables, order, key, tried, bug),
                }
            }
            Send { order, bucket, key } => {
                tables.send(order, bucket);
                accepted(tables, order, key)
            }
            AcceptUnsent { order, key } => accepted(tables, order, key),
            Mark { order, bucket } => mark(tables, order, bucket, bug),
            Place { order, bucket, at } => {
                tables.place(order, Order::new(Status::PendingPayment, at), bug);
                done(tables, order, bucket, true)
            }
            Fail { order, bucket, message } => {
                let is_over = tables.order(order).is_some_and(|order| order.status() != Status::Failed);
                tables.place(order, Order::new(Status::Failed, bucket), None);
                if is_over {
                    return done(tables, order, bucket, message);
                }
                finish(order, bucket, message, bug)
            }
            Drop { order, bucket, message } => {
                tables.drop_claim(order, bug);
                match bug {
                    Some(Bug::UnitsReleasedBeforeTheClaim) => done(tables, order, bucket, message),
                    _ => vec![Some(Release { order, bucket, message })],
                }
            }
            Release { order, bucket, message } => {
                tables.release(order, bucket, bug);
                match bug {
                    Some(Bug::UnitsReleasedBeforeTheClaim) => vec![Some(Drop { order, bucket, message })],
                    _ => done(tables, order, bucket, message),
                }
            }
            Close { order } => match (tables.happens(order, Event::Close, bug), tables.order(order)) {
                (Some(Step::Become(_) | Step::Already), Some(closed)) => finish(order, closed.bucket, false, bug),
                _ => vec![END],
            },
            Pay { order } => match (tables.happens(order, Event::Pay, bug), tables.order(order)) {
                (Some(Step::Become(_) | Step::Already), Some(paid)) => {
                    vec![Some(Confirm { order, bucket: paid.bucket })]
                }
                (Some(Step::Refuse), Some(row)) if row.status() == Status::Closed => {
                    // Where there is a unit again, or the money goes back.
                    let revivals = (0..BUCKETS as No).map(|bucket| Some(Revive { order, bucket }));
                    revivals.chain([END]).collect()
                }
                _ => vec![END],
            },
            Revive { order, bucket } => {
                tables.revive(order, bucket, bug);
                vec![END]
            }
            Confirm { order, bucket } => {
                tables.confirm(order, bucket, bug);
                vec![END]
            }
            Look { order, bucket } => vec![match tables.order(order) {
                Some(row) => act(by_order(bucket, row), order, bucket, bug),
                None => Some(LookAtClaim { order, bucket }),
            }],
            LookAtClaim { order, bucket } => {
                let claim = tables.claims[buyer(order)];
                let elsewhere = claim.is_some_and(|claim| claim.order == order && claim.bucket != bucket);
                if elsewhere && bug == Some(Bug::ReleasedWhileAMessageIsUnderWay) {
                    return vec![Some(Release { order, bucket, message: false })];
                }
                vec![act(by_claim(order, bucket, claim), order, bucket, bug)]
            }
            SendAgain { order, bucket } => {
                tables.send(order, bucket);
                vec![END]
            }
        }
    }
}

fn claim(tables: &mut Tables, order: Id, bucket: No, keyed: bool, bug: Option<Bug>) -> Nexts {
    let own = Claim { order, bucket, state: ClaimState::Held, left: 0 };
    let row = buyer(order);
    if tables.claim(order, bucket, keyed, bug) == Written::Done || tables.claims[row] == Some(own) {
        if bug == Some(Bug::AcceptedBeforeItIsHeld) {
            tables.accept(order);
        }
        return vec![Some(Hold { order, bucket, left: 0, key: Key::First { keyed }, tried: 1 })];
    }
    refused(tables, row, keyed, bug)
}

/// The buyer has a claim already, or has used the key.
fn refused(tables: &mut Tables, row: usize, keyed: bool, bug: Option<Bug>) -> Nexts {
    let mut nexts: Nexts = standing(tables, row, keyed)
        .into_iter()
        .map(|stand| match stand {
            Stand::Free | Stand::Duplicate => END,
            Stand::Same(answer) => {
                tables.accept(answer);
                END
            }
            Stand::GoOn(Claim { order, bucket, left, .. }) => {
                let key = match tables.keys[row] != Some(order) && keyed {
                    true if bug == Some(Bug::KeyAdoptedBeforeItIsHeld) => return Some(Adopt { order }),
                    true => Key::ToAdopt,
                    false => Key::Known,
                };
                Some(Hold { order, bucket, left, key, tried: 1 })
            }
        })
        .collect();
    nexts.dedup();
    nexts
}

/// There are no units for it. Whether a request knows that the first has ended is a matter of time, and of its clock.
fn may_withdraw(withdraw: Process, first_has_ended: bool, bug: Option<Bug>) -> Nexts {
    match withdraw.is_first() {
        true => vec![Some(withdraw)],
        false if first_has_ended || bug == Some(Bug::AnyRequestWithdraws) => vec![Some(withdraw), END],
        false => vec![END],
    }
}

/// Another request works on the same order and was quicker.
fn follow(tables: &Tables, order: Id, key: Key, tried: u8, bug: Option<Bug>) -> Nexts {
    match tables.claim_of(order) {
        Some(claim) if is_taken(claim) => held(order, claim.bucket, key, bug),
        Some(_) if tried < TRIES => vec![go_on(tables, order, key, tried + 1)],
        Some(_) | None => vec![END],
    }
}

/// Goes on where the order's claim says now.
fn go_on(tables: &Tables, order: Id, key: Key, tried: u8) -> Option<Process> {
    let claim = tables.claim_of(order)?;
    Some(Hold { order, bucket: claim.bucket, left: claim.left, key, tried })
}

fn held(order: Id, bucket: No, key: Key, bug: Option<Bug>) -> Nexts {
    match key {
        Key::First { .. } => sends(order, bucket, key),
        Key::Known | Key::ToAdopt if bug == Some(Bug::AcceptedBeforeItIsTaken) => sends(order, bucket, key),
        Key::Known | Key::ToAdopt => vec![Some(Take { order, bucket, key })],
    }
}

fn sends(order: Id, bucket: No, key: Key) -> Nexts {
    vec![Some(Send { order, bucket, key }), Some(AcceptUnsent { order, key })]
}

fn accepted(tables: &mut Tables, order: Id, key: Key) -> Nexts {
    if key == Key::ToAdopt {
        return vec![Some(Adopt { order })];
    }
    tables.accept(order);
    vec![END]
}

fn mark(tables: &mut Tables, order: Id, bucket: No, bug: Option<Bug>) -> Nexts {
    let at = match (tables.mark_ordered(order, bucket), tables.claim_of(order)) {
        (Written::Done, _) => bucket,
        (Written::Refused, Some(claim)) if is_taken(claim) => claim.bucket,
        (Written::Refused, _) if bug == Some(Bug::OrderWithoutAClaim) => bucket,
        (Written::Refused, _) => return vec![Some(Fail { order, bucket, message: true })],
    };
    vec![Some(Place { order, bucket, at })]
}

fn finish(order: Id, bucket: No, message: bool, bug: Option<Bug>) -> Nexts {
    vec![Some(match bug {
        Some(Bug::UnitsReleasedBeforeTheClaim) => Release { order, bucket, message },
        _ => Drop { order, bucket, message },
    })]
}

fn done(tables: &mut Tables, order: Id, bucket: No, message: bool) -> Nexts {
    if message {
        tables.delete(order, bucket);
    }
    vec![END]
}

fn act(verdict: Verdict, order: Id, bucket: No, bug: Option<Bug>) -> Option<Process> {
    match verdict {
        Verdict::Leave => END,
        Verdict::SendAgain => Some(SendAgain { order, bucket }),
        Verdict::Close => Some(Close { order }),
        Verdict::FinishClose => finish(order, bucket, false, bug).pop().flatten(),
        Verdict::Confirm => Some(Confirm { order, bucket }),
        Verdict::Fail => Some(Fail { order, bucket, message: false }),
        Verdict::Release => Some(Release { order, bucket, message: false }),
    }
}
