//! What follows from a verified notice.
//!
//! | the notice | what happens |
//! |---|---|
//! | about one of the shop's ordinary orders | forwarded to the shop's queue |
//! | paid | the order is settled; money that is not what was asked for becomes a matter for an operator |
//! | failed | the order is closed, its units return |
//! | closed unpaid | the payment is removed from the order, which goes on waiting |
//! | a refund of this system succeeded or failed | that refund is resumed, or opened again |
//! | a refund that somebody made in the provider's console | all of it: the order is refunded; a part: recorded |
//! | such a refund failed afterwards | what is recorded is corrected, or the refund opened again; a matter |
//! | a dispute | a matter for an operator |

use domain::Timestamp;
use domain::ids::PaymentNumber;
use domain::order::{Order, Reason};
use domain::payment::{Arrived, Matter, MatterKind, Method};
use flows::pay::close::{Cause, CloseOutcome, close};
use flows::pay::foreign_refund::{Foreign, foreign_refund, foreign_refund_failed};
use flows::pay::payment_closed::{PaymentClosed, payment_closed};
use flows::pay::refund::{self, FailedRefund, Progress};
use flows::pay::settle::{Settled, settle_notice};
use flows::{Context, FlowError};
use payments::{Notice, Outcome, Paid, Subject};
use telemetry::{Metric, Metrics};

use crate::{App, NoticeAnswer, forward};

/// One notice, with everything its handling needs.
struct Work<'a> {
    app: &'a App,
    method: Method,
    number: &'a PaymentNumber,
    now: Timestamp,
    trace: Option<&'a str>,
    metrics: &'a mut Metrics,
}

/// Does what follows from a notice. A failure is logged here, once.
pub(crate) async fn act(
    app: &App,
    notice: &Notice,
    raw: &[u8],
    now: Timestamp,
    trace: Option<&str>,
    metrics: &mut Metrics,
) -> NoticeAnswer {
    let number = match &notice.subject {
        Subject::FlashSale(number) => number,
        Subject::Ordinary(order) => return forward::forward(app, notice, order, raw, trace, metrics).await,
        Subject::Transaction => match subject(app, notice, now, trace).await {
            Ok(Some(found)) => {
                let notice = Notice { subject: found, ..notice.clone() };
                return Box::pin(act(app, &notice, raw, now, trace, metrics)).await;
            }
            Ok(None) => return NoticeAnswer::Success,
            Err(answer) => return answer,
        },
    };
    metrics.note("order_id", number.order());
    let mut work = Work { app, method: notice.provider.method(), number, now, trace, metrics };
    match work.carry_out(notice).await {
        Ok(taken) => taken,
        Err(error) => work.failed_answer(&error),
    }
}

/// Asks the provider what a notice is about that names its transaction only. `None`: nothing of this system.
async fn subject(
    app: &App,
    notice: &Notice,
    now: Timestamp,
    trace: Option<&str>,
) -> Result<Option<Subject>, NoticeAnswer> {
    let (kind, transaction) = (notice.provider, notice.transaction.as_deref().unwrap_or_default());
    match app.providers.subject(kind, transaction, now).await {
        Ok(found) => Ok(found.filter(|found| *found != Subject::Transaction)),
        Err(error) => {
            tracing::warn!(provider = %kind, transaction, %error, trace, "it is not known what a notice is about");
            Err(if error.may_pass() { NoticeAnswer::TryAgain } else { NoticeAnswer::Success })
        }
    }
}

