//! The purchase's second step: a bucket is found, and the units are held in it.
//!
//! A bucket that is definitely full is left for another one, after the claim was moved there. A hold without a
//! clear answer ends the request with an error: the next request asks the same bucket again.

use std::time::{Duration, Instant};

use domain::bucket::BucketNo;
use domain::claim::{Claim, ClaimState};
use domain::ids::{IdempotencyKey, Offer};
use domain::sale::Item;
use store::{ClaimWrite, Hold, StoreError};

use crate::buy::bucket_picker::{Pick, Search};
use crate::buy::purchase::{Purchase, Refusal, Seckill};
use crate::sale::stock;

/// Buckets tried for one press. At the very end of a sale many turn out to be empty; beyond this number it is
/// fairer to other buyers to answer that the sale is busy.
pub const BUCKETS_TRIED: u32 = 12;
/// After so many empty buckets the page is clearly stale: many buckets are read before more are tried.
pub const READ_BUCKETS_AFTER: u32 = 3;
/// How many calls read buckets then, at first and later: a hundred each. If free units are scattered, this finds a
/// bucket with enough of them, or shows what can be had.
const CALLS_TO_READ: usize = 1;
const MORE_CALLS_TO_READ: usize = 4;
/// Buckets from which other requests than the first may move a claim. Each of them is checked before the purchase
/// is given up.
const MAX_PREVIOUS_BUCKETS: usize = 24;

impl Seckill {
    /// Holds the claim's units, in its bucket or in the next one that has them. If there are none, the claim is
    /// withdrawn together with its keys, if this request may do that. Else the claim stays: it blocks no other
    /// buyer, and the buyer's next press resumes it.
    pub(super) async fn hold(
        &self,
        purchase: &Purchase,
        item: &Item,
        mut claim: Claim,
        request: Request<'_>,
    ) -> Result<Held, Refusal> {
        let began = Instant::now();
        let held = |claim| Ok(Held { claim, took: began.elapsed() });
        let offer = &purchase.offer;
        let mut random = purchase.random;
        for tried in 1..=BUCKETS_TRIED {
            match self.store.hold(offer, claim.bucket, &claim.order, claim.quantity).await? {
                Hold::Held => return held(claim),
                Hold::Full { free } => self.picker.observed(offer, claim.bucket, free, purchase.now).await,
            }
            random = random.wrapping_mul(747_796_405).wrapping_add(2_891_336_453);
            if tried % READ_BUCKETS_AFTER == 0 {
                let calls = if tried == READ_BUCKETS_AFTER { CALLS_TO_READ } else { MORE_CALLS_TO_READ };
                self.picker.read_buckets(&self.store, offer, purchase.now, random, calls).await?;
            }
            let next = match tried {
                BUCKETS_TRIED => Err(self.given_up(offer, claim.quantity).await),
                _ => match self.pick(purchase, item, claim.quantity, random).await? {
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
                // Another request works on the same order and was faster: follow it.
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

    /// Every bucket that was tried has too few units, and so have the hundreds that were read in between. If that is
    /// because the free units are scattered, the answer is what can be had from one bucket.
    async fn given_up(&self, offer: &Offer, quantity: u32) -> Refusal {
        match self.picker.available(offer).await {
            available if (1..quantity).contains(&available) => Refusal::SoldOut { available },
            _ => Refusal::Busy,
        }
    }

    pub(super) async fn pick(
        &self,
        purchase: &Purchase,
        item: &Item,
        quantity: u32,
        random: u32,
    ) -> Result<Pick, StoreError> {
        let search = Search {
            offer: &purchase.offer,
            buckets: item.layout.buckets(),
            quantity,
            seen_version: purchase.seen_version,
            now: purchase.now,
            random,
        };
        self.picker.pick(&self.store, &search).await
    }
}

/// Which of the requests for an order this one is.
#[derive(Clone, Copy)]
pub(super) enum Request<'a> {
    /// The one that made the claim, with this key.
    First(&'a [IdempotencyKey]),
    /// A later one; so much later that the first has certainly ended. These keys are answered with the order.
    AfterTheFirst(&'a [IdempotencyKey]),
    /// A later one, while the first may still be running.
    Another,
}

impl Request<'_> {
    /// The claim as this request moves it; `None`: it was moved too often. The first request leaves a bucket only
    /// if it holds nothing there, so it does not have to record it.
    fn moved(self, claim: &Claim, to: BucketNo) -> Option<Claim> {
        let mut moved = Claim { bucket: to, ..claim.clone() };
        if !matches!(self, Request::First(_)) && !moved.previous_buckets.contains(&claim.bucket) {
            moved.previous_buckets.push(claim.bucket);
        }
        (moved.previous_buckets.len() <= MAX_PREVIOUS_BUCKETS).then_some(moved)
    }
}

/// A claim whose units are held.
pub(super) struct Held {
    pub(super) claim: Claim,
    pub(super) took: Duration,
}
