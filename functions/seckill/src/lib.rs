//! `POST /seckill`: a buyer presses the button.
//!
//! A press writes one log line: its metrics, with the order's id if it was accepted. A SOLD_OUT costs no call to
//! the database and no more than that line.

use std::num::NonZeroU32;
use std::time::Duration;

use domain::Timestamp;
use domain::ids::{ItemId, Offer, OrderId, Reference, SaleId};
use domain::shop_data::{Metadata, ShopData};
use edge::{Body, Code, Problem, Request, Response, body, request, response};
use flows::buy::purchase::{Purchase, Seckill};
use lambda_http::http::{Method, StatusCode};
use runtime::{Clock, Environment, Random, Salt, StartError};
use serde::{Deserialize, Serialize};
use store::Store;
use telemetry::{Metric, Metrics, Sink};

/// How long the deployed function works on a press. Lambda would end it after five seconds with a bare 500; a
/// slow database should be answered with a 503 that says when to retry. A press that times out is like one that
/// crashed, and is repaired in the same way.
pub const REQUEST_TIMEOUT: Duration = Duration::from_millis(4_500);

/// What a running function keeps between presses.
pub struct App {
    /// The flow, with its caches of sales, open buckets and limits.
    pub seckill: Seckill,
    /// The deployment's salt for buyers' keys.
    pub salt: Salt,
    pub clock: Clock,
    /// Random bits for order ids and the choice of buckets.
    pub random: Random,
    pub metrics: Sink,
    /// How long a press may take by the machine's clock; `None`: without a limit.
    pub timeout: Option<Duration>,
}

impl App {
    /// A function that has just started; its metrics go to stdout.
    pub fn new(store: Store, salt: impl Into<Salt>, clock: Clock, random: Random) -> Self {
        let (seckill, metrics) = (Seckill::new(store), Sink::stdout());
        Self { seckill, salt: salt.into(), clock, random, metrics, timeout: None }
    }

    /// The function as it is deployed.
    pub fn start(environment: &Environment) -> Result<Self, StartError> {
        let app =
            Self::new(environment.store(), environment.salt()?, runtime::system_clock(), runtime::system_random());
        Ok(Self { metrics: environment.metrics.clone(), timeout: Some(REQUEST_TIMEOUT), ..app })
    }
}

/// What a buyer sends.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Press {
    sale_id: SaleId,
    item_id: ItemId,
    quantity: NonZeroU32,
    seen_version: Option<u64>,
    /// The shop's own name for the purchase, and its own data. They come back with the order.
    reference: Option<Reference>,
    #[serde(default)]
    metadata: Metadata,
}

/// What an accepted buyer gets.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Queued<'a> {
    order_id: &'a OrderId,
    status: &'static str,
    /// The quantity of the order.
    quantity: u32,
}

/// Answers a press.
pub async fn handle(app: &App, request: Request) -> Response<Body> {
    let now = (app.clock)();
    let trace = request::trace(&request);
    let mut metrics = Metrics::at(now);
    metrics.count(Metric::PurchaseRequests);
    let pressed = press(app, &request, now, trace.as_deref(), &mut metrics);
    let answer = in_time(app.timeout, pressed, trace.as_deref()).await;
    let answer = answer.unwrap_or_else(|problem| {
        metrics.count_of(Metric::PurchaseRefused, problem.code.as_str());
        problem.respond(trace.as_deref())
    });
    metrics.flush(&app.metrics);
    answer
}

async fn in_time<T>(
    limit: Option<Duration>,
    pressed: impl Future<Output = Result<T, Problem>>,
    trace: Option<&str>,
) -> Result<T, Problem> {
    let Some(limit) = limit else { return pressed.await };
    match tokio::time::timeout(limit, pressed).await {
        Ok(answer) => answer,
        Err(_) => {
            tracing::warn!(?limit, trace, "a press took too long and was given up");
            Err(Problem::new(Code::Unavailable, "the request could not be completed: try again in a moment"))
        }
    }
}

