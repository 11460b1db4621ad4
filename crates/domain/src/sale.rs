//! A sale (活动): its settings, its phases, and what an operator may do to it.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::bucket::{Layout, MAX_STOCK};
use crate::ids::{ItemId, SaleId};
use crate::money::{Currency, MAX_PRICE};

/// The longest name of a sale or an item, in characters.
pub const MAX_NAME: usize = 128;
/// The most items in a sale. An edit removes the old items and writes the new ones in one transaction, which DynamoDB
/// limits to 100 rows.
pub const MAX_ITEMS: usize = 40;
pub const MAX_LIMIT_PER_BUYER: u32 = 100;
pub const MAX_SALE: SignedDuration = SignedDuration::from_hours(24 * 31);
/// The default time that a buyer has to pay.
pub const DEFAULT_PAYMENT_WINDOW_S: u32 = 15 * 60;
pub const MAX_PAYMENT_WINDOW_S: u32 = 24 * 60 * 60;
/// How long after the end of a sale its buyers can be allowed to refund. Providers refund for about a year.
pub const MAX_REFUNDS_AFTER_END: SignedDuration = SignedDuration::from_hours(24 * 366);
/// The longest cool-down between two purchase requests of one buyer.
pub const MAX_COOLDOWN_MS: u32 = 60_000;

/// The state that an operator has put a sale into. What buyers see also depends on the time: see [`Phase`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum SaleState {
    /// The sale is being set up, and everything can be changed.
    Draft,
    /// The buckets exist. The sale sells from its start to its end.
    Ready,
    /// Selling is stopped and can be resumed.
    Paused,
    /// Selling has ended and cannot be resumed.
    Closed,
}

/// A change of state that an operator can request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SaleChange {
    /// Create the buckets of every item (预热).
    Preheat,
    Pause,
    Resume,
    Close,
}

impl SaleState {
    /// The state after a change, or `None` if the change is not allowed. Repeating a change is not an error.
    pub fn after(self, change: SaleChange) -> Option<SaleState> {
        use SaleChange::{Close, Pause, Preheat, Resume};
        use SaleState::{Closed, Draft, Paused, Ready};
        match (self, change) {
            (Draft, Preheat) => Some(Ready),
            (Draft, Pause | Resume) => None,
            (Ready, Preheat | Resume) => Some(Ready),
            (Ready, Pause) => Some(Paused),
            (Paused, Preheat | Pause) => Some(Paused),
            (Paused, Resume) => Some(Ready),
            (Draft | Ready | Paused | Closed, Close) => Some(Closed),
            (Closed, Preheat | Pause | Resume) => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Sale {
    #[serde(rename = "sale")]
    pub id: SaleId,
    pub name: String,
    /// The first moment at which buyers can buy.
    #[serde(with = "jiff::fmt::serde::timestamp::millisecond::required")]
    pub starts_at: Timestamp,
    /// The moment from which buyers can no longer buy.
    #[serde(with = "jiff::fmt::serde::timestamp::millisecond::required")]
    pub ends_at: Timestamp,
    /// How long a buyer has to pay.
    pub payment_window_s: u32,
    pub state: SaleState,
    /// How long a buyer waits between two purchase requests. 0 turns this limit off.
    #[serde(default)]
    pub buyer_cooldown_ms: u32,
    /// How many purchase requests a second for one item each running function lets through. `None` is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item_rate_per_second: Option<u32>,
    /// Until when buyers can refund their orders. `None`: until the sale's end. Later an operator can.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "jiff::fmt::serde::timestamp::millisecond::optional"
    )]
    pub refunds_until: Option<Timestamp>,
    /// Grows with every change. A write names the version it is based on, so two operators cannot overwrite each other.
    pub version: u64,
    #[serde(with = "jiff::fmt::serde::timestamp::millisecond::required")]
    pub changed_at: Timestamp,
}

/// An item of a sale.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Item {
    #[serde(rename = "item")]
    pub id: ItemId,
    pub name: String,
    /// The price of one unit in this sale, in minor units.
    pub price: i64,
    /// The price outside of this sale, in minor units.
    pub original_price: i64,
    pub currency: Currency,
    /// The units at the start, before any restock.
    pub stock: u32,
    pub limit_per_buyer: u32,
    /// The price of one unit in points, if it can be paid with points.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub points_price: Option<i64>,
    /// All units as segments of buckets. Empty until the sale is preheated.
    #[serde(default)]
    pub layout: Layout,
    /// How many buckets are known to have been created, counted from the first: preheating resumes here. A bucket below
    /// this number that is missing is never created again, because units of it may have been sold.
    #[serde(default)]
    pub laid_out: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaleWithItems {
    pub sale: Sale,
    pub items: BTreeMap<ItemId, Item>,
}

/// What buyers see of a sale at a given time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Phase {
    Draft,
    /// The start is in the future.
    Scheduled,
    Open,
    Paused,
    /// The end has passed.
    Ended,
    /// An operator has ended the sale.
    Closed,
}

