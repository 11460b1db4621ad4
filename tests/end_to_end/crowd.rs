//! Many concurrent buyers at the deployed binaries.

use futures::stream::{self, StreamExt};
use serde_json::json;

use crate::shop::{Shop, press, until};

#[tokio::test]
async fn four_hundred_buyers_buy_two_hundred_units_exactly_once() {
    const UNITS: u32 = 200;
    const BUYERS: u32 = 400;
    let shop = Shop::open().await;
    let sale = shop.sale(UNITS, 1, 900).await;
    let presses = stream::iter(0..BUYERS).map(|n| {
        let (shop, sale) = (&shop, &sale);
        async move {
            let buyer = shop.buyer(&format!("buyer {n}")).await;
            loop {
                let answer = press(&buyer, sale).await;
                match (answer.status, answer.code()) {
                    (202, _) => return true,
                    (409, "SOLD_OUT") => return false,
                    (503 | 429, _) => {}
                    _ => panic!("{answer:?}"),
                }
            }
        }
    });
    let accepted = presses.buffer_unordered(64).filter(|accepted| std::future::ready(*accepted)).count().await;
    assert_eq!(accepted, UNITS as usize);
    let audit = until(30, "every order exists", async || {
        let audit = shop.audit(&sale).await;
        (audit["orders"]["PENDING_PAYMENT"] == json!(UNITS)).then_some(audit)
    })
    .await;
    assert_eq!((&audit["free"], &audit["held"], &audit["drift"]), (&json!(0), &json!(UNITS), &json!(0)));
    shop.close().await;
}

#[tokio::test]
async fn a_buyer_who_presses_too_often_gets_a_retry_after() {
    let shop = Shop::open().await;
    let mut form = crate::shop::sale(10, 1, 900);
    form["buyerCooldownMs"] = json!(30_000);
    let sale = shop.sale_of(&form).await;
    let (ann, bob) = (shop.buyer("ann").await, shop.buyer("bob").await);
    assert_eq!(press(&ann, &sale).await.status, 202);
    let again = press(&ann, &sale).await;
    assert_eq!((again.status, again.code()), (429, "RATE_LIMITED"), "{again:?}");
    let seconds: u32 = again.headers["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((1..=30).contains(&seconds), "{seconds}");
    assert_eq!(press(&bob, &sale).await.status, 202, "only Ann has to wait");
    let audit = shop.audit(&sale).await;
    assert_eq!((&audit["free"], &audit["drift"]), (&json!(8), &json!(0)));
    shop.close().await;
}
