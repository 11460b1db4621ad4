//! The next step of each process: what it does to the tables, and which steps may follow.

use domain::claim::ClaimState;
use domain::order::{Event, Status, Step};
use domain::repair::HolderVerdict;

use super::Bug;
use super::decisions::{Standing, by_claim, by_order, is_taken, standing};
use super::processes::Process::{
    AcceptUnsent, Adopt, CheckPrevious, Claim as ToClaim, Close, CloseRefund, Confirm, Drop, DropRefunded, Fail,
    FinishRefund, Hold, Inspect, InspectClaim, Mark, Move, Pay, Place, PressAgain, Release, ReleaseRefunded, Revive,
    Send, SendAgain, StartRefund, Take, TakeBack, Withdraw,
};
use super::processes::{Key, Process};
use super::tables::{BUCKETS, BucketNo, Claim, Order, OrderNo, Tables, Written, bit, buyer};

/// How many buckets a press tries.
const MAX_TRIED: u8 = 2;

/// The steps that may follow, of which one happens. `None` is the end of the process.
pub type Nexts = Vec<Option<Process>>;

const END: Option<Process> = None;

impl Process {
    /// Takes the step. `first_has_ended`: the first request for its order is no longer running.
    pub fn step(self, tables: &mut Tables, first_has_ended: bool, bug: Option<Bug>) -> Nexts {
        match self {
            ToClaim { order, bucket, keyed } => claim(tables, order, bucket, keyed, bug),
            PressAgain { order, keyed } => refused(tables, buyer(order), keyed, bug),
            Adopt { order } => match tables.adopt_key(order) {
                Written::Done if bug == Some(Bug::KeyAdoptedBeforeItIsHeld) => {
                    vec![resume(tables, order, Key::Known, 1)]
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
            Hold { order, bucket, previous, key, tried } => {
                if tables.hold(order, bucket, bug) == Written::Done {
                    return held(order, bucket, key, bug);
                }
                let others = (0..BUCKETS as BucketNo).filter(|to| *to != bucket && tried < MAX_TRIED);
                let moves = others.map(|to| Some(Move { order, from: bucket, previous, to, key, tried }));
                let ends = match previous {
                    0 => may_withdraw(Withdraw { order, from: bucket, previous, key, tried }, first_has_ended, bug),
                    _ => vec![Some(CheckPrevious { order, from: bucket, previous, key, tried })],
                };
                moves.chain(ends).collect()
            }
            Move { order, from, previous, to, key, tried } => {
                let leaves = if matches!(key, Key::First { .. }) { previous } else { previous | 1 << from };
                match tables.move_claim(order, (from, previous), (to, leaves), bug) {
                    Written::Done => vec![Some(Hold { order, bucket: to, previous: leaves, key, tried: tried + 1 })],
                    Written::Refused => follow(tables, order, key, tried, bug),
                }
            }
            CheckPrevious { order, from, previous, key, tried } => {
                let looked = bug != Some(Bug::WithdrawsWithoutCheckingPrevious);
                let there = (0..BUCKETS as BucketNo)
                    .find(|bucket| previous & 1 << bucket != 0 && tables.buckets[usize::from(*bucket)].holds(order));
                if let Some(bucket) = there.filter(|_| looked) {
                    return held(order, bucket, key, bug);
                }
                may_withdraw(Withdraw { order, from, previous, key, tried }, first_has_ended, bug)
            }
            Withdraw { order, from, previous, key, tried } => {
                // The first request knows only its own key.
                let key_too = key != Key::First { keyed: false };
                match tables.withdraw_claim(order, (from, previous), key_too, bug) {
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
            Close { order } => match (tables.apply_event(order, Event::Close, bug), tables.order(order)) {
                (Some(Step::Become(_) | Step::Already), Some(closed)) => finish(order, closed.bucket, false, bug),
                _ => vec![END],
            },
            Pay { order } => match (tables.apply_event(order, Event::Pay, bug), tables.order(order)) {
                (Some(Step::Become(_) | Step::Already), Some(paid)) => {
                    vec![Some(Confirm { order, bucket: paid.bucket })]
                }
                (Some(Step::Refuse), Some(row)) if row.status() == Status::Closed => {
                    // It is revived where a unit is free, or the money is refunded.
                    let revivals = (0..BUCKETS as BucketNo).map(|bucket| Some(Revive { order, bucket }));
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
            StartRefund { order } => match tables.apply_event(order, Event::StartRefund, bug) {
                Some(Step::Become(_)) => {
                    tables.refunds |= bit(order);
                    vec![Some(FinishRefund { order })]
                }
                _ => vec![END],
            },
            FinishRefund { order } => {
                match (tables.apply_event(order, Event::FinishRefund, bug), tables.order(order)) {
                    (Some(Step::Become(_) | Step::Already), Some(row)) => {
                        vec![Some(DropRefunded { order, bucket: row.bucket })]
                    }
                    _ => vec![END],
                }
            }
            DropRefunded { order, bucket } => {
                tables.drop_refunded_claim(order);
                vec![Some(TakeBack { order, bucket, again: false, closes: true })]
            }
            TakeBack { order, bucket, again, closes } => match tables.take_back(order, bucket, bug) {
                Written::Refused if !again => vec![Some(ReleaseRefunded { order, bucket, closes })],
                _ => given_back(order, closes),
            },
            ReleaseRefunded { order, bucket, closes } => match tables.release_refunded(order, bucket) {
                Written::Refused => vec![Some(TakeBack { order, bucket, again: true, closes })],
                Written::Done => given_back(order, closes),
            },
            CloseRefund { order } => {
                tables.refunds &= !bit(order);
                vec![END]
            }
            Inspect { order, bucket } => vec![match tables.order(order) {
                Some(row) => act(by_order(bucket, row), order, bucket, bug),
                None => Some(InspectClaim { order, bucket }),
            }],
            InspectClaim { order, bucket } => {
                let claim = tables.claims[buyer(order)];
                let elsewhere = claim.is_some_and(|claim| claim.order == order && claim.bucket != bucket);
                if elsewhere && bug == Some(Bug::ReleasedWhileAMessageIsInFlight) {
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

fn claim(tables: &mut Tables, order: OrderNo, bucket: BucketNo, keyed: bool, bug: Option<Bug>) -> Nexts {
    let own = Claim { order, bucket, state: ClaimState::Held, previous: 0 };
    let row = buyer(order);
    if tables.claim(order, bucket, keyed, bug) == Written::Done || tables.claims[row] == Some(own) {
        if bug == Some(Bug::AcceptedBeforeItIsHeld) {
            tables.accept(order);
        }
        return vec![Some(Hold { order, bucket, previous: 0, key: Key::First { keyed }, tried: 1 })];
    }
    refused(tables, row, keyed, bug)
}

/// The claim was refused: the buyer already has one, or has used the key.
fn refused(tables: &mut Tables, row: usize, keyed: bool, bug: Option<Bug>) -> Nexts {
    let mut nexts: Nexts = standing(tables, row, keyed)
        .into_iter()
        .map(|stand| match stand {
            Standing::Free | Standing::Duplicate => END,
            Standing::Same(answer) => {
                tables.accept(answer);
                END
            }
            Standing::Resume(Claim { order, bucket, previous, .. }) => {
                let key = match tables.keys[row] != Some(order) && keyed {
                    true if bug == Some(Bug::KeyAdoptedBeforeItIsHeld) => return Some(Adopt { order }),
                    true => Key::ToAdopt,
                    false => Key::Known,
                };
                Some(Hold { order, bucket, previous, key, tried: 1 })
            }
        })
        .collect();
    nexts.dedup();
    nexts
}

/// No units were found. Whether a later request knows that the first has ended depends on its clock, so both happen.
fn may_withdraw(withdraw: Process, first_has_ended: bool, bug: Option<Bug>) -> Nexts {
    match withdraw.is_first() {
        true => vec![Some(withdraw)],
        false if first_has_ended || bug == Some(Bug::AnyRequestWithdraws) => vec![Some(withdraw), END],
        false => vec![END],
    }
}

/// Another request for the same order has changed the claim: follows it.
fn follow(tables: &Tables, order: OrderNo, key: Key, tried: u8, bug: Option<Bug>) -> Nexts {
    match tables.claim_of(order) {
        Some(claim) if is_taken(claim) => held(order, claim.bucket, key, bug),
        Some(_) if tried < MAX_TRIED => vec![resume(tables, order, key, tried + 1)],
        Some(_) | None => vec![END],
    }
}

/// Continues in the bucket that the claim names now.
fn resume(tables: &Tables, order: OrderNo, key: Key, tried: u8) -> Option<Process> {
    let claim = tables.claim_of(order)?;
    Some(Hold { order, bucket: claim.bucket, previous: claim.previous, key, tried })
}

fn held(order: OrderNo, bucket: BucketNo, key: Key, bug: Option<Bug>) -> Nexts {
    match key {
        Key::First { .. } => sends(order, bucket, key),
        Key::Known | Key::ToAdopt if bug == Some(Bug::AcceptedBeforeItIsTaken) => sends(order, bucket, key),
        Key::Known | Key::ToAdopt => vec![Some(Take { order, bucket, key })],
    }
}

fn sends(order: OrderNo, bucket: BucketNo, key: Key) -> Nexts {
    vec![Some(Send { order, bucket, key }), Some(AcceptUnsent { order, key })]
}

fn accepted(tables: &mut Tables, order: OrderNo, key: Key) -> Nexts {
    if key == Key::ToAdopt {
        return vec![Some(Adopt { order })];
    }
    tables.accept(order);
    vec![END]
}

fn mark(tables: &mut Tables, order: OrderNo, bucket: BucketNo, bug: Option<Bug>) -> Nexts {
    let at = match (tables.mark_ordered(order, bucket), tables.claim_of(order)) {
        (Written::Done, _) => bucket,
        (Written::Refused, Some(claim)) if is_taken(claim) => claim.bucket,
        (Written::Refused, _) if bug == Some(Bug::OrderWithoutAClaim) => bucket,
        (Written::Refused, _) => return vec![Some(Fail { order, bucket, message: true })],
    };
    vec![Some(Place { order, bucket, at })]
}

fn finish(order: OrderNo, bucket: BucketNo, message: bool, bug: Option<Bug>) -> Nexts {
    vec![Some(match bug {
        Some(Bug::UnitsReleasedBeforeTheClaim) => Release { order, bucket, message },
        _ => Drop { order, bucket, message },
    })]
}

fn done(tables: &mut Tables, order: OrderNo, bucket: BucketNo, message: bool) -> Nexts {
    if message {
        tables.delete(order, bucket);
    }
    vec![END]
}

fn act(verdict: HolderVerdict, order: OrderNo, bucket: BucketNo, bug: Option<Bug>) -> Option<Process> {
    match verdict {
        HolderVerdict::Leave => END,
        HolderVerdict::SendAgain => Some(SendAgain { order, bucket }),
        HolderVerdict::Close => Some(Close { order }),
        HolderVerdict::FinishClose => finish(order, bucket, false, bug).pop().flatten(),
        HolderVerdict::GiveBack if bug == Some(Bug::RefundedIsReleased) => {
            Some(Release { order, bucket, message: false })
        }
        HolderVerdict::GiveBack => Some(TakeBack { order, bucket, again: false, closes: false }),
        HolderVerdict::Confirm => Some(Confirm { order, bucket }),
        HolderVerdict::Fail => Some(Fail { order, bucket, message: false }),
        HolderVerdict::Release => Some(Release { order, bucket, message: false }),
    }
}

fn given_back(order: OrderNo, closes: bool) -> Nexts {
    vec![closes.then_some(CloseRefund { order })]
}
