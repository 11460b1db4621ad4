//! A buyer's other requests: sales, their own orders, pay, cancel and refund.
//!
//! Sales are public and need no token. An order is shown to its buyer only; for everyone else it does not exist.
//! The page to which a browser returns from a provider needs no token but the payment's own number.

mod page;
mod pay;
mod return_page;
mod ticket;
mod view;

use std::sync::Arc;

use domain::Timestamp;
use domain::ids::{BuyerKey, OrderId, SaleId};
use domain::order::{Reason, Status};
use domain::sale::{SaleState, SaleWithItems};
use edge::order::OrderJson;
use edge::response::CacheFor;
use edge::{Body, Code, Problem, Request, Response, request, response};
use flows::Context;
use flows::pay::close::{Cause, CloseOutcome, close};
use flows::sale::sales::Sales;
use flows::view::availability::AvailabilityCache;
use flows::view::orders;
use lambda_http::http::{Method, StatusCode};
use providers::Providers;
use runtime::{Clock, Environment, Salt, StartError};
use store::Store;
use telemetry::{Metric, Metrics, Sink};

use crate::view::{OrdersJson, SaleJson, SalesJson};

/// Makes random bits, if the machine has any.
pub type TicketRandom = Arc<dyn Fn() -> Option<u128> + Send + Sync>;

/// What a running function keeps between requests.
pub struct App {
    pub store: Store,
    pub providers: Providers,
    pub sales: Sales,
    pub availability: AvailabilityCache,
    /// The deployment's salt for buyers' keys.
    pub salt: Salt,
    /// The URL at which this system is reached from outside; `None`: the domain of the request.
    pub public_url: Option<String>,
    pub clock: Clock,
    pub metrics: Sink,
    /// Random bits for tickets.
    pub random: TicketRandom,
}

impl App {
    /// A function that has just started; its metrics go to stdout.
    pub fn new(
        store: Store,
        providers: Providers,
        salt: impl Into<Salt>,
        public_url: Option<String>,
        clock: Clock,
    ) -> Self {
        Self {
            store,
            providers,
            sales: Sales::default(),
            availability: AvailabilityCache::default(),
            salt: salt.into(),
            public_url,
            clock,
            metrics: Sink::stdout(),
            random: Arc::new(ticket::random),
        }
    }

    /// The function as it is deployed.
    pub fn start(environment: &Environment) -> Result<Self, StartError> {
        let (salt, public_url) = (environment.salt()?, environment.optional("PUBLIC_URL"));
        let app = Self::new(environment.store(), environment.providers(), salt, public_url, runtime::system_clock());
        Ok(Self { metrics: environment.metrics.clone(), ..app })
    }

    fn context(&self, now: Timestamp) -> Context<'_> {
        Context::new(&self.store, &self.providers, now)
    }
}

/// Answers a buyer's request.
pub async fn handle(app: &App, request: Request) -> Response<Body> {
    match answer(app, &request).await {
        Ok(response) => response,
        Err(problem) => problem.respond(request::trace(&request).as_deref()),
    }
}

async fn answer(app: &App, request: &Request) -> Result<Response<Body>, Problem> {
    app.salt.read().await.map_err(Problem::after_failure)?;
    let (method, path) = request::route(request);
    match (method, path.as_slice()) {
        (&Method::GET, ["sales"]) => list_sales(app).await,
        (&Method::GET, ["sales", sale]) => {
            let id = SaleId::parse(*sale).map_err(|_| Problem::unknown_sale())?;
            one_sale(app, &id).await
        }
        (&Method::GET, ["orders"]) => list_orders(app, &buyer(app, request)?).await,
        (&Method::GET, ["orders", order]) => one_order(app, &buyer(app, request)?, order).await,
        (&Method::POST, ["orders", order, "payments"]) => pay::pay(app, &buyer(app, request)?, order, request).await,
        (&Method::POST, ["orders", order, "cancel"]) => cancel(app, &buyer(app, request)?, order, request).await,
        (&Method::POST, ["orders", order, "refund"]) => {
            pay::refund_order(app, &buyer(app, request)?, order, request).await
        }
        (&Method::POST, ["ws-ticket"]) => ticket::make(app, &buyer(app, request)?).await,
        (&Method::GET, ["points"]) => pay::points(app, &buyer(app, request)?).await,
        (&Method::GET, ["payments", provider, "return"]) => return_page::show(app, provider, request).await,
        _ => Err(Problem::not_found()),
    }
}

fn buyer(app: &App, request: &Request) -> Result<BuyerKey, Problem> {
    app.salt.key_of(&request::buyer(request)?).ok_or_else(Problem::unavailable)
}

/// Parses an order id that belongs to this buyer. Any other text is an unknown order.
fn order_id(buyer: &BuyerKey, text: &str) -> Result<OrderId, Problem> {
    let id = OrderId::parse(text).map_err(|_| Problem::unknown_order())?;
    if id.buyer() == *buyer { Ok(id) } else { Err(Problem::unknown_order()) }
}

async fn list_sales(app: &App) -> Result<Response<Body>, Problem> {
    let now = (app.clock)();
    let mut sales = Vec::new();
    for found in app.sales.list(&app.store, now).await?.iter().filter(|found| is_public(found)) {
        sales.push(sale_json(app, found, now).await?);
    }
    Ok(response::cached_json(StatusCode::OK, CacheFor::OneSecond, &SalesJson { now, sales }))
}

