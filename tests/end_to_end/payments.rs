//! Paying and refunding through the deployed binaries, with sandbox providers that sign as the real ones do.

use serde_json::{Value, json};
use testkit::http::{Answer, User};

use crate::shop::{Shop, press, sale, status, until};

const PROVIDERS: [&str; 4] = ["alipay", "wechat", "wechat-v2", "stripe"];

/// A new order that waits for its payment.
async fn waiting(buyer: &User, sale: &str) -> String {
    let accepted = press(buyer, sale).await;
    assert_eq!(accepted.status, 202, "{accepted:?}");
    let order = accepted.body["orderId"].as_str().unwrap().to_owned();
    status(buyer, &order, "PENDING_PAYMENT", 10).await;
    order
}

async fn ask(buyer: &User, order: &str, body: Value) -> Answer {
    buyer.post(&format!("/orders/{order}/payments"), &body).await
}

/// Starts a payment, which must be open then.
async fn start(buyer: &User, order: &str, body: Value) -> Value {
    let started = ask(buyer, order, body).await;
    assert_eq!((started.status, &started.body["status"]), (201, &json!("OPEN")), "{started:?}");
    started.body
}

/// The buyer follows the link. Alipay does not know the payment before that.
async fn open(shop: &Shop, payment: &Value) {
    let Some(link) = payment["payUrl"].as_str().or(payment["qrCode"].as_str()) else { panic!("{payment}") };
    let path = link.strip_prefix(&shop.api.base_url).unwrap_or_else(|| panic!("{link}"));
    let page = shop.api.send("GET", path, &[], "").await;
    assert!(matches!(page.status, 200 | 302 | 303), "{page:?}");
}

/// Lets something happen to a payment in the sandbox.
async fn act(shop: &Shop, payment: &Value, action: &str) -> Value {
    let path = format!("/_sandbox/payments/{}", payment["paymentId"].as_str().unwrap());
    let acted = shop.api.send("POST", &path, &[], json!({ "action": action }).to_string()).await;
    assert_eq!(acted.status, 200, "{action}: {acted:?}");
    acted.body
}

/// A payment as its provider records it.
async fn at_provider(shop: &Shop, payment: &Value) -> Value {
    let path = format!("/_sandbox/payments/{}", payment["paymentId"].as_str().unwrap());
    shop.api.send("GET", &path, &[("accept", "application/json")], "").await.body
}

async fn pay(shop: &Shop, payment: &Value) {
    open(shop, payment).await;
    act(shop, payment, "pay").await;
}

/// Asks for a refund until it is done: WeChat Pay v2 accepts it and reports its end only when it is asked again.
async fn refund(buyer: &User, order: &str) {
    let refunded = until(20, "the money is refunded", async || {
        let asked = buyer.post(&format!("/orders/{order}/refund"), &json!({})).await;
        assert!(matches!(asked.status, 200 | 202), "{asked:?}");
        (asked.status == 200).then_some(asked.body)
    })
    .await;
    assert_eq!((&refunded["status"], refunded["refundedAt"].is_string()), (&json!("REFUNDED"), true), "{refunded}");
}

/// The money that the providers have kept for an order, as they record it.
async fn kept(shop: &Shop, order: &str) -> i64 {
    let money = shop.api.send("GET", "/_sandbox/money", &[], "").await.body;
    let entries = money["money"].as_array().unwrap().iter();
    let of_order = entries.filter(|entry| entry["number"].as_str().unwrap().starts_with(order));
    of_order.map(|entry| entry["amount"].as_i64().unwrap() * if entry["refund"].is_null() { 1 } else { -1 }).sum()
}

/// The ledger's entries about an order's money: (payments, finished refunds).
async fn log(shop: &Shop, order: &str) -> (usize, usize) {
    let ledger = &shop.cloud.stack().tables.iter().find(|table| table.logical_id == "LedgerTable").unwrap().name;
    let client = aws_sdk_dynamodb::Client::new(&local_cloud::wire::Wire::new(shop.cloud.cloud().clone()).sdk_config());
    let rows = client.scan().table_name(ledger).send().await.unwrap().items.unwrap();
    let of_order = rows.iter().filter(|row| row["order"].as_s().unwrap() == order);
    let entries: Vec<_> = of_order.map(|row| (row["entry"].as_s().unwrap(), row.contains_key("doneAt"))).collect();
    let paid = entries.iter().filter(|(entry, _)| entry.starts_with("PAY#")).count();
    (paid, entries.iter().filter(|(entry, done)| entry.starts_with("REFUND#") && *done).count())
}

