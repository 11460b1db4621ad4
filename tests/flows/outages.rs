//! A service is down: no accepted purchase is lost, and no refused one is half done.

use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use domain::bucket::{Movement, MovementKind};
use domain::ids::OrderId;
use domain::order::Status;
use flows::buy::purchase::Refusal;
use lambda_http::http;
use local_cloud::engine::Service;
use local_cloud::wire::{Fault, Loss, Wire};
use serde_json::{Value, json};
use store::{StockEntry, Store, StoreError};
use testkit::world::World;

#[tokio::test]
async fn a_purchase_is_accepted_while_the_queue_is_down_and_reconcile_sends_its_message() {
    let world = World::new().await;
    let offer = world.sale(10, 1).await;
    world.fault(|call| match call.service {
        Service::Sqs => Fault::NotApplied(Loss::Timeout),
        _ => Fault::None,
    });
    let accepted = world.press(&offer, "alice").await.unwrap();
    assert!(accepted.unsent.is_some());
    world.clear_faults();
    world.settle_down().await;
    assert_eq!(world.order(&accepted.order).await, None, "its message was never sent");

    world.pass(61);
    assert_eq!(world.reconcile().await.sent_again, 1);
    world.settle_down().await;
    let order = world.order(&accepted.order).await.unwrap();
    assert_eq!((order.status, order.buyer_name.as_str(), order.amount), (Status::PendingPayment, "alice", 69_900));
}

/// The order exists, so its message is done. Reconcile closes the order after its deadline.
#[tokio::test]
async fn a_schedule_that_cannot_be_made_does_not_fail_the_message_of_its_order() {
    let world = World::new().await;
    let offer = world.sale(10, 1).await;
    let id = world.buys(&offer, "alice").await;
    world.fault(|call| match call.service {
        Service::Scheduler => Fault::ServerError,
        _ => Fault::None,
    });
    assert_eq!(world.consume().await, 1, "the message is handled");
    assert_eq!(world.order(&id).await.unwrap().status, Status::PendingPayment, "the order exists without its schedule");
    world.clear_faults();
    assert_eq!(world.state().await["schedules"], [""; 0]);

    // A duplicate of the message makes up for it.
    let order = world.order(&id).await.unwrap();
    let message = domain::message::OrderMessage {
        version: domain::message::VERSION,
        order_id: id.clone(),
        buyer: order.buyer_name.clone(),
        sale_id: offer.sale.clone(),
        item_id: offer.item.clone(),
        quantity: 1,
        bucket: order.bucket,
        shop_data: Default::default(),
        trace: None,
    };
    world.store.send_order(&message).await.unwrap();
    assert_eq!(world.consume().await, 1);
    assert_eq!(world.order(&id).await, Some(order));
    assert_eq!(world.state().await["schedules"], [id.as_str()]);
}

#[tokio::test]
async fn reconcile_closes_an_order_whose_schedule_was_never_created() {
    let world = World::new().await;
    let offer = world.sale(10, 1).await;
    let id = world.buys(&offer, "alice").await;
    world.fault(|call| match call.service {
        Service::Scheduler => Fault::ServerError,
        _ => Fault::None,
    });
    world.consume().await;
    world.pass(900 + 89);
    assert_eq!(world.reconcile().await.closed, 0, "not before the margin has passed");
    world.pass(1);
    assert_eq!(world.reconcile().await.closed, 1);
    assert_eq!(world.order(&id).await.unwrap().status, Status::Closed);
    assert_eq!(world.figures(&offer).await, (10, 0, 0));
}

#[tokio::test]
async fn a_press_is_refused_while_the_database_is_down_and_can_be_retried() {
    let world = World::new().await;
    let offer = world.sale(10, 1).await;
    let seckill = world.environment();
    seckill.purchase(&world.asks(&offer, "first", 1, None)).await.unwrap();
    for fault in [Fault::Throttled, Fault::ServerError, Fault::NotApplied(Loss::Io)] {
        world.fault(move |call| match call.service {
            Service::DynamoDb => fault,
            _ => Fault::None,
        });
        let refused = seckill.purchase(&world.asks(&offer, "alice", 1, Some("k"))).await;
        assert!(matches!(refused, Err(Refusal::Unavailable(ref error)) if error.may_pass()), "{fault:?}: {refused:?}");
        world.clear_faults();
    }
    assert_eq!(world.figures(&offer).await, (9, 1, 0));
    let order = seckill.purchase(&world.asks(&offer, "alice", 1, Some("k"))).await.unwrap().order;
    world.settle_down().await;
    assert!(world.order(&order).await.is_some());
}

