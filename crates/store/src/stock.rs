//! Buckets: hold, confirm, release and take back. Each takes effect once for an order, however often it is repeated.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::{AttributeValue, ReturnValue};
use domain::bucket::{Bucket, BucketNo, bucket_key, parse_bucket_key};
use domain::ids::{Offer, OrderId};

use crate::rows::{ROW_VERSION, ROW_VERSION_NAME, Row, Rows, Written, n, put, read_row, s, text, update};
use crate::{Store, StoreError};

/// The result of a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// The units are held for this order: by this call, or by an earlier one.
    Held,
    /// The bucket has only `free` units left, which a smaller order may get.
    Full { free: u32 },
}

/// The result of a confirm, a release or a take-back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved {
    Now,
    /// This order has no such units in that bucket: they moved before, or were never held.
    NotHeld,
}

impl Store {
    /// Lays out a bucket, if it does not exist. Never changes an existing one.
    pub async fn lay_out(&self, offer: &Offer, bucket: BucketNo, cap: u32) -> Result<(), StoreError> {
        let request = self
            .dynamodb
            .put_item()
            .table_name(&self.names.stock)
            .item("bucket", s(bucket_key(offer, bucket)))
            .item("cap", n(cap))
            .item("free", n(cap))
            .item("sold", n(0))
            .item("holders", AttributeValue::M(HashMap::new()))
            .item("soldTo", AttributeValue::M(HashMap::new()))
            .item(ROW_VERSION_NAME, n(ROW_VERSION))
            .condition_expression("attribute_not_exists(#bucket)")
            .expression_attribute_names("#bucket", "bucket");
        put("lay out a bucket", request).await.map(|_| ())
    }

    /// Holds units of a bucket for an order.
    pub async fn hold(
        &self,
        offer: &Offer,
        bucket: BucketNo,
        order: &OrderId,
        quantity: u32,
    ) -> Result<Hold, StoreError> {
        const OPERATION: &str = "hold stock";
        let request = self
            .bucket(offer, bucket, order, quantity)
            .update_expression("SET holders.#order = :quantity, #free = #free - :quantity")
            .condition_expression(
                "#free >= :quantity AND attribute_not_exists(holders.#order) AND attribute_not_exists(soldTo.#order)",
            )
            .expression_attribute_names("#free", "free");
        match update(OPERATION, request).await? {
            Written::Done(_) => Ok(Hold::Held),
            Written::Refused(None) => Ok(Hold::Full { free: 0 }),
            Written::Refused(Some(row)) => {
                let bucket: Bucket = read_row(OPERATION, row)?;
                // An earlier attempt was applied and its answer was lost.
                let held = bucket.holders.contains_key(order) || bucket.sold_to.contains_key(order);
                Ok(if held { Hold::Held } else { Hold::Full { free: bucket.free } })
            }
        }
    }

    /// Counts an order's held units as sold.
    pub async fn confirm(
        &self,
        offer: &Offer,
        bucket: BucketNo,
        order: &OrderId,
        quantity: u32,
    ) -> Result<Moved, StoreError> {
        let request = self
            .bucket(offer, bucket, order, quantity)
            .update_expression("REMOVE holders.#order SET soldTo.#order = :quantity, sold = sold + :quantity")
            .condition_expression("holders.#order = :quantity");
        moved(update("confirm stock", request).await?)
    }

    /// Puts an order's sold units back on sale. The order stays in `soldTo` with no units, so that a delayed hold of it
    /// is refused: a run that still believes the order to be paid could otherwise sell that hold's units to it.
    pub async fn take_back(
        &self,
        offer: &Offer,
        bucket: BucketNo,
        order: &OrderId,
        quantity: u32,
    ) -> Result<Moved, StoreError> {
        let request = self
            .bucket(offer, bucket, order, quantity)
            .update_expression("SET soldTo.#order = :zero, sold = sold - :quantity, #free = #free + :quantity")
            .condition_expression("soldTo.#order = :quantity")
            .expression_attribute_values(":zero", n(0))
            .expression_attribute_names("#free", "free");
        moved(update("take back stock", request).await?)
    }

    /// Puts the held units of a refunded order back on sale. The order is remembered, as by [`Store::take_back`].
    pub async fn release_refunded(
        &self,
        offer: &Offer,
        bucket: BucketNo,
        order: &OrderId,
        quantity: u32,
    ) -> Result<Moved, StoreError> {
        let request = self
            .bucket(offer, bucket, order, quantity)
            .update_expression("REMOVE holders.#order SET soldTo.#order = :zero, #free = #free + :quantity")
            .condition_expression("holders.#order = :quantity")
            .expression_attribute_values(":zero", n(0))
            .expression_attribute_names("#free", "free");
        moved(update("release refunded stock", request).await?)
    }

