//! `GET /admin/money` and `POST /admin/orders/{orderId}/resolve`: matters of money that wait for an operator.

use domain::Timestamp;
use domain::ids::OrderId;
use domain::payment::{Matter, Method, OpenEntry, PayEntry, RefundEntry, Resolution};
use edge::order::OrderJson;
use edge::{Body, Code, Problem, Request, Response, body, request, response};
use flows::pay::resolve::{Resolve, ResolveOutcome, resolve};
use lambda_http::http::StatusCode;
use serde::{Deserialize, Serialize};

use crate::App;

/// The longest reason, in characters.
const MAX_REASON: usize = 500;
/// Matters in a list, the oldest first.
const LISTED: usize = 500;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ResolveBody {
    #[serde(rename = "as")]
    resolution: Resolution,
    reason: String,
}

/// Matters that were closed although their order does not exist.
#[derive(Debug, Serialize)]
struct ClosedMatters {
    matters: usize,
}

#[derive(Debug, Serialize)]
struct MoneyView {
    now: Timestamp,
    matters: Vec<MatterView>,
    /// Whether there are more than are listed.
    more: bool,
}

/// Something about money that is open.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct MatterView {
    /// REFUND_OPEN, REFUND_REFUSED, PAYMENT_OPEN, or the kind of a matter.
    kind: &'static str,
    order_id: OrderId,
    method: Method,
    transaction: String,
    amount: i64,
    currency: String,
    /// A refund: what is still to be sent back.
    remaining: Option<i64>,
    since: Timestamp,
    /// What the provider said last.
    words: Option<String>,
    /// A refund: how often the provider was asked without success, and when it was asked last.
    tries: Option<u32>,
    tried_at: Option<Timestamp>,
    /// How an operator can resolve it.
    resolve_as: Vec<Resolution>,
}

impl MatterView {
    fn of(entry: OpenEntry) -> Self {
        match entry {
            OpenEntry::Pay(entry) => Self::payment(entry),
            OpenEntry::Refund(entry) => Self::refund(entry),
            OpenEntry::Matter(matter) => Self::matter(matter),
        }
    }

    /// Money that reconcile settles within minutes.
    fn payment(entry: PayEntry) -> Self {
        Self {
            kind: "PAYMENT_OPEN",
            order_id: entry.order,
            method: entry.with.method,
            transaction: entry.with.transaction,
            amount: entry.with.amount,
            currency: entry.currency.to_string(),
            remaining: None,
            since: entry.at,
            words: None,
            tries: None,
            tried_at: None,
            resolve_as: Vec::new(),
        }
    }

    fn refund(entry: RefundEntry) -> Self {
        let remaining = entry.remaining();
        let mut resolve_as = vec![Resolution::RefundedByHand];
        if entry.cause == domain::payment::RefundCause::Order {
            resolve_as.push(Resolution::KeepAsPaid);
        }
        Self {
            kind: if entry.refused { "REFUND_REFUSED" } else { "REFUND_OPEN" },
            order_id: entry.order,
            method: entry.with.method,
            transaction: entry.with.transaction,
            amount: entry.with.amount,
            currency: entry.currency.to_string(),
            remaining: Some(remaining),
            since: entry.at,
            words: entry.trouble,
            tries: Some(entry.tries),
            tried_at: entry.tried_at,
            resolve_as,
        }
    }

    fn matter(matter: Matter) -> Self {
        Self {
            kind: matter.kind.as_str(),
            order_id: matter.order,
            method: matter.method,
            transaction: matter.transaction,
            amount: matter.amount,
            currency: matter.currency.to_string(),
            remaining: None,
            since: matter.at,
            words: Some(matter.words),
            tries: None,
            tried_at: None,
            resolve_as: vec![Resolution::KeepAsPaid, Resolution::CloseWithoutProvider],
        }
    }
}

pub(crate) async fn list(app: &App) -> Result<Response<Body>, Problem> {
    let mut entries = app.store.open_entries().await?.entries.read;
    let more = entries.len() > LISTED;
    entries.truncate(LISTED);
    let matters = entries.into_iter().map(MatterView::of).collect();
    Ok(response::json(StatusCode::OK, &MoneyView { now: (app.clock)(), matters, more }))
}

pub(crate) async fn resolve_order(app: &App, order: &str, request: &Request) -> Result<Response<Body>, Problem> {
    let order = OrderId::parse(order).map_err(|_| Problem::unknown_order())?;
    let by = request::buyer(request)?.to_string();
    let ResolveBody { resolution, reason } = body::parse(request, body::SMALL)?;
    let reason = reason.trim().to_owned();
    if !(1..=MAX_REASON).contains(&reason.chars().count()) || reason.chars().any(char::is_control) {
        return Err(Problem::invalid("reason", "must be 1 to 500 characters, none of them a control character"));
    }
    let asked = Resolve { order: order.clone(), resolution, reason, by };
    let resolved = resolve(&app.store, &asked, (app.clock)()).await;
    match resolved.map_err(|error| Problem::from(error).about(order.clone()))? {
        ResolveOutcome::Done(found) => {
            tracing::info!(order_id = %order, ?resolution, status = found.status.as_str(), "an operator resolved it");
            Ok(response::json(StatusCode::OK, &OrderJson::made(&found)))
        }
        ResolveOutcome::Refused(found) => {
            let detail = format!(
                "nothing in this order, which is {}, can be resolved in this way: GET /admin/money tells what can",
                found.status.as_str()
            );
            Err(Problem::new(Code::WrongState, detail).about(order))
        }
        ResolveOutcome::Unknown { matters: 0 } => Err(Problem::unknown_order()),
        ResolveOutcome::Unknown { matters } => {
            tracing::info!(order_id = %order, ?resolution, "an operator closed matters of an order that is not there");
            Ok(response::json(StatusCode::OK, &ClosedMatters { matters }))
        }
    }
}