/// The answer to the hold is lost, so the press is answered UNAVAILABLE. The retry resumes the same order, whether
/// the hold was carried out or not.
#[tokio::test]
async fn a_hold_without_an_answer_is_retried_in_the_same_bucket() {
    for fault in [Fault::AppliedButLost(Loss::Io), Fault::NotApplied(Loss::Io)] {
        let world = World::new().await;
        let offer = world.sale(100, 1).await;
        let stock = world.names().stock.clone();
        world.fault(move |call| if call.resource().as_deref() == Some(&stock) { fault } else { Fault::None });
        let seckill = world.environment();
        let asked = world.asks(&offer, "alice", 1, Some("k"));
        assert!(matches!(seckill.purchase(&asked).await, Err(Refusal::Unavailable(_))));
        world.clear_faults();
        let first = domain::ids::OrderId::new(asked.now, &asked.buyer_key, asked.random);
        let order = world.environment().purchase(&world.asks(&offer, "alice", 1, Some("k"))).await.unwrap().order;
        assert_eq!(order, first);
        world.settle_down().await;
        assert_eq!(world.figures(&offer).await, (99, 1, 0), "{fault:?}");
    }
}

#[tokio::test]
async fn an_abandoned_attempt_is_resumed_by_the_buyers_next_press() {
    let world = World::new().await;
    let offer = world.sale(10, 1).await;
    let stock = world.names().stock.clone();
    world.fault(move |call| if call.resource().as_deref() == Some(&stock) { Fault::ServerError } else { Fault::None });
    world.press(&offer, "alice").await.unwrap_err();
    world.clear_faults();
    let young = world.press(&offer, "alice").await;
    assert!(matches!(young, Err(Refusal::Duplicate(_))), "the first attempt may still be running");
    world.pass(7);
    let order = world.environment().purchase(&world.asks(&offer, "alice", 1, Some("new-key"))).await.unwrap().order;
    let again = world.environment().purchase(&world.asks(&offer, "alice", 1, Some("new-key"))).await.unwrap().order;
    assert_eq!(order, again);
    world.settle_down().await;
    assert_eq!(world.figures(&offer).await, (9, 1, 0));
    assert!(world.order(&order).await.is_some());
}

/// Only messages that could not be handled are delivered again.
#[tokio::test]
async fn order_consumer_returns_exactly_the_messages_that_it_could_not_handle() {
    let world = World::new().await;
    let offer = world.sale(10, 1).await;
    let id = world.buys(&offer, "alice").await;
    let (claims, _) = world.store.claims(&id.buyer(), &offer.sale).await.unwrap();
    let good = serde_json::json!({
        "version": 1, "orderId": id, "buyer": "alice", "saleId": offer.sale, "itemId": offer.item, "quantity": 1,
        "bucket": claims.claims[&offer.item].bucket,
    });
    let handled = async |messages: &[(&str, String)]| -> Vec<String> {
        let record = |(id, body): &(&str, String)| serde_json::json!({"messageId": id, "body": body});
        let records: Vec<_> = messages.iter().map(record).collect();
        let event = serde_json::from_value(serde_json::json!({ "Records": records })).unwrap();
        let now = world.now();
        let app = order_consumer::App::new(world.store.clone(), std::sync::Arc::new(move || now));
        let failures = order_consumer::handle(&app, event).await.batch_item_failures;
        failures.into_iter().map(|failure| failure.item_identifier).collect()
    };
    let batch = [("good", good.to_string()), ("bad", "hello".to_owned())];

    let orders = world.names().orders.clone();
    world.fault(move |call| if call.resource().as_deref() == Some(&orders) { Fault::ServerError } else { Fault::None });
    assert_eq!(
        handled(&batch).await,
        ["good"],
        "without its order the good one is not done; the bad one is a dead letter"
    );
    world.fault(|call| if call.service == Service::Sqs { Fault::ServerError } else { Fault::None });
    assert_eq!(handled(&batch).await, ["bad"], "the bad one could not be moved to the dead letters");
    world.clear_faults();
    assert_eq!(handled(&batch).await, [""; 0]);
    assert_eq!(world.order(&id).await.unwrap().status, Status::PendingPayment);
    let kept = world.names().orders_dead_letters_url.clone().unwrap();
    let name = local_cloud::engine::sqs::Sqs::name_of(&kept).to_owned();
    let receive = local_cloud::engine::sqs::Receive { max: 10, ..Default::default() };
    let letters = world.cloud.sqs.receive(&name, receive).await.unwrap();
    assert_eq!(letters.iter().map(|letter| letter.body.as_str()).collect::<Vec<_>>(), ["hello", "hello"]);
}

