//! Bad input gets the right problem code, and never a 500.

use serde_json::json;

use crate::shop::{Shop, press, sale};

#[tokio::test]
async fn a_bad_press_is_refused_with_the_right_code() {
    let shop = Shop::open().await;
    let id = shop.sale(10, 2, 900).await;
    let alice = shop.buyer("alice").await;
    let good = json!({ "saleId": id, "itemId": "phone", "quantity": 1 });
    let with = |field: &str, value: serde_json::Value| {
        let mut body = good.clone();
        body[field] = value;
        body.to_string()
    };
    let without = |field: &str| {
        let mut body = good.clone();
        body.as_object_mut().unwrap().remove(field);
        body.to_string()
    };
    let cases = [
        ("not JSON", "press!".to_owned(), 400, "INVALID"),
        ("empty", String::new(), 400, "INVALID"),
        ("half JSON", good.to_string()[..20].to_owned(), 400, "INVALID"),
        ("a list", "[]".to_owned(), 400, "INVALID"),
        ("null", "null".to_owned(), 400, "INVALID"),
        ("no sale", without("saleId"), 400, "INVALID"),
        ("no item", without("itemId"), 400, "INVALID"),
        ("no quantity", without("quantity"), 400, "INVALID"),
        ("an extra field", with("price", json!(1)), 400, "INVALID"),
        ("a buyer in the body", with("buyer", json!("bob")), 400, "INVALID"),
        ("quantity 0", with("quantity", json!(0)), 400, "INVALID"),
        ("quantity -1", with("quantity", json!(-1)), 400, "INVALID"),
        ("quantity 1.5", with("quantity", json!(1.5)), 400, "INVALID"),
        ("quantity as text", with("quantity", json!("1")), 400, "INVALID"),
        ("a huge quantity", with("quantity", json!(18_446_744_073_709_551_615_u64)), 400, "INVALID"),
        ("a quantity over the limit", with("quantity", json!(3)), 409, "LIMIT_EXCEEDED"),
        ("4 billion", with("quantity", json!(4_294_967_295_u32)), 409, "LIMIT_EXCEEDED"),
        ("a sale with strange characters", with("saleId", json!("a#b'; --")), 400, "INVALID"),
        ("a sale with a null byte", with("saleId", json!("a\u{0}b")), 400, "INVALID"),
        ("a long sale", with("saleId", json!("x".repeat(1_000))), 400, "INVALID"),
        ("an item with strange characters", with("itemId", json!("电话")), 400, "INVALID"),
        ("an unknown sale", with("saleId", json!("nowhere")), 404, "UNKNOWN_SALE"),
        ("an unknown item", with("itemId", json!("nothing")), 404, "UNKNOWN_ITEM"),
        ("a body of 1 MB", with("saleId", json!("x".repeat(1_000_000))), 413, "TOO_LARGE"),
    ];
    for (what, body, status, code) in cases {
        let answer = alice.with("POST", "/seckill", &[], body).await;
        assert_eq!((answer.status, answer.code()), (status, code), "{what}: {answer:?}");
        assert_eq!(answer.headers["content-type"], "application/problem+json", "{what}");
        assert!(answer.body["detail"].as_str().is_some_and(|detail| !detail.is_empty()), "{what}: {answer:?}");
    }
    let long = "k".repeat(65);
    for (what, key) in [("empty", ""), ("long", long.as_str()), ("a space", "a b")] {
        let answer = alice.with("POST", "/seckill", &[("idempotency-key", key)], good.to_string()).await;
        assert_eq!((answer.status, answer.code()), (400, "INVALID"), "{what} key: {answer:?}");
    }
    assert_eq!(press(&alice, &id).await.status, 202, "a valid press works");
    shop.close().await;
}

