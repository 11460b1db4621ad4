//! Starts an action: requests of buyers, payments at the providers, deliveries to the functions, the operator, and
//! reconcile.

use aws_sdk_dynamodb::types::AttributeValue;
use domain::availability::{PageNo, pages};
use local_cloud::engine::sqs::{Receive, Sqs};
use local_cloud::sources::events::{queue_event, stream_event};
use payments::ProviderKind;
use sandbox::Mood;
use store::PageRow;
use testkit::world::names;

use crate::actors::{self, Press};
use crate::check;
use crate::choice::{Action, DeadlineDelivery, Delivery, NthLatest, ProviderEvent};
use crate::functions::{ENVIRONMENTS, Function};
use crate::run::Sim;

/// How much too early a schedule may fire, in milliseconds.
const EARLY_MS: i64 = 30_000;

/// The key of a row.
pub(crate) type RowKey = std::collections::HashMap<String, AttributeValue>;

/// Added to an actor's number for the second of two invocations with the same event.
const SECOND_ACTOR: u64 = 1_000_000;

impl Sim {
    pub(crate) async fn begin(&mut self, id: u64, action: &Action) -> Result<(), String> {
        let environment = id as usize % ENVIRONMENTS;
        if matches!(action, Action::Press { .. } | Action::Pay { .. } | Action::Cancel { .. } | Action::Refund { .. }) {
            self.requests.insert(id, action.clone());
        }
        match action {
            Action::Press { buyer, key, quantity, environment, informed } => {
                let began_ms = self.observer.clock.now_ms();
                let seen_version = if *informed { Some(self.shown_version().await) } else { None };
                let press = Press {
                    buyer: *buyer,
                    key: key.clone(),
                    quantity: *quantity,
                    environment: *environment,
                    seen_version,
                    began_ms,
                };
                self.note_key_use(&press);
                let invocation = actors::press(self.functions.seckill(*environment), &self.offer, press);
                self.start(id, (Function::Seckill, *environment), invocation)
            }
            Action::ViewOrder { buyer, nth_latest } => {
                let Some(order) = latest(self.orders.get(buyer), *nth_latest) else { return Ok(()) };
                let invocation = actors::view_order(self.functions.shop(environment), *buyer, order);
                self.start(id, (Function::Shop, environment), invocation)
            }
            Action::Pay { buyer, nth_latest, method, points } => {
                let Some(order) = latest(self.orders.get(buyer), *nth_latest) else { return Ok(()) };
                let invocation = actors::pay(self.functions.shop(environment), *buyer, &order, *method, *points);
                self.start(id, (Function::Shop, environment), invocation)
            }
            Action::Cancel { buyer, nth_latest } => self.change_order(id, *buyer, *nth_latest, "cancel"),
            Action::Refund { buyer, nth_latest } => self.change_order(id, *buyer, *nth_latest, "refund"),
            Action::AtProvider { buyer, nth_latest, what } => self.at_provider(*buyer, *nth_latest, *what).await,
            Action::Notice { which, twice } => self.deliver_notice(id, *which, *twice).await,
            Action::Messages { max, delivery, newer } => self.deliver_messages(id, *max, *delivery, *newer).await,
            Action::Stream { max } => self.read_stream(id, *max).await,
            Action::Deadline { which, delivery } => self.fire_deadline(id, *which, *delivery).await,
            Action::Reconcile => {
                let invocation = actors::reconcile(self.functions.reconcile(environment));
                self.start(id, (Function::Reconcile, environment), invocation)
            }
            Action::Restock { quantity, key } => {
                self.restocks.insert(key.clone());
                let path = format!("/admin/sales/{}/items/{}/restock", self.offer.sale, self.offer.item);
                let invocation = actors::restock(self.functions.admin(environment), &path, key, *quantity);
                self.start(id, (Function::Admin, environment), invocation)
            }
            Action::Pause => {
                self.paused = true;
                self.operate(id, "pause")
            }
            Action::Resume => self.operate(id, "resume"),
            Action::Edit { name } => {
                let path = format!("/admin/sales/{}", self.offer.sale);
                let invocation = actors::edit(self.functions.admin(environment), &path, name);
                self.start(id, (Function::Admin, environment), invocation)
            }
            Action::NewerRow { table, row } => {
                self.change_row_version(*table, *row).await;
                Ok(())
            }
        }
    }

    /// Gives a row a version that this release cannot read. If there is such a row already, it becomes readable again.
    async fn change_row_version(&mut self, table: usize, row: usize) {
        if self.newer_row.is_some() {
            return self.restore_row_version().await;
        }
        let names = names();
        let (table, key): (String, &[&str]) = match table {
            0 => (names.stock, &["bucket"]),
            1 => (names.orders, &["buyer", "order"]),
            _ => (names.claims, &["buyer", "sale"]),
        };
        let client = aws_sdk_dynamodb::Client::new(&self.observer.wire.sdk_config());
        let rows = client.scan().table_name(&table).consistent_read(true).send().await.unwrap().items.unwrap();
        let key_of = |row: &RowKey| key.iter().map(|name| ((*name).to_owned(), row[*name].clone())).collect();
        let mut keys: Vec<RowKey> = rows.iter().map(key_of).collect();
        keys.sort_by_key(|row| key.iter().map(|name| row[*name].as_s().unwrap().clone()).collect::<Vec<_>>());
        let Some(chosen) = row.checked_rem(keys.len()) else { return };
        let chosen = keys.swap_remove(chosen);
        self.mark("row of a newer version");
        self.set_row_version(&table, &chosen, "2").await;
        self.newer_row = Some((table, chosen));
    }

