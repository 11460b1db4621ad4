//! The audit of a sale as a table: the units of each item, and whether they add up.

use std::fmt::Write;

use serde_json::Value;

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
    fn drift_findings_and_an_empty_audit_are_not_clean() {
        assert!(!table(&audit(-1, &[])).is_clean);
        let found = table(&audit(0, &["bucket 3 is not there"]));
        assert!(!found.is_clean && found.text.contains("found: bucket 3 is not there"), "{}", found.text);
        assert!(!table(&json!({"items": []})).is_clean);
    }
}
