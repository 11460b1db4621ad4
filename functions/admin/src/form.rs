//! What an operator fills in. Only its shape is checked here; the domain decides whether it is a valid sale.

use domain::Timestamp;
use domain::bucket::Layout;
use domain::ids::{IdempotencyKey, ItemId, SaleId};
use domain::money::Currency;
use domain::sale::{DEFAULT_PAYMENT_WINDOW_S, Item};
use edge::{Code, Object, Problem};
use flows::sale::set_up::SaleForm;
use serde::Deserialize;

/// A sale, as an operator sends it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct SaleBody {
    name: String,
    starts_at: Timestamp,
    ends_at: Timestamp,
    payment_window_seconds: Option<u32>,
    buyer_cooldown_ms: Option<u32>,
    item_rate_per_second: Option<u32>,
    items: Vec<Object<ItemBody>>,
    /// In an edit: the version that the operator has read.
    version: Option<u64>,
}

impl SaleBody {
    pub(crate) fn version(&self) -> Option<u64> {
        self.version
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ItemBody {
    item_id: ItemId,
    name: String,
    price: i64,
    original_price: Option<i64>,
    currency: Currency,
    stock: u32,
    limit_per_buyer: Option<u32>,
    points_price: Option<i64>,
}

impl From<SaleBody> for SaleForm {
    fn from(body: SaleBody) -> Self {
        Self {
            name: body.name,
            starts_at: body.starts_at,
            ends_at: body.ends_at,
            payment_window_s: body.payment_window_seconds.unwrap_or(DEFAULT_PAYMENT_WINDOW_S),
            buyer_cooldown_ms: body.buyer_cooldown_ms.unwrap_or(0),
            item_rate_per_second: body.item_rate_per_second,
            items: body.items.into_iter().map(|Object(item)| item.into()).collect(),
        }
    }
}

impl From<ItemBody> for Item {
    fn from(body: ItemBody) -> Self {
        Self {
            id: body.item_id,
            name: body.name,
            price: body.price,
            original_price: body.original_price.unwrap_or(body.price),
            currency: body.currency,
            stock: body.stock,
            limit_per_buyer: body.limit_per_buyer.unwrap_or(1),
            points_price: body.points_price,
            layout: Layout::default(),
            laid_out: 0,
        }
    }
}

/// An id for a new sale: `s`, the time and random bits. Ids sort by time, and the operator need not invent one.
pub(crate) fn new_sale_id(now: Timestamp, random: u32) -> Result<SaleId, Problem> {
    let ms = u64::try_from(now.as_millisecond()).unwrap_or(0);
    let id = format!("s{}{}", base32(ms, 9), base32(u64::from(random), 7));
    SaleId::parse(id).map_err(|error| Problem::new(Code::Unavailable, format!("no id could be made: {error}")))
}

/// A unique key for a restock without one.
pub(crate) fn new_restock_key(now: Timestamp, random: u32) -> Result<IdempotencyKey, Problem> {
    let ms = u64::try_from(now.as_millisecond()).unwrap_or(0);
    IdempotencyKey::parse(format!("restock-{}-{}", base32(ms, 9), base32(u64::from(random), 7)))
        .map_err(|error| Problem::new(Code::Unavailable, format!("no key could be made: {error}")))
}

/// The lowest `length` digits in base 32, without letters that look like digits.
fn base32(number: u64, length: u32) -> String {
    const DIGITS: &str = "0123456789abcdefghjkmnpqrstvwxyz";
    let digit = |place: u32| DIGITS.chars().nth(usize::try_from((number >> (5 * place)) & 31).ok()?);
    (0..length).rev().filter_map(digit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use edge::{Body, body};
    use serde_json::{Value, json};

    fn sale() -> Value {
        json!({
            "name": "11.11", "startsAt": "2026-11-11T00:00:00Z", "endsAt": "2026-11-11T09:00:00+08:00",
            "items": [{"itemId": "phone", "name": "Phone", "price": 69_900, "currency": "CNY", "stock": 100}],
        })
    }

    fn parsed(value: &Value) -> Result<SaleForm, Problem> {
        let request = lambda_http::http::Request::post("/admin/sales").body(Body::from(value.to_string())).unwrap();
        body::parse::<SaleBody>(&request, body::LARGE).map(SaleForm::from)
    }

    #[test]
    fn missing_fields_have_defaults() {
        let form = parsed(&sale()).unwrap();
        assert_eq!(form.ends_at.to_string(), "2026-11-11T01:00:00Z");
        assert_eq!((form.payment_window_s, form.buyer_cooldown_ms, form.item_rate_per_second), (900, 0, None));
        let item = &form.items[0];
        assert_eq!((item.original_price, item.limit_per_buyer, item.points_price), (69_900, 1, None));
    }

    #[test]
    fn given_fields_are_used() {
        let mut body = sale();
        body["paymentWindowSeconds"] = 60.into();
        body["buyerCooldownMs"] = 500.into();
        body["itemRatePerSecond"] = 100.into();
        body["items"][0]["originalPrice"] = 99_900.into();
        body["items"][0]["limitPerBuyer"] = 2.into();
        body["items"][0]["pointsPrice"] = 5.into();
        let form = parsed(&body).unwrap();
        assert_eq!((form.payment_window_s, form.buyer_cooldown_ms, form.item_rate_per_second), (60, 500, Some(100)));
        let item = &form.items[0];
        assert_eq!((item.original_price, item.limit_per_buyer, item.points_price), (99_900, 2, Some(5)));
    }

    #[test]
    fn each_mistake_is_named() {
        let with = |pointer: &str, value: Value| {
            let mut body = sale();
            let (parent, name) = pointer.rsplit_once('/').unwrap();
            body.pointer_mut(parent).unwrap().as_object_mut().unwrap().insert(name.to_owned(), value);
            body
        };
        for (body, field) in [
            (with("/startsAt", json!("tomorrow")), "startsAt"),
            (with("/startsAt", json!("2026-11-11T00:00:00")), "startsAt"),
            (with("/startsAt", json!(1_700_000_000)), "startsAt"),
            (with("/saleId", json!("mine")), "saleId"),
            (with("/paymentWindowSeconds", json!(-1)), "paymentWindowSeconds"),
            (with("/items", json!({})), "items"),
            (with("/items/0/price", json!(699.5)), "items[0].price"),
            (with("/items/0/price", json!("69900")), "items[0].price"),
            (with("/items/0/stock", json!(-1)), "items[0].stock"),
            (with("/items/0/currency", json!("yuan")), "items[0].currency"),
            (with("/items/0/itemId", json!("a#b")), "items[0].itemId"),
            (with("/items/0/sold", json!(1)), "items[0].sold"),
        ] {
            let problem = parsed(&body).unwrap_err();
            assert_eq!((problem.code, problem.errors[0].field.as_str()), (Code::Invalid, field), "{}", problem.detail);
        }
    }

    #[test]
    fn sale_ids_differ_and_sort_by_time() {
        let at = |ms| Timestamp::from_millisecond(ms).unwrap();
        let id = |ms, random| new_sale_id(at(ms), random).unwrap();
        assert_eq!(id(32 * 32 + 33, 1).as_str(), "s0000001110000001");
        assert!(id(1_762_819_200_000, u32::MAX) < id(1_762_819_200_001, 0));
        assert_ne!(id(1, 1), id(1, u32::MAX));
        assert_eq!(id(1, u32::MAX).as_str(), "s0000000013zzzzzz");
        let key = |ms, random| new_restock_key(at(ms), random).unwrap();
        assert_eq!(key(32 * 32 + 33, 1).as_str(), "restock-000000111-0000001");
        assert!(key(1, 1) != key(1, 2) && key(1, 1) != key(2, 1));
    }
}