async fn figures(shop: &Shop, sale: &str) -> (Value, Value, Value) {
    let audit = shop.audit(sale).await;
    assert_eq!((&audit["drift"], &audit["findings"]), (&json!(0), &json!([])), "{audit}");
    (audit["free"].clone(), audit["held"].clone(), audit["sold"].clone())
}

#[tokio::test]
async fn an_order_can_be_paid_refunded_and_bought_again_with_every_provider() {
    let shop = Shop::open().await;
    for provider in PROVIDERS {
        let sale = shop.sale(10, 1, 900).await;
        let alice = shop.buyer("alice").await;
        let order = waiting(&alice, &sale).await;
        let payment = start(&alice, &order, json!({ "method": provider })).await;
        assert_eq!((&payment["amount"], &payment["currency"]), (&json!(69_900), &json!("CNY")), "{provider}");
        assert_eq!(
            start(&alice, &order, json!({ "method": provider })).await,
            payment,
            "a repeated request returns the same payment"
        );
        let seen = alice.get(&format!("/orders/{order}")).await;
        assert_eq!(seen.body["payment"]["paymentId"], payment["paymentId"], "{seen:?}");

        pay(&shop, &payment).await;
        let paid = status(&alice, &order, "PAID", 10).await;
        assert!(paid["paidAt"].is_string() && paid["payment"].is_null(), "{paid}");
        assert_eq!(figures(&shop, &sale).await, (json!(9), json!(0), json!(1)), "{provider}");
        assert_eq!((kept(&shop, &order).await, log(&shop, &order).await), (69_900, (1, 0)), "{provider}");
        act(&shop, &payment, "notify-again").await;
        until(10, "the second notice is accepted", async || {
            let notices = at_provider(&shop, &payment).await["notices"].clone();
            notices.as_array().unwrap().iter().all(|notice| notice["acceptedAt"].is_string()).then_some(())
        })
        .await;
        assert_eq!(figures(&shop, &sale).await, (json!(9), json!(0), json!(1)), "a duplicate notice must not count");

        refund(&alice, &order).await;
        assert_eq!((kept(&shop, &order).await, log(&shop, &order).await), (0, (1, 1)), "{provider}");
        until(10, "the unit is back", async || {
            (figures(&shop, &sale).await == (json!(10), json!(0), json!(0))).then_some(())
        })
        .await;
        let again = waiting(&alice, &sale).await;
        assert_ne!(again, order, "{provider}: a refunded buyer may buy again");
    }
    shop.close().await;
}

#[tokio::test]
async fn changing_the_method_closes_the_first_payment_and_a_second_payment_is_refunded() {
    let shop = Shop::open().await;
    let sale = shop.sale(10, 1, 900).await;
    let alice = shop.buyer("alice").await;
    let order = waiting(&alice, &sale).await;
    let first = start(&alice, &order, json!({ "method": "wechat" })).await;
    let second = start(&alice, &order, json!({ "method": "stripe" })).await;
    assert_ne!(first["paymentId"], second["paymentId"]);
    assert_eq!(at_provider(&shop, &first).await["state"], "CLOSED");

    pay(&shop, &second).await;
    status(&alice, &order, "PAID", 10).await;
    // The first one was paid all the same, just before it was closed.
    act(&shop, &first, "pay-late").await;
    until(10, "the second payment is refunded", async || (kept(&shop, &order).await == 69_900).then_some(())).await;
    until(10, "the ledger has both", async || (log(&shop, &order).await == (2, 1)).then_some(())).await;
    assert_eq!(at_provider(&shop, &first).await["state"], "REFUNDED");
    status(&alice, &order, "PAID", 1).await;
    assert_eq!(figures(&shop, &sale).await, (json!(9), json!(0), json!(1)));
    shop.close().await;
}

