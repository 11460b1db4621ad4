//! A provider says that a payment was closed unpaid: it is taken off its order, which goes on waiting for another.
//!
//! One write, guarded by the attempt: a notice that comes twice, late, or while somebody else closes the same payment finds nothing
//! left to do. Points that were frozen beside the payment thaw with it.

use domain::ids::PaymentNumber;
use domain::order::{Order, Status};
use store::{OrderChange, Store, StoreError};

/// What became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PaymentClosed {
    /// It is off the order now.
    Dropped(Box<Order>),
    /// The order does not wait for this payment: it has ended, has another open, or has none.
    NotOpen(Box<Order>),
    /// There is no such order.
    Unknown,
}

/// Takes a payment that its provider has closed off its order.
pub async fn payment_closed(store: &Store, number: &PaymentNumber) -> Result<PaymentClosed, StoreError> {
    let Some(order) = store.order(number.order()).await?.map(Box::new) else { return Ok(PaymentClosed::Unknown) };
    let open = order.payment.as_ref().filter(|payment| payment.attempt == number.attempt());
    let (Status::PendingPayment, Some(payment)) = (order.status, open) else {
        return Ok(PaymentClosed::NotOpen(order));
    };
    Ok(match store.drop_payment(&order, payment).await? {
        OrderChange::Made(order) => PaymentClosed::Dropped(order),
        // Changed in the same moment by somebody who closed it, too, or paid the order with another payment.
        OrderChange::Refused(Some(order)) => PaymentClosed::NotOpen(order),
        OrderChange::Refused(None) => PaymentClosed::Unknown,
    })
}
