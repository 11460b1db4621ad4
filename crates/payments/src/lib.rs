//! Payment providers behind one trait, [`PaymentProvider`]: Alipay, WeChat Pay v3 and v2, Stripe.
//!
//! Nothing here opens a connection, reads a clock or draws a random number. A provider **builds** signed requests
//! ([`HttpCall`]) and **interprets** the answers to them ([`HttpAnswer`]); it verifies a notice over its raw bytes and
//! then reads it. So the same code runs in a function, in a test and in a simulation.
//!
//! What this crate promises:
//! - No input makes it panic, and every input has a limit on its size: [`MAX_NOTICE`] for a notice. The caller who
//!   opens the connection limits an answer (`MAX_ANSWER_BYTES` in the crate `providers`).
//! - Only a verified answer or a verified notice makes it say that something is paid, closed, missing or refunded. One
//!   exception: WeChat Pay v2 encrypts the notice of a refund but does not sign it; see [`Outcome::Refunded`].
//! - Money is an integer in minor units. Alipay's decimal text is converted exactly.
//! - Keys are never printed.
//!
//! Whether a payment is the one that the order asked for is decided by `domain::payment::money_verdict`.
//!
//! To add a provider, write its folder (an implementation of [`PaymentProvider`] and [`FromSettings`]) and add one line
//! to `list.rs`. `tests/toy.rs` shows the smallest provider there can be.

mod http;
mod list;
mod notice;
mod payment;
mod provider;
mod shared;

pub mod alipay;
pub mod sandbox;
pub mod stripe;
pub mod wechat_v2;
pub mod wechat_v3;

pub use http::{Headers, HttpAnswer, HttpCall, Method};
pub use list::ProviderKind;
pub use notice::{Notice, NoticeError, Outcome, Subject};
pub use payment::{
    Created, Nonce, Paid, PaymentRef, PaymentRequest, PaymentStatus, ProviderCloseAnswer, ProviderError, RefundNumber,
    RefundRequest, Refunding, Start, Way,
};
pub use provider::{FromSettings, PaymentProvider, Provider, ReturnPage};
pub use shared::crypto::SettingsError;
pub use shared::qr::qr_svg;

/// The longest notice that is read, in bytes. The longest that a provider sends has a few thousand.
pub const MAX_NOTICE: usize = 64 * 1024;

/// A notice that was signed this many seconds ago or more, or that far in the future, is refused: it may be a replay.
pub const MAX_SKEW_S: i64 = 300;

#[cfg(test)]
mod tests;
