//! The orders of a sale, and those with a shop's reference, found by two indexes of the orders table.
//!
//! Both indexes hold keys only, and no key of theirs ever changes: an order costs one index write when it is placed,
//! one more if it has a reference, and none for all that happens to it later. A caller that needs more than ids reads
//! the orders themselves.
//!
//! Each index is sharded by the last character of the order's id. All orders of a sale would otherwise share one key,
//! which takes 1,000 writes a second, and a throttled index throttles the orders. The same holds for a reference: a
//! shop may give many orders the same one.

use std::cmp::Reverse;

use aws_sdk_dynamodb::types::Select;
use domain::ids::{ItemId, OrderId, OrderShard, SaleId};
use domain::order::{Order, Status};
use futures::stream::{self, StreamExt, TryStreamExt};
use serde::Deserialize;

use crate::rows::{Row, Rows, read_row, s, text};
use crate::{Store, StoreError};

/// Shards that are read at the same time.
const SHARDS_AT_ONCE: usize = 16;

/// What is counted of an order.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct OrderSummary {
    pub item: ItemId,
    pub status: Status,
}

/// Adds the keys of the indexes to an order's row.
pub(super) fn indexed(mut row: Row, order: &Order) -> Row {
    let shard = order.id.shard();
    if let Some(reference) = &order.shop_data.reference {
        row.insert("referenceShard".to_owned(), s(sharded(reference.as_str(), shard)));
    }
    row.insert("saleShard".to_owned(), s(sharded(order.sale.as_str(), shard)));
    row
}

fn sharded(key: &str, shard: OrderShard) -> String {
    format!("{key}#{shard}")
}

/// One shard of one index.
#[derive(Clone, Copy, Debug)]
struct Shard<'a> {
    index: &'static str,
    attribute: &'static str,
    key: &'a str,
    shard: OrderShard,
}

/// Which orders of a shard are read.
#[derive(Clone, Copy, Debug)]
enum Span<'a> {
    /// The oldest first, those after this one.
    After(Option<&'a OrderId>),
    /// The newest first, those before this one.
    Before(Option<&'a OrderId>),
}

impl Store {
    /// The ids of a sale's orders, at most `limit` of them, in an order that does not change: shard by shard, in each
    /// the oldest first. `after` is the last one of the previous page. An empty page is the end.
    ///
    /// An order that is placed while somebody pages may be missed, because it may belong to a shard that was read
    /// before; one that was there before the first page is never missed.
    pub async fn order_ids(
        &self,
        sale: &SaleId,
        after: Option<&OrderId>,
        limit: usize,
    ) -> Result<Vec<OrderId>, StoreError> {
        let first = after.map(OrderId::shard);
        let mut ids: Vec<OrderId> = Vec::new();
        for shard in OrderShard::all().filter(|shard| first.is_none_or(|first| *shard >= first)) {
            let place = Shard { index: "bySale", attribute: "saleShard", key: sale.as_str(), shard };
            loop {
                let last = ids.last().or(after).filter(|id| id.shard() == shard);
                let left = limit.saturating_sub(ids.len());
                if left == 0 {
                    return Ok(ids);
                }
                let (found, more) = self.shard_page(place, Span::After(last), left).await?;
                ids.extend(found);
                if !more {
                    break;
                }
            }
        }
        Ok(ids)
    }

    /// The ids of a sale's newest orders, those before `before` if it is given, the newest first.
    pub async fn newest_order_ids(
        &self,
        sale: &SaleId,
        before: Option<&OrderId>,
        limit: usize,
    ) -> Result<Vec<OrderId>, StoreError> {
        self.newest("bySale", "saleShard", sale.as_str(), before, limit).await
    }

    /// The ids of the orders with a shop's reference, the newest first.
    pub async fn order_ids_by_reference(
        &self,
        reference: &str,
        before: Option<&OrderId>,
        limit: usize,
    ) -> Result<Vec<OrderId>, StoreError> {
        self.newest("byReference", "referenceShard", reference, before, limit).await
    }

    /// What is counted of each order; each is read on its own, and missing ones are left out.
    pub async fn order_summaries(&self, ids: &[OrderId]) -> Result<Rows<OrderSummary>, StoreError> {
        const OPERATION: &str = "count orders";
        let keys = ids.iter().map(|id| Row::from([("buyer".to_owned(), s(id.buyer())), ("order".to_owned(), s(id))]));
        let wanted = ["order", "item", "status", "rowVersion"];
        let mut found = Rows::default();
        for row in self.read_many_of(OPERATION, &self.names.orders, keys.collect(), false, &wanted).await? {
            found.add(format!("order {}", text(&row, "order")), read_row(OPERATION, row));
        }
        Ok(found)
    }

    /// An id begins with its time, so the newest of all shards are the greatest of the newest of each.
    async fn newest(
        &self,
        index: &'static str,
        attribute: &'static str,
        key: &str,
        before: Option<&OrderId>,
        limit: usize,
    ) -> Result<Vec<OrderId>, StoreError> {
        let reads: Vec<_> = OrderShard::all()
            .map(|shard| self.shard_page(Shard { index, attribute, key, shard }, Span::Before(before), limit))
            .collect();
        let found: Vec<(Vec<OrderId>, bool)> = stream::iter(reads).buffered(SHARDS_AT_ONCE).try_collect().await?;
        let mut ids: Vec<OrderId> = found.into_iter().flat_map(|(ids, _)| ids).collect();
        ids.sort_by_key(|id| Reverse(id.clone()));
        ids.truncate(limit);
        Ok(ids)
    }

    /// Ids of one shard, and whether there are more.
    async fn shard_page(
        &self,
        place: Shard<'_>,
        span: Span<'_>,
        limit: usize,
    ) -> Result<(Vec<OrderId>, bool), StoreError> {
        const OPERATION: &str = "find orders by an index";
        let (bound, forward) = match span {
            Span::After(bound) => (bound.map(|id| (" AND #order > :bound", id)), true),
            Span::Before(bound) => (bound.map(|id| (" AND #order < :bound", id)), false),
        };
        let mut request = self
            .dynamodb
            .query()
            .table_name(&self.names.orders)
            .index_name(place.index)
            .key_condition_expression(format!("#shard = :shard{}", bound.map_or("", |(condition, _)| condition)))
            .expression_attribute_names("#shard", place.attribute)
            .expression_attribute_values(":shard", s(sharded(place.key, place.shard)))
            .scan_index_forward(forward)
            .select(Select::AllProjectedAttributes)
            .limit(i32::try_from(limit).unwrap_or(i32::MAX));
        if let Some((_, id)) = bound {
            request =
                request.expression_attribute_names("#order", "order").expression_attribute_values(":bound", s(id));
        }
        let output = request.send().await.map_err(|error| StoreError::of(OPERATION, &error))?;
        let more = output.last_evaluated_key.is_some();
        let ids = output.items.unwrap_or_default().into_iter().map(|row| {
            OrderId::parse(text(&row, "order")).map_err(|error| StoreError::unreadable_row(OPERATION, error))
        });
        Ok((ids.collect::<Result<_, _>>()?, more))
    }
}
