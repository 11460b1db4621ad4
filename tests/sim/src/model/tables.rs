//! The tables and the queue, and each write with its condition.

use domain::claim::ClaimState;
use domain::order::{Event, Status, Step, step};

use super::Bug;

pub const BUYERS: usize = 3;
pub const BUCKETS: usize = 2;
/// Orders that one buyer can begin.
pub const ORDERS_EACH: usize = 2;
const ORDERS: usize = BUYERS * ORDERS_EACH;

/// An order's number: its buyer is in it.
pub type Id = u8;
pub type No = u8;
/// A set of orders.
pub type Ids = u8;
/// A set of buckets.
pub type Nos = u8;

pub fn buyer(order: Id) -> usize {
    usize::from(order) / ORDERS_EACH
}

/// The first order of a buyer's.
pub fn first(buyer: usize) -> Id {
    (buyer * ORDERS_EACH) as Id
}

/// The same order of a buyer who has another name.
pub fn renamed(order: Id, buyers: &[u8; BUYERS]) -> Id {
    buyers[buyer(order)] * ORDERS_EACH as Id + order % ORDERS_EACH as Id
}

pub fn renamed_bucket(bucket: No, swap: bool) -> No {
    if swap { BUCKETS as No - 1 - bucket } else { bucket }
}

pub fn renamed_buckets(buckets: Nos, swap: bool) -> Nos {
    if swap { (buckets & 1) << 1 | buckets >> 1 } else { buckets }
}

