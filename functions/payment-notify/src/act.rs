//! What a verified notice makes happen.
//!
//! | what it says | what happens |
//! |---|---|
//! | about an order of the shop's own | handed to the shop's queue |
//! | paid | the order is settled; money that is not what was asked for changes nothing, and is for a person |
//! | failed | the order is closed, its units return |
//! | closed unpaid | the payment is taken off the order, which goes on waiting |
//! | money went back, or did not | that refund is gone on with |

use domain::Timestamp;
use domain::ids::PaymentNumber;
use domain::order::{Order, Reason};
use domain::payment::{Arrived, Method};
use flows::close::{Cause, CloseOutcome, close};
use flows::payment_closed::{PaymentClosed, payment_closed};
use flows::settle::{Settled, settle};
use flows::{FlowError, just_now, refund};
use payments::{Notice, Outcome, Paid, Subject};
use telemetry::{Metric, Metrics};

use crate::{App, Taken, forward};

/// One notice, and where what happens is written down.
struct Work<'a> {
    app: &'a App,
    method: Method,
    number: &'a PaymentNumber,
    now: Timestamp,
    trace: Option<&'a str>,
    metrics: &'a mut Metrics,
}

/// Does what follows from a notice. Whatever keeps it from being done is logged here, once.
pub(crate) async fn act(
    app: &App,
    notice: &Notice,
    raw: &[u8],
    now: Timestamp,
    trace: Option<&str>,
    metrics: &mut Metrics,
) -> Taken {
    let number = match &notice.subject {
        Subject::FlashSale(number) => number,
        Subject::Ordinary(order) => return forward::forward(app, notice, order, raw, trace, metrics).await,
    };
    metrics.note("order_id", number.order());
    let mut work = Work { app, method: notice.provider.method(), number, now, trace, metrics };
    match work.carry_out(notice).await {
        Ok(taken) => taken,
        Err(error) => work.undone(&error),
    }
}

