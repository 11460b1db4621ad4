//! What was acknowledged is there after kill -9 in the middle of a load.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_sdk_scheduler::types::{FlexibleTimeWindow, FlexibleTimeWindowMode, Target};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use crate::dynamodb::{make_table, text};
use crate::target::over_http;

struct Clients {
    dynamodb: aws_sdk_dynamodb::Client,
    sqs: aws_sdk_sqs::Client,
    scheduler: aws_sdk_scheduler::Client,
}

async fn start(dir: &Path) -> (Child, Clients) {
    let mut server = Command::new(env!("CARGO_BIN_EXE_serve-engines"))
        .arg(dir)
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("a server");
    let stdout = server.stdout.take().expect("its output");
    let url = BufReader::new(stdout).lines().next_line().await.expect("a line").expect("its URL");
    let config = over_http(&url, "test");
    let clients = Clients {
        dynamodb: aws_sdk_dynamodb::Client::new(&config),
        sqs: aws_sdk_sqs::Client::new(&config),
        scheduler: aws_sdk_scheduler::Client::new(&config),
    };
    (server, clients)
}

/// What the server said it had done.
#[derive(Default)]
struct Acknowledged {
    items: BTreeSet<String>,
    messages: BTreeSet<String>,
    schedules: BTreeSet<String>,
}

async fn load(clients: Arc<Clients>, client: usize, acknowledged: Arc<Mutex<Acknowledged>>) {
    for number in 0.. {
        let name = format!("c{client}-{number}");
        let item = clients.dynamodb.put_item().table_name("orders").item("pk", text(&name)).send().await;
        if item.is_err() {
            return;
        }
        acknowledged.lock().expect("a lock").items.insert(name.clone());
        let url = "http://x/000000000000/orders";
        let message = clients.sqs.send_message().queue_url(url).message_body(&name).send().await;
        if message.is_err() {
            return;
        }
        acknowledged.lock().expect("a lock").messages.insert(name.clone());
        let target = Target::builder().arn("arn:aws:lambda:us-east-1:000000000000:function:f");
        let target = target.role_arn("arn:aws:iam::000000000000:role/r").build().expect("a target");
        let off = FlexibleTimeWindow::builder().mode(FlexibleTimeWindowMode::Off).build().expect("a window");
        let schedule = clients.scheduler.create_schedule().name(&name).schedule_expression("at(2199-01-01T00:00:00)");
        if schedule.flexible_time_window(off).target(target).send().await.is_err() {
            return;
        }
        acknowledged.lock().expect("a lock").schedules.insert(name);
    }
}

async fn stored(clients: &Clients) -> Acknowledged {
    let mut stored = Acknowledged::default();
    let mut items = clients.dynamodb.scan().table_name("orders").into_paginator().items().send();
    while let Some(item) = items.next().await {
        stored.items.insert(item.expect("an item")["pk"].as_s().expect("text").clone());
    }
    let mut schedules = clients.scheduler.list_schedules().into_paginator().items().send();
    while let Some(schedule) = schedules.next().await {
        stored.schedules.insert(schedule.expect("a schedule").name.expect("a name"));
    }
    loop {
        let url = "http://x/000000000000/orders";
        let messages = clients.sqs.receive_message().queue_url(url).max_number_of_messages(10).send().await;
        let messages = messages.expect("a receive").messages.unwrap_or_default();
        if messages.is_empty() {
            return stored;
        }
        stored.messages.extend(messages.into_iter().filter_map(|message| message.body));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_survives_kill_9() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut server, clients) = start(dir.path()).await;
    make_table(&clients.dynamodb, "orders", true).await;
    clients.sqs.create_queue().queue_name("orders").send().await.expect("a queue");

    let (clients, acknowledged) = (Arc::new(clients), Arc::new(Mutex::new(Acknowledged::default())));
    let load: Vec<_> =
        (0..8).map(|client| tokio::spawn(load(Arc::clone(&clients), client, Arc::clone(&acknowledged)))).collect();
    // In the middle of the load: after some hundred acknowledged schedules, which come last.
    while acknowledged.lock().expect("a lock").schedules.len() < 300 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    server.start_kill().expect("a kill");
    server.wait().await.expect("its end");
    for client in load {
        client.abort();
    }

    let (_server, clients) = start(dir.path()).await;
    let stored = stored(&clients).await;
    let acknowledged = acknowledged.lock().expect("a lock");
    for (what, acknowledged, stored) in [
        ("items", &acknowledged.items, &stored.items),
        ("messages", &acknowledged.messages, &stored.messages),
        ("schedules", &acknowledged.schedules, &stored.schedules),
    ] {
        let lost: Vec<_> = acknowledged.difference(stored).collect();
        assert!(lost.is_empty(), "{what} lost: {lost:?}");
    }
}
