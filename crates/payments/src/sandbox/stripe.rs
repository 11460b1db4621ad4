//! Stripe's side.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Asked, CONSOLE, Happened, Keys, Payment, Refund, RefundState, Refusal, Reply, State};
use crate::http::{HttpAnswer, HttpCall, Method};
use crate::payment::{Nonce, Way};
use crate::shared::crypto::{Secret, hmac_sha256_hex, same};
use crate::shared::form;

#[derive(Debug)]
pub(super) struct Side {
    key: Secret,
    webhook_secret: Secret,
}

impl Side {
    pub(super) fn new(keys: &Keys) -> Self {
        let webhook_secret = Secret::new(keys.stripe_webhook_secret.clone());
        Self { key: Secret::new(keys.stripe_key.clone()), webhook_secret }
    }

    pub(super) fn read(&self, call: &HttpCall) -> Result<Asked, HttpAnswer> {
        let authorization = call.headers.one("Authorization").unwrap_or_default();
        if !same(authorization, &format!("Bearer {}", self.key.expose())) {
            return Err(refuse(401, "invalid_request_error", "Invalid API Key provided"));
        }
        let (_, path) = call.path_and_query().split_once("/v1/").unwrap_or_default();
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        match (call.method, path.split('/').collect::<Vec<_>>().as_slice()) {
            (Method::Post, ["checkout", "sessions"]) => create(&call.body),
            (Method::Get, ["checkout", "sessions", id] | ["payment_intents", id]) => Ok(Asked::Query((*id).to_owned())),
            (Method::Post, ["checkout", "sessions", id, "expire"]) => Ok(Asked::Close((*id).to_owned())),
            (Method::Post, ["refunds"]) => refund(&call.body),
            (Method::Get, ["refunds"]) => {
                let query = form::read(query.as_bytes()).unwrap_or_default();
                Ok(Asked::QueryRefund(query.get("payment_intent").cloned().unwrap_or_default()))
            }
            _ => Err(refuse(404, "invalid_request_error", "Unrecognized request URL")),
        }
    }

    pub(super) fn answer(&self, asked: &Asked, reply: Reply<'_>, now: Timestamp) -> HttpAnswer {
        let body = match reply {
            Reply::Created(payment, link) => {
                let mut session = session(payment);
                if let Some(session) = session.as_object_mut() {
                    session.insert("url".to_owned(), link.into());
                }
                session
            }
            Reply::PaymentStatus(payment) if matches!(asked, Asked::Query(id) if *id == payment.transaction) => {
                intent(payment)
            }
            Reply::PaymentStatus(payment) | Reply::Closed(payment) => {
                let mut session = session(payment);
                if let Some(session) = session.as_object_mut()
                    && (payment.paid_at.is_some() || payment.state == State::Processing)
                {
                    session.insert("payment_intent".to_owned(), intent(payment));
                }
                session
            }
            Reply::AlreadyPaid(_) => {
                let message = "Only Checkout Sessions with a status in [\"open\"] can be expired.";
                return refuse(400, "invalid_request_error", message);
            }
            Reply::Missing => return refuse(404, "invalid_request_error", "No such checkout.session"),
            Reply::Refunded(payment, refund, _) => {
                let refund = made_refund(payment, refund, now);
                match asked {
                    Asked::QueryRefund(_) => json!({"object": "list", "data": [refund], "has_more": false}),
                    _ => refund,
                }
            }
            Reply::NoRefund => json!({"object": "list", "data": [], "has_more": false}),
            Reply::Trouble => return refuse(500, "api_error", "Something went wrong"),
            Reply::Refused(Refusal { status, code, message }) => {
                let error = json!({"type": "invalid_request_error", "code": code, "message": message});
                return HttpAnswer::new(status, "application/json", json!({"error": error}).to_string());
            }
        };
        HttpAnswer::new(200, "application/json", body.to_string())
    }

    pub(super) fn notice(
        &self,
        payment: &Payment,
        happened: Happened,
        now: Timestamp,
        nonce: &Nonce,
    ) -> Option<HttpCall> {
        let (event_type, object) = match happened {
            Happened::Paid => ("checkout.session.completed", session(payment)),
            Happened::Failed => ("checkout.session.async_payment_failed", session(payment)),
            Happened::Closed => ("checkout.session.expired", session(payment)),
            Happened::Refunded => ("charge.refunded", charge(payment, payment.amount)),
            Happened::PartlyRefunded => ("charge.refunded", charge(payment, payment.refunded)),
            Happened::Confirmed => ("checkout.session.completed", session(payment)),
            Happened::PaidAtLast => ("checkout.session.async_payment_succeeded", session(payment)),
            Happened::RefundFailed => ("refund.failed", failed_refund(payment, &payment.number, now)),
            Happened::ConsoleRefundFailed => ("refund.failed", failed_refund(payment, CONSOLE, now)),
            Happened::Disputed => ("charge.dispute.created", dispute(payment)),
        };
        // An event that is sent again keeps its time.
        let happened_at = match happened {
            Happened::Paid | Happened::PaidAtLast => payment.paid_at.unwrap_or(now),
            _ => now,
        };
        let event = json!({
            "id": format!("evt_{}", nonce.as_str()), "object": "event", "api_version": "2024-06-20",
            "created": happened_at.as_second(), "livemode": false, "type": event_type, "data": {"object": object},
        });
        let body = event.to_string().into_bytes();
        let time = now.as_second().to_string();
        let signature = hmac_sha256_hex(self.webhook_secret.expose(), &[time.as_bytes(), b".", &body]);
        let signature = format!("t={time},v1={signature}");
        Some(HttpCall {
            method: Method::Post,
            url: payment.notify_url.clone(),
            headers: [("Content-Type", "application/json; charset=utf-8"), ("Stripe-Signature", &signature)].into(),
            body,
            client_certificate: false,
        })
    }
}

