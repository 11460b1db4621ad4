//! A payment deadline has come: the order is closed, unless it is paid. An open payment is closed at its provider
//! first; if it turns out to be made, it pays for the order.
//!
//! Scheduler invokes the function with the input that order-consumer gave the schedule. After an error Lambda
//! retries the invocation, and then moves it to the dead letters.

use domain::Timestamp;
use domain::ids::OrderId;
use domain::message::{DeadlineInput, VERSION};
use domain::order::{Order, Reason};
use flows::FlowError;
use flows::pay::close::{Cause, CloseOutcome, close};
use lambda_runtime::Diagnostic;
use serde::Serialize;
use serde_json::Value;
use telemetry::{Metric, Metrics};

pub use runtime::App;

/// Why a deadline has to be checked again.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    #[error("not a deadline's input: {0}")]
    Unreadable(String),
    /// The schedule fired too early.
    #[error("the deadline of order {order} is {pay_by}, and it is only {now}: try again after it")]
    NotDue { order: OrderId, pay_by: Timestamp, now: Timestamp },
    /// The database or the payment provider gave no clear answer. Nothing is given away until one does.
    #[error("order {order} was not closed: {error}")]
    Unavailable { order: OrderId, error: FlowError },
}

/// As Lambda reports it.
impl From<Failure> for Diagnostic {
    fn from(failure: Failure) -> Self {
        let error_type = match failure {
            Failure::Unreadable(_) => "Deadline.Unreadable",
            Failure::NotDue { .. } => "Deadline.NotDue",
            Failure::Unavailable { .. } => "Deadline.Unavailable",
        };
        Self { error_type: error_type.to_owned(), error_message: failure.to_string() }
    }
}

/// The invocation's answer: the order after the check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Checked {
    pub order_id: OrderId,
    /// `None`: there is no such order.
    pub status: Option<&'static str>,
}

/// Checks an order at its deadline.
pub async fn handle(app: &App, input: Value) -> Result<Checked, Failure> {
    let DeadlineInput { order_id, trace, .. } = read(input)?;
    let trace = trace.as_deref();
    let now = (app.clock)();
    let closing = close(app.context(now), &order_id, Cause::Deadline).await;
    let checked = |order: &Order| Checked { order_id: order.id.clone(), status: Some(order.status.as_str()) };
    match closing {
        Ok(CloseOutcome::Closed(order)) => {
            let mut metrics = Metrics::at(now);
            metrics.note("order_id", &order_id);
            metrics.count(Metric::Timeouts);
            metrics.count_of(Metric::OrdersClosed, Reason::TimedOut.as_str());
            metrics.flush(&app.metrics);
            tracing::info!(%order_id, sale_id = %order.sale, item_id = %order.item, trace, "an order timed out");
            Ok(checked(&order))
        }
        Ok(CloseOutcome::AlreadyClosed(order) | CloseOutcome::Refused(order)) => {
            tracing::info!(%order_id, status = order.status.as_str(), trace, "an order needed no closing");
            Ok(checked(&order))
        }
        Ok(CloseOutcome::Paid { order, newly }) => {
            tracing::info!(%order_id, trace, "an order had been paid when its deadline came");
            if let Some(with) = order.paid.as_ref().filter(|_| newly) {
                let mut metrics = Metrics::at(now);
                metrics.note("order_id", &order_id);
                metrics.count_of(Metric::PaymentsSettled, with.method.as_str());
                metrics.flush(&app.metrics);
            }
            Ok(checked(&order))
        }
        // From now on reconcile checks it every minute.
        Ok(CloseOutcome::NotBefore(order, moment)) => {
            tracing::info!(%order_id, %moment, trace, "the provider does not close the payment yet");
            Ok(checked(&order))
        }
        Ok(CloseOutcome::NotDue(order)) => Err(Failure::NotDue { order: order_id, pay_by: order.pay_by, now }),
        // A deadline is scheduled after its order was placed, and orders are never deleted: someone changed the
        // table by hand.
        Ok(CloseOutcome::Unknown) => {
            tracing::warn!(%order_id, trace, "a deadline of an order that is not there: nothing to close");
            Ok(Checked { order_id, status: None })
        }
        Err(error) => Err(Failure::Unavailable { order: order_id, error }),
    }
}

fn read(input: Value) -> Result<DeadlineInput, Failure> {
    let input: DeadlineInput = serde_json::from_value(input).map_err(|error| Failure::Unreadable(error.to_string()))?;
    match input.version {
        VERSION => Ok(input),
        other => Err(Failure::Unreadable(format!("version {other}: this function knows version {VERSION}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const ORDER: &str = "01K9RXJ8G00123456789ABCDEF0000A";

    #[test]
    fn a_deadlines_input_is_read() {
        let input = read(json!({"version": 1, "orderId": ORDER, "trace": "1-2-3"})).unwrap();
        assert_eq!((input.order_id.as_str(), input.trace.as_deref()), (ORDER, Some("1-2-3")));
        assert_eq!(read(json!({"version": 1, "orderId": ORDER})).unwrap().trace, None);
    }

    #[test]
    fn anything_else_fails_with_its_reason() {
        for (input, why) in [
            (json!({}), "missing field"),
            (json!("x"), "invalid type"),
            (json!({"version": 1, "orderId": "x"}), "orderId must be 31 characters"),
            (json!({"version": 9, "orderId": ORDER}), "version 9: this function knows version 1"),
        ] {
            let said = read(input).unwrap_err().to_string();
            assert!(said.contains(why), "{said}");
        }
    }

    #[test]
    fn the_sample_event_is_a_deadline() {
        let event = serde_json::from_str(include_str!("../../../tests/events/timeout-check.json")).unwrap();
        assert!(read(event).is_ok());
    }
}
