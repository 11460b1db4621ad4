//! The press of the button: a claim, a hold, a message. Two writes and one send; nothing to undo.
//!
//! | stopped after | what is left | who repairs it |
//! |---|---|---|
//! | the claim | a claim without stock | the buyer's next press goes on with it; nobody else is kept from anything |
//! | a move of the claim | the same, at another bucket | the same |
//! | the hold | stock held, claim HELD, no message | the buyer's next press, or reconcile sends the message |
//! | the claim is taken, by a second request | stock held, claim ORDERED, no message | reconcile sends the message |
//! | the message | nothing undone | order-consumer makes the order |
//!
//! Two requests may work on one order at the same time: the same key sent twice, or a try taken for abandoned. Each asks the
//! claim before it leaves a bucket, so the order can only hold where the claim says. A hold that arrives after its order has
//! moved on is a holder that no claim points to: reconcile returns it.
//!
//! What one of them was accepted with, the other must not withdraw. The first request does not look at its claim again after its hold,
//! so no other withdraws it while the first may live; and any other takes the claim for good, by a third write, before it is accepted.
//! The first may have held its units in a bucket that another moved the claim away from meanwhile. So whoever moves it writes down where
//! it was, and whoever finds nothing looks there before it says so.

use std::time::{Duration, Instant};

use domain::Timestamp;
use domain::bucket::BucketNo;
use domain::claim::{BuyerClaims, Claim, ClaimStanding, ClaimState, Press, first_request_ended};
use domain::ids::{Buyer, BuyerKey, IdempotencyKey, Offer, OrderId};
use domain::message::{OrderMessage, VERSION};
use domain::sale::{Item, Phase, Sale, SaleWithItems};
use jiff::SignedDuration;
use store::{ClaimWrite, Hold, NewClaim, Store, StoreError};

use crate::bucket_picker::{BucketPicker, Pick, Search};
use crate::limits::Limits;
use crate::sales::Sales;
use crate::stock;

/// Buckets tried for one press. At the very end of a sale many are found empty; past this, another press is fairer to the others.
pub const BUCKETS_TRIED: u32 = 12;
/// After so many empty buckets the page is clearly behind: look before trying more.
pub const LOOK_AFTER: u32 = 3;
/// Buckets that a claim was moved away from by others than its first request: each is looked into before it is given up.
const MOST_LEFT: usize = 24;
/// A buyer's claims and answers are kept this long after the sale: longer than any message lives.
const CLAIMS_KEPT: SignedDuration = SignedDuration::from_hours(24 * 30);

/// What a buyer asks for.
#[derive(Clone, Debug)]
pub struct Purchase {
    /// What.
    pub offer: Offer,
    /// Who.
    pub buyer: Buyer,
    /// The buyer's short name.
    pub buyer_key: BuyerKey,
    /// How many.
    pub quantity: u32,
    /// The buyer's own name for this try.
    pub key: Option<IdempotencyKey>,
    /// The `availabilityVersion` of the item that the buyer saw when pressing.
    pub seen_version: Option<u64>,
    /// When.
    pub now: Timestamp,
    /// Random bits: for the order's number and the choice of a bucket.
    pub random: u32,
    /// The trace of the request.
    pub trace: Option<String>,
}

/// An accepted purchase.
#[derive(Debug)]
pub struct Accepted {
    /// The order there is, or will be.
    pub order: OrderId,
    /// How long the hold took; `None`: the purchase was answered before.
    pub hold_took: Option<Duration>,
    /// Why the message could not be sent, if it could not: reconcile will send it.
    pub unsent: Option<StoreError>,
}

/// Why a purchase is refused.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// No such sale.
    #[error("there is no such sale")]
    UnknownSale,
    /// No such item in the sale.
    #[error("there is no such item in this sale")]
    UnknownItem,
    /// Too early.
    #[error("the sale has not started")]
    NotStarted,
    /// Too late.
    #[error("the sale is over")]
    Ended,
    /// Stopped for now.
    #[error("the sale is paused")]
    Paused,
    /// More than one buyer may have.
    #[error("a buyer may have {limit} of this item at the most")]
    LimitExceeded {
        /// The most.
        limit: u32,
    },
    /// Nothing free for this quantity.
    #[error("sold out")]
    SoldOut {
        /// What a smaller quantity could perhaps still get.
        available: u32,
    },
    /// The buyer has a live order.
    #[error("there is a live order already")]
    Duplicate(OrderId),
    /// The idempotency key was used for something else.
    #[error("this Idempotency-Key was used for another request")]
    Mismatch,
    /// Too fast.
    #[error("too many requests")]
    RateLimited {
        /// When to try again.
        retry_after_ms: i64,
    },
    /// Other buyers took every bucket that was tried.
    #[error("too many buyers at once")]
    Busy,
    /// The database did not answer.
    #[error(transparent)]
    Unavailable(#[from] StoreError),
}

