//! The routes of the operator's console: all sales, live figures, and dead letters.

use serde_json::{Value, json};

use crate::shop::{Shop, press, sale, status, until};

#[tokio::test]
async fn an_operator_sees_every_sale_with_live_figures() {
    let shop = Shop::open().await;
    let draft = shop.operator.post("/admin/sales", &sale(5, 1, 900)).await.body["saleId"].clone();
    let open = shop.sale(5, 1, 900).await;
    let listed = shop.operator.get("/admin/sales").await;
    let ids: Vec<&Value> = listed.body["sales"].as_array().unwrap().iter().map(|sale| &sale["saleId"]).collect();
    assert_eq!(ids, [&json!(open), &draft], "the newest is first, and drafts are listed too");
    assert_eq!(shop.buyer("mallory").await.get("/admin/sales").await.status, 403);

    let live = format!("/admin/sales/{open}/live");
    let before = shop.operator.get(&live).await.body;
    let figures = |live: &Value| ["total", "free", "held", "sold"].map(|name| live["items"][0][name].as_u64().unwrap());
    assert_eq!(figures(&before), [5, 5, 0, 0]);
    let alice = shop.buyer("alice").await;
    let order = press(&alice, &open).await.body["orderId"].as_str().unwrap().to_owned();
    status(&alice, &order, "PENDING_PAYMENT", 10).await;
    press(&alice, &open).await;
    until(10, "the figures are updated", async || {
        (figures(&shop.operator.get(&live).await.body) == [5, 4, 1, 0]).then_some(())
    })
    .await;
    // CloudWatch reports what the functions logged: two presses, one accepted and one refused.
    let sum = |live: &Value, name: &str| -> f64 {
        let points = live["traffic"]["points"].as_array().unwrap().iter();
        points.map(|point| point[name].as_f64().unwrap() * 10.0).sum()
    };
    let measured = until(40, "the presses are measured", async || {
        let live = shop.operator.get(&live).await.body;
        (sum(&live, "requests") >= 2.0).then_some(live)
    })
    .await;
    let sums = ["requests", "accepted", "refused"].map(|name| sum(&measured, name).round());
    assert_eq!(sums, [2.0, 1.0, 1.0]);
    shop.close().await;
}

#[tokio::test]
async fn a_message_that_could_not_be_handled_is_shown_and_can_be_resent() {
    let shop = Shop::open().await;
    let queues = &shop.cloud.stack().queues;
    let queue = &queues.iter().find(|queue| queue.logical_id == "OrdersQueue").unwrap().name;
    let message = local_cloud::engine::sqs::Outgoing::text("not an order");
    shop.cloud.cloud().sqs.send(queue, message).await.unwrap();
    let letters = async || {
        let all = shop.operator.get("/admin/dead-letters").await.body;
        let orders = all["queues"].as_array().unwrap().iter().find(|queue| queue["kind"] == "orders").unwrap();
        orders["letters"].as_array().unwrap().clone()
    };
    let seen = until(20, "the letter is shown", async || letters().await.pop()).await;
    assert_eq!(seen["body"], "not an order");
    assert!(seen["reason"].as_str().unwrap().contains("not an order message"), "{seen}");
    let sent = shop.operator.post("/admin/dead-letters/orders/redrive", &json!({})).await;
    assert_eq!((sent.status, &sent.body), (200, &json!({"kind": "orders", "handled": 1})));
    until(20, "it is a dead letter again", async || letters().await.pop()).await;
    assert_eq!(shop.operator.post("/admin/dead-letters/other/redrive", &json!({})).await.status, 404);
    shop.close().await;
}

/// Resending removes the letters that need no further work. A lost batch of the stock's stream is kept for a person,
/// because the ledger lacks it.
#[tokio::test]
async fn every_kind_of_dead_letter_is_shown() {
    let shop = Shop::open().await;
    let kinds = [
        ("TimeoutDeadLetters", "deadlines", 1),
        ("StockStreamDeadLetters", "stock", 0),
        ("PushDeadLetters", "push", 1),
        ("ReconcileDeadLetters", "reconcile", 1),
    ];
    for (id, kind, handled) in kinds {
        let queues = &shop.cloud.stack().queues;
        let queue = &queues.iter().find(|queue| queue.logical_id == id).unwrap().name;
        let message = local_cloud::engine::sqs::Outgoing::text(format!("about {kind}"));
        shop.cloud.cloud().sqs.send(queue, message).await.unwrap();
        let letters = async || {
            let all = shop.operator.get("/admin/dead-letters").await.body;
            let these = all["queues"].as_array().unwrap().iter().find(|queue| queue["kind"] == kind).unwrap();
            these["letters"].as_array().unwrap().clone()
        };
        let seen = until(20, "the letter is shown", async || letters().await.pop()).await;
        assert_eq!(seen["body"], format!("about {kind}"));
        let sent = shop.operator.post(&format!("/admin/dead-letters/{kind}/redrive"), &json!({})).await;
        assert_eq!((sent.status, &sent.body), (200, &json!({"kind": kind, "handled": handled})));
        assert_eq!(letters().await.len(), 1 - usize::try_from(handled).unwrap(), "{kind}");
    }
    shop.close().await;
}
