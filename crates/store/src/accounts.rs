//! Buyers' points: a balance, and what is frozen for orders that are being paid. The balance never goes below zero.
//!
//! Points move only in one transaction with the order that they are for, so the order's conditions make each
//! movement happen once.

use std::collections::{BTreeMap, HashMap};

use aws_sdk_dynamodb::types::AttributeValue;
use domain::Timestamp;
use domain::ids::{Buyer, BuyerKey, IdempotencyKey, OrderId};
use serde::Deserialize;

use crate::rows::{Change, Condition, Row, Transacted, n, put_part, read_row, s, transact};
use crate::{Store, StoreError};

/// A buyer's points.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Account {
    /// Points that can be spent.
    pub balance: i64,
    /// Frozen points, by order.
    pub frozen: BTreeMap<OrderId, i64>,
}

/// The result of a credit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credited {
    /// It is in the account: by this call, or by an earlier one with the same key.
    Done,
    /// The key was used for another credit.
    Mismatch,
}

impl Store {
    /// A buyer's points, read consistently.
    pub async fn account(&self, buyer: &BuyerKey) -> Result<Account, StoreError> {
        const OPERATION: &str = "read an account";
        let output = self
            .dynamodb
            .get_item()
            .table_name(&self.names.accounts)
            .key("buyer", s(buyer))
            .consistent_read(true)
            .send()
            .await
            .map_err(|error| StoreError::of(OPERATION, &error))?;
        output.item.map_or(Ok(Account::default()), |row| read_row(OPERATION, row))
    }

    /// Gives a buyer points, once for each `key`.
    pub async fn credit_points(
        &self,
        buyer: &Buyer,
        buyer_key: &BuyerKey,
        points: i64,
        key: &IdempotencyKey,
        now: Timestamp,
    ) -> Result<Credited, StoreError> {
        const OPERATION: &str = "credit points";
        let entry = Row::from([
            ("order".to_owned(), s(format!("POINTS#{buyer_key}"))),
            ("entry".to_owned(), s(format!("CREDIT#{key}"))),
            ("points".to_owned(), n(points)),
            ("at".to_owned(), n(now.as_millisecond())),
        ]);
        let account = self
            .account_change(buyer_key)
            .update("SET balance = if_not_exists(balance, :zero) + :points")
            .update("SET frozen = if_not_exists(frozen, :nothing)")
            .update("SET buyerName = :name")
            .value(":zero", n(0))
            .value(":points", n(points))
            .value(":nothing", AttributeValue::M(HashMap::new()))
            .value(":name", s(buyer));
        let parts = vec![put_part(OPERATION, &self.names.ledger, entry, "entry")?, account.part(OPERATION)?];
        match transact(OPERATION, &self.dynamodb, parts).await? {
            Transacted::Done => Ok(Credited::Done),
            Transacted::Refused(found) => match found.first() {
                Some(Condition::Failed(Some(row))) if row.get("points") == Some(&n(points)) => Ok(Credited::Done),
                _ => Ok(Credited::Mismatch),
            },
        }
    }

    /// Takes points from a balance that has enough.
    pub(crate) fn debit(&self, buyer: &BuyerKey, points: i64) -> Change {
        self.account_change(buyer)
            .update("SET balance = balance - :points")
            .only_if("balance >= :points")
            .value(":points", n(points))
    }

    /// Returns points to a balance.
    pub(crate) fn credit(&self, buyer: &BuyerKey, points: i64) -> Change {
        self.account_change(buyer)
            .update("SET balance = if_not_exists(balance, :zero) + :points")
            .value(":zero", n(0))
            .value(":points", n(points))
    }

    /// Try: takes points from the balance and freezes them for an order.
    pub(crate) fn freeze(&self, order: &OrderId, points: i64) -> Change {
        self.frozen(order, points)
            .update("SET balance = balance - :points")
            .update("SET frozen.#order = :points")
            .only_if("balance >= :points AND attribute_not_exists(frozen.#order)")
    }

    /// Confirm: spends frozen points.
    pub(crate) fn spend(&self, order: &OrderId, points: i64) -> Change {
        self.frozen(order, points).update("REMOVE frozen.#order").only_if("frozen.#order = :points")
    }

    /// Cancel: returns frozen points to the balance.
    pub(crate) fn thaw(&self, order: &OrderId, points: i64) -> Change {
        self.frozen(order, points)
            .update("SET balance = balance + :points")
            .update("REMOVE frozen.#order")
            .only_if("frozen.#order = :points")
    }

    fn frozen(&self, order: &OrderId, points: i64) -> Change {
        self.account_change(&order.buyer()).name("#order", order.as_str()).value(":points", n(points))
    }

    fn account_change(&self, buyer: &BuyerKey) -> Change {
        Change::of(&self.names.accounts, [("buyer", s(buyer))])
    }
}