fn bit(order: Id) -> Ids {
    1 << order
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Bucket {
    pub cap: i8,
    pub free: i8,
    pub sold: i8,
    pub holders: Ids,
    pub sold_to: Ids,
}

impl Bucket {
    pub fn holds(&self, order: Id) -> bool {
        self.holders & bit(order) != 0
    }

    pub fn sold_to(&self, order: Id) -> bool {
        self.sold_to & bit(order) != 0
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    pub order: Id,
    pub bucket: No,
    pub state: ClaimState,
    pub left: Nos,
}

impl std::hash::Hash for Claim {
    fn hash<H: std::hash::Hasher>(&self, hasher: &mut H) {
        (self.order, self.bucket, self.state as u8, self.left).hash(hasher);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Order {
    pub status: u8,
    pub bucket: No,
}

impl Order {
    pub fn new(status: Status, bucket: No) -> Self {
        Self { status: status as u8, bucket }
    }

    pub fn status(self) -> Status {
        Status::ALL.into_iter().find(|status| *status as u8 == self.status).unwrap()
    }
}

/// Whether a write was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    Done,
    Refused,
}

impl Written {
    fn of(done: bool) -> Self {
        if done { Self::Done } else { Self::Refused }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tables {
    pub buckets: [Bucket; BUCKETS],
    pub claims: [Option<Claim>; BUYERS],
    /// What was answered under the one key that each buyer has.
    pub keys: [Option<Id>; BUYERS],
    /// Orders that were claimed without it: their number is a key as well.
    pub numbers: Ids,
    pub orders: [Option<Order>; ORDERS],
    /// Messages on the queue, by bucket.
    pub messages: [Ids; BUCKETS],
    /// Numbers that a press has made up.
    pub taken: Ids,
    /// Orders whose buyer was told that they are accepted.
    pub accepted: Ids,
}

impl Tables {
    pub fn new(caps: [i8; BUCKETS]) -> Self {
        Self {
            buckets: caps.map(|cap| Bucket { cap, free: cap, sold: 0, holders: 0, sold_to: 0 }),
            claims: [None; BUYERS],
            keys: [None; BUYERS],
            numbers: 0,
            orders: [None; ORDERS],
            messages: [0; BUCKETS],
            taken: 0,
            accepted: 0,
        }
    }

    pub fn ids(of: Ids) -> impl Iterator<Item = Id> {
        (0..ORDERS as Id).filter(move |order| of & bit(*order) != 0)
    }

    /// A number that no press of this buyer's has made up yet.
    pub fn new_id(&mut self, buyer: usize, most: u8) -> Option<Id> {
        let first = first(buyer);
        let id = (first..first + most).find(|order| self.taken & bit(*order) == 0)?;
        self.taken |= bit(id);
        Some(id)
    }

    pub fn accept(&mut self, order: Id) {
        self.accepted |= bit(order);
    }

    pub fn order(&self, order: Id) -> Option<Order> {
        self.orders[usize::from(order)]
    }

    pub fn claim_of(&self, order: Id) -> Option<Claim> {
        self.claims[buyer(order)].filter(|claim| claim.order == order)
    }

    // ── Claims ──

    pub fn claim(&mut self, order: Id, bucket: No, keyed: bool, bug: Option<Bug>) -> Written {
        let row = buyer(order);
        let free = self.claims[row].is_none() || bug == Some(Bug::ClaimOverAClaim);
        let is_new = if keyed { self.keys[row].is_none() } else { self.numbers & bit(order) == 0 };
        let done = free && (is_new || bug == Some(Bug::KeyNotLookedAt));
        if done {
            self.claims[row] = Some(Claim { order, bucket, state: ClaimState::Held, left: 0 });
            match keyed {
                true => self.keys[row] = Some(order),
                false => self.numbers |= bit(order),
            }
        }
        Written::of(done)
    }

    pub fn adopt_key(&mut self, order: Id) -> Written {
        let row = buyer(order);
        if self.claim_of(order).is_some() && self.keys[row].is_none() {
            self.keys[row] = Some(order);
        }
        // An earlier try worked and its answer was lost.
        Written::of(self.keys[row] == Some(order))
    }

    /// Whether the order's claim is still HELD, in that bucket, and was not moved away from another since.
    fn is_as_it_was(&self, order: Id, bucket: No, left: Nos) -> bool {
        self.claim_of(order) == Some(Claim { order, bucket, state: ClaimState::Held, left })
    }

    pub fn move_claim(&mut self, order: Id, from: (No, Nos), to: (No, Nos), bug: Option<Bug>) -> Written {
        let any = bug == Some(Bug::MoveAClaimOfAnOrder) && self.claim_of(order).is_some();
        let done = self.is_as_it_was(order, from.0, from.1) || any;
        if let Some(claim) = self.claims[buyer(order)].as_mut().filter(|_| done) {
            (claim.bucket, claim.left) = to;
        }
        Written::of(done)
    }

    /// With its number, which is a key as well, and perhaps with the buyer's key, if that is answered with it.
    pub fn withdraw_claim(&mut self, order: Id, from: (No, Nos), key_too: bool, bug: Option<Bug>) -> Written {
        let any = bug == Some(Bug::WithdrawAClaimOfAnOrder) && self.claim_of(order).is_some();
        let done = self.is_as_it_was(order, from.0, from.1) || any;
        if done {
            self.claims[buyer(order)] = None;
            self.numbers &= !bit(order);
            self.keys[buyer(order)].take_if(|answer| key_too && *answer == order);
        }
        Written::of(done)
    }

    pub fn mark_ordered(&mut self, order: Id, bucket: No) -> Written {
        let done = self.claim_of(order).is_some_and(|claim| claim.state == ClaimState::Held);
        if done {
            self.claims[buyer(order)] = Some(Claim { order, bucket, state: ClaimState::Ordered, left: 0 });
        }
        Written::of(done)
    }

    pub fn drop_claim(&mut self, order: Id, bug: Option<Bug>) {
        let dropped = match bug {
            Some(Bug::DropAnybodysClaim) => self.claims[buyer(order)],
            _ => self.claim_of(order),
        };
        if dropped.is_some_and(|claim| claim.state != ClaimState::Revived) {
            self.claims[buyer(order)] = None;
        }
    }

    // ── Buckets ──

    /// Done: it holds, now or since before.
    pub fn hold(&mut self, order: Id, bucket: No, bug: Option<Bug>) -> Written {
        let at = &mut self.buckets[usize::from(bucket)];
        let has_units = at.free >= 1 || bug == Some(Bug::HoldWithoutUnits);
        let is_new = !at.holds(order) || bug == Some(Bug::HoldTwice);
        let is_unsold = !at.sold_to(order) || bug == Some(Bug::HoldWhatIsSold);
        if has_units && is_new && is_unsold {
            at.holders |= bit(order);
            at.free -= 1;
            return Written::Done;
        }
        Written::of(at.holds(order) || at.sold_to(order))
    }

    pub fn confirm(&mut self, order: Id, bucket: No, bug: Option<Bug>) {
        let at = &mut self.buckets[usize::from(bucket)];
        if at.holds(order) || bug == Some(Bug::ConfirmWhatIsNotHeld) {
            at.holders &= !bit(order);
            at.sold_to |= bit(order);
            at.sold += 1;
        }
    }

    pub fn release(&mut self, order: Id, bucket: No, bug: Option<Bug>) {
        let at = &mut self.buckets[usize::from(bucket)];
        if at.holds(order) || bug == Some(Bug::ReleaseWhatIsNotHeld) {
            at.holders &= !bit(order);
            at.free += 1;
        }
    }

    // ── Orders ──

    /// Puts an order, if there is none.
    pub fn place(&mut self, order: Id, new: Order, bug: Option<Bug>) -> Written {
        let place = &mut self.orders[usize::from(order)];
        let done = place.is_none() || bug == Some(Bug::OrderOverAnOrder);
        if done {
            *place = Some(new);
        }
        Written::of(done)
    }

    /// Lets an event happen to an order, if its life allows it.
    pub fn happens(&mut self, order: Id, event: Event, bug: Option<Bug>) -> Option<Step> {
        let row = self.orders[usize::from(order)].as_mut()?;
        let next = match (event, row.status(), bug) {
            (Event::Close, Status::Paid, Some(Bug::CloseWhatIsPaid)) => Step::Become(Status::Closed),
            (Event::Pay, Status::Closed, Some(Bug::PayWhatIsClosed)) => Step::Become(Status::Paid),
            (event, status, _) => step(status, event),
        };
        if let Step::Become(status) = next {
            row.status = status as u8;
        }
        Some(next)
    }

    /// A closed order that was paid late is revived in another bucket or the same: one transaction.
    pub fn revive(&mut self, order: Id, bucket: No, bug: Option<Bug>) -> Written {
        let at = &mut self.buckets[usize::from(bucket)];
        let row = &mut self.orders[usize::from(order)];
        let is_closed = row.is_some_and(|row| row.status() == Status::Closed);
        let has_units = at.free >= 1 && !at.holds(order) && !at.sold_to(order);
        let is_alone = self.claims[buyer(order)].is_none() || bug == Some(Bug::ReviveBesideAClaim);
        let done = is_closed && has_units && is_alone;
        if done {
            at.free -= 1;
            at.sold += 1;
            at.sold_to |= bit(order);
            *row = Some(Order::new(Status::Paid, bucket));
            self.claims[buyer(order)] = Some(Claim { order, bucket, state: ClaimState::Revived, left: 0 });
        }
        Written::of(done)
    }

    // ── The queue ──

    pub fn send(&mut self, order: Id, bucket: No) {
        self.messages[usize::from(bucket)] |= bit(order);
    }

    pub fn delete(&mut self, order: Id, bucket: No) {
        self.messages[usize::from(bucket)] &= !bit(order);
    }

    // ── Symmetry ──

    /// The same with other names: buyer `row` is called `buyers[row]`, and the buckets have changed places if `swap`.
    pub fn renamed(&self, buyers: &[u8; BUYERS], swap: bool) -> Self {
        let ids = |of: Ids| Self::ids(of).fold(0, |ids, order| ids | bit(renamed(order, buyers)));
        let place = |bucket: usize| if swap { BUCKETS - 1 - bucket } else { bucket };
        let mut new =
            Self { numbers: ids(self.numbers), taken: ids(self.taken), accepted: ids(self.accepted), ..*self };
        for (bucket, at) in self.buckets.iter().enumerate() {
            new.buckets[place(bucket)] = Bucket { holders: ids(at.holders), sold_to: ids(at.sold_to), ..*at };
            new.messages[place(bucket)] = ids(self.messages[bucket]);
        }
        for row in 0..BUYERS {
            let name = usize::from(buyers[row]);
            let claim = |claim: Claim| Claim {
                order: renamed(claim.order, buyers),
                bucket: renamed_bucket(claim.bucket, swap),
                left: renamed_buckets(claim.left, swap),
                ..claim
            };
            new.claims[name] = self.claims[row].map(claim);
            new.keys[name] = self.keys[row].map(|order| renamed(order, buyers));
            for nth in 0..ORDERS_EACH {
                let order = self.orders[row * ORDERS_EACH + nth];
                new.orders[name * ORDERS_EACH + nth] =
                    order.map(|order| Order { bucket: renamed_bucket(order.bucket, swap), ..order });
            }
        }
        new
    }

    // ── What is true after every write ──

    pub fn check(&self) -> Result<(), String> {
        for at in &self.buckets {
            let [held, sold] = [at.holders, at.sold_to].map(|ids| ids.count_ones() as i8);
            if at.free < 0 || sold != at.sold || at.free + held + at.sold != at.cap {
                return Err(format!("a bucket does not add up: {at:?}"));
            }
        }
        let mut live = [None; BUYERS];
        for id in 0..ORDERS as Id {
            let Some(order) = self.order(id) else { continue };
            let status = order.status();
            if status.is_live()
                && let Some(other) = live[buyer(id)].replace(id)
            {
                return Err(format!("buyer {} has two live orders: {other} and {id}", buyer(id)));
            }
            let at = &self.buckets[usize::from(order.bucket)];
            let has_them = match status {
                Status::PendingPayment => at.holds(id),
                Status::Paid | Status::Refunding => at.holds(id) || at.sold_to(id),
                Status::Closed | Status::Failed | Status::Refunded => !at.sold_to(id),
            };
            if status == Status::Failed && self.accepted & bit(id) != 0 {
                return Err(format!("order {id} was accepted, and failed"));
            }
            if !has_them {
                return Err(format!("order {id} is {}, and its bucket {} is {at:?}", status.as_str(), order.bucket));
            }
        }
        Ok(())
    }
}
