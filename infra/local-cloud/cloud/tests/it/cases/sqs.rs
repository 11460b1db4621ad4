//! SQS, case by case.

use std::time::{Duration, Instant};

use aws_sdk_sqs::error::ProvideErrorMetadata as _;
use aws_sdk_sqs::primitives::Blob;
use aws_sdk_sqs::types::{
    ChangeMessageVisibilityBatchRequestEntry, DeleteMessageBatchRequestEntry, Message, MessageAttributeValue,
    MessageSystemAttributeName, MessageSystemAttributeNameForSends, MessageSystemAttributeValue,
    SendMessageBatchRequestEntry,
};

use crate::target::Target;

const SECOND: Duration = Duration::from_secs(1);

impl Target {
    async fn send(&self, url: &str, body: &str) -> String {
        let sent = self.sqs.send_message().queue_url(url).message_body(body).send().await;
        sent.expect("a sent message").message_id.expect("an id")
    }

    /// One receive of up to ten messages, with every system attribute.
    async fn receive(&self, url: &str) -> Vec<Message> {
        let request = self.sqs.receive_message().queue_url(url).max_number_of_messages(10);
        let request = request.message_system_attribute_names(MessageSystemAttributeName::All);
        request.message_attribute_names("All").send().await.expect("a receive").messages.unwrap_or_default()
    }

    async fn receive_one(&self, url: &str) -> Message {
        let mut messages = self.receive(url).await;
        assert_eq!(messages.len(), 1, "{messages:?}");
        messages.remove(0)
    }

    async fn delete(&self, url: &str, message: &Message) {
        let handle = message.receipt_handle.as_deref().expect("a handle");
        self.sqs.delete_message().queue_url(url).receipt_handle(handle).send().await.expect("a delete");
    }

