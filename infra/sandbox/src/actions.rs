//! What a buyer, or chance, does to a payment.

use payments::ProviderKind;
use payments::sandbox::{Happened, State};
use rusqlite::Transaction;

use super::rows::{self, Ended, Kept};
use super::view::PaymentView;
use super::{Now, Sandbox, SandboxError, Side, create, notices, refund};

/// What can be done to a payment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The buyer pays.
    Pay,
    /// The buyer tries to pay and cannot.
    Fail,
    /// Money arrives although the payment was closed or had expired.
    PayLate,
    /// The last notice is sent once more.
    NotifyAgain,
    /// The buyer confirms with a delayed method, at Stripe: the money comes later (pay), or never (fail).
    Confirm,
    /// The merchant refunds all that is left in the provider's console.
    RefundInConsole,
    /// The merchant refunds half of what is left in the provider's console.
    RefundPartInConsole,
    /// The last refund fails, although it had been made.
    FailRefund,
    /// A refund that was pending, or that the buyer's bank did not take, is completed.
    FinishRefund,
    /// The buyer disputes the payment at the bank, at Stripe.
    Dispute,
}

impl Action {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Pay,
        Self::Fail,
        Self::PayLate,
        Self::NotifyAgain,
        Self::Confirm,
        Self::RefundInConsole,
        Self::RefundPartInConsole,
        Self::FailRefund,
        Self::FinishRefund,
        Self::Dispute,
    ];

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pay => "pay",
            Self::Fail => "fail",
            Self::PayLate => "pay-late",
            Self::NotifyAgain => "notify-again",
            Self::Confirm => "confirm",
            Self::RefundInConsole => "refund-in-console",
            Self::RefundPartInConsole => "refund-part-in-console",
            Self::FailRefund => "fail-refund",
            Self::FinishRefund => "finish-refund",
            Self::Dispute => "dispute",
        }
    }

    /// The action of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|action| action.as_str() == name)
    }
}

impl Sandbox {
    /// Does something to a payment, given by the merchant's number or one of the provider's. `kind` tells payments of
    /// several providers under the same number apart; without it the latest is meant.
    pub async fn act(&self, kind: Option<ProviderKind>, id: &str, action: Action) -> Result<PaymentView, SandboxError> {
        let (side, now, wanted) = (self.side().await?, self.now(), id.to_owned());
        let done = self.database.transaction(move |db| {
            create::expire(db, &side, now)?;
            let found = rows::by_any(db, kind, &wanted)?;
            let mut kept = found.ok_or(SandboxError::Unknown(wanted))?;
            carry_out(db, &side, &mut kept, action, now)?;
            PaymentView::read(db, &side, &kept, now)
        });
        let view = done.await?;
        self.changed();
        Ok(view)
    }

    /// A buyer follows a link or reads a QR code: gives the payment that is behind it. Alipay knows of a payment
    /// from then on.
    pub async fn open(&self, url: &str) -> Result<PaymentView, SandboxError> {
        let unusable = || SandboxError::Invalid(format!("{url} is no link of the sandbox's: use the one that it gave"));
        let uri: http::Uri = url.parse().map_err(|_| unusable())?;
        let Some((_, path)) = uri.path().split_once(super::PATH) else { return Err(unusable()) };
        let path = path.trim_start_matches('/');
        if let Some(id) = path.strip_prefix("payments/") {
            return self.look(id, true).await;
        }
        if !path.starts_with("alipay/") {
            return Err(unusable());
        }
        let request = http::Request::get(uri.clone()).body(bytes::Bytes::new()).map_err(|_| unusable())?;
        let answer = self.call(ProviderKind::Alipay, request).await;
        let page = answer.headers().get(http::header::LOCATION).and_then(|link| link.to_str().ok());
        match page.and_then(|link| link.rsplit_once('/')) {
            Some((_, id)) => self.look(id, true).await,
            None => Err(SandboxError::Invalid(format!(
                "Alipay refuses the link: {}",
                String::from_utf8_lossy(answer.body())
            ))),
        }
    }

    /// A payment as it stands, by any of its numbers. A buyer who looks at it has opened it.
    pub(super) async fn look(&self, id: &str, as_buyer: bool) -> Result<PaymentView, SandboxError> {
        let (side, now, wanted) = (self.side().await?, self.now(), id.to_owned());
        let seen = self.database.transaction(move |db| {
            create::expire(db, &side, now)?;
            let found = rows::by_any(db, None, &wanted)?;
            let mut kept = found.ok_or(SandboxError::Unknown(wanted))?;
            if as_buyer && !kept.opened && kept.payment.state == State::NotPaid {
                kept.opened = true;
                rows::update(db, &kept)?;
            }
            PaymentView::read(db, &side, &kept, now)
        });
        seen.await
    }
}

