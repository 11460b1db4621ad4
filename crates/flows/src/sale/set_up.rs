//! An operator sets up a sale and changes it.
//!
//! A new sale, and an edited draft, are written in one transaction. Of a preheated sale, the sale's row is
//! written first; its version decides between two operators, and the one who is refused has changed nothing. Then
//! its items get their names. Stopped in between, some items keep their previous names; saving the same form
//! again finishes the change.

use domain::Timestamp;
use domain::ids::{ItemId, Offer, SaleId};
use domain::sale::{FieldError, Item, Sale, SaleChange, SaleState, SaleWithItems, check, same_goods};
use store::{SaleWrite, Store, StoreError};

use crate::CAS_ATTEMPTS;

/// Why a sale was not set up or changed.
#[derive(Debug, thiserror::Error)]
pub enum SetUpError {
    #[error("there is no such sale")]
    UnknownSale,
    #[error("there is no such item in this sale")]
    UnknownItem,
    /// These fields must be corrected.
    #[error("the sale is not valid")]
    Invalid(Vec<FieldError>),
    /// Not possible in the sale's state. The text says what to do instead.
    #[error("{0}")]
    WrongState(&'static str),
    #[error("this Idempotency-Key was used for another restock")]
    Mismatch,
    /// The sale is not at the version that the operator has read: another operator has changed it since.
    #[error("the sale has changed since it was read: it is at version {version}")]
    Stale { version: u64 },
    /// Another operator changed the sale at the same moment, repeatedly.
    #[error("the sale was changed by another operator at the same moment: try again")]
    Changed,
    #[error(transparent)]
    Unavailable(#[from] StoreError),
}

/// What an operator fills in.
#[derive(Clone, Debug)]
pub struct SaleForm {
    pub name: String,
    pub starts_at: Timestamp,
    pub ends_at: Timestamp,
    pub payment_window_s: u32,
    /// How long a buyer waits between two presses.
    pub buyer_cooldown_ms: u32,
    /// Presses per second and item that each running function lets through.
    pub item_rate_per_second: Option<u32>,
    /// Until when buyers can refund; `None`: until the sale's end.
    pub refunds_until: Option<Timestamp>,
    /// Items; their layouts are ignored.
    pub items: Vec<Item>,
}

/// Creates a sale.
pub async fn create(store: &Store, id: SaleId, form: SaleForm, now: Timestamp) -> Result<SaleWithItems, SetUpError> {
    let (sale, items) = filled_in(id, form, SaleState::Draft, 1, now)?;
    match store.put_sale(&sale, &items, &[]).await? {
        SaleWrite::Done => Ok(with_items(sale, items)),
        SaleWrite::Changed => Err(SetUpError::Changed),
    }
}

/// Edits a sale that the operator has read at version `read`. Everything of a draft can be changed; once it is
/// preheated, only names, times and limits. An edit that another operator's change has overtaken is refused: it would
/// undo that change without anybody having seen it. The same edit again, after its answer was lost, is not refused.
pub async fn edit(
    store: &Store,
    id: &SaleId,
    form: SaleForm,
    read: Option<u64>,
    now: Timestamp,
) -> Result<SaleWithItems, SetUpError> {
    let before = store.sale(id).await?.ok_or(SetUpError::UnknownSale)?;
    let (sale, items) = filled_in(id.clone(), form, before.sale.state, before.sale.version + 1, now)?;
    let is_repeated = is_repeated(&before, &sale, &items, read);
    if !is_repeated && read != Some(before.sale.version) {
        return Err(SetUpError::Stale { version: before.sale.version });
    }
    let mut written = match before.sale.state {
        _ if is_repeated => SaleWrite::Done,
        SaleState::Draft => {
            let removed: Vec<ItemId> =
                before.items.keys().filter(|id| !items.iter().any(|item| item.id == **id)).cloned().collect();
            store.put_sale(&sale, &items, &removed).await?
        }
        SaleState::Ready | SaleState::Paused => {
            if !same_goods(&before.items, &items) {
                let why = "items of a preheated sale stay as they are, but for their names: \
                           restock to add units, or close it and create another";
                return Err(SetUpError::WrongState(why));
            }
            store.put_sale_row(&sale, true).await?
        }
        SaleState::Closed => return Err(SetUpError::WrongState("a closed sale cannot be edited: create a new one")),
    };
    let found = store.sale(id).await?.ok_or(SetUpError::UnknownSale)?;
    // The first attempt of this very write may have made the change, and its answer was lost.
    if written == SaleWrite::Changed && found.sale == sale {
        written = SaleWrite::Done;
    }
    if written == SaleWrite::Changed {
        return Err(SetUpError::Stale { version: found.sale.version });
    }
    let renamed = |item: &&Item| found.items.get(&item.id).is_some_and(|known| known.name != item.name);
    let renamed: Vec<&Item> = items.iter().filter(renamed).collect();
    for item in &renamed {
        store.rename_item(&Offer { sale: id.clone(), item: item.id.clone() }, &item.name).await?;
    }
    if found.sale.state != SaleState::Draft {
        Box::pin(store.publish_sale(id)).await?;
    }
    if renamed.is_empty() {
        return Ok(found);
    }
    store.sale(id).await?.ok_or(SetUpError::UnknownSale)
}

/// Whether this edit was made before: the sale's row has the next version, and says what the form says. Its items may
/// still have their previous names.
fn is_repeated(before: &SaleWithItems, sale: &Sale, items: &[Item], read: Option<u64>) -> bool {
    let same = Sale { version: before.sale.version, changed_at: before.sale.changed_at, ..sale.clone() };
    read.is_some_and(|read| read + 1 == before.sale.version) && before.sale == same && same_goods(&before.items, items)
}

/// Pauses, resumes or closes a sale. A sale that is in that state already stays as it is.
pub async fn change(
    store: &Store,
    id: &SaleId,
    change: SaleChange,
    now: Timestamp,
) -> Result<SaleWithItems, SetUpError> {
    for _ in 0..CAS_ATTEMPTS {
        let found = store.sale(id).await?.ok_or(SetUpError::UnknownSale)?;
        let state = found.sale.state.after(change).ok_or(SetUpError::WrongState(match found.sale.state {
            SaleState::Draft => "the sale is a draft: preheat it first",
            SaleState::Ready | SaleState::Paused | SaleState::Closed => {
                "the sale is closed and stays closed: create a new one"
            }
        }))?;
        if state == found.sale.state {
            // The request that made the change may have stopped before its copies were written.
            Box::pin(store.publish_sale(id)).await?;
            return Ok(found);
        }
        // A draft has nothing to repair; any other sale is watched until reconcile finds it settled.
        let watch = found.sale.state != SaleState::Draft;
        let sale = Sale { state, version: found.sale.version + 1, changed_at: now, ..found.sale };
        if store.put_sale_row(&sale, watch).await? == SaleWrite::Done {
            Box::pin(store.publish_sale(id)).await?;
            return Ok(SaleWithItems { sale, items: found.items });
        }
    }
    Err(SetUpError::Changed)
}

fn filled_in(
    id: SaleId,
    form: SaleForm,
    state: SaleState,
    version: u64,
    now: Timestamp,
) -> Result<(Sale, Vec<Item>), SetUpError> {
    let sale = Sale {
        id,
        name: form.name,
        starts_at: form.starts_at,
        ends_at: form.ends_at,
        payment_window_s: form.payment_window_s,
        state,
        buyer_cooldown_ms: form.buyer_cooldown_ms,
        item_rate_per_second: form.item_rate_per_second,
        refunds_until: form.refunds_until,
        version,
        changed_at: now,
    };
    let errors = check(&sale, &form.items);
    if errors.is_empty() { Ok((sale, form.items)) } else { Err(SetUpError::Invalid(errors)) }
}

fn with_items(sale: Sale, items: Vec<Item>) -> SaleWithItems {
    SaleWithItems { sale, items: items.into_iter().map(|item| (item.id.clone(), item)).collect() }
}