impl Sale {
    /// The moment from which only an operator can refund an order.
    pub fn refunds_until(&self) -> Timestamp {
        self.refunds_until.unwrap_or(self.ends_at)
    }

    /// The phase at `now`. The sale includes its start and excludes its end.
    pub fn phase(&self, now: Timestamp) -> Phase {
        match self.state {
            SaleState::Draft => Phase::Draft,
            SaleState::Closed => Phase::Closed,
            SaleState::Ready | SaleState::Paused if now >= self.ends_at => Phase::Ended,
            SaleState::Ready | SaleState::Paused if now < self.starts_at => Phase::Scheduled,
            SaleState::Paused => Phase::Paused,
            SaleState::Ready => Phase::Open,
        }
    }
}

/// What is wrong with a field, for the person who filled it in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FieldError {
    /// The path of the field, such as `items[0].price`.
    pub field: String,
    /// What the value must be: "must be ...".
    pub why: String,
}

/// All errors in the settings of a sale. Empty if there are none.
pub fn check(sale: &Sale, items: &[Item]) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut require = |ok: bool, field: String, why: &str| {
        if !ok {
            errors.push(FieldError { field, why: why.to_owned() });
        }
    };
    require(is_name(&sale.name), "name".into(), "must be 1 to 128 characters, none of them a control character");
    require(sale.starts_at < sale.ends_at, "endsAt".into(), "must be after startsAt");
    require(
        sale.ends_at.duration_since(sale.starts_at) <= MAX_SALE,
        "endsAt".into(),
        "must be at most 31 days after startsAt",
    );
    require(
        sale.refunds_until
            .is_none_or(|until| until >= sale.starts_at && until.duration_since(sale.ends_at) <= MAX_REFUNDS_AFTER_END),
        "refundsUntil".into(),
        "must be at or after startsAt, and at most 366 days after endsAt, or left out",
    );
    let window = 1..=MAX_PAYMENT_WINDOW_S;
    require(window.contains(&sale.payment_window_s), "paymentWindowSeconds".into(), "must be 1 to 86400");
    require(sale.buyer_cooldown_ms <= MAX_COOLDOWN_MS, "buyerCooldownMs".into(), "must be 0 to 60000");
    require(sale.item_rate_per_second != Some(0), "itemRatePerSecond".into(), "must be 1 or more, or left out");
    require((1..=MAX_ITEMS).contains(&items.len()), "items".into(), "must have 1 to 40 items");
    for (n, item) in items.iter().enumerate() {
        let field = |name: &str| format!("items[{n}].{name}");
        let prices = 1..=MAX_PRICE;
        require(is_name(&item.name), field("name"), "must be 1 to 128 characters, none of them a control character");
        require(
            prices.contains(&item.price),
            field("price"),
            "must be 1 to 1000000000000, in minor units (fen, cents)",
        );
        require(
            item.original_price >= item.price && item.original_price <= MAX_PRICE,
            field("originalPrice"),
            "must be at least the price, and at most 1000000000000",
        );
        require((1..=MAX_STOCK).contains(&item.stock), field("stock"), "must be 1 to 10000000");
        require((1..=MAX_LIMIT_PER_BUYER).contains(&item.limit_per_buyer), field("limitPerBuyer"), "must be 1 to 100");
        require(
            item.points_price.is_none_or(|points| (1..=MAX_PRICE).contains(&points)),
            field("pointsPrice"),
            "must be 1 to 1000000000000, or left out",
        );
        require(
            items.iter().filter(|other| other.id == item.id).count() == 1,
            field("itemId"),
            "must be different from every other item's",
        );
    }
    errors
}

