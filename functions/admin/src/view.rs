//! What an operator sees.

use std::collections::BTreeMap;

use domain::Timestamp;
use domain::ids::{ItemId, OrderId, SaleId};
use domain::order::Status;
use domain::sale::{Item, Phase, SaleState, SaleWithItems};
use flows::view::audit::SaleAudit;
use serde::Serialize;

#[derive(Debug, Serialize)]
pub(crate) struct SalesView<'a> {
    pub(crate) now: Timestamp,
    pub(crate) sales: Vec<SaleView<'a>>,
    /// Whether there are older sales that are not listed.
    pub(crate) more: bool,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SaleView<'a> {
    sale_id: &'a SaleId,
    name: &'a str,
    starts_at: Timestamp,
    ends_at: Timestamp,
    payment_window_seconds: u32,
    buyer_cooldown_ms: u32,
    item_rate_per_second: Option<u32>,
    /// Until when buyers can refund; `null`: until the sale's end.
    refunds_until: Option<Timestamp>,
    /// The phase that buyers see.
    status: Phase,
    /// The state that the operator has set.
    state: SaleState,
    version: u64,
    changed_at: Timestamp,
    items: Vec<ItemView<'a>>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ItemView<'a> {
    item_id: &'a ItemId,
    name: &'a str,
    price: i64,
    original_price: i64,
    currency: &'a str,
    /// Units at the start.
    stock: u32,
    limit_per_buyer: u32,
    points_price: Option<i64>,
    /// Units on sale, with all restocks; 0 before preheating.
    total: u64,
    /// Buckets of the layout.
    buckets: u32,
    /// How many of them are known to be laid out.
    laid_out: u32,
}

impl<'a> SaleView<'a> {
    pub(crate) fn of(found: &'a SaleWithItems, now: Timestamp) -> Self {
        let SaleWithItems { sale, items } = found;
        Self {
            sale_id: &sale.id,
            name: &sale.name,
            starts_at: sale.starts_at,
            ends_at: sale.ends_at,
            payment_window_seconds: sale.payment_window_s,
            buyer_cooldown_ms: sale.buyer_cooldown_ms,
            item_rate_per_second: sale.item_rate_per_second,
            refunds_until: sale.refunds_until,
            status: sale.phase(now),
            state: sale.state,
            version: sale.version,
            changed_at: sale.changed_at,
            items: items.values().map(ItemView::of).collect(),
        }
    }
}

impl<'a> ItemView<'a> {
    pub(crate) fn of(item: &'a Item) -> Self {
        Self {
            item_id: &item.id,
            name: &item.name,
            price: item.price,
            original_price: item.original_price,
            currency: item.currency.as_str(),
            stock: item.stock,
            limit_per_buyer: item.limit_per_buyer,
            points_price: item.points_price,
            total: item.layout.total(),
            buckets: item.layout.buckets(),
            laid_out: item.laid_out,
        }
    }
}

/// The audit of a sale.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AuditView<'a> {
    sale_id: &'a SaleId,
    status: Phase,
    items: Vec<ItemAuditView<'a>>,
    /// Where the next request goes on counting orders; `null`: all are counted.
    cursor: Option<&'a OrderId>,
}

/// The audit of an item: free + held + sold = total.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ItemAuditView<'a> {
    item_id: &'a ItemId,
    total: u64,
    free: u64,
    held: u64,
    sold: u64,
    orders: BTreeMap<&'static str, u64>,
    drift: i64,
    findings: &'a [String],
}

impl<'a> AuditView<'a> {
    pub(crate) fn of(audited: &'a SaleAudit, now: Timestamp) -> Self {
        let sale = &audited.sale.sale;
        let items = audited.items.iter().map(|(item_id, audit)| ItemAuditView {
            item_id,
            total: audit.total,
            free: audit.free,
            held: audit.held,
            sold: audit.sold,
            // Every status is listed, even with 0: a page can show them without knowing their names.
            orders: every_status(&audit.orders),
            drift: audit.drift,
            findings: &audit.findings,
        });
        Self { sale_id: &sale.id, status: sale.phase(now), items: items.collect(), cursor: audited.cursor.as_ref() }
    }
}

