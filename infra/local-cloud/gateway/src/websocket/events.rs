//! The events of a WebSocket API, as API Gateway makes them.

use std::collections::BTreeMap;
use std::net::IpAddr;

use http::HeaderMap;
use http::request::Parts;
use serde_json::{Map, Value, json};

use crate::event::{host, text};
use crate::template::model::WebSocketApi;
use crate::text::{query_pairs, request_time};

/// What stays the same in a connection's life.
#[derive(Clone, Debug)]
pub(super) struct Session {
    pub(super) connection_id: String,
    pub(super) connected_at_ms: i64,
    pub(super) source_ip: IpAddr,
    pub(super) user_agent: String,
    pub(super) domain: String,
    /// What the authorizer said, passed on in every later event.
    pub(super) authorizer: Option<Value>,
}

/// One thing that happens to a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment<'a> {
    pub(super) route_key: &'a str,
    pub(super) request_id: &'a str,
    pub(super) now_ms: i64,
}

impl Session {
    pub(super) fn new(connection_id: String, request: &Parts, source_ip: IpAddr, now_ms: i64) -> Self {
        let user_agent = text(&request.headers, "user-agent");
        let domain = host(request);
        Self { connection_id, connected_at_ms: now_ms, source_ip, user_agent, domain, authorizer: None }
    }

    fn context(&self, api: &WebSocketApi, moment: Moment<'_>, event_type: &str) -> Map<String, Value> {
        let mut identity = Map::new();
        identity.insert("sourceIp".to_owned(), json!(self.source_ip.to_string()));
        if !self.user_agent.is_empty() {
            identity.insert("userAgent".to_owned(), json!(self.user_agent));
        }
        let fields = [
            ("routeKey", json!(moment.route_key)),
            ("eventType", json!(event_type)),
            ("extendedRequestId", json!(moment.request_id)),
            ("requestTime", json!(request_time(moment.now_ms))),
            ("messageDirection", json!("IN")),
            ("stage", json!(api.stage)),
            ("connectedAt", json!(self.connected_at_ms)),
            ("requestTimeEpoch", json!(moment.now_ms)),
            ("identity", Value::Object(identity)),
            ("requestId", json!(moment.request_id)),
            ("domainName", json!(self.domain)),
            ("connectionId", json!(self.connection_id)),
            ("apiId", json!(api_id(api))),
        ];
        let mut context: Map<String, Value> =
            fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        if let Some(authorizer) = &self.authorizer {
            context.insert("authorizer".to_owned(), authorizer.clone());
        }
        context
    }

    /// `$connect`: the request's headers and query come along.
    pub(super) fn connect(&self, api: &WebSocketApi, request: &Parts, moment: Moment<'_>) -> Value {
        let mut event = request_fields(request, self);
        event.insert("requestContext".to_owned(), Value::Object(self.context(api, moment, "CONNECT")));
        event.insert("isBase64Encoded".to_owned(), json!(false));
        Value::Object(event)
    }

    /// What the REQUEST authorizer is asked before `$connect`.
    pub(super) fn authorize(&self, api: &WebSocketApi, request: &Parts, moment: Moment<'_>) -> Value {
        let mut event = request_fields(request, self);
        event.insert("type".to_owned(), json!("REQUEST"));
        event.insert("methodArn".to_owned(), json!(method_arn(api)));
        event.insert("stageVariables".to_owned(), json!({}));
        event.insert("requestContext".to_owned(), Value::Object(self.context(api, moment, "CONNECT")));
        Value::Object(event)
    }

    /// A message from the client.
    pub(super) fn message(&self, api: &WebSocketApi, body: &str, moment: Moment<'_>) -> Value {
        let mut context = self.context(api, moment, "MESSAGE");
        context.insert("messageId".to_owned(), json!(moment.request_id));
        json!({ "requestContext": context, "body": body, "isBase64Encoded": false })
    }

    /// `$disconnect`, with the code and reason of the close.
    pub(super) fn disconnect(&self, api: &WebSocketApi, code: u16, reason: &str, moment: Moment<'_>) -> Value {
        let mut context = self.context(api, moment, "DISCONNECT");
        context.insert("disconnectStatusCode".to_owned(), json!(code));
        context.insert("disconnectReason".to_owned(), json!(reason));
        let headers = BTreeMap::from([
            ("Host", self.domain.clone()),
            ("x-api-key", String::new()),
            ("X-Forwarded-For", self.source_ip.to_string()),
            ("x-restapi", String::new()),
        ]);
        let all: BTreeMap<_, _> = headers.iter().map(|(name, value)| (*name, [value])).collect();
        json!({
            "headers": headers,
            "multiValueHeaders": all,
            "requestContext": context,
            "isBase64Encoded": false,
        })
    }
}

/// The last part of the ARN that `execute-api:ManageConnections` names.
fn api_id(api: &WebSocketApi) -> &str {
    api.execute_arn.rsplit(':').next().unwrap_or_default()
}

/// The resource that an authorizer's policy must allow.
pub(super) fn method_arn(api: &WebSocketApi) -> String {
    format!("{}/{}/$connect", api.execute_arn, api.stage)
}