fn carry_out(db: &Transaction<'_>, side: &Side, kept: &mut Kept, action: Action, now: Now) -> Result<(), SandboxError> {
    let open = kept.payment.state == State::NotPaid;
    let number = kept.payment.number.clone();
    let refused = |is, instead| Err(SandboxError::WrongState { number, is, instead });
    match (action, kept.payment.state, kept.ended) {
        (Action::Pay, State::NotPaid | State::Processing, _) => pay(db, side, kept, now),
        (Action::PayLate, State::Processing, _) => refused("is confirmed", "use pay"),
        (Action::Confirm, State::NotPaid, _) if kept.kind == ProviderKind::Stripe => confirm(db, side, kept, now),
        (Action::Confirm, _, _) => refused("cannot be confirmed", "only an open payment at Stripe can be"),
        (Action::RefundInConsole | Action::RefundPartInConsole, State::Paid, _) => {
            let left = kept.payment.amount.saturating_sub(kept.refunded);
            let amount = if action == Action::RefundInConsole { left } else { left / 2 };
            if amount == 0 {
                return refused("has too little left", "refund all of it");
            }
            refund::refund_in_console(db, side, kept, amount, now)
        }
        (Action::RefundInConsole | Action::RefundPartInConsole, _, _) => {
            refused("has nothing to refund", "pay it first")
        }
        (Action::FailRefund, _, _) => match refund::fail_last(db, side, kept, now)? {
            true => Ok(()),
            false => refused("has no refund that could fail", "refund it first"),
        },
        (Action::FinishRefund, _, _) => match refund::finish_last(db, side, kept, now)? {
            true => Ok(()),
            false => refused("has no refund that is pending", "refund it first"),
        },
        (Action::Dispute, State::Paid | State::Refunded, _) if kept.kind == ProviderKind::Stripe => {
            notices::tell(db, side, kept, Happened::Disputed, None, now)
        }
        (Action::Dispute, _, _) => refused("cannot be disputed", "only a paid payment at Stripe can be"),
        (Action::PayLate, State::Closed, _) => pay(db, side, kept, now),
        (Action::PayLate, State::NotPaid, _) => refused("can still be paid", "use pay"),
        (Action::Pay | Action::PayLate, State::Paid, _) => refused("was paid before", "one payment takes money once"),
        (Action::Pay | Action::PayLate, State::Refunded, _) => {
            refused("was paid and refunded", "one payment takes money once")
        }
        (Action::Pay, State::Closed, Some(Ended::Expired)) => {
            refused("has expired", "start another, or use pay-late for money that arrives all the same")
        }
        (Action::Pay, State::Closed, Some(Ended::Failed)) => {
            refused("has failed", "start another, or use pay-late for money that arrives all the same")
        }
        (Action::Pay, State::Closed, _) => {
            refused("was closed", "start another, or use pay-late for money that arrives all the same")
        }
        (Action::Fail, _, _) if open => fail(db, side, kept, now),
        (Action::Fail, State::Processing, _) => create::end(db, side, kept, Ended::Failed, now),
        (Action::Fail, State::Closed, _) => refused("can no longer be paid", "there is nothing left to fail"),
        (Action::Fail, _, _) => refused("was paid before", "there is nothing left to fail"),
        (Action::NotifyAgain, _, _) => match notices::tell_again(db, kept, now)? {
            true => Ok(()),
            false => Err(SandboxError::NoNotice(kept.payment.number.clone())),
        },
    }
}

fn pay(db: &Transaction<'_>, side: &Side, kept: &mut Kept, now: Now) -> Result<(), SandboxError> {
    let happened = if kept.payment.state == State::Processing { Happened::PaidAtLast } else { Happened::Paid };
    kept.payment.state = State::Paid;
    kept.payment.paid_at = Some(now.at);
    (kept.opened, kept.ended) = (true, None);
    rows::update(db, kept)?;
    rows::book(db, kept, None, now)?;
    notices::tell(db, side, kept, happened, None, now)
}

/// The buyer has confirmed, and the session is complete without being paid.
fn confirm(db: &Transaction<'_>, side: &Side, kept: &mut Kept, now: Now) -> Result<(), SandboxError> {
    kept.payment.state = State::Processing;
    kept.opened = true;
    rows::update(db, kept)?;
    notices::tell(db, side, kept, Happened::Confirmed, None, now)
}

/// At Stripe a payment that failed afterwards is over; the others let the buyer try again.
fn fail(db: &Transaction<'_>, side: &Side, kept: &mut Kept, now: Now) -> Result<(), SandboxError> {
    kept.opened = true;
    if kept.kind == ProviderKind::Stripe {
        return create::end(db, side, kept, Ended::Failed, now);
    }
    rows::update(db, kept)?;
    notices::tell(db, side, kept, Happened::Failed, None, now)
}

/// Shorter, for tests.
impl Sandbox {
    /// [`Action::Pay`].
    pub async fn pay(&self, id: &str) -> Result<PaymentView, SandboxError> {
        self.act(None, id, Action::Pay).await
    }

    /// [`Action::Fail`].
    pub async fn fail(&self, id: &str) -> Result<PaymentView, SandboxError> {
        self.act(None, id, Action::Fail).await
    }

    /// [`Action::PayLate`].
    pub async fn pay_late(&self, id: &str) -> Result<PaymentView, SandboxError> {
        self.act(None, id, Action::PayLate).await
    }

    /// [`Action::NotifyAgain`].
    pub async fn notify_again(&self, id: &str) -> Result<PaymentView, SandboxError> {
        self.act(None, id, Action::NotifyAgain).await
    }
}
