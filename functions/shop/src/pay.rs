//! A buyer pays, or asks for a refund.

use domain::Timestamp;
use domain::ids::{BuyerKey, OrderId};
use domain::payment::Method;
use edge::order::OrderJson;
use edge::{Body, Code, Problem, Request, Response, body, request, response};
use flows::pay::refund::{Asker, Refund, refund};
use flows::pay::start_payment::{NotStarted, StartPayment, Started, start_payment};
use flows::view::orders;
use lambda_http::http::StatusCode;
use serde::{Deserialize, Serialize};
use store::Account;
use telemetry::{Metric, Metrics};

use crate::{App, order_id, try_again};

/// What a buyer sends. The amount comes from the order, never from the buyer.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PaymentBody {
    method: Method,
    points: Option<i64>,
}

/// A payment that can be made now, or was made with points.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PaymentJson {
    payment_id: String,
    method: Method,
    pay_url: Option<String>,
    qr_code: Option<String>,
    qr_svg: Option<String>,
    amount: i64,
    currency: String,
    points: i64,
    expires_at: Timestamp,
    status: &'static str,
}

impl PaymentJson {
    fn of(method: Method, started: Started) -> Self {
        Self {
            payment_id: started.number.to_string(),
            method,
            qr_svg: started.link.qr_code.as_deref().and_then(payments::qr_svg),
            pay_url: started.link.pay_url,
            qr_code: started.link.qr_code,
            amount: started.amount,
            currency: started.currency.to_string(),
            points: started.points,
            expires_at: started.expires_at,
            status: if started.paid { "PAID" } else { "OPEN" },
        }
    }
}

/// A buyer's points.
#[derive(Debug, Serialize)]
pub(crate) struct PointsJson {
    points: i64,
    /// Points that are frozen for open payments.
    frozen: i64,
}

impl PointsJson {
    fn of(account: &Account) -> Self {
        Self { points: account.balance, frozen: account.frozen.values().sum() }
    }
}

pub(crate) async fn points(app: &App, buyer: &BuyerKey) -> Result<Response<Body>, Problem> {
    Ok(response::json(StatusCode::OK, &PointsJson::of(&app.store.account(buyer).await?)))
}

pub(crate) async fn pay(
    app: &App,
    buyer: &BuyerKey,
    order: &str,
    request: &Request,
) -> Result<Response<Body>, Problem> {
    let id = order_id(buyer, order)?;
    let PaymentBody { method, points } = body::parse(request, body::SMALL)?;
    let now = (app.clock)();
    let asked = StartPayment {
        order: id.clone(),
        method,
        points: points.unwrap_or(0),
        client_ip: request::source_ip(request).unwrap_or("127.0.0.1").to_owned(),
        public_url: public_url(app, request)?,
    };
    match start_payment(app.context(now), &asked).await {
        Ok(started) => {
            let (payment_id, paid, trace) = (&started.number, started.paid, request::trace(request));
            tracing::info!(
                order_id = %id, %payment_id, %method, amount = started.amount, points = started.points, paid, trace,
                "a payment was started"
            );
            if started.paid {
                let mut metrics = Metrics::at(now);
                metrics.count_of(Metric::PaymentsSettled, Method::Points.as_str());
                metrics.flush(&app.metrics);
            }
            Ok(response::json(StatusCode::CREATED, &PaymentJson::of(method, started)))
        }
        Err(NotStarted::UnknownOrder) => Err(unknown_or_queued(app, buyer, id, now).await?),
        Err(refusal) => {
            if let NotStarted::Refused(reason) = &refusal {
                let trace = request::trace(request);
                tracing::warn!(order_id = %id, %method, reason, trace, "a provider refused to start a payment");
            }
            if let NotStarted::Paid { newly_with: Some(method) } = refusal {
                count_settled(app, &id, method, now);
            }
            Err(Problem::from(refusal).about(id))
        }
    }
}

pub(crate) async fn refund_order(
    app: &App,
    buyer: &BuyerKey,
    order: &str,
    request: &Request,
) -> Result<Response<Body>, Problem> {
    let id = order_id(buyer, order)?;
    let now = (app.clock)();
    let trace = request::trace(request);
    let asked = refund(app.context(now), &id, Asker::Buyer).await;
    match asked.map_err(|error| Problem::from(error).about(id.clone()))? {
        Refund::Done { order, newly } => {
            if newly {
                tracing::info!(order_id = %id, trace, "an order was refunded");
                let mut metrics = Metrics::at(now);
                metrics.count(Metric::Refunds);
                metrics.flush(&app.metrics);
            }
            Ok(response::json(StatusCode::OK, &OrderJson::made(&order)))
        }
        Refund::UnderWay(order) => {
            tracing::info!(order_id = %id, trace, "an order's refund is under way");
            Ok(response::json(StatusCode::ACCEPTED, &OrderJson::made(&order)))
        }
        Refund::Refused(order) => {
            let detail = format!("an order that is {} cannot be refunded: only a paid one can", order.status.as_str());
            Err(Problem::new(Code::WrongState, detail).about(id))
        }
        Refund::TooLate(_) => {
            let detail = "the time in which buyers can refund orders of this sale is over: ask the shop";
            Err(Problem::new(Code::RefundClosed, detail).about(id))
        }
        Refund::Unknown => Err(unknown_or_queued(app, buyer, id, now).await?),
    }
}

