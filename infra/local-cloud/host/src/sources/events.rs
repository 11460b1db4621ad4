//! The events that functions get, and the records about those that were given up, in AWS's own JSON.

use serde_json::{Map, Value, json};

use crate::REGION;
use crate::engine::dynamodb::StreamRecord;
use crate::engine::sqs::{MessageAttribute, Received};
use crate::invoke::FunctionError;

/// The event of an SQS event source mapping.
pub fn queue_event(queue_arn: &str, messages: &[Received]) -> Value {
    json!({ "Records": messages.iter().map(|message| queue_record(queue_arn, message)).collect::<Vec<_>>() })
}

/// One message in the event of an SQS event source mapping.
pub fn queue_record(queue_arn: &str, message: &Received) -> Value {
    let attributes: Map<String, Value> =
        message.attributes.iter().map(|(name, attribute)| (name.clone(), message_attribute(attribute))).collect();
    json!({
        "messageId": message.message_id,
        "receiptHandle": message.receipt_handle,
        "body": message.body,
        "attributes": message.system_attributes(),
        "messageAttributes": attributes,
        "md5OfBody": message.md5_of_body(),
        "eventSource": "aws:sqs",
        "eventSourceARN": queue_arn,
        "awsRegion": REGION,
    })
}

fn message_attribute(attribute: &MessageAttribute) -> Value {
    let mut value = json!({ "dataType": attribute.data_type, "stringListValues": [], "binaryListValues": [] });
    if let Some(fields) = value.as_object_mut() {
        if let Some(text) = &attribute.text {
            fields.insert("stringValue".into(), json!(text));
        }
        if let Some(binary) = &attribute.binary {
            fields.insert("binaryValue".into(), json!(binary));
        }
    }
    value
}

/// The event of a DynamoDB stream's event source mapping, from records as the stream's own API gives them.
pub fn stream_event<'a>(stream_arn: &str, records: impl IntoIterator<Item = &'a StreamRecord>) -> String {
    let mut event = String::from(r#"{"Records":["#);
    let source = json!(stream_arn).to_string();
    for (number, record) in records.into_iter().enumerate() {
        if number > 0 {
            event.push(',');
        }
        // A record is an object with fields, so it ends with a bracket that further fields can stand before.
        event.push_str(record.text.strip_suffix('}').unwrap_or(&record.text));
        event.push_str(r#","eventSourceARN":"#);
        event.push_str(&source);
        event.push('}');
    }
    event.push_str("]}");
    event
}

/// What Scheduler sends when a schedule has no input of its own.
pub fn schedule_event(execution_id: &str, schedule_arn: &str, scheduled_ms: i64) -> Value {
    json!({
        "version": "0",
        "id": execution_id,
        "detail-type": "Scheduled Event",
        "source": "aws.scheduler",
        "account": crate::ACCOUNT,
        "time": seconds_text(scheduled_ms),
        "region": REGION,
        "resources": [schedule_arn],
        "detail": "{}",
    })
}

/// A schedule's input with Scheduler's context attributes filled in.
pub fn fill_context(
    input: &str,
    schedule_arn: &str,
    scheduled_ms: i64,
    execution_id: &str,
    attempt_number: u32,
) -> String {
    if !input.contains("<aws.scheduler.") {
        return input.to_owned();
    }
    input
        .replace("<aws.scheduler.schedule-arn>", schedule_arn)
        .replace("<aws.scheduler.scheduled-time>", &seconds_text(scheduled_ms))
        .replace("<aws.scheduler.execution-id>", execution_id)
        .replace("<aws.scheduler.attempt-number>", &attempt_number.to_string())
}

/// Why an asynchronous event was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GivenUp {
    /// It failed once more than it may be tried again.
    RetriesExhausted,
    TooOld,
}

/// The record that an `OnFailure` destination gets about an asynchronous event.
pub fn failure_record(
    now_ms: i64,
    request_id: &str,
    function_arn: &str,
    why: GivenUp,
    invocations: u32,
    payload: &str,
    error: Option<&FunctionError>,
) -> Value {
    let condition = match why {
        GivenUp::RetriesExhausted => "RetriesExhausted",
        GivenUp::TooOld => "EventAgeExceeded",
    };
    let payload = serde_json::from_str(payload).unwrap_or_else(|_| json!(payload));
    let mut record = json!({
        "version": "1.0",
        "timestamp": milliseconds_text(now_ms),
        "requestContext": {
            "requestId": request_id,
            "functionArn": format!("{function_arn}:$LATEST"),
            "condition": condition,
            "approximateInvokeCount": invocations,
        },
        "requestPayload": payload,
    });
    if let (Some(fields), Some(error)) = (record.as_object_mut(), error) {
        fields.insert("responseContext".into(), response_context());
        fields
            .insert("responsePayload".into(), json!({ "errorType": error.error_type, "errorMessage": error.message }));
    }
    record
}

/// A stream's batch that was given up.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamBatch {
    pub stream_arn: String,
    pub shard_id: String,
    /// The first record's sequence number.
    pub first_sequence: String,
    /// The last record's sequence number.
    pub last_sequence: String,
    /// When the first record was written, in milliseconds since 1970.
    pub first_ms: i64,
    /// When the last record was written, in milliseconds since 1970.
    pub last_ms: i64,
    /// How many records.
    pub size: usize,
}

