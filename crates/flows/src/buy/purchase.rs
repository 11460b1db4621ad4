//! The press of the button: a claim, a hold, a message. Two writes and one send; nothing has to be undone.
//!
//! | stopped after | left behind | repaired by |
//! |---|---|---|
//! | the claim | a claim without stock | the buyer's next press resumes it; it blocks no other buyer |
//! | a move of the claim | the same, at another bucket | the same |
//! | the hold | stock held, claim HELD, no message | the buyer's next press, or reconcile sends the message |
//! | the claim is ORDERED, by a second request | stock held, claim ORDERED, no message | reconcile sends the message |
//! | the message | nothing | order-consumer makes the order |
//!
//! # Two requests for one order
//!
//! Two requests may work on one order at the same time: the same key is sent twice, or a request resumes a
//! purchase that looks abandoned. Each moves the claim before it tries another bucket, so the order can only hold
//! where the claim says. A hold that arrives after its claim has moved on is a holder that no claim points to:
//! reconcile returns it.
//!
//! A purchase of another quantity that an earlier request left without units is replaced, not resumed.
//!
//! An accepted purchase must never be undone. Three rules ensure it:
//!
//! - The first request does not re-read its claim after the hold, so no other request may withdraw the claim
//!   while the first can still be running.
//! - Any other request marks the claim as ORDERED, by a third write, before it is accepted: after that the first
//!   cannot withdraw it.
//! - The first request may have held its units in a bucket from which another request has moved the claim away. A
//!   request that moves another's claim therefore adds the old bucket to the claim's `previous_buckets`, and a
//!   request that finds no units checks those buckets before it answers SOLD_OUT.

use std::time::Duration;

use domain::Timestamp;
use domain::bucket::BucketNo;
use domain::claim::{Answered, BuyerClaims, Claim, ClaimStanding, ClaimState, Press, first_request_ended};
use domain::ids::{Buyer, BuyerKey, IdempotencyKey, Offer, OrderId};
use domain::message::{OrderMessage, VERSION};
use domain::sale::{Item, Phase, Sale, SaleWithItems};
use domain::shop_data::ShopData;
use jiff::SignedDuration;
use store::{ClaimWrite, NewClaim, Store, StoreError};

use super::hold::{Held, Request};
use crate::buy::bucket_picker::{BucketPicker, Pick};
use crate::buy::limits::Limits;
use crate::sale::sales::Sales;
use crate::sale::stock;

pub use super::hold::{BUCKETS_TRIED, READ_BUCKETS_AFTER};

/// How long a buyer's claims and answers are kept after the sale: longer than any message lives.
const CLAIMS_KEPT_FOR: SignedDuration = SignedDuration::from_hours(24 * 30);

/// What a buyer asks for.
#[derive(Clone, Debug)]
pub struct Purchase {
    pub offer: Offer,
    pub buyer: Buyer,
    pub buyer_key: BuyerKey,
    pub quantity: u32,
    /// The buyer's own name for this purchase: the same key gets the same answer.
    pub key: Option<IdempotencyKey>,
    /// The `availabilityVersion` of the item that the buyer saw when pressing.
    pub seen_version: Option<u64>,
    /// What the shop attached.
    pub shop_data: ShopData,
    pub now: Timestamp,
    /// Random bits, for the order's id and the choice of a bucket.
    pub random: u32,
    pub trace: Option<String>,
}

/// An accepted purchase.
#[derive(Debug)]
pub struct Accepted {
    /// The order that exists, or will exist.
    pub order: OrderId,
    /// Its quantity. It differs from what was asked for if an earlier request's units were held already.
    pub quantity: u32,
    /// How long the hold took; `None`: the purchase was accepted by an earlier request.
    pub hold_took: Option<Duration>,
    /// Why the message could not be sent, if it could not: reconcile will send it.
    pub unsent: Option<StoreError>,
}

