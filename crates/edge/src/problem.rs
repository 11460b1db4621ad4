//! Errors for clients: RFC 9457 `application/problem+json` with a stable code.

use std::borrow::Cow;

use domain::ids::OrderId;
use domain::sale::FieldError;
use flows::FlowError;
use lambda_http::http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use lambda_http::http::{HeaderValue, StatusCode};
use lambda_http::{Body, Response};
use serde::Serialize;
use store::StoreError;

/// The code of a problem. Clients act on the code; titles and details may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// The request has no verified token.
    Unauthenticated,
    /// The token does not have the scope that the route requires.
    Forbidden,
    /// The path or the method does not exist.
    NotFound,
    UnknownSale,
    UnknownItem,
    /// The buyer has no order with this id. Another buyer's order is answered in the same way.
    UnknownOrder,
    NotStarted,
    /// The sale has ended or was closed.
    Ended,
    Paused,
    /// No bucket has enough free units for the quantity.
    SoldOut,
    /// The buyer has a live order for this item.
    DuplicateOrder,
    /// The quantity is above the item's limit per buyer.
    LimitExceeded,
    /// The sale or the order is in a state that does not allow the request.
    WrongState,
    /// The sale's time for refunds by buyers is over.
    RefundClosed,
    /// The sale has changed since the version that the request names.
    StaleVersion,
    /// The idempotency key was used for a different request.
    IdempotencyMismatch,
    /// A field, a header or the body is not valid.
    Invalid,
    /// The body is too large.
    TooLarge,
    /// The buyer or the item has reached a rate limit.
    RateLimited,
    /// The request failed for a reason that may pass. Retrying it is safe.
    Unavailable,
}

impl Code {
    pub const ALL: [Code; 20] = [
        Self::Unauthenticated,
        Self::Forbidden,
        Self::NotFound,
        Self::UnknownSale,
        Self::UnknownItem,
        Self::UnknownOrder,
        Self::NotStarted,
        Self::Ended,
        Self::Paused,
        Self::SoldOut,
        Self::DuplicateOrder,
        Self::LimitExceeded,
        Self::WrongState,
        Self::RefundClosed,
        Self::StaleVersion,
        Self::IdempotencyMismatch,
        Self::Invalid,
        Self::TooLarge,
        Self::RateLimited,
        Self::Unavailable,
    ];

    /// The text that is sent.
    pub fn as_str(self) -> &'static str {
        self.description().0
    }

    pub fn status(self) -> StatusCode {
        self.description().1
    }

    /// A short summary that is the same for every problem with this code.
    pub fn title(self) -> &'static str {
        self.description().2
    }

    fn description(self) -> (&'static str, StatusCode, &'static str) {
        match self {
            Self::Unauthenticated => ("UNAUTHENTICATED", StatusCode::UNAUTHORIZED, "Authentication required"),
            Self::Forbidden => ("FORBIDDEN", StatusCode::FORBIDDEN, "Permission denied"),
            Self::NotFound => ("NOT_FOUND", StatusCode::NOT_FOUND, "Resource not found"),
            Self::UnknownSale => ("UNKNOWN_SALE", StatusCode::NOT_FOUND, "Sale not found"),
            Self::UnknownItem => ("UNKNOWN_ITEM", StatusCode::NOT_FOUND, "Item not found"),
            Self::UnknownOrder => ("UNKNOWN_ORDER", StatusCode::NOT_FOUND, "Order not found"),
            Self::NotStarted => ("NOT_STARTED", StatusCode::CONFLICT, "The sale has not started"),
            Self::Ended => ("ENDED", StatusCode::CONFLICT, "The sale has ended"),
            Self::Paused => ("PAUSED", StatusCode::CONFLICT, "The sale is paused"),
            Self::SoldOut => ("SOLD_OUT", StatusCode::CONFLICT, "Sold out"),
            Self::DuplicateOrder => ("DUPLICATE_ORDER", StatusCode::CONFLICT, "An order for this item already exists"),
            Self::LimitExceeded => ("LIMIT_EXCEEDED", StatusCode::CONFLICT, "Quantity exceeds the limit per buyer"),
            Self::WrongState => ("WRONG_STATE", StatusCode::CONFLICT, "Not possible in the current state"),
            Self::RefundClosed => ("REFUND_CLOSED", StatusCode::CONFLICT, "Refunds are closed"),
            Self::StaleVersion => ("STALE_VERSION", StatusCode::PRECONDITION_FAILED, "Changed since it was read"),
            Self::IdempotencyMismatch => {
                ("IDEMPOTENCY_MISMATCH", StatusCode::UNPROCESSABLE_ENTITY, "Idempotency key reused")
            }
            Self::Invalid => ("INVALID", StatusCode::BAD_REQUEST, "Invalid request"),
            Self::TooLarge => ("TOO_LARGE", StatusCode::PAYLOAD_TOO_LARGE, "Request body too large"),
            Self::RateLimited => ("RATE_LIMITED", StatusCode::TOO_MANY_REQUESTS, "Too many requests"),
            Self::Unavailable => ("UNAVAILABLE", StatusCode::SERVICE_UNAVAILABLE, "Temporarily unavailable"),
        }
    }
}

