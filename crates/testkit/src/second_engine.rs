//! The same calls on a second engine: with `DYNAMODB_ENDPOINT` set, every DynamoDB call of a world goes to that engine too, after the local cloud's own, and
//! the two answers must say the same. So each expression of the store is held against software that nobody here wrote, in every state that a test brings about.
//!
//! It is spoken to in plain blocking HTTP: on a driven clock an answer has to be there at once. Each world has an access key of its own, which both engines
//! that are used (`make engines`) take for an account of its own.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};

use local_cloud::engine::Hear;
use local_cloud::template::model::Stack;
use serde_json::{Map, Value, json};

/// What tells a second engine of every call, if there is one.
pub fn beside(stack: &Stack) -> Option<Box<Hear>> {
    let endpoint = std::env::var("DYNAMODB_ENDPOINT").ok()?;
    let engine =
        Engine { address: endpoint.trim_start_matches("http://").trim_end_matches('/').to_owned(), account: account() };
    for table in &stack.tables {
        // Protection, encryption and tags are the account's business; an engine on one machine may not know them.
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
        let (ours, theirs) = (told(response.status().as_u16(), &ours), told(status, &theirs));
        assert_eq!(ours, theirs, "the engines differ about {target}\n{asked}");
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
            "POST / HTTP/1.1\r\nhost: {}\r\nconnection: close\r\ncontent-type: application/x-amz-json-1.0\r\nx-amz-target: {target}\r\n\
             x-amz-date: 20261111T000000Z\r\nauthorization: AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders=host, Signature=0\r\n\
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

/// The body of chunks.
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

/// Twelve digits, as an account has them, of this world alone.
fn account() -> String {
    static MADE: AtomicU64 = AtomicU64::new(0);
    let made = MADE.fetch_add(1, Ordering::Relaxed);
    let random =
        std::hash::BuildHasher::hash_one(&std::collections::hash_map::RandomState::new(), (std::process::id(), made));
    format!("{:012}", random % 1_000_000_000_000)
}

/// What an answer says, in a form in which two engines' answers are equal if they mean the same: refusals by their kind and by the row that refused, not by
/// their words; rows of a set without an order; no capacity, which is counted elsewhere.
fn told(status: u16, answer: &Value) -> Value {
    if status != 200 {
        let kind = answer["__type"].as_str().unwrap_or_default().rsplit('#').next().unwrap_or_default().to_owned();
        let reasons = answer["CancellationReasons"].as_array().map(|reasons| {
            let reason = |reason: &Value| json!({"Code": reason["Code"].as_str().unwrap_or("None"), "Item": plain(&reason["Item"])});
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
    let left = answer["UnprocessedKeys"].as_object().is_some_and(|left| !left.is_empty());
    said.insert("UnprocessedKeys", json!(left));
    json!(said)
}

fn rows(rows: &Value) -> Value {
    let mut rows: Vec<String> = rows.as_array().into_iter().flatten().map(|row| plain(row).to_string()).collect();
    rows.sort();
    json!(rows)
}

/// A value with its sets in order, and numbers as they are written.
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
