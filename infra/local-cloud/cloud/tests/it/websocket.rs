//! The WebSocket API from outside: a real client, closures as functions.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::{SinkExt as _, StreamExt as _};
use local_cloud::invoke::{FunctionError, Invoker, Outcome};
use local_cloud::template::model::{RequestAuthorizer, Stack, WebSocketApi};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use crate::gateway::{Running, json_of, start};

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

fn stack(authorizer: bool) -> Stack {
    let routes =
        [("$connect", "connect"), ("$disconnect", "note"), ("$default", "note"), ("ping", "note"), ("fail", "fail")];
    let api = WebSocketApi {
        logical_id: "OrderSocket".to_owned(),
        stage: "prod".to_owned(),
        execute_arn: "arn:aws:execute-api:us-east-1:000000000000:ordersocket".to_owned(),
        routes: routes
            .iter()
            .map(|(key, function)| ((*key).to_owned(), (*function).to_owned()))
            .collect::<BTreeMap<_, _>>(),
        route_selection: "$request.body.action".to_owned(),
        connect_authorizer: authorizer.then(|| RequestAuthorizer {
            function: "authorize".to_owned(),
            identity: vec!["route.request.querystring.token".to_owned()],
        }),
    };
    Stack { websocket_api: Some(api), ..Stack::default() }
}

/// Functions that tell what they got.
fn functions() -> (Invoker, mpsc::UnboundedReceiver<Value>) {
    let (told, seen) = mpsc::unbounded_channel();
    let invoker: Invoker = Arc::new(move |name, event| {
        let event: Value = serde_json::from_slice(&event).unwrap();
        told.send(event.clone()).unwrap();
        Box::pin(async move {
            let token = event["queryStringParameters"]["token"].as_str().unwrap_or_default();
            match (name.as_str(), token) {
                ("authorize", "broken") => Outcome::Answered(Bytes::from_static(b"\"yes\"")),
                ("authorize", "unauthorized") => Outcome::Failed(FunctionError {
                    error_type: "Error".to_owned(),
                    message: "Unauthorized".to_owned(),
                }),
                ("authorize", _) => {
                    let effect = if token == "bad" { "Deny" } else { "Allow" };
                    let statement =
                        json!({"Effect": effect, "Action": "execute-api:Invoke", "Resource": event["methodArn"]});
                    let policy = json!({"Version": "2012-10-17", "Statement": [statement]});
                    let answer = json!({"principalId": "buyer-1", "policyDocument": policy, "context": {"level": 3}});
                    Outcome::Answered(answer.to_string().into())
                }
                ("connect", "refused") => {
                    Outcome::Answered(json!({"statusCode": 403, "body": "no"}).to_string().into())
                }
                ("fail", _) | ("connect", "fail") => {
                    Outcome::Failed(FunctionError { error_type: "E".to_owned(), message: "m".to_owned() })
                }
                _ => Outcome::Answered(json!({"statusCode": 200}).to_string().into()),
            }
        })
    });
    (invoker, seen)
}

async fn connect(running: &Running, query: &str) -> Result<Socket, u16> {
    match connect_async(format!("ws://{}/ws{query}", running.gateway.address())).await {
        Ok((socket, _)) => Ok(socket),
        Err(Error::Http(response)) => Err(response.status().as_u16()),
        Err(error) => panic!("{error}"),
    }
}

fn connection_path(event: &Value) -> String {
    format!("/prod/@connections/{}", event["requestContext"]["connectionId"].as_str().unwrap().replace('=', "%3D"))
}

async fn close_code(socket: &mut Socket) -> Option<u16> {
    loop {
        match socket.next().await {
            Some(Ok(Message::Close(frame))) => return frame.map(|frame| frame.code.into()),
            Some(Ok(_)) => {}
            Some(Err(_)) | None => return None,
        }
    }
}