#[tokio::test]
async fn points_pay_alone_and_combined_with_money() {
    let shop = Shop::open().await;
    let mut body = sale(10, 1, 900);
    body["items"][0]["pointsPrice"] = json!(1_000);
    let (one, two) = (shop.sale_of(&body).await, shop.sale_of(&body).await);
    let alice = shop.buyer("alice").await;
    let gift = json!({ "buyer": "alice", "points": 1_500 });
    for _ in 0..2 {
        let given =
            shop.operator.with("POST", "/admin/points", &[("idempotency-key", "gift-1")], gift.to_string()).await;
        assert_eq!((given.status, &given.body["points"]), (200, &json!(1_500)), "{given:?}");
    }
    let points = async || alice.get("/points").await.body;
    let order = waiting(&alice, &one).await;
    let paid = ask(&alice, &order, json!({ "method": "points" })).await;
    assert_eq!((paid.status, &paid.body["status"], &paid.body["points"]), (201, &json!("PAID"), &json!(1_000)));
    status(&alice, &order, "PAID", 1).await;
    assert_eq!(points().await, json!({ "points": 500, "frozen": 0 }));
    refund(&alice, &order).await;
    assert_eq!(points().await, json!({ "points": 1_500, "frozen": 0 }));

    let order = waiting(&alice, &two).await;
    let too_many = ask(&alice, &order, json!({ "method": "wechat", "points": 1_000 })).await;
    assert_eq!((too_many.status, too_many.code()), (400, "INVALID"), "{too_many:?}");
    let mixed = start(&alice, &order, json!({ "method": "wechat", "points": 400 })).await;
    assert_eq!((&mixed["amount"], &mixed["points"]), (&json!(41_940), &json!(400)));
    assert_eq!(points().await, json!({ "points": 1_100, "frozen": 400 }));
    pay(&shop, &mixed).await;
    status(&alice, &order, "PAID", 10).await;
    assert_eq!(points().await, json!({ "points": 1_100, "frozen": 0 }));
    assert_eq!(kept(&shop, &order).await, 41_940);
    refund(&alice, &order).await;
    assert_eq!(points().await, json!({ "points": 1_500, "frozen": 0 }));
    assert_eq!(kept(&shop, &order).await, 0);
    shop.close().await;
}

#[tokio::test]
async fn a_payment_after_the_cancel_revives_the_order_or_is_refunded() {
    let shop = Shop::open().await;
    let sale = shop.sale(1, 1, 900).await;
    let (alice, bob) = (shop.buyer("alice").await, shop.buyer("bob").await);
    let cancel = async |buyer: &User, order: &str| {
        let cancelled = buyer.post(&format!("/orders/{order}/cancel"), &json!({})).await;
        assert_eq!((cancelled.status, &cancelled.body["status"]), (200, &json!("CLOSED")), "{cancelled:?}");
    };
    let first = waiting(&alice, &sale).await;
    let payment = start(&alice, &first, json!({ "method": "wechat" })).await;
    cancel(&alice, &first).await;
    assert_eq!(at_provider(&shop, &payment).await["state"], "CLOSED");
    act(&shop, &payment, "pay-late").await;
    let revived = status(&alice, &first, "PAID", 10).await;
    assert!(revived["reason"].is_null(), "{revived}");
    assert_eq!(figures(&shop, &sale).await, (json!(0), json!(0), json!(1)), "the released unit was still free");
    // Depends on what the function finds first: that nothing is free, or that she has an order.
    let again = press(&alice, &sale).await;
    assert!(["DUPLICATE_ORDER", "SOLD_OUT"].contains(&again.code()), "{again:?}");
    refund(&alice, &first).await;

    until(5, "the unit is on sale again", async || (press(&bob, &sale).await.status == 202).then_some(())).await;
    let order = bob.get("/orders").await.body["orders"][0]["orderId"].as_str().unwrap().to_owned();
    status(&bob, &order, "PENDING_PAYMENT", 10).await;
    let payment = start(&bob, &order, json!({ "method": "stripe" })).await;
    cancel(&bob, &order).await;
    until(5, "alice has the unit", async || (press(&alice, &sale).await.status == 202).then_some(())).await;
    act(&shop, &payment, "pay-late").await;
    until(10, "the money is back", async || {
        (kept(&shop, &order).await == 0 && at_provider(&shop, &payment).await["state"] == "REFUNDED").then_some(())
    })
    .await;
    status(&bob, &order, "CLOSED", 1).await;
    until(10, "the ledger has both", async || (log(&shop, &order).await == (1, 1)).then_some(())).await;
    assert_eq!(figures(&shop, &sale).await, (json!(0), json!(1), json!(0)));
    shop.close().await;
}