fn create(body: &[u8]) -> Result<Asked, HttpAnswer> {
    let invalid = |what: &str| refuse(400, "invalid_request_error", what);
    let fields = form::read(body).ok_or_else(|| invalid("not a form"))?;
    let get = |name: &str| fields.get(name).cloned().unwrap_or_default();
    let amount = get("line_items[0][price_data][unit_amount]").parse().map_err(|_| invalid("unit_amount"))?;
    let ends = get("expires_at").parse().ok().and_then(|seconds| Timestamp::from_second(seconds).ok());
    let payment = Payment {
        id: String::new(),
        transaction: String::new(),
        number: get("client_reference_id"),
        order_type: get("metadata[orderType]"),
        title: get("line_items[0][price_data][product_data][name]"),
        amount,
        currency: get("line_items[0][price_data][currency]").to_ascii_uppercase(),
        notify_url: String::new(),
        return_url: get("success_url"),
        state: State::NotPaid,
        paid_at: None,
        refunded: 0,
    };
    Ok(Asked::Create { payment, way: Way::Page, expires_at: ends })
}

fn refund(body: &[u8]) -> Result<Asked, HttpAnswer> {
    let invalid = |what: &str| refuse(400, "invalid_request_error", what);
    let fields = form::read(body).ok_or_else(|| invalid("not a form"))?;
    let get = |name: &str| fields.get(name).cloned().unwrap_or_default();
    let amount = get("amount").parse().map_err(|_| invalid("amount"))?;
    let (transaction, refund) = (get("payment_intent"), get("metadata[refund]"));
    Ok(Asked::Refund(Refund { transaction, refund, amount, notify_url: None, state: RefundState::Done }))
}

fn session(payment: &Payment) -> Value {
    let (status, payment_status) = match payment.state {
        State::NotPaid => ("open", "unpaid"),
        State::Processing => ("complete", "unpaid"),
        State::Paid | State::Refunded => ("complete", "paid"),
        State::Closed => ("expired", "unpaid"),
    };
    json!({
        "id": payment.id, "object": "checkout.session", "client_reference_id": payment.number,
        "amount_total": payment.amount, "currency": payment.currency.to_ascii_lowercase(), "status": status,
        "payment_status": payment_status, "payment_intent": payment.paid_at.map(|_| &payment.transaction),
        "metadata": {"order": payment.number, "orderType": payment.order_type},
    })
}

fn charge(payment: &Payment, refunded: i64) -> Value {
    json!({
        "id": "ch_1", "object": "charge", "amount": payment.amount, "amount_refunded": refunded,
        "refunded": refunded == payment.amount,
        "currency": payment.currency.to_ascii_lowercase(), "payment_intent": payment.transaction,
        "metadata": {"order": payment.number, "orderType": payment.order_type},
    })
}

fn refunded(payment: &Payment) -> i64 {
    if payment.state == State::Refunded { payment.amount } else { payment.refunded }
}

fn intent(payment: &Payment) -> Value {
    let charge = payment
        .paid_at
        .map(|paid_at| json!({"id": "ch_1", "created": paid_at.as_second(), "amount_refunded": refunded(payment)}));
    json!({
        "id": payment.transaction, "object": "payment_intent", "amount": payment.amount,
        "amount_received": if charge.is_some() { payment.amount } else { 0 },
        "currency": payment.currency.to_ascii_lowercase(), "latest_charge": charge,
        "status": match payment.state {
            State::Paid | State::Refunded => "succeeded",
            State::Processing => "processing",
            State::NotPaid | State::Closed => "requires_payment_method",
        },
        "metadata": {"order": payment.number, "orderType": payment.order_type},
    })
}

/// The refund that failed is the payment's last: its number is of no consequence, unless it was made in the console.
fn failed_refund(payment: &Payment, number: &str, now: Timestamp) -> Value {
    let refund = Refund {
        transaction: payment.transaction.clone(),
        refund: number.to_owned(),
        amount: payment.amount,
        notify_url: None,
        state: RefundState::Failed,
    };
    made_refund(payment, &refund, now)
}

/// A dispute has metadata of its own, which is empty.
fn dispute(payment: &Payment) -> Value {
    json!({
        "id": "dp_1", "object": "dispute", "amount": payment.amount, "charge": "ch_1",
        "currency": payment.currency.to_ascii_lowercase(), "payment_intent": payment.transaction,
        "reason": "fraudulent", "status": "needs_response", "metadata": {},
    })
}

fn made_refund(payment: &Payment, refund: &Refund, now: Timestamp) -> Value {
    let status = match refund.state {
        RefundState::Done => "succeeded",
        RefundState::Pending => "pending",
        RefundState::Failed | RefundState::Stuck => "failed",
    };
    // A refund made in the console has no metadata.
    let metadata = match refund.refund.starts_with(CONSOLE) {
        true => json!({}),
        false => json!({"order": payment.number, "orderType": payment.order_type, "refund": refund.refund}),
    };
    json!({
        "id": format!("re_{}", refund.refund), "object": "refund", "amount": refund.amount, "status": status,
        "created": now.as_second(), "currency": payment.currency.to_ascii_lowercase(),
        "payment_intent": payment.transaction, "metadata": metadata,
    })
}

fn refuse(status: u16, kind: &str, message: &str) -> HttpAnswer {
    HttpAnswer::new(status, "application/json", json!({"error": {"type": kind, "message": message}}).to_string())
}