#[tokio::test]
async fn the_life_of_a_connection() {
    let (invoker, mut seen) = functions();
    let running = start(stack(true), invoker).await;
    let mut socket = connect(&running, "?token=good").await.unwrap();
    assert_eq!(seen.recv().await.unwrap()["type"], "REQUEST");
    let connected = seen.recv().await.unwrap();
    assert_eq!(connected["requestContext"]["eventType"], "CONNECT");
    assert_eq!(connected["requestContext"]["authorizer"], json!({"principalId": "buyer-1", "level": "3"}));

    // A message goes to the route that it names, others to $default.
    for (message, route) in
        [(r#"{"action":"ping"}"#, "ping"), ("hello", "$default"), (r#"{"action":"$connect"}"#, "$default")]
    {
        socket.send(Message::text(message)).await.unwrap();
        let event = seen.recv().await.unwrap();
        assert_eq!(
            (event["requestContext"]["routeKey"].as_str(), event["body"].as_str()),
            (Some(route), Some(message))
        );
        assert_eq!(event["requestContext"]["connectionId"], connected["requestContext"]["connectionId"]);
        assert_eq!(event["requestContext"]["authorizer"]["principalId"], "buyer-1");
    }

    // A function posts to it, looks at it and closes it.
    let path = connection_path(&connected);
    assert_eq!(running.call("POST", &path, &[], r#"{"status":"PAID"}"#).await.status(), 200);
    assert_eq!(socket.next().await.unwrap().unwrap(), Message::text(r#"{"status":"PAID"}"#));
    let looked = running.call("GET", &path, &[], "").await;
    assert_eq!(json_of(&looked)["identity"]["sourceIp"], "127.0.0.1");
    assert_eq!(running.call("DELETE", &path, &[], "").await.status(), 204);
    assert_eq!(close_code(&mut socket).await, Some(1000));
    let ended = seen.recv().await.unwrap();
    assert_eq!(ended["requestContext"]["eventType"], "DISCONNECT");
    assert_eq!(ended["requestContext"]["authorizer"]["principalId"], "buyer-1");
    let gone = running.call("POST", &path, &[], "late").await;
    assert_eq!((gone.status().as_u16(), gone.headers()["x-amzn-errortype"].to_str().unwrap()), (410, "GoneException"));
}

#[tokio::test]
async fn a_client_that_leaves_is_gone() {
    let (invoker, mut seen) = functions();
    let running = start(stack(false), invoker).await;
    let mut socket = connect(&running, "").await.unwrap();
    let connected = seen.recv().await.unwrap();
    socket.close(None).await.unwrap();
    let ended = seen.recv().await.unwrap();
    assert_eq!(ended["requestContext"]["disconnectStatusCode"], 1005);
    assert_eq!(running.call("POST", &connection_path(&connected), &[], "late").await.status(), 410);

    // One that vanishes without a word, too.
    let socket = connect(&running, "").await.unwrap();
    let connected = seen.recv().await.unwrap();
    drop(socket);
    assert_eq!(seen.recv().await.unwrap()["requestContext"]["disconnectStatusCode"], 1006);
    assert_eq!(running.call("POST", &connection_path(&connected), &[], "late").await.status(), 410);
}

#[tokio::test]
async fn who_may_connect_is_the_authorizers_word() {
    let (invoker, mut seen) = functions();
    let running = start(stack(true), invoker).await;
    assert_eq!(connect(&running, "").await.err(), Some(401));
    assert!(seen.try_recv().is_err(), "without an identity nobody is asked");
    assert_eq!(connect(&running, "?token=bad").await.err(), Some(403));
    assert_eq!(connect(&running, "?token=unauthorized").await.err(), Some(401));
    assert_eq!(connect(&running, "?token=broken").await.err(), Some(500));
    assert!(connect(&running, "?token=good").await.is_ok());
}

#[tokio::test]
async fn without_an_authorizer_the_connect_route_decides() {
    let (invoker, _seen) = functions();
    let running = start(stack(false), invoker).await;
    assert_eq!(connect(&running, "?token=refused").await.err(), Some(403));
    assert_eq!(connect(&running, "?token=fail").await.err(), Some(502));
    assert!(connect(&running, "/deeper?token=good").await.is_ok());
    assert_eq!(running.call("GET", "/ws", &[], "").await.status(), 400, "no upgrade");
}

#[tokio::test]
async fn a_message_whose_function_fails_is_answered() {
    let (invoker, _seen) = functions();
    let running = start(stack(false), invoker).await;
    let mut socket = connect(&running, "").await.unwrap();
    socket.send(Message::text(r#"{"action":"fail"}"#)).await.unwrap();
    let Message::Text(text) = socket.next().await.unwrap().unwrap() else { panic!("text") };
    let reply: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(reply["message"], "Internal server error");
    assert_eq!(reply["connectionId"].as_str().unwrap().len(), 16);
}

#[tokio::test]
async fn silence_and_age_end_a_connection() {
    let (invoker, mut seen) = functions();
    let running = start(stack(false), invoker).await;
    let mut socket = connect(&running, "").await.unwrap();
    seen.recv().await.unwrap();
    running.clock.advance(Duration::from_secs(599));
    socket.send(Message::text("still here")).await.unwrap();
    seen.recv().await.unwrap();
    running.clock.advance(Duration::from_secs(599));
    socket.send(Message::text("still here")).await.unwrap();
    seen.recv().await.unwrap();
    running.clock.advance(Duration::from_secs(600));
    assert_eq!(close_code(&mut socket).await, Some(1001));
    assert_eq!(seen.recv().await.unwrap()["requestContext"]["disconnectReason"], "Idle timeout");

    let mut socket = connect(&running, "").await.unwrap();
    seen.recv().await.unwrap();
    for _ in 0..13 {
        running.clock.advance(Duration::from_secs(540));
        socket.send(Message::text("still here")).await.unwrap();
        seen.recv().await.unwrap();
    }
    running.clock.advance(Duration::from_secs(540));
    assert_eq!(close_code(&mut socket).await, Some(1001));
    assert_eq!(seen.recv().await.unwrap()["requestContext"]["disconnectReason"], "Going away");
}

#[tokio::test]
async fn frames_and_kinds_have_limits() {
    let (invoker, mut seen) = functions();
    let running = start(stack(false), invoker).await;
    for (message, code) in [(Message::text("x".repeat(33 * 1024)), 1009), (Message::binary(vec![1, 2, 3]), 1003)] {
        let mut socket = connect(&running, "").await.unwrap();
        seen.recv().await.unwrap();
        socket.send(message).await.unwrap();
        assert_eq!(close_code(&mut socket).await, Some(code));
        assert_eq!(seen.recv().await.unwrap()["requestContext"]["disconnectStatusCode"], code);
    }
    let mut socket = connect(&running, "").await.unwrap();
    let connected = seen.recv().await.unwrap();
    socket.send(Message::text("x".repeat(31 * 1024))).await.unwrap();
    assert_eq!(seen.recv().await.unwrap()["body"].as_str().unwrap().len(), 31 * 1024);
    let path = connection_path(&connected);
    let large = running.call("POST", &path, &[], vec![b'x'; 128 * 1024 + 1]).await;
    assert_eq!(large.status(), 413);
    assert_eq!(running.call("POST", &path, &[], vec![b'x'; 128 * 1024]).await.status(), 200);
    assert_eq!(socket.next().await.unwrap().unwrap().len(), 128 * 1024);
}

#[tokio::test]
async fn a_stop_closes_connections_and_tells_their_function() {
    let (invoker, mut seen) = functions();
    let running = start(stack(false), invoker).await;
    let mut socket = connect(&running, "").await.unwrap();
    seen.recv().await.unwrap();
    let stop = tokio::spawn(running.gateway.stop());
    assert_eq!(close_code(&mut socket).await, Some(1001));
    stop.await.unwrap();
    assert_eq!(seen.try_recv().unwrap()["requestContext"]["eventType"], "DISCONNECT");
}