/// Whether `items` may replace the items of a sale that was preheated. Only names may change: buyers have seen the
/// prices, orders contain them, and buckets exist for the stock.
pub fn same_goods(before: &BTreeMap<ItemId, Item>, items: &[Item]) -> bool {
    let goods = |item: &Item| {
        (item.price, item.original_price, item.currency.clone(), item.stock, item.limit_per_buyer, item.points_price)
    };
    before.len() == items.len()
        && items.iter().all(|item| before.get(&item.id).is_some_and(|before| goods(before) == goods(item)))
}

fn is_name(text: &str) -> bool {
    (1..=MAX_NAME).contains(&text.chars().count()) && !text.chars().any(char::is_control) && !text.trim().is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sale(state: SaleState) -> Sale {
        Sale {
            id: "s".parse().unwrap(),
            name: "11.11".into(),
            starts_at: "2026-11-11T00:00:00Z".parse().unwrap(),
            ends_at: "2026-11-11T01:00:00Z".parse().unwrap(),
            payment_window_s: DEFAULT_PAYMENT_WINDOW_S,
            state,
            buyer_cooldown_ms: 0,
            item_rate_per_second: None,
            refunds_until: None,
            version: 1,
            changed_at: Timestamp::UNIX_EPOCH,
        }
    }

    fn item(id: &str) -> Item {
        Item {
            id: id.parse().unwrap(),
            name: "Phone".into(),
            price: 69_900,
            original_price: 99_900,
            currency: Currency::parse("CNY").unwrap(),
            stock: 100,
            limit_per_buyer: 1,
            points_price: None,
            layout: Layout::default(),
            laid_out: 0,
        }
    }

    #[test]
    fn a_sale_includes_its_start_and_excludes_its_end() {
        let phase = |at: &str| sale(SaleState::Ready).phase(at.parse().unwrap());
        assert_eq!(phase("2026-11-10T23:59:59Z"), Phase::Scheduled);
        assert_eq!(phase("2026-11-11T00:00:00Z"), Phase::Open);
        assert_eq!(phase("2026-11-11T00:59:59.999Z"), Phase::Open);
        assert_eq!(phase("2026-11-11T01:00:00Z"), Phase::Ended);
    }

    #[test]
    fn a_paused_sale_is_shown_as_paused_only_between_start_and_end() {
        let phase = |at: &str| sale(SaleState::Paused).phase(at.parse().unwrap());
        assert_eq!(phase("2026-11-11T00:30:00Z"), Phase::Paused);
        assert_eq!(phase("2026-11-11T02:00:00Z"), Phase::Ended);
    }

    #[test]
    fn repeating_a_change_has_no_effect() {
        for state in [SaleState::Draft, SaleState::Ready, SaleState::Paused, SaleState::Closed] {
            for change in [SaleChange::Preheat, SaleChange::Pause, SaleChange::Resume, SaleChange::Close] {
                if let Some(after) = state.after(change) {
                    assert_eq!(after.after(change), Some(after), "{state:?} {change:?}");
                }
            }
        }
    }

    #[test]
    fn every_invalid_field_is_named() {
        let good = sale(SaleState::Draft);
        assert_eq!(check(&good, &[item("a"), item("b")]), []);
        let bad = Sale { name: String::new(), ends_at: good.starts_at, payment_window_s: 0, ..good };
        let bad_item = Item { price: 0, stock: 0, limit_per_buyer: 101, points_price: Some(-1), ..item("a") };
        let fields: Vec<_> = check(&bad, &[bad_item, item("a")]).into_iter().map(|error| error.field).collect();
        for field in [
            "name",
            "endsAt",
            "paymentWindowSeconds",
            "items[0].price",
            "items[0].stock",
            "items[0].limitPerBuyer",
            "items[0].pointsPrice",
            "items[0].itemId",
            "items[1].itemId",
        ] {
            assert!(fields.iter().any(|f| f == field), "{field} in {fields:?}");
        }
    }

    #[test]
    fn only_names_may_change_after_preheating() {
        let before = [("a".parse().unwrap(), item("a"))].into();
        assert!(same_goods(&before, &[Item { name: "New name".into(), ..item("a") }]));
        assert!(!same_goods(&before, &[Item { price: 1, ..item("a") }]));
        assert!(!same_goods(&before, &[item("a"), item("b")]));
        assert!(!same_goods(&before, &[item("b")]));
    }
}
