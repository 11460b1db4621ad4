//! `POST /admin/points`: gives points to a buyer, once for each Idempotency-Key.

use domain::ids::{Buyer, IdempotencyKey};
use edge::{Body, Code, Problem, Request, Response, body, request, response};
use lambda_http::http::StatusCode;
use serde::{Deserialize, Serialize};
use store::Credited;

use crate::App;

/// The most points in one credit, as a guard against typing errors.
const MAX_CREDIT: i64 = 1_000_000_000;

/// What an operator sends.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PointsBody {
    /// The `sub` of the buyer's tokens.
    buyer: Buyer,
    points: i64,
}

/// The buyer's points afterwards.
#[derive(Debug, Serialize)]
struct PointsView<'a> {
    buyer: &'a Buyer,
    points: i64,
    frozen: i64,
}

pub(crate) async fn credit(app: &App, request: &Request) -> Result<Response<Body>, Problem> {
    let (PointsBody { buyer, points }, key) = read(request)?;
    app.salt.read().await.map_err(Problem::after_failure)?;
    let buyer_key = app.salt.key_of(&buyer).ok_or_else(Problem::unavailable)?;
    match app.store.credit_points(&buyer, &buyer_key, points, &key, (app.clock)()).await? {
        Credited::Done => {}
        Credited::Mismatch => {
            return Err(Problem::new(
                Code::IdempotencyMismatch,
                "this Idempotency-Key was used for another credit of this buyer's: use a new key for a new credit",
            ));
        }
    }
    tracing::info!(buyer_key = %buyer_key, points, key = %key, "a buyer was given points");
    let account = app.store.account(&buyer_key).await?;
    let view = PointsView { buyer: &buyer, points: account.balance, frozen: account.frozen.values().sum() };
    Ok(response::json(StatusCode::OK, &view))
}

/// A credit must carry a key: without one, retrying after a lost answer would give the points twice.
fn read(request: &Request) -> Result<(PointsBody, IdempotencyKey), Problem> {
    let key = request::idempotency_key(request)?
        .ok_or_else(|| Problem::invalid("Idempotency-Key", "is missing: name this credit, so that it is made once"))?;
    let form: PointsBody = body::parse(request, body::SMALL)?;
    if !(1..=MAX_CREDIT).contains(&form.points) {
        return Err(Problem::invalid("points", format!("must be a whole number from 1 to {MAX_CREDIT}")));
    }
    Ok((form, key))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(text: &str, key: Option<&str>) -> Request {
        let mut request = lambda_http::http::Request::post("/admin/points");
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        request.body(Body::from(text)).unwrap()
    }

    #[test]
    fn a_credit_has_a_buyer_points_and_a_key() {
        let (form, key) = read(&request(r#"{"buyer": "ann", "points": 500}"#, Some("k1"))).unwrap();
        assert_eq!((form.buyer.as_str(), form.points, key.as_str()), ("ann", 500, "k1"));
        assert!(read(&request(r#"{"buyer": "ann", "points": 1000000000}"#, Some("k1"))).is_ok());
        for (text, key, field) in [
            (r#"{"buyer": "ann", "points": 500}"#, None, "Idempotency-Key"),
            (r#"{"buyer": "ann", "points": 0}"#, Some("k1"), "points"),
            (r#"{"buyer": "ann", "points": -5}"#, Some("k1"), "points"),
            (r#"{"buyer": "ann", "points": 1000000001}"#, Some("k1"), "points"),
            (r#"{"buyer": "ann", "points": 1.5}"#, Some("k1"), "points"),
            (r#"{"buyer": "ann"}"#, Some("k1"), "points"),
            (r#"{"buyer": "", "points": 5}"#, Some("k1"), "buyer"),
            (r#"{"points": 5}"#, Some("k1"), "buyer"),
            (r#"{"buyer": "ann", "points": 5, "currency": "CNY"}"#, Some("k1"), "currency"),
        ] {
            let problem = read(&request(text, key)).unwrap_err();
            assert_eq!((problem.code, problem.errors[0].field.as_str()), (Code::Invalid, field), "{text}");
        }
    }

    #[test]
    fn the_sample_event_gives_points() {
        let event = include_str!("../../../tests/events/admin-points.json");
        let request = lambda_http::request::from_str(event).unwrap();
        assert_eq!(request::route(&request).1, ["admin", "points"]);
        assert!(request::require_operator(&request).is_ok());
        assert_eq!(read(&request).unwrap().0.points, 500);
    }
}