    /// Makes the row of a newer version readable again, if there is one.
    pub(crate) async fn restore_row_version(&mut self) {
        if let Some((table, key)) = self.newer_row.take() {
            self.set_row_version(&table, &key, "1").await;
        }
    }

    async fn set_row_version(&self, table: &str, key: &RowKey, version: &str) {
        let client = aws_sdk_dynamodb::Client::new(&self.observer.wire.sdk_config());
        let version = AttributeValue::N(version.to_owned());
        let change = client.update_item().table_name(table).set_key(Some(key.clone()));
        let change = change.update_expression("SET rowVersion = :v").expression_attribute_values(":v", version);
        change.send().await.unwrap();
    }

    fn change_order(&mut self, id: u64, buyer: usize, nth_latest: NthLatest, what: &'static str) -> Result<(), String> {
        let Some(order) = latest(self.orders.get(&buyer), nth_latest) else { return Ok(()) };
        let environment = id as usize % ENVIRONMENTS;
        let invocation = actors::change_order(self.functions.shop(environment), buyer, &order, what);
        self.start(id, (Function::Shop, environment), invocation)
    }

    fn operate(&mut self, id: u64, what: &'static str) -> Result<(), String> {
        let environment = id as usize % ENVIRONMENTS;
        let path = format!("/admin/sales/{}/{what}", self.offer.sale);
        let invocation = actors::operate(self.functions.admin(environment), what, &path);
        self.start(id, (Function::Admin, environment), invocation)
    }

    /// Something happens to a payment in the sandbox, which then has a notice for the shop.
    async fn at_provider(&mut self, buyer: usize, nth_latest: NthLatest, what: ProviderEvent) -> Result<(), String> {
        let Some(payment) = latest(self.payments.get(&buyer), nth_latest) else { return Ok(()) };
        let sandbox = &self.observer.cloud.sandbox;
        if let Some(link) = &payment.link {
            let _ = sandbox.open(link).await;
        }
        let Ok(kind) = sandbox.payment(&payment.number).await.map(|view| ProviderKind::parse(&view.provider).unwrap())
        else {
            return Ok(());
        };
        // WeChat Pay tells nobody of a refund in its console, and only Stripe lets a refund fail after it was done.
        let is_told = match what {
            ProviderEvent::RefundedInConsole | ProviderEvent::PartlyRefundedInConsole => {
                matches!(kind, ProviderKind::Alipay | ProviderKind::Stripe)
            }
            ProviderEvent::RefundFailed => kind == ProviderKind::Stripe,
            _ => true,
        };
        if !is_told {
            return Ok(());
        }
        let act = |action| sandbox.act(None, &payment.number, action);
        let done = match what {
            ProviderEvent::Confirmed => act(sandbox::Action::Confirm).await,
            ProviderEvent::RefundedInConsole => act(sandbox::Action::RefundInConsole).await,
            ProviderEvent::PartlyRefundedInConsole => act(sandbox::Action::RefundPartInConsole).await,
            ProviderEvent::RefundFailed => act(sandbox::Action::FailRefund).await,
            ProviderEvent::Disputed => act(sandbox::Action::Dispute).await,
            ProviderEvent::RefundsFail => {
                sandbox.set_mood(kind, Mood::RefundsFail, Some(1));
                sandbox.payment(&payment.number).await
            }
            ProviderEvent::ServerError => {
                sandbox.set_mood(kind, Mood::Failing, Some(1));
                sandbox.payment(&payment.number).await
            }
            ProviderEvent::Paid => sandbox.pay(&payment.number).await,
            ProviderEvent::PaidLate => sandbox.pay_late(&payment.number).await,
            ProviderEvent::Failed => sandbox.fail(&payment.number).await,
            ProviderEvent::NotifiedAgain => sandbox.notify_again(&payment.number).await,
        };
        if done.is_ok() {
            let number = payment.number.clone();
            self.mark(format!("payment {what:?}"));
            self.note(format!("{number} {what:?}"));
        }
        check::check_refunds(&self.observer).await
    }

