//! An operator resolves what this system cannot: a refund that the provider refuses for good, a payment about which it
//! says nothing, a matter of money.
//!
//! The decision is one conditional write of the order, in one transaction with the record of who decided it and why.
//!
//! | resolved as | the order | step | stopped after it | repaired by |
//! |---|---|---|---|---|
//! | refunded by hand | any with an open refund | the record | nothing is decided | the operator asks again |
//! | | REFUNDING | REFUNDED, claim, units, mark: as in [`crate::pay::refund`] | the mark | the operator, again |
//! | keep as paid | REFUNDING | PAID, mark removed, the record: one transaction | open matters | the operator, again |
//! | close without provider | waits | CLOSED, the record: one transaction | claim and units | reconcile |
//! | each | | open matters are closed | those left stay open | the operator, again |
//!
//! Money that moves after the decision is handled as always: a refund that the provider makes after all is one that
//! this system did not ask for, and money for a closed order revives it or goes back.

use domain::Timestamp;
use domain::ids::OrderId;
use domain::order::{Order, Status};
use domain::payment::{Matter, OpenEntry, RefundCause, RefundEntry, Resolution, Resolved};
use store::{OrderChange, Store};

use crate::error::FlowError;
use crate::finish;

/// What an operator decides, and why.
#[derive(Clone, Debug)]
pub struct Resolve {
    pub order: OrderId,
    pub resolution: Resolution,
    pub reason: String,
    /// The `sub` of the operator's token.
    pub by: String,
}

/// How it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResolveOutcome {
    /// The order as it is now.
    Done(Box<Order>),
    /// Nothing in this order can be resolved in this way.
    Refused(Box<Order>),
    /// There is no such order. Matters that name it are closed; how many there were.
    Unknown { matters: usize },
}

/// Carries out an operator's decision.
pub async fn resolve(store: &Store, asked: &Resolve, now: Timestamp) -> Result<ResolveOutcome, FlowError> {
    let open = store.open_entries_of(&asked.order).await?;
    let (refunds, matters) = split(open);
    let Some(order) = store.order(&asked.order).await? else {
        let before = Status::Failed;
        close_matters(store, &matters, &record(asked, before, now)).await?;
        return Ok(ResolveOutcome::Unknown { matters: matters.len() });
    };
    let resolved = record(asked, order.status, now);
    let possible = match asked.resolution {
        Resolution::RefundedByHand => !refunds.is_empty() || (order.status == Status::Refunded && !matters.is_empty()),
        Resolution::KeepAsPaid => order.status == Status::Refunding || !matters.is_empty(),
        Resolution::CloseWithoutProvider => matches!(order.status, Status::PendingPayment | Status::Closed),
    };
    if !possible {
        return Ok(ResolveOutcome::Refused(Box::new(order)));
    }
    match asked.resolution {
        Resolution::RefundedByHand => {
            store.log_resolved(&resolved).await?;
            for entry in &refunds {
                if entry.cause == RefundCause::Order {
                    finish::refunded(store, entry, now).await?;
                }
                store.close_refund_entry(entry, now).await?;
            }
        }
        Resolution::KeepAsPaid if order.status == Status::Refunding => {
            let entry = refunds.iter().find(|entry| entry.cause == RefundCause::Order);
            // Without an open entry the refund is being finished at this moment.
            let Some(entry) = entry else { return Ok(ResolveOutcome::Refused(Box::new(order))) };
            if !store.keep_as_paid(entry, &resolved, now).await? {
                return Err(FlowError::Busy);
            }
        }
        Resolution::KeepAsPaid => store.log_resolved(&resolved).await?,
        Resolution::CloseWithoutProvider => match store.close_without_provider(&order, &resolved, now).await? {
            OrderChange::Made(closed) => finish::closed(store, &closed).await?,
            // It was closed before: its steps are completed. Or it was paid or changed at this moment.
            OrderChange::Refused(Some(found)) if found.status == Status::Closed => {
                finish::closed(store, &found).await?;
            }
            OrderChange::Refused(_) => return Err(FlowError::Busy),
        },
    }
    close_matters(store, &matters, &resolved).await?;
    Ok(match store.order(&asked.order).await? {
        Some(order) => ResolveOutcome::Done(Box::new(order)),
        None => ResolveOutcome::Unknown { matters: matters.len() },
    })
}

fn record(asked: &Resolve, before: Status, now: Timestamp) -> Resolved {
    Resolved {
        order: asked.order.clone(),
        resolution: asked.resolution,
        reason: asked.reason.clone(),
        by: asked.by.clone(),
        before,
        at: now,
    }
}

fn split(open: Vec<OpenEntry>) -> (Vec<RefundEntry>, Vec<Matter>) {
    let (mut refunds, mut matters) = (Vec::new(), Vec::new());
    for entry in open {
        match entry {
            OpenEntry::Refund(entry) => refunds.push(entry),
            OpenEntry::Matter(matter) => matters.push(matter),
            // Money that is not settled yet: reconcile settles it.
            OpenEntry::Pay(_) => {}
        }
    }
    (refunds, matters)
}

async fn close_matters(store: &Store, matters: &[Matter], resolved: &Resolved) -> Result<(), FlowError> {
    for matter in matters {
        store.close_matter(matter, resolved).await?;
    }
    Ok(())
}
