//! An order as JSON for its buyer, in answers and in pushed updates. A field without a value is null, never left out.

use std::collections::BTreeMap;

use domain::Timestamp;
use domain::ids::{PaymentNumber, Reference};
use domain::order::{Order, Status};
use domain::payment::Method;
use flows::view::orders::{OrderView, Queued};
use serde::Serialize;

/// An order, or an accepted purchase that will become one.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OrderJson<'a> {
    order_id: &'a str,
    version: u32,
    sale_id: &'a str,
    item_id: &'a str,
    item_name: Option<&'a str>,
    quantity: u32,
    amount: Option<i64>,
    currency: Option<&'a str>,
    points_price: Option<i64>,
    status: &'static str,
    reason: Option<&'static str>,
    pay_by: Option<Timestamp>,
    created_at: Option<Timestamp>,
    paid_at: Option<Timestamp>,
    refunded_at: Option<Timestamp>,
    payment: Option<OpenPaymentJson>,
    /// What the shop attached to the purchase.
    reference: Option<&'a str>,
    metadata: &'a BTreeMap<String, String>,
}

/// The payment that the buyer can make now.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct OpenPaymentJson {
    payment_id: String,
    method: Method,
    amount: i64,
    points: i64,
}

impl OpenPaymentJson {
    /// `None` while the payment is being closed: the buyer should no longer make it.
    fn of(order: &Order) -> Option<Self> {
        let open = order.payment.as_ref().filter(|open| order.status == Status::PendingPayment && !open.closing)?;
        let attempt = order.attempts.get(usize::from(open.attempt))?;
        Some(Self {
            payment_id: PaymentNumber::new(order.id.clone(), open.attempt)?.to_string(),
            method: attempt.method,
            amount: attempt.amount,
            points: attempt.points,
        })
    }
}

impl<'a> OrderJson<'a> {
    pub fn of(view: &'a OrderView) -> Self {
        match view {
            OrderView::Order(order) => Self::made(order),
            OrderView::Queued(queued) => Self::queued(queued),
        }
    }

    /// An order that exists, as opposed to a queued purchase.
    pub fn made(order: &'a Order) -> Self {
        Self {
            order_id: order.id.as_str(),
            version: order.version(),
            sale_id: order.sale.as_str(),
            item_id: order.item.as_str(),
            item_name: Some(&order.item_name),
            quantity: order.quantity,
            amount: Some(order.amount),
            currency: Some(order.currency.as_str()),
            points_price: order.points_price,
            status: order.status.as_str(),
            reason: order.reason.map(|reason| reason.as_str()),
            pay_by: Some(order.pay_by),
            created_at: Some(order.created_at),
            paid_at: order.paid_at,
            refunded_at: order.refunded_at,
            payment: OpenPaymentJson::of(order),
            reference: order.shop_data.reference.as_ref().map(Reference::as_str),
            metadata: order.shop_data.metadata.pairs(),
        }
    }

    fn queued(queued: &'a Queued) -> Self {
        let item = queued.item.as_ref();
        Self {
            order_id: queued.id.as_str(),
            version: 0,
            sale_id: queued.offer.sale.as_str(),
            item_id: queued.offer.item.as_str(),
            item_name: item.map(|(name, _, _)| name.as_str()),
            quantity: queued.quantity,
            amount: item.map(|(_, amount, _)| *amount),
            currency: item.map(|(_, _, currency)| currency.as_str()),
            points_price: None,
            status: "QUEUED",
            reason: None,
            pay_by: None,
            created_at: None,
            paid_at: None,
            refunded_at: None,
            payment: None,
            reference: queued.shop_data.reference.as_ref().map(Reference::as_str),
            metadata: queued.shop_data.metadata.pairs(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::ids::{Buyer, BuyerKey, Offer, OrderId};
    use domain::message::{OrderMessage, VERSION};
    use domain::money::Currency;
    use domain::order::Reason;
    use domain::payment::{Attempt, OpenPayment};
    use domain::shop_data::ShopData;
    use serde_json::json;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn id() -> OrderId {
        OrderId::new(at("2026-11-11T00:00:00Z"), &BuyerKey::of(&Buyer::parse("ann").unwrap(), ""), 1)
    }

    fn order(status: Status) -> Order {
        let buyer = Buyer::parse("ann").unwrap();
        let message = OrderMessage {
            version: VERSION,
            order_id: id(),
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

    fn json_of(order: Order) -> serde_json::Value {
        serde_json::to_value(OrderJson::of(&OrderView::Order(Box::new(order)))).unwrap()
    }

    #[test]
    fn an_order_has_every_field_of_the_contract() {
        let closed_at = Some(at("2026-11-11T00:15:01Z"));
        let closed = Order { reason: Some(Reason::TimedOut), closed_at, ..order(Status::Closed) };
        assert_eq!(
            json_of(closed),
            json!({
                "orderId": id(), "version": 2_002, "saleId": "s1", "itemId": "phone", "itemName": "Phone",
                "quantity": 2, "amount": 139_800, "currency": "CNY", "pointsPrice": null,
                "status": "CLOSED", "reason": "TIMED_OUT",
                "payBy": "2026-11-11T00:15:00.25Z", "createdAt": "2026-11-11T00:00:00.25Z", "paidAt": null,
                "refundedAt": null, "payment": null, "reference": null, "metadata": {},
            }),
            "buckets, buyers and traces are not shown"
        );
        let refunded = json_of(Order { refunded_at: Some(at("2026-11-12T00:00:00Z")), ..order(Status::Refunded) });
        assert_eq!(refunded["refundedAt"], "2026-11-12T00:00:00Z");
    }

    #[test]
    fn an_open_payment_is_shown_until_a_flow_starts_to_close_it() {
        let open = OpenPayment {
            attempt: 1,
            started_at: at("2026-11-11T00:01:00Z"),
            client_ip: "203.0.113.7".into(),
            link: None,
            closing: false,
        };
        let attempt = |method, amount, points| Attempt { method, amount, points };
        let attempts = vec![attempt(Method::Alipay, 139_800, 0), attempt(Method::Wechat, 100_000, 398)];
        let waiting = Order { attempts, payment: Some(open.clone()), ..order(Status::PendingPayment) };
        assert_eq!(
            json_of(waiting.clone())["payment"],
            json!({"paymentId": format!("{}1", id()), "method": "wechat", "amount": 100_000, "points": 398})
        );
        let closing = Order { payment: Some(OpenPayment { closing: true, ..open }), ..waiting };
        assert_eq!(json_of(closing)["payment"], json!(null));
    }

    #[test]
    fn a_queued_purchase_has_the_same_fields() {
        let offer = Offer { sale: "s1".parse().unwrap(), item: "phone".parse().unwrap() };
        let known = Some(("Phone".to_owned(), 69_900, Currency::parse("CNY").unwrap()));
        let shop_data = ShopData { reference: Some("cart-7".parse().unwrap()), ..ShopData::default() };
        let queued = OrderView::Queued(Queued { id: id(), offer, quantity: 1, item: known, shop_data });
        assert_eq!(
            serde_json::to_value(OrderJson::of(&queued)).unwrap(),
            json!({
                "orderId": id(), "version": 0, "saleId": "s1", "itemId": "phone", "itemName": "Phone", "quantity": 1,
                "amount": 69_900, "currency": "CNY", "pointsPrice": null, "status": "QUEUED", "reason": null,
                "payBy": null, "createdAt": null, "paidAt": null, "refundedAt": null, "payment": null,
                "reference": "cart-7", "metadata": {},
            })
        );
    }
}
