//! `GET /payments/{provider}/return`: the buyer's browser comes back from the provider.
//!
//! It shows the order as it is in the database and settles nothing: what a browser sends does not come from the
//! provider. Alipay signs what it adds to the URL, and the signature is verified. The other providers' URLs carry
//! the payment's number, which cannot be guessed.

use domain::ids::PaymentNumber;
use domain::order::Order;
use edge::{Body, Problem, Request, Response, request};
use flows::FlowError;
use lambda_http::RequestExt;
use lambda_http::http::StatusCode;
use payments::{MAX_NOTICE, ProviderKind, ReturnPage, Subject};
use providers::Trouble;

use crate::App;
use crate::page::{self, Language, Left};

/// Shows the order of a payment.
pub(crate) async fn show(app: &App, provider: &str, request: &Request) -> Result<Response<Body>, Problem> {
    let language = Language::of(request);
    let now = (app.clock)();
    let Some(kind) = ProviderKind::parse(provider) else { return Ok(page::nothing(StatusCode::NOT_FOUND, language)) };
    let number = match kind.return_page() {
        ReturnPage::Signed => signed_number(app, kind, request).await?,
        ReturnPage::Plain | ReturnPage::MarkedIfPaid(_) => plain_number(request),
    };
    let Some(number) = number else { return Ok(page::nothing(StatusCode::BAD_REQUEST, language)) };
    let order = app.store.order(number.order()).await?;
    Ok(match order.filter(|order| has_payment(order, &number, kind)) {
        Some(order) => page::order(&order, left(kind, request), language, now),
        None => page::nothing(StatusCode::NOT_FOUND, language),
    })
}

/// Whether the payment belongs to the order, at this provider.
fn has_payment(order: &Order, number: &PaymentNumber, kind: ProviderKind) -> bool {
    let attempt = order.attempts.get(usize::from(number.attempt()));
    attempt.is_some_and(|attempt| attempt.method == kind.method())
}

/// The payment that a signed URL names.
async fn signed_number(app: &App, kind: ProviderKind, request: &Request) -> Result<Option<PaymentNumber>, Problem> {
    let query = request.uri().query().unwrap_or_default();
    if query.is_empty() || query.len() > MAX_NOTICE {
        return Ok(None);
    }
    let provider = match app.providers.get(kind, (app.clock)()).await {
        Ok(provider) => provider,
        Err(Trouble::NotConfigured(_)) => return Ok(None),
        Err(trouble) => return Err(FlowError::Provider { method: kind.method(), trouble }.into()),
    };
    match provider.read_return(query) {
        Ok(Subject::FlashSale(number)) => Ok(Some(number)),
        Ok(Subject::Ordinary(_) | Subject::Transaction) => Ok(None),
        Err(error) => {
            let trace = request::trace(request);
            tracing::info!(provider = %kind, %error, trace, "a return page without a valid signature");
            Ok(None)
        }
    }
}

/// Stripe sends a buyer who cancels to the same address, but adds the session only for one who has paid.
fn left(kind: ProviderKind, request: &Request) -> Left {
    let has = |name| request.query_string_parameters_ref().is_some_and(|query| query.first(name).is_some());
    match kind.return_page() {
        ReturnPage::MarkedIfPaid(parameter) if !has(parameter) => Left::Unpaid,
        ReturnPage::Signed | ReturnPage::Plain | ReturnPage::MarkedIfPaid(_) => Left::PerhapsPaid,
    }
}

fn plain_number(request: &Request) -> Option<PaymentNumber> {
    PaymentNumber::parse(request.query_string_parameters_ref()?.first("payment")?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::order::Status;
    use domain::payment::{Attempt, Method};

    fn returned(query: &str) -> Request {
        let event = serde_json::json!({
            "version": "2.0", "routeKey": "GET /payments/{provider}/return", "rawPath": "/payments/stripe/return",
            "rawQueryString": query, "headers": {},
            "requestContext": {
                "accountId": "1", "apiId": "a", "stage": "$default", "requestId": "r",
                "http": {"method": "GET", "path": "/payments/stripe/return", "protocol": "HTTP/1.1", "sourceIp": "::1"},
            },
            "isBase64Encoded": false,
        });
        lambda_http::request::from_str(&event.to_string()).unwrap()
    }

    #[test]
    fn a_number_is_read_from_the_address_or_not_at_all() {
        let number = "01M73YF03V69FY4XMCZZ6TJE3WN5Y5Y0";
        let read = |query: &str| plain_number(&returned(query)).map(|number| number.to_string());
        assert_eq!(read(&format!("payment={number}&session=cs_1")).as_deref(), Some(number));
        for bad in ["", "payment=", "payment=x", "payment=%3Cscript%3E", "paiment=1", &format!("payment={number}0")] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }

    #[test]
    fn stripes_session_tells_a_payment_from_a_return() {
        assert_eq!(left(ProviderKind::Stripe, &returned("payment=1&session_id=cs_1")), Left::PerhapsPaid);
        assert_eq!(left(ProviderKind::Stripe, &returned("payment=1")), Left::Unpaid);
        assert_eq!(left(ProviderKind::WechatV3, &returned("payment=1")), Left::PerhapsPaid);
        assert_eq!(left(ProviderKind::Alipay, &returned("sign=x")), Left::PerhapsPaid);
    }

    #[test]
    fn a_payment_is_shown_at_its_own_provider_only() {
        let attempts = vec![Attempt { method: Method::Stripe, amount: 1, points: 0 }];
        let order = Order { attempts, ..crate::view::tests::order(Status::Paid) };
        let number = |attempt| PaymentNumber::new(order.id.clone(), attempt).unwrap();
        assert!(has_payment(&order, &number(0), ProviderKind::Stripe));
        assert!(!has_payment(&order, &number(0), ProviderKind::WechatV3));
        assert!(!has_payment(&order, &number(1), ProviderKind::Stripe));
    }
}
