//! The tables and the queue of the model, and each write with its condition.

use domain::claim::ClaimState;
use domain::order::{Event, Status, Step, step};

use super::Bug;

pub const BUYERS: usize = 3;
pub const BUCKETS: usize = 2;
/// The most orders of one buyer.
pub const ORDERS_EACH: usize = 2;
pub(super) const ORDERS: usize = BUYERS * ORDERS_EACH;

/// An order's number, which contains its buyer.
pub type OrderNo = u8;
pub type BucketNo = u8;
/// A set of orders.
pub type OrderSet = u8;
/// A set of buckets.
pub type BucketSet = u8;

pub fn buyer(order: OrderNo) -> usize {
    usize::from(order) / ORDERS_EACH
}

/// A buyer's first order.
pub fn first(buyer: usize) -> OrderNo {
    (buyer * ORDERS_EACH) as OrderNo
}

pub(super) fn bit(order: OrderNo) -> OrderSet {
    1 << order
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Bucket {
    pub cap: i8,
    pub free: i8,
    pub sold: i8,
    pub holders: OrderSet,
    pub sold_to: OrderSet,
    /// Refunded orders, which are remembered with no units.
    pub returned: OrderSet,
}

impl Bucket {
    pub fn holds(&self, order: OrderNo) -> bool {
        self.holders & bit(order) != 0
    }

    pub fn sold_to(&self, order: OrderNo) -> bool {
        self.sold_to & bit(order) != 0
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    pub order: OrderNo,
    pub bucket: BucketNo,
    pub state: ClaimState,
    /// The buckets that the claim was moved away from.
    pub previous: BucketSet,
}

impl std::hash::Hash for Claim {
    fn hash<H: std::hash::Hasher>(&self, hasher: &mut H) {
        (self.order, self.bucket, self.state as u8, self.previous).hash(hasher);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Order {
    pub status: u8,
    pub bucket: BucketNo,
}

impl Order {
    pub fn new(status: Status, bucket: BucketNo) -> Self {
        Self { status: status as u8, bucket }
    }

    pub fn status(self) -> Status {
        Status::ALL.into_iter().find(|status| *status as u8 == self.status).unwrap()
    }
}

/// The outcome of a conditional write.
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
    /// The answer to each buyer's only idempotency key.
    pub keys: [Option<OrderNo>; BUYERS],
    /// Orders that were claimed without a key: their number serves as the key.
    pub numbers: OrderSet,
    pub orders: [Option<Order>; ORDERS],
    /// Messages on the queue, by bucket.
    pub messages: [OrderSet; BUCKETS],
    /// Order numbers that presses have used.
    pub taken: OrderSet,
    /// Orders that were answered as accepted.
    pub accepted: OrderSet,
    /// Orders with an open entry in the refund log.
    pub refunds: OrderSet,
}

impl Tables {
    pub fn new(caps: [i8; BUCKETS]) -> Self {
        Self {
            buckets: caps.map(|cap| Bucket { cap, free: cap, sold: 0, holders: 0, sold_to: 0, returned: 0 }),
            claims: [None; BUYERS],
            keys: [None; BUYERS],
            numbers: 0,
            orders: [None; ORDERS],
            messages: [0; BUCKETS],
            taken: 0,
            accepted: 0,
            refunds: 0,
        }
    }

    pub fn ids(of: OrderSet) -> impl Iterator<Item = OrderNo> {
        (0..ORDERS as OrderNo).filter(move |order| of & bit(*order) != 0)
    }

    /// An order number that no press of this buyer has used yet.
    pub fn new_id(&mut self, buyer: usize, max: u8) -> Option<OrderNo> {
        let first = first(buyer);
        let id = (first..first + max).find(|order| self.taken & bit(*order) == 0)?;
        self.taken |= bit(id);
        Some(id)
    }

    pub fn accept(&mut self, order: OrderNo) {
        self.accepted |= bit(order);
    }

    pub fn order(&self, order: OrderNo) -> Option<Order> {
        self.orders[usize::from(order)]
    }

    pub fn claim_of(&self, order: OrderNo) -> Option<Claim> {
        self.claims[buyer(order)].filter(|claim| claim.order == order)
    }

    // ── Claims ──

    pub fn claim(&mut self, order: OrderNo, bucket: BucketNo, keyed: bool, bug: Option<Bug>) -> Written {
        let row = buyer(order);
        let free = self.claims[row].is_none() || bug == Some(Bug::ClaimOverAClaim);
        let is_new = if keyed { self.keys[row].is_none() } else { self.numbers & bit(order) == 0 };
        let done = free && (is_new || bug == Some(Bug::KeyNotChecked));
        if done {
            self.claims[row] = Some(Claim { order, bucket, state: ClaimState::Held, previous: 0 });
            match keyed {
                true => self.keys[row] = Some(order),
                false => self.numbers |= bit(order),
            }
        }
        Written::of(done)
    }

    pub fn adopt_key(&mut self, order: OrderNo) -> Written {
        let row = buyer(order);
        if self.claim_of(order).is_some() && self.keys[row].is_none() {
            self.keys[row] = Some(order);
        }
        // Also done if an earlier attempt succeeded and its answer was lost.
        Written::of(self.keys[row] == Some(order))
    }

    /// Whether the claim is still HELD in that bucket and has not been moved since it was read.
    fn is_unchanged(&self, order: OrderNo, bucket: BucketNo, previous: BucketSet) -> bool {
        self.claim_of(order) == Some(Claim { order, bucket, state: ClaimState::Held, previous })
    }

    pub fn move_claim(
        &mut self,
        order: OrderNo,
        from: (BucketNo, BucketSet),
        to: (BucketNo, BucketSet),
        bug: Option<Bug>,
    ) -> Written {
        let any = bug == Some(Bug::MoveAClaimOfAnOrder) && self.claim_of(order).is_some();
        let done = self.is_unchanged(order, from.0, from.1) || any;
        if let Some(claim) = self.claims[buyer(order)].as_mut().filter(|_| done) {
            (claim.bucket, claim.previous) = to;
        }
        Written::of(done)
    }

    /// Also removes the order's number as a key and, if `key_too`, the buyer's key if it is answered with this order.
    pub fn withdraw_claim(
        &mut self,
        order: OrderNo,
        from: (BucketNo, BucketSet),
        key_too: bool,
        bug: Option<Bug>,
    ) -> Written {
        let any = bug == Some(Bug::WithdrawAClaimOfAnOrder) && self.claim_of(order).is_some();
        let done = self.is_unchanged(order, from.0, from.1) || any;
        if done {
            self.claims[buyer(order)] = None;
            self.numbers &= !bit(order);
            self.keys[buyer(order)].take_if(|answer| key_too && *answer == order);
        }
        Written::of(done)
    }

    pub fn mark_ordered(&mut self, order: OrderNo, bucket: BucketNo) -> Written {
        let done = self.claim_of(order).is_some_and(|claim| claim.state == ClaimState::Held);
        if done {
            self.claims[buyer(order)] = Some(Claim { order, bucket, state: ClaimState::Ordered, previous: 0 });
        }
        Written::of(done)
    }

    /// Also drops a claim that was made again by a revival.
    pub fn drop_refunded_claim(&mut self, order: OrderNo) {
        if self.claim_of(order).is_some() {
            self.claims[buyer(order)] = None;
        }
    }

    pub fn drop_claim(&mut self, order: OrderNo, bug: Option<Bug>) {
        let dropped = match bug {
            Some(Bug::DropAnotherOrdersClaim) => self.claims[buyer(order)],
            _ => self.claim_of(order),
        };
        if dropped.is_some_and(|claim| claim.state != ClaimState::Revived) {
            self.claims[buyer(order)] = None;
        }
    }

    // ── Buckets ──

    /// Done also if the order already holds the unit, or if the unit is or was sold to it.
    pub fn hold(&mut self, order: OrderNo, bucket: BucketNo, bug: Option<Bug>) -> Written {
        let at = &mut self.buckets[usize::from(bucket)];
        let has_units = at.free >= 1 || bug == Some(Bug::HoldWithoutUnits);
        let is_new = !at.holds(order) || bug == Some(Bug::HoldTwice);
        let is_returned = at.returned & bit(order) != 0;
        let is_unsold = !at.sold_to(order) && !is_returned || bug == Some(Bug::HoldWhatIsSold);
        if has_units && is_new && is_unsold {
            at.holders |= bit(order);
            at.free -= 1;
            return Written::Done;
        }
        Written::of(at.holds(order) || at.sold_to(order) || is_returned)
    }

    pub fn confirm(&mut self, order: OrderNo, bucket: BucketNo, bug: Option<Bug>) {
        let at = &mut self.buckets[usize::from(bucket)];
        if at.holds(order) || bug == Some(Bug::ConfirmWhatIsNotHeld) {
            at.holders &= !bit(order);
            at.sold_to |= bit(order);
            at.sold += 1;
        }
    }

    pub fn release(&mut self, order: OrderNo, bucket: BucketNo, bug: Option<Bug>) {
        let at = &mut self.buckets[usize::from(bucket)];
        if at.holds(order) || bug == Some(Bug::ReleaseWhatIsNotHeld) {
            at.holders &= !bit(order);
            at.free += 1;
        }
    }

    pub fn take_back(&mut self, order: OrderNo, bucket: BucketNo, bug: Option<Bug>) -> Written {
        let at = &mut self.buckets[usize::from(bucket)];
        let done = at.sold_to(order) || bug == Some(Bug::TakeBackWhatIsNotSold);
        if done {
            at.sold_to &= !bit(order);
            at.sold -= 1;
            at.free += 1;
            if bug != Some(Bug::ReturnedIsForgotten) {
                at.returned |= bit(order);
            }
        }
        Written::of(done)
    }

    pub fn release_refunded(&mut self, order: OrderNo, bucket: BucketNo) -> Written {
        let at = &mut self.buckets[usize::from(bucket)];
        let done = at.holds(order);
        if done {
            at.holders &= !bit(order);
            at.free += 1;
            at.returned |= bit(order);
        }
        Written::of(done)
    }

    // ── Orders ──

    /// Creates an order if it does not exist.
    pub fn place(&mut self, order: OrderNo, new: Order, bug: Option<Bug>) -> Written {
        let place = &mut self.orders[usize::from(order)];
        let done = place.is_none() || bug == Some(Bug::OrderOverAnOrder);
        if done {
            *place = Some(new);
        }
        Written::of(done)
    }

    /// Applies an event to an order, if its status allows it.
    pub fn apply_event(&mut self, order: OrderNo, event: Event, bug: Option<Bug>) -> Option<Step> {
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

    /// Revives a closed order that was paid late, in any bucket, as one transaction.
    pub fn revive(&mut self, order: OrderNo, bucket: BucketNo, bug: Option<Bug>) -> Written {
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
            self.claims[buyer(order)] = Some(Claim { order, bucket, state: ClaimState::Revived, previous: 0 });
        }
        Written::of(done)
    }

    // ── The queue ──

    pub fn send(&mut self, order: OrderNo, bucket: BucketNo) {
        self.messages[usize::from(bucket)] |= bit(order);
    }

    pub fn delete(&mut self, order: OrderNo, bucket: BucketNo) {
        self.messages[usize::from(bucket)] &= !bit(order);
    }
}