/// An error answer.
#[derive(Debug)]
pub struct Problem {
    pub code: Code,
    /// What happened in this request, and what the client can do about it.
    pub detail: Cow<'static, str>,
    /// The order that prevents the request, or that it is about.
    pub order_id: Option<OrderId>,
    /// SOLD_OUT: a smaller quantity that may still be available.
    pub available: Option<u32>,
    /// LIMIT_EXCEEDED: the limit per buyer.
    pub limit: Option<u32>,
    /// How many seconds the client waits before it retries.
    pub retry_after_s: Option<u32>,
    /// INVALID: the fields that are not valid.
    pub errors: Vec<FieldError>,
    /// The underlying error. It is logged and never sent to the client.
    pub(crate) cause: Option<Box<FlowError>>,
}

/// A problem as JSON.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Sent<'a> {
    r#type: String,
    title: &'a str,
    status: u16,
    detail: &'a str,
    code: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    order_id: Option<&'a OrderId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    available: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after: Option<u32>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    errors: &'a [FieldError],
}

impl Problem {
    pub fn new(code: Code, detail: impl Into<Cow<'static, str>>) -> Self {
        Self {
            code,
            detail: detail.into(),
            order_id: None,
            available: None,
            limit: None,
            // A client that is asked to retry always learns when.
            retry_after_s: matches!(code, Code::RateLimited | Code::Unavailable).then_some(1),
            errors: Vec::new(),
            cause: None,
        }
    }

    /// A problem with one field that is not valid.
    pub fn invalid(field: impl Into<String>, why: impl Into<String>) -> Self {
        Self::fields(vec![FieldError { field: field.into(), why: why.into() }])
    }

    /// A problem with several fields that are not valid.
    pub fn fields(errors: Vec<FieldError>) -> Self {
        let detail = match errors.first() {
            Some(first) => format!("{}: {}", first.field, first.why),
            None => "the request is not valid".to_owned(),
        };
        Self { errors, ..Self::new(Code::Invalid, detail) }
    }

    /// Adds the order that the problem is about.
    pub fn about(self, order: OrderId) -> Self {
        Self { order_id: Some(order), ..self }
    }

    pub fn unavailable() -> Self {
        Self::new(Code::Unavailable, "the request could not be completed: try again in a moment")
    }

    /// Logs a failure that the client can do nothing about.
    pub fn after_failure(error: impl std::fmt::Display) -> Self {
        tracing::error!(%error, "a request could not be completed");
        Self::unavailable()
    }

    pub fn not_found() -> Self {
        Self::new(Code::NotFound, "no resource exists at this path and method")
    }

    pub fn unknown_sale() -> Self {
        Self::new(Code::UnknownSale, "no sale has this id")
    }

    pub fn unknown_item() -> Self {
        Self::new(Code::UnknownItem, "no item of this sale has this id")
    }

    pub fn unknown_order() -> Self {
        Self::new(Code::UnknownOrder, "you have no order with this id")
    }

