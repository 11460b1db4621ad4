//! Stock is laid out in buckets, and added to. Neither ever changes an existing bucket.
//!
//! An item's row holds its layout, from which the buckets follow. Stopped in the middle, some buckets are
//! missing: preheating again, restocking or reconcile lays them out.

use std::collections::BTreeSet;
use std::time::Instant;

use domain::Timestamp;
use domain::bucket::{BucketNo, MAX_SEGMENTS, MAX_STOCK, Segment};
use domain::claim::Claim;
use domain::ids::{IdempotencyKey, Offer, SaleId};
use domain::sale::{Item, Sale, SaleChange, SaleState, SaleWithItems};
use futures::stream::{self, StreamExt, TryStreamExt};
use store::{SaleWrite, Store, StoreError};

use crate::CAS_ATTEMPTS;
use crate::sale::set_up::SetUpError;

/// Buckets written at the same time.
const CONCURRENCY: usize = 32;
/// After so many buckets the progress is recorded.
const RECORDED_EVERY: u32 = 2_048;

/// Preheats a sale: from now on it sells between its start and its end. Preheating again changes no existing
/// bucket. Returns when all buckets are laid out, or at `until`; the sale then says how far it came, and
/// preheating again resumes.
pub async fn preheat(store: &Store, id: &SaleId, now: Timestamp, until: Instant) -> Result<SaleWithItems, SetUpError> {
    let preheated = lay_out_sale(store, id, now, until).await?;
    Box::pin(store.publish_sale(id)).await?;
    Ok(preheated)
}

async fn lay_out_sale(store: &Store, id: &SaleId, now: Timestamp, until: Instant) -> Result<SaleWithItems, SetUpError> {
    for _ in 0..CAS_ATTEMPTS {
        let SaleWithItems { sale, items } = store.sale(id).await?.ok_or(SetUpError::UnknownSale)?;
        let state = sale.state.after(SaleChange::Preheat);
        let state = state.ok_or(SetUpError::WrongState("a closed sale cannot be preheated: create a new one"))?;

        // 1. The layout. It is only written while it is empty, and only for the stock that was read: an edit in
        // between has changed the version too, and the next round lays out the edited stock.
        for item in items.values().filter(|item| item.layout.0.is_empty()) {
            let segment = Segment::new(item.stock, item.limit_per_buyer, None);
            store.extend_layout(&offer(&sale, item), item, &segment).await?;
        }

        // 2. The sale is ready: its items can no longer be edited. An edit in between has changed the version:
        // start again.
        if sale.state == SaleState::Draft {
            let ready = Sale { state, version: sale.version + 1, changed_at: now, ..sale.clone() };
            if store.put_sale_row(&ready, true).await? == SaleWrite::Changed {
                continue;
            }
        }

        // 3. The buckets.
        let laid_out = store.sale(id).await?.ok_or(SetUpError::UnknownSale)?;
        for item in laid_out.items.values() {
            lay_out_missing(store, &offer(&laid_out.sale, item), item, until).await?;
        }
        return store.sale(id).await?.ok_or(SetUpError::UnknownSale);
    }
    Err(SetUpError::Changed)
}

/// Adds units to an item that is on sale. The same key again adds nothing. The key is mandatory: it identifies a
/// restock whose answer was lost.
pub async fn restock(
    store: &Store,
    offer: &Offer,
    quantity: u32,
    key: &IdempotencyKey,
    until: Instant,
) -> Result<Item, SetUpError> {
    for _ in 0..CAS_ATTEMPTS {
        let SaleWithItems { sale, items } = store.sale(&offer.sale).await?.ok_or(SetUpError::UnknownSale)?;
        let item = items.get(&offer.item).ok_or(SetUpError::UnknownItem)?;
        match sale.state {
            SaleState::Ready | SaleState::Paused => {}
            SaleState::Draft => {
                return Err(SetUpError::WrongState("a draft has no stock to add to: edit the item's stock"));
            }
            SaleState::Closed => return Err(SetUpError::WrongState("a closed sale cannot be restocked")),
        }
        let already_done = item.layout.restock(key);
        if already_done.is_some_and(|segment| segment.units != quantity) {
            return Err(SetUpError::Mismatch);
        }
        if already_done.is_none() {
            let total = item.layout.total() + u64::from(quantity);
            if total > u64::from(MAX_STOCK) || item.layout.0.len() >= MAX_SEGMENTS {
                return Err(SetUpError::WrongState("an item has at most 10000000 units and 199 restocks"));
            }
            let segment = Segment::new(quantity, item.limit_per_buyer, Some(key.clone()));
            if store.extend_layout(offer, item, &segment).await? == SaleWrite::Changed {
                continue;
            }
        }
        let now = store.sale(&offer.sale).await?.and_then(|mut found| found.items.remove(&offer.item));
        let item = now.ok_or(SetUpError::UnknownItem)?;
        let laid_out = lay_out_missing(store, offer, &item, until).await?;
        Box::pin(store.publish_sale(&offer.sale)).await?;
        return Ok(Item { laid_out, ..item });
    }
    Err(SetUpError::Changed)
}

/// Lays out the buckets of an item, from the recorded progress on, until `until`. Returns how far it came.
///
/// Buckets before the recorded progress are never laid out again: one that has disappeared had sold units in it,
/// and laying it out anew would sell them twice.
pub async fn lay_out_missing(store: &Store, offer: &Offer, item: &Item, until: Instant) -> Result<u32, StoreError> {
    let buckets = item.layout.buckets();
    let mut first = item.laid_out;
    while first < buckets && Instant::now() < until {
        let end = first.saturating_add(RECORDED_EVERY).min(buckets);
        let caps: Vec<(BucketNo, u32)> =
            (first..end).filter_map(|bucket| item.layout.cap(bucket).map(|cap| (bucket, cap))).collect();
        let writes: Vec<_> = caps.into_iter().map(|(bucket, cap)| store.lay_out(offer, bucket, cap)).collect();
        stream::iter(writes).buffer_unordered(CONCURRENCY).try_collect::<()>().await?;
        store.record_laid_out(offer, end).await?;
        first = end;
    }
    Ok(first)
}

fn offer(sale: &Sale, item: &Item) -> Offer {
    Offer { sale: sale.id.clone(), item: item.id.clone() }
}

/// The bucket in which a claim's units are held: its current one, or one of its previous ones.
pub(crate) async fn held_in(store: &Store, offer: &Offer, claim: &Claim) -> Result<Option<BucketNo>, StoreError> {
    // A claim may have returned to a previous bucket, and a batch read may name each bucket only once.
    let places: BTreeSet<BucketNo> = [claim.bucket].into_iter().chain(claim.previous_buckets.iter().copied()).collect();
    let mut buckets = store.buckets(offer, places).await?.into_iter();
    Ok(buckets.find(|(_, bucket)| bucket.holders.contains_key(&claim.order)).map(|(number, _)| number))
}