    /// A queue whose messages go to the other one after `max_receives` receives.
    async fn queue_with_dead_letters(&self, max_receives: u32) -> (String, String) {
        let dead = self.queue("dead", &[]).await;
        let arn = self.attribute(&dead, "QueueArn").await;
        let policy = format!(r#"{{"deadLetterTargetArn":"{arn}","maxReceiveCount":{max_receives}}}"#);
        let url = self.queue("orders", &[("VisibilityTimeout", "1"), ("RedrivePolicy", &policy)]).await;
        (url, dead)
    }
}

fn system(message: &Message, name: MessageSystemAttributeName) -> Option<&str> {
    message.attributes().and_then(|attributes| attributes.get(&name)).map(String::as_str)
}

fn receives(message: &Message) -> Option<&str> {
    system(message, MessageSystemAttributeName::ApproximateReceiveCount)
}

#[tokio::test]
async fn a_received_message_is_out_of_sight_for_its_visibility_timeout() {
    let target = Target::open();
    let url = target.queue("orders", &[("VisibilityTimeout", "2")]).await;
    let id = target.send(&url, "hello").await;

    let first = target.receive_one(&url).await;
    assert_eq!((first.message_id(), first.body(), receives(&first)), (Some(id.as_str()), Some("hello"), Some("1")));
    assert_eq!(target.receive(&url).await, [], "in flight");

    target.pass(2 * SECOND + SECOND / 2).await;
    let second = target.receive_one(&url).await;
    assert_eq!((second.message_id(), receives(&second)), (Some(id.as_str()), Some("2")));
    assert_ne!(first.receipt_handle(), second.receipt_handle());
}

#[tokio::test]
async fn a_deleted_message_does_not_come_back() {
    let target = Target::open();
    let url = target.queue("orders", &[("VisibilityTimeout", "1")]).await;
    target.send(&url, "hello").await;
    let message = target.receive_one(&url).await;
    target.delete(&url, &message).await;
    target.pass(SECOND + SECOND / 2).await;
    assert_eq!(target.receive(&url).await, []);
}

#[tokio::test]
async fn deleting_a_message_again_is_no_error() {
    let target = Target::open();
    let url = target.queue("orders", &[]).await;
    target.send(&url, "hello").await;
    let message = target.receive_one(&url).await;
    target.delete(&url, &message).await;
    target.delete(&url, &message).await;
}

#[tokio::test]
async fn a_late_delete_works_if_nobody_received_the_message_again() {
    let target = Target::open();
    let url = target.queue("orders", &[("VisibilityTimeout", "1")]).await;
    target.send(&url, "hello").await;
    let message = target.receive_one(&url).await;
    target.pass(SECOND + SECOND / 2).await;
    target.delete(&url, &message).await;
    assert_eq!(target.receive(&url).await, []);
}

#[tokio::test]
async fn a_late_delete_with_an_old_receipt_succeeds_and_deletes_nothing() {
    let target = Target::open();
    let url = target.queue("orders", &[("VisibilityTimeout", "1")]).await;
    target.send(&url, "hello").await;
    let first = target.receive_one(&url).await;
    target.pass(SECOND + SECOND / 2).await;
    let second = target.receive_one(&url).await;

    target.delete(&url, &first).await;
    target.pass(SECOND + SECOND / 2).await;
    let third = target.receive_one(&url).await;
    assert_eq!((third.message_id(), receives(&third)), (second.message_id(), Some("3")));
}

#[tokio::test]
async fn a_receipt_handle_that_sqs_never_gave_is_refused() {
    let target = Target::open();
    let url = target.queue("orders", &[]).await;
    let refused = target.sqs.delete_message().queue_url(&url).receipt_handle("no handle").send().await;
    assert!(refused.expect_err("a refusal").into_service_error().is_receipt_handle_is_invalid());
}

#[tokio::test]
async fn a_message_received_too_often_goes_to_the_dead_letter_queue() {
    let target = Target::open();
    let (url, dead) = target.queue_with_dead_letters(2).await;
    let attribute = MessageAttributeValue::builder().data_type("String").string_value("red").build().expect("one");
    let request = target.sqs.send_message().queue_url(&url).message_body("poison");
    let id = request.message_attributes("colour", attribute).send().await.expect("sent").message_id.expect("an id");

    for _ in 0..2 {
        assert_eq!(target.receive_one(&url).await.message_id(), Some(id.as_str()));
        assert_eq!(target.receive(&dead).await, []);
        target.pass(SECOND + SECOND / 2).await;
    }
    assert_eq!(target.receive(&url).await, []);
    let letter = target.receive_one(&dead).await;
    assert_eq!((letter.message_id(), letter.body()), (Some(id.as_str()), Some("poison")));
    let colour = letter.message_attributes().and_then(|all| all.get("colour")).and_then(|one| one.string_value());
    assert_eq!(colour, Some("red"));
    let source = system(&letter, MessageSystemAttributeName::DeadLetterQueueSourceArn);
    assert_eq!(source, Some(target.attribute(&url, "QueueArn").await.as_str()));
}

#[tokio::test]
async fn each_entry_of_a_sent_batch_has_an_answer_of_its_own() {
    let target = Target::open();
    let url = target.queue("orders", &[]).await;
    let entry = |id: &str, delay_s: i32| {
        let entry = SendMessageBatchRequestEntry::builder().id(id).message_body(id);
        entry.delay_seconds(delay_s).build().expect("an entry")
    };
    let sent = target.sqs.send_message_batch().queue_url(&url);
    let sent = sent.entries(entry("good", 0)).entries(entry("late", 901)).entries(entry("fine", 0));
    let sent = sent.send().await.expect("a batch");
    let ids: Vec<&str> = sent.successful().iter().map(|entry| entry.id()).collect();
    let failed: Vec<_> = sent.failed().iter().map(|entry| (entry.id(), entry.code(), entry.sender_fault())).collect();
    assert_eq!((ids, failed), (vec!["good", "fine"], vec![("late", "InvalidParameterValue", true)]));
    assert_eq!(target.receive(&url).await.len(), 2);
}

#[tokio::test]
async fn each_entry_of_a_deleted_batch_has_an_answer_of_its_own() {
    let target = Target::open();
    let url = target.queue("orders", &[("VisibilityTimeout", "1")]).await;
    for body in ["a", "b"] {
        target.send(&url, body).await;
    }
    let messages = target.receive(&url).await;
    assert_eq!(messages.len(), 2);
    let deleted = target.sqs.delete_message_batch().queue_url(&url);
    let handle = messages[0].receipt_handle().expect("a handle");
    let entry = |id: &str, handle: &str| {
        DeleteMessageBatchRequestEntry::builder().id(id).receipt_handle(handle).build().expect("an entry")
    };
    let deleted = deleted.entries(entry("known", handle)).entries(entry("made-up", "no handle"));
    let deleted = deleted.send().await.expect("a batch");
    let ids: Vec<&str> = deleted.successful().iter().map(|entry| entry.id()).collect();
    let failed: Vec<_> = deleted.failed().iter().map(|entry| (entry.id(), entry.code())).collect();
    assert_eq!((ids, failed), (vec!["known"], vec![("made-up", "ReceiptHandleIsInvalid")]));
    target.pass(SECOND + SECOND / 2).await;
    assert_eq!(target.receive_one(&url).await.message_id(), messages[1].message_id());
}

#[tokio::test]
async fn a_batch_has_one_to_ten_entries_with_distinct_ids() {
    let target = Target::open();
    let url = target.queue("orders", &[]).await;
    let send = |ids: Vec<String>| {
        let entries = ids
            .into_iter()
            .map(|id| SendMessageBatchRequestEntry::builder().id(id).message_body("x").build().expect("an entry"));
        target.sqs.send_message_batch().queue_url(&url).set_entries(Some(entries.collect())).send()
    };
    let none = send(vec![]).await.expect_err("none").into_service_error();
    assert!(none.is_empty_batch_request(), "{none:?}");
    let eleven = send((0..11).map(|id| id.to_string()).collect()).await.expect_err("eleven").into_service_error();
    assert!(eleven.is_too_many_entries_in_batch_request(), "{eleven:?}");
    let same = send(vec!["a".into(), "a".into()]).await.expect_err("the same").into_service_error();
    assert!(same.is_batch_entry_ids_not_distinct(), "{same:?}");
}

#[tokio::test]
async fn a_delayed_message_is_out_of_sight_until_its_delay_is_over() {
    let target = Target::open();
    let url = target.queue("orders", &[]).await;
    target.sqs.send_message().queue_url(&url).message_body("later").delay_seconds(2).send().await.expect("sent");
    assert_eq!(target.receive(&url).await, []);
    assert_eq!(target.attribute(&url, "ApproximateNumberOfMessagesDelayed").await, "1");
    target.pass(2 * SECOND + SECOND / 2).await;
    assert_eq!(target.receive_one(&url).await.body(), Some("later"));
}

#[tokio::test]
async fn a_queues_own_delay_holds_for_messages_that_name_none() {
    let target = Target::open();
    let url = target.queue("orders", &[("DelaySeconds", "2")]).await;
    target.send(&url, "later").await;
    target.sqs.send_message().queue_url(&url).message_body("now").delay_seconds(0).send().await.expect("sent");
    assert_eq!(target.receive_one(&url).await.body(), Some("now"));
    target.pass(2 * SECOND + SECOND / 2).await;
    assert_eq!(target.receive_one(&url).await.body(), Some("later"));
}

#[tokio::test]
async fn a_long_poll_wakes_within_100_ms_of_a_send() {
    let target = Target::open();
    let url = target.queue("orders", &[]).await;
    let (sqs, polled) = (target.sqs.clone(), url.clone());
    let poll = tokio::spawn(async move {
        let answer = sqs.receive_message().queue_url(polled).wait_time_seconds(20).send().await;
        (answer.expect("a receive").messages.unwrap_or_default(), Instant::now())
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    target.send(&url, "hello").await;
    let sent = Instant::now();
    let (messages, woke) = poll.await.expect("a poll");
    assert_eq!(messages.len(), 1);
    let took = woke.saturating_duration_since(sent);
    assert!(took < Duration::from_millis(100), "{took:?}");
}

#[tokio::test]
async fn visibility_can_be_ended_and_extended() {
    let target = Target::open();
    let url = target.queue("orders", &[("VisibilityTimeout", "1")]).await;
    target.send(&url, "hello").await;
    let change = |message: &Message, seconds: i32| {
        let handle = message.receipt_handle().expect("a handle");
        target.sqs.change_message_visibility().queue_url(&url).receipt_handle(handle).visibility_timeout(seconds).send()
    };
    let first = target.receive_one(&url).await;
    change(&first, 0).await.expect("an end");
    let second = target.receive_one(&url).await;
    change(&second, 4).await.expect("an extension");
    target.pass(2 * SECOND).await;
    assert_eq!(target.receive(&url).await, []);
    target.pass(2 * SECOND + SECOND / 2).await;
    assert_eq!(receives(&target.receive_one(&url).await), Some("3"));
}

#[tokio::test]
async fn visibility_of_a_message_that_is_not_in_flight_cannot_be_changed() {
    let target = Target::open();
    let url = target.queue("orders", &[("VisibilityTimeout", "1")]).await;
    target.send(&url, "hello").await;
    let message = target.receive_one(&url).await;
    let handle = message.receipt_handle().expect("a handle");
    target.pass(SECOND + SECOND / 2).await;
    let refused = target.sqs.change_message_visibility().queue_url(&url).receipt_handle(handle).visibility_timeout(5);
    let refused = refused.send().await.expect_err("a refusal").into_service_error();
    assert!(refused.is_message_not_inflight(), "{refused:?}");
}

#[tokio::test]
async fn a_batch_of_visibility_changes_answers_each() {
    let target = Target::open();
    let url = target.queue("orders", &[]).await;
    target.send(&url, "hello").await;
    let message = target.receive_one(&url).await;
    let entry = |id: &str, handle: &str| {
        let entry = ChangeMessageVisibilityBatchRequestEntry::builder().id(id).receipt_handle(handle);
        entry.visibility_timeout(0).build().expect("an entry")
    };
    let changed = target.sqs.change_message_visibility_batch().queue_url(&url);
    let changed = changed.entries(entry("known", message.receipt_handle().expect("a handle")));
    let changed = changed.entries(entry("made-up", "no handle")).send().await.expect("a batch");
    let ids: Vec<&str> = changed.successful().iter().map(|entry| entry.id()).collect();
    let failed: Vec<&str> = changed.failed().iter().map(|entry| entry.id()).collect();
    assert_eq!((ids, failed), (vec!["known"], vec!["made-up"]));
    assert_eq!(target.receive(&url).await.len(), 1);
}

#[tokio::test]
async fn counts_tell_visible_from_in_flight() {
    let target = Target::open();
    let url = target.queue("orders", &[]).await;
    for body in ["a", "b", "c"] {
        target.send(&url, body).await;
    }
    let request = target.sqs.receive_message().queue_url(&url).max_number_of_messages(1);
    request.send().await.expect("a receive");
    assert_eq!(target.attribute(&url, "ApproximateNumberOfMessages").await, "2");
    assert_eq!(target.attribute(&url, "ApproximateNumberOfMessagesNotVisible").await, "1");
}

#[tokio::test]
async fn digests_are_those_that_sqs_documents() {
    let target = Target::open();
    let url = target.queue("orders", &[]).await;
    let text = |kind: &str, value: &str| {
        MessageAttributeValue::builder().data_type(kind).string_value(value).build().expect("an attribute")
    };
    let raw = MessageAttributeValue::builder().data_type("Binary").binary_value(Blob::new([0, 1, 2]));
    let sent = target.sqs.send_message().queue_url(&url).message_body("This is a test message");
    let sent =
        sent.message_attributes("colour", text("String", "red")).message_attributes("count", text("Number", "3"));
    let sent = sent.message_attributes("raw", raw.build().expect("an attribute")).send().await.expect("sent");
    // Worked out apart from this code, by the steps in the developer guide.
    assert_eq!(sent.md5_of_message_body(), Some("fafb00f5732ab283681e124bf8747ed1"));
    assert_eq!(sent.md5_of_message_attributes(), Some("018a74a46b25fe55b4ab04500851259f"));
    let message = target.receive_one(&url).await;
    assert_eq!(message.md5_of_body(), sent.md5_of_message_body());
    assert_eq!(message.md5_of_message_attributes(), sent.md5_of_message_attributes());
}

#[tokio::test]
async fn attributes_come_only_when_asked_for() {
    let target = Target::open();
    let url = target.queue("orders", &[("VisibilityTimeout", "0")]).await;
    let trace = MessageSystemAttributeValue::builder()
        .data_type("String")
        .string_value("Root=1-5e1b4151-5ac6c58f3f2bb4d5f5f5f5f5");
    let sent = target.sqs.send_message().queue_url(&url).message_body("hello");
    let sent = sent
        .message_system_attributes(MessageSystemAttributeNameForSends::AwsTraceHeader, trace.build().expect("a trace"));
    sent.send().await.expect("sent");

    let plain = target.sqs.receive_message().queue_url(&url).send().await.expect("a receive");
    assert_eq!(plain.messages()[0].attributes().map_or(0, |all| all.len()), 0);
    let asked = target.sqs.receive_message().queue_url(&url);
    let asked = asked.message_system_attribute_names(MessageSystemAttributeName::AwsTraceHeader);
    let asked = asked.message_system_attribute_names(MessageSystemAttributeName::SentTimestamp);
    let asked = asked.send().await.expect("a receive");
    let message = &asked.messages()[0];
    assert_eq!(message.attributes().map_or(0, |all| all.len()), 2);
    let trace = system(message, MessageSystemAttributeName::AwsTraceHeader);
    assert_eq!(trace, Some("Root=1-5e1b4151-5ac6c58f3f2bb4d5f5f5f5f5"));
}

#[tokio::test]
async fn a_queue_that_is_not_there_is_refused_by_name() {
    let target = Target::open();
    let url = target.queue("orders", &[]).await;
    let missing = format!("{url}-missing");
    let refused = target.sqs.send_message().queue_url(&missing).message_body("x").send().await;
    assert!(refused.expect_err("a refusal").into_service_error().is_queue_does_not_exist());
    let refused = target.sqs.get_queue_url().queue_name(target.name("missing")).send().await;
    assert!(refused.expect_err("a refusal").into_service_error().is_queue_does_not_exist());
}

#[tokio::test]
async fn a_queue_made_again_must_be_the_same() {
    let target = Target::open();
    let name = target.name("orders");
    let create = |timeout: &str| {
        target.sqs.create_queue().queue_name(&name).attributes("VisibilityTimeout".into(), timeout).send()
    };
    let first = create("7").await.expect("a queue");
    let again = create("7").await.expect("the same queue");
    assert_eq!(first.queue_url(), again.queue_url());
    let other = create("8").await.expect_err("another queue").into_service_error();
    assert!(other.is_queue_name_exists(), "{other:?}");
    let found = target.sqs.get_queue_url().queue_name(&name).send().await.expect("a URL");
    assert_eq!(found.queue_url(), first.queue_url());
    let listed = target.sqs.list_queues().queue_name_prefix(&name).send().await.expect("a list");
    assert_eq!(listed.queue_urls().len(), 1);
}

#[tokio::test]
async fn a_message_of_1_mib_is_taken_and_a_byte_more_is_not() {
    let target = Target::open();
    let url = target.queue("orders", &[]).await;
    let send = |size: usize| target.sqs.send_message().queue_url(&url).message_body("x".repeat(size)).send();
    send(1_048_576).await.expect("1 MiB");
    let refused = send(1_048_577).await.expect_err("a byte more").into_service_error();
    assert_eq!(refused.code(), Some("InvalidParameterValue"), "{refused:?}");
}

#[tokio::test]
async fn a_purged_queue_is_empty() {
    let target = Target::open();
    let url = target.queue("orders", &[]).await;
    target.send(&url, "hello").await;
    target.sqs.purge_queue().queue_url(&url).send().await.expect("a purge");
    assert_eq!(target.receive(&url).await, []);
}
