//! A provider reports that a payment was closed unpaid: it is removed from its order, which goes on waiting for
//! another.
//!
//! One write, guarded by the attempt: a notice that is duplicated, late, or concurrent with another close of the
//! same payment finds nothing to do. Points that were frozen for the payment thaw with it.

use domain::ids::PaymentNumber;
use domain::order::{Order, Status};
use store::{OrderChange, Store, StoreError};

/// How it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PaymentClosed {
    /// This run removed the payment from its order.
    Dropped(Box<Order>),
    /// The order does not wait for this payment: it has ended, has another open, or has none.
    NotOpen(Box<Order>),
    /// There is no such order.
    Unknown,
}

/// Removes a payment that its provider has closed from its order.
pub async fn payment_closed(store: &Store, number: &PaymentNumber) -> Result<PaymentClosed, StoreError> {
    let Some(order) = store.order(number.order()).await?.map(Box::new) else { return Ok(PaymentClosed::Unknown) };
    let open = order.payment.as_ref().filter(|payment| payment.attempt == number.attempt());
    let (Status::PendingPayment, Some(payment)) = (order.status, open) else {
        return Ok(PaymentClosed::NotOpen(order));
    };
    Ok(match store.drop_payment(&order, payment).await? {
        OrderChange::Made(order) => PaymentClosed::Dropped(order),
        // Another request closed the payment at the same moment, or paid the order with another one.
        OrderChange::Refused(Some(order)) => PaymentClosed::NotOpen(order),
        OrderChange::Refused(None) => PaymentClosed::Unknown,
    })
}
