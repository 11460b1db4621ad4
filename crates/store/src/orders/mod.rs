//! Orders, in their buyer's partition. An order's id contains its buyer's key, so no index is needed to find it.
//!
//! `life` holds the writes that close or pay an order, `refunds` those that return money, `change` what they share,
//! and `by_sale` finds the orders of a sale and those with a shop's reference.

mod by_sale;
pub(crate) mod change;
mod life;
mod refunds;

use domain::ids::{BuyerKey, OrderId, SaleId};
use domain::order::Order;
use std::collections::BTreeMap;

use crate::rows::{Row, Rows, Written, put, read_row, row, s, text};
use crate::{Store, StoreError};

pub use by_sale::OrderSummary;
pub use life::{PointsPaid, Revival};

/// The result of placing an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Placed {
    New,
    /// There was already an order with this id: this one.
    Existing(Box<Order>),
}

/// The result of a change of an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OrderChange {
    /// It was made; the order as it is now.
    Made(Box<Order>),
    /// The order was not in the expected state; it is returned as it is, if there is one.
    Refused(Option<Box<Order>>),
}

impl Store {
    /// Puts an order, if there is none with its id.
    pub async fn place(&self, order: &Order) -> Result<Placed, StoreError> {
        const OPERATION: &str = "place an order";
        let request = self
            .dynamodb
            .put_item()
            .table_name(&self.names.orders)
            .set_item(Some(by_sale::indexed(row(OPERATION, order)?, order)))
            .item("buyer", s(order.id.buyer()))
            .condition_expression("attribute_not_exists(buyer)");
        match put(OPERATION, request).await? {
            Written::Done(_) => Ok(Placed::New),
            Written::Refused(Some(row)) => Ok(Placed::Existing(Box::new(read_row(OPERATION, row)?))),
            Written::Refused(None) => Err(StoreError::unreadable(OPERATION, "the order that is there was not shown")),
        }
    }

    /// An order, read consistently.
    pub async fn order(&self, order: &OrderId) -> Result<Option<Order>, StoreError> {
        const OPERATION: &str = "read an order";
        let output = self
            .dynamodb
            .get_item()
            .table_name(&self.names.orders)
            .key("buyer", s(order.buyer()))
            .key("order", s(order))
            .consistent_read(true)
            .send()
            .await
            .map_err(|error| StoreError::of(OPERATION, &error))?;
        output.item.map(|row| read_row(OPERATION, row)).transpose()
    }

    /// Many orders by id, read consistently; missing ones are left out.
    pub async fn orders(
        &self,
        ids: impl IntoIterator<Item = &OrderId>,
    ) -> Result<BTreeMap<OrderId, Order>, StoreError> {
        const OPERATION: &str = "read orders";
        let key = |id: &OrderId| Row::from([("buyer".to_owned(), s(id.buyer())), ("order".to_owned(), s(id))]);
        let keys: Vec<Row> = ids.into_iter().map(key).collect();
        let rows = self.read_many(OPERATION, &self.names.orders, keys, true).await?;
        rows.into_iter().map(|row| read_row::<Order>(OPERATION, row).map(|order| (order.id.clone(), order))).collect()
    }

    /// Many orders by id, read consistently, each on its own: one that cannot be read does not hide the others.
    pub async fn readable_orders(&self, ids: impl IntoIterator<Item = &OrderId>) -> Result<Rows<Order>, StoreError> {
        const OPERATION: &str = "read orders";
        let key = |id: &OrderId| Row::from([("buyer".to_owned(), s(id.buyer())), ("order".to_owned(), s(id))]);
        let keys: Vec<Row> = ids.into_iter().map(key).collect();
        let mut found = Rows::default();
        for row in self.read_many(OPERATION, &self.names.orders, keys, true).await? {
            found.add(format!("order {}", text(&row, "order")), read_row(OPERATION, row));
        }
        Ok(found)
    }

    /// A buyer's orders, the newest first.
    pub async fn orders_of(&self, buyer: &BuyerKey, limit: u16) -> Result<Vec<Order>, StoreError> {
        const OPERATION: &str = "read a buyer's orders";
        let output = self
            .dynamodb
            .query()
            .table_name(&self.names.orders)
            .key_condition_expression("buyer = :buyer")
            .expression_attribute_values(":buyer", s(buyer))
            .scan_index_forward(false)
            .limit(i32::from(limit))
            .consistent_read(true)
            .send()
            .await
            .map_err(|error| StoreError::of(OPERATION, &error))?;
        output.items.unwrap_or_default().into_iter().map(|row| read_row(OPERATION, row)).collect()
    }

    /// The orders of a sale: one page of a scan over all orders, for tools that check the index too. `after` is where
    /// the previous page ended.
    pub async fn orders_page(
        &self,
        sale: &SaleId,
        after: Option<OrderId>,
    ) -> Result<(Vec<Order>, Option<OrderId>), StoreError> {
        const OPERATION: &str = "read the orders of a sale";
        let start = after.map(|id| Row::from([("buyer".to_owned(), s(id.buyer())), ("order".to_owned(), s(id))]));
        let output = self
            .dynamodb
            .scan()
            .table_name(&self.names.orders)
            .filter_expression("sale = :sale")
            .expression_attribute_values(":sale", s(sale))
            .set_exclusive_start_key(start)
            .send()
            .await
            .map_err(|error| StoreError::of(OPERATION, &error))?;
        let last = output.last_evaluated_key.and_then(|key| OrderId::parse(key.get("order")?.as_s().ok()?).ok());
        let orders = output.items.unwrap_or_default().into_iter().map(|row| read_row(OPERATION, row));
        Ok((orders.collect::<Result<_, _>>()?, last))
    }
}
