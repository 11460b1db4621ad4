//! 64 clients at once take a stock of 1,000 with 5,000 conditional writes: exactly 1,000 of them succeed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;
use local_cloud::clock::Clock;
use local_cloud::endpoint::Endpoint;
use local_cloud::engine::Cloud;
use local_cloud::wire::Wire;

use crate::dynamodb::{make_table, number, text};
use crate::target::over_http;

async fn sell_out(client: Client) {
    make_table(&client, "stock", false).await;
    let item = client.put_item().table_name("stock").item("pk", text("bucket")).item("free", number(1_000));
    item.send().await.expect("a stock");

    let (left, sold) = (Arc::new(AtomicU32::new(5_000)), Arc::new(AtomicU32::new(0)));
    let buyers = (0..64).map(|_| {
        let (client, left, sold) = (client.clone(), Arc::clone(&left), Arc::clone(&sold));
        tokio::spawn(async move {
            while left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok() {
                let update = client.update_item().table_name("stock").key("pk", text("bucket"));
                let update = update.update_expression("SET #free = #free - :one").condition_expression("#free >= :one");
                let update = update.expression_attribute_names("#free", "free");
                match update.expression_attribute_values(":one", number(1)).send().await {
                    Ok(_) => {
                        sold.fetch_add(1, Ordering::SeqCst);
                    }
                    Err(error) => {
                        let error = error.into_service_error();
                        assert!(error.is_conditional_check_failed_exception(), "{error:?}");
                    }
                }
            }
        })
    });
    for buyer in buyers.collect::<Vec<_>>() {
        buyer.await.expect("a buyer");
    }
    assert_eq!(sold.load(Ordering::SeqCst), 1_000);
    let left = client.get_item().table_name("stock").key("pk", text("bucket")).consistent_read(true).send().await;
    assert_eq!(left.expect("the stock").item.expect("an item")["free"], AttributeValue::N("0".to_owned()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exactly_what_there_is_is_sold_in_process() {
    let cloud = Cloud::in_memory(Clock::wall()).expect("engines");
    sell_out(Client::new(&Wire::new(cloud).sdk_config())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exactly_what_there_is_is_sold_over_http() {
    let dir = tempfile::tempdir().expect("a directory");
    let cloud = Cloud::open(dir.path(), Clock::wall()).expect("engines");
    let endpoint = Endpoint::start(cloud, 0, None).await.expect("an endpoint");
    sell_out(Client::new(&over_http(&endpoint.url(), "test"))).await;
    endpoint.stop().await;
}