/// What a running `seckill` function remembers between presses.
#[derive(Debug)]
pub struct Seckill {
    /// The store.
    pub store: Store,
    /// Sales.
    pub sales: Sales,
    /// What is open.
    pub picker: BucketPicker,
    /// Rate limits.
    pub limits: Limits,
}

impl Seckill {
    /// A function that has just started.
    pub fn new(store: Store) -> Self {
        Self { store, sales: Sales::default(), picker: BucketPicker::default(), limits: Limits::default() }
    }

    /// Takes a press.
    pub async fn purchase(&self, purchase: &Purchase) -> Result<Accepted, Refusal> {
        let Purchase { offer, now, .. } = purchase;
        let found = self.sales.get(&self.store, &offer.sale, *now).await?.ok_or(Refusal::UnknownSale)?;
        let SaleWithItems { sale, items } = found.as_ref();
        let item = items.get(&offer.item).ok_or(Refusal::UnknownItem)?;
        if purchase.quantity > item.limit_per_buyer {
            return Err(Refusal::LimitExceeded { limit: item.limit_per_buyer });
        }
        match sale.phase(*now) {
            Phase::Open => {}
            Phase::Draft | Phase::Scheduled => return Err(Refusal::NotStarted),
            Phase::Paused => return self.unless_answered(purchase, sale, item, Refusal::Paused).await,
            Phase::Ended | Phase::Closed => return self.unless_answered(purchase, sale, item, Refusal::Ended).await,
        }
        let bucket = match self.pick(purchase, item, purchase.quantity, purchase.random).await? {
            Pick::Bucket(bucket) => bucket,
            Pick::Nothing { available } => {
                return self.unless_answered(purchase, sale, item, Refusal::SoldOut { available }).await;
            }
        };
        self.admit(purchase, sale)?;
        let order = OrderId::new(*now, &purchase.buyer_key, purchase.random);
        // Without a key of the buyer's, the order's number is one. A key stays when the claim goes: a claim that wandered and lands after
        // its order has ended is refused by it, and not the claim of an order that nothing closes any more.
        let key = purchase.key.clone().unwrap_or_else(|| IdempotencyKey::from(&order));
        let claim =
            Claim { order, quantity: purchase.quantity, bucket, state: ClaimState::Held, previous_buckets: Vec::new() };
        let new = NewClaim {
            offer,
            buyer: &purchase.buyer,
            claim: &claim,
            key: &key,
            expires: sale.ends_at.saturating_add(CLAIMS_KEPT).unwrap_or(sale.ends_at),
        };
        let (written, claims) = self.store.claim(&new).await?;
        match written {
            ClaimWrite::Done => {
                self.tidy(purchase, &claims).await;
                let held = self.hold(purchase, item, claim, Request::First(&[key])).await?;
                Ok(self.send(purchase, held).await)
            }
            // An earlier try of this very request made the claim, and its answer was lost.
            ClaimWrite::Refused(claims) if claims.claims.get(&offer.item) == Some(&claim) => {
                let held = self.hold(purchase, item, claim, Request::First(&[key])).await?;
                Ok(self.send(purchase, held).await)
            }
            ClaimWrite::Refused(claims) => match claims.standing(&press(purchase)) {
                ClaimStanding::Same(order) => Ok(Accepted { order, hold_took: None, unsent: None }),
                ClaimStanding::Resume(claim) => self.go_on(purchase, item, claim, &claims).await,
                ClaimStanding::Duplicate(order) => Err(Refusal::Duplicate(order)),
                ClaimStanding::Mismatch => Err(Refusal::Mismatch),
                // The write was refused because of a claim or a key, and both are gone again.
                ClaimStanding::Free => Err(Refusal::Busy),
            },
        }
    }

    /// The sale's rate limits stand before whatever costs a call for one press alone. What is known from memory is answered to everybody:
    /// who is told that everything is sold does not come back, and who is told to come back does.
    fn admit(&self, purchase: &Purchase, sale: &Sale) -> Result<(), Refusal> {
        let limited = self.limits.admit(sale, &purchase.offer, &purchase.buyer_key, purchase.now);
        limited.map_err(|retry_after_ms| Refusal::RateLimited { retry_after_ms })
    }

