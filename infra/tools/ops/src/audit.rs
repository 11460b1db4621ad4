//! The audit of a sale as a table: the units of each item, and whether they add up.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::Value;

use crate::api::{Api, ApiError};

/// The audit of a sale with all its orders counted, in as many requests as that takes. `progress` hears how many
/// orders are counted so far, after each request but the last.
pub async fn whole(api: &Api, sale: &str, mut progress: impl FnMut(u64)) -> Result<Value, ApiError> {
    let path = format!("/admin/sales/{sale}/audit");
    let mut audit = api.get(&path).await?;
    while let Some(cursor) = audit.get("cursor").and_then(Value::as_str).map(str::to_owned) {
        progress(counts(&audit).values().sum());
        let next = api.get(&format!("{path}?cursor={cursor}")).await?;
        audit = added(&audit, next);
    }
    Ok(audit)
}

/// How many orders of each item are in each status.
fn counts(audit: &Value) -> BTreeMap<(String, String), u64> {
    let items = audit.get("items").and_then(Value::as_array).into_iter().flatten();
    let of_item = |item: &Value| -> Vec<((String, String), u64)> {
        let name = item.get("itemId").and_then(Value::as_str).unwrap_or_default().to_owned();
        let orders = item.get("orders").and_then(Value::as_object).into_iter().flatten();
        orders.map(|(status, count)| ((name.clone(), status.clone()), count.as_u64().unwrap_or(0))).collect()
    };
    items.flat_map(of_item).collect()
}

/// The later answer, with the orders of the former added.
fn added(former: &Value, mut later: Value) -> Value {
    let counted = counts(former);
    for item in later.get_mut("items").and_then(Value::as_array_mut).into_iter().flatten() {
        let name = item.get("itemId").and_then(Value::as_str).unwrap_or_default().to_owned();
        for (status, count) in item.get_mut("orders").and_then(Value::as_object_mut).into_iter().flatten() {
            let before = counted.get(&(name.clone(), status.clone())).copied().unwrap_or(0);
            *count = (count.as_u64().unwrap_or(0) + before).into();
        }
    }
    later
}

#[derive(Debug, PartialEq, Eq)]
pub struct AuditTable {
    pub text: String,
    /// Whether everything adds up and the audit has no findings.
    pub is_clean: bool,
}

/// Formats an answer of `GET /admin/sales/{saleId}/audit`.
pub fn table(audit: &Value) -> AuditTable {
    const FIGURES: [&str; 5] = ["total", "free", "held", "sold", "drift"];
    let mut text = format!("{:<20}", "item");
    for figure in FIGURES {
        let _ = write!(text, "{figure:>9}");
    }
    let mut is_clean = true;
    let items = audit.get("items").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    for item in items {
        let name = item.get("itemId").and_then(Value::as_str).unwrap_or("?");
        let _ = write!(text, "\n{name:<20}");
        for figure in FIGURES {
            let _ = write!(text, "{:>9}", item.get(figure).map(Value::to_string).unwrap_or_default());
        }
        let orders = item.get("orders").and_then(Value::as_object).into_iter().flatten();
        let orders: Vec<String> = orders
            .filter(|(_, count)| count.as_u64() != Some(0))
            .map(|(status, count)| format!("{status} {count}"))
            .collect();
        if !orders.is_empty() {
            let _ = write!(text, "\n  orders: {}", orders.join(", "));
        }
        for finding in item.get("findings").and_then(Value::as_array).into_iter().flatten() {
            is_clean = false;
            let _ = write!(text, "\n  found: {}", finding.as_str().map_or_else(|| finding.to_string(), str::to_owned));
        }
        is_clean &= item.get("drift").and_then(Value::as_i64) == Some(0);
    }
    // An audit without items proves nothing.
    is_clean &= !items.is_empty();
    AuditTable { text, is_clean }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn audit(drift: i64, findings: &[&str]) -> Value {
        json!({"items": [{"itemId": "phone", "total": 10, "free": 7, "held": 1, "sold": 2, "drift": drift,
            "orders": {"PAID": 2, "PENDING_PAYMENT": 1, "CLOSED": 0}, "findings": findings}]})
    }

    #[test]
    fn a_clean_audit_shows_its_figures() {
        let shown = table(&audit(0, &[]));
        assert!(shown.is_clean);
        assert!(shown.text.contains("phone"), "{}", shown.text);
        assert!(shown.text.contains("orders: PAID 2, PENDING_PAYMENT 1"), "{}", shown.text);
    }

    #[test]
    fn the_orders_of_several_answers_are_added() {
        let sum = added(&audit(0, &[]), audit(1, &[]));
        let orders = &sum["items"][0]["orders"];
        assert_eq!(orders, &json!({"PAID": 4, "PENDING_PAYMENT": 2, "CLOSED": 0}));
        assert_eq!(sum["items"][0]["drift"], 1, "the units are those of the later answer");
    }

    #[test]
    fn drift_findings_and_an_empty_audit_are_not_clean() {
        assert!(!table(&audit(-1, &[])).is_clean);
        let found = table(&audit(0, &["bucket 3 is not there"]));
        assert!(!found.is_clean && found.text.contains("found: bucket 3 is not there"), "{}", found.text);
        assert!(!table(&json!({"items": []})).is_clean);
    }
}