fn request_fields(request: &Parts, session: &Session) -> Map<String, Value> {
    let mut event = Map::new();
    let mut headers: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for name in request.headers.keys() {
        headers.insert(title_case(name.as_str()), values(&request.headers, name.as_str()));
    }
    for (name, value) in [("X-Forwarded-For", session.source_ip.to_string()), ("X-Forwarded-Proto", "http".to_owned())]
    {
        headers.entry(name.to_owned()).or_default().push(value);
    }
    insert_pairs(&mut event, "headers", "multiValueHeaders", headers);
    let mut query: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, value) in query_pairs(request.uri.query().unwrap_or_default()) {
        query.entry(name).or_default().push(value);
    }
    if !query.is_empty() {
        insert_pairs(&mut event, "queryStringParameters", "multiValueQueryStringParameters", query);
    }
    event
}

/// One value of each name, the last, and all of them.
fn insert_pairs(event: &mut Map<String, Value>, one: &str, all: &str, pairs: BTreeMap<String, Vec<String>>) {
    let last: BTreeMap<&String, Option<&String>> = pairs.iter().map(|(name, values)| (name, values.last())).collect();
    event.insert(one.to_owned(), json!(last));
    event.insert(all.to_owned(), json!(pairs));
}

fn values(headers: &HeaderMap, name: &str) -> Vec<String> {
    headers.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect()
}

/// `sec-websocket-key` as `Sec-WebSocket-Key`: WebSocket events carry header names as HTTP/1.1 clients write them.
fn title_case(name: &str) -> String {
    let words: Vec<String> = name
        .split('-')
        .map(|word| match word {
            "websocket" => "WebSocket".to_owned(),
            _ => {
                let mut letters = word.chars();
                letters
                    .next()
                    .map_or_else(String::new, |first| first.to_ascii_uppercase().to_string() + letters.as_str())
            }
        })
        .collect();
    words.join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn api() -> WebSocketApi {
        WebSocketApi {
            stage: "prod".to_owned(),
            execute_arn: "arn:aws:execute-api:us-east-1:000000000000:ordersocket".to_owned(),
            ..WebSocketApi::default()
        }
    }

    fn request() -> Parts {
        let request = http::Request::get("/ws?token=abc&x=1&x=2").header("host", "127.0.0.1:3000");
        request.header("sec-websocket-key", "k").header("user-agent", "test/1").body(()).unwrap().into_parts().0
    }

    fn session() -> Session {
        Session::new("L0SM9cOFvHcCIhw=".to_owned(), &request(), "127.0.0.1".parse().unwrap(), 1_583_348_638_390)
    }

    const MOMENT: Moment<'static> =
        Moment { route_key: "$connect", request_id: "JKJaXmPLvHcESHA=", now_ms: 1_583_348_638_390 };

    #[test]
    fn a_whole_connect_event() {
        let expected = json!({
            "headers": {"Host": "127.0.0.1:3000", "Sec-WebSocket-Key": "k", "User-Agent": "test/1",
                "X-Forwarded-For": "127.0.0.1", "X-Forwarded-Proto": "http"},
            "multiValueHeaders": {"Host": ["127.0.0.1:3000"], "Sec-WebSocket-Key": ["k"], "User-Agent": ["test/1"],
                "X-Forwarded-For": ["127.0.0.1"], "X-Forwarded-Proto": ["http"]},
            "queryStringParameters": {"token": "abc", "x": "2"},
            "multiValueQueryStringParameters": {"token": ["abc"], "x": ["1", "2"]},
            "requestContext": {
                "routeKey": "$connect", "eventType": "CONNECT", "extendedRequestId": "JKJaXmPLvHcESHA=",
                "requestTime": "04/Mar/2020:19:03:58 +0000", "messageDirection": "IN", "stage": "prod",
                "connectedAt": 1_583_348_638_390_i64, "requestTimeEpoch": 1_583_348_638_390_i64,
                "identity": {"sourceIp": "127.0.0.1", "userAgent": "test/1"}, "requestId": "JKJaXmPLvHcESHA=",
                "domainName": "127.0.0.1:3000", "connectionId": "L0SM9cOFvHcCIhw=", "apiId": "ordersocket",
            },
            "isBase64Encoded": false,
        });
        assert_eq!(session().connect(&api(), &request(), MOMENT), expected);
    }

    #[test]
    fn an_authorizer_is_asked_about_the_connect_method() {
        let event = session().authorize(&api(), &request(), MOMENT);
        assert_eq!(event["type"], "REQUEST");
        assert_eq!(event["methodArn"], "arn:aws:execute-api:us-east-1:000000000000:ordersocket/prod/$connect");
        assert_eq!(event["queryStringParameters"]["token"], "abc");
    }

    #[test]
    fn later_events_carry_the_authorizer_and_no_headers_of_the_request() {
        let session = Session { authorizer: Some(json!({"principalId": "b1"})), ..session() };
        let event = session.message(&api(), "hi", Moment { route_key: "$default", ..MOMENT });
        assert_eq!(event["body"], "hi");
        assert_eq!(event["requestContext"]["authorizer"]["principalId"], "b1");
        assert_eq!(event["requestContext"]["messageId"], "JKJaXmPLvHcESHA=");
        assert_eq!(event["requestContext"]["eventType"], "MESSAGE");
        assert_eq!(event.get("headers"), None);
        let event = session.disconnect(&api(), 1001, "Going away", Moment { route_key: "$disconnect", ..MOMENT });
        assert_eq!(event["requestContext"]["disconnectStatusCode"], 1001);
        assert_eq!(event["requestContext"]["eventType"], "DISCONNECT");
        assert_eq!(event["requestContext"]["authorizer"]["principalId"], "b1");
    }
}