async fn one_sale(app: &App, id: &SaleId) -> Result<Response<Body>, Problem> {
    let now = (app.clock)();
    let found = app.sales.get(&app.store, id, now).await?.filter(|found| is_public(found));
    let found = found.ok_or_else(Problem::unknown_sale)?;
    let sales = vec![sale_json(app, &found, now).await?];
    Ok(response::cached_json(StatusCode::OK, CacheFor::OneSecond, &SalesJson { now, sales }))
}

/// A draft is not shown to buyers.
fn is_public(found: &SaleWithItems) -> bool {
    match found.sale.state {
        SaleState::Draft => false,
        SaleState::Ready | SaleState::Paused | SaleState::Closed => true,
    }
}

async fn sale_json(app: &App, found: &SaleWithItems, now: Timestamp) -> Result<SaleJson, Problem> {
    let availability = app.availability.of(&app.store, found, now).await?;
    Ok(SaleJson::of(found, &availability, now))
}

async fn list_orders(app: &App, buyer: &BuyerKey) -> Result<Response<Body>, Problem> {
    let views = orders::orders(&app.store, &app.sales, buyer, (app.clock)()).await?;
    let orders = views.iter().map(OrderJson::of).collect();
    Ok(response::json(StatusCode::OK, &OrdersJson { orders }))
}

async fn one_order(app: &App, buyer: &BuyerKey, order: &str) -> Result<Response<Body>, Problem> {
    let id = order_id(buyer, order)?;
    let view = orders::order(&app.store, &app.sales, buyer, &id, (app.clock)()).await?;
    let view = view.ok_or_else(Problem::unknown_order)?;
    Ok(response::json(StatusCode::OK, &OrderJson::of(&view)))
}

async fn cancel(app: &App, buyer: &BuyerKey, order: &str, request: &Request) -> Result<Response<Body>, Problem> {
    let id = order_id(buyer, order)?;
    let now = (app.clock)();
    let closing = close(app.context(now), &id, Cause::Buyer).await;
    match closing.map_err(|error| Problem::from(error).about(id.clone()))? {
        CloseOutcome::Closed(order) => {
            let trace = request::trace(request);
            tracing::info!(order_id = %id, trace, "an order was cancelled");
            let mut metrics = Metrics::at(now);
            metrics.count_of(Metric::OrdersClosed, Reason::Cancelled.as_str());
            metrics.flush(&app.metrics);
            Ok(response::json(StatusCode::OK, &OrderJson::made(&order)))
        }
        CloseOutcome::AlreadyClosed(order) => Ok(response::json(StatusCode::OK, &OrderJson::made(&order))),
        CloseOutcome::Refused(order) => {
            let detail = match order.status {
                Status::Paid => "the order is paid: ask for a refund instead".to_owned(),
                status => format!("an order that is {} cannot be cancelled", status.as_str()),
            };
            Err(Problem::new(Code::WrongState, detail).about(id))
        }
        CloseOutcome::Paid { order, newly } => {
            if let Some(with) = order.paid.as_ref().filter(|_| newly) {
                pay::count_settled(app, &id, with.method, now);
            }
            Err(Problem::new(Code::WrongState, "the order was paid in the meantime: ask for a refund instead")
                .about(id))
        }
        CloseOutcome::NotBefore(_, moment) => {
            let detail = format!("its payment cannot be closed before {moment}: cancel it then, or let it time out");
            Err(Problem::new(Code::WrongState, detail).about(id))
        }
        // A cancel does not depend on the deadline. If the order is being changed, it can be cancelled afterwards.
        CloseOutcome::NotDue(_) => Err(try_again(id)),
        // It may be accepted and not placed yet: then it can be cancelled in a moment.
        CloseOutcome::Unknown => Err(pay::unknown_or_queued(app, buyer, id, now).await?),
    }
}

fn try_again(id: OrderId) -> Problem {
    Problem::new(Code::WrongState, "the order is still being made: try again in a moment").about(id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::ids::Buyer;

    #[test]
    fn another_buyers_order_and_an_invalid_id_are_both_unknown() {
        let key = |name| BuyerKey::of(&Buyer::parse(name).unwrap(), "salt");
        let mine = OrderId::new(Timestamp::UNIX_EPOCH, &key("ann"), 1);
        let theirs = OrderId::new(Timestamp::UNIX_EPOCH, &key("bob"), 1);
        assert_eq!(order_id(&key("ann"), mine.as_str()).unwrap(), mine);
        let lower = mine.as_str().to_ascii_lowercase();
        for text in [theirs.as_str(), "", "x", "../orders", lower.as_str()] {
            assert_eq!(order_id(&key("ann"), text).unwrap_err().code, Code::UnknownOrder, "{text}");
        }
    }

    #[test]
    fn the_sample_events_are_a_buyers_requests() {
        let read = |event| lambda_http::request::from_str(event).unwrap();
        let sales = read(include_str!("../../../tests/events/shop-sales.json"));
        assert_eq!(request::route(&sales), (&Method::GET, vec!["sales"]));
        assert_eq!(request::buyer(&sales).unwrap_err().code, Code::Unauthenticated);
        let orders = read(include_str!("../../../tests/events/shop-orders.json"));
        assert_eq!(request::route(&orders), (&Method::GET, vec!["orders"]));
        let cancel = read(include_str!("../../../tests/events/shop-cancel.json"));
        let buyer = BuyerKey::of(&request::buyer(&cancel).unwrap(), "local");
        match request::route(&cancel) {
            (&Method::POST, path) if path.len() == 3 => assert!(order_id(&buyer, path[1]).is_ok()),
            other => panic!("{other:?}"),
        }
    }
}
