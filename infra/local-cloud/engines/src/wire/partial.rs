//! Batches of which a service refuses a part: it takes every second entry, and answers for the others that they may
//! be sent again.

use bytes::Bytes;
use http::{Request, Response};
use serde_json::{Value, json};

use super::Call;
use crate::engine::{Cloud, Service};

/// Whether the call is a batch whose entries have answers of their own.
pub(super) fn is_batch(call: &Call) -> bool {
    matches!(
        (call.service, call.operation.as_str()),
        (Service::Events, "PutEvents") | (Service::Sqs, "SendMessageBatch")
    )
}

/// Lets the service take the entries at even places, and refuses the others.
pub(super) async fn call(cloud: &Cloud, call: &Call, request: Request<Bytes>) -> Response<Bytes> {
    let mut body = call.json();
    let Some(Value::Array(all)) = body.get_mut("Entries").map(Value::take) else { return cloud.call(request).await };
    let at_even_places = all.iter().step_by(2).cloned().collect::<Vec<_>>();
    if let Some(entries) = body.get_mut("Entries") {
        *entries = at_even_places.into();
    }
    let (mut parts, _) = request.into_parts();
    parts.headers.remove(http::header::CONTENT_LENGTH);
    let (parts, answer) = cloud.call(Request::from_parts(parts, Bytes::from(body.to_string()))).await.into_parts();
    let Ok(answer) = serde_json::from_slice::<Value>(&answer) else { return Response::from_parts(parts, answer) };
    if !parts.status.is_success() {
        return Response::from_parts(parts, Bytes::from(answer.to_string()));
    }
    let refused = all.iter().skip(1).step_by(2);
    let answer = match call.service {
        Service::Events => put_events(&answer, all.len()),
        _ => send_batch(answer, refused),
    };
    Response::from_parts(parts, Bytes::from(answer.to_string()))
}

fn put_events(answer: &Value, entries: usize) -> Value {
    let mut taken = answer.get("Entries").and_then(Value::as_array).into_iter().flatten();
    let refused = json!({ "ErrorCode": "ThrottlingException", "ErrorMessage": "Rate exceeded (injected)" });
    let answers: Vec<Value> = (0..entries)
        .map(|place| if place % 2 == 0 { taken.next().cloned().unwrap_or_default() } else { refused.clone() })
        .collect();
    let failed = answers.iter().filter(|answer| answer.get("ErrorCode").is_some()).count();
    json!({ "FailedEntryCount": failed, "Entries": answers })
}

fn send_batch<'a>(mut answer: Value, refused: impl Iterator<Item = &'a Value>) -> Value {
    let refused: Vec<Value> = refused
        .map(|entry| {
            let id = entry.get("Id").cloned().unwrap_or_default();
            json!({ "Id": id, "Code": "InternalError", "SenderFault": false, "Message": "not taken (injected)" })
        })
        .collect();
    if let Some(answer) = answer.as_object_mut() {
        answer.insert("Failed".to_owned(), refused.into());
    }
    answer
}
