//! What went wrong, as RFC 9457 `application/problem+json` with a stable code.

use std::borrow::Cow;

use domain::ids::OrderId;
use domain::sale::FieldError;
use flows::FlowError;
use lambda_http::http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use lambda_http::http::{HeaderValue, StatusCode};
use lambda_http::{Body, Response};
use serde::Serialize;
use store::StoreError;

/// Every code there is. A client acts on the code; words may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// No verified token.
    Unauthenticated,
    /// A token that does not allow this.
    Forbidden,
    /// No such path or method.
    NotFound,
    /// No such sale.
    UnknownSale,
    /// No such item in the sale.
    UnknownItem,
    /// No such order of this buyer's.
    UnknownOrder,
    /// The sale has not started.
    NotStarted,
    /// The sale is over.
    Ended,
    /// The sale is stopped for now.
    Paused,
    /// Nothing is free for this quantity.
    SoldOut,
    /// The buyer has a live order of this item.
    DuplicateOrder,
    /// More than one buyer may have.
    LimitExceeded,
    /// Not possible as things stand.
    WrongState,
    /// The idempotency key was used for something else.
    IdempotencyMismatch,
    /// The request is not valid.
    Invalid,
    /// The body is too large.
    TooLarge,
    /// Too fast.
    RateLimited,
    /// Not possible right now.
    Unavailable,
}

impl Code {
    /// All of them.
    pub const ALL: [Code; 18] = [
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
        Self::IdempotencyMismatch,
        Self::Invalid,
        Self::TooLarge,
        Self::RateLimited,
        Self::Unavailable,
    ];

    /// As it is sent.
    pub fn as_str(self) -> &'static str {
        self.described().0
    }

    /// The HTTP status it goes with.
    pub fn status(self) -> StatusCode {
        self.described().1
    }

    /// What it means, in a few words that are the same every time.
    pub fn title(self) -> &'static str {
        self.described().2
    }

    fn described(self) -> (&'static str, StatusCode, &'static str) {
        match self {
            Self::Unauthenticated => ("UNAUTHENTICATED", StatusCode::UNAUTHORIZED, "Sign in first"),
            Self::Forbidden => ("FORBIDDEN", StatusCode::FORBIDDEN, "Not allowed"),
            Self::NotFound => ("NOT_FOUND", StatusCode::NOT_FOUND, "No such resource"),
            Self::UnknownSale => ("UNKNOWN_SALE", StatusCode::NOT_FOUND, "No such sale"),
            Self::UnknownItem => ("UNKNOWN_ITEM", StatusCode::NOT_FOUND, "No such item"),
            Self::UnknownOrder => ("UNKNOWN_ORDER", StatusCode::NOT_FOUND, "No such order"),
            Self::NotStarted => ("NOT_STARTED", StatusCode::CONFLICT, "The sale has not started"),
            Self::Ended => ("ENDED", StatusCode::CONFLICT, "The sale is over"),
            Self::Paused => ("PAUSED", StatusCode::CONFLICT, "The sale is paused"),
            Self::SoldOut => ("SOLD_OUT", StatusCode::CONFLICT, "Sold out"),
            Self::DuplicateOrder => ("DUPLICATE_ORDER", StatusCode::CONFLICT, "There is an order already"),
            Self::LimitExceeded => ("LIMIT_EXCEEDED", StatusCode::CONFLICT, "More than one buyer may have"),
            Self::WrongState => ("WRONG_STATE", StatusCode::CONFLICT, "Not possible as things stand"),
            Self::IdempotencyMismatch => {
                ("IDEMPOTENCY_MISMATCH", StatusCode::UNPROCESSABLE_ENTITY, "The key was used for another request")
            }
            Self::Invalid => ("INVALID", StatusCode::BAD_REQUEST, "The request is not valid"),
            Self::TooLarge => ("TOO_LARGE", StatusCode::PAYLOAD_TOO_LARGE, "The request is too large"),
            Self::RateLimited => ("RATE_LIMITED", StatusCode::TOO_MANY_REQUESTS, "Too many requests"),
            Self::Unavailable => ("UNAVAILABLE", StatusCode::SERVICE_UNAVAILABLE, "Not possible right now"),
        }
    }
}