    /// A refusal, unless this buyer's key was answered before: the answer to a key does not change because the sale went on.
    /// Without a key a refusal costs nothing.
    async fn unless_answered(
        &self,
        purchase: &Purchase,
        sale: &Sale,
        item: &Item,
        refusal: Refusal,
    ) -> Result<Accepted, Refusal> {
        if purchase.key.is_none() {
            return Err(refusal);
        }
        self.admit(purchase, sale)?;
        let (claims, _) = self.store.claims(&purchase.buyer_key, &purchase.offer.sale).await?;
        let known = purchase.key.as_ref().is_some_and(|key| claims.keys.contains_key(key));
        let sold_out = matches!(refusal, Refusal::SoldOut { .. });
        match claims.standing(&press(purchase)) {
            ClaimStanding::Same(order) => Ok(Accepted { order, hold_took: None, unsent: None }),
            // A try that was left unfinished is finished; but a sale that does not sell now gives it no new units.
            ClaimStanding::Resume(claim)
                if known && (sold_out || stock::held_in(&self.store, &purchase.offer, &claim).await?.is_some()) =>
            {
                self.go_on(purchase, item, claim, &claims).await
            }
            ClaimStanding::Mismatch => Err(Refusal::Mismatch),
            ClaimStanding::Duplicate(order) if sold_out => Err(Refusal::Duplicate(order)),
            ClaimStanding::Resume(_) | ClaimStanding::Duplicate(_) | ClaimStanding::Free => Err(refusal),
        }
    }

    /// Goes on with an unfinished try of this buyer's. Its quantity stays: its stock may be held already.
    async fn go_on(
        &self,
        purchase: &Purchase,
        item: &Item,
        claim: Claim,
        claims: &BuyerClaims,
    ) -> Result<Accepted, Refusal> {
        let answered = claims.keys.iter().filter(|(_, answered)| answered.order == claim.order);
        let keys: Vec<IdempotencyKey> = answered.map(|(key, _)| key.clone()).collect();
        let is_more = claim.quantity > purchase.quantity;
        let request = match first_request_ended(&claim.order, purchase.now) {
            true => Request::AfterTheFirst(&keys),
            false => Request::Another,
        };
        let held = match self.hold(purchase, item, claim, request).await {
            // That there is nothing for a try of more says nothing about what is asked for now. When it is forsaken it is withdrawn, and the
            // next press begins anew.
            Err(Refusal::SoldOut { .. }) if is_more => return Err(Refusal::Busy),
            held => held?,
        };
        let held = self.take(purchase, held).await?;
        let accepted = self.send(purchase, held).await;
        if let Some(key) = purchase.key.as_ref().filter(|key| !keys.contains(key)) {
            self.adopt(purchase, &accepted.order, key).await?;
        }
        Ok(accepted)
    }

    /// The claim is the order's for good, at the bucket that has its units. Stopped after that, reconcile sends the message.
    async fn take(&self, purchase: &Purchase, Held { claim, took }: Held) -> Result<Held, Refusal> {
        let offer = &purchase.offer;
        let claims = match self.store.mark_ordered(offer, &claim.order, claim.bucket).await? {
            ClaimWrite::Done => return Ok(Held { claim, took }),
            ClaimWrite::Refused(claims) => claims,
        };
        match claims.claims.get(&offer.item) {
            Some(now) if now.order == claim.order => Ok(Held { claim: now.clone(), took }),
            // The first request has withdrawn it: nobody was accepted, and reconcile returns the units.
            _ => Err(Refusal::Busy),
        }
    }

    /// The answer is known under this key from now on.
    async fn adopt(&self, purchase: &Purchase, order: &OrderId, key: &IdempotencyKey) -> Result<(), Refusal> {
        match self.store.adopt_key(&purchase.offer, order, key, purchase.quantity).await? {
            ClaimWrite::Refused(claims) if claims.keys.get(key).is_none_or(|answered| answered.order != *order) => {
                Err(Refusal::Busy)
            }
            _ => Ok(()),
        }
    }

    /// Sends the message of a purchase that is held.
    async fn send(&self, purchase: &Purchase, Held { claim, took }: Held) -> Accepted {
        let message = OrderMessage {
            version: VERSION,
            order_id: claim.order.clone(),
            buyer: purchase.buyer.clone(),
            sale_id: purchase.offer.sale.clone(),
            item_id: purchase.offer.item.clone(),
            quantity: claim.quantity,
            bucket: claim.bucket,
            trace: purchase.trace.clone(),
        };
        // Claim and hold are durable: a queue that is down delays the order and loses nothing. Reconcile sends the message.
        let unsent = self.store.send_order(&message).await.err();
        Accepted { order: claim.order, hold_took: Some(took), unsent }
    }

