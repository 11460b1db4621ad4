//! The orders queue: accepted purchases become orders.
//!
//! Each message is handled on its own. One that fails for now is reported, and SQS delivers it again, soon. A poison
//! message, which can never be handled, goes to the dead letters with its reason. Neither delays the other
//! messages of its batch.

use std::time::Duration;

use aws_lambda_events::sqs::{SqsBatchResponse, SqsEvent, SqsMessage};
use domain::message::{OrderMessage, VERSION};
use domain::order::{Order, Reason};
use flows::buy::place_order::{PlacedOrder, Placement, place_order};
use flows::sale::sales::Sales;
use futures::stream::{self, StreamExt};
use runtime::{Clock, Environment, StartError};
use store::{MissingSetting, Names, Store};
use telemetry::{Metric, Metrics, Sink};

/// Messages handled at the same time: a whole batch.
const CONCURRENCY: usize = 10;

/// What a running function keeps between batches.
pub struct App {
    pub store: Store,
    pub sales: Sales,
    pub clock: Clock,
    pub metrics: Sink,
}

impl App {
    /// A function that has just started; its metrics go to stdout.
    pub fn new(store: Store, clock: Clock) -> Self {
        Self { store, sales: Sales::default(), clock, metrics: Sink::stdout() }
    }

    /// The function as it is deployed.
    pub fn start(environment: &Environment) -> Result<Self, StartError> {
        check(&environment.names).map_err(|missing| missing.to_string())?;
        let app = Self::new(environment.store(), runtime::system_clock());
        Ok(Self { metrics: environment.metrics.clone(), ..app })
    }
}

/// Checks the settings that only this function needs.
fn check(names: &Names) -> Result<(), MissingSetting> {
    names.orders_dead_letters_url.as_ref().ok_or(MissingSetting("ORDERS_DEAD_LETTERS_URL"))?;
    names.deadlines.as_ref().ok_or(MissingSetting("SCHEDULE_GROUP"))?;
    Ok(())
}

/// How a message was handled.
enum Handled {
    Placed(PlacedOrder),
    DeadLetter,
}

/// A message was not handled this time; the log says why.
struct Retry;

/// Handles a batch. The answer names the messages that SQS is to deliver again.
pub async fn handle(app: &App, event: SqsEvent) -> SqsBatchResponse {
    let mut metrics = Metrics::at((app.clock)());
    let mut response = SqsBatchResponse::default();
    let mut results = stream::iter(event.records)
        .map(|message| async move {
            let result = one(app, &message).await;
            if result.is_err() {
                retry_soon(app, &message).await;
            }
            (message.message_id.unwrap_or_default(), result)
        })
        .buffer_unordered(CONCURRENCY);
    while let Some((message_id, result)) = results.next().await {
        match result {
            Ok(Handled::Placed(placed)) => {
                measure(&mut metrics, &placed.placement);
                if placed.unscheduled.is_some() {
                    metrics.count(Metric::DeadlinesUnscheduled);
                }
            }
            Ok(Handled::DeadLetter) => metrics.count(Metric::DeadLetters),
            // A missing id makes SQS deliver the whole batch again, which does no harm.
            Err(Retry) => response.add_failure(message_id),
        }
    }
    metrics.flush(&app.metrics);
    response
}

/// Lets SQS deliver a message again after 5, 10, 20 … seconds instead of the queue's three minutes: most failures pass
/// sooner. If this fails, the message comes again after the three minutes.
async fn retry_soon(app: &App, message: &SqsMessage) {
    let Some(receipt) = message.receipt_handle.as_deref() else { return };
    let received = message.attributes.get("ApproximateReceiveCount").and_then(|count| count.parse::<u32>().ok());
    let wait_s = (5 << received.unwrap_or(1).clamp(1, 6)) / 2;
    if let Err(error) = app.store.deliver_again_after(receipt, wait_s).await {
        tracing::warn!(message_id = message.message_id.as_deref(), %error, "a retry could not be brought forward");
    }
}

async fn one(app: &App, message: &SqsMessage) -> Result<Handled, Retry> {
    let message_id = message.message_id.as_deref();
    let body = message.body.as_deref().unwrap_or_default();
    match read(body) {
        Ok(order) => place(app, &order, message_id).await,
        Err(reason) => move_to_dead_letters(app, body, &reason, message_id).await,
    }
}

async fn move_to_dead_letters(app: &App, body: &str, reason: &str, message_id: Option<&str>) -> Result<Handled, Retry> {
    match app.store.move_to_dead_letters(body, reason).await {
        Ok(()) => {
            tracing::error!(message_id, reason, "a message cannot be handled: it is kept among the dead letters");
            Ok(Handled::DeadLetter)
        }
        Err(error) => {
            tracing::error!(message_id, reason, %error, "a message cannot be handled, nor kept: it will come again");
            Err(Retry)
        }
    }
}