/// A problem to be answered.
#[derive(Debug)]
pub struct Problem {
    /// Which.
    pub code: Code,
    /// This time's circumstances, and what to do, in words.
    pub detail: Cow<'static, str>,
    /// The order that is in the way.
    pub order_id: Option<OrderId>,
    /// What a smaller quantity could perhaps still get.
    pub available: Option<u32>,
    /// The most units for one buyer.
    pub limit: Option<u32>,
    /// Seconds after which to try again.
    pub retry_after_s: Option<u32>,
    /// Fields that must be different.
    pub errors: Vec<FieldError>,
    /// What really happened: for the log, never for the client.
    pub(crate) cause: Option<Box<FlowError>>,
}

/// A problem as it is sent.
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
    /// A problem.
    pub fn new(code: Code, detail: impl Into<Cow<'static, str>>) -> Self {
        Self {
            code,
            detail: detail.into(),
            order_id: None,
            available: None,
            limit: None,
            // A client that is told to come back is always told when.
            retry_after_s: matches!(code, Code::RateLimited | Code::Unavailable).then_some(1),
            errors: Vec::new(),
            cause: None,
        }
    }

    /// One field that must be different.
    pub fn invalid(field: impl Into<String>, why: impl Into<String>) -> Self {
        Self::fields(vec![FieldError { field: field.into(), why: why.into() }])
    }

    /// Fields that must be different.
    pub fn fields(errors: Vec<FieldError>) -> Self {
        let detail = match errors.first() {
            Some(first) => format!("{}: {}", first.field, first.why),
            None => "the request is not valid".to_owned(),
        };
        Self { errors, ..Self::new(Code::Invalid, detail) }
    }

    /// The same, about an order.
    pub fn about(self, order: OrderId) -> Self {
        Self { order_id: Some(order), ..self }
    }

    /// No such path or method.
    pub fn not_found() -> Self {
        Self::new(Code::NotFound, "there is nothing at this path and method")
    }

    /// No such sale.
    pub fn unknown_sale() -> Self {
        Self::new(Code::UnknownSale, "there is no such sale")
    }

    /// No such item.
    pub fn unknown_item() -> Self {
        Self::new(Code::UnknownItem, "there is no such item in this sale")
    }

    /// No such order.
    pub fn unknown_order() -> Self {
        Self::new(Code::UnknownOrder, "you have no order of this number")
    }

    /// The answer. What really happened is logged here, once.
    pub fn respond(self, trace: Option<&str>) -> Response<Body> {
        if let Some(error) = &self.cause {
            let code = self.code.as_str();
            let order_id = self.order_id.as_ref().map(tracing::field::display);
            if error.may_pass() {
                tracing::warn!(order_id, %error, code, trace, "a request was not carried out");
            } else {
                tracing::error!(order_id, %error, code, trace, "a request cannot be carried out");
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

/// Whatever the database or the queue said, the client is told to come back; every write is safe to repeat.
impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        FlowError::from(error).into()
    }
}

impl From<FlowError> for Problem {
    fn from(error: FlowError) -> Self {
        let problem = Self::new(Code::Unavailable, "this is not possible right now: try again in a moment");
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
    fn codes_and_statuses_are_those_of_the_contract() {
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
    fn bad_fields_are_named() {
        let sent = body(&Problem::invalid("quantity", "must be 1 or more").respond(None));
        assert_eq!(sent["errors"], json!([{"field": "quantity", "why": "must be 1 or more"}]));
        assert_eq!(sent["detail"], "quantity: must be 1 or more");
    }

    #[test]
    fn what_the_database_said_is_not_shown() {
        let error = StoreError::Permanent { operation: "hold stock", detail: "arn:aws:secret is not allowed".into() };
        let response = Problem::from(error).respond(Some("1-2-3"));
        assert_eq!(response.status(), 503);
        assert_eq!(response.headers()["retry-after"], "1");
        let text = body(&response).to_string();
        assert!(!text.contains("arn:") && !text.contains("hold stock"), "{text}");
        assert_eq!(body(&response)["retryAfter"], 1);
    }
}
