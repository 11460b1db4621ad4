//! Orders are pushed to their buyers over WebSockets, through the deployed binaries.

use std::time::Duration;

use futures::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use testkit::http::User;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use crate::shop::{Shop, press, status, until};

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

pub(crate) async fn ticket(buyer: &User) -> String {
    let made = buyer.post("/ws-ticket", &json!({})).await;
    assert_eq!(made.status, 201, "{made:?}");
    made.body["ticket"].as_str().unwrap().to_owned()
}

pub(crate) async fn open(shop: &Shop, token: &str) -> Result<Socket, Error> {
    let url = format!("{}/ws?token={token}", shop.api.base_url.replacen("http", "ws", 1));
    connect_async(url).await.map(|(socket, _)| socket)
}

fn refused(opened: Result<Socket, Error>) -> u16 {
    match opened {
        Err(Error::Http(response)) => response.status().as_u16(),
        other => panic!("{other:?}"),
    }
}

/// Waits for the next order that is pushed.
async fn next(socket: &mut Socket) -> Value {
    let heard = async {
        loop {
            if let Message::Text(text) = socket.next().await.unwrap().unwrap() {
                return serde_json::from_str(&text).unwrap();
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(15), heard).await.expect("an order is pushed within 15 s")
}

/// Waits for an order that fits. Others may come before it, because a state may be pushed twice.
async fn until_order(socket: &mut Socket, is_wanted: impl Fn(&Value) -> bool) -> Value {
    loop {
        let order = next(socket).await;
        if is_wanted(&order) {
            return order;
        }
    }
}

async fn until_pushed(socket: &mut Socket, status: &str) -> Value {
    until_order(socket, |order| order["status"] == status).await
}

#[tokio::test]
async fn a_buyer_and_nobody_else_is_sent_every_change_of_an_order() {
    let shop = Shop::open().await;
    let sale = shop.sale(10, 1, 900).await;
    let (alice, mallory) = (shop.buyer("alice").await, shop.buyer("mallory").await);
    let mut hers = open(&shop, &ticket(&alice).await).await.unwrap();
    let mut his = open(&shop, &ticket(&mallory).await).await.unwrap();

    let order = press(&alice, &sale).await.body["orderId"].as_str().unwrap().to_owned();
    let pending = until_pushed(&mut hers, "PENDING_PAYMENT").await;
    assert_eq!(pending["orderId"], order.as_str());
    let asked = alice.get(&format!("/orders/{order}")).await.body;
    assert_eq!(pending, asked, "the pushed order differs from GET /orders");

    let paying = alice.post(&format!("/orders/{order}/payments"), &json!({"method": "wechat"})).await;
    let payment = paying.body["paymentId"].as_str().unwrap();
    let open_payment = until_order(&mut hers, |order| order["payment"]["paymentId"] == payment).await;
    shop.api.send("POST", &format!("/_sandbox/payments/{payment}"), &[], r#"{"action": "pay"}"#).await;
    let paid = until_pushed(&mut hers, "PAID").await;
    alice.post(&format!("/orders/{order}/refund"), &json!({})).await;
    let refunded = until_pushed(&mut hers, "REFUNDED").await;
    let versions = [&pending, &open_payment, &paid, &refunded].map(|order| order["version"].as_u64().unwrap());
    assert!(versions.is_sorted_by(|one, next| one < next), "{versions:?}");

    // Mallory's first message is about his own order, so he was sent nothing about hers.
    press(&mallory, &sale).await;
    assert_ne!(next(&mut his).await["orderId"], order.as_str());
    shop.close().await;
}

#[tokio::test]
async fn a_new_connection_is_sent_the_current_orders_and_again_on_request() {
    let shop = Shop::open().await;
    let sale = shop.sale(10, 1, 900).await;
    let alice = shop.buyer("alice").await;
    let order = press(&alice, &sale).await.body["orderId"].as_str().unwrap().to_owned();
    status(&alice, &order, "PENDING_PAYMENT", 10).await;
    let mut socket = open(&shop, &ticket(&alice).await).await.unwrap();
    let state = next(&mut socket).await;
    assert_eq!((&state["orderId"], &state["status"]), (&json!(order), &json!("PENDING_PAYMENT")));
    socket.send(Message::text("{}")).await.unwrap();
    assert_eq!(next(&mut socket).await, state);
    shop.close().await;
}

#[tokio::test]
async fn a_ticket_opens_one_connection_and_nothing_else_opens_any() {
    let shop = Shop::open().await;
    let alice = shop.buyer("alice").await;
    let ticket = ticket(&alice).await;
    let socket = open(&shop, &ticket).await.unwrap();
    assert_eq!(refused(open(&shop, &ticket).await), 403, "the ticket was used before");
    assert_eq!(refused(open(&shop, &"0".repeat(26)).await), 403);
    assert_eq!(
        refused(open(&shop, &shop.api.token("alice", "").await).await),
        403,
        "a token must not be accepted in a URL"
    );
    assert_eq!(refused(open(&shop, "").await), 401);
    assert_eq!(shop.api.send("POST", "/ws-ticket", &[], "").await.status, 401);

    // The row of a closed connection is deleted.
    let rows = async || {
        let table =
            &shop.cloud.stack().tables.iter().find(|table| table.logical_id == "ConnectionsTable").unwrap().name;
        let config = local_cloud::wire::Wire::new(shop.cloud.cloud().clone()).sdk_config();
        let client = aws_sdk_dynamodb::Client::new(&config);
        let all = client.scan().table_name(table).send().await.unwrap().items.unwrap();
        // The mark that somebody is connected expires by itself.
        all.iter().filter(|row| row["buyer"] != row["connection"]).count()
    };
    assert_eq!(rows().await, 1);
    drop(socket);
    until(10, "the connection's row is deleted", async || (rows().await == 0).then_some(())).await;
    shop.close().await;
}
