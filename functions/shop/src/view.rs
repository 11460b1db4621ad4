//! Sales and orders as buyers see them. A field without a value is null, never left out.

use std::collections::BTreeMap;

use domain::Timestamp;
use domain::availability::Availability;
use domain::ids::ItemId;
use domain::sale::{Item, Phase, SaleWithItems};
use edge::order::OrderJson;
use flows::view::availability::ItemAvailability;
use serde::Serialize;

/// Sales, and the server's time, by which a page counts down.
#[derive(Debug, Serialize)]
pub(crate) struct SalesJson {
    pub(crate) now: Timestamp,
    pub(crate) sales: Vec<SaleJson>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SaleJson {
    sale_id: String,
    name: String,
    starts_at: Timestamp,
    ends_at: Timestamp,
    status: Phase,
    items: Vec<ItemJson>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ItemJson {
    item_id: String,
    name: String,
    price: i64,
    original_price: i64,
    currency: String,
    limit_per_buyer: u32,
    points_price: Option<i64>,
    availability: Availability,
    availability_version: u64,
}

impl SaleJson {
    pub(crate) fn of(found: &SaleWithItems, availability: &BTreeMap<ItemId, ItemAvailability>, now: Timestamp) -> Self {
        let SaleWithItems { sale, items } = found;
        let shown = |item: &Item| availability.get(&item.id).copied().unwrap_or(ItemAvailability::NONE);
        let item = |item: &Item| ItemJson {
            item_id: item.id.to_string(),
            name: item.name.clone(),
            price: item.price,
            original_price: item.original_price,
            currency: item.currency.to_string(),
            limit_per_buyer: item.limit_per_buyer,
            points_price: item.points_price,
            availability: shown(item).availability,
            availability_version: shown(item).version,
        };
        Self {
            sale_id: sale.id.to_string(),
            name: sale.name.clone(),
            starts_at: sale.starts_at,
            ends_at: sale.ends_at,
            status: sale.phase(now),
            items: items.values().map(item).collect(),
        }
    }
}

#[derive(Debug, Serialize)]
pub(crate) struct OrdersJson<'a> {
    pub(crate) orders: Vec<OrderJson<'a>>,
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use domain::bucket::Layout;
    use domain::ids::{Buyer, BuyerKey, OrderId};
    use domain::message::{OrderMessage, VERSION};
    use domain::money::Currency;
    use domain::order::{Order, Status};
    use domain::sale::{Sale, SaleState};
    use serde_json::json;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    pub(crate) fn order(status: Status) -> Order {
        let buyer = Buyer::parse("ann").unwrap();
        let message = OrderMessage {
            version: VERSION,
            order_id: OrderId::new(at("2026-11-11T00:00:00Z"), &BuyerKey::of(&buyer, ""), 1),
            buyer,
            sale_id: "s1".parse().unwrap(),
            item_id: "phone".parse().unwrap(),
            quantity: 2,
            bucket: 5,
            shop_data: Default::default(),
            trace: Some("1-2-3".into()),
        };
        Order {
            item_name: "Phone".into(),
            amount: 139_800,
            currency: Currency::parse("CNY").unwrap(),
            status,
            pay_by: at("2026-11-11T00:15:00.25Z"),
            ..Order::of(&message, at("2026-11-11T00:00:00.25Z"))
        }
    }

    #[test]
    fn a_sale_shows_what_a_page_needs() {
        let item = |id: &str| Item {
            id: id.parse().unwrap(),
            name: id.to_uppercase(),
            price: 69_900,
            original_price: 99_900,
            currency: Currency::parse("CNY").unwrap(),
            stock: 100,
            limit_per_buyer: 1,
            points_price: None,
            layout: Layout::default(),
            laid_out: 0,
        };
        let sale = Sale {
            id: "s1".parse().unwrap(),
            name: "11.11".into(),
            starts_at: at("2026-11-11T00:00:00Z"),
            ends_at: at("2026-11-11T01:00:00Z"),
            payment_window_s: 900,
            state: SaleState::Ready,
            buyer_cooldown_ms: 0,
            item_rate_per_second: None,
            refunds_until: None,
            version: 2,
            changed_at: at("2026-11-10T12:00:00Z"),
        };
        let items = ["phone", "watch"].map(item).map(|item| (item.id.clone(), item)).into();
        let availability =
            [("phone".parse().unwrap(), ItemAvailability { availability: Availability::Low, version: 9 })].into();
        let now = at("2026-11-10T23:59:59Z");
        let sales = vec![SaleJson::of(&SaleWithItems { sale, items }, &availability, now)];
        let shown = |id: &str, availability: &str, version: u64| {
            json!({
                "itemId": id, "name": id.to_uppercase(), "price": 69_900, "originalPrice": 99_900, "currency": "CNY",
                "limitPerBuyer": 1, "pointsPrice": null, "availability": availability,
                "availabilityVersion": version,
            })
        };
        assert_eq!(
            serde_json::to_value(SalesJson { now, sales }).unwrap(),
            json!({
                "now": "2026-11-10T23:59:59Z",
                "sales": [{
                    "saleId": "s1", "name": "11.11", "status": "SCHEDULED",
                    "startsAt": "2026-11-11T00:00:00Z", "endsAt": "2026-11-11T01:00:00Z",
                    "items": [shown("phone", "LOW", 9), shown("watch", "SOLD_OUT", 0)],
                }],
            })
        );
    }
}