impl<'a> Work<'a> {
    fn context(&self) -> Context<'a> {
        self.app.context(self.now)
    }

    async fn carry_out(&mut self, notice: &Notice) -> Result<NoticeAnswer, FlowError> {
        match (&notice.outcome, notice.paid()) {
            (_, Some(paid)) => self.paid(paid).await,
            (Outcome::Failed, _) => self.failed().await,
            (Outcome::Closed, _) => self.closed().await,
            (Outcome::Refunded | Outcome::PartlyRefunded | Outcome::RefundFailed, _) => self.refund(notice).await,
            (Outcome::Disputed(why), _) => {
                self.matter(notice, MatterKind::Dispute, why).await?;
                Ok(NoticeAnswer::Success)
            }
            (Outcome::Paid | Outcome::Other(_), _) => {
                let (order_id, method, trace) = (self.number.order(), self.method, self.trace);
                tracing::info!(%order_id, %method, outcome = ?notice.outcome, trace, "a notice that asks for nothing");
                Ok(NoticeAnswer::Success)
            }
        }
    }

    async fn paid(&mut self, paid: Paid) -> Result<NoticeAnswer, FlowError> {
        let arrived = Arrived {
            order: self.number.order().clone(),
            attempt: self.number.attempt(),
            method: self.method,
            transaction: paid.transaction,
            amount: paid.amount,
            currency: paid.currency,
            refunded: None,
        };
        let settled = settle_notice(self.context(), arrived.clone(), paid.paid_at).await?;
        let (order_id, method, trace) = (&arrived.order, self.method, self.trace);
        let (transaction, amount, currency) = (&arrived.transaction, arrived.amount, &arrived.currency);
        match settled {
            Settled::Paid(order) => {
                tracing::info!(%order_id, %method, transaction, amount, %currency, trace, "an order was paid");
                self.count_settled(&order);
            }
            Settled::Revived(order) => {
                tracing::info!(
                    %order_id, %method, transaction, amount, %currency, trace,
                    "a closed order was paid, and lives again"
                );
                self.count_settled(&order);
            }
            Settled::AlreadyPaid(_) => {
                tracing::info!(%order_id, %method, transaction, trace, "an order had been paid with this before");
            }
            Settled::Returned { newly_refunded, .. } => {
                tracing::warn!(
                    %order_id, %method, transaction, amount, %currency, trace,
                    "money that its order cannot use goes back"
                );
                if newly_refunded {
                    self.metrics.count(Metric::Refunds);
                }
            }
            Settled::Wrong(order) => {
                let (status, asked) = (order.status.as_str(), order.attempts.get(usize::from(arrived.attempt)));
                tracing::error!(
                    %order_id, %method, transaction, amount, %currency, status, ?asked, trace,
                    "money arrived that no payment asked for: look at it, and send it back at the provider"
                );
                return Ok(NoticeAnswer::Refused("WRONG_PAYMENT"));
            }
            Settled::Unknown => return Ok(self.unknown_order()),
        }
        Ok(NoticeAnswer::Success)
    }

    async fn failed(&mut self) -> Result<NoticeAnswer, FlowError> {
        let cause = Cause::PaymentFailed { attempt: self.number.attempt() };
        let (order_id, method, trace) = (self.number.order(), self.method, self.trace);
        match close(self.context(), order_id, cause).await? {
            CloseOutcome::Closed(_) => {
                tracing::info!(%order_id, %method, trace, "a payment failed, and its order was closed");
                self.metrics.count_of(Metric::OrdersClosed, Reason::PaymentFailed.as_str());
            }
            CloseOutcome::AlreadyClosed(order) | CloseOutcome::NotDue(order) | CloseOutcome::Refused(order) => {
                let status = order.status.as_str();
                tracing::info!(%order_id, %method, status, trace, "a payment failed that its order does not wait for");
            }
            CloseOutcome::Paid { order, newly } => {
                tracing::info!(%order_id, %method, trace, "a payment had failed, and was made after all");
                if newly {
                    self.count_settled(&order);
                }
            }
            // The provider sends the notice again later, and by then the payment can be closed.
            CloseOutcome::NotBefore(_, moment) => {
                tracing::info!(%order_id, %method, %moment, trace, "a payment failed that cannot be closed yet");
                return Ok(NoticeAnswer::TryAgain);
            }
            CloseOutcome::Unknown => return Ok(self.unknown_order()),
        }
        Ok(NoticeAnswer::Success)
    }

    async fn closed(&mut self) -> Result<NoticeAnswer, FlowError> {
        let (order_id, method, trace) = (self.number.order(), self.method, self.trace);
        match payment_closed(&self.app.store, self.number).await? {
            PaymentClosed::Dropped(_) => {
                tracing::info!(%order_id, %method, trace, "a payment was closed unpaid; its order goes on waiting");
            }
            PaymentClosed::NotOpen(order) => {
                let status = order.status.as_str();
                tracing::info!(
                    %order_id, %method, status, trace,
                    "a payment was closed that its order does not wait for"
                );
            }
            PaymentClosed::Unknown => return Ok(self.unknown_order()),
        }
        Ok(NoticeAnswer::Success)
    }

    /// A notice alone never proves that a refund is done: the provider is asked, as always.
    async fn refund(&mut self, notice: &Notice) -> Result<NoticeAnswer, FlowError> {
        let (order_id, method, trace) = (self.number.order(), self.method, self.trace);
        let transaction = notice.transaction.as_deref().unwrap_or_default();
        if notice.outcome == Outcome::RefundFailed {
            tracing::error!(
                %order_id, %method, transaction, trace,
                "the provider says that a refund failed: look at it there"
            );
        }
        let entry = match transaction {
            "" => None,
            transaction => self.app.store.refund_entry(order_id, method, transaction).await?,
        };
        let Some(entry) = entry else {
            match notice.outcome {
                // Without a transaction nothing can be asked, and it is logged already.
                Outcome::RefundFailed if transaction.is_empty() => {}
                Outcome::RefundFailed => {
                    let failed = foreign_refund_failed(self.context(), self.number, method, transaction).await?;
                    self.late_failure(transaction, failed);
                }
                _ => self.foreign_refund(notice, transaction).await?,
            }
            return Ok(NoticeAnswer::Success);
        };
        if notice.outcome == Outcome::RefundFailed {
            let failed = refund::refund_failed(self.context(), &entry).await?;
            self.late_failure(transaction, failed);
            // Reconcile asks again, under a new number.
            if failed != FailedRefund::Nothing {
                return Ok(NoticeAnswer::Success);
            }
        }
        let progress = refund::resume(self.context(), &entry).await?;
        tracing::info!(%order_id, %method, transaction, ?progress, trace, "refund resumed");
        if progress == Progress::Done {
            self.metrics.count(Metric::Refunds);
        }
        Ok(NoticeAnswer::Success)
    }

    /// Counts a refund that failed after it was done. Its matter is open already.
    fn late_failure(&mut self, transaction: &str, failed: FailedRefund) {
        if matches!(failed, FailedRefund::Reopened | FailedRefund::Corrected) {
            let (order_id, method, trace) = (self.number.order(), self.method, self.trace);
            tracing::error!(%order_id, %method, transaction, ?failed, trace, "a refund failed after it was done");
            self.metrics.count_of(Metric::MoneyMatters, MatterKind::LateRefundFailure.as_str());
        }
    }

    /// Money went back that this system did not send: somebody refunded in the provider's console.
    async fn foreign_refund(&mut self, notice: &Notice, transaction: &str) -> Result<(), FlowError> {
        let (order_id, method, trace) = (self.number.order(), self.method, self.trace);
        let foreign = foreign_refund(self.context(), self.number, method, transaction).await?;
        tracing::error!(
            %order_id, %method, transaction, ?foreign, trace,
            "money went back that this system did not send"
        );
        if foreign == Foreign::Refunded {
            self.metrics.count(Metric::Refunds);
        }
        self.matter(notice, MatterKind::ForeignRefund, "refunded at the provider, not by this system").await
    }

    /// Opens a matter for an operator.
    async fn matter(&mut self, notice: &Notice, kind: MatterKind, words: &str) -> Result<(), FlowError> {
        let (order_id, method, trace) = (self.number.order(), self.method, self.trace);
        tracing::error!(%order_id, %method, kind = kind.as_str(), words, trace, "a matter of money for an operator");
        let matter = Matter {
            order: order_id.clone(),
            kind,
            method,
            transaction: notice.transaction.clone().unwrap_or_default(),
            amount: notice.amount,
            currency: notice.currency.clone(),
            words: words.chars().take(200).collect(),
            at: self.now,
        };
        self.metrics.count_of(Metric::MoneyMatters, kind.as_str());
        Ok(self.app.store.log_matter(&matter).await?)
    }

    fn count_settled(&mut self, order: &Order) {
        if let Some(with) = &order.paid {
            self.metrics.count_of(Metric::PaymentsSettled, with.method.as_str());
        }
    }

    fn unknown_order(&self) -> NoticeAnswer {
        let (order_id, method, trace) = (self.number.order(), self.method, self.trace);
        tracing::error!(
            %order_id, %method, trace,
            "a genuine notice about an order that is not there: look at the provider"
        );
        NoticeAnswer::Refused("UNKNOWN_ORDER")
    }

    fn failed_answer(&self, error: &FlowError) -> NoticeAnswer {
        let (order_id, method, trace) = (self.number.order(), self.method, self.trace);
        if error.may_pass() {
            tracing::warn!(
                %order_id, %method, %error, trace,
                "a notice was not handled completely: it will come again"
            );
        } else {
            tracing::error!(%order_id, %method, %error, trace, "a notice cannot be handled");
        }
        NoticeAnswer::TryAgain
    }
}