async fn place(app: &App, order: &OrderMessage, message_id: Option<&str>) -> Result<Handled, Retry> {
    let (order_id, trace) = (&order.order_id, order.trace.as_deref());
    let placed = place_order(&app.store, &app.sales, order, (app.clock)()).await;
    if let Ok(PlacedOrder { unscheduled: Some(error), .. }) = &placed {
        tracing::warn!(%order_id, trace, %error, "the deadline was not scheduled: reconcile closes the unpaid order");
    }
    match placed.as_ref().map(|placed| &placed.placement) {
        Ok(Placement::Placed(made)) => {
            tracing::info!(%order_id, sale_id = %made.sale, item_id = %made.item, trace, "an order was placed");
        }
        Ok(Placement::AlreadyPlaced(_)) => tracing::info!(%order_id, trace, "the order had been placed before"),
        Ok(Placement::Failed(reason)) => {
            tracing::warn!(%order_id, reason = reason.as_str(), trace, "a purchase could not become an order");
        }
        Err(error) => {
            tracing::warn!(
                %order_id, message_id, trace, %error,
                "an order was not placed: its message will come again"
            );
        }
    }
    placed.map(Handled::Placed).map_err(|_| Retry)
}

/// Reads the message, or explains why it cannot be read.
fn read(body: &str) -> Result<OrderMessage, String> {
    #[derive(serde::Deserialize)]
    struct Versioned {
        version: u32,
    }
    // The version comes first: the format of a newer version is not known here.
    let Versioned { version } = serde_json::from_str(body).map_err(|error| format!("not an order message: {error}"))?;
    // Older ones are read: what they lack has a default.
    if version > VERSION {
        return Err(format!("an order message of version {version}: this function knows version {VERSION}"));
    }
    serde_json::from_str(body).map_err(|error| format!("not an order message: {error}"))
}

fn measure(metrics: &mut Metrics, placement: &Placement) {
    match placement {
        Placement::Placed(order) => {
            metrics.count(Metric::OrdersPlaced);
            metrics.time(Metric::OrderLag, lag(order));
        }
        Placement::AlreadyPlaced(_) => {}
        Placement::Failed(reason) => metrics.count_of(Metric::OrdersFailed, Reason::as_str(*reason)),
    }
}

/// The time from the press to the order. Clocks of two machines may differ: it is never negative.
fn lag(order: &Order) -> Duration {
    Duration::try_from(order.created_at.duration_since(order.id.pressed_at())).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"{"version": 1, "orderId": "01K9RXJ8G00123456789ABCDEF0000A", "buyer": "ann", "saleId": "s1",
        "itemId": "i1", "quantity": 1, "bucket": 3, "trace": "1-2-3",
        "later": "fields of a later function do no harm"}"#;

    #[test]
    fn a_message_is_read() {
        let message = read(GOOD).unwrap();
        assert_eq!((message.sale_id.as_str(), message.bucket), ("s1", 3));
    }

    #[test]
    fn a_message_of_an_older_release_is_read() {
        assert!(read(&GOOD.replace("\"version\": 1", "\"version\": 0")).is_ok());
    }

    #[test]
    fn what_cannot_be_read_says_why() {
        let newer = GOOD.replace("\"version\": 1", "\"version\": 2");
        let forged = GOOD.replace("01K9RXJ8G0", "not-a-time");
        for (body, why) in [
            ("", "not an order message: EOF"),
            ("hello", "not an order message: expected"),
            ("{}", "missing field `version`"),
            (r#"{"version": 1}"#, "missing field `orderId`"),
            (newer.as_str(), "of version 2: this function knows version 1"),
            (forged.as_str(), "orderId must be 31 characters"),
        ] {
            let reason = read(body).unwrap_err();
            assert!(reason.contains(why), "{body}: {reason}");
        }
    }

    #[test]
    fn settings_that_are_missing_are_named() {
        let names = |extra: &'static [(&str, &str)]| {
            Names::from_env(move |name| {
                let shared = name.ends_with("_TABLE") || name == "ORDERS_QUEUE_URL";
                let own = extra.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
                own.or_else(|| shared.then(|| "x".to_owned()))
            })
            .unwrap()
        };
        assert_eq!(check(&names(&[])).unwrap_err().0, "ORDERS_DEAD_LETTERS_URL");
        assert_eq!(check(&names(&[("ORDERS_DEAD_LETTERS_URL", "q")])).unwrap_err().0, "SCHEDULE_GROUP");
    }

    #[test]
    fn a_clock_that_is_behind_gives_no_negative_lag() {
        let message = read(GOOD).unwrap();
        let pressed = message.order_id.pressed_at();
        let order = |created_at| Order::of(&message, created_at);
        let ms = |ms| jiff::SignedDuration::from_millis(ms);
        assert_eq!(lag(&order(pressed + ms(250))), Duration::from_millis(250));
        assert_eq!(lag(&order(pressed - ms(5))), Duration::ZERO);
        let mut metrics = Metrics::at(pressed);
        measure(&mut metrics, &Placement::Placed(Box::new(order(pressed + ms(250)))));
        measure(&mut metrics, &Placement::Placed(Box::new(order(pressed + ms(750)))));
        measure(&mut metrics, &Placement::Failed(Reason::ClaimLost));
        let line: serde_json::Value = serde_json::from_str(&metrics.lines()[0]).unwrap();
        assert_eq!(line["OrderLag"], serde_json::json!([250.0, 750.0]));
        assert_eq!((&line["OrdersPlaced"], &line["OrdersFailed"]), (&2.into(), &1.into()));
        assert_eq!(line["Reason"], "CLAIM_LOST");
    }

    #[test]
    fn the_sample_event_has_a_good_and_a_bad_message() {
        let event: SqsEvent = serde_json::from_str(include_str!("../../../tests/events/order-consumer.json")).unwrap();
        let readable: Vec<bool> =
            event.records.iter().map(|message| read(message.body.as_deref().unwrap()).is_ok()).collect();
        assert_eq!(readable, [true, false]);
    }
}
