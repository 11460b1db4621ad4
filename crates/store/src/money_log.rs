//! The pay log and the refund log, in the ledger: one entry for each transaction of a provider.
//!
//! An entry with unfinished work carries `open`, which puts it into the index of that name: reconcile finds it there.

use domain::Timestamp;
use domain::ids::OrderId;
use domain::payment::{Method, OpenEntry, PaidWith, PayEntry, RefundEntry};

use crate::rows::{Change, Row, Rows, n, put, read_row, row, s, text};
use crate::{Store, StoreError};

/// Pages of 1 MB that are read for the open entries of one kind: about twenty thousand entries.
const OPEN_PAGES: u32 = 8;
/// The values of `open`.
const PAY: &str = "PAY";
const REFUND: &str = "REFUND";

/// Entries of the pay log and the refund log that are marked open.
#[derive(Clone, Debug, Default)]
pub struct OpenEntries {
    pub entries: Rows<OpenEntry>,
    /// How many of the unreadable entries are refunds: they are open, too.
    pub unreadable_refunds: u32,
}

impl Store {
    /// Records money that arrived in the pay log, once. `open`: it is not decided yet what it is for.
    pub async fn log_payment(&self, entry: &PayEntry, open: bool) -> Result<(), StoreError> {
        const OPERATION: &str = "write the pay log";
        let request = self
            .dynamodb
            .put_item()
            .table_name(&self.names.ledger)
            .set_item(Some(self.pay_row(OPERATION, entry, open)?))
            .condition_expression("attribute_not_exists(entry)");
        put(OPERATION, request).await.map(|_| ())
    }

    /// Removes the mark from an entry of the pay log: nothing is left to do about it.
    pub async fn close_pay_entry(&self, order: &OrderId, with: &PaidWith) -> Result<(), StoreError> {
        const OPERATION: &str = "close the pay log";
        self.pay_log_done(order, with).send(OPERATION, &self.dynamodb).await.map(|_| ())
    }

    /// The refund of a transaction, if one was decided.
    pub async fn refund_entry(
        &self,
        order: &OrderId,
        method: Method,
        transaction: &str,
    ) -> Result<Option<RefundEntry>, StoreError> {
        const OPERATION: &str = "read the refund log";
        let output = self
            .dynamodb
            .get_item()
            .table_name(&self.names.ledger)
            .key("order", s(order))
            .key("entry", s(RefundEntry::name(method, transaction)))
            .consistent_read(true)
            .send()
            .await
            .map_err(|error| StoreError::of(OPERATION, &error))?;
        output.item.map(|row| read_row(OPERATION, row)).transpose()
    }

    /// Closes an entry of the refund log: the refund and everything that follows from it is done.
    pub async fn close_refund_entry(&self, entry: &RefundEntry, now: Timestamp) -> Result<(), StoreError> {
        const OPERATION: &str = "close the refund log";
        let change = self
            .refund_change(entry)
            .only_if("attribute_exists(entry) AND attribute_not_exists(doneAt)")
            .update("SET doneAt = :now")
            .update("REMOVE #open")
            .name("#open", "open")
            .value(":now", n(now.as_millisecond()));
        change.send(OPERATION, &self.dynamodb).await.map(|_| ())
    }

    /// Records a failed attempt at a refund: when, how many so far, and the provider's explanation.
    pub async fn record_refund_attempt(
        &self,
        entry: &RefundEntry,
        trouble: &str,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        const OPERATION: &str = "write down a refund's trouble";
        let change = self
            .refund_change(entry)
            .only_if("attribute_exists(#open)")
            .update("SET tries = tries + :one, triedAt = :now, trouble = :trouble")
            .name("#open", "open")
            .value(":one", n(1))
            .value(":now", n(now.as_millisecond()))
            .value(":trouble", s(trouble));
        change.send(OPERATION, &self.dynamodb).await.map(|_| ())
    }

    /// Entries that are marked open, the oldest first: payments, then refunds. Each is read on its own.
    pub async fn open_entries(&self) -> Result<OpenEntries, StoreError> {
        const OPERATION: &str = "read open entries";
        let mut found = OpenEntries::default();
        for kind in [PAY, REFUND] {
            let mut after: Option<Row> = None;
            for _ in 0..OPEN_PAGES {
                let output = self
                    .dynamodb
                    .query()
                    .table_name(&self.names.ledger)
                    .index_name("open")
                    .key_condition_expression("#open = :kind")
                    .expression_attribute_names("#open", "open")
                    .expression_attribute_values(":kind", s(kind))
                    .set_exclusive_start_key(after.take())
                    .send()
                    .await
                    .map_err(|error| StoreError::of(OPERATION, &error))?;
                for row in output.items.unwrap_or_default() {
                    let name = format!("entry {} of order {}", text(&row, "entry"), text(&row, "order"));
                    let entry = match kind {
                        PAY => read_row(OPERATION, row).map(OpenEntry::Pay),
                        _ => read_row(OPERATION, row).map(OpenEntry::Refund),
                    };
                    if kind == REFUND && entry.is_err() {
                        found.unreadable_refunds += 1;
                    }
                    found.entries.add(name, entry);
                }
                after = output.last_evaluated_key;
                if after.is_none() {
                    break;
                }
            }
        }
        Ok(found)
    }

    pub(crate) fn pay_row(&self, operation: &'static str, entry: &PayEntry, open: bool) -> Result<Row, StoreError> {
        let mut row = row(operation, entry)?;
        row.insert("entry".to_owned(), s(PayEntry::name(entry.with.method, &entry.with.transaction)));
        if open {
            row.insert("open".to_owned(), s(PAY));
        }
        Ok(row)
    }

    pub(crate) fn refund_row(&self, operation: &'static str, entry: &RefundEntry) -> Result<Row, StoreError> {
        let mut row = row(operation, entry)?;
        row.insert("entry".to_owned(), s(RefundEntry::name(entry.with.method, &entry.with.transaction)));
        row.insert("open".to_owned(), s(REFUND));
        Ok(row)
    }

    pub(crate) fn pay_log_done(&self, order: &OrderId, with: &PaidWith) -> Change {
        let entry = PayEntry::name(with.method, &with.transaction);
        Change::of(&self.names.ledger, [("order", s(order)), ("entry", s(entry))])
            .only_if("attribute_exists(entry)")
            .update("REMOVE #open")
            .name("#open", "open")
    }

    fn refund_change(&self, entry: &RefundEntry) -> Change {
        let name = RefundEntry::name(entry.with.method, &entry.with.transaction);
        Change::of(&self.names.ledger, [("order", s(&entry.order)), ("entry", s(name))])
    }
}