/// Why a purchase is refused.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    #[error("there is no such sale")]
    UnknownSale,
    #[error("there is no such item in this sale")]
    UnknownItem,
    #[error("the sale has not started")]
    NotStarted,
    #[error("the sale is over")]
    Ended,
    #[error("the sale is paused")]
    Paused,
    #[error("a buyer may have {limit} of this item at the most")]
    LimitExceeded { limit: u32 },
    /// No bucket has units for this quantity. A smaller quantity may still get `available`.
    #[error("sold out")]
    SoldOut { available: u32 },
    /// The buyer has a live order of this item.
    #[error("there is a live order already")]
    Duplicate(OrderId),
    #[error("this Idempotency-Key was used for another request")]
    Mismatch,
    #[error("too many requests")]
    RateLimited { retry_after_ms: i64 },
    /// Other buyers took every bucket that was tried, or another request works on the same order.
    #[error("too many buyers at once")]
    Busy,
    #[error(transparent)]
    Unavailable(#[from] StoreError),
}

/// What a running `seckill` function remembers between presses.
#[derive(Debug)]
pub struct Seckill {
    pub store: Store,
    pub sales: Sales,
    pub picker: BucketPicker,
    pub limits: Limits,
}

impl Seckill {
    /// A function that has just started.
    pub fn new(store: Store) -> Self {
        Self { store, sales: Sales::default(), picker: BucketPicker::default(), limits: Limits::default() }
    }

    /// Handles a press.
    pub async fn purchase(&self, purchase: &Purchase) -> Result<Accepted, Refusal> {
        let Purchase { offer, now, .. } = purchase;
        let found = self.sales.get_for_press(&self.store, &offer.sale, *now, purchase.random).await?;
        let found = found.ok_or(Refusal::UnknownSale)?;
        let SaleWithItems { sale, items } = found.as_ref();
        let item = items.get(&offer.item).ok_or(Refusal::UnknownItem)?;
        if purchase.quantity > item.limit_per_buyer {
            return Err(Refusal::LimitExceeded { limit: item.limit_per_buyer });
        }
        match sale.phase(*now) {
            Phase::Open => {}
            Phase::Draft | Phase::Scheduled => return Err(Refusal::NotStarted),
            Phase::Paused => return self.replay_or_refuse(purchase, sale, item, Refusal::Paused).await,
            Phase::Ended | Phase::Closed => return self.replay_or_refuse(purchase, sale, item, Refusal::Ended).await,
        }
        let bucket = match self.pick(purchase, item, purchase.quantity, purchase.random).await? {
            Pick::Bucket(bucket) => bucket,
            Pick::Nothing { available } => {
                return self.replay_or_refuse(purchase, sale, item, Refusal::SoldOut { available }).await;
            }
        };
        self.admit(purchase, sale)?;
        self.claim_and_hold(purchase, sale, item, bucket).await
    }

    /// Makes the claim and holds the units; or tells why not, or resumes what an earlier request has left.
    async fn claim_and_hold(
        &self,
        purchase: &Purchase,
        sale: &Sale,
        item: &Item,
        bucket: BucketNo,
    ) -> Result<Accepted, Refusal> {
        let Purchase { offer, now, .. } = purchase;
        let order = OrderId::new(*now, &purchase.buyer_key, purchase.random);
        // Without a key of the buyer's, the order's id is the key. A key outlives its claim: a delayed write of
        // the claim that arrives after the order has ended is refused because of it. Otherwise it would leave a
        // claim that nothing ever drops.
        let key = purchase.key.clone().unwrap_or_else(|| IdempotencyKey::from(&order));
        let (quantity, state) = (purchase.quantity, ClaimState::Held);
        let shop_data = purchase.shop_data.clone();
        let claim = Claim { order, quantity, bucket, state, previous_buckets: Vec::new(), shop_data };
        let cooldown_ms = i64::from(sale.buyer_cooldown_ms);
        let new = NewClaim {
            offer,
            buyer: &purchase.buyer,
            claim: &claim,
            key: &key,
            expires: sale.ends_at.saturating_add(CLAIMS_KEPT_FOR).unwrap_or(sale.ends_at),
            cooldown: (cooldown_ms > 0).then(|| (*now, SignedDuration::from_millis(cooldown_ms))),
        };
        let (written, claims) = self.store.claim(&new).await?;
        match written {
            ClaimWrite::Done => {
                self.forget_old_keys(purchase, &claims).await;
                let held = self.hold(purchase, item, claim, Request::First(&[key])).await?;
                Ok(self.send(purchase, held).await)
            }
            // The first attempt of this very write made the claim, and its answer was lost.
            ClaimWrite::Refused(claims) if claims.claims.get(&offer.item) == Some(&claim) => {
                let held = self.hold(purchase, item, claim, Request::First(&[key])).await?;
                Ok(self.send(purchase, held).await)
            }
            ClaimWrite::Refused(claims) => match claims.standing(&press(purchase)) {
                ClaimStanding::Same(order) => Ok(same(purchase, order, &claims)),
                ClaimStanding::Resume(claim) if claim.quantity != purchase.quantity => {
                    self.resume_or_replace(purchase, sale, item, claim, &claims).await
                }
                ClaimStanding::Resume(claim) => self.resume(purchase, item, claim, &claims).await,
                ClaimStanding::Duplicate(order) => Err(Refusal::Duplicate(order)),
                ClaimStanding::Mismatch => Err(Refusal::Mismatch),
                ClaimStanding::Free => match claims.cooldown_left_ms(&offer.item, cooldown_ms, *now) {
                    // The write was refused because of a claim or a key, and both have disappeared since.
                    0 => Err(Refusal::Busy),
                    retry_after_ms => Err(Refusal::RateLimited { retry_after_ms }),
                },
            },
        }
    }

