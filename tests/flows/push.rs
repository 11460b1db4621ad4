//! The push handler: changes of orders are sent to their buyers' WebSockets, also if some connections are gone or
//! fail.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use domain::ids::{Buyer, BuyerKey, OrderId};
use domain::ticket::Ticket;
use lambda_http::http;
use local_cloud::engine::dynamodb::StreamRecord;
use local_cloud::wire::{Fault, Wire};
use serde_json::{Value, json};
use testkit::stepping::stopped;
use testkit::world::{SALT, World};

/// API Gateway's side: what was sent to each connection, and the status that it answers (200 by default).
#[derive(Clone, Debug)]
struct Gateway {
    wire: Wire,
    sent: Arc<Mutex<Vec<(String, Value)>>>,
    answers: Arc<Mutex<BTreeMap<String, u16>>>,
}

impl HttpConnector for Gateway {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let Some((_, connection)) = request.uri().split_once("connections/") else { return self.wire.call(request) };
        let connection = connection.replace("%3D", "=");
        let status = self.answers.lock().unwrap().get(&connection).copied().unwrap_or(200);
        if status == 200 {
            let order = serde_json::from_slice(request.body().bytes().unwrap()).unwrap();
            self.sent.lock().unwrap().push((connection, order));
        }
        let kind = if status == 410 { "GoneException" } else { "InternalFailure" };
        let answer = http::Response::builder().status(status).header("x-amzn-errortype", kind);
        HttpConnectorFuture::ready(Ok(HttpResponse::try_from(answer.body(String::new().into()).unwrap()).unwrap()))
    }
}

impl HttpClient for Gateway {
    fn http_connector(&self, _: &HttpConnectorSettings, _: &RuntimeComponents) -> SharedHttpConnector {
        SharedHttpConnector::new(self.clone())
    }
}

struct Pushing {
    world: World,
    gateway: Gateway,
    app: push::App,
}

impl Pushing {
    async fn new() -> Self {
        Self::on(World::new().await)
    }

    /// Another running function.
    fn another(&self) -> Self {
        let world = World::on(self.world.cloud.clone());
        Self::on(world)
    }

    fn on(world: World) -> Self {
        let gateway = Gateway { wire: world.wire.clone(), sent: Arc::default(), answers: Arc::default() };
        let config = world.wire.sdk_config().into_builder().http_client(gateway.clone()).build();
        let clock = world.clock.clone();
        let now = Arc::new(move || domain::Timestamp::from_millisecond(clock.now_ms()).unwrap());
        let app = push::App::new(world.store_of("push"), &config, now);
        Self { world, gateway, app }
    }

    /// All records of the orders' stream, as a Lambda event.
    async fn changes(&self) -> Value {
        let table = &self.world.names().orders;
        let records = self.world.cloud.dynamodb.stream_records(table, None, 1_000).await.unwrap();
        let events: Vec<Value> = records.iter().map(StreamRecord::event).collect();
        json!({ "Records": events })
    }

    async fn handle(&self, event: Value) -> Value {
        push::handle(&self.app, event).await.unwrap()
    }

    /// A buyer's WebSocket opens.
    async fn connects(&self, buyer: &str, connection: &str) {
        let mut event: Value = serde_json::from_str(include_str!("../events/push-connect.json")).unwrap();
        event["requestContext"]["authorizer"] = json!({ "principalId": key(buyer) });
        event["requestContext"]["connectionId"] = connection.into();
        assert_eq!(self.handle(event).await["statusCode"], 200);
    }

    fn sent_to(&self, connection: &str) -> Vec<(String, u64)> {
        let sent = self.gateway.sent.lock().unwrap();
        let to = sent.iter().filter(|(to, _)| to == connection);
        to.map(|(_, order)| (order["status"].as_str().unwrap().to_owned(), order["version"].as_u64().unwrap()))
            .collect()
    }

    fn answers(&self, connection: &str, status: u16) {
        self.gateway.answers.lock().unwrap().insert(connection.to_owned(), status);
    }

    /// Ann's order is placed and cancelled, which makes two stream records.
    async fn placed_and_cancelled(&self) -> OrderId {
        let offer = self.world.sale(5, 1).await;
        let order = self.world.buys(&offer, "ann").await;
        self.world.settle_down().await;
        let cause = flows::pay::close::Cause::Buyer;
        flows::pay::close::close(self.world.context(), &order, cause).await.unwrap();
        order
    }
}

fn key(name: &str) -> BuyerKey {
    BuyerKey::of(&Buyer::parse(name).unwrap(), SALT)
}