impl Work<'_> {
    async fn carry_out(&mut self, notice: &Notice) -> Result<Taken, FlowError> {
        match (&notice.outcome, notice.paid()) {
            (_, Some(paid)) => self.paid(paid).await,
            (Outcome::Failed, _) => self.failed().await,
            (Outcome::Closed, _) => self.closed().await,
            (Outcome::Refunded | Outcome::RefundFailed, _) => self.refund(notice).await,
            (Outcome::Paid | Outcome::Other(_), _) => {
                let (order_id, method, trace) = (self.number.order(), self.method, self.trace);
                tracing::info!(%order_id, %method, outcome = ?notice.outcome, trace, "a notice that asks for nothing");
                Ok(Taken::Success)
            }
        }
    }

    async fn paid(&mut self, paid: Paid) -> Result<Taken, FlowError> {
        let arrived = Arrived {
            order: self.number.order().clone(),
            attempt: self.number.attempt(),
            method: self.method,
            transaction: paid.transaction,
            amount: paid.amount,
            currency: paid.currency,
        };
        let settled = settle(&self.app.store, &self.app.providers, &arrived, self.now).await?;
        let (order_id, method, trace) = (&arrived.order, self.method, self.trace);
        let (transaction, amount, currency) = (&arrived.transaction, arrived.amount, &arrived.currency);
        match settled {
            Settled::Paid(order) => {
                tracing::info!(%order_id, %method, transaction, amount, %currency, trace, "an order was paid");
                self.count_settled(&order);
            }
            Settled::Revived(order) => {
                tracing::info!(%order_id, %method, transaction, amount, %currency, trace, "a closed order was paid, and lives again");
                self.count_settled(&order);
            }
            Settled::Before(_) => {
                tracing::info!(%order_id, %method, transaction, trace, "an order had been paid with this before");
            }
            Settled::Returned(_) => {
                tracing::warn!(%order_id, %method, transaction, amount, %currency, trace, "money that its order cannot use goes back");
                self.count_returned(&arrived).await?;
            }
            Settled::Wrong(order) => {
                let (status, asked) = (order.status.as_str(), order.attempts.get(usize::from(arrived.attempt)));
                tracing::error!(
                    %order_id, %method, transaction, amount, %currency, status, ?asked, trace,
                    "money arrived that nobody asked for: look at it, and send it back at the provider"
                );
                return Ok(Taken::Refused("WRONG_PAYMENT"));
            }
            Settled::Unknown => return Ok(self.unknown_order()),
        }
        Ok(Taken::Success)
    }

    async fn failed(&mut self) -> Result<Taken, FlowError> {
        let cause = Cause::PaymentFailed { attempt: self.number.attempt() };
        let (order_id, method, trace) = (self.number.order(), self.method, self.trace);
        match close(&self.app.store, &self.app.providers, order_id, cause, self.now).await? {
            CloseOutcome::Closed(_) => {
                tracing::info!(%order_id, %method, trace, "a payment failed, and its order was closed");
                self.metrics.count_of(Metric::OrdersClosed, Reason::PaymentFailed.as_str());
            }
            CloseOutcome::Before(order) | CloseOutcome::NotDue(order) | CloseOutcome::Refused(order) => {
                let status = order.status.as_str();
                tracing::info!(%order_id, %method, status, trace, "a payment failed that its order does not wait for");
            }
            CloseOutcome::Paid(order) => {
                tracing::info!(%order_id, %method, trace, "a payment had failed, and was made after all");
                self.count_settled(&order);
            }
            // Its next notice comes later, and by then it can be closed.
            CloseOutcome::NotBefore(_, moment) => {
                tracing::info!(%order_id, %method, %moment, trace, "a payment failed that cannot be closed yet");
                return Ok(Taken::TryAgain);
            }
            CloseOutcome::Unknown => return Ok(self.unknown_order()),
        }
        Ok(Taken::Success)
    }

    async fn closed(&mut self) -> Result<Taken, FlowError> {
        let (order_id, method, trace) = (self.number.order(), self.method, self.trace);
        match payment_closed(&self.app.store, self.number).await? {
            PaymentClosed::Dropped(_) => {
                tracing::info!(%order_id, %method, trace, "a payment was closed unpaid; its order goes on waiting");
            }
            PaymentClosed::NotOpen(order) => {
                let status = order.status.as_str();
                tracing::info!(%order_id, %method, status, trace, "a payment was closed that its order does not wait for");
            }
            PaymentClosed::Unknown => return Ok(self.unknown_order()),
        }
        Ok(Taken::Success)
    }

    /// A refund is never believed done by a notice alone: the provider is asked, as it is every time.
    async fn refund(&mut self, notice: &Notice) -> Result<Taken, FlowError> {
        let (order_id, method, trace) = (self.number.order(), self.method, self.trace);
        let transaction = notice.transaction.as_deref().unwrap_or_default();
        if notice.outcome == Outcome::RefundFailed {
            tracing::error!(%order_id, %method, transaction, trace, "the provider says that a refund failed: look at it there");
        }
        let entry = match transaction {
            "" => None,
            transaction => self.app.store.refund_entry(order_id, method, transaction).await?,
        };
        let Some(entry) = entry else {
            // Of one that failed, no money went back; that is said already.
            if notice.outcome == Outcome::Refunded {
                tracing::error!(
                    %order_id, %method, transaction, trace,
                    "money went back that this system did not send: look at the order and at the provider"
                );
            }
            return Ok(Taken::Success);
        };
        let was_done = entry.done_at.is_some();
        let done = refund::go_on(&self.app.store, &self.app.providers, &entry, self.now).await?;
        tracing::info!(%order_id, %method, transaction, done, trace, "a refund was gone on with");
        if done && !was_done {
            self.metrics.count(Metric::Refunds);
        }
        Ok(Taken::Success)
    }

    fn count_settled(&mut self, order: &Order) {
        if let Some(method) = just_now::settled(order, self.now) {
            self.metrics.count_of(Metric::PaymentsSettled, method.as_str());
        }
    }

    /// Money that goes back may be back already.
    async fn count_returned(&mut self, arrived: &Arrived) -> Result<(), FlowError> {
        let entry = self.app.store.refund_entry(&arrived.order, arrived.method, &arrived.transaction).await?;
        if entry.is_some_and(|entry| just_now::done(entry.done_at, self.now)) {
            self.metrics.count(Metric::Refunds);
        }
        Ok(())
    }

    fn unknown_order(&self) -> Taken {
        let (order_id, method, trace) = (self.number.order(), self.method, self.trace);
        tracing::error!(%order_id, %method, trace, "a genuine notice about an order that is not there: look at the provider");
        Taken::Refused("UNKNOWN_ORDER")
    }

    fn undone(&self, error: &FlowError) -> Taken {
        let (order_id, method, trace) = (self.number.order(), self.method, self.trace);
        if error.may_pass() {
            tracing::warn!(%order_id, %method, %error, trace, "a notice was not worked on to its end: it comes again");
        } else {
            tracing::error!(%order_id, %method, %error, trace, "a notice cannot be worked on to its end");
        }
        Taken::TryAgain
    }
}
