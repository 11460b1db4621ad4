//! Repeats every call on a second DynamoDB engine. With `DYNAMODB_ENDPOINT` set, every DynamoDB call of a world goes
//! to the local cloud's engine and then to that one, and the two answers must mean the same. So each expression of
//! the store is checked against an independent implementation, in every state that a test creates.
//!
//! The second engine is called with plain blocking HTTP, because with a driven clock an answer must be there at once.
//! Each world uses an access key of its own, which both engines of `make engines` treat as an account of its own.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};

use local_cloud::engine::Hear;
use local_cloud::template::model::Stack;
use serde_json::{Map, Value, json};

/// Creates the template's tables on the second engine, if there is one, and returns what repeats each call on it.
pub fn beside(stack: &Stack) -> Option<Box<Hear>> {
    let endpoint = std::env::var("DYNAMODB_ENDPOINT").ok()?;
    let engine =
        Engine { address: endpoint.trim_start_matches("http://").trim_end_matches('/').to_owned(), account: account() };
    for table in &stack.tables {
        // A local engine may not support protection, encryption and tags.
        let mut create = Map::new();
        for key in ["TableName", "AttributeDefinitions", "KeySchema", "GlobalSecondaryIndexes", "BillingMode"] {
            create.extend(table.create.get(key).map(|value| (key.to_owned(), value.clone())));
        }
        let (status, said) = engine.ask("DynamoDB_20120810.CreateTable", &Value::Object(create).to_string());
        assert_eq!(status, 200, "{} at the second engine: {said}", table.name);
    }
    Some(Box::new(move |request, response| {
        let target = request.headers()["x-amz-target"].to_str().unwrap();
        let asked = String::from_utf8(request.body().to_vec()).unwrap();
        let ours: Value = serde_json::from_slice(response.body()).unwrap_or_default();
        let (status, theirs) = engine.ask(target, &asked);
        let (ours, theirs) = (meaning(response.status().as_u16(), &ours), meaning(status, &theirs));
        assert_eq!(ours, theirs, "the engines answer {target} differently\n{asked}");
    }))
}

struct Engine {
    address: String,
    account: String,
}

impl Engine {
    fn ask(&self, target: &str, body: &str) -> (u16, Value) {
        let mut stream = TcpStream::connect(&self.address)
            .unwrap_or_else(|error| panic!("no engine at DYNAMODB_ENDPOINT ({}): {error}", self.address));
        let credential = format!("{}/20261111/us-east-1/dynamodb/aws4_request", self.account);
        let request = format!(
            "POST / HTTP/1.1\r\nhost: {}\r\nconnection: close\r\ncontent-type: application/x-amz-json-1.0\r\n\
             x-amz-target: {target}\r\nx-amz-date: 20261111T000000Z\r\n\
             authorization: AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders=host, Signature=0\r\n\
             content-length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("an answer has a head");
        let head = String::from_utf8_lossy(&answer[..end]).to_ascii_lowercase();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let body = &answer[end + 4..];
        let body = if head.contains("transfer-encoding: chunked") { whole(body) } else { body.to_vec() };
        (status, serde_json::from_slice(&body).unwrap_or_default())
    }
}

/// The body of an answer with `transfer-encoding: chunked`.
fn whole(mut chunked: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(end) = chunked.windows(2).position(|two| two == b"\r\n") {
        let length = usize::from_str_radix(std::str::from_utf8(&chunked[..end]).unwrap().trim(), 16).unwrap();
        if length == 0 {
            break;
        }
        body.extend_from_slice(&chunked[end + 2..end + 2 + length]);
        chunked = &chunked[end + 2 + length + 2..];
    }
    body
}

/// An account number of twelve digits that no other world uses.
fn account() -> String {
    static MADE: AtomicU64 = AtomicU64::new(0);
    let made = MADE.fetch_add(1, Ordering::Relaxed);
    let random =
        std::hash::BuildHasher::hash_one(&std::collections::hash_map::RandomState::new(), (std::process::id(), made));
    format!("{:012}", random % 1_000_000_000_000)
}

/// An answer in a form that is equal for two engines if the answers mean the same. Errors are compared by their kind
/// and by the row that failed the condition, not by their text; rows and sets without order; consumed capacity not at
/// all.
fn meaning(status: u16, answer: &Value) -> Value {
    if status != 200 {
        let kind = answer["__type"].as_str().unwrap_or_default().rsplit('#').next().unwrap_or_default().to_owned();
        let reasons = answer["CancellationReasons"].as_array().map(|reasons| {
            let reason = |reason: &Value| {
                json!({"Code": reason["Code"].as_str().unwrap_or("None"), "Item": plain(&reason["Item"])})
            };
            reasons.iter().map(reason).collect::<Vec<_>>()
        });
        return json!({"refused": kind, "item": plain(&answer["Item"]), "reasons": reasons});
    }
    let mut said = BTreeMap::new();
    for key in ["Item", "Attributes", "Count", "ScannedCount", "LastEvaluatedKey"] {
        said.insert(key, plain(&answer[key]));
    }
    said.insert("Items", rows(&answer["Items"]));
    let responses = answer["Responses"].as_object().into_iter().flatten();
    said.insert("Responses", responses.map(|(table, found)| (table.clone(), rows(found))).collect());
    for key in ["UnprocessedKeys", "UnprocessedItems"] {
        let left = answer[key].as_object().is_some_and(|left| !left.is_empty());
        said.insert(key, json!(left));
    }
    json!(said)
}

fn rows(rows: &Value) -> Value {
    let mut rows: Vec<String> = rows.as_array().into_iter().flatten().map(|row| plain(row).to_string()).collect();
    rows.sort();
    json!(rows)
}

/// A value with its sets sorted.
fn plain(value: &Value) -> Value {
    match value {
        Value::Object(map) => map
            .iter()
            .map(|(key, value)| match (key.as_str(), value.as_array()) {
                ("NS" | "SS" | "BS", Some(members)) => {
                    let mut members: Vec<String> = members.iter().map(ToString::to_string).collect();
                    members.sort();
                    (key.clone(), json!(members))
                }
                _ => (key.clone(), plain(value)),
            })
            .collect(),
        Value::Array(list) => list.iter().map(plain).collect(),
        other => other.clone(),
    }
}