    /// Applies the sale's rate limits, before anything that costs a call for this press alone. What is known from
    /// memory is answered without a limit: a buyer who hears SOLD_OUT does not come back, one who hears
    /// RATE_LIMITED does.
    fn admit(&self, purchase: &Purchase, sale: &Sale) -> Result<(), Refusal> {
        let limited = self.limits.admit(sale, &purchase.offer, &purchase.buyer_key, purchase.now);
        limited.map_err(|retry_after_ms| Refusal::RateLimited { retry_after_ms })
    }

    /// Refuses, unless this buyer's key was answered before: the answer to a key does not change because the sale
    /// went on. Without a key a refusal costs no call.
    async fn replay_or_refuse(
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
            ClaimStanding::Same(order) => Ok(same(purchase, order, &claims)),
            // An unfinished purchase is finished. A sale that does not sell now gives it no new units, though.
            ClaimStanding::Resume(claim)
                if known && (sold_out || stock::held_in(&self.store, &purchase.offer, &claim).await?.is_some()) =>
            {
                self.resume(purchase, item, claim, &claims).await
            }
            ClaimStanding::Mismatch => Err(Refusal::Mismatch),
            ClaimStanding::Duplicate(order) if sold_out => Err(Refusal::Duplicate(order)),
            ClaimStanding::Resume(_) | ClaimStanding::Duplicate(_) | ClaimStanding::Free => Err(refusal),
        }
    }

    /// An earlier request of this buyer has left a purchase of another quantity. If its units are held, it is resumed,
    /// and the answer says its quantity. Otherwise this purchase takes its place, once the earlier request has
    /// certainly ended: until then its hold may still arrive, and what it was accepted with must not be undone.
    async fn resume_or_replace(
        &self,
        purchase: &Purchase,
        sale: &Sale,
        item: &Item,
        claim: Claim,
        claims: &BuyerClaims,
    ) -> Result<Accepted, Refusal> {
        let offer = &purchase.offer;
        if stock::held_in(&self.store, offer, &claim).await?.is_some() {
            return self.resume(purchase, item, claim, claims).await;
        }
        if !first_request_ended(&claim.order, purchase.now) {
            return Err(Refusal::Busy);
        }
        let keys: Vec<IdempotencyKey> = keys_of(claims, &claim.order);
        match self.store.withdraw_claim(offer, &claim, &keys).await? {
            ClaimWrite::Done => match self.pick(purchase, item, purchase.quantity, purchase.random).await? {
                Pick::Bucket(bucket) => Box::pin(self.claim_and_hold(purchase, sale, item, bucket)).await,
                Pick::Nothing { available } => Err(Refusal::SoldOut { available }),
            },
            // Another request works on it.
            ClaimWrite::Refused(_) => Err(Refusal::Busy),
        }
    }

    /// Resumes an unfinished purchase of this buyer. Its quantity stays: its stock may be held already.
    async fn resume(
        &self,
        purchase: &Purchase,
        item: &Item,
        claim: Claim,
        claims: &BuyerClaims,
    ) -> Result<Accepted, Refusal> {
        let keys = keys_of(claims, &claim.order);
        let is_more = claim.quantity > purchase.quantity;
        let request = match first_request_ended(&claim.order, purchase.now) {
            true => Request::AfterTheFirst(&keys),
            false => Request::Another,
        };
        let held = match self.hold(purchase, item, claim, request).await {
            // No units for the larger quantity of the unfinished purchase says nothing about the quantity asked
            // for now. Once its first request has certainly ended, the purchase is withdrawn, and the next press
            // starts a new one.
            Err(Refusal::SoldOut { .. }) if is_more => return Err(Refusal::Busy),
            held => held?,
        };
        let held = self.mark_ordered(purchase, held).await?;
        let accepted = self.send(purchase, held).await;
        if let Some(key) = purchase.key.as_ref().filter(|key| !keys.contains(key)) {
            self.add_key(purchase, &accepted, key).await?;
        }
        Ok(accepted)
    }

    /// Marks the claim as ORDERED, at the bucket that has its units: from now on only the order's own end removes
    /// it. If this request stops here, reconcile sends the message.
    async fn mark_ordered(&self, purchase: &Purchase, Held { claim, took }: Held) -> Result<Held, Refusal> {
        let offer = &purchase.offer;
        let claims = match self.store.mark_ordered(offer, &claim.order, claim.bucket).await? {
            ClaimWrite::Done => return Ok(Held { claim, took }),
            ClaimWrite::Refused(claims) => claims,
        };
        match claims.claims.get(&offer.item) {
            Some(now) if now.order == claim.order => Ok(Held { claim: now.clone(), took }),
            // The first request has withdrawn it: no request was accepted, and reconcile returns the units.
            _ => Err(Refusal::Busy),
        }
    }

    /// Records the answer under this request's key, too.
    async fn add_key(&self, purchase: &Purchase, accepted: &Accepted, key: &IdempotencyKey) -> Result<(), Refusal> {
        let order = &accepted.order;
        let answered = Answered {
            order: order.clone(),
            item: purchase.offer.item.clone(),
            quantity: purchase.quantity,
            shop_data: purchase.shop_data.digest(),
            got: (accepted.quantity != purchase.quantity).then_some(accepted.quantity),
        };
        match self.store.add_key(&purchase.offer.sale, key, &answered).await? {
            ClaimWrite::Refused(claims) if claims.keys.get(key).is_none_or(|answered| answered.order != *order) => {
                Err(Refusal::Busy)
            }
            _ => Ok(()),
        }
    }

    /// Sends the message of a purchase whose units are held.
    async fn send(&self, purchase: &Purchase, Held { claim, took }: Held) -> Accepted {
        let message = OrderMessage {
            version: VERSION,
            order_id: claim.order.clone(),
            buyer: purchase.buyer.clone(),
            sale_id: purchase.offer.sale.clone(),
            item_id: purchase.offer.item.clone(),
            quantity: claim.quantity,
            bucket: claim.bucket,
            // Of the claim: a purchase that this request resumes keeps what its first request carried.
            shop_data: claim.shop_data,
            trace: purchase.trace.clone(),
        };
        // Claim and hold are durable: if the queue is down, the order is delayed and not lost. Reconcile sends
        // the message.
        let unsent = self.store.send_order(&message).await.err();
        Accepted { order: claim.order, quantity: claim.quantity, hold_took: Some(took), unsent }
    }

    /// Removes old answers of a buyer who has many. A failure has no consequence: the next press tries again.
    async fn forget_old_keys(&self, purchase: &Purchase, claims: &BuyerClaims) {
        let keys = claims.keys_to_forget();
        if !keys.is_empty()
            && let Err(error) = self.store.forget_keys(&purchase.buyer_key, &purchase.offer.sale, &keys).await
        {
            tracing::warn!(%error, "old idempotency keys were not removed");
        }
    }
}

/// The answer that an earlier request got.
fn same(purchase: &Purchase, order: OrderId, claims: &BuyerClaims) -> Accepted {
    let quantity = claims.quantity_of(&order).unwrap_or(purchase.quantity);
    Accepted { order, quantity, hold_took: None, unsent: None }
}

/// The keys that are answered with an order.
fn keys_of(claims: &BuyerClaims, order: &OrderId) -> Vec<IdempotencyKey> {
    let answered = claims.keys.iter().filter(|(_, answered)| answered.order == *order);
    answered.map(|(key, _)| key.clone()).collect()
}

fn press(purchase: &Purchase) -> Press<'_> {
    let Purchase { offer, quantity, shop_data, key, now, .. } = purchase;
    Press { item: &offer.item, quantity: *quantity, shop_data, key: key.as_ref(), now: *now }
}
