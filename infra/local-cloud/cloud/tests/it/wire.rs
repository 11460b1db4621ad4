//! The wire: faults between the SDK and the engines, and the record of them.

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::ProvideErrorMetadata as _;
use aws_sdk_dynamodb::types::{Put, TransactWriteItem};
use local_cloud::engine::Service;
use local_cloud::wire::{Call, Fault, Loss, Wire};

use crate::dynamodb::{make_table, text};
use crate::target::driven;

/// A table `orders`, and a wire on which the first `PutItem` (or transaction) meets `fault`.
async fn with_first_put(fault: Fault) -> (Wire, Client) {
    let (cloud, clean) = driven();
    make_table(&Client::new(&clean.sdk_config()), "orders", false).await;
    let wire = Wire::new(cloud).with_faults(move |call: &Call| {
        let first = call.number == 1 && call.resource().as_deref() == Some("orders");
        if first { fault } else { Fault::None }
    });
    let client = Client::new(&wire.sdk_config());
    (wire, client)
}

fn put(client: &Client) -> aws_sdk_dynamodb::operation::put_item::builders::PutItemFluentBuilder {
    let put = client.put_item().table_name("orders").item("pk", text("o-1"));
    put.condition_expression("attribute_not_exists(pk)")
}

#[tokio::test]
async fn the_sdk_tries_again_what_was_not_done() {
    for fault in [Fault::NotApplied(Loss::Io), Fault::NotApplied(Loss::Timeout), Fault::Throttled, Fault::ServerError] {
        let (wire, client) = with_first_put(fault).await;
        put(&client).send().await.unwrap_or_else(|error| panic!("{fault:?}: {error:?}"));
        let calls = wire.calls();
        assert_eq!(calls.len(), 2, "{fault:?}");
        assert_eq!((calls[0].fault, calls[0].write_units), (fault, 0.0));
        assert_eq!((calls[1].status, calls[1].write_units), (Some(200), 1.0));
    }
}

#[tokio::test]
async fn a_lost_answer_hides_what_was_done() {
    for fault in [Fault::AppliedButLost(Loss::Io), Fault::AppliedButLost(Loss::Timeout), Fault::AppliedButServerError] {
        let (wire, client) = with_first_put(fault).await;
        // The SDK's own retry meets the item that the first try wrote.
        let error = put(&client).send().await.expect_err("the retry fails").into_service_error();
        assert!(error.is_conditional_check_failed_exception(), "{fault:?}: {error:?}");
        assert_eq!(wire.calls().len(), 2, "{fault:?}");
    }
}

#[tokio::test]
async fn another_transaction_can_have_the_item() {
    let (_, client) = with_first_put(Fault::TransactionConflict).await;
    // The SDK does not know whether a transaction's conflict can be tried again; that is for the caller to decide.
    let item = Put::builder().table_name("orders").item("pk", text("o-1")).build().expect("a put");
    let action = TransactWriteItem::builder().put(item).build();
    let transaction = client.transact_write_items().transact_items(action.clone()).transact_items(action);
    let error = transaction.send().await.expect_err("a conflict").into_service_error();
    let aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError::TransactionCanceledException(
        cancelled,
    ) = error
    else {
        panic!("{error:?}");
    };
    let codes: Vec<_> = cancelled.cancellation_reasons().iter().filter_map(|reason| reason.code()).collect();
    assert_eq!(codes, ["TransactionConflict", "None"]);

    let (wire, client) = with_first_put(Fault::TransactionConflict).await;
    let error = put(&client).send().await.expect_err("a conflict, which is not tried again either");
    assert_eq!(error.code(), Some("TransactionConflictException"));
    let calls: Vec<_> = wire.calls().iter().map(|call| (call.fault, call.status)).collect();
    assert_eq!(calls, [(Fault::TransactionConflict, Some(400))]);
}

#[tokio::test]
async fn a_call_can_stop_for_good_before_or_after_it_is_done() {
    for (fault, done) in [(Fault::Stops, false), (Fault::AppliedThenStops, true)] {
        let (wire, client) = with_first_put(fault).await;
        let mut call = Box::pin(put(&client).send());
        let unanswered = futures::poll!(&mut call).is_pending();
        for _ in 0..20 {
            tokio::task::yield_now().await;
            assert!(unanswered && futures::poll!(&mut call).is_pending(), "{fault:?}");
        }
        drop(call);
        let item = client.get_item().table_name("orders").key("pk", text("o-1")).send().await.expect("a get").item;
        assert_eq!(item.is_some(), done, "{fault:?}");
        assert_eq!(wire.calls()[0].fault, fault);
    }
}

#[tokio::test]
async fn throttling_is_each_services_own() {
    let (cloud, _) = driven();
    let wire = Wire::new(cloud).with_faults(|_| Fault::Throttled);
    let config = wire.sdk_config();
    let sqs = aws_sdk_sqs::Client::new(&config).list_queues().send().await.expect_err("throttled");
    assert_eq!(aws_sdk_sqs::error::ProvideErrorMetadata::code(&sqs), Some("RequestThrottled"));
    let scheduler =
        aws_sdk_scheduler::Client::new(&config).get_schedule().name("s").send().await.expect_err("throttled");
    assert!(scheduler.into_service_error().is_throttling_exception());
    let dynamodb = put(&Client::new(&config)).send().await.expect_err("throttled").into_service_error();
    assert!(dynamodb.is_provisioned_throughput_exceeded_exception());
    // Three attempts each, which take no time on a driven clock.
    assert_eq!(wire.calls().len(), 9);
}

#[tokio::test]
async fn calls_are_recorded_with_what_they_cost() {
    let (_, wire) = driven();
    let config = wire.sdk_config();
    let client = Client::new(&config);
    make_table(&client, "orders", false).await;
    aws_sdk_sqs::Client::new(&config).create_queue().queue_name("orders").send().await.expect("a queue");
    wire.forget_calls();

    put(&client).send().await.expect("an item");
    put(&client).send().await.expect_err("it is there");
    client.get_item().table_name("orders").key("pk", text("o-1")).send().await.expect("a get");
    let sqs = aws_sdk_sqs::Client::new(&config);
    sqs.send_message().queue_url("http://any.host/000000000000/orders").message_body("x").send().await.expect("sent");

    let calls = wire.calls();
    let seen: Vec<_> =
        calls.iter().map(|call| (call.service, call.operation.as_str(), call.resource.as_deref())).collect();
    let expected = [
        (Service::DynamoDb, "PutItem", Some("orders")),
        (Service::DynamoDb, "PutItem", Some("orders")),
        (Service::DynamoDb, "GetItem", Some("orders")),
        (Service::Sqs, "SendMessage", Some("orders")),
    ];
    assert_eq!(seen, expected);
    let units: f64 = calls.iter().map(|call| call.write_units).sum();
    assert_eq!((units, calls[2].read_units), (2.0, 0.5));
}
