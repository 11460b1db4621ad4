//! What travels: the order message on the queue, and the input of a payment deadline's schedule. Both carry a version,
//! because a message may be read by a newer or older function than the one that wrote it.

use serde::{Deserialize, Serialize};

use crate::bucket::BucketNo;
use crate::ids::{Buyer, ItemId, Offer, OrderId, SaleId};

/// The version that is written.
pub const VERSION: u32 = 1;

/// An accepted purchase: make the order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OrderMessage {
    /// [`VERSION`].
    pub version: u32,
    /// The order's number.
    pub order_id: OrderId,
    /// Who ordered.
    pub buyer: Buyer,
    /// The sale.
    pub sale_id: SaleId,
    /// The item.
    pub item_id: ItemId,
    /// Units.
    pub quantity: u32,
    /// Where they are held.
    pub bucket: BucketNo,
    /// The trace of the press.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
}

impl OrderMessage {
    /// What was ordered.
    pub fn offer(&self) -> Offer {
        Offer { sale: self.sale_id.clone(), item: self.item_id.clone() }
    }
}

/// A payment deadline has come: look at the order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeadlineInput {
    /// [`VERSION`].
    pub version: u32,
    /// The order's number.
    pub order_id: OrderId,
    /// The trace of the press.
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
            trace: None,
        }
    }
}
