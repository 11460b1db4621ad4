//! `GET /admin/sales/{saleId}/live`: current figures.

use std::collections::BTreeMap;

use domain::Timestamp;
use domain::ids::{ItemId, SaleId};
use domain::sale::Phase;
use edge::{Body, Problem, Response, response};
use flows::view::live::Figures;
use lambda_http::http::StatusCode;
use serde::Serialize;

use crate::App;
use crate::traffic::Measured;
use crate::view::every_status;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LiveView<'a> {
    sale_id: &'a SaleId,
    status: Phase,
    at: Timestamp,
    items: Vec<ItemFigures<'a>>,
    /// Null if there are too many to count for the console.
    orders: Option<BTreeMap<&'static str, u64>>,
    orders_at: Option<Timestamp>,
    /// Null if CloudWatch does not answer.
    traffic: Option<Measured>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ItemFigures<'a> {
    item_id: &'a ItemId,
    name: &'a str,
    total: u64,
    free: u64,
    held: u64,
    sold: u64,
}

pub(crate) async fn show(app: &App, id: &SaleId) -> Result<Response<Body>, Problem> {
    let now = (app.clock)();
    let found = app.live.figures(&app.store, id, now).await?.ok_or_else(Problem::unknown_sale)?;
    let orders = app.live.orders(&app.store, id, now).await?;
    let traffic = match &app.traffic {
        Some(traffic) => traffic.lately(now).await,
        None => None,
    };
    let items = found.sale.items.values().filter_map(|item| {
        let Figures { total, free, held, sold } = *found.items.get(&item.id)?;
        Some(ItemFigures { item_id: &item.id, name: &item.name, total, free, held, sold })
    });
    let view = LiveView {
        sale_id: id,
        status: found.sale.sale.phase(now),
        at: found.at,
        items: items.collect(),
        orders: orders.as_ref().map(|counted| every_status(&counted.0)),
        orders_at: orders.as_ref().map(|counted| counted.1),
        traffic,
    };
    Ok(response::json(StatusCode::OK, &view))
}