#[tokio::test]
async fn every_change_is_sent_to_all_connections_of_its_buyer_and_to_no_others() {
    let pushing = Pushing::new().await;
    for (buyer, connection) in [("ann", "a1="), ("ann", "a2="), ("bob", "b1=")] {
        pushing.connects(buyer, connection).await;
    }
    pushing.placed_and_cancelled().await;
    let answer = pushing.handle(pushing.changes().await).await;
    assert_eq!(answer["batchItemFailures"], json!([]));
    let sent = pushing.sent_to("a1=");
    let statuses: Vec<&str> = sent.iter().map(|(status, _)| status.as_str()).collect();
    assert_eq!(statuses, ["PENDING_PAYMENT", "CLOSED"]);
    assert_eq!(pushing.sent_to("a2="), sent);
    assert_eq!(pushing.sent_to("b1="), []);

    // A duplicate delivery is sent twice; a client sees from the version that nothing is new.
    pushing.handle(pushing.changes().await).await;
    let again = pushing.sent_to("a1=");
    assert_eq!(again[2..], sent[..]);
    assert!(sent[0].1 < sent[1].1);
}

/// While nobody is connected, a batch of changes costs one read. A connection that another function records is found by
/// the next batch, also by a function that has just found nobody.
#[tokio::test]
async fn nobody_is_looked_for_while_nobody_is_connected() {
    let pushing = Pushing::new().await;
    let world = &pushing.world;
    pushing.placed_and_cancelled().await;
    let changes = pushing.changes().await;
    let calls = async || {
        world.wire.forget_calls();
        assert_eq!(pushing.handle(changes.clone()).await["batchItemFailures"], json!([]));
        world.cost().0
    };
    assert_eq!(calls().await, ["GetItem"]);

    let another = pushing.another();
    another.connects("ann", "a1=").await;
    assert_eq!(calls().await, ["GetItem", "Query"]);
    assert_eq!(pushing.sent_to("a1=").len(), 2);
    assert_eq!(calls().await, ["Query"], "that somebody is connected is remembered");
    // A connection lasts two hours at most.
    world.pass(3 * 60 * 60);
    assert_eq!(calls().await, ["GetItem"], "the mark is in the past");
}

#[tokio::test]
async fn the_mark_outlives_every_connection_and_is_written_every_ten_minutes_at_most() {
    let pushing = Pushing::new().await;
    let world = &pushing.world;
    let calls = async |connection: &str| {
        world.wire.forget_calls();
        pushing.connects("ann", connection).await;
        world.cost().0
    };
    assert_eq!(calls("a1=").await, ["PutItem", "PutItem"], "the mark, then the connection");
    world.pass(599);
    assert_eq!(calls("a2=").await, ["PutItem"], "the mark is new enough");
    world.pass(2 * 60 * 60);
    assert!(world.store.connections_marked(world.now()).await.unwrap().is_some(), "the second may still be open");
    assert_eq!(calls("a3=").await, ["PutItem", "PutItem"]);
    // A function whose clock is behind does not move the mark back.
    let marked = world.store.connections_marked(world.now()).await.unwrap();
    let earlier = world.now().checked_sub(jiff::SignedDuration::from_secs(60)).unwrap();
    world.store.mark_connections(None, earlier).await.unwrap();
    assert_eq!(world.store.connections_marked(world.now()).await.unwrap(), marked);
}