/// Orders by status, including those with none.
pub(crate) fn every_status(orders: &BTreeMap<Status, u64>) -> BTreeMap<&'static str, u64> {
    Status::ALL.iter().map(|status| (status.as_str(), orders.get(status).copied().unwrap_or(0))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::bucket::{Layout, Segment};
    use domain::sale::Sale;
    use flows::view::audit::ItemAudit;
    use serde_json::json;

    fn found() -> SaleWithItems {
        let item = Item {
            id: "phone".parse().unwrap(),
            name: "Phone".into(),
            price: 69_900,
            original_price: 99_900,
            currency: domain::money::Currency::parse("CNY").unwrap(),
            stock: 100,
            limit_per_buyer: 1,
            points_price: None,
            layout: Layout(vec![Segment::new(100, 1, None), Segment::new(10, 1, None)]),
            laid_out: 5,
        };
        let sale = Sale {
            id: "s1".parse().unwrap(),
            name: "11.11".into(),
            starts_at: "2026-11-11T00:00:00Z".parse().unwrap(),
            ends_at: "2026-11-11T01:00:00Z".parse().unwrap(),
            payment_window_s: 900,
            state: SaleState::Ready,
            buyer_cooldown_ms: 0,
            item_rate_per_second: None,
            refunds_until: None,
            version: 2,
            changed_at: "2026-11-10T12:00:00.5Z".parse().unwrap(),
        };
        SaleWithItems { sale, items: [(item.id.clone(), item)].into() }
    }

    #[test]
    fn a_sale_shows_its_phase_its_state_and_how_far_it_is_laid_out() {
        let found = found();
        let view = serde_json::to_value(SaleView::of(&found, "2026-11-11T00:30:00Z".parse().unwrap())).unwrap();
        assert_eq!(
            view,
            json!({
                "saleId": "s1", "name": "11.11",
                "startsAt": "2026-11-11T00:00:00Z", "endsAt": "2026-11-11T01:00:00Z",
                "paymentWindowSeconds": 900, "buyerCooldownMs": 0, "itemRatePerSecond": null,
                "refundsUntil": null,
                "status": "OPEN", "state": "READY", "version": 2, "changedAt": "2026-11-10T12:00:00.5Z",
                "items": [{
                    "itemId": "phone", "name": "Phone", "price": 69_900, "originalPrice": 99_900, "currency": "CNY",
                    "stock": 100, "limitPerBuyer": 1, "pointsPrice": null, "total": 110, "buckets": 6, "laidOut": 5,
                }],
            })
        );
    }

    #[test]
    fn an_audit_shows_every_status() {
        let audit = ItemAudit {
            total: 110,
            free: 100,
            held: 8,
            sold: 1,
            orders: [(Status::Paid, 1)].into(),
            drift: 1,
            findings: vec!["bucket 3 does not add up".into()],
        };
        let items = [("phone".parse().unwrap(), audit)].into();
        let audited = SaleAudit { sale: found(), items, cursor: None };
        let view = serde_json::to_value(AuditView::of(&audited, "2026-11-12T00:00:00Z".parse().unwrap())).unwrap();
        assert_eq!(
            view,
            json!({"saleId": "s1", "status": "ENDED", "items": [{
                "itemId": "phone", "total": 110, "free": 100, "held": 8, "sold": 1,
                "orders": {"PENDING_PAYMENT": 0, "PAID": 1, "CLOSED": 0, "FAILED": 0, "REFUNDING": 0, "REFUNDED": 0},
                "drift": 1, "findings": ["bucket 3 does not add up"],
            }], "cursor": null})
        );
    }
}
