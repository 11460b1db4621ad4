//! Sales and orders as buyers get them. A field that has no value is null, never left out.

use std::collections::BTreeMap;

use domain::Timestamp;
use domain::availability::Availability;
use domain::ids::ItemId;
use domain::order::Order;
use domain::sale::{Item, Phase, SaleWithItems};
use flows::orders::{OrderView, Queued};
use serde::Serialize;

/// Sales, and the server's time for a page to count down by.
#[derive(Debug, Serialize)]
pub(crate) struct SalesJson {
    pub(crate) now: Timestamp,
    pub(crate) sales: Vec<SaleJson>,
}

/// A sale.
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

/// An item of it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ItemJson {
    item_id: String,
    name: String,
    price: i64,
    original_price: i64,
    currency: String,
    limit_per_buyer: u32,
    availability: Availability,
}

impl SaleJson {
    pub(crate) fn of(found: &SaleWithItems, looks: &BTreeMap<ItemId, Availability>, now: Timestamp) -> Self {
        let SaleWithItems { sale, items } = found;
        let item = |item: &Item| ItemJson {
            item_id: item.id.to_string(),
            name: item.name.clone(),
            price: item.price,
            original_price: item.original_price,
            currency: item.currency.to_string(),
            limit_per_buyer: item.limit_per_buyer,
            availability: looks.get(&item.id).copied().unwrap_or(Availability::SoldOut),
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

/// A buyer's orders.
#[derive(Debug, Serialize)]
pub(crate) struct OrdersJson<'a> {
    pub(crate) orders: Vec<OrderJson<'a>>,
}

/// An order, or an accepted purchase that will become one.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OrderJson<'a> {
    order_id: &'a str,
    sale_id: &'a str,
    item_id: &'a str,
    item_name: Option<&'a str>,
    quantity: u32,
    amount: Option<i64>,
    currency: Option<&'a str>,
    status: &'static str,
    reason: Option<&'static str>,
    pay_by: Option<Timestamp>,
    created_at: Option<Timestamp>,
    paid_at: Option<Timestamp>,
}

impl<'a> OrderJson<'a> {
    pub(crate) fn of(view: &'a OrderView) -> Self {
        match view {
            OrderView::Order(order) => Self::made(order),
            OrderView::Queued(queued) => Self::queued(queued),
        }
    }

    pub(crate) fn made(order: &'a Order) -> Self {
        Self {
            order_id: order.id.as_str(),
            sale_id: order.sale.as_str(),
            item_id: order.item.as_str(),
            item_name: Some(&order.item_name),
            quantity: order.quantity,
            amount: Some(order.amount),
            currency: Some(order.currency.as_str()),
            status: order.status.as_str(),
            reason: order.reason.map(|reason| reason.as_str()),
            pay_by: Some(order.pay_by),
            created_at: Some(order.created_at),
            paid_at: order.paid_at,
        }
    }

    fn queued(queued: &'a Queued) -> Self {
        let item = queued.item.as_ref();
        Self {
            order_id: queued.id.as_str(),
            sale_id: queued.offer.sale.as_str(),
            item_id: queued.offer.item.as_str(),
            item_name: item.map(|(name, _, _)| name.as_str()),
            quantity: queued.quantity,
            amount: item.map(|(_, amount, _)| *amount),
            currency: item.map(|(_, _, currency)| currency.as_str()),
            status: "QUEUED",
            reason: None,
            pay_by: None,
            created_at: None,
            paid_at: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::bucket::Layout;
    use domain::ids::{Buyer, BuyerKey, Offer, OrderId};
    use domain::money::Currency;
    use domain::order::{Reason, Status};
    use domain::sale::{Sale, SaleState};
    use serde_json::json;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn id() -> OrderId {
        OrderId::new(at("2026-11-11T00:00:00Z"), &BuyerKey::of(&Buyer::parse("ann").unwrap(), ""), 1)
    }

    #[test]
    fn an_order_has_every_field_of_the_contract() {
        let order = Order {
            id: id(),
            buyer_name: Buyer::parse("ann").unwrap(),
            sale: "s1".parse().unwrap(),
            item: "phone".parse().unwrap(),
            item_name: "Phone".into(),
            quantity: 2,
            amount: 139_800,
            currency: Currency::parse("CNY").unwrap(),
            bucket: 5,
            status: Status::Closed,
            reason: Some(Reason::TimedOut),
            created_at: at("2026-11-11T00:00:00.25Z"),
            pay_by: at("2026-11-11T00:15:00.25Z"),
            paid_at: None,
            closed_at: Some(at("2026-11-11T00:15:01Z")),
            refunded_at: None,
            points_price: None,
            attempts: Vec::new(),
            payment: None,
            paid: None,
            returned: Default::default(),
            trace: Some("1-2-3".into()),
        };
        assert_eq!(
            serde_json::to_value(OrderJson::of(&OrderView::Order(Box::new(order)))).unwrap(),
            json!({
                "orderId": id(), "saleId": "s1", "itemId": "phone", "itemName": "Phone", "quantity": 2,
                "amount": 139_800, "currency": "CNY", "status": "CLOSED", "reason": "TIMED_OUT",
                "payBy": "2026-11-11T00:15:00.25Z", "createdAt": "2026-11-11T00:00:00.25Z", "paidAt": null,
            }),
            "and nothing of buckets, buyers and traces"
        );
    }

    #[test]
    fn a_queued_purchase_has_the_same_fields() {
        let offer = Offer { sale: "s1".parse().unwrap(), item: "phone".parse().unwrap() };
        let known = Some(("Phone".to_owned(), 69_900, Currency::parse("CNY").unwrap()));
        let queued = OrderView::Queued(Queued { id: id(), offer, quantity: 1, item: known });
        assert_eq!(
            serde_json::to_value(OrderJson::of(&queued)).unwrap(),
            json!({
                "orderId": id(), "saleId": "s1", "itemId": "phone", "itemName": "Phone", "quantity": 1,
                "amount": 69_900, "currency": "CNY", "status": "QUEUED", "reason": null,
                "payBy": null, "createdAt": null, "paidAt": null,
            })
        );
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
            version: 2,
            changed_at: at("2026-11-10T12:00:00Z"),
        };
        let items = ["phone", "watch"].map(item).map(|item| (item.id.clone(), item)).into();
        let looks = [("phone".parse().unwrap(), Availability::Low)].into();
        let now = at("2026-11-10T23:59:59Z");
        let sales = vec![SaleJson::of(&SaleWithItems { sale, items }, &looks, now)];
        let shown = |id: &str, availability: &str| {
            json!({
                "itemId": id, "name": id.to_uppercase(), "price": 69_900, "originalPrice": 99_900, "currency": "CNY",
                "limitPerBuyer": 1, "availability": availability,
            })
        };
        assert_eq!(
            serde_json::to_value(SalesJson { now, sales }).unwrap(),
            json!({
                "now": "2026-11-10T23:59:59Z",
                "sales": [{
                    "saleId": "s1", "name": "11.11", "status": "SCHEDULED",
                    "startsAt": "2026-11-11T00:00:00Z", "endsAt": "2026-11-11T01:00:00Z",
                    "items": [shown("phone", "LOW"), shown("watch", "SOLD_OUT")],
                }],
            })
        );
    }
}
