//! A payment deadline has come: the order is closed, unless it was paid. An open payment is closed at its provider first; one that turns
//! out to have been made pays for the order.
//!
//! Scheduler invokes with the input that order-consumer gave the schedule. An error is an invocation that failed: Lambda
//! tries it again, and then keeps it among the dead letters for a person.

use std::sync::Arc;

use domain::Timestamp;
use domain::ids::OrderId;
use domain::message::{DeadlineInput, VERSION};
use domain::order::{Order, Reason};
use flows::close::{Cause, CloseOutcome, close};
use flows::{FlowError, just_now};
use lambda_runtime::Diagnostic;
use providers::Providers;
use serde::Serialize;
use serde_json::Value;
use store::Store;
use telemetry::{Metric, Metrics, Sink};

/// What time it is.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// What a running function needs.
pub struct App {
    /// The store.
    pub store: Store,
    /// The payment providers.
    pub providers: Providers,
    /// What time it is.
    pub clock: Clock,
    /// Where metrics go.
    pub metrics: Sink,
}

impl App {
    /// A function that has just started; its metrics go to stdout.
    pub fn new(store: Store, providers: Providers, clock: Clock) -> Self {
        Self { store, providers, clock, metrics: Sink::stdout() }
    }
}

/// Why a deadline is to be looked at again.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The input is not a deadline's.
    #[error("not a deadline's input: {0}")]
    Unreadable(String),
    /// Fired too early.
    #[error("the deadline of order {order} is {pay_by}, and it is only {now}: try again after it")]
    NotDue {
        /// The order.
        order: OrderId,
        /// Its deadline.
        pay_by: Timestamp,
        /// The time here.
        now: Timestamp,
    },
    /// The database or the payment provider gave no clear answer: nothing is given away until it does.
    #[error("order {order} was not closed: {error}")]
    Unavailable {
        /// The order.
        order: OrderId,
        /// What happened.
        error: FlowError,
    },
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

/// What became of the order, for whoever reads the invocation's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Looked {
    /// The order.
    pub order_id: OrderId,
    /// Its status now; `None`: there is no such order.
    pub status: Option<&'static str>,
}

/// Looks at an order at its deadline.
pub async fn handle(app: &App, input: Value) -> Result<Looked, Failure> {
    let DeadlineInput { order_id, trace, .. } = read(input)?;
    let trace = trace.as_deref();
    let now = (app.clock)();
    let closing = close(&app.store, &app.providers, &order_id, Cause::Deadline, now).await;
    let looked = |order: &Order| Looked { order_id: order.id.clone(), status: Some(order.status.as_str()) };
    match closing {
        Ok(CloseOutcome::Closed(order)) => {
            let mut metrics = Metrics::at(now);
            metrics.note("order_id", &order_id);
            metrics.count(Metric::Timeouts);
            metrics.count_of(Metric::OrdersClosed, Reason::TimedOut.as_str());
            metrics.flush(&app.metrics);
            tracing::info!(%order_id, sale_id = %order.sale, item_id = %order.item, trace, "an order timed out");
            Ok(looked(&order))
        }
        Ok(CloseOutcome::Before(order) | CloseOutcome::Refused(order)) => {
            tracing::info!(%order_id, status = order.status.as_str(), trace, "an order needed no closing");
            Ok(looked(&order))
        }
        Ok(CloseOutcome::Paid(order)) => {
            tracing::info!(%order_id, trace, "an order had been paid when its deadline came");
            if let Some(method) = just_now::settled(&order, now) {
                let mut metrics = Metrics::at(now);
                metrics.note("order_id", &order_id);
                metrics.count_of(Metric::PaymentsSettled, method.as_str());
                metrics.flush(&app.metrics);
            }
            Ok(looked(&order))
        }
        // Reconcile looks at it every minute from now on.
        Ok(CloseOutcome::NotBefore(order, moment)) => {
            tracing::info!(%order_id, %moment, trace, "the provider does not close the payment yet");
            Ok(looked(&order))
        }
        Ok(CloseOutcome::NotDue(order)) => Err(Failure::NotDue { order: order_id, pay_by: order.pay_by, now }),
        // A deadline is made after its order, and orders are never removed: somebody else's hand was at work.
        Ok(CloseOutcome::Unknown) => {
            tracing::warn!(%order_id, trace, "a deadline of an order that is not there: nothing to close");
            Ok(Looked { order_id, status: None })
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
