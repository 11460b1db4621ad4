//! The functions' logs: one trace from the press to the timeout, and no secrets or names.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::push::{open, ticket};
use crate::shop::{Shop, press, status, until};

const BUYER: &str = "an-unmistakable-buyer";

/// The log lines of every function, by its binary.
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

/// The trace id in the lines about an order.
fn trace(lines: &[String], order: &str) -> Option<String> {
    let parsed = lines.iter().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut about = parsed.filter(|line| line["order_id"] == order);
    about.find_map(|line| line["trace"].as_str().map(str::to_owned))
}

/// The lines of all keys in the payment secret.
async fn keys(shop: &Shop) -> Vec<String> {
    let notify = shop.cloud.stack().functions.iter().find(|function| function.binary == "payment-notify").unwrap();
    let secret = shop.cloud.cloud().secrets.get(&notify.environment["PAYMENT_SECRET_ARN"]).await.unwrap().unwrap();
    let settings: Value = serde_json::from_str(&secret.value).unwrap();
    let keys = [
        "/alipay/privateKey",
        "/wechat/privateKey",
        "/wechat/apiV3Key",
        "/wechat-v2/key",
        "/stripe/secretKey",
        "/stripe/webhookSecrets/0",
    ];
    let keys = keys.map(|path| settings.pointer(path).and_then(Value::as_str).unwrap_or_else(|| panic!("no {path}")));
    let lines = keys.iter().flat_map(|key| key.lines()).filter(|line| !line.starts_with("-----"));
    // The last line of a key may be so short that it occurs elsewhere by chance.
    lines.filter(|line| line.len() >= 16).map(str::to_owned).collect()
}

/// No log line contains the buyer's name, a token, a key, or any of `others`.
async fn assert_logs_no_secret(shop: &Shop, others: &[&str]) {
    let keys = keys(shop).await;
    assert!(keys.len() >= 6, "{}", keys.len());
    for (function, lines) in lines(shop) {
        for line in &lines {
            assert!(!line.contains(BUYER), "{function} logs a buyer's name: {line}");
            assert!(!line.contains("eyJ"), "{function} logs a token: {line}");
            assert!(!keys.iter().any(|key| line.contains(key)), "{function} logs a key: {line}");
            assert!(!others.iter().any(|other| line.contains(other)), "{function} logs one of {others:?}: {line}");
        }
    }
}

#[tokio::test]
async fn one_trace_connects_the_press_to_the_timeout_and_no_line_names_the_buyer() {
    let shop = Shop::open().await;
    let sale = shop.sale(10, 1, 2).await;
    let buyer = shop.buyer(BUYER).await;
    let order = press(&buyer, &sale).await.body["orderId"].as_str().unwrap().to_owned();
    status(&buyer, &order, "CLOSED", 20).await;

    let began = until(10, "the press is in the log", async || trace(&lines(&shop)["seckill"], &order)).await;
    for function in ["order-consumer", "timeout-check"] {
        let there = until(10, function, async || trace(&lines(&shop)[function], &order)).await;
        assert_eq!(there, began, "{function}");
    }

    let all: Vec<String> = lines(&shop).into_values().flatten().collect();
    assert!(all.len() >= 3, "{all:?}");
    let timed_out = all.iter().filter(|line| line.contains("an order timed out")).count();
    assert_eq!(timed_out, 1, "the timeout must be logged once");
    assert_logs_no_secret(&shop, &[]).await;
    shop.close().await;
}

#[tokio::test]
async fn no_log_line_about_payments_contains_a_secret() {
    let shop = Shop::open().await;
    let sale = shop.sale(10, 1, 900).await;
    let buyer = shop.buyer(BUYER).await;
    let gift = json!({ "buyer": BUYER, "points": 10 }).to_string();
    let given = shop.operator.with("POST", "/admin/points", &[("idempotency-key", "gift-1")], gift).await;
    assert_eq!(given.status, 200, "{given:?}");
    let ticket = ticket(&buyer).await;
    let _socket = open(&shop, &ticket).await.unwrap();
    assert!(open(&shop, &ticket).await.is_err(), "a ticket can be used only once");

    let order = press(&buyer, &sale).await.body["orderId"].as_str().unwrap().to_owned();
    status(&buyer, &order, "PENDING_PAYMENT", 10).await;
    let started = buyer.post(&format!("/orders/{order}/payments"), &json!({ "method": "wechat" })).await;
    assert_eq!(started.status, 201, "{started:?}");
    let (signature, forged) = ("t=1794355500,v1=00", "an-unmistakable-forgery");
    let body = json!({ "id": forged }).to_string();
    shop.api.send("POST", "/payments/stripe/notify", &[("stripe-signature", signature)], body).await;
    let payment = started.body["paymentId"].as_str().unwrap();
    shop.api.send("POST", &format!("/_sandbox/payments/{payment}"), &[], r#"{"action": "pay"}"#).await;
    status(&buyer, &order, "PAID", 10).await;
    let refund = buyer.post(&format!("/orders/{order}/refund"), &json!({})).await;
    assert!(matches!(refund.status, 200 | 202), "{refund:?}");

    for (function, said) in [
        ("admin", "a buyer was given points"),
        ("shop", "a payment was started"),
        ("payment-notify", "a notice was refused"),
        ("payment-notify", "an order was paid"),
    ] {
        let is_said = async || lines(&shop)[function].iter().any(|line| line.contains(said)).then_some(());
        until(10, &format!("{function}: {said}"), is_said).await;
    }
    assert_logs_no_secret(&shop, &[ticket.as_str(), forged]).await;
    shop.close().await;
}
