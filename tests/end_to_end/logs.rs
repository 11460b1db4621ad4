//! What the functions write: one trace from the press to the timeout, and nothing that is nobody's business.

use std::collections::BTreeMap;

use crate::shop::{Shop, press, status, until};
use serde_json::Value;

/// Every line of every function, by its binary.
fn lines(shop: &Shop) -> BTreeMap<String, Vec<String>> {
    let read = |name: &str| std::fs::read_to_string(shop.cloud.logs_dir().join(format!("{name}.log")));
    let functions = shop.cloud.stack().functions.iter();
    functions
        .map(|function| {
            let text = read(&function.name).unwrap_or_default();
            (function.binary.clone(), text.lines().map(str::to_owned).collect())
        })
        .collect()
}

/// The trace of a function's lines about an order.
fn trace(lines: &[String], order: &str) -> Option<String> {
    let parsed = lines.iter().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut about = parsed.filter(|line| line["order_id"] == order);
    about.find_map(|line| line["trace"].as_str().map(str::to_owned))
}

#[tokio::test]
async fn one_trace_leads_from_the_press_to_the_timeout_and_no_line_names_the_buyer() {
    let shop = Shop::open().await;
    let sale = shop.sale(10, 1, 2).await;
    let buyer = shop.buyer("an-unmistakable-buyer").await;
    let order = press(&buyer, &sale).await.body["orderId"].as_str().unwrap().to_owned();
    status(&buyer, &order, "CLOSED", 20).await;

    let began = until(10, "the press is in the log", async || trace(&lines(&shop)["seckill"], &order)).await;
    for function in ["order-consumer", "timeout-check"] {
        let there = until(10, function, async || trace(&lines(&shop)[function], &order)).await;
        assert_eq!(there, began, "{function}");
    }

    let all: Vec<String> = lines(&shop).into_values().flatten().collect();
    assert!(all.len() >= 3, "{all:?}");
    for line in &all {
        assert!(!line.contains("an-unmistakable-buyer"), "a buyer's name: {line}");
        assert!(!line.contains("eyJ"), "a token: {line}");
    }
    let timed_out = all.iter().filter(|line| line.contains("an order timed out")).count();
    assert_eq!(timed_out, 1, "what happened is said once");
    shop.close().await;
}