/// If the mark cannot be written, nothing is recorded, and the client connects again. If it cannot be read, the batch
/// comes again.
#[tokio::test]
async fn a_mark_that_fails_loses_no_change() {
    let pushing = Pushing::new().await;
    pushing.placed_and_cancelled().await;
    let changes = pushing.changes().await;
    pushing.world.fault(|_| Fault::ServerError);
    let mut event: Value = serde_json::from_str(include_str!("../events/push-connect.json")).unwrap();
    event["requestContext"]["authorizer"] = json!({ "principalId": key("ann") });
    assert!(push::handle(&pushing.app, event).await.is_err());
    let first = &changes["Records"][0]["dynamodb"]["SequenceNumber"];
    let answer = pushing.handle(changes.clone()).await;
    assert_eq!(answer["batchItemFailures"], json!([{ "itemIdentifier": first }]));
    pushing.world.clear_faults();
    assert!(pushing.world.store.connections_of(&key("ann")).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_connection_that_is_gone_is_removed_and_does_not_affect_the_others() {
    let pushing = Pushing::new().await;
    let store = &pushing.world.store;
    for connection in ["a1=", "a2="] {
        pushing.connects("ann", connection).await;
    }
    pushing.world.pass(6);
    pushing.answers("a1=", 410);
    pushing.placed_and_cancelled().await;
    let answer = pushing.handle(pushing.changes().await).await;
    assert_eq!(answer["batchItemFailures"], json!([]), "a closed connection is not a failure");
    assert_eq!(pushing.sent_to("a2=").len(), 2);
    assert_eq!(store.connections_of(&key("ann")).await.unwrap(), ["a2="]);
}

/// A connection is recorded before it is open, and looks gone until then.
#[tokio::test]
async fn a_connection_that_is_not_open_yet_is_not_removed() {
    let pushing = Pushing::new().await;
    let store = &pushing.world.store;
    pushing.placed_and_cancelled().await;
    let changes = pushing.changes().await;
    pushing.connects("ann", "a1=").await;
    pushing.answers("a1=", 410);
    for (seconds, known) in [(0, vec!["a1="]), (5, vec!["a1="]), (1, vec![])] {
        pushing.world.pass(seconds);
        assert_eq!(pushing.handle(changes.clone()).await["batchItemFailures"], json!([]));
        assert_eq!(store.connections_of(&key("ann")).await.unwrap(), known, "after {seconds} s more");
    }
}

#[tokio::test]
async fn a_failed_push_is_retried_from_the_failed_record_on() {
    let pushing = Pushing::new().await;
    pushing.connects("ann", "a1=").await;
    pushing.placed_and_cancelled().await;
    let changes = pushing.changes().await;
    pushing.answers("a1=", 500);
    let answer = pushing.handle(changes.clone()).await;
    let first = &changes["Records"][0]["dynamodb"]["SequenceNumber"];
    assert_eq!(answer["batchItemFailures"], json!([{ "itemIdentifier": first }]));
    pushing.answers("a1=", 200);
    assert_eq!(pushing.handle(changes).await["batchItemFailures"], json!([]));
    assert_eq!(pushing.sent_to("a1=").len(), 2);
}

#[tokio::test]
async fn a_ticket_is_valid_once_and_for_a_minute() {
    let pushing = Pushing::new().await;
    let world = &pushing.world;
    let asked = |ticket: &Ticket| {
        let mut event: Value = serde_json::from_str(include_str!("../events/push-authorize.json")).unwrap();
        event["queryStringParameters"]["token"] = ticket.reveal().into();
        event
    };
    let effect = |answer: &Value| answer["policyDocument"]["Statement"][0]["Effect"].as_str().unwrap().to_owned();
    let until = |world: &World| world.now().checked_add(domain::ticket::GOOD_FOR).unwrap();
    let (ticket, old) = (Ticket::new(7), Ticket::new(8));
    world.store.put_ticket(&ticket, &key("ann"), until(world)).await.unwrap();
    world.store.put_ticket(&old, &key("ann"), until(world)).await.unwrap();
    let allowed = pushing.handle(asked(&ticket)).await;
    assert_eq!((effect(&allowed).as_str(), &allowed["principalId"]), ("Allow", &json!(key("ann"))));
    assert_eq!(effect(&pushing.handle(asked(&ticket)).await), "Deny", "it was used before");
    world.pass(60);
    assert_eq!(effect(&pushing.handle(asked(&old)).await), "Deny", "it has expired");
}

/// As in `GET /orders`: a press that crashed before its hold will never become an order.
#[tokio::test]
async fn a_crashed_press_is_not_sent_as_accepted() {
    let pushing = Pushing::new().await;
    let world = &pushing.world;
    let offer = world.sale(5, 1).await;
    let (seckill, press) = (world.environment(), world.asks(&offer, "ann", 1, None));
    assert!(stopped(world, 4, Fault::Stops, seckill.purchase(&press)).await, "it ended before the hold");
    world.clear_faults();
    let mut says: Value = serde_json::from_str(include_str!("../events/push-connect.json")).unwrap();
    says["requestContext"]["authorizer"] = json!({ "principalId": key("ann") });
    says["requestContext"]["eventType"] = "MESSAGE".into();
    let connection = says["requestContext"]["connectionId"].as_str().unwrap().to_owned();
    pushing.handle(says.clone()).await;
    assert_eq!(pushing.sent_to(&connection).len(), 1, "the press may still be running");
    world.pass(60);
    pushing.handle(says).await;
    assert_eq!(pushing.sent_to(&connection).len(), 1, "an old claim without units is not sent");
}

#[tokio::test]
async fn a_connection_without_an_authorized_principal_is_refused() {
    let pushing = Pushing::new().await;
    let mut event: Value = serde_json::from_str(include_str!("../events/push-connect.json")).unwrap();
    event["requestContext"].as_object_mut().unwrap().remove("authorizer");
    assert_eq!(pushing.handle(event.clone()).await["statusCode"], 401);
    event["requestContext"]["authorizer"] = json!({ "principalId": key("ann") });
    assert_eq!(pushing.handle(event.clone()).await["statusCode"], 200);
    assert_eq!(pushing.world.store.connections_of(&key("ann")).await.unwrap(), ["JKJaXeGIvHcCIhw="]);
    event["requestContext"]["eventType"] = "DISCONNECT".into();
    pushing.handle(event).await;
    assert_eq!(pushing.world.store.connections_of(&key("ann")).await.unwrap(), Vec::<String>::new());
}