#[tokio::test]
async fn a_deadline_closes_the_open_payment_and_a_failed_payment_closes_the_order() {
    let shop = Shop::open().await;
    let sale = shop.sale(10, 1, 4).await;
    let (alice, bob) = (shop.buyer("alice").await, shop.buyer("bob").await);
    let failing = waiting(&bob, &sale).await;
    let payment = start(&bob, &failing, json!({ "method": "stripe" })).await;
    open(&shop, &payment).await;
    act(&shop, &payment, "fail").await;
    let failed = status(&bob, &failing, "CLOSED", 10).await;
    assert_eq!(failed["reason"], "PAYMENT_FAILED", "{failed}");

    let order = waiting(&alice, &sale).await;
    let payment = start(&alice, &order, json!({ "method": "wechat" })).await;
    assert_eq!(at_provider(&shop, &payment).await["state"], "NOT_PAID");
    let closed = status(&alice, &order, "CLOSED", 20).await;
    assert_eq!(closed["reason"], "TIMED_OUT", "{closed}");
    assert_eq!(at_provider(&shop, &payment).await["state"], "CLOSED");
    until(10, "everything is free", async || {
        (figures(&shop, &sale).await == (json!(10), json!(0), json!(0))).then_some(())
    })
    .await;
    shop.close().await;
}

#[tokio::test]
async fn forged_notices_change_nothing_and_the_return_page_shows_the_order() {
    let shop = Shop::open().await;
    let sale = shop.sale(10, 1, 900).await;
    let alice = shop.buyer("alice").await;
    let order = waiting(&alice, &sale).await;
    let payment = start(&alice, &order, json!({ "method": "stripe" })).await;
    let number = payment["paymentId"].as_str().unwrap();
    let forged = json!({
        "id": "evt_1", "object": "event", "type": "checkout.session.completed",
        "data": { "object": {
            "id": "cs_1", "object": "checkout.session", "client_reference_id": number, "payment_status": "paid",
            "payment_intent": "pi_1", "amount_total": 69_900, "currency": "cny", "metadata": { "order_type": "2" },
        } },
    })
    .to_string();
    let signature = [("stripe-signature", "t=1794355500,v1=00")];
    for (provider, headers) in
        [("stripe", &signature[..]), ("stripe", &[]), ("alipay", &[]), ("wechat", &[]), ("wechat-v2", &[])]
    {
        let path = format!("/payments/{provider}/notify");
        let answer = shop.api.send("POST", &path, headers, forged.clone()).await;
        let is_refused = answer.status >= 400 || !answer.body.to_string().to_lowercase().contains("success");
        assert!(is_refused, "{provider}: {answer:?}");
    }
    let large = shop.api.send("POST", "/payments/stripe/notify", &signature, "x".repeat(70_000)).await;
    assert_eq!((large.status, large.code()), (413, "TOO_LARGE"), "{large:?}");
    let unknown = shop.api.send("POST", "/payments/paypal/notify", &[], forged).await;
    // Each provider has a route of its own, so the gateway knows no other.
    assert_eq!(unknown.status, 404, "{unknown:?}");
    status(&alice, &order, "PENDING_PAYMENT", 1).await;
    assert_eq!(figures(&shop, &sale).await, (json!(9), json!(1), json!(0)));

    let unpaid = format!("/payments/stripe/return?payment={number}");
    let left = shop.api.send("GET", &unpaid, &[("accept-language", "en")], "").await;
    assert!(left.status == 200 && left.body.as_str().unwrap().contains("Not paid yet"), "{left:?}");
    let back = format!("{unpaid}&session_id=cs_1");
    let page = async || shop.api.send("GET", &back, &[("accept-language", "en")], "").await;
    let waiting = page().await;
    assert!(waiting.status == 200 && waiting.body.as_str().unwrap().contains("being confirmed"), "{waiting:?}");
    pay(&shop, &payment).await;
    status(&alice, &order, "PAID", 10).await;
    assert!(page().await.body.as_str().unwrap().contains("<h1>Paid</h1>"));
    let nothing = shop.api.send("GET", "/payments/alipay/return?out_trade_no=1&sign=x", &[], "").await;
    assert_eq!(nothing.status, 400, "{nothing:?}");
    shop.close().await;
}