    async fn deliver_notice(&mut self, id: u64, which: usize, twice: bool) -> Result<(), String> {
        let due = self.observer.cloud.sandbox.due_notices().await.unwrap();
        let Some(notice) = which.checked_rem(due.len()).and_then(|which| due.get(which)) else { return Ok(()) };
        let environment = id as usize % ENVIRONMENTS;
        if twice {
            let invocation = actors::notice(self.functions.notify(environment), notice.clone());
            self.start(id + SECOND_ACTOR, (Function::PaymentNotify, environment), invocation)?;
        }
        let invocation = actors::notice(self.functions.notify(environment), notice.clone());
        self.start(id, (Function::PaymentNotify, environment), invocation)
    }

    async fn deliver_messages(&mut self, id: u64, max: usize, delivery: Delivery, newer: bool) -> Result<(), String> {
        let queue = Sqs::name_of(&names().orders_queue_url).to_owned();
        let receive = Receive { max, wait_s: Some(0), visibility_s: None };
        let mut messages = self.observer.cloud.sqs.receive(&queue, receive).await.unwrap();
        if messages.is_empty() {
            return Ok(());
        }
        self.mark(format!("delivery {delivery:?}"));
        if delivery == Delivery::Lost {
            return Ok(());
        }
        if newer {
            // As a newer version of `seckill` would write it.
            self.mark("delivery of a newer version");
            let message = &mut messages[0];
            message.body = message.body.replace("\"version\":1", "\"version\":2");
        }
        let receipts: Vec<(String, String)> =
            messages.iter().map(|message| (message.message_id.clone(), message.receipt_handle.clone())).collect();
        let event = queue_event(&Sqs::arn_of(&queue), &messages);
        let environment = id as usize % ENVIRONMENTS;
        if delivery == Delivery::Twice {
            let second = (environment + 1) % ENVIRONMENTS;
            let app = self.functions.consumer(second);
            let invocation = actors::consume(app, event.clone(), receipts.clone(), delivery);
            self.start(id + SECOND_ACTOR, (Function::OrderConsumer, second), invocation)?;
        }
        let invocation = actors::consume(self.functions.consumer(environment), event, receipts, delivery);
        self.start(id, (Function::OrderConsumer, environment), invocation)
    }

    /// A stream has one reader. A batch that failed, or whose reader crashed, is delivered again.
    async fn read_stream(&mut self, id: u64, max: usize) -> Result<(), String> {
        if self.reading.is_some() {
            return Ok(());
        }
        let stock = names().stock;
        let records = self.observer.cloud.dynamodb.stream_records(&stock, self.position.as_ref(), max).await.unwrap();
        let Some(last) = records.last() else { return Ok(()) };
        self.reading = Some(last.sequence_number.clone());
        let event = stream_event("arn:aws:dynamodb:eu-central-1:000000000000:table/stock/stream/1", &records);
        let event = serde_json::from_str(&event).unwrap_or_default();
        self.start(id, (Function::Availability, 0), actors::stream(self.functions.availability(), event))
    }

    async fn fire_deadline(&mut self, id: u64, which: usize, delivery: DeadlineDelivery) -> Result<(), String> {
        let early_ms = if delivery == DeadlineDelivery::Early { EARLY_MS } else { 0 };
        let scheduler = &self.observer.cloud.scheduler;
        let due = scheduler.due(self.observer.clock.now_ms() + early_ms).await.unwrap();
        let deadlines: Vec<_> = due
            .into_iter()
            .filter(|due| due.target.input.as_deref().is_some_and(|input| input.contains("orderId")))
            .collect();
        let Some(chosen) = which.checked_rem(deadlines.len()) else { return Ok(()) };
        deadlines
            .iter()
            .enumerate()
            .filter(|(place, _)| *place != chosen)
            .for_each(|(_, firing)| scheduler.put_back(firing));
        let firing = deadlines[chosen].clone();
        self.mark(format!("deadline {delivery:?}"));
        if delivery == DeadlineDelivery::Never {
            scheduler.fired(&firing).await.unwrap();
            return Ok(());
        }
        let environment = id as usize % ENVIRONMENTS;
        if delivery == DeadlineDelivery::Twice {
            let invocation = actors::check_deadline(self.functions.timeout_check(environment), firing.clone());
            self.start(id + SECOND_ACTOR, (Function::TimeoutCheck, environment), invocation)?;
        }
        let invocation = actors::check_deadline(self.functions.timeout_check(environment), firing);
        self.start(id, (Function::TimeoutCheck, environment), invocation)
    }
}

impl Sim {
    /// The availability version that a storefront could show at this moment.
    pub(crate) async fn shown_version(&self) -> u64 {
        let pages = pages(self.observer.item(&self.offer).await.layout.buckets());
        let numbers: Vec<PageNo> = (0..pages).collect();
        let shown = match self.observer.store.page_copies() {
            0 => PageRow::Itself,
            _ => PageRow::Copy(PageRow::SHOWN),
        };
        let pages = self.observer.store.page_rows(&self.offer, &numbers, shown, true).await.unwrap();
        pages.iter().map(|(_, page)| page.version).sum()
    }
}

fn latest<T: Clone>(of: Option<&Vec<T>>, nth_latest: NthLatest) -> Option<T> {
    of?.iter().rev().nth(nth_latest).cloned()
}
