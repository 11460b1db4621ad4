//! A sale from its first press to its end, as buyers and the operator see it.

use crate::shop::{Shop, press, status, until};
use serde_json::json;

#[tokio::test]
async fn an_order_that_times_out_returns_its_unit_and_the_buyer_can_buy_again() {
    let shop = Shop::open().await;
    let sale = shop.sale(10, 1, 3).await;
    let alice = shop.buyer("alice").await;

    let accepted = press(&alice, &sale).await;
    assert_eq!((accepted.status, &accepted.body["status"]), (202, &json!("QUEUED")), "{accepted:?}");
    let order = accepted.body["orderId"].as_str().unwrap().to_owned();
    let pending = status(&alice, &order, "PENDING_PAYMENT", 10).await;
    assert_eq!(pending["amount"], 69_900);
    assert_eq!(pending["currency"], "CNY");
    assert_eq!(pending["itemName"], "Phone");

    let again = press(&alice, &sale).await;
    assert_eq!((again.status, again.code()), (409, "DUPLICATE_ORDER"));
    assert_eq!(again.body["orderId"], order.as_str());

    let other = shop.buyer("mallory").await.get(&format!("/orders/{order}")).await;
    assert_eq!((other.status, other.code()), (404, "UNKNOWN_ORDER"), "another buyer's order must not be visible");

    let closed = status(&alice, &order, "CLOSED", 15).await;
    assert_eq!(closed["reason"], "TIMED_OUT");
    let audit = shop.audit(&sale).await;
    assert_eq!((&audit["free"], &audit["held"], &audit["drift"]), (&json!(10), &json!(0), &json!(0)));

    let second = press(&alice, &sale).await;
    assert_eq!(second.status, 202, "{second:?}");
    let second = second.body["orderId"].as_str().unwrap().to_owned();
    assert_ne!(second, order);
    status(&alice, &second, "PENDING_PAYMENT", 10).await;
    let orders = alice.get("/orders").await;
    let listed: Vec<_> =
        orders.body["orders"].as_array().unwrap().iter().map(|order| order["orderId"].clone()).collect();
    assert_eq!(listed, [json!(second), json!(order)], "the newest is first");

    // The ledger is written from the stock's stream.
    let ledger = &shop.cloud.stack().tables.iter().find(|table| table.logical_id == "LedgerTable").unwrap().name;
    let client = aws_sdk_dynamodb::Client::new(&local_cloud::wire::Wire::new(shop.cloud.cloud().clone()).sdk_config());
    until(10, "the ledger has three entries", async || {
        let rows = client.scan().table_name(ledger).send().await.unwrap().items.unwrap();
        (rows.len() == 3).then_some(())
    })
    .await;
    shop.close().await;
}

#[tokio::test]
async fn a_sold_out_item_can_be_bought_within_two_seconds_after_a_cancel_or_a_restock() {
    let shop = Shop::open().await;
    let sale = shop.sale(1, 1, 900).await;
    let (alice, bob) = (shop.buyer("alice").await, shop.buyer("bob").await);
    let order = press(&alice, &sale).await.body["orderId"].as_str().unwrap().to_owned();
    status(&alice, &order, "PENDING_PAYMENT", 10).await;
    until(5, "bob sees that it is sold out", async || (press(&bob, &sale).await.code() == "SOLD_OUT").then_some(()))
        .await;
    let seen = shop.api.send("GET", &format!("/sales/{sale}"), &[], "").await;
    assert_eq!(seen.status, 200, "a sale is public");

    let cancelled = alice.post(&format!("/orders/{order}/cancel"), &json!({})).await;
    assert_eq!((cancelled.status, &cancelled.body["reason"]), (200, &json!("CANCELLED")), "{cancelled:?}");
    until(2, "bob buys after the cancel", async || (press(&bob, &sale).await.status == 202).then_some(())).await;

    until(5, "carol sees that it is sold out", async || {
        let carol = shop.buyer("carol").await;
        (press(&carol, &sale).await.code() == "SOLD_OUT").then_some(())
    })
    .await;
    let restocked =
        shop.operator.post(&format!("/admin/sales/{sale}/items/phone/restock"), &json!({ "quantity": 5 })).await;
    assert_eq!(restocked.status, 200, "{restocked:?}");
    let carol = shop.buyer("carol").await;
    until(2, "carol buys after the restock", async || (press(&carol, &sale).await.status == 202).then_some(())).await;

    let twice = alice.post(&format!("/orders/{order}/cancel"), &json!({})).await;
    assert_eq!(twice.status, 200, "a repeated cancel succeeds");
    shop.close().await;
}