#[tokio::test]
async fn bad_tokens_and_requests_for_other_users_data_are_refused() {
    let shop = Shop::open().await;
    let id = shop.sale(10, 1, 900).await;
    let body = json!({ "saleId": id, "itemId": "phone", "quantity": 1 }).to_string();
    let good = shop.api.token("alice", "").await;
    let expired = shop
        .api
        .send("POST", "/_local/token", &[], json!({ "sub": "alice", "expiresInSeconds": -3600 }).to_string())
        .await;
    let expired = expired.body["token"].as_str().unwrap().to_owned();
    let (head, signature) = good.rsplit_once('.').unwrap();
    let forged = format!("{head}.{}", signature.chars().rev().collect::<String>());
    let unsigned = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbGljZSJ9.";
    for (what, token) in
        [("expired", expired.as_str()), ("forged", &forged), ("unsigned", unsigned), ("rubbish", "rubbish")]
    {
        let authorization = format!("Bearer {token}");
        let answer = shop.api.send("POST", "/seckill", &[("authorization", &authorization)], body.clone()).await;
        assert_eq!(answer.status, 401, "{what}: {answer:?}");
    }
    assert_eq!(shop.api.send("POST", "/seckill", &[], body).await.status, 401, "no token");

    let alice = shop.buyer("alice").await;
    assert_eq!(alice.post("/admin/sales", &sale(1, 1, 900)).await.status, 403, "a buyer must not use operator routes");
    for strange in
        ["x", "000000000000000000000000000000U", "a%20b", "%e7%94%b5", "%00", "%3Cscript%3E", &"A".repeat(5_000)]
    {
        let answer = alice.get(&format!("/orders/{strange}")).await;
        assert_eq!((answer.status, answer.code()), (404, "UNKNOWN_ORDER"), "{strange}: {answer:?}");
        let answer = alice.post(&format!("/orders/{strange}/cancel"), &json!({})).await;
        assert_eq!((answer.status, answer.code()), (404, "UNKNOWN_ORDER"), "{strange}: {answer:?}");
    }
    assert_eq!(alice.get("/orders/..%2f..%2fetc").await.status, 404);
    assert_eq!(alice.get("/nowhere").await.status, 404);
    shop.close().await;
}

#[tokio::test]
async fn a_bad_sale_is_refused_and_the_answer_names_the_field() {
    let shop = Shop::open().await;
    let operator = &shop.operator;
    let good = sale(10, 1, 900);
    let edited = |path: &str, value: serde_json::Value| {
        let mut body = good.clone();
        *body.pointer_mut(path).unwrap() = value;
        body
    };
    let mut extra = good.clone();
    extra["items"][0]["colour"] = json!("red");
    let cases = [
        (edited("/name", json!("")), "name"),
        (edited("/endsAt", json!("2019-01-01T00:00:00Z")), "endsAt"),
        (edited("/startsAt", json!("tomorrow")), "startsAt"),
        (edited("/paymentWindowSeconds", json!(0)), "paymentWindowSeconds"),
        (edited("/items", json!([])), "items"),
        (edited("/items/0/price", json!(-1)), "price"),
        (edited("/items/0/price", json!(699.5)), "price"),
        (edited("/items/0/stock", json!(0)), "stock"),
        (edited("/items/0/stock", json!(99_999_999)), "stock"),
        (edited("/items/0/currency", json!("yuan")), "currency"),
        (edited("/items/0/itemId", json!("a b")), "itemId"),
        (edited("/items/0/limitPerBuyer", json!(0)), "limitPerBuyer"),
        (extra, "colour"),
    ];
    for (body, field) in cases {
        let answer = operator.post("/admin/sales", &body).await;
        assert_eq!((answer.status, answer.code()), (400, "INVALID"), "{field}: {answer:?}");
        assert!(answer.body.to_string().contains(field), "the answer does not name {field}: {answer:?}");
    }
    let unknown = operator.post("/admin/sales/nowhere/preheat", &json!({})).await;
    assert_eq!((unknown.status, unknown.code()), (404, "UNKNOWN_SALE"));
    let id = shop.sale(10, 1, 900).await;
    for quantity in [json!(0), json!(-5), json!(1.5), json!(99_999_999), json!("5")] {
        let path = format!("/admin/sales/{id}/items/phone/restock");
        let answer = operator.post(&path, &json!({ "quantity": quantity })).await;
        assert_eq!(
            answer.code(),
            if quantity == json!(99_999_999) { "WRONG_STATE" } else { "INVALID" },
            "{quantity}: {answer:?}"
        );
    }
    let nothing = operator.post(&format!("/admin/sales/{id}/explode"), &json!({})).await;
    assert_eq!(nothing.status, 404, "{nothing:?}");
    shop.close().await;
}
