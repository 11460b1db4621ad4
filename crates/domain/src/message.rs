//! Messages between functions: the order message on the queue, and the input of a payment deadline's schedule.
//!
//! Both carry a version, because a function of a newer or older release may read what this one writes.

use serde::{Deserialize, Serialize};

use crate::bucket::BucketNo;
use crate::ids::{Buyer, ItemId, Offer, OrderId, SaleId};
use crate::shop_data::ShopData;

/// The version that this release writes.
pub const VERSION: u32 = 1;

/// An accepted purchase, for order-consumer to create the order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OrderMessage {
    pub version: u32,
    pub order_id: OrderId,
    pub buyer: Buyer,
    pub sale_id: SaleId,
    pub item_id: ItemId,
    pub quantity: u32,
    /// The bucket that holds the units.
    pub bucket: BucketNo,
    /// What the shop attached to the purchase.
    #[serde(default, skip_serializing_if = "ShopData::is_empty")]
    pub shop_data: ShopData,
    /// The trace id of the purchase request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
}

impl OrderMessage {
    pub fn offer(&self) -> Offer {
        Offer { sale: self.sale_id.clone(), item: self.item_id.clone() }
    }
}

/// A payment deadline that has been reached, for timeout-check to close the order if it is still pending.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeadlineInput {
    pub version: u32,
    pub order_id: OrderId,
    /// The trace id of the purchase request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
}

#[cfg(test)]
pub(crate) mod sample {
    use jiff::Timestamp;

    use super::{OrderMessage, VERSION};
    use crate::ids::{Buyer, BuyerKey, OrderId};

    /// A message about a phone that is held in bucket 5.
    pub(crate) fn message(pressed_at: Timestamp) -> OrderMessage {
        let buyer = Buyer::parse("ann").unwrap();
        OrderMessage {
            version: VERSION,
            order_id: OrderId::new(pressed_at, &BuyerKey::of(&buyer, ""), 1),
            buyer,
            sale_id: "s1".parse().unwrap(),
            item_id: "phone".parse().unwrap(),
            quantity: 1,
            bucket: 5,
            shop_data: Default::default(),
            trace: None,
        }
    }
}