    /// The HTTP response. The underlying error is logged here and nowhere else.
    pub fn respond(self, trace: Option<&str>) -> Response<Body> {
        if let Some(error) = &self.cause {
            let code = self.code.as_str();
            let order_id = self.order_id.as_ref().map(tracing::field::display);
            if error.may_pass() {
                tracing::warn!(order_id, %error, code, trace, "request failed, and a retry may succeed");
            } else {
                tracing::error!(order_id, %error, code, trace, "request failed, and a retry will not succeed");
            }
        }
        let body = serde_json::to_string(&self.sent()).unwrap_or_default();
        let mut response = Response::new(Body::Text(body));
        *response.status_mut() = self.code.status();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(seconds) = self.retry_after_s {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }

    fn sent(&self) -> Sent<'_> {
        Sent {
            r#type: format!("urn:seckill:problem:{}", self.code.as_str()),
            title: self.code.title(),
            status: self.code.status().as_u16(),
            detail: &self.detail,
            code: self.code.as_str(),
            order_id: self.order_id.as_ref(),
            available: self.available,
            limit: self.limit,
            retry_after: self.retry_after_s,
            errors: &self.errors,
        }
    }
}

/// A failure of the database or the queue is always answered with UNAVAILABLE: every write is safe to repeat.
impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        FlowError::from(error).into()
    }
}

impl From<FlowError> for Problem {
    fn from(error: FlowError) -> Self {
        let problem = Self::new(Code::Unavailable, "the request could not be completed: try again in a moment");
        Self { cause: Some(Box::new(error)), ..problem }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use std::collections::BTreeSet;

    fn body(response: &Response<Body>) -> Value {
        serde_json::from_slice(response.body()).unwrap()
    }

    #[test]
    fn codes_and_statuses_match_the_api_contract() {
        let table: Vec<(u16, &str)> = Code::ALL.iter().map(|code| (code.status().as_u16(), code.as_str())).collect();
        assert_eq!(
            table,
            [
                (401, "UNAUTHENTICATED"),
                (403, "FORBIDDEN"),
                (404, "NOT_FOUND"),
                (404, "UNKNOWN_SALE"),
                (404, "UNKNOWN_ITEM"),
                (404, "UNKNOWN_ORDER"),
                (409, "NOT_STARTED"),
                (409, "ENDED"),
                (409, "PAUSED"),
                (409, "SOLD_OUT"),
                (409, "DUPLICATE_ORDER"),
                (409, "LIMIT_EXCEEDED"),
                (409, "WRONG_STATE"),
                (409, "REFUND_CLOSED"),
                (412, "STALE_VERSION"),
                (422, "IDEMPOTENCY_MISMATCH"),
                (400, "INVALID"),
                (413, "TOO_LARGE"),
                (429, "RATE_LIMITED"),
                (503, "UNAVAILABLE"),
            ]
        );
        let codes: BTreeSet<&str> = Code::ALL.iter().map(|code| code.as_str()).collect();
        assert_eq!(codes.len(), Code::ALL.len());
    }

    #[test]
    fn a_problem_has_the_shape_of_rfc_9457() {
        let response = Problem { available: Some(2), ..Problem::new(Code::SoldOut, "sold out") }.respond(None);
        assert_eq!(response.status(), 409);
        assert_eq!(response.headers()["content-type"], "application/problem+json");
        assert_eq!(response.headers()["cache-control"], "no-store");
        assert!(!response.headers().contains_key("retry-after"));
        assert_eq!(
            body(&response),
            json!({
                "type": "urn:seckill:problem:SOLD_OUT",
                "title": "Sold out",
                "status": 409,
                "detail": "sold out",
                "code": "SOLD_OUT",
                "available": 2,
            })
        );
    }

    #[test]
    fn invalid_fields_are_named() {
        let sent = body(&Problem::invalid("quantity", "must be 1 or more").respond(None));
        assert_eq!(sent["errors"], json!([{"field": "quantity", "why": "must be 1 or more"}]));
        assert_eq!(sent["detail"], "quantity: must be 1 or more");
    }

    #[test]
    fn an_error_of_the_database_is_not_shown_to_the_client() {
        let error = StoreError::Permanent { operation: "hold stock", detail: "arn:aws:secret is not allowed".into() };
        let response = Problem::from(error).respond(Some("1-2-3"));
        assert_eq!(response.status(), 503);
        assert_eq!(response.headers()["retry-after"], "1");
        let text = body(&response).to_string();
        assert!(!text.contains("arn:") && !text.contains("hold stock"), "{text}");
        assert_eq!(body(&response)["retryAfter"], 1);
    }
}