/// DynamoDB under load: it writes a part of each batch and leaves the rest undone.
#[derive(Clone, Debug)]
struct Partly {
    wire: Wire,
    /// Rows that it writes of each batch.
    rows: usize,
}

impl HttpConnector for Partly {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        if request.headers().get("x-amz-target") != Some("DynamoDB_20120810.BatchWriteItem") {
            return self.wire.call(request);
        }
        let mut asked: Value = serde_json::from_slice(request.body().bytes().unwrap()).unwrap();
        let (table, writes) = asked["RequestItems"].as_object_mut().unwrap().iter_mut().next().unwrap();
        let table = table.clone();
        let writes = writes.as_array_mut().unwrap();
        let left = writes.split_off(self.rows.min(writes.len()));
        let undone = if left.is_empty() { json!({}) } else { json!({ table: left }) };
        let answer = http::Response::new(json!({ "UnprocessedItems": undone }).to_string().into());
        let answer = HttpResponse::try_from(answer).unwrap();
        if writes.is_empty() {
            return HttpConnectorFuture::ready(Ok(answer));
        }
        let mut request = request;
        *request.body_mut() = asked.to_string().into();
        let written = self.wire.call(request);
        HttpConnectorFuture::new(async move { written.await.map(|_| answer) })
    }
}

impl HttpClient for Partly {
    fn http_connector(&self, _: &HttpConnectorSettings, _: &RuntimeComponents) -> SharedHttpConnector {
        SharedHttpConnector::new(self.clone())
    }
}

#[tokio::test]
async fn ledger_entries_that_were_left_undone_are_written_again_or_the_batch_fails() {
    let world = World::new().await;
    let offer = world.sale(24, 1).await;
    let store = |rows| {
        let partly = Partly { wire: world.wire.clone(), rows };
        let config = world.wire.sdk_config().into_builder().http_client(partly).build();
        Store::new(&config, world.names().clone())
    };
    let orders: Vec<OrderId> = (0..4)
        .map(|n| {
            let asked = world.asks(&offer, &format!("buyer {n}"), 1, None);
            OrderId::new(asked.now, &asked.buyer_key, asked.random)
        })
        .collect();
    let entry = |order: &OrderId| StockEntry {
        offer: offer.clone(),
        bucket: 0,
        movement: Movement { order: order.clone(), quantity: 1, kind: MovementKind::Deduct, before: 5, after: 4 },
        at: world.now(),
        sequence: "1".into(),
    };
    let entries: Vec<StockEntry> = orders.iter().map(entry).collect();
    store(2).record(&entries).await.unwrap();
    for order in &orders {
        assert_eq!(world.store.entries(order).await.unwrap().len(), 1);
    }
    let failed = store(0).record(&entries).await.unwrap_err();
    assert!(matches!(failed, StoreError::Throttled { .. }), "{failed}");
}

/// A failed message comes again after 5, 10, 20 … seconds, not after the queue's three minutes.
#[tokio::test]
async fn a_message_that_fails_for_a_moment_is_delivered_again_soon() {
    let world = World::new().await;
    let offer = world.sale(10, 1).await;
    let id = world.buys(&offer, "alice").await;
    let queue = local_cloud::engine::sqs::Sqs::name_of(&world.names().orders_queue_url).to_owned();
    let deliver = async || {
        let receive = local_cloud::engine::sqs::Receive { max: 10, ..Default::default() };
        let messages = world.cloud.sqs.receive(&queue, receive).await.unwrap();
        let arn = local_cloud::engine::sqs::Sqs::arn_of(&queue);
        let event = local_cloud::sources::events::queue_event(&arn, &messages);
        let now = world.now();
        let app = order_consumer::App::new(world.store_of("order-consumer"), std::sync::Arc::new(move || now));
        order_consumer::handle(&app, serde_json::from_value(event).unwrap()).await;
        messages.len()
    };
    let claims = world.names().claims.clone();
    world.fault(move |call| if call.resource().as_deref() == Some(&claims) { Fault::ServerError } else { Fault::None });
    for wait_s in [5, 10, 20] {
        assert_eq!(deliver().await, 1);
        world.pass(wait_s - 1);
        assert_eq!(deliver().await, 0, "not before {wait_s} seconds");
        world.pass(1);
    }
    world.clear_faults();
    assert_eq!(deliver().await, 1);
    assert_eq!(world.order(&id).await.unwrap().status, Status::PendingPayment);
}
