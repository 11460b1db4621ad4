//! Each process's next step, on the tables, and what it may go on with.

use domain::claim::ClaimState;
use domain::order::{Event, Status, Step};
use domain::repair::HolderVerdict;

use super::Bug;
use super::decisions::{Stand, by_claim, by_order, is_taken, standing};
use super::processes::Process::{
    AcceptUnsent, Adopt, Again, Claim as ToClaim, Close, Confirm, Drop, Fail, Hold, Look, LookAtClaim, LookBack, Mark,
    Move, Pay, Place, Release, Revive, Send, SendAgain, Take, Withdraw,
};
use super::processes::{Key, Process};
use super::tables::{BUCKETS, Claim, Id, No, Order, Tables, Written, buyer};

/// How many buckets a press tries.
const TRIES: u8 = 2;

/// What a process may go on with; `None` is its end. One of them happens.
pub type Nexts = Vec<Option<Process>>;

const END: Option<Process> = None;

impl Process {
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

fn act(verdict: HolderVerdict, order: Id, bucket: No, bug: Option<Bug>) -> Option<Process> {
    match verdict {
        HolderVerdict::Leave => END,
        HolderVerdict::SendAgain => Some(SendAgain { order, bucket }),
        HolderVerdict::Close => Some(Close { order }),
        HolderVerdict::FinishClose => finish(order, bucket, false, bug).pop().flatten(),
        HolderVerdict::Confirm => Some(Confirm { order, bucket }),
        HolderVerdict::Fail => Some(Fail { order, bucket, message: false }),
        HolderVerdict::Release => Some(Release { order, bucket, message: false }),
    }
}
