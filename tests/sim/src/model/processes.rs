//! The flows, a step at a time: what each process does next, and what it may go on with.

use domain::claim::ClaimState;
use domain::order::{Event, Status, Step};
use domain::repair::Verdict;

use super::Bug;
use super::decisions::{Stand, by_claim, by_order, is_taken, standing};
use super::tables::{BUCKETS, Claim, Id, No, Order, Tables, Written, buyer};

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
    Hold {
        order: Id,
        bucket: No,
        key: Key,
        tried: u8,
    },
    Move {
        order: Id,
        from: No,
        to: No,
        key: Key,
        tried: u8,
    },
    Withdraw {
        order: Id,
        from: No,
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
    Adopt {
        order: Id,
        bucket: No,
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
    Adopt, Again, Claim as ToClaim, Close, Confirm, Drop, Fail, Hold, Look, LookAtClaim, Mark, Move, Pay, Place,
    Release, Revive, Send, SendAgain, Take, Withdraw,
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
        match self {
            ToClaim { order, bucket, keyed } => ToClaim { order: id(order), bucket: no(bucket), keyed },
            Again { order, keyed } => Again { order: id(order), keyed },
            Hold { order, bucket, key, tried } => Hold { order: id(order), bucket: no(bucket), key, tried },
            Move { order, from, to, key, tried } => Move { order: id(order), from: no(from), to: no(to), key, tried },
            Withdraw { order, from, key, tried } => Withdraw { order: id(order), from: no(from), key, tried },
            Adopt { order, bucket } => Adopt { order: id(order), bucket: no(bucket) },
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
        !matches!(self, Again { .. } | Look { .. } | LookAtClaim { .. })
    }

    /// Takes the step.
    pub fn step(self, tables: &mut Tables, bug: Option<Bug>) -> Nexts {
        match self {
            ToClaim { order, bucket, keyed } => claim(tables, order, bucket, keyed, bug),
            Again { order, keyed } => refused(tables, buyer(order), keyed, bug),
            Adopt { order, bucket } => match tables.adopt_key(order) {
                Written::Done if bug == Some(Bug::KeyAdoptedBeforeItIsHeld) => {
                    vec![Some(Hold { order, bucket, key: Key::Known, tried: 1 })]
                }
                Written::Done => {
                    tables.accept(order);
                    vec![END]
                }
                Written::Refused => vec![END],
            },
            Take { order, bucket, key } => vec![match (tables.mark_ordered(order, bucket), tables.claim_of(order)) {
                (_, Some(claim)) => Some(Send { order, bucket: claim.bucket, key }),
                (_, None) => END,
            }],
            Hold { order, bucket, key, tried } => {
                if tables.hold(order, bucket, bug) == Written::Done {
                    return vec![Some(held(order, bucket, key, bug))];
                }
                let withdraws = matches!(key, Key::First { .. }) || bug == Some(Bug::AnyRequestWithdraws);
                let withdraw = withdraws.then_some(Withdraw { order, from: bucket, key, tried });
                let others = (0..BUCKETS as No).filter(|to| *to != bucket && tried < TRIES);
                let moves = others.map(|to| Some(Move { order, from: bucket, to, key, tried }));
                moves.chain([withdraw]).collect()
            }
            Move { order, from, to, key, tried } => match tables.move_claim(order, from, to, bug) {
                Written::Done => vec![Some(Hold { order, bucket: to, key, tried: tried + 1 })],
                Written::Refused => follow(tables, order, key, tried, bug),
            },
            Withdraw { order, from, key, tried } => {
                let keyed = matches!(key, Key::First { keyed: true } | Key::Known);
                match tables.withdraw_claim(order, from, keyed, bug) {
                    Written::Done => vec![END],
                    Written::Refused => follow(tables, order, key, tried, bug),
                }
            }
            // The queue may be down: it is accepted all the same. (A process that dies here has sent nothing.)
            Send { order, bucket, key } => {
                tables.send(order, bucket);
                if key == Key::ToAdopt {
                    return vec![Some(Adopt { order, bucket })];
                }
                tables.accept(order);
                vec![END]
            }
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
                tables.revive(order, bucket);
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
    let own = Claim { order, bucket, state: ClaimState::Held };
    let row = buyer(order);
    if tables.claim(order, bucket, keyed, bug) == Written::Done || tables.claims[row] == Some(own) {
        if bug == Some(Bug::AcceptedBeforeItIsHeld) {
            tables.accept(order);
        }
        return vec![Some(Hold { order, bucket, key: Key::First { keyed }, tried: 1 })];
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
            Stand::GoOn(Claim { order, bucket, .. }) => {
                let key = match tables.keys[row] != Some(order) && keyed {
                    true if bug == Some(Bug::KeyAdoptedBeforeItIsHeld) => return Some(Adopt { order, bucket }),
                    true => Key::ToAdopt,
                    false => Key::Known,
                };
                Some(Hold { order, bucket, key, tried: 1 })
            }
        })
        .collect();
    nexts.dedup();
    nexts
}

/// Another request works on the same order and was quicker.
fn follow(tables: &Tables, order: Id, key: Key, tried: u8, bug: Option<Bug>) -> Nexts {
    vec![match tables.claim_of(order) {
        Some(claim) if is_taken(claim) => Some(held(order, claim.bucket, key, bug)),
        Some(claim) if tried < TRIES => Some(Hold { order, bucket: claim.bucket, key, tried: tried + 1 }),
        Some(_) | None => END,
    }]
}

fn held(order: Id, bucket: No, key: Key, bug: Option<Bug>) -> Process {
    match key {
        Key::First { .. } => Send { order, bucket, key },
        Key::Known | Key::ToAdopt if bug == Some(Bug::AcceptedBeforeItIsTaken) => Send { order, bucket, key },
        Key::Known | Key::ToAdopt => Take { order, bucket, key },
    }
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
