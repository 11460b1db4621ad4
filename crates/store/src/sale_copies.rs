//! Copies of a sale, for presses.
//!
//! Every running `seckill` function reads the sale once a second. Where pages have copies (`crate::availability`), a
//! sale has as many, in the same table: one row with the sale and its items. A function whose copy is missing reads
//! the sale itself.
//!
//! An operator's change writes the sale first and then its copies. Stopped in between, copies are stale until the
//! operator asks again, or reconcile compares them. Each copy is written only over an older one.

use std::collections::BTreeMap;

use domain::ids::{ItemId, SaleId};
use domain::sale::{Item, Sale, SaleWithItems};
use futures::future::try_join_all;
use serde::Deserialize;

use crate::rows::{Change, ROW_VERSION, ROW_VERSION_NAME, Row, attribute, n, read_row, s};
use crate::{Store, StoreError};

#[derive(Deserialize)]
struct Copy {
    sale: Sale,
    items: BTreeMap<ItemId, Item>,
}

impl Store {
    /// Brings the copies of a sale up to date, if sales have copies.
    pub async fn publish_sale(&self, id: &SaleId) -> Result<(), StoreError> {
        if self.names.page_copies == 0 {
            return Ok(());
        }
        match Box::pin(self.sale(id)).await? {
            Some(found) => Box::pin(self.correct_sale_copies(&found)).await,
            None => Ok(()),
        }
    }

    /// Writes those copies of a sale that are missing or older than this.
    pub async fn correct_sale_copies(&self, found: &SaleWithItems) -> Result<(), StoreError> {
        const OPERATION: &str = "read copies of a sale";
        let copies = 1..=self.names.page_copies;
        let keys = copies.clone().map(|copy| key(&found.sale.id, copy)).collect();
        let rows = self.read_many(OPERATION, &self.names.availability, keys, true).await?;
        let stamp = stamp(found);
        let is_current = |row: &Row| stamp_of(row).is_some_and(|known| known >= stamp);
        let current: Vec<&Row> = rows.iter().filter(|row| is_current(row)).collect();
        let key_of = |copy: u32| key(&found.sale.id, copy).remove("page");
        let is_behind = |copy: &u32| !current.iter().any(|row| row.get("page") == key_of(*copy).as_ref());
        try_join_all(copies.filter(is_behind).map(|copy| self.write_sale_copy(found, copy, stamp))).await?;
        Ok(())
    }

    async fn write_sale_copy(&self, found: &SaleWithItems, copy: u32, stamp: u64) -> Result<(), StoreError> {
        const OPERATION: &str = "copy a sale";
        let change = Change::of(&self.names.availability, [("page", s(copy_key(&found.sale.id, copy)))])
            .update("SET #sale = :sale, #items = :items, #stamp = :stamp, #rowVersion = :rowVersion")
            .only_if("attribute_not_exists(#stamp) OR #stamp < :stamp")
            .name("#sale", "sale")
            .name("#items", "items")
            .name("#stamp", "stamp")
            .name("#rowVersion", ROW_VERSION_NAME)
            .value(":sale", attribute(OPERATION, &found.sale)?)
            .value(":items", attribute(OPERATION, &found.items)?)
            .value(":stamp", n(stamp))
            .value(":rowVersion", n(ROW_VERSION));
        change.send(OPERATION, &self.dynamodb).await.map(|_| ())
    }

    /// A sale as presses need it: from one of its copies, from 1, or else from its own rows. Eventually consistent.
    pub async fn sale_for_press(&self, id: &SaleId, copy: u32) -> Result<Option<SaleWithItems>, StoreError> {
        const OPERATION: &str = "read a copy of a sale";
        if self.names.page_copies == 0 {
            return self.recent_sale(id).await;
        }
        let request = self.dynamodb.get_item().table_name(&self.names.availability).set_key(Some(key(id, copy)));
        let output = request.send().await.map_err(|error| StoreError::of(OPERATION, &error))?;
        match output.item {
            Some(row) => {
                let Copy { sale, items } = read_row(OPERATION, row)?;
                Ok(Some(SaleWithItems { sale, items }))
            }
            None => self.recent_sale(id).await,
        }
    }
}

fn copy_key(id: &SaleId, copy: u32) -> String {
    format!("#sale#{id}/{copy}")
}

fn key(id: &SaleId, copy: u32) -> Row {
    Row::from([("page".to_owned(), s(copy_key(id, copy)))])
}

fn stamp_of(row: &Row) -> Option<u64> {
    row.get("stamp")?.as_n().ok()?.parse().ok()
}

/// Grows with every change of a sale that a press may see: its version with the sale's own row, and between two
/// versions the layouts and what is laid out of them, which only grow.
fn stamp(found: &SaleWithItems) -> u64 {
    let sum = |of: &dyn Fn(&Item) -> u64| found.items.values().map(of).fold(0_u64, u64::saturating_add);
    let segments = sum(&|item| u64::try_from(item.layout.0.len()).unwrap_or(0)).min((1 << 14) - 1);
    let laid_out = sum(&|item| u64::from(item.laid_out)).min((1 << 26) - 1);
    found.sale.version.saturating_mul(1 << 40).saturating_add(segments << 26).saturating_add(laid_out)
}
