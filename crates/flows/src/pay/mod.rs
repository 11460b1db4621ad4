//! From the open order to its payment, its close or its refund.
//!
//! | file | what happens |
//! |---|---|
//! | `start_payment` | a buyer asks how to pay, or pays with points |
//! | `close_at_provider` | a payment is closed at its provider, before anything kept for it is given away |
//! | `settle` | money arrived: the order is paid, revived, or the money goes back |
//! | `payment_closed` | a provider reports that a payment was closed unpaid |
//! | `close` | an unpaid order ends: deadline, cancel or failed payment |
//! | `foreign_refund` | somebody refunded a payment in the provider's console |
//! | `resolve` | an operator resolves what is stuck |
//! | `refund` | money goes back, with or without the order's units |

pub mod close;
pub(crate) mod close_at_provider;
pub mod foreign_refund;
pub mod payment_closed;
pub mod refund;
pub mod resolve;
pub mod settle;
pub mod start_payment;