    /// Holds the claim's units, in its bucket or in the next one that has them. If there are none, the claim is withdrawn with its keys by
    /// whoever may; else it stays as it is: it keeps nobody from anything, and the buyer's next press goes on with it.
    async fn hold(
        &self,
        purchase: &Purchase,
        item: &Item,
        mut claim: Claim,
        request: Request<'_>,
    ) -> Result<Held, Refusal> {
        let began = Instant::now();
        let held = |claim| Ok(Held { claim, took: began.elapsed() });
        let offer = &purchase.offer;
        let mut roll = purchase.random;
        for tried in 1..=BUCKETS_TRIED {
            match self.store.hold(offer, claim.bucket, &claim.order, claim.quantity).await? {
                Hold::Held => return held(claim),
                Hold::Full { free } => self.picker.found(offer, claim.bucket, free, purchase.now).await,
            }
            roll = roll.wrapping_mul(747_796_405).wrapping_add(2_891_336_453);
            if tried % LOOK_AFTER == 0 {
                self.picker.look(&self.store, offer, purchase.now, roll).await?;
            }
            let next = match tried {
                BUCKETS_TRIED => Err(Refusal::Busy),
                _ => match self.pick(purchase, item, claim.quantity, roll).await? {
                    Pick::Bucket(bucket) => Ok(bucket),
                    Pick::Nothing { available } => Err(Refusal::SoldOut { available }),
                },
            };
            let next = next.and_then(|bucket| request.moved(&claim, bucket).ok_or(Refusal::Busy));
            if next.is_err()
                && !claim.previous_buckets.is_empty()
                && let Some(bucket) = stock::held_in(&self.store, offer, &claim).await?
            {
                return held(Claim { bucket, ..claim });
            }
            let written = match (&next, request) {
                (Ok(moved), _) => self.store.move_claim(offer, &claim, moved).await?,
                (Err(_), Request::First(keys) | Request::AfterTheFirst(keys)) => {
                    self.store.withdraw_claim(offer, &claim, keys).await?
                }
                (Err(_), Request::Another) => ClaimWrite::Done,
            };
            match (written, next) {
                (ClaimWrite::Done, Ok(moved)) => claim = moved,
                (ClaimWrite::Done, Err(refusal)) => return Err(refusal),
                // Another request works on the same order and was quicker: follow it.
                (ClaimWrite::Refused(claims), next) => match claims.claims.get(&offer.item) {
                    Some(now) if now.order == claim.order && now.state != ClaimState::Held => return held(now.clone()),
                    Some(now) if now.order == claim.order => claim = now.clone(),
                    Some(now) => return Err(Refusal::Duplicate(now.order.clone())),
                    None => return Err(next.err().unwrap_or(Refusal::Busy)),
                },
            }
        }
        Err(Refusal::Busy)
    }

    async fn pick(&self, purchase: &Purchase, item: &Item, quantity: u32, roll: u32) -> Result<Pick, StoreError> {
        let search = Search {
            offer: &purchase.offer,
            buckets: item.layout.buckets(),
            quantity,
            seen_version: purchase.seen_version,
            now: purchase.now,
            roll,
        };
        self.picker.pick(&self.store, &search).await
    }

    /// Forgets old answers of a buyer who has many. A failure changes nothing: the next press tries again.
    async fn tidy(&self, purchase: &Purchase, claims: &BuyerClaims) {
        let keys = claims.keys_to_forget();
        if !keys.is_empty()
            && let Err(error) = self.store.forget_keys(&purchase.buyer_key, &purchase.offer.sale, &keys).await
        {
            tracing::warn!(%error, "old idempotency keys were not forgotten");
        }
    }
}

/// Which of the requests for an order it is.
#[derive(Clone, Copy)]
enum Request<'a> {
    /// The one that made the claim, with this key.
    First(&'a [IdempotencyKey]),
    /// Another, so late that the first has ended. These keys are answered with the order.
    AfterTheFirst(&'a [IdempotencyKey]),
    /// Another.
    Another,
}

impl Request<'_> {
    /// The claim, moved by this request; `None`: it was moved too often. The first leaves a bucket only when it has not held there.
    fn moved(self, claim: &Claim, to: BucketNo) -> Option<Claim> {
        let mut moved = Claim { bucket: to, ..claim.clone() };
        if !matches!(self, Request::First(_)) && !moved.previous_buckets.contains(&claim.bucket) {
            moved.previous_buckets.push(claim.bucket);
        }
        (moved.previous_buckets.len() <= MOST_LEFT).then_some(moved)
    }
}

/// A claim whose units are held.
struct Held {
    claim: Claim,
    took: Duration,
}

fn press(purchase: &Purchase) -> Press<'_> {
    Press { item: &purchase.offer.item, quantity: purchase.quantity, key: purchase.key.as_ref(), now: purchase.now }
}