#[tokio::test]
async fn a_provider_that_is_not_configured_is_not_offered() {
    let shop = Shop::open().await;
    let notify = shop.cloud.stack().functions.iter().find(|function| function.binary == "payment-notify").unwrap();
    let secrets = &shop.cloud.cloud().secrets;
    let arn = &notify.environment["PAYMENT_SECRET_ARN"];
    let all: Value = serde_json::from_str(&secrets.get(arn).await.unwrap().unwrap().value).unwrap();
    secrets.put(arn, json!({ "wechat": all["wechat"] }).to_string()).await.unwrap();

    let sale = shop.sale(10, 1, 900).await;
    let alice = shop.buyer("alice").await;
    let order = waiting(&alice, &sale).await;
    let refused = ask(&alice, &order, json!({ "method": "stripe" })).await;
    assert_eq!((refused.status, refused.code()), (400, "INVALID"), "{refused:?}");
    assert_eq!(refused.body["errors"][0]["field"], "method");
    assert!(refused.body["detail"].as_str().unwrap().contains("use one of wechat, points"), "{refused:?}");
    let notice = shop.api.send("POST", "/payments/stripe/notify", &[], "{}").await;
    assert_eq!((notice.status, notice.code()), (404, "NOT_FOUND"), "{notice:?}");
    let payment = start(&alice, &order, json!({ "method": "wechat" })).await;
    pay(&shop, &payment).await;
    status(&alice, &order, "PAID", 10).await;
    shop.close().await;
}

#[tokio::test]
async fn a_providers_refusal_is_logged_and_its_text_is_not_shown_to_the_buyer() {
    let shop = Shop::open().await;
    let named = |binary: &str| shop.cloud.stack().functions.iter().find(|function| function.binary == binary).unwrap();
    let secrets = &shop.cloud.cloud().secrets;
    let arn = &named("payment-notify").environment["PAYMENT_SECRET_ARN"];
    let mut all: Value = serde_json::from_str(&secrets.get(arn).await.unwrap().unwrap().value).unwrap();
    all["stripe"]["secretKey"] = json!("sk_test_of_somebody_else");
    secrets.put(arn, all.to_string()).await.unwrap();

    let sale = shop.sale(10, 1, 900).await;
    let alice = shop.buyer("alice").await;
    let order = waiting(&alice, &sale).await;
    let refused = ask(&alice, &order, json!({ "method": "stripe" })).await;
    assert_eq!((refused.status, refused.code()), (409, "WRONG_STATE"), "{refused:?}");
    let words = "the payment provider does not accept this payment: use another method";
    assert_eq!(refused.body["detail"], words, "{refused:?}");
    let log = shop.cloud.logs_dir().join(format!("{}.log", named("shop").name));
    let line = until(10, "the refusal is in the log", async || {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        text.lines().find(|line| line.contains("refused to start a payment")).map(str::to_owned)
    })
    .await;
    let line: Value = serde_json::from_str(&line).unwrap();
    assert_eq!((&line["level"], &line["order_id"], &line["method"]), (&json!("WARN"), &json!(order), &json!("stripe")));
    assert!(line["reason"].as_str().unwrap().contains("Invalid API Key"), "{line}");
    assert!(line["trace"].is_string(), "{line}");

    let payment = start(&alice, &order, json!({ "method": "wechat" })).await;
    pay(&shop, &payment).await;
    status(&alice, &order, "PAID", 10).await;
    shop.close().await;
}

#[tokio::test]
async fn a_slow_provider_gives_unavailable_and_the_retry_continues_the_same_payment() {
    let shop = Shop::open().await;
    let sale = shop.sale(10, 1, 900).await;
    let alice = shop.buyer("alice").await;
    let order = waiting(&alice, &sale).await;
    let mood = |mood: &str| json!({ "mood": mood }).to_string();
    let set = shop.api.send("POST", "/_sandbox/moods/wechat", &[], mood("slow")).await;
    assert_eq!(set.status, 200, "{set:?}");
    let refused = ask(&alice, &order, json!({ "method": "wechat" })).await;
    assert_eq!((refused.status, refused.code()), (503, "UNAVAILABLE"), "{refused:?}");
    shop.api.send("POST", "/_sandbox/moods/wechat", &[], mood("well")).await;
    let payment = start(&alice, &order, json!({ "method": "wechat" })).await;
    assert_eq!(payment["paymentId"], json!(format!("{order}0")), "the retry must keep the first attempt's number");
    pay(&shop, &payment).await;
    status(&alice, &order, "PAID", 10).await;
    shop.close().await;
}
