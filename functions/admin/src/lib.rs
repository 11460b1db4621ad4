//! The operator's requests: set up, preheat, pause, restock, close, watch and audit a sale; give points to a
//! buyer; list dead letters and send them again; list open matters of money and resolve them.
//!
//! Every route needs a token with a scope: `seckill/read` to look, `seckill/desk` to act on orders, `seckill/admin` for
//! everything. The gateway checks it, and so does this function.

mod dead_letters;
mod form;
mod live;
mod money;
mod points;
mod traffic;
mod view;

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use domain::ids::{ItemId, Offer, OrderId, SaleId};
use domain::sale::SaleChange;
use edge::request::Scope;
use edge::{Body, Problem, Request, Response, body, request, response};
use flows::sale::{set_up, stock};
use flows::view::audit;
use flows::view::live::Live;
use lambda_http::http::{Method, StatusCode};
use runtime::{Clock, Environment, Random, Salt, StartError};
use serde::Deserialize;
use store::Store;
use store::dead_letters::{DeadLetters, Queues};

use crate::form::SaleBody;
use crate::view::{AuditView, ItemView, SaleView, SalesView};

pub use crate::traffic::Traffic;

/// How long stock is laid out in one request: API Gateway waits 30 seconds. Preheating again or reconcile lays
/// out the rest.
const LAY_OUT_BUDGET: Duration = Duration::from_secs(20);

/// Sales in a list, the newest first.
const LISTED: usize = 100;

/// What a running function needs.
pub struct App {
    pub store: Store,
    pub clock: Clock,
    /// Random bits for sale ids.
    pub random: Random,
    /// The deployment's salt for buyers' keys.
    pub salt: Salt,
    pub live: Live,
    /// `None`: the queues are not configured.
    pub dead_letters: Option<DeadLetters>,
    /// `None`: CloudWatch is not asked.
    pub traffic: Option<Traffic>,
}

impl App {
    /// A function that has just started.
    pub fn new(store: Store, salt: impl Into<Salt>, clock: Clock, random: Random) -> Self {
        let live = Live::default();
        Self { store, clock, random, salt: salt.into(), live, dead_letters: None, traffic: None }
    }

    /// The function as it is deployed.
    pub fn start(environment: &Environment) -> Result<Self, StartError> {
        let queues = Queues {
            orders_queue: environment.names.orders_queue_url.clone(),
            orders_dead_letters: environment.required("ORDERS_DEAD_LETTERS_URL")?,
            timeout_dead_letters: environment.required("TIMEOUT_DEAD_LETTERS_URL")?,
            stock_stream_dead_letters: environment.required("STOCK_STREAM_DEAD_LETTERS_URL")?,
            push_dead_letters: environment.required("PUSH_DEAD_LETTERS_URL")?,
            reconcile_dead_letters: environment.required("RECONCILE_DEAD_LETTERS_URL")?,
        };
        Ok(Self {
            dead_letters: Some(DeadLetters::new(&environment.config, queues)),
            traffic: Some(Traffic::new(&environment.config)),
            ..Self::new(environment.store(), environment.salt()?, runtime::system_clock(), runtime::system_random())
        })
    }
}

/// What an operator sends to add units.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RestockBody {
    quantity: NonZeroU32,
}

/// Answers an operator's request.
pub async fn handle(app: &App, request: Request) -> Response<Body> {
    match answer(app, &request).await {
        Ok(response) => response,
        Err(problem) => problem.respond(request::trace(&request).as_deref()),
    }
}

async fn answer(app: &App, request: &Request) -> Result<Response<Body>, Problem> {
    let (method, path) = request::route(request);
    request::require_scope(request, needed(method, &path))?;
    match (method, path.as_slice()) {
        (&Method::GET, ["admin", "sales"]) => list(app).await,
        (&Method::POST, ["admin", "sales"]) => create(app, request).await,
        (&Method::GET, ["admin", "sales", sale]) => read(app, &sale_id(sale)?).await,
        (&Method::PUT, ["admin", "sales", sale]) => edit(app, &sale_id(sale)?, request).await,
        (&Method::POST, ["admin", "sales", sale, "preheat"]) => preheat(app, &sale_id(sale)?).await,
        (&Method::POST, ["admin", "sales", sale, "pause"]) => change(app, &sale_id(sale)?, SaleChange::Pause).await,
        (&Method::POST, ["admin", "sales", sale, "resume"]) => change(app, &sale_id(sale)?, SaleChange::Resume).await,
        (&Method::POST, ["admin", "sales", sale, "close"]) => change(app, &sale_id(sale)?, SaleChange::Close).await,
        (&Method::POST, ["admin", "sales", sale, "items", item, "restock"]) => {
            let item = ItemId::parse(*item).map_err(|_| Problem::unknown_item())?;
            restock(app, &Offer { sale: sale_id(sale)?, item }, request).await
        }
        (&Method::GET, ["admin", "sales", sale, "audit"]) => audit(app, &sale_id(sale)?, request).await,
        (&Method::GET, ["admin", "sales", sale, "live"]) => live::show(app, &sale_id(sale)?).await,
        (&Method::GET, ["admin", "dead-letters"]) => dead_letters::list(app).await,
        (&Method::POST, ["admin", "dead-letters", kind, "redrive"]) => dead_letters::redrive(app, kind).await,
        (&Method::GET, ["admin", "money"]) => money::list(app).await,
        (&Method::POST, ["admin", "orders", order, "resolve"]) => money::resolve_order(app, order, request).await,
        (&Method::POST, ["admin", "points"]) => points::credit(app, request).await,
        _ => Err(Problem::not_found()),
    }
}

