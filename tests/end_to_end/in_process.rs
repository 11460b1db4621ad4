//! The same functions inside one process, as `make run` hosts them: what a buyer, an operator and a crash can tell.

use std::net::TcpListener;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use local_cloud::engine::sqs::Outgoing;
use serde_json::json;
use testkit::http::Api;
use tokio::process::{Child, Command};

use crate::shop::{Shop, binaries, press, sale, status, until};

#[tokio::test]
async fn a_sale_lives_and_ends_and_each_function_has_its_own_log() {
    let shop = Shop::open_on("in-process").await;
    let sale = shop.sale(5, 1, 3).await;
    let (alice, bob) = (shop.buyer("alice").await, shop.buyer("bob").await);

    // Given an order that is paid, and one that is not
    let paid = press(&alice, &sale).await;
    assert_eq!(paid.status, 202, "{paid:?}");
    let paid = paid.body["orderId"].as_str().unwrap().to_owned();
    assert_eq!(press(&alice, &sale).await.code(), "DUPLICATE_ORDER");
    status(&alice, &paid, "PENDING_PAYMENT", 10).await;
    let payment = alice.post(&format!("/orders/{paid}/payments"), &json!({ "method": "stripe" })).await;
    let number = payment.body["paymentId"].as_str().unwrap_or_else(|| panic!("{payment:?}")).to_owned();
    shop.api.send("POST", &format!("/_sandbox/payments/{number}"), &[], r#"{"action": "pay"}"#).await;
    let lost = press(&bob, &sale).await.body["orderId"].as_str().unwrap().to_owned();

    // Then the first is paid by its signed notice, the second is closed by its schedule, and the units add up
    status(&alice, &paid, "PAID", 10).await;
    status(&bob, &lost, "CLOSED", 15).await;
    let audit = until(10, "the units have moved", async || {
        let audit = shop.audit(&sale).await;
        (audit["sold"] == 1 && audit["held"] == 0).then_some(audit)
    })
    .await;
    assert_eq!((&audit["free"], &audit["drift"]), (&json!(4), &json!(0)));

    // And each function logged its own part
    for (function, text) in [
        ("SeckillFunction", "PurchaseAccepted"),
        ("OrderConsumerFunction", "OrdersPlaced"),
        ("PaymentNotifyFunction", "PaymentsSettled"),
        ("TimeoutCheckFunction", "Timeouts"),
    ] {
        let path = shop.cloud.logs_dir().join(format!("seckill-{function}.log"));
        let log = until(5, function, async || {
            std::fs::read_to_string(&path).ok().filter(|log| log.contains(text) && log.contains("REPORT RequestId: "))
        })
        .await;
        let others = ["PurchaseAccepted", "OrdersPlaced", "PaymentsSettled", "\"Timeouts\""];
        let foreign = others.iter().find(|other| !other.contains(text) && log.contains(**other));
        assert_eq!(foreign, None, "{function}");
    }
    shop.close().await;
}

#[tokio::test]
async fn one_bad_message_does_not_fail_its_batch() {
    let shop = Shop::open_on("in-process").await;
    let sale = shop.sale(5, 1, 900).await;
    let stack = shop.cloud.stack();
    let queue = &stack.queues.iter().find(|queue| queue.logical_id == "OrdersQueue").unwrap().name;
    let sqs = shop.cloud.cloud().sqs.clone();
    let buyers = [shop.buyer("alice").await, shop.buyer("bob").await];
    for buyer in &buyers {
        sqs.send(queue, Outgoing::text("no order message")).await.unwrap();
        let order = press(buyer, &sale).await.body["orderId"].as_str().unwrap().to_owned();
        status(buyer, &order, "PENDING_PAYMENT", 10).await;
    }
    let letters = until(10, "two dead letters", async || {
        let all = shop.operator.get("/admin/dead-letters").await.body;
        let orders = all["queues"].as_array().unwrap().iter().find(|queue| queue["kind"] == "orders").unwrap();
        (orders["letters"].as_array().unwrap().len() == 2).then(|| orders.clone())
    })
    .await;
    assert!(letters.to_string().contains("no order message"), "{letters}");
    shop.close().await;
}

#[tokio::test]
async fn a_call_that_the_template_does_not_allow_is_refused() {
    let template = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../template.yaml")).unwrap();
    let function = template.find("\n  SeckillFunction:").unwrap();
    let grant = function + template[function..].find("sqs:SendMessage").unwrap();
    let without = format!("{}sqs:GetQueueUrl{}", &template[..grant], &template[grant + "sqs:SendMessage".len()..]);
    let shop = Shop::open_with("in-process", Some(&without)).await;
    let sale = shop.sale(5, 1, 900).await;
    // The purchase is accepted: claim and hold are durable, and reconcile sends the message.
    assert_eq!(press(&shop.buyer("alice").await, &sale).await.status, 202);
    let path = shop.cloud.logs_dir().join("seckill-SeckillFunction.log");
    until(5, "the refusal is logged", async || {
        let log = std::fs::read_to_string(&path).unwrap();
        (log.contains("is not authorized to perform: sqs:SendMessage")).then_some(())
    })
    .await;
    shop.cloud.stop().await;
}

fn start(port: u16, data: &Path) -> Child {
    let template = Path::new(env!("CARGO_MANIFEST_DIR")).join("../template.yaml");
    Command::new(binaries().join("seckill-local"))
        .args(["--host", "in-process", "--no-demo", "--port", &port.to_string()])
        .arg("--template")
        .arg(template)
        .arg("--data-dir")
        .arg(data)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

async fn is_up(api: &Api) {
    until(30, "it answers", async || {
        let answer = api.try_send("GET", "/_local/health", &[], "").await;
        answer.is_ok_and(|answer| answer.status == 200).then_some(())
    })
    .await;
}

#[tokio::test]
async fn what_was_answered_survives_kill_9() {
    let data = tempfile::tempdir().unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let api = Api::new(format!("http://127.0.0.1:{port}"));
    let mut first = start(port, data.path());
    is_up(&api).await;
    let operator = api.user("operator", "seckill/admin").await;
    let id = operator.open_sale(&sale(50, 1, 900)).await.unwrap();
    let mut orders = Vec::new();
    for number in 0..20 {
        let buyer = api.user(&format!("buyer-{number}"), "").await;
        let accepted = press(&buyer, &id).await;
        assert_eq!(accepted.status, 202, "{accepted:?}");
        orders.push((buyer, accepted.body["orderId"].as_str().unwrap().to_owned()));
    }
    first.kill().await.unwrap();

    let mut second = start(port, data.path());
    is_up(&api).await;
    for (buyer, order) in &orders {
        // A message that was in flight comes back after its visibility timeout: until then the order is QUEUED.
        let answer = buyer.get(&format!("/orders/{order}")).await;
        assert!(["QUEUED", "PENDING_PAYMENT"].contains(&answer.body["status"].as_str().unwrap()), "{answer:?}");
        assert_eq!(press(buyer, &id).await.code(), "DUPLICATE_ORDER");
    }
    let audit = operator.get(&format!("/admin/sales/{id}/audit")).await.body["items"][0].clone();
    assert_eq!((&audit["free"], &audit["held"], &audit["drift"]), (&json!(30), &json!(20), &json!(0)), "{audit}");
    second.kill().await.unwrap();
    tokio::time::timeout(Duration::from_secs(10), second.wait()).await.unwrap().unwrap();
}