    /// Forgets that an order gave its units back: no request of it can be in flight any longer.
    pub async fn forget_returned(&self, offer: &Offer, bucket: BucketNo, order: &OrderId) -> Result<Moved, StoreError> {
        let request = self
            .bucket(offer, bucket, order, 0)
            .update_expression("REMOVE soldTo.#order")
            .condition_expression("soldTo.#order = :quantity");
        moved(update("forget returned stock", request).await?)
    }

    /// Puts an order's held units back on sale.
    pub async fn release(
        &self,
        offer: &Offer,
        bucket: BucketNo,
        order: &OrderId,
        quantity: u32,
    ) -> Result<Moved, StoreError> {
        let request = self
            .bucket(offer, bucket, order, quantity)
            .update_expression("REMOVE holders.#order SET #free = #free + :quantity")
            .condition_expression("holders.#order = :quantity")
            .expression_attribute_names("#free", "free");
        moved(update("release stock", request).await?)
    }

    /// Reads buckets consistently. Missing ones are left out.
    pub async fn buckets(
        &self,
        offer: &Offer,
        buckets: impl IntoIterator<Item = BucketNo>,
    ) -> Result<Vec<(BucketNo, Bucket)>, StoreError> {
        self.read_buckets(offer, buckets, true).await
    }

    /// The same by eventually consistent reads, for half the price.
    pub async fn recent_buckets(
        &self,
        offer: &Offer,
        buckets: impl IntoIterator<Item = BucketNo>,
    ) -> Result<Vec<(BucketNo, Bucket)>, StoreError> {
        self.read_buckets(offer, buckets, false).await
    }

    /// Reads buckets consistently, each on its own: one that cannot be read does not hide the others.
    pub async fn readable_buckets(
        &self,
        offer: &Offer,
        buckets: impl IntoIterator<Item = BucketNo>,
    ) -> Result<Rows<(BucketNo, Bucket)>, StoreError> {
        const OPERATION: &str = "read buckets";
        let mut found = Rows::default();
        for row in self.bucket_rows(OPERATION, offer, buckets, true).await? {
            found.add(format!("bucket {}", text(&row, "bucket")), read_bucket(OPERATION, row));
        }
        found.read.sort_by_key(|(number, _)| *number);
        Ok(found)
    }

    async fn read_buckets(
        &self,
        offer: &Offer,
        buckets: impl IntoIterator<Item = BucketNo>,
        consistent: bool,
    ) -> Result<Vec<(BucketNo, Bucket)>, StoreError> {
        const OPERATION: &str = "read buckets";
        let rows = self.bucket_rows(OPERATION, offer, buckets, consistent).await?;
        let read: Result<Vec<_>, _> = rows.into_iter().map(|row| read_bucket(OPERATION, row)).collect();
        let mut read = read?;
        read.sort_by_key(|(number, _)| *number);
        Ok(read)
    }

    async fn bucket_rows(
        &self,
        operation: &'static str,
        offer: &Offer,
        buckets: impl IntoIterator<Item = BucketNo>,
        consistent: bool,
    ) -> Result<Vec<Row>, StoreError> {
        let key = |bucket| Row::from([("bucket".to_owned(), s(bucket_key(offer, bucket)))]);
        let keys: Vec<Row> = buckets.into_iter().map(key).collect();
        self.read_many(operation, &self.names.stock, keys, consistent).await
    }

    fn bucket(
        &self,
        offer: &Offer,
        bucket: BucketNo,
        order: &OrderId,
        quantity: u32,
    ) -> aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder {
        self.dynamodb
            .update_item()
            .table_name(&self.names.stock)
            .key("bucket", s(bucket_key(offer, bucket)))
            .return_values(ReturnValue::None)
            .expression_attribute_names("#order", order.as_str())
            .expression_attribute_values(":quantity", n(quantity))
    }
}

fn read_bucket(operation: &'static str, row: Row) -> Result<(BucketNo, Bucket), StoreError> {
    let (_, number) = parse_bucket_key(text(&row, "bucket"))
        .ok_or_else(|| StoreError::unreadable_row(operation, "the key of a bucket"))?;
    Ok((number, read_row(operation, row)?))
}

fn moved(written: Written) -> Result<Moved, StoreError> {
    Ok(match written {
        Written::Done(_) => Moved::Now,
        Written::Refused(_) => Moved::NotHeld,
    })
}