async fn press(
    app: &App,
    request: &Request,
    now: Timestamp,
    trace: Option<&str>,
    metrics: &mut Metrics,
) -> Result<Response<Body>, Problem> {
    match request::route(request) {
        (&Method::POST, path) if path == ["seckill"] => {}
        _ => return Err(Problem::not_found()),
    }
    app.salt.read().await.map_err(Problem::after_failure)?;
    let buyer = request::buyer(request)?;
    let buyer_key = app.salt.key_of(&buyer).ok_or_else(Problem::unavailable)?;
    let key = request::idempotency_key(request)?;
    let Press { sale_id, item_id, quantity, seen_version, reference, metadata } = body::parse(request, body::SMALL)?;
    let purchase = Purchase {
        offer: Offer { sale: sale_id, item: item_id },
        buyer_key,
        buyer,
        quantity: quantity.get(),
        key,
        seen_version,
        shop_data: ShopData { reference, metadata },
        now,
        random: (app.random)(),
        trace: trace.map(str::to_owned),
    };
    let accepted = app.seckill.purchase(&purchase).await?;

    metrics.count(Metric::PurchaseAccepted);
    metrics.note("order_id", &accepted.order);
    metrics.note("sale_id", &purchase.offer.sale);
    metrics.note("item_id", &purchase.offer.item);
    if let Some(trace) = trace {
        metrics.note("trace", trace);
    }
    if let Some(took) = accepted.hold_took {
        metrics.time(Metric::StockDecrementTime, took);
    }
    if let Some(error) = &accepted.unsent {
        metrics.count(Metric::PurchaseUnsent);
        tracing::warn!(
            order_id = %accepted.order, trace, %error,
            "the order message was not sent: reconcile will send it"
        );
    }
    Ok(response::json(
        StatusCode::ACCEPTED,
        &Queued { order_id: &accepted.order, status: "QUEUED", quantity: accepted.quantity },
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Press, Problem> {
        let request = lambda_http::http::Request::post("/seckill").body(Body::from(text)).unwrap();
        body::parse(&request, body::SMALL)
    }

    #[test]
    fn a_press_names_sale_item_and_quantity() {
        let press = parsed(r#"{"saleId": "s1", "itemId": "i1", "quantity": 2}"#).unwrap();
        assert_eq!((press.sale_id.as_str(), press.item_id.as_str(), press.quantity.get()), ("s1", "i1", 2));
        assert_eq!(press.seen_version, None);
        let press = parsed(r#"{"saleId": "s1", "itemId": "i1", "quantity": 2, "seenVersion": 17}"#).unwrap();
        assert_eq!(press.seen_version, Some(17));
        assert!(press.reference.is_none() && press.metadata.is_empty());
        let press = parsed(
            r#"{"saleId": "s1", "itemId": "i1", "quantity": 2, "reference": "cart-7", "metadata": {"from": "app"}}"#,
        );
        let press = press.unwrap();
        assert_eq!(press.reference.unwrap().as_str(), "cart-7");
        assert_eq!(press.metadata.pairs()["from"], "app");
    }

    #[test]
    fn missing_and_unknown_fields_are_refused() {
        for (text, field) in [
            (r#"{"saleId": "s1", "itemId": "i1"}"#, "quantity"),
            (r#"{"saleId": "s1", "itemId": "i1", "quantity": 0}"#, "quantity"),
            (r#"{"itemId": "i1", "quantity": 1}"#, "saleId"),
            (r#"{"saleId": "s#1", "itemId": "i1", "quantity": 1}"#, "saleId"),
            (r#"{"saleId": "s1", "itemId": "", "quantity": 1}"#, "itemId"),
            (r#"{"saleId": "s1", "itemId": "i1", "quantity": 1, "buyer": "ann"}"#, "buyer"),
            (r#"{"saleId": "s1", "itemId": "i1", "quantity": 1, "price": 1}"#, "price"),
            (r#"{"saleId": "s1", "itemId": "i1", "quantity": 1, "seenVersion": -1}"#, "seenVersion"),
            (r#"{"saleId": "s1", "itemId": "i1", "quantity": 1, "seenVersion": "7"}"#, "seenVersion"),
            (r#"{"saleId": "s1", "itemId": "i1", "quantity": 1, "reference": ""}"#, "reference"),
            (r#"{"saleId": "s1", "itemId": "i1", "quantity": 1, "metadata": {"a": 1}}"#, "metadata.a"),
            (r#"{"saleId": "s1", "itemId": "i1", "quantity": 1, "metadata": {"a b": "c"}}"#, "metadata"),
        ] {
            let problem = parsed(text).unwrap_err();
            assert_eq!((problem.code, problem.errors[0].field.as_str()), (Code::Invalid, field), "{text}");
        }
    }

    #[test]
    fn an_accepted_buyer_gets_the_order_id() {
        let buyer = domain::ids::BuyerKey::of(&domain::ids::Buyer::parse("ann").unwrap(), "salt");
        let order_id = OrderId::new(Timestamp::UNIX_EPOCH, &buyer, 7);
        let text = serde_json::to_string(&Queued { order_id: &order_id, status: "QUEUED", quantity: 2 }).unwrap();
        assert_eq!(text, format!(r#"{{"orderId":"{order_id}","status":"QUEUED","quantity":2}}"#));
    }

    #[tokio::test]
    async fn a_press_that_times_out_says_when_to_retry() {
        let limit = Some(Duration::from_millis(1));
        let slow = in_time(limit, std::future::pending::<Result<(), Problem>>(), None).await.unwrap_err();
        assert_eq!((slow.code, slow.retry_after_s), (Code::Unavailable, Some(1)));
        assert_eq!(in_time(limit, async { Ok(7) }, None).await.unwrap(), 7);
        assert_eq!(in_time(None, async { Ok(7) }, None).await.unwrap(), 7);
        assert!(REQUEST_TIMEOUT < Duration::from_secs(5), "before Lambda does");
    }

    #[test]
    fn the_sample_event_is_a_press() {
        let request = lambda_http::request::from_str(include_str!("../../../tests/events/seckill.json")).unwrap();
        assert_eq!(request::route(&request), (&Method::POST, vec!["seckill"]));
        assert_eq!(request::buyer(&request).unwrap().as_str(), "ann");
        assert!(request::idempotency_key(&request).unwrap().is_some() && request::trace(&request).is_some());
        let press: Press = body::parse(&request, body::SMALL).unwrap();
        assert_eq!(press.quantity.get(), 1);
    }
}