/// The scope that a route needs.
fn needed(method: &Method, path: &[&str]) -> Scope {
    match (method, path) {
        (&Method::GET, _) => Scope::Read,
        (&Method::POST, ["admin", "orders", _, _]) => Scope::Desk,
        _ => Scope::Admin,
    }
}

/// Parses a sale's id. Any other text is an unknown sale.
fn sale_id(text: &str) -> Result<SaleId, Problem> {
    SaleId::parse(text).map_err(|_| Problem::unknown_sale())
}

async fn list(app: &App) -> Result<Response<Body>, Problem> {
    let now = (app.clock)();
    let (found, more) = app.store.all_sales(LISTED).await?;
    let sales = found.iter().map(|found| SaleView::of(found, now)).collect();
    Ok(response::json(StatusCode::OK, &SalesView { now, sales, more }))
}

async fn create(app: &App, request: &Request) -> Result<Response<Body>, Problem> {
    let form: SaleBody = body::parse(request, body::LARGE)?;
    if form.version().is_some() {
        return Err(Problem::invalid("version", "must be left out: a new sale has no version yet"));
    }
    let now = (app.clock)();
    let id = form::new_sale_id(now, (app.random)())?;
    let created = set_up::create(&app.store, id, form.into(), now).await?;
    tracing::info!(sale_id = %created.sale.id, "a sale was created");
    Ok(response::json(StatusCode::CREATED, &SaleView::of(&created, now)))
}

async fn read(app: &App, id: &SaleId) -> Result<Response<Body>, Problem> {
    let found = app.store.sale(id).await?.ok_or_else(Problem::unknown_sale)?;
    Ok(response::json(StatusCode::OK, &SaleView::of(&found, (app.clock)())))
}

async fn edit(app: &App, id: &SaleId, request: &Request) -> Result<Response<Body>, Problem> {
    let form: SaleBody = body::parse(request, body::LARGE)?;
    let now = (app.clock)();
    let version = form.version();
    let edited = set_up::edit(&app.store, id, form.into(), version, now).await?;
    tracing::info!(sale_id = %id, version = edited.sale.version, "a sale was edited");
    Ok(response::json(StatusCode::OK, &SaleView::of(&edited, now)))
}

async fn preheat(app: &App, id: &SaleId) -> Result<Response<Body>, Problem> {
    let now = (app.clock)();
    let preheated = stock::preheat(&app.store, id, now, Instant::now() + LAY_OUT_BUDGET).await?;
    tracing::info!(sale_id = %id, "a sale was preheated");
    Ok(response::json(StatusCode::OK, &SaleView::of(&preheated, now)))
}

async fn change(app: &App, id: &SaleId, change: SaleChange) -> Result<Response<Body>, Problem> {
    let now = (app.clock)();
    let changed = set_up::change(&app.store, id, change, now).await?;
    tracing::info!(sale_id = %id, ?change, "a sale was changed");
    Ok(response::json(StatusCode::OK, &SaleView::of(&changed, now)))
}

async fn restock(app: &App, offer: &Offer, request: &Request) -> Result<Response<Body>, Problem> {
    // Without a key of the operator's, this request gets one: its retry must recognise what the first attempt did.
    let key = match request::idempotency_key(request)? {
        Some(key) => key,
        None => form::new_restock_key((app.clock)(), (app.random)())?,
    };
    let RestockBody { quantity } = body::parse(request, body::SMALL)?;
    let until = Instant::now() + LAY_OUT_BUDGET;
    let item = stock::restock(&app.store, offer, quantity.get(), &key, until).await?;
    tracing::info!(sale_id = %offer.sale, item_id = %offer.item, quantity, "an item was restocked");
    Ok(response::json(StatusCode::OK, &ItemView::of(&item)))
}

async fn audit(app: &App, id: &SaleId, request: &Request) -> Result<Response<Body>, Problem> {
    let after = request::query(request, "cursor").map(OrderId::parse).transpose();
    let after = after.map_err(|_| Problem::invalid("cursor", "must be the cursor of the previous answer"))?;
    let audited = audit::audit(&app.store, id, after).await?.ok_or_else(Problem::unknown_sale)?;
    Ok(response::json(StatusCode::OK, &AuditView::of(&audited, (app.clock)())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sample_events_are_an_operators_requests() {
        let events = [
            (include_str!("../../../tests/events/admin-create-sale.json"), "POST admin/sales"),
            (include_str!("../../../tests/events/admin-preheat.json"), "POST admin/sales/s1nqrj4w003f0c9yk/preheat"),
            (
                include_str!("../../../tests/events/admin-restock.json"),
                "POST admin/sales/s1nqrj4w003f0c9yk/items/phone/restock",
            ),
            (include_str!("../../../tests/events/admin-audit.json"), "GET admin/sales/s1nqrj4w003f0c9yk/audit"),
        ];
        for (event, route) in events {
            let request = lambda_http::request::from_str(event).unwrap();
            let (method, path) = request::route(&request);
            assert_eq!(format!("{method} {}", path.join("/")), route);
            assert!(request::require_operator(&request).is_ok(), "{route}");
        }
        let create = lambda_http::request::from_str(events[0].0).unwrap();
        assert!(body::parse::<SaleBody>(&create, body::LARGE).is_ok());
        let restock = lambda_http::request::from_str(events[2].0).unwrap();
        assert_eq!(body::parse::<RestockBody>(&restock, body::SMALL).unwrap().quantity.get(), 100);
        assert!(request::idempotency_key(&restock).unwrap().is_some());
    }
}
