//! SQS's JSON protocol over the functions of this module.

use std::collections::BTreeMap;

use bytes::Bytes;
use http::{Response, StatusCode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::batch::Entry;
use super::{MessageAttribute, Outgoing, Receive, Received, Sent, Sqs, SqsError, queue};
use crate::engine::answer::respond;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ToQueue {
    queue_url: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct SendInput {
    message_body: Option<String>,
    delay_seconds: Option<i64>,
    #[serde(default)]
    message_attributes: BTreeMap<String, MessageAttribute>,
    #[serde(default)]
    message_system_attributes: BTreeMap<String, MessageAttribute>,
    #[serde(default)]
    id: String,
}

impl SendInput {
    fn into_message(self) -> Outgoing {
        let mut system = self.message_system_attributes;
        Outgoing {
            body: self.message_body.unwrap_or_default(),
            delay_s: self.delay_seconds,
            attributes: self.message_attributes,
            trace_header: system.remove("AWSTraceHeader").and_then(|attribute| attribute.text),
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ReceiptInput {
    #[serde(default)]
    id: String,
    receipt_handle: Option<String>,
    visibility_timeout: Option<i64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Entries<T> {
    #[serde(default = "Vec::new")]
    entries: Vec<T>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ReceiveInput {
    #[serde(default)]
    attribute_names: Vec<String>,
    #[serde(default)]
    message_system_attribute_names: Vec<String>,
    #[serde(default)]
    message_attribute_names: Vec<String>,
    max_number_of_messages: Option<i64>,
    visibility_timeout: Option<i64>,
    wait_time_seconds: Option<i64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct AttributesInput {
    #[serde(default)]
    attributes: BTreeMap<String, String>,
    #[serde(default)]
    attribute_names: Vec<String>,
}

impl Sqs {
    /// Answers one request of SQS's JSON protocol.
    pub(crate) async fn call(&self, operation: &str, body: &Bytes) -> Response<Bytes> {
        match self.dispatch(operation, body).await {
            Ok(answer) => respond(StatusCode::OK, "application/x-amz-json-1.0", &answer),
            Err(error) => error.respond(),
        }
    }

    async fn dispatch(&self, operation: &str, body: &[u8]) -> Result<Value, SqsError> {
        match operation {
            "CreateQueue" => {
                let name = text(body, "QueueName")?;
                let input: AttributesInput = read(body)?;
                let url = self.create_queue(&name, input.attributes).await?;
                Ok(json!({"QueueUrl": url}))
            }
            "GetQueueUrl" => {
                let name = text(body, "QueueName")?;
                match self.exists(&name).await? {
                    true => Ok(json!({"QueueUrl": Self::url_of(&name)})),
                    false => Err(SqsError::QueueDoesNotExist(name)),
                }
            }
            "ListQueues" => self.list_queues(body).await,
            _ => {
                let url = required(read::<ToQueue>(body)?.queue_url, "QueueUrl")?;
                self.dispatch_to_queue(operation, queue::name_in_url(&url), body).await
            }
        }
    }

    async fn dispatch_to_queue(&self, operation: &str, queue: &str, body: &[u8]) -> Result<Value, SqsError> {
        match operation {
            "SendMessage" => {
                let input: SendInput = read(body)?;
                Ok(sent_json(&self.send(queue, input.into_message()).await?))
            }
            "SendMessageBatch" => {
                let input: Entries<SendInput> = read(body)?;
                let entries =
                    input.entries.into_iter().map(|mut entry| (std::mem::take(&mut entry.id), entry.into_message()));
                Ok(batch_json(self.send_batch(queue, entries.collect()).await?, sent_json))
            }
            "ReceiveMessage" => self.receive_messages(queue, read(body)?).await,
            "DeleteMessage" => {
                let input: ReceiptInput = read(body)?;
                self.delete(queue, &required(input.receipt_handle, "ReceiptHandle")?).await?;
                Ok(json!({}))
            }
            "DeleteMessageBatch" => {
                let input: Entries<ReceiptInput> = read(body)?;
                let entries =
                    input.entries.into_iter().map(|entry| (entry.id, entry.receipt_handle.unwrap_or_default()));
                Ok(batch_json(self.delete_batch(queue, entries.collect()).await?, |()| json!({})))
            }
            "ChangeMessageVisibility" => {
                let input: ReceiptInput = read(body)?;
                let handle = required(input.receipt_handle, "ReceiptHandle")?;
                let visibility_s = required(input.visibility_timeout, "VisibilityTimeout")?;
                self.change_visibility(queue, &handle, visibility_s).await?;
                Ok(json!({}))
            }
            "ChangeMessageVisibilityBatch" => {
                let input: Entries<ReceiptInput> = read(body)?;
                let entries = input.entries.into_iter().map(|entry| {
                    (entry.id, (entry.receipt_handle.unwrap_or_default(), entry.visibility_timeout.unwrap_or(-1)))
                });
                Ok(batch_json(self.change_visibility_batch(queue, entries.collect()).await?, |()| json!({})))
            }
            "GetQueueAttributes" => {
                let input: AttributesInput = read(body)?;
                let mut all = self.attributes(queue).await?;
                let wanted = |name: &String| input.attribute_names.iter().any(|asked| asked == "All" || asked == name);
                all.retain(|name, _| wanted(name));
                Ok(json!({"Attributes": all}))
            }
            "SetQueueAttributes" => {
                let input: AttributesInput = read(body)?;
                self.set_attributes(queue, input.attributes).await?;
                Ok(json!({}))
            }
            "PurgeQueue" => self.purge(queue).await.map(|()| json!({})),
            "DeleteQueue" => self.delete_queue(queue).await.map(|()| json!({})),
            "ListDeadLetterSourceQueues" => {
                let names = self.dead_letter_sources(queue).await?;
                let urls: Vec<String> = names.iter().map(|name| Self::url_of(name)).collect();
                Ok(json!({"queueUrls": urls}))
            }
            other => {
                Err(SqsError::UnsupportedOperation(format!("SQS operation {other} is not part of the local cloud")))
            }
        }
    }

    async fn receive_messages(&self, queue: &str, input: ReceiveInput) -> Result<Value, SqsError> {
        let how = Receive {
            max: usize::try_from(input.max_number_of_messages.unwrap_or(1)).unwrap_or(0),
            wait_s: input.wait_time_seconds,
            visibility_s: input.visibility_timeout,
        };
        let mut system = input.attribute_names;
        system.extend(input.message_system_attribute_names);
        let messages = self.receive(queue, how).await?;
        if messages.is_empty() {
            return Ok(json!({}));
        }
        let messages: Vec<Value> =
            messages.iter().map(|message| received_json(message, &system, &input.message_attribute_names)).collect();
        Ok(json!({"Messages": messages}))
    }

    async fn list_queues(&self, body: &[u8]) -> Result<Value, SqsError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "PascalCase")]
        struct Input {
            #[serde(default)]
            queue_name_prefix: String,
            #[serde(default)]
            next_token: String,
            max_results: Option<i64>,
        }
        let input: Input = read(body)?;
        let limit = input.max_results.unwrap_or(1_000).clamp(1, 1_000);
        let names = self.list(&input.queue_name_prefix, &input.next_token, limit).await?;
        let urls: Vec<String> = names.iter().map(|name| Self::url_of(name)).collect();
        let mut answer = json!({"QueueUrls": urls});
        // Like SQS, a token only when the caller asked for pages.
        if let (Some(asked), Some(last)) = (input.max_results, names.last())
            && i64::try_from(names.len()).is_ok_and(|count| count == asked)
            && let Some(answer) = answer.as_object_mut()
        {
            answer.insert("NextToken".to_owned(), json!(last));
        }
        Ok(answer)
    }
}

fn sent_json(sent: &Sent) -> Value {
    let mut answer = json!({"MessageId": sent.message_id, "MD5OfMessageBody": sent.md5_of_body});
    if let (Some(digest), Some(answer)) = (&sent.md5_of_attributes, answer.as_object_mut()) {
        answer.insert("MD5OfMessageAttributes".to_owned(), json!(digest));
    }
    answer
}

fn received_json(message: &Received, system: &[String], wanted: &[String]) -> Value {
    let mut answer = json!({
        "MessageId": message.message_id,
        "ReceiptHandle": message.receipt_handle,
        "Body": message.body,
        "MD5OfBody": message.md5_of_body(),
    });
    let Some(fields) = answer.as_object_mut() else {
        return answer;
    };
    let mut attributes = message.system_attributes();
    attributes.retain(|name, _| system.iter().any(|asked| asked == "All" || asked == name));
    if !attributes.is_empty() {
        fields.insert("Attributes".to_owned(), json!(attributes));
    }
    let mut chosen = message.attributes.clone();
    chosen.retain(|name, _| wanted.iter().any(|asked| matches_name(asked, name)));
    if let Some(digest) = super::digest::of_attributes(&chosen) {
        fields.insert("MD5OfMessageAttributes".to_owned(), json!(digest));
        fields.insert("MessageAttributes".to_owned(), json!(chosen));
    }
    answer
}

/// `All`, `.*`, `prefix.*` or the name itself.
fn matches_name(asked: &str, name: &str) -> bool {
    asked == "All" || asked == name || asked.strip_suffix(".*").is_some_and(|prefix| name.starts_with(prefix))
}

fn batch_json<T>(entries: Vec<Entry<T>>, success: impl Fn(&T) -> Value) -> Value {
    let (mut successful, mut failed) = (Vec::new(), Vec::new());
    for (id, answer) in entries {
        match answer {
            Ok(done) => {
                let mut entry = success(&done);
                if let Some(entry) = entry.as_object_mut() {
                    entry.insert("Id".to_owned(), json!(id));
                }
                successful.push(entry);
            }
            Err(error) => failed.push(json!({
                "Id": id, "Code": error.code(), "Message": error.to_string(), "SenderFault": !error.is_internal(),
            })),
        }
    }
    let mut answer = json!({"Successful": successful});
    if let (false, Some(answer)) = (failed.is_empty(), answer.as_object_mut()) {
        answer.insert("Failed".to_owned(), json!(failed));
    }
    answer
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, SqsError> {
    serde_json::from_slice(body)
        .map_err(|error| SqsError::InvalidParameterValue(format!("The request is malformed: {error}")))
}

fn required<T>(value: Option<T>, name: &'static str) -> Result<T, SqsError> {
    value.ok_or(SqsError::MissingParameter(name))
}

fn optional_text(body: &[u8], name: &str) -> Result<Option<String>, SqsError> {
    let fields: BTreeMap<String, Value> = read(body)?;
    Ok(fields.get(name).and_then(Value::as_str).map(str::to_owned))
}

fn text(body: &[u8], name: &'static str) -> Result<String, SqsError> {
    required(optional_text(body, name)?, name)
}