#[tokio::test]
async fn a_sale_can_be_paused_resumed_and_closed() {
    let shop = Shop::open().await;
    let sale = shop.sale(10, 1, 900).await;
    let alice = shop.buyer("alice").await;
    let change = async |change: &str| shop.operator.post(&format!("/admin/sales/{sale}/{change}"), &json!({})).await;
    assert_eq!(change("pause").await.body["status"], "PAUSED");
    until(2, "the pause is seen", async || (press(&alice, &sale).await.code() == "PAUSED").then_some(())).await;
    assert_eq!(change("resume").await.body["status"], "OPEN");
    until(2, "the resume is seen", async || (press(&alice, &sale).await.status == 202).then_some(())).await;
    assert_eq!(change("close").await.body["status"], "CLOSED");
    let bob = shop.buyer("bob").await;
    until(2, "the close is seen", async || (press(&bob, &sale).await.code() == "ENDED").then_some(())).await;
    assert_eq!(change("resume").await.code(), "WRONG_STATE");
    shop.close().await;
}

#[tokio::test]
async fn a_repeated_idempotency_key_gets_the_same_answer() {
    let shop = Shop::open().await;
    let sale = shop.sale(10, 2, 900).await;
    let alice = shop.buyer("alice").await;
    let body = |quantity: u32| json!({ "saleId": sale, "itemId": "phone", "quantity": quantity }).to_string();
    let key = [("idempotency-key", "0b7f1c1e")];
    let first = alice.with("POST", "/seckill", &key, body(1)).await;
    let again = alice.with("POST", "/seckill", &key, body(1)).await;
    assert_eq!((first.status, again.status), (202, 202));
    assert_eq!(first.body, again.body);
    let other = alice.with("POST", "/seckill", &key, body(2)).await;
    assert_eq!((other.status, other.code()), (422, "IDEMPOTENCY_MISMATCH"));
    shop.close().await;
}

#[tokio::test]
async fn a_poison_message_becomes_a_dead_letter_with_a_reason_and_does_not_block_others() {
    let shop = Shop::open().await;
    let sale = shop.sale(10, 1, 900).await;
    let alice = shop.buyer("alice").await;
    let queue = |id: &str| shop.cloud.stack().queues.iter().find(|queue| queue.logical_id == id).unwrap().name.clone();
    let sqs = &shop.cloud.cloud().sqs;
    for poison in ["not json", r#"{"version":99}"#] {
        sqs.send(&queue("OrdersQueue"), local_cloud::engine::sqs::Outgoing::text(poison)).await.unwrap();
    }
    let order = press(&alice, &sale).await.body["orderId"].as_str().unwrap().to_owned();
    status(&alice, &order, "PENDING_PAYMENT", 10).await;
    until(10, "both are dead letters", async || {
        (sqs.counts(&queue("OrdersDeadLetters")).await.unwrap().visible == 2).then_some(())
    })
    .await;
    let dead = sqs.receive(&queue("OrdersDeadLetters"), Default::default()).await.unwrap();
    assert!(dead.iter().all(|message| message.attributes.contains_key("reason")), "{dead:?}");
    shop.close().await;
}

#[tokio::test]
async fn the_ops_tool_lists_and_resends_dead_letters() {
    let shop = Shop::open().await;
    let queue = |id: &str| shop.cloud.stack().queues.iter().find(|queue| queue.logical_id == id).unwrap().name.clone();
    let sqs = &shop.cloud.cloud().sqs;
    let from_the_future = r#"{"version":99,"orderId":"0"}"#;
    sqs.send(&queue("OrdersQueue"), local_cloud::engine::sqs::Outgoing::text(from_the_future)).await.unwrap();
    let target = ops::target::Target::local(&shop.api.base_url).await.unwrap();
    let kind = ops::dead_letters::LetterKind::Order;
    let listed =
        until(10, "the letter is listed", async || ops::dead_letters::list(&target, kind).await.unwrap().pop()).await;
    assert_eq!((listed.order.as_deref(), listed.body.as_str()), (Some("0"), from_the_future));
    assert!(listed.reason.contains("99"), "{}", listed.reason);

    // Listing does not remove it. Resending brings it to order-consumer, which cannot read it this time either.
    let mut reasons = Vec::new();
    let sent = ops::dead_letters::redrive(&target, kind, |letter| reasons.push(letter.reason.clone())).await.unwrap();
    assert_eq!((sent, reasons), (1, vec![listed.reason]));
    until(10, "it is a dead letter again", async || ops::dead_letters::list(&target, kind).await.unwrap().pop()).await;

    let nowhere = ops::target::Target::local("http://127.0.0.1:1").await.unwrap_err();
    assert!(nowhere.to_string().contains("make run"), "{nowhere}");
    shop.close().await;
}