/// The record that a stream mapping's `OnFailure` destination gets about a batch. It says where the records are, not
/// what they hold.
pub fn stream_failure_record(
    now_ms: i64,
    request_id: &str,
    function_arn: &str,
    invocations: u32,
    batch: &StreamBatch,
) -> Value {
    json!({
        "version": "1.0",
        "timestamp": milliseconds_text(now_ms),
        "requestContext": {
            "requestId": request_id,
            "functionArn": function_arn,
            "condition": "RetryAttemptsExhausted",
            "approximateInvokeCount": invocations,
        },
        "responseContext": response_context(),
        "DDBStreamBatchInfo": {
            "shardId": batch.shard_id,
            "startSequenceNumber": batch.first_sequence,
            "endSequenceNumber": batch.last_sequence,
            "approximateArrivalOfFirstRecord": seconds_text(batch.first_ms),
            "approximateArrivalOfLastRecord": seconds_text(batch.last_ms),
            "batchSize": batch.size,
            "streamArn": batch.stream_arn,
        },
    })
}

fn response_context() -> Value {
    json!({ "statusCode": 200, "executedVersion": "$LATEST", "functionError": "Unhandled" })
}

/// `2026-11-16T12:00:00.000Z`
pub(super) fn milliseconds_text(at_ms: i64) -> String {
    jiff::Timestamp::from_millisecond(at_ms).unwrap_or_default().strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string()
}

/// `2026-11-16T12:00:00Z`
pub(super) fn seconds_text(at_ms: i64) -> String {
    jiff::Timestamp::from_millisecond(at_ms).unwrap_or_default().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::dynamodb::SequenceNumber;

    const NOW_MS: i64 = 1_700_000_000_123;

    #[test]
    fn a_failure_record_is_as_documented() {
        let error = FunctionError { error_type: "Sandbox.Timedout".into(), message: "too slow".into() };
        let arn = "arn:aws:lambda:us-east-1:000000000000:function:f";
        let record = failure_record(NOW_MS, "r-1", arn, GivenUp::RetriesExhausted, 3, r#"{"a":1}"#, Some(&error));
        let expected = json!({
            "version": "1.0",
            "timestamp": "2023-11-14T22:13:20.123Z",
            "requestContext": {
                "requestId": "r-1",
                "functionArn": "arn:aws:lambda:us-east-1:000000000000:function:f:$LATEST",
                "condition": "RetriesExhausted",
                "approximateInvokeCount": 3,
            },
            "requestPayload": { "a": 1 },
            "responseContext": { "statusCode": 200, "executedVersion": "$LATEST", "functionError": "Unhandled" },
            "responsePayload": { "errorType": "Sandbox.Timedout", "errorMessage": "too slow" },
        });
        assert_eq!(record, expected);
        let never_run = failure_record(NOW_MS, "r-1", arn, GivenUp::TooOld, 0, "{}", None);
        assert_eq!(never_run["requestContext"]["condition"], "EventAgeExceeded");
        assert!(never_run.get("responseContext").is_none());
    }

    #[test]
    fn a_schedules_context_is_filled_in() {
        let input = [
            r#"{"a":"<aws.scheduler.schedule-arn>","t":"<aws.scheduler.scheduled-time>","#,
            r#""e":"<aws.scheduler.execution-id>","n":<aws.scheduler.attempt-number>}"#,
        ];
        let input = &input.concat();
        let filled = fill_context(input, "arn:s", NOW_MS, "e-1", 2);
        assert_eq!(filled, r#"{"a":"arn:s","t":"2023-11-14T22:13:20Z","e":"e-1","n":2}"#);
    }

    #[test]
    fn stream_records_get_the_streams_arn() {
        let record = |id: &str| StreamRecord {
            sequence_number: SequenceNumber::before_all(),
            created_s: 0.0,
            text: json!({ "eventID": id, "dynamodb": { "SequenceNumber": "5" } }).to_string(),
        };
        let event: Value = serde_json::from_str(&stream_event("arn:\"stream", &[record("1"), record("2")])).unwrap();
        let expected = |id: &str| {
            let source = "arn:\"stream";
            json!({ "eventID": id, "dynamodb": { "SequenceNumber": "5" }, "eventSourceARN": source })
        };
        assert_eq!(event, json!({ "Records": [expected("1"), expected("2")] }));
        assert_eq!(stream_event("arn", &[]), r#"{"Records":[]}"#);
    }
}
