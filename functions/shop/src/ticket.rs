//! `POST /ws-ticket`: a ticket with which a browser opens its WebSocket, `/ws?token=TICKET`. A browser cannot
//! send a header with a WebSocket, and a token in a URL would appear in logs. A ticket in a log is worthless: it
//! is already used.

use domain::Timestamp;
use domain::ids::BuyerKey;
use domain::ticket::{GOOD_FOR, Ticket};
use edge::{Body, Code, Problem, Response, response};
use lambda_http::http::StatusCode;
use serde::Serialize;

use crate::App;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TicketJson<'a> {
    ticket: &'a str,
    expires_at: Timestamp,
}

pub(crate) async fn make(app: &App, buyer: &BuyerKey) -> Result<Response<Body>, Problem> {
    let random = (app.random)().ok_or_else(|| Problem::new(Code::Unavailable, "no ticket could be made"))?;
    let ticket = Ticket::new(random);
    let expires_at = (app.clock)().saturating_add(GOOD_FOR).unwrap_or(Timestamp::MAX);
    app.store.put_ticket(&ticket, buyer, expires_at).await?;
    Ok(response::json(StatusCode::CREATED, &TicketJson { ticket: ticket.reveal(), expires_at }))
}

/// The machine's own random bits.
pub(crate) fn random() -> Option<u128> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).ok()?;
    Some(u128::from_be_bytes(bytes))
}