/// Counts a payment that this request settled although it asked for something else.
pub(crate) fn count_settled(app: &App, order: &OrderId, method: Method, now: Timestamp) {
    let mut metrics = Metrics::at(now);
    metrics.note("order_id", order);
    metrics.count_of(Metric::PaymentsSettled, method.as_str());
    metrics.flush(&app.metrics);
}

/// The answer for an order that does not exist: it may be accepted, and exist in a moment.
pub(crate) async fn unknown_or_queued(
    app: &App,
    buyer: &BuyerKey,
    id: OrderId,
    now: Timestamp,
) -> Result<Problem, Problem> {
    Ok(match orders::order(&app.store, &app.sales, buyer, &id, now).await? {
        Some(_) => try_again(id),
        None => Problem::unknown_order(),
    })
}

/// The URL at which providers and browsers reach this system: the configured one, else the domain of this request.
fn public_url(app: &App, request: &Request) -> Result<String, Problem> {
    if let Some(url) = &app.public_url {
        return Ok(url.trim_end_matches('/').to_owned());
    }
    match request::domain(request) {
        Some(domain) => Ok(format!("https://{domain}")),
        None => {
            tracing::error!("PUBLIC_URL is not set and the event has no domain name: no payment can be started");
            Err(Problem::new(Code::Unavailable, "payments cannot be started here for now"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::ids::PaymentNumber;
    use domain::money::Currency;
    use domain::payment::Link;
    use serde_json::{Value, json};

    const NUMBER: &str = "01M73YF03V69FY4XMCZZ6TJE3WN5Y5Y0";

    fn started(link: Link, paid: bool) -> Started {
        Started {
            number: PaymentNumber::parse(NUMBER).unwrap(),
            link,
            amount: 69_900,
            currency: Currency::parse("CNY").unwrap(),
            points: 5,
            expires_at: "2026-11-11T00:15:00Z".parse().unwrap(),
            paid,
        }
    }

    #[test]
    fn a_payment_has_every_field_of_the_contract() {
        let page = Link { pay_url: Some("https://pay.example/1".into()), ..Link::default() };
        assert_eq!(
            serde_json::to_value(PaymentJson::of(Method::Alipay, started(page, false))).unwrap(),
            json!({
                "paymentId": NUMBER, "method": "alipay", "payUrl": "https://pay.example/1", "qrCode": null,
                "qrSvg": null, "amount": 69_900, "currency": "CNY", "points": 5, "expiresAt": "2026-11-11T00:15:00Z",
                "status": "OPEN",
            })
        );
        let code = Link { qr_code: Some("weixin://wxpay/bizpayurl?pr=1".into()), ..Link::default() };
        let json = serde_json::to_value(PaymentJson::of(Method::WechatV2, started(code, false))).unwrap();
        assert_eq!((&json["method"], &json["payUrl"]), (&json!("wechat-v2"), &Value::Null));
        assert!(json["qrSvg"].as_str().is_some_and(|svg| svg.starts_with("<svg")), "{json}");
        let paid = serde_json::to_value(PaymentJson::of(Method::Points, started(Link::default(), true))).unwrap();
        assert_eq!((&paid["status"], &paid["qrSvg"]), (&json!("PAID"), &Value::Null));
    }

    #[test]
    fn a_buyer_says_how_and_never_how_much() {
        let parsed = |text: &str| {
            let request = lambda_http::http::Request::post("/").body(Body::from(text)).unwrap();
            body::parse::<PaymentBody>(&request, body::SMALL)
        };
        assert_eq!(parsed(r#"{"method": "wechat-v2"}"#).unwrap().method, Method::WechatV2);
        assert_eq!(parsed(r#"{"method": "stripe", "points": 7}"#).unwrap().points, Some(7));
        for (text, field) in [
            ("{}", "method"),
            (r#"{"method": "cash"}"#, "method"),
            (r#"{"method": "alipay", "points": 1.5}"#, "points"),
            (r#"{"method": "alipay", "amount": 1}"#, "amount"),
        ] {
            let problem = parsed(text).unwrap_err();
            assert_eq!((problem.code, problem.errors[0].field.as_str()), (Code::Invalid, field), "{text}");
        }
    }

    #[test]
    fn frozen_points_are_summed() {
        let order =
            |random| OrderId::new(Timestamp::UNIX_EPOCH, &OrderId::parse(&NUMBER[..31]).unwrap().buyer(), random);
        let account = Account { balance: 100, frozen: [(order(1), 20), (order(2), 3)].into() };
        assert_eq!(serde_json::to_value(PointsJson::of(&account)).unwrap(), json!({"points": 100, "frozen": 23}));
    }

    #[test]
    fn the_sample_events_ask_for_a_payment_and_a_refund() {
        let read = |event| lambda_http::request::from_str(event).unwrap();
        let payment = read(include_str!("../../../tests/events/shop-payment.json"));
        let buyer = BuyerKey::of(&request::buyer(&payment).unwrap(), "local");
        match request::route(&payment).1.as_slice() {
            ["orders", order, "payments"] => assert!(order_id(&buyer, order).is_ok()),
            other => panic!("{other:?}"),
        }
        assert_eq!(body::parse::<PaymentBody>(&payment, body::SMALL).unwrap().method, Method::Wechat);
        assert!(request::domain(&payment).is_some() && request::source_ip(&payment).is_some());
        let refund = read(include_str!("../../../tests/events/shop-refund.json"));
        match request::route(&refund).1.as_slice() {
            ["orders", order, "refund"] => assert!(order_id(&buyer, order).is_ok()),
            other => panic!("{other:?}"),
        }
    }
}
